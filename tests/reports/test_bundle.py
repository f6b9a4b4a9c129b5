"""The file of an exploration: what is written is read, once, without JAX, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inspector
from inspector.api.exploration import Exploration
from inspector.errors import CompilationError, InspectorError, ModuleError, Unavailable
from inspector.reports import bundle
from inspector.reports.serialization import LEFT_OUT
from inspector.stages.compiled import load_compiled
from tests.conftest import RunPython
from tests.reports.recorded import exploration, of_kernel
from tests.without_jax import NO_JAX, WITHOUT_JAX


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "a.inspector"
    exploration().save(path)
    return path


def entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == len(set(archive.namelist()))
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, contents: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def changed(file: Path, path: Path, **changes: Any) -> Path:
    """The file with other values in its manifest."""
    contents = entries(file)
    return write(
        path, {**contents, "manifest.json": json.dumps(json.loads(contents["manifest.json"]) | changes).encode()}
    )


def test_a_written_exploration_is_read(file: Path) -> None:
    loaded, saved = inspector.load(file), exploration()
    assert isinstance(loaded, Exploration)
    assert loaded.lowered == saved.lowered
    assert loaded.lowered.hlo_proto == saved.lowered.hlo_proto
    assert (loaded.installation, loaded.recorded_at) == (saved.installation, saved.recorded_at)
    assert loaded.installation.jax == loaded.baseline.compiled.versions["jax"]
    assert dict(loaded.portable) == dict(saved.portable)
    assert all(isinstance(each.artifact, bytes) for each in loaded.portable.values())
    for ours, theirs in zip(loaded.variants, saved.variants, strict=True):
        if theirs.program is None:
            assert ours == theirs
        else:
            compiled = dataclasses.replace(theirs.compiled, _executable=LEFT_OUT)
            assert dataclasses.replace(ours, program=ours.compiled) == dataclasses.replace(theirs, program=compiled)
    fast = loaded.variants[1].compiled
    assert len(fast.passes or ()) > 3
    assert fast.assembly
    assert fast.timeline()


def test_kernels_and_their_tuning_are_saved(tmp_path: Path) -> None:
    saved = of_kernel()
    saved.save(tmp_path / "k")
    loaded = inspector.load(tmp_path / "k")
    assert loaded == saved
    assert loaded.lowered.kernels[0].table().equals(saved.lowered.kernels[0].table())  # type: ignore[union-attr]


def test_a_run_is_saved_with_its_outputs_and_without_its_inputs(file: Path) -> None:
    ours, theirs = inspector.load(file).baseline.outcome, exploration().baseline.outcome  # type: ignore[union-attr]
    assert ours is not None
    assert theirs is not None
    assert (ours.durations_s, ours.inputs, ours.device_kind) == (theirs.durations_s, theirs.inputs, theirs.device_kind)
    assert not isinstance(ours.outputs, Unavailable)
    np.testing.assert_array_equal(ours.outputs[0], theirs.outputs[0])  # type: ignore[index]


def test_errors_are_raised_as_they_were(file: Path) -> None:
    loaded = inspector.load(file)
    assert isinstance(loaded, Exploration)
    with pytest.raises(CompilationError, match="XLA refused it") as caught:
        _ = loaded.variants[2].compiled
    assert caught.value.buffers == b"\1\2"
    with pytest.raises(InspectorError, match="tpu was canceled before it was recorded"):
        _ = loaded.variants[3].compiled


def test_no_content_is_there_twice(file: Path) -> None:
    contents = list(entries(file).values())
    assert len(contents) == len(set(contents))
    saved, whole = exploration(), b"".join(contents)
    for once in (saved.lowered.program.module, saved.lowered.hlo.encode(), saved.baseline.compiled.hlo_proto):
        assert whole.count(once) == 1
    loaded = inspector.load(file)
    assert isinstance(loaded, Exploration)
    first, second = loaded.variants[:2]
    assert first.lowered is second.lowered is loaded.lowered
    assert first.compiled.program is second.compiled.program is loaded.lowered.program


def test_no_machine_code_is_saved(file: Path) -> None:
    code = exploration().baseline.compiled._executable
    assert isinstance(code, bytes)
    assert code[:200] not in b"".join(entries(file).values())
    loaded = inspector.load(file)
    assert isinstance(loaded, Exploration)
    assert loaded.baseline.compiled._executable == LEFT_OUT


def test_files_of_compiled_save_are_opened_too(tmp_path: Path) -> None:
    compiled = exploration().baseline.compiled
    compiled.save(tmp_path / "c")
    assert inspector.load(tmp_path / "c") == compiled
    with pytest.raises(ModuleError, match="has the format 'inspector-compiled', expected 'inspector-exploration'"):
        bundle.load(tmp_path / "c")


def test_an_exploration_loads_without_jax(file: Path, one_device_python: RunPython) -> None:
    script = f"""{WITHOUT_JAX}import inspector
loaded = inspector.load({str(file)!r})
{NO_JAX}
print(len(loaded.variants), len(loaded.lowered.hlo), loaded.compare().shape[0], loaded.lowered.collectives().table().shape[0])
print(loaded.lowered.module().entry.name)
"""
    out = one_device_python(script).stdout.split()
    assert out[:2] == ["4", str(len(exploration().lowered.hlo))]


def test_an_older_version_is_brought_up_to_date(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the next version called a variant's label its name."""

    def renamed(value: Any) -> Any:
        for variant in value["variants"]:
            variant["label"] = variant.pop("name")
        return value

    contents = entries(file)
    manifest = json.loads(contents["manifest.json"])
    for variant in manifest["content"]["variants"]:
        variant["name"] = variant.pop("label")
    old = write(tmp_path / "old", {**contents, "manifest.json": json.dumps(manifest).encode()})
    with pytest.raises(ModuleError, match=r"content\.variants\[0\]: RecordedVariant has no field 'name'"):
        bundle.load(old)
    now = bundle.FORMAT_VERSION
    monkeypatch.setattr(bundle, "FORMAT_VERSION", now + 2)
    monkeypatch.setattr(bundle, "_UPGRADES", {now: {"RecordedExploration": renamed}, now + 1: {}})
    assert [v.label for v in bundle.load(old).variants] == ["baseline", "fast", "bad", "tpu"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format_version": 99}, "has format version 99, but this inspector reads 1 to 3. Update inspector"),
        ({"format_version": True}, "has format version True"),
        ({"format": "x"}, "has the format 'x', expected 'inspector-exploration'"),
        ({"content": None}, "content: expected an object, got None"),
        ({"content": {}}, "RecordedExploration lacks the field 'lowered'"),
    ],
)
def test_another_manifest_is_refused(file: Path, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ModuleError) as caught:
        bundle.load(changed(file, tmp_path / "x", **changes))
    assert words in str(caught.value)


def test_messages_do_not_repeat_long_file_contents(file: Path, tmp_path: Path) -> None:
    about = json.loads(entries(file)["manifest.json"])["content"]
    about["variants"][0]["target"] = "x" * 100_000
    with pytest.raises(ModuleError, match="or damaged") as caught:
        bundle.load(changed(file, tmp_path / "x", content=about))
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "manifest.json", "0" * 63, "G" * 64, 5, None, ["a"], {}])
def test_a_reference_names_an_entry_and_nothing_else(file: Path, tmp_path: Path, name: Any) -> None:
    manifest = json.loads(entries(file)["manifest.json"])
    about = manifest["content"] | {"lowered": {"document": name}}
    with pytest.raises(ModuleError, match="the name of an entry"):
        bundle.load(changed(file, tmp_path / "x", content=about))


def test_an_entry_that_does_not_match_its_name_is_refused(file: Path, tmp_path: Path) -> None:
    contents = entries(file)
    name = next(name for name, data in contents.items() if data == exploration().lowered.hlo.encode())
    with pytest.raises(ModuleError, match=f"the entry {name[:12]} does not match its digest"):
        bundle.load(write(tmp_path / "x", {**contents, name: b"HloModule other"}))


def test_another_file_than_an_inspector_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"HloModule m")
    with pytest.raises(
        ModuleError,
        match=r"Cannot open '.*': Cannot read the HLO module(.|\n)*inspector.load opens HLO and StableHLO, .inspector files",
    ):
        inspector.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        inspector.load(tmp_path / "none")


def test_damage_anywhere_is_noticed(file: Path, tmp_path: Path) -> None:
    whole, generator, refused = file.read_bytes(), np.random.default_rng(0), 0
    saved = inspector.load(file)
    for place in generator.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(generator.integers(8))
        (tmp_path / "d").write_bytes(damaged)
        try:
            assert inspector.load(tmp_path / "d") == saved
        except InspectorError:
            refused += 1
    assert refused > 130
    for length in generator.integers(0, len(whole), 20):
        (tmp_path / "d").write_bytes(whole[:length])
        with pytest.raises(ModuleError):
            inspector.load(tmp_path / "d")


def test_the_outputs_of_runs_are_bounded() -> None:
    from inspector.reports.recorded_exploration import within_limit

    first = exploration().baseline
    assert first.outcome is not None
    large = dataclasses.replace(first.outcome, outputs=(np.zeros(3 << 20, np.float32),))
    kept = within_limit((dataclasses.replace(first, outcome=large), dataclasses.replace(first, outcome=large)))
    assert kept[0].outcome == large or kept[0].outcome.byte_size == large.byte_size  # type: ignore[union-attr]
    assert isinstance(kept[1].outcome.outputs, Unavailable)  # type: ignore[union-attr]
    assert kept[1].outcome.durations_s == large.durations_s  # type: ignore[union-attr]


def test_a_compiled_of_a_bundle_is_saved_as_any_other(file: Path, tmp_path: Path) -> None:
    loaded = inspector.load(file)
    assert isinstance(loaded, Exploration)
    loaded.baseline.compiled.save(tmp_path / "c")
    assert load_compiled(tmp_path / "c") == loaded.baseline.compiled
