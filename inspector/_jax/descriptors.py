"""The protobuf schema of the installed jaxlib, found inside its shared library.

jaxlib ships no `_pb2` modules, but its C++ protobuf classes register themselves with serialized
`FileDescriptorProto`s that lie in the library's read-only data. They are found by scanning the
file: nothing of jaxlib is imported and no device is started. A scan reads the whole library
(0.2-1 s), so its result is kept in the user's cache directory.

Must not know what the messages mean; the bytes go to `hlo/schema.py`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import mmap
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from inspector.errors import MissingPackageError, ModuleError

# What we keep of all that is linked into the library (gRPC and Envoy bring a hundred more).
_KEPT_FOLDERS = ("xla/", "tsl/", "jaxlib/")

# A serialized descriptor begins with field 1 (its path, length-prefixed) and field 2 (its package).
_BEGIN = re.compile(rb"\x0a([\x01-\x7f])((?:[a-z0-9_]+/)+[\w\-.]+\.proto)\x12")

# FileDescriptorProto's fields: name .. option_dependency (google/protobuf/descriptor.proto).
_LAST_FIELD = 15
_VARINT, _LENGTH_DELIMITED = 0, 2
_LARGEST_FIELD_BYTES = 1 << 20

_DIGEST_BYTES = hashlib.sha256().digest_size


def installed_descriptors() -> bytes:
    """The installed jaxlib's descriptors as a serialized `FileDescriptorSet`, dependencies first.

    Reads the cache when it is whole, else scans the library and tries to write the cache.

    Raises:
      MissingPackageError: jaxlib is not installed.
      ModuleError: the library holds no HLO descriptors.
    """
    library = _library()
    cache = _cache_file(library)
    cached = _read_cache(cache)
    if cached is not None:
        return cached
    found = scan(library)
    _write_cache(cache, found)
    return found


def scan(library: Path) -> bytes:
    """All XLA descriptors in a shared library, with their dependencies, as a `FileDescriptorSet`.

    Args:
      library: path of `libjax_common.so` or of a PJRT plugin.

    Raises:
      ModuleError: there are none.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        for descriptor in _descriptors(data):
            files.setdefault(descriptor.name, descriptor)
    wanted = [name for name in sorted(files) if name.startswith(_KEPT_FOLDERS)]
    if "xla/service/hlo.proto" not in files:
        raise ModuleError(
            f"No HLO protobuf descriptors in {library}: expected xla/service/hlo.proto among the"
            f" {len(files)} found. Is this a jaxlib that inspector supports (jax>=0.10,<0.13)?"
        )
    ordered: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for name in wanted:
        _add_with_dependencies(name, files, ordered)
    return descriptor_pb2.FileDescriptorSet(file=ordered.values()).SerializeToString()


def _descriptors(data: mmap.mmap) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    for begin in _BEGIN.finditer(data):
        if begin.group(1)[0] != len(begin.group(2)):
            continue
        start = begin.start()
        try:
            yield descriptor_pb2.FileDescriptorProto.FromString(data[start : _end(data, start)])
        except DecodeError:
            continue


def _end(data: mmap.mmap, start: int) -> int:
    """Where the serialized message at `start` stops: its fields come in ascending order, `name` once."""
    position, last = start, 0
    while position < len(data):
        key, after_key = _varint(data, position)
        field, wire_type = key >> 3, key & 7
        if not last <= field <= _LAST_FIELD or field == 0 or (field == 1 and last == 1):
            break
        if wire_type == _LENGTH_DELIMITED:
            length, after_key = _varint(data, after_key)
            if length > _LARGEST_FIELD_BYTES:
                break
            position = after_key + length
        elif wire_type == _VARINT:
            position = _varint(data, after_key)[1]
        else:
            break
        last = field
    return position


def _varint(data: mmap.mmap, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value, position


def _add_with_dependencies(
    name: str,
    files: dict[str, descriptor_pb2.FileDescriptorProto],
    ordered: dict[str, descriptor_pb2.FileDescriptorProto],
) -> bool:
    """Appends `name` after what it imports; False, adding nothing more, when an import is not there."""
    if name in ordered:
        return True
    if name not in files:
        return False
    if not all(_add_with_dependencies(needed, files, ordered) for needed in files[name].dependency):
        return False
    ordered[name] = files[name]
    return True


def _library() -> Path:
    spec = importlib.util.find_spec("jaxlib")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("libjax_common.so", "libjax_common.dylib", "jax_common.dll"):
            library = Path(folder) / name
            if library.exists():
                return library
    raise MissingPackageError(
        "The package jaxlib is not installed (no libjax_common in it was found); it holds the protobuf"
        " schema of HLO. Install it with: pip install jax"
    )


def _cache_file(library: Path) -> Path:
    stat = library.stat()
    version = importlib.metadata.version("jaxlib")
    return _cache_folder() / f"descriptors-{version}-{stat.st_size}-{stat.st_mtime_ns}.binpb"


def _cache_folder() -> Path:
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "inspector"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "inspector"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "inspector"
    return Path.home() / ".cache" / "inspector"


def _read_cache(cache: Path) -> bytes | None:
    """The cached set, or None when there is none, it cannot be read or its digest does not match."""
    try:
        data = cache.read_bytes()
    except OSError:
        return None
    digest, descriptors = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return descriptors if hashlib.sha256(descriptors).digest() == digest else None


def _write_cache(cache: Path, descriptors: bytes) -> None:
    """Writes the cache in one step; a folder that cannot be written only costs the next scan."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=cache.parent, prefix=cache.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(descriptors).digest() + descriptors)
            Path(temporary).replace(cache)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError:
        return
