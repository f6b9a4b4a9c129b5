"""Reads functions and sections from ELF64 files: object files of the CPU, cubins of the GPU.

Knows the format (System V ABI, chapter 4), and must know nothing of the code itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Iterator, Mapping

from inspector.errors import ModuleError

X86_64, AARCH64, CUDA = 62, 183, 190
"""Machine numbers of ELF."""

MAGIC = b"\x7fELF"
_64_BIT_LITTLE = b"\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
_LOADED = 2
_FUNCTION, _SECTION_SYMBOL = 2, 3
_LOCAL = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A function's code.

    Attributes:
      name: symbol of the function.
      is_global: True if other code can call it.
      address: address in its section.
      code: bytes of the function.
      references: targets that the linker inserts, by address.
    """

    name: str
    is_global: bool
    address: int
    code: bytes
    references: Mapping[int, str]


@dataclasses.dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    flags: int


class ObjectFile:
    """The sections and symbols of one file.

    Attributes:
      machine: machine of the code; `X86_64`, `AARCH64`, `CUDA` or another.
      byte_size: size of the file, which may be shorter than the data.
    """

    def __init__(self, data: bytes) -> None:
        """Reads the tables.

        Raises:
          ModuleError: not an ELF64 file, or a damaged one.
        """
        if not data.startswith(MAGIC + _64_BIT_LITTLE):
            raise ModuleError(f"Not a 64-bit little-endian ELF file: it begins with {data[:6]!r}.")
        self._data = data
        try:
            (self.machine,) = struct.unpack_from("<H", data, 0x12)
            self._sections = self._read_sections()
            self._symbols = self._read_symbols()
        except (struct.error, IndexError, OverflowError, ValueError) as e:
            raise ModuleError(f"Damaged ELF file of {len(data)} bytes: {e}.") from e

    def functions(self) -> list[Function]:
        """Returns every function, in the order of the file."""
        entries = []
        for name, kind, section, value, size in self._symbols:
            if kind & 0xF != _FUNCTION or not 0 < section < len(self._sections):
                continue
            start = self._sections[section].offset + value
            code = self._data[start : start + size]
            references = {a: t for a, t in self._references(section).items() if value <= a < value + size}
            entries.append((section, value, Function(name, kind >> 4 != _LOCAL, value, code, references)))
        return [function for *_, function in sorted(entries, key=lambda entry: entry[:2])]

    def section(self, name: str) -> bytes | None:
        """Returns the contents of a section; None if there is none, or if it has only a size."""
        section = self._named(name)
        if section is None or section.kind == _NO_BITS:
            return None
        return self._data[section.offset : section.offset + section.size]

    def section_size(self, name: str) -> int | None:
        """Returns the size of a section in bytes; None if there is none."""
        section = self._named(name)
        return None if section is None else section.size

    def symbol(self, index: int) -> str:
        """Returns the name of a symbol by its index; "" for an unknown one."""
        return self._symbols[index][0] if index < len(self._symbols) else ""

    def _named(self, name: str) -> _Section | None:
        return next((section for section in self._sections if section.name == name), None)

    def loaded(self) -> list[bytes]:
        """Returns the loaded sections without the functions' names: kind and contents of each, or its size."""
        sections = []
        for section in self._sections:
            if section.flags & _LOADED:
                kind = section.name.split(".")[1:2]  # "text" of ".text.fusion_1", "nv" of ".nv.constant0.fusion_1"
                start = section.offset
                contents = b"" if section.kind == _NO_BITS else self._data[start : start + section.size]
                sections.append(repr((kind, section.kind, section.size)).encode() + contents)
        return sections

    def _read_sections(self) -> list[_Section]:
        program, table = struct.unpack_from("<QQ", self._data, 0x20)
        program_size, program_count, _, count, names = struct.unpack_from("<5H", self._data, 0x36)
        headers = [_SECTION.unpack_from(self._data, table + i * _SECTION.size) for i in range(count)]
        ends = [offset + size for _, kind, _, _, offset, size, *_ in headers if kind != _NO_BITS]
        self.byte_size = max(table + count * _SECTION.size, program + program_count * program_size, *ends)
        strings = headers[names][4]
        return [
            _Section(self._string(strings + name), kind, offset, size, link, info, flags)
            for name, kind, flags, _, offset, size, link, info, *_ in headers
        ]

    def _read_symbols(self) -> list[tuple[str, int, int, int, int]]:
        """Returns name, kind, section, value and size of each symbol."""
        for table in self._sections:
            if table.kind == _SYMBOL_TABLE:
                strings = self._sections[table.link].offset
                entries = _SYMBOL.iter_unpack(self._data[table.offset : table.offset + table.size])
                return [
                    (self._string(strings + name), kind, section, value, size)
                    for name, kind, _, section, value, size in entries
                ]
        return []

    def _references(self, section: int) -> dict[int, str]:
        """Returns the targets that the linker inserts into a section, by address."""
        targets = {}
        for table in self._sections:
            if table.kind == _RELOCATIONS and table.info == section:
                for address, info, addend in _RELA.iter_unpack(self._data[table.offset : table.offset + table.size]):
                    targets[address] = self._target(info >> 32, addend)
        return targets

    def _target(self, symbol: int, addend: int) -> str:
        name, kind, section, *_ = self._symbols[symbol]
        if kind & 0xF == _SECTION_SYMBOL:
            name = self._sections[section].name
        return f"{name}{addend:+#x}" if addend else name

    def _string(self, position: int) -> str:
        return self._data[position : self._data.index(b"\0", position)].decode("utf-8", "replace")


def cubins(data: bytes) -> Iterator[tuple[bytes, ObjectFile]]:
    """Yields each cubin in the data, and its tables."""
    position = data.find(MAGIC)
    while position >= 0:
        step = 1
        with contextlib.suppress(ModuleError):  # the same four bytes by chance
            cubin = ObjectFile(data[position:])
            if cubin.machine == CUDA:
                step = cubin.byte_size
                yield data[position : position + step], cubin
        position = data.find(MAGIC, position + step)
