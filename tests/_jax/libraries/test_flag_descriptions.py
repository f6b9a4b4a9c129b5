"""Descriptions out of machine code. The independent oracle is what XLA prints for `--help`."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from inspector._jax.libraries import flag_descriptions, library
from inspector._jax.libraries.elf_strings import Image, UnknownFormatError
from inspector.errors import Unavailable
from inspector.toolchain.xla import debug_options_type


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [field.name for field in debug_options_type().fields]


@pytest.fixture(scope="module")
def found(names: list[str]) -> dict[str, str]:
    return flag_descriptions.recover(library.installed_library(), names)


def printed_help() -> dict[str, str]:
    """Flag to the first line of its text, of the flags that `--help` prints (a quarter of them)."""
    script = "from jaxlib import _jax; _jax.CompileOptions()"
    # XLA prints, cuts the last line where its log's buffer ends, and ends the process.
    process = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "XLA_FLAGS": "--help"}, capture_output=True, text=True
    )
    entries = (line.strip().split("\t") for line in process.stderr.splitlines() if line.startswith("\t--xla_"))
    return {e[0].removeprefix("--").partition("=")[0]: " ".join(e[2].split()) for e in entries if len(e) == 3}


def test_at_least_nine_tenths_of_the_descriptions_are_read(names: list[str], found: dict[str, str]) -> None:
    assert set(found) <= set(names)
    assert len(found) > 0.9 * len(names)


def test_descriptions_equal_the_output_of_xla(found: dict[str, str]) -> None:
    printed = printed_help()
    assert len(printed) > 50
    assert len(printed.keys() & found.keys()) > 0.9 * len(printed)
    assert [name for name, text in printed.items() if not found.get(name, text).startswith(text)] == []


def test_no_flag_takes_its_neighbors_text(found: dict[str, str]) -> None:
    texts = [text for text in found.values() if "eprecated" not in text]
    assert len(set(texts)) == len(texts)


def test_another_kind_of_library_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "lib.so"
    other.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 183) + bytes(100))  # 183: AArch64
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "installed_library", lambda: other)
    reason = flag_descriptions.installed_descriptions(["xla_a"])
    assert isinstance(reason, Unavailable)
    assert "not x86-64" in reason.reason


@pytest.mark.parametrize("data", [b"", b"MZ" + bytes(200), b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0" + bytes(100)])
def test_other_files_are_not_libraries(data: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        Image(data)
