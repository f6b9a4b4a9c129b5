"""Reads XLA's serialized executables: the object code of CPU kernels, and the thunks of CPUs and GPUs.

    varint    length of the metadata
    metadata  xla.ifrt.SerializedXlaExecutableMetadata
    rest      xla.ExecutableAndOptionsProto; its `serialized_executable` is, on the CPU,
              an xla.cpu.CompilationResultProto with one ELF or Mach-O object per kernel

The format was determined with jaxlib 0.10.2 and 0.12.0. Nothing is executed. Used by `compilation/machine_code.py`,
`compilation/machine_features.py` and `compilation/records/thunks.py`.
"""

from __future__ import annotations

import struct
from typing import Any

from google.protobuf.message import DecodeError

from inspector.errors import ModuleError, Unavailable
from inspector.support.varints import read_varint
from inspector.toolchain.schema import installed_schema

# ELF64, little-endian (System V ABI, chapter 4).
_ELF = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS = 2, 8
_LOADED = 2


def object_files(executable: bytes) -> tuple[bytes, ...] | Unavailable:
    """Returns the object files of a CPU executable, in no particular order.

    Args:
      executable: a serialized executable.
    """
    result = compilation_result(executable)
    if result is None:
        return Unavailable("these bytes are not a CPU executable, and only those can be read")
    return tuple(bytes(file.contents) for file in result.object_files)


def cpu_features(executable: bytes) -> frozenset[str] | Unavailable:
    """Returns the CPU features for which a CPU executable was compiled, by LLVM's names, such as `avx2`.

    Args:
      executable: a serialized executable.
    """
    result = compilation_result(executable)
    features = () if result is None else result.target_machine_options.features.split(",")
    # XLA adds "prefer-..." preferences, which are not CPU features.
    names = frozenset(name[1:] for name in features if name.startswith("+") and not name.startswith("+prefer-"))
    return names or Unavailable("the executable does not name the CPU features that it was compiled for")


def nameless(object_file: bytes) -> bytes:
    """Returns the parts of an object file without the names that it defines: loaded sections and external symbols.

    Files that are not ELF64 are returned unchanged.
    """
    try:
        return b"\0".join(_parts(object_file)) if object_file[:6] == _ELF else object_file
    except (struct.error, IndexError, ValueError, OverflowError):
        return object_file


def _parts(data: bytes) -> list[bytes]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    (count,) = struct.unpack_from("<H", data, 0x3C)
    sections = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    loaded = []
    outside: list[bytes] = []
    for _, kind, flags, _, offset, length, link, *_ in sections:
        if flags & _LOADED and kind != _NOBITS:
            loaded.append(data[offset : offset + length])
        if kind == _SYMTAB:
            names = sections[link][4]
            outside += [
                data[names + name : data.index(b"\0", names + name)]
                for name, _, _, section, _, _ in _SYMBOL.iter_unpack(data[offset : offset + length])
                if section == 0 and name
            ]
    return [*loaded, *sorted(outside)]


def compilation_result(executable: bytes) -> Any | None:
    """Returns the `xla.cpu.CompilationResultProto` of a CPU executable; None for other executables."""
    try:
        length, start = read_varint(executable)
    except ValueError:
        return None
    if not 0 < length <= len(executable) - start:
        return None
    schema = installed_schema()
    try:
        outer: Any = schema.message("xla.ExecutableAndOptionsProto").FromString(executable[start + length :])
        result: Any = schema.message("xla.cpu.CompilationResultProto").FromString(outer.serialized_executable)
    except (DecodeError, UnicodeDecodeError, ModuleError):
        return None
    return result if result.HasField("hlo_module") else None


def gpu_executable(record: bytes) -> Any | None:
    """Returns the `xla.gpu.GpuExecutableProto` in a record of a GPU executable; None for other records.

    Args:
      record: as `compilation/records/riegeli.py` reads them.

    Raises:
      ModuleError: the installed jaxlib does not know the message.
    """
    try:
        proto: Any = installed_schema().message("xla.gpu.GpuExecutableProto").FromString(record)
    except (DecodeError, UnicodeDecodeError):
        return None
    return proto if proto.HasField("hlo_module_with_config") and proto.thunks else None
