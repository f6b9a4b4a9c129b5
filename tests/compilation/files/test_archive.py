"""Archives that a stranger packed: bombs are refused before they are unpacked."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.compilation.files import archive
from inspector.compilation.files.archive import Archive
from inspector.errors import ModuleError
from inspector.stages.compiled import load_compiled

BOMB = bytes(200 << 20)


def packed(path: Path, name: str, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as opened:
        opened.writestr(name, data)
    return path


def test_written_entries_are_read(tmp_path: Path) -> None:
    entries = {"a": b"x", "b": bytes(40 << 20), "c": os.urandom(1000)}  # b would pack like a bomb
    archive.write(tmp_path / "f", entries, compress=True)
    with Archive(tmp_path / "f") as opened:
        assert opened.names() == entries.keys()
        assert all(opened.read(name) == data for name, data in entries.items())


def test_an_older_file_stays_when_writing_fails(tmp_path: Path) -> None:
    archive.write(tmp_path / "f", {"a": b"1"}, compress=False)
    with pytest.raises(TypeError):
        archive.write(tmp_path / "f", {"a": b"2", "b": 3}, compress=False)  # type: ignore[dict-item]
    with Archive(tmp_path / "f") as opened:
        assert opened.read("a") == b"1"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def lying(path: Path) -> Path:
    """An entry that is packed well enough, and unpacks to more than it says."""
    data = bytearray(packed(path, "manifest.json", BOMB).read_bytes())
    directory = data.rindex(b"PK\x01\x02")
    struct.pack_into("<L", data, directory + 24, 1000)
    path.write_bytes(data)
    return path


def large_directory(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as opened:
        for i in range(3000):
            opened.writestr(f"{i}", b"")
    return path


HOSTILE: dict[str, Callable[[Path], Path]] = {
    "bomb": lambda p: packed(p, "manifest.json", BOMB),
    "bzip2": lambda p: packed(p, "manifest.json", BOMB, zipfile.ZIP_BZIP2),
    "lzma": lambda p: packed(p, "manifest.json", BOMB[: 1 << 20], zipfile.ZIP_LZMA),
    "lying": lying,
    "a large directory": large_directory,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_zip_bombs_use_little_memory(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path / "f")
    tracemalloc.start()
    try:
        with pytest.raises(ModuleError, match="is not a saved Compiled"):
            load_compiled(path)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("large", [False, True], ids=["of 32 bits", "of 64 bits"])
def test_a_directory_with_a_huge_size_is_refused_before_reading(large: bool, tmp_path: Path) -> None:
    path = packed(tmp_path / "f", "manifest.json", b"{}")
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\x05\x06")
    if large:
        wide = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
        data[end:end] = wide + struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    else:
        struct.pack_into("<L", data, end + 12, 1 << 30)
    path.write_bytes(data)
    with pytest.raises(ModuleError, match=r"its directory claims 1,0[0-9,]+ bytes"):
        archive.Archive(path)


def test_zlib_is_bounded_too() -> None:
    assert archive.inflate(zlib.compress(bytes(1 << 20))) == bytes(1 << 20)
    for data in (zlib.compress(BOMB), zlib.compress(b"abc")[:-1], b"", b"x"):
        with pytest.raises(ModuleError, match="packed bytes are damaged"):
            archive.inflate(data)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.timeout(20)
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path, "a folder|Is a directory"), ("/dev/zero", "a device")):
        with pytest.raises(ModuleError, match=kind):
            load_compiled(path)


def test_too_large_entries_are_refused_before_unpacking() -> None:
    packer = zlib.compressobj(1)
    bomb = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(300)), packer.flush()])
    assert archive.FREE_BYTES < archive.RATIO * len(bomb) < 300 << 20
    tracemalloc.start()
    try:
        with pytest.raises(ModuleError, match=r"more than [0-9,]+ unpacked"):
            archive.inflate(bomb)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    for size in (0, 1, (1 << 18) - 1, 1 << 18, (1 << 20) + 7):
        data = bytes(i * i % 251 for i in range(1000)) * (size // 1000 + 1)
        assert archive.inflate(zlib.compress(data[:size])) == data[:size]
