"""Names of notebook cells' files, which carry the pid of the notebook kernel: `<temp>/ipykernel_<pid>/<hash of the cell>.py`.

A module names them in its source locations, so after a restart the same cells make other bytes. Here such
modules count as one, and what was compiled of one is told in the names of the other.

The names are read from the string section of MLIR's bytecode (mlir.llvm.org/docs/BytecodeFormat).
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
    """SHA-256 of MLIR bytecode in hex, the same for the same cells in any kernel."""
    if MARK not in module:
        return hashlib.sha256(module).hexdigest()
    digest = hashlib.sha256()
    for section, data in _sections(module):
        part = b"\0".join(map(_without_pid, _split(data))) if section == _STRINGS else data
        digest.update(b"%d %d\n" % (section, len(part)))
        digest.update(part)
    return digest.hexdigest()


def renamed(compiled: CompiledProgram, module: bytes) -> CompiledProgram:
    """A program with the cells' names of another module of the same digest.

    Args:
      compiled: what was compiled in another notebook kernel; its executable keeps that one's names.
      module: what the same cells lowered to in this one.
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
    if all(len(before) == len(after) for before, after in names.items()):  # XLA's own bytes, of which readings are kept
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
    """The strings of the string section: their number, their lengths from the last to the first, then all of them."""
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
    """The id and the bytes of each section of a module; its version and producer come first, with id -1."""
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
