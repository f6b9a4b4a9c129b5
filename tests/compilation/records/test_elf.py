"""ELF files, put together by hand from the System V ABI."""

from __future__ import annotations

import struct

import pytest

from inspector.compilation.records.elf import MAGIC, X86_64, ObjectFile
from inspector.errors import ModuleError

CODE = bytes(range(1, 33))
NAMES = b"\0.text\0.symtab\0.strtab\0.shstrtab\0.rela.text\0.rodata\0"
SYMBOLS = b"\0kernel\0helper\0memcpy\0"


def name(table: bytes, text: bytes) -> int:
    return table.index(b"\0" + text + b"\0") + 1


def symbol(text: bytes, kind: int, binding: int, section: int, value: int, size: int) -> bytes:
    at = name(SYMBOLS, text) if text else 0
    return struct.pack("<IBBHQQ", at, binding << 4 | kind, 0, section, value, size)


def elf() -> bytes:
    symbols = (
        symbol(b"", 0, 0, 0, 0, 0)
        + symbol(b"", 3, 0, 6, 0, 0)  # the section .rodata
        + symbol(b"helper", 2, 0, 1, 20, 12)
        + symbol(b"kernel", 2, 1, 1, 0, 20)
        + symbol(b"memcpy", 0, 1, 0, 0, 0)
    )
    relocations = struct.pack("<QQq", 4, 4 << 32 | 2, -4) + struct.pack("<QQq", 22, 1 << 32 | 1, 16)
    contents = [
        (b"", 0, b"", 0, 0),
        (b".text", 1, CODE, 0, 0),
        (b".symtab", 2, symbols, 3, 2),
        (b".strtab", 3, SYMBOLS, 0, 0),
    ]
    contents += [
        (b".shstrtab", 3, NAMES, 0, 0),
        (b".rela.text", 4, relocations, 2, 1),
        (b".rodata", 1, b"\0" * 8, 0, 0),
    ]
    body, headers = b"", b""
    for text, kind, data, link, info in contents:
        at = name(NAMES, text) if text else 0
        headers += struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(body), len(data), link, info, 1, 0)
        body += data
    head = MAGIC + b"\2\1\1" + b"\0" * 9 + struct.pack(
        "<HHIQQQIHHHHHH", 1, X86_64, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(contents), 4
    )  # fmt: skip
    return head + body + headers


def test_functions_are_read_with_their_relocations() -> None:
    found = ObjectFile(elf())
    assert found.machine == X86_64
    kernel, helper = found.functions()
    assert (kernel.name, kernel.is_global, kernel.address, kernel.code) == ("kernel", True, 0, CODE[:20])
    assert (helper.name, helper.is_global, helper.address, helper.code) == ("helper", False, 20, CODE[20:])
    assert kernel.references == {4: "memcpy-0x4"}
    assert helper.references == {22: ".rodata+0x10"}


def test_bytes_after_the_file_are_excluded() -> None:
    whole = elf()
    assert ObjectFile(whole + b"more").byte_size == len(whole)


@pytest.mark.parametrize(
    "data", [b"", b"MZ", elf()[:100], elf()[:40] + b"\xff" * 8 + elf()[48:], MAGIC + b"\2\1" + b"\xff" * 200]
)
def test_damage_is_refused(data: bytes) -> None:
    with pytest.raises(ModuleError, match="ELF file"):
        ObjectFile(data)
