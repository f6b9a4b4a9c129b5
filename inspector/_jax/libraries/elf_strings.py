"""Reads strings and their uses from an x86-64 ELF library, without symbols and without running it.

Knows the file format and two instructions, but not the meaning of the strings.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import platform
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# ELF64 (System V ABI, chapter 4): section header table at 0x28, number of entries at 0x3c, index of the name section at 0x3e.
_MAGIC_64_BIT_LITTLE = b"\x7fELF\x02\x01"
_X86_64 = 62
_SECTION = struct.Struct("<IIQQQQIIQQ")
_PROGBITS, _EXECUTABLE = 1, 4

SYMBOL_TABLE, RELOCATIONS = 2, 4
"""Section types of `Elf64_Sym` and `Elf64_Rela` entries."""

_CHUNK_BYTES = 1 << 24
_LONGEST_NAME = 100
_LEA_BYTES = 7  # REX 8D ModRM disp32

# `lea rdx, [rip + string]; mov eax, length` and return: a function that only returns a constant
# std::string_view in libstdc++'s layout. libc++ and LLVM's StringRef have the two fields in the other order.
_RETURNS_STRING_VIEW = re.compile(rb"\x48\x8d\x15(....)\xb8(....)\x5d?\xc3", re.DOTALL)
_RETURNS_POINTER_FIRST = re.compile(rb"\x48\x8d\x05(....)\xba(....)\x5d?\xc3", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """One entry of the section table.

    Attributes:
      name: for example ".rodata".
      kind: ELF's section type.
      address: address where it is loaded, 0 if it is not loaded.
      offset: offset in the file, in bytes.
      length: length in bytes.
      is_code: whether it is executable.
      link: index of a related section, for example that of a symbol table's names.
    """

    name: str
    kind: int
    address: int
    offset: int
    length: int
    is_code: bool
    link: int


@dataclasses.dataclass(frozen=True, slots=True)
class StringUses:
    """Every `lea reg, [rip + x]` instruction, in code order.

    Attributes:
      at: int64 [n], address of each instruction.
      target: int64 [n], the address that it computes.
    """

    at: np.ndarray
    target: np.ndarray


class UnknownFormatError(ValueError):
    """The file is not an x86-64 ELF library."""


def sections(data: mmap.mmap | bytes) -> list[Section]:
    """Returns the section table of a library.

    Raises:
      UnknownFormatError: not an x86-64 ELF file, or one without a section table.
    """
    if data[:6] != _MAGIC_64_BIT_LITTLE or struct.unpack_from("<H", data, 0x12)[0] != _X86_64:
        raise UnknownFormatError(f"the library is not x86-64 code for Linux (this is {_machine()})")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    (count,) = struct.unpack_from("<H", data, 0x3C)
    if not count or table + count * _SECTION.size > len(data):
        raise UnknownFormatError("the library has no section table")
    headers = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    (index,) = struct.unpack_from("<H", data, 0x3E)
    names = headers[index][4] if index < count else len(data)
    return [
        Section(_name_at(data, names + name), kind, address, offset, length, bool(flags & _EXECUTABLE), link)
        for name, kind, flags, address, offset, length, link, *_ in headers
    ]


class Image:
    """A library's code and data."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        """Reads the section table.

        Raises:
          UnknownFormatError: not an x86-64 ELF file, or one without a section table.
        """
        self._data = data
        self._sections = [s for s in sections(data) if s.kind == _PROGBITS and s.address]

    def matches(self, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yields (address, text) for every match of `pattern` outside code."""
        for section in self._sections:
            if not section.is_code:
                for match in pattern.finditer(self._data, section.offset, section.offset + section.length):
                    yield section.address + match.start() - section.offset, match.group()

    def text_at(self, address: int, limit: int = 4000) -> str | None:
        """Returns the C string at an address, None if there is no string of printable ASCII."""
        offset = self._offset(address)
        if offset is None:
            return None
        end = self._data.find(b"\0", offset, offset + limit)
        text = self._data[offset:end] if end >= 0 else b""
        return text.decode() if text and all(32 <= c < 127 or c in b"\t\n" for c in text) else None

    def string_uses(self) -> StringUses:
        """Returns every instruction that computes an address within the library."""
        uses = [self._uses_in(section) for section in self._sections if section.is_code]
        return StringUses(*(np.concatenate(part) for part in zip(*uses, strict=True)))

    def constant_string_views(self, *, pointer_first: bool = False) -> Iterator[str]:
        """Yields the results of functions that only return a constant string.

        Args:
          pointer_first: whether the library's `std::string_view` has the layout of libc++ instead of libstdc++.
        """
        returns = _RETURNS_POINTER_FIRST if pointer_first else _RETURNS_STRING_VIEW
        for section in self._sections:
            if not section.is_code:
                continue
            for match in returns.finditer(self._data, section.offset, section.offset + section.length):
                at = section.address + match.start() - section.offset
                text = self.text_at(at + _LEA_BYTES + struct.unpack("<i", match.group(1))[0])
                if text is not None and len(text) == struct.unpack("<I", match.group(2))[0]:
                    yield text

    def _offset(self, address: int) -> int | None:
        for section in self._sections:
            if section.address <= address < section.address + section.length:
                return section.offset + address - section.address
        return None

    def _uses_in(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        at, displacement = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start in range(0, section.length, _CHUNK_BYTES):
            # Chunks overlap by one instruction less a byte, so that none is cut and none is counted twice.
            length = min(_CHUNK_BYTES + _LEA_BYTES - 1, section.length - start)
            if length < _LEA_BYTES:
                break
            code = np.frombuffer(self._data, np.uint8, length, section.offset + start)
            first, second, third = code[:-6], code[1:-5], code[2:-4]
            (hits,) = np.nonzero((second == 0x8D) & ((first & 0xFB) == 0x48) & ((third & 0xC7) == 0x05))
            at.append(hits + start)
            quads = np.stack([code[hits + 3 + i] for i in range(4)], axis=1)
            displacement.append(np.ascontiguousarray(quads).view("<i4")[:, 0].astype(np.int64))
        where = np.concatenate(at) + section.address
        return where, where + _LEA_BYTES + np.concatenate(displacement)


@contextlib.contextmanager
def image_of(library: Path) -> Iterator[Image]:
    """Opens a library.

    Raises:
      UnknownFormatError: not an x86-64 ELF file.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        image = Image(data)
        try:
            yield image
        finally:
            del image


def _name_at(data: mmap.mmap | bytes, offset: int) -> str:
    return data[offset : max(offset, data.find(b"\0", offset, offset + _LONGEST_NAME))].decode(errors="replace")


def _machine() -> str:
    return f"{platform.system()} on {platform.machine()}"
