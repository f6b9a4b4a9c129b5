"""Names of notebook cells' files, which contain the pid of the notebook kernel: `<temp>/ipykernel_<pid>/<hash of the cell>.py`.

The source locations of a module contain these names, so the same cells lead to other bytes after a restart. This module
treats such modules as equal, and replaces the names in a cached program with those of the current kernel.

The names are in the string section of MLIR's bytecode (mlir.llvm.org/docs/BytecodeFormat).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from inspector.compilation.caches.kernel_pids import MARK
from inspector.compilation.compiled import CompiledProgram
from inspector.support import deferred
from inspector.support.varints import read_mlir_varint
from inspector.toolchain.schema import installed_schema

_MAGIC = b"ML\xefR"
_STRINGS = 0  # the id of the string section


def module_digest(module: bytes) -> str:
    """Returns the SHA-256 of MLIR bytecode in hex, equal for the same cells in any kernel."""
    if MARK not in module:
        return hashlib.sha256(module).hexdigest()
    digest = hashlib.sha256()
    for section, data in _sections(module):
        part = b"\0".join(map(_without_pid, _split(data))) if section == _STRINGS else data
        digest.update(b"%d %d\n" % (section, len(part)))
        digest.update(part)
    return digest.hexdigest()


def renamed(compiled: CompiledProgram, module: bytes) -> CompiledProgram:
    """Returns a program with the file names of another module with the same digest.

    Args:
      compiled: a program compiled in another notebook kernel; its executable keeps the old names.
      module: the module of the same cells in this kernel.
    """
    if compiled.program.module == module:
        return compiled
    pairs = zip(_strings(compiled.program.module), _strings(module), strict=True)
    names = {before.decode(): after.decode() for before, after in pairs if before != after}
    hlo = compiled.hlo
    for before, after in names.items():
        hlo = hlo.replace(f'"{before}"', f'"{after}"')
    return deferred.replace(compiled, hlo=hlo, hlo_proto=_renamed_proto(compiled.hlo_proto, names))


def _renamed_proto(data: bytes, names: Mapping[str, str]) -> bytes:
    if all(
        len(before) == len(after) for before, after in names.items()
    ):  # keeps XLA's own bytes, by which cached readings are found
        for before, after in names.items():
            data = data.replace(before.encode(), after.encode())
        return data
    message: Any = installed_schema().message("xla.HloModuleProto").FromString(data)
    files = message.stack_frame_index.file_names
    files[:] = [names.get(name, name) for name in files]
    written: bytes = message.SerializeToString(deterministic=True)
    return written


def _without_pid(string: bytes) -> bytes:
    before, mark, rest = string.partition(MARK)
    return before + mark + rest.lstrip(b"0123456789")


def _strings(module: bytes) -> list[bytes]:
    return [string for section, data in _sections(module) if section == _STRINGS for string in _split(data)]


def _split(data: bytes) -> list[bytes]:
    """Returns the strings of the string section: their number, their lengths from last to first, then their bytes."""
    count, position = read_mlir_varint(data, 0)
    lengths = []
    for _ in range(count):
        length, position = read_mlir_varint(data, position)
        lengths.append(length)
    strings = []
    for length in reversed(lengths):
        strings.append(data[position : position + length].rstrip(b"\0"))
        position += length
    return strings


def _sections(module: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the id and the bytes of each section of a module, after its version and producer with id -1."""
    if not module.startswith(_MAGIC):
        yield -1, module
        return
    _, position = read_mlir_varint(module, len(_MAGIC))
    position = module.index(b"\0", position) + 1
    yield -1, module[:position]
    while position < len(module):
        section = module[position]
        length, position = read_mlir_varint(module, position + 1)
        if section & 0x80:
            alignment, position = read_mlir_varint(module, position)
            position += -position % alignment
        yield section & 0x7F, module[position : position + length]
        position += length
