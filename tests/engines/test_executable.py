"""A `Compiled`'s executable in this process, and in a file that is checked before XLA sees it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector._jax.compiling.compiler import Compiler
from inspector._jax.compiling.runtime import LoadedExecutable
from inspector.compilation.compiled import engine_of
from inspector.engines import executable
from inspector.engines.executable import load_executable, save_executable
from inspector.engines.inline import InlineEngine
from inspector.errors import ExecutionError, ModuleError, ParameterError, TargetError, Unavailable
from inspector.hlo.executable import cpu_features
from inspector.stages.compiled import Compiled, load_compiled
from tests.conftest import RunPython

X = np.arange(6, dtype=np.float32).reshape(2, 3)
F32X2 = jax.ShapeDtypeStruct((2,), jnp.float32)


@pytest.fixture(scope="module")
def engine() -> Iterator[InlineEngine]:
    made = InlineEngine()
    yield made
    made.close()


@pytest.fixture(scope="module")
def compiled(engine: InlineEngine) -> Compiled:
    return inspector.lower(lambda x: (x @ x.T, x.sum()), X).compile(target="cpu", engine=engine)


@pytest.fixture
def saved(compiled: Compiled, tmp_path: Path) -> Path:
    save_executable(compiled, tmp_path / "a.inspector")
    return tmp_path / "a.inspector"


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA must not see a byte."""

    def load(*args: object) -> None:
        raise AssertionError("XLA was given the bytes")

    monkeypatch.setattr(Compiler, "load", load)


def check(executable: LoadedExecutable) -> None:
    outputs = executable.execute([jax.device_put(X, executable.local_devices()[0])])
    np.testing.assert_allclose(outputs[0], X @ X.T)
    np.testing.assert_allclose(outputs[1], X.sum())


def replaced(path: Path, **changes: Any) -> None:
    """The file with other values in its manifest, as if they had been saved."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents["manifest.json"])
    for name, value in changes.items():
        section, _, key = name.partition("__")
        manifest["compiled"][section][key] = value
    about = json.dumps(manifest["compiled"], sort_keys=True).encode()
    manifest["sha256"]["compiled"] = hashlib.sha256(about).hexdigest()
    contents["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def test_a_loaded_executable_runs(compiled: Compiled) -> None:
    check(load_executable(compiled))


def test_an_executable_of_a_worker_runs_in_this_process() -> None:
    compiled = inspector.lower(lambda x: (x @ x.T, x.sum()), X).compile(target="cpu")
    assert engine_of(compiled) == "worker"
    check(load_executable(compiled))


def test_an_executable_loaded_from_a_file_runs(saved: Path) -> None:
    check(load_executable(saved))
    check(inspector.load_executable(str(saved)))
    assert isinstance(load_executable(saved).client.platform_version, str)


@pytest.mark.slow
def test_a_loaded_executable_runs_in_a_fresh_process(
    engine: InlineEngine, tmp_path: Path, one_device_python: RunPython
) -> None:
    """With LAPACK, which is null in a process that has lowered nothing."""
    matrix = np.diag(np.float32([1, 2, 3]))
    compiled = inspector.lower(jnp.linalg.inv, matrix).compile(target="cpu", engine=engine)
    inspector.save_executable(compiled, tmp_path / "inv")
    script = f"""
import jax, numpy as np, inspector
executable = inspector.load_executable({str(tmp_path / "inv")!r})
(inverse,) = executable.execute([jax.device_put(np.diag(np.float32([1, 2, 4])), jax.devices()[0])])
print(np.diag(inverse).tolist())
"""
    assert one_device_python(script).stdout.strip() == "[1.0, 0.5, 0.25]"


@pytest.mark.slow
def test_too_few_devices(engine: InlineEngine, tmp_path: Path, one_device_python: RunPython) -> None:
    lowered = inspector.lower(lambda x: jax.lax.psum(x, "i"), np.ones(2, np.float32), axis_env=[("i", 4)])
    save_executable(lowered.compile(target="cpu:4", engine=engine), tmp_path / "four")
    assert len(load_executable(tmp_path / "four").local_devices()) == 4
    script = f"""
import inspector
try:
    inspector.load_executable({str(tmp_path / "four")!r})
except inspector.InspectorError as e:
    print(type(e).__name__, e)
"""
    assert "TargetError This process has 1 CPU device(s), but 4 were requested" in one_device_python(script).stdout


@pytest.mark.usefixtures("untouched")
def test_another_jaxlib_is_refused(saved: Path) -> None:
    replaced(saved, versions__jaxlib="0.4.1")
    with pytest.raises(ExecutionError) as caught:
        load_executable(saved)
    ours = Compiler().versions["jaxlib"]
    assert f"compiled by jaxlib '0.4.1', but this process has {ours!r}" in str(caught.value)
    assert "Install jaxlib 0.4.1, or compile the program again:" in str(caught.value)


@pytest.mark.usefixtures("untouched")
def test_another_platform_version_is_refused(saved: Path) -> None:
    replaced(saved, versions__platform_version="PJRT C API 1.2")
    with pytest.raises(ExecutionError, match=r"platform_version 'PJRT C API 1\.2'"):
        load_executable(saved)


@pytest.mark.usefixtures("untouched")
def test_another_platform_is_refused(saved: Path) -> None:
    replaced(saved, program__platform="cuda")
    with pytest.raises(TargetError, match="lowered for gpu, but the attached device is a cpu"):
        load_executable(saved)


@pytest.mark.usefixtures("untouched")
def test_another_cpu_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = executable._local_executable()
    features = cpu_features(local)
    assert isinstance(features, frozenset)
    name = max(features)
    older = local.replace(f"+{name}".encode(), f"-{name}".encode())
    monkeypatch.setattr(executable, "_local_executable", lambda: older)
    with pytest.raises(ExecutionError, match=f"compiled on a CPU with {name}, which this CPU lacks"):
        load_executable(saved)


def test_where_this_cpus_instructions_are_not_known_nothing_is_refused(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent:
        def serialize(self) -> Unavailable:
            return Unavailable("not here")

    monkeypatch.setattr(executable.Client, "compile_and_load", lambda *_: Silent())
    monkeypatch.setattr(executable, "_local_executable", executable._local_executable.__wrapped__)
    assert executable._local_executable() == b""
    check(load_executable(saved))


@pytest.mark.usefixtures("untouched")
def test_no_flipped_byte_of_the_executable_reaches_xla(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    whole = contents["executable.bin"]
    for place in np.random.default_rng(0).integers(0, len(whole), 50):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        with zipfile.ZipFile(saved, "w") as archive:
            for name, data in (contents | {"executable.bin": bytes(damaged)}).items():
                archive.writestr(name, data)
        with pytest.raises(ModuleError, match=r"executable\.bin does not match its digest"):
            load_executable(saved)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("content", [pickle.dumps({"a": 1}), b"", b"PK\x03\x04"])
def test_no_pickle(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModuleError, match="is not a saved Compiled"):
        load_executable(tmp_path / "x")


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    (tmp_path / "x").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModuleError):
        load_executable(tmp_path / "x")
    assert not (tmp_path / "ran").exists()


def test_a_program_without_an_executable_has_no_file(compiled: Compiled, tmp_path: Path) -> None:
    bare = dataclasses.replace(compiled, _engine="worker", _executable=Unavailable("the back-end keeps it"))
    with pytest.raises(ExecutionError, match=r"cannot be saved: the back-end keeps it\. Compiled\.save"):
        save_executable(bare, tmp_path / "b")
    assert not list(tmp_path.iterdir())
    bare.save(tmp_path / "b")
    with pytest.raises(ExecutionError, match="has no executable: the back-end keeps it"):
        load_executable(tmp_path / "b")
    with pytest.raises(ExecutionError, match="cannot leave its process: the back-end keeps it"):
        load_executable(bare)


def test_programs_with_host_callbacks_are_recompiled(engine: InlineEngine, tmp_path: Path) -> None:
    seen: list[list[float]] = []

    def fun(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda y: seen.append(np.asarray(y).tolist()), x)
        return x + jax.pure_callback(lambda y: np.asarray(y) * 10, F32X2, x)

    compiled = inspector.lower(fun, F32X2).compile(target="cpu", engine=engine)
    executable = load_executable(compiled)
    outputs, token = executable.execute_with_token([jax.device_put(np.float32([1, 2]), executable.local_devices()[0])])
    token.block_until_ready()
    np.testing.assert_array_equal(outputs[0], [11, 22])
    assert seen == [[1.0, 2.0]]
    compiled.save(tmp_path / "c")
    with pytest.raises(ExecutionError, match="Lower the function again in this process"):
        load_executable(load_compiled(tmp_path / "c"))


def test_other_values_than_compiled_programs_are_not_saved(tmp_path: Path) -> None:
    staged: Any = jax.jit(jnp.sin).lower(1.0).compile()
    with pytest.raises(ParameterError, match=r"Expected an inspector Compiled.*inspector\.lower"):
        save_executable(staged, tmp_path / "a.inspector")
    assert not list(tmp_path.iterdir())
