"""Saved readings of a program are found, equal the original, and are not trusted."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector import settings
from inspector.analysis.hlo_listing import hlo_listing
from inspector.compilation.caches import kernel_pids, readings
from inspector.compilation.caches.program_cache import DiskCache
from inspector.hlo.module import Module
from inspector.hlo.source import Root
from inspector.toolchain.schema import installed_schema
from tests.hlo.reading.test_columns import TEXT
from tests.modules import module_of

HLO = TEXT.replace("add(x, x)", 'add(x, x), metadata={op_name="jit(f)/add"}')


class Owner:
    """A value that has a module."""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(readings, "_LEAST_BYTES", 1)
    with settings.scope(cache=True, cache_directory=tmp_path / "kept"):
        yield tmp_path / "kept"


@functools.cache
def data() -> bytes:
    return module_of(HLO).columns.data


def kept(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.read")) if directory.is_dir() else []


def never(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setattr(name, lambda *_: pytest.fail("read again"))


def test_a_module_is_read_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = readings.module(Owner(), data())
    (file,) = kept(directory)
    assert readings.is_reading(file)
    assert os.name == "nt" or file.stat().st_mode & 0o077 == 0
    never(monkeypatch, "inspector.hlo.reading.columns.outline")
    again = readings.module(Owner(), data())
    assert again is not first
    assert [i.proto for i in again.instructions()] == [i.proto for i in first.instructions()]


def test_a_text_is_read_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(HLO)
    text = f"HloModule m, entry_computation_layout={{}}\n\n{HLO.partition(chr(10))[2]}"
    first = hlo_listing(text, module, Root())
    assert len(kept(directory)) == 1
    assert "twice" in first.instructions
    line = first.instructions.index("twice")
    assert first.origins_of(line)[0].op_name == "jit(f)/add"
    assert first.origins_of(line + 1) == ()
    never(monkeypatch, "inspector.hlo.reading.displayed_text.display_text")
    assert hlo_listing(text, module, Root()) == first


def of_kernel(pid: str) -> bytes:
    """The module as a notebook kernel names its cell's file."""
    message: Any = installed_schema().message("xla.HloModuleProto").FromString(data())
    index = message.stack_frame_index
    index.file_names.append(f"/tmp/ipykernel_{pid}/123.py")
    index.function_names.append("step")
    index.file_locations.add(file_name_id=1, function_name_id=1, line=7)
    index.stack_frames.add(file_location_id=1)
    for computation in message.computations:
        for instruction in computation.instructions:
            instruction.metadata.stack_frame_id = 1
    written: bytes = message.SerializeToString()
    return written


def test_a_restarted_notebook_kernel_finds_it_under_its_own_names(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings.module(Owner(), of_kernel("4711"))
    assert len(kept(directory)) == 1
    assert readings.module(Owner(), of_kernel("815")).origins() is not None  # of another length: read anew
    assert len(kept(directory)) == 2
    never(monkeypatch, "inspector.hlo.reading.columns.outline")
    for pid in ("4712", "4711", "816"):
        again = readings.module(Owner(), of_kernel(pid))
        assert again.columns.data == of_kernel(pid)
        files = {frame.file for origin in again.origins().values() for frame in origin.frames}
        assert files == {f"/tmp/ipykernel_{pid}/123.py"}
    assert len(kept(directory)) == 2


def test_names_of_several_kernels_are_left_as_they_are() -> None:
    several = b"a/ipykernel_1/x b/ipykernel_2/y"
    assert kernel_pids.without_pid(several) == (b"", several)
    assert kernel_pids.without_pid(b"ipykernel_ and no number") == (b"", b"ipykernel_ and no number")
    cells = b"/ipykernel_12/x /ipykernel_launcher.py /ipykernel_12/y"
    assert kernel_pids.without_pid(cells) == (b"12", cells.replace(b"12", b"00"))


def test_a_text_that_differs_from_its_module_is_not_stored(directory: Path) -> None:
    text = HLO.replace("twice", "double")
    listing = hlo_listing(text, module_of(HLO), Root())
    assert "double" in listing.instructions
    assert kept(directory) == []


@pytest.mark.parametrize("change", ["nothing", "half", "other", "bits"])
def test_unusable_files_are_replaced(directory: Path, change: str) -> None:
    module = readings.module(Owner(), data())
    text = hlo_listing(HLO, module, Root())
    for file in kept(directory):
        written = file.read_bytes()
        middle = len(written) // 2
        changed = {
            "nothing": b"",
            "half": written[:middle],
            "other": b"PK\x05\x06" + bytes(18),
            "bits": written[:middle]
            + bytes(byte ^ 0xFF for byte in written[middle : middle + 200])
            + written[middle + 200 :],
        }
        file.write_bytes(changed[change])
    found = readings.module(Owner(), data())
    assert found.columns.names == module.columns.names
    assert hlo_listing(HLO, found, Root()) == text
    assert len(kept(directory)) == 2
    assert all(file.read_bytes() for file in kept(directory))


def test_the_lines_of_a_text_are_checked(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(HLO)
    expected = hlo_listing(HLO, module, Root())
    original: Any = readings._from

    def changed(value: int, short: int) -> Any:
        def read(file: Path, names: Any, make: Any) -> Any:
            def other(found: Any) -> Any:
                rows = np.frombuffer(found["rows"], "<i4").copy()
                rows[0] = value
                return make({**found, "rows": rows[short:].tobytes()})

            return original(file, names, other)

        return read

    for value, short in ((-2, 0), (1 << 20, 0), (0, 1)):
        monkeypatch.setattr(readings, "_from", changed(value, short))
        assert hlo_listing(HLO, module, Root()) == expected


def test_another_inspector_finds_nothing_of_this_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings.module(Owner(), data())
    monkeypatch.setattr("inspector.support.packages.code_stamp", lambda: "another")
    readings.module(Owner(), data())
    assert len(kept(directory)) == 2


def test_nothing_is_stored_without_a_cache_or_for_small_modules(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with settings.scope(cache=False):
        readings.module(Owner(), data())
    with settings.scope(cache_directory=""):
        readings.module(Owner(), data())
    monkeypatch.setattr(readings, "_LEAST_BYTES", 1 << 20)
    readings.module(Owner(), data())
    assert kept(directory) == []


@pytest.mark.skipif(os.name == "nt", reason="no file modes")
def test_a_directory_of_others_is_not_used(directory: Path) -> None:
    readings.module(Owner(), data())
    (file,) = kept(directory)
    written = file.read_bytes()
    directory.chmod(0o777)
    assert isinstance(readings.module(Owner(), data()), Module)
    assert file.read_bytes() == written
    file.unlink()
    assert isinstance(readings.module(Owner(), data()), Module)
    assert kept(directory) == []


def test_the_limit_of_the_cache_counts_them(directory: Path) -> None:
    readings.module(Owner(), data())
    (file,) = kept(directory)
    stranger = directory / "mine.read"
    stranger.write_bytes(b"not of inspector")
    for path in (file, stranger):
        os.utime(path, (0, 0))
    DiskCache(str(directory))._evict(0)
    assert [*directory.iterdir()] == [stranger]
