"""Extracts the protobuf schema of the installed jaxlib from its shared library.

jaxlib ships no `_pb2` modules, but its C++ protobuf classes register themselves with serialized
`FileDescriptorProto`s in the library's read-only data, on Linux in a separate section. This module
scans that section, or the whole file if there is no such section (0.3-1 s, and seconds from a slow
disk). It imports nothing of jaxlib and starts no device. The result is cached in the user's cache directory.

Must not know what the messages mean; the bytes go to `toolchain/schema.py`.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from inspector._jax.libraries.elf_strings import UnknownFormatError, sections
from inspector._jax.libraries.library import cached
from inspector.errors import ModuleError
from inspector.support.varints import read_varint

# Folders of the descriptors that we need, out of all in the library (gRPC and Envoy have a hundred more).
_KEPT_FOLDERS = ("xla/", "tsl/", "jaxlib/")

# `PROTOBUF_ATTRIBUTE_...(protodesc_cold)` in the C++ code that protoc generates.
_SECTION = "protodesc_cold"

# A serialized descriptor begins with field 1 (its path, length-prefixed) and field 2 (its package).
_BEGIN = re.compile(rb"\x0a([\x01-\x7f])((?:[a-z0-9_]+/)+[\w\-.]+\.proto)\x12")

# FileDescriptorProto's fields: name .. option_dependency (google/protobuf/descriptor.proto).
_LAST_FIELD = 15
_VARINT, _LENGTH_DELIMITED = 0, 2
_LARGEST_FIELD_BYTES = 1 << 20


def installed_descriptors() -> bytes:
    """Returns the installed jaxlib's descriptors as a serialized `FileDescriptorSet`, dependencies first.

    Reads them from the cache if it is intact; otherwise scans the library and tries to write the cache.

    Raises:
      MissingPackageError: jaxlib is not installed.
      ModuleError: the library has no HLO descriptors.
    """
    return cached("descriptors", scan)


def scan(library: Path) -> bytes:
    """Returns all XLA descriptors in a shared library, with their dependencies, as a `FileDescriptorSet`.

    Args:
      library: path of `libjax_common.so` or of a PJRT plugin.

    Raises:
      ModuleError: there are none.
    """
    files = file_descriptors(library)
    wanted = [name for name in sorted(files) if name.startswith(_KEPT_FOLDERS)]
    if "xla/service/hlo.proto" not in files:
        raise ModuleError(
            f"No HLO protobuf descriptors in {library}: expected xla/service/hlo.proto among the"
            f" {len(files)} found. Is this a jaxlib that inspector supports (jax>=0.10,<0.13)?"
        )
    return descriptor_set(wanted, files)


def file_descriptors(library: Path) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """Returns every `FileDescriptorProto` in a shared library, by the path of its `.proto` file."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _by_name(_section(data)) or _by_name(data)


def _section(data: mmap.mmap) -> bytes:
    """Returns the section where protobuf's compiler puts descriptors; empty if the linker did not keep it."""
    try:
        return b"".join(data[s.offset : s.offset + s.length] for s in sections(data) if s.name == _SECTION)
    except UnknownFormatError:
        return b""


def _by_name(data: mmap.mmap | bytes) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for descriptor in _descriptors(data):
        files.setdefault(descriptor.name, descriptor)
    return files


def descriptor_set(wanted: Iterable[str], files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> bytes:
    """Returns the wanted files and their imports as a serialized `FileDescriptorSet`, dependencies first."""
    ordered: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for name in wanted:
        _add_with_dependencies(name, files, ordered)
    return descriptor_pb2.FileDescriptorSet(file=ordered.values()).SerializeToString()


def _descriptors(data: mmap.mmap | bytes) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    for begin in _BEGIN.finditer(data):
        if begin.group(1)[0] != len(begin.group(2)):
            continue
        start = begin.start()
        try:
            yield descriptor_pb2.FileDescriptorProto.FromString(data[start : _end(data, start)])
        except DecodeError:
            continue


def _end(data: mmap.mmap | bytes, start: int) -> int:
    """Returns the end of the serialized message at `start`: its fields are in ascending order, `name` once."""
    position, last = start, 0
    while (field := _field(data, position, last)) is not None:
        last, position = field
    return position


def _field(data: mmap.mmap | bytes, position: int, last: int) -> tuple[int, int] | None:
    """Returns the number and end of the field at a position; None if no field follows that may come after field `last`."""
    try:
        key, end = read_varint(data, position)
        number, wire_type = key >> 3, key & 7
        if not last <= number <= _LAST_FIELD or number == 0 or number == last == 1:
            return None
        if wire_type == _VARINT:
            return number, read_varint(data, end)[1]
        length, end = read_varint(data, end)
    except ValueError:
        return None
    return (number, end + length) if wire_type == _LENGTH_DELIMITED and length <= _LARGEST_FIELD_BYTES else None


def _add_with_dependencies(
    name: str,
    files: Mapping[str, descriptor_pb2.FileDescriptorProto],
    ordered: dict[str, descriptor_pb2.FileDescriptorProto],
) -> bool:
    """Appends `name` after its imports; returns False, without appending `name`, if an import is missing."""
    if name in ordered:
        return True
    if name not in files:
        return False
    if not all(_add_with_dependencies(needed, files, ordered) for needed in files[name].dependency):
        return False
    ordered[name] = files[name]
    return True
