"""Reads the command-line flags that a library registers: names, C++ types and source files.

Each Abseil flag is a static object `FLAGS_<name>` (absl/flags/internal/flag.h, `FlagImpl`): a
vtable, then pointers to its name, to its type as written in the source, and to the source file. The
library's symbol table gives the addresses of the objects, and its relocations give the pointers.
Nothing is loaded or run.
"""

from __future__ import annotations

import dataclasses
import mmap
import re
from pathlib import Path

import numpy as np

from inspector._jax.libraries.elf_strings import RELOCATIONS, SYMBOL_TABLE, Image, Section, UnknownFormatError, sections

_SYMBOL = np.dtype([("name", "<u4"), ("rest", "<u4"), ("address", "<u8"), ("length", "<u8")])
_RELOCATION = np.dtype([("address", "<u8"), ("kind", "<u8"), ("addend", "<i8")])
_NAME = re.compile(rb"(?<=\0)FLAGS_([A-Za-z0-9_]+)(?=\0)")

# Offsets in `FlagImpl`, in bytes.
_NAME_AT, _TYPE_AT, _FILE_AT = 8, 16, 24


@dataclasses.dataclass(frozen=True, slots=True)
class AbslFlag:
    """One registered flag.

    Attributes:
      name: without dashes.
      type: C++ type as in its definition: "bool", "std::string", "AutoOr<int64_t>".
      source_file: source file of its definition, "" if the library does not record it.
    """

    name: str
    type: str
    source_file: str


def absl_flags(library: Path) -> list[AbslFlag]:
    """Returns every flag that a library registers, sorted by name.

    Raises:
      UnknownFormatError: not an x86-64 ELF library, or one without a symbol table.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        addresses = _flag_addresses(data)
        pointers = _pointers(data, addresses)
        image = Image(data)
        texts = {address: (image.text_at(text) or "").strip() for address, text in pointers.items()}
        del image  # otherwise the file cannot be closed
    return [
        AbslFlag(name, texts.get(address + _TYPE_AT, ""), texts.get(address + _FILE_AT, ""))
        for name, address in sorted(addresses.items())
        if texts.get(address + _NAME_AT) == name  # otherwise it is not a FlagImpl
    ]


def _flag_addresses(data: mmap.mmap) -> dict[str, int]:
    table = sections(data)
    symbols = next((s for s in table if s.kind == SYMBOL_TABLE), None)
    if symbols is None:
        raise UnknownFormatError("the library has no symbol table")
    names = table[symbols.link]
    end = names.offset + names.length
    texts = {m.start() - names.offset: m.group(1).decode() for m in _NAME.finditer(data, names.offset, end)}
    entries = _read(data, symbols, _SYMBOL)
    flags = entries[np.isin(entries["name"], np.fromiter(texts, np.uint32, len(texts)))]
    return {texts[int(entry["name"])]: int(entry["address"]) for entry in flags}


def _pointers(data: mmap.mmap, addresses: dict[str, int]) -> dict[int, int]:
    """Returns the target of each pointer in the flags, by the pointer's address."""
    starts = np.fromiter(addresses.values(), np.uint64, len(addresses))
    wanted = np.concatenate([starts + np.uint64(offset) for offset in (_NAME_AT, _TYPE_AT, _FILE_AT)])
    targets: dict[int, int] = {}
    for section in sections(data):
        if section.kind == RELOCATIONS:
            entries = _read(data, section, _RELOCATION)
            for entry in entries[np.isin(entries["address"], wanted)]:
                targets[int(entry["address"])] = int(entry["addend"])
    return targets


def _read(data: mmap.mmap, section: Section, entry: np.dtype[np.void]) -> np.ndarray:
    # Returns a copy, because the file cannot be closed while an array refers to it.
    return np.frombuffer(data, entry, section.length // entry.itemsize, section.offset).copy()
