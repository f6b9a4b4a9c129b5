"""`Compiled.save` and `load`: one file, whole or refused, readable without JAX."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import stat
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector._jax.lowering.signature import parse_module, read_signature
from inspector._jax.modules import stablehlo
from inspector.compilation.compiled import digest_of
from inspector.compilation.cost import Cost
from inspector.compilation.memory import Memory
from inspector.compilation.options.options import Options
from inspector.engines.inline import InlineEngine
from inspector.errors import InspectorError, ModuleError, Unavailable
from inspector.stages.compiled import Compiled, load_compiled
from tests.conftest import RunPython
from tests.without_jax import NO_JAX, WITHOUT_JAX


def step(params: dict[str, Any], x: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
    return jax.lax.psum(x @ params["w"], "i"), params


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    lowered = inspector.lower(step, {"w": jnp.ones((3, 2))}, jnp.ones((4, 3)), axis_env=[("i", 2)], donate_argnums=0)
    options = Options(flags={"xla_cpu_enable_fast_math": True})
    return lowered.compile(options, "attached", InlineEngine())


@pytest.fixture
def saved(compiled: Compiled, tmp_path: Path) -> Path:
    compiled.save(tmp_path / "a.inspector")
    return tmp_path / "a.inspector"


def rewrite(path: Path, **entries: bytes) -> Path:
    """The archive with other contents for some of its files."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents |= {name.replace("__", "."): data for name, data in entries.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def manifest(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        found: dict[str, Any] = json.loads(archive.read("manifest.json"))
    return found


def test_a_round_trip_gives_an_equal_value(compiled: Compiled, saved: Path) -> None:
    loaded = load_compiled(saved)
    assert loaded == compiled
    assert digest_of(loaded) == digest_of(compiled)
    assert loaded.program.mesh == compiled.program.mesh
    assert loaded.program.arguments[0].donated
    assert isinstance(loaded.memory, Memory)
    assert isinstance(loaded.cost, Cost)
    assert repr(loaded) == repr(compiled)
    assert pickle.loads(pickle.dumps(compiled)) == compiled


def test_a_loaded_program_runs_and_equals_the_saved_one(compiled: Compiled, saved: Path) -> None:
    loaded, engine = load_compiled(str(saved)), InlineEngine()
    args = ({"w": np.ones((3, 2), np.float32)}, np.arange(24, dtype=np.float32).reshape(2, 4, 3))
    run = loaded.run(*args, repeat=1, engine=engine)
    np.testing.assert_array_equal(run.outputs[0], compiled.run(*args, repeat=1, engine=engine).outputs[0])
    assert list(loaded.collectives().table()["replica_groups"]) == [[[0, 1]]]
    assert list(loaded.instructions()["name"]) == list(compiled.instructions()["name"])
    assert isinstance(run.result, Unavailable)
    assert "pytree structure" in run.result.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"memory": Unavailable("no statistics", "use a CPU"), "cost": Unavailable("none")},
        {"cost": Cost(1e12, Unavailable("not counted"), float("inf"))},
        {"_executable": Unavailable("the program calls back")},
        {"warnings": ("a\nb", "ünicode"), "timings": {}, "_executable": b""},
    ],
)
def test_unknown_values_stay_unknown(compiled: Compiled, tmp_path: Path, changes: dict[str, Any]) -> None:
    partly = dataclasses.replace(compiled, **changes)
    partly.save(tmp_path / "b")
    assert load_compiled(tmp_path / "b") == partly


def test_a_saved_program_loads_without_jax(saved: Path, compiled: Compiled, one_device_python: RunPython) -> None:
    script = f"""{WITHOUT_JAX}from inspector.compilation.compiled import digest_of
from inspector.stages.compiled import load_compiled
from inspector.analysis.cost.stats import compare
loaded = load_compiled({str(saved)!r})
{NO_JAX}
print(digest_of(loaded), compare(loaded).index[0], len(loaded.hlo))
"""
    out = one_device_python(script).stdout.split()
    assert out == [digest_of(compiled), "peak_bytes", str(len(compiled.hlo))]


def test_another_jax_reads_the_portable_module(
    compiled: Compiled, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLIR's bytecode of one jaxlib cannot be read by every other one."""
    assert load_compiled(saved).program.module == compiled.program.module
    monkeypatch.setattr("inspector.support.packages.version", lambda _: "99.0")
    other = load_compiled(saved).program
    assert other.module != compiled.program.module
    assert stablehlo.parse_stablehlo(other.module).operation.name == "builtin.module"
    assert "all_reduce" in stablehlo.full_text(other.module)
    signatures = [read_signature(parse_module(program.module)) for program in (compiled.program, other)]
    assert signatures[0] == signatures[1]  # with which it is compiled again
    damaged = rewrite(saved, **{"module.stablehlo": b"StableHLO"})
    with pytest.raises(ModuleError, match=r"module\.stablehlo does not match its digest"):
        load_compiled(damaged)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(compiled: Compiled, saved: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(TypeError):
        dataclasses.replace(compiled, timings={"compile_s": object()}).save(saved)  # type: ignore[dict-item]
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
    with pytest.raises(FileNotFoundError):
        compiled.save(saved.parent / "none" / "a")


@pytest.mark.skipif(os.name == "nt", reason="no limits of a process")
def test_a_save_without_disk_space_names_the_folder(compiled: Compiled, saved: Path) -> None:
    import resource

    before, (soft, hard) = saved.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match=re.escape(repr(str(saved)))):
            compiled.save(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.skipif(os.name == "nt", reason="no file modes")
def test_others_may_read_the_file_as_any_new_one(saved: Path) -> None:
    plain = saved.with_name("plain")
    plain.write_text("")
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_newer_format_is_refused_with_the_reason(saved: Path) -> None:
    newer = manifest(saved) | {"format_version": 99}
    rewrite(saved, manifest__json=json.dumps(newer).encode())
    with pytest.raises(ModuleError, match=r"has format version 99, but this inspector reads 2\. Update inspector"):
        load_compiled(saved)


def test_a_changed_blob_is_damage(saved: Path) -> None:
    rewrite(saved, optimized__hlo=b"HloModule other")
    with pytest.raises(ModuleError, match=r"is damaged: its optimized\.hlo does not match its digest"):
        load_compiled(saved)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "something else"}, "has the format 'something else', expected 'inspector-compiled'"),
        ({"format_version": "1"}, "has format version '1', but this inspector reads 2"),
        ({"format_version": 1}, "this inspector reads 2. Save it again."),
        ({"compiled": {}}, "is damaged: its manifest.json"),
        ({"sha256": {}}, "is damaged"),
        ({"sha256": None}, "is not a saved Compiled: manifest.json.sha256: expected an object, got None"),
    ],
)
def test_a_changed_manifest_is_refused(saved: Path, change: dict[str, Any], words: str) -> None:
    rewrite(saved, manifest__json=json.dumps(manifest(saved) | change).encode())
    with pytest.raises(ModuleError) as caught:
        load_compiled(saved)
    assert words in str(caught.value)


def test_a_value_of_the_manifest_that_was_changed_is_damage(saved: Path) -> None:
    changed = manifest(saved)
    changed["compiled"]["timings"] = {"compile_s": -5}
    rewrite(saved, manifest__json=json.dumps(changed).encode())
    with pytest.raises(ModuleError, match=r"is damaged: its manifest\.json does not match its digest"):
        load_compiled(saved)


@pytest.mark.parametrize("content", [b"", b"HloModule m", b"PK\x03\x04" + bytes(100)])
def test_other_files_than_archives_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModuleError, match=r"is not a saved Compiled: .* Expected a file written by Compiled\.save"):
        load_compiled(tmp_path / "x")


def test_other_archives_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("manifest.json", "[1]")
    with pytest.raises(ModuleError, match=r"has the format \[1\], expected 'inspector-compiled'"):
        load_compiled(tmp_path / "x.zip")
    with pytest.raises(FileNotFoundError):
        load_compiled(tmp_path / "none")


def test_damage_anywhere_is_noticed(compiled: Compiled, saved: Path, tmp_path: Path) -> None:
    """A flipped byte gives the same value (it lay in what is not read) or our error, never another."""
    whole = saved.read_bytes()
    generator = np.random.default_rng(0)
    places = generator.integers(0, len(whole), 300)
    refused = 0
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(generator.integers(8))
        (tmp_path / "d").write_bytes(damaged)
        try:
            assert load_compiled(tmp_path / "d") == compiled
        except InspectorError:
            refused += 1
    assert refused > len(places) * 0.9
    for length in generator.integers(0, len(whole), 30):
        (tmp_path / "d").write_bytes(whole[:length])
        with pytest.raises(ModuleError):
            load_compiled(tmp_path / "d")
