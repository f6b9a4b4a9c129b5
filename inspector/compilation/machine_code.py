"""Digests of machine code, to check whether two compiles of a program produced the same code.

Reads a serialized executable, which every completed compile has, so assembly need not be requested; without
an executable, reads recorded assembly. Names, addresses of buffers and the compile order of kernels do not count.

    CPU   object files of the kernels, and the thunks that call them
    GPU   cubins of the kernels, and the thunks that launch them
    TPU   programs of the cores

The formats were determined with jaxlib 0.10.2 and 0.12.0 and the matching libtpu; nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from inspector.compilation.compiled import CompiledProgram, executable_of
from inspector.compilation.files.archive import inflate
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.elf import MAGIC, ObjectFile, cubins
from inspector.compilation.records.riegeli import SIGNATURE, everything_in, records
from inspector.compilation.records.tpu_names import BUNDLES
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.executable import compilation_result, gpu_executable, nameless
from inspector.support.digests import digest_of
from inspector.support.varints import read_varint

MachineCode = Mapping[str, str]
"""Digests (SHA-256 in hex) by form: `object files`, `cubins`, `thunks`, `TPU programs`, `VLIW bundles`."""

_UNREADABLE = Unavailable("the machine code of this executable cannot be read: unknown format")
_TPU_EXECUTABLE = b"xla.TpuExecutableProto"

# Fields of thunks that name, number or locate something, and the devices of collectives. The memory analysis covers the
# locations of buffers, and the comparison of the HLO the devices, whose order in a list means nothing.
_NAMING = frozenset({
    "buffer_allocation_index", "called_computation", "canonical_hlo", "channel_id", "comparator_name", "instruction_id",
    "instruction_name", "kernel_name", "metadata", "module_id", "module_name", "name", "offset", "op_id", "op_name",
    "profile_annotation", "slice_alignments", "thunk_id",
    "collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list", "replica_group", "replica_groups",
    "source_target_pairs",
})  # fmt: skip

_COMMENT = re.compile(r"\s*//.*|/\*.*?\*/")
_VALUE_NUMBER = re.compile(r"%[a-z]*\d+")  # `%v24644_v48` is the value 24644 in the register v48
_PTX_NAME = re.compile(r"(\.entry|\.func)\s+[\w$.]+|\b[\w$.]+_param_\d+")


def of_program(program: CompiledProgram) -> MachineCode | Unavailable:
    """Returns the machine code of a compiled program, or why it is unknown."""
    code = of_executable(executable_of(program))
    if isinstance(code, Unavailable) and not isinstance(program.assembly, Unavailable):
        return of_assembly(program.assembly)
    return code


def differ(before: CompiledProgram, after: CompiledProgram) -> bool | Unavailable:
    """Reports whether the machine code of two programs differs, or why that is unknown."""
    if before is after:
        return False
    first = of_program(before), of_program(after)
    is_different = _differ(*first)
    if isinstance(is_different, Unavailable) and not any(isinstance(each, Unavailable) for each in first):
        recorded = [each.assembly for each in (before, after)]  # one program has an executable, the other only assembly
        if not any(isinstance(each, Unavailable) for each in recorded):
            return _differ(*map(of_assembly, recorded))  # type: ignore[arg-type]
    return is_different


def _differ(ours: MachineCode | Unavailable, theirs: MachineCode | Unavailable) -> bool | Unavailable:
    for each in (ours, theirs):
        if isinstance(each, Unavailable):
            return each
    common = ours.keys() & theirs.keys()  # type: ignore[union-attr]
    if not common:
        return Unavailable("the two programs have their machine code in different forms", "Compile both again.")
    return any(ours[form] != theirs[form] for form in common)  # type: ignore[index]


def of_executable(executable: bytes | Unavailable) -> MachineCode | Unavailable:
    """Returns the machine code of a serialized executable.

    Args:
      executable: as in `executable_of`.
    """
    if isinstance(executable, Unavailable):
        return executable
    result = compilation_result(executable)
    if result is not None:
        files = [nameless(bytes(file.contents)) for file in result.object_files]
        return {"object files": _digest_of_all(files), "thunks": _digest_of_all([_plain(result.thunk_sequence)])}
    try:
        return _of_gpu(executable) or _of_tpu(executable) or _UNREADABLE
    except (ModuleError, DecodeError, ValueError, IndexError) as e:
        return Unavailable(f"{_UNREADABLE.reason} ({e})")


def of_assembly(assembly: Assembly) -> MachineCode | Unavailable:
    """Returns the machine code in recorded assembly."""
    objects = {code.compressed for code in assembly if code.form == "elf"}
    if objects:
        return {"object files": _digest_of_all(nameless(inflate(each)) for each in objects)}
    recorded = {code.compressed for code in assembly if code.form == "cubin"}
    if recorded:
        return {"cubins": _digest_of_all(map(_nameless_cubin, map(inflate, recorded)))}
    bundles = [code.text for code in assembly if code.stage == BUNDLES]
    if bundles:
        plain = [_VALUE_NUMBER.sub("%", _COMMENT.sub("", str(text))) for text in bundles]
        return {BUNDLES: _digest_of_all(text.encode() for text in plain)}
    return Unavailable("the recorded code has no machine code")


def _of_gpu(executable: bytes) -> MachineCode | None:
    for record in everything_in(executable) if SIGNATURE in executable else ():
        proto = gpu_executable(record)
        if proto is None:
            continue
        nameless_cubins = [_nameless_cubin(cubin) for cubin in dict.fromkeys(data for data, _ in cubins(record))]
        launches = [_plain(thunk) for thunk in proto.thunks]
        parts = [_plain_ptx(proto.asm_text).encode(), *(constant.content for constant in proto.constants)]
        return {"cubins": _digest_of_all(nameless_cubins), "thunks": digest_of([*launches, *parts]).hex()}
    return None


def _nameless_cubin(cubin: bytes) -> bytes:
    """Returns the parts of a cubin that are loaded onto a GPU, without the names and the order of its kernels."""
    return digest_of(sorted(ObjectFile(cubin).loaded())) if cubin.startswith(MAGIC) else cubin


def _of_tpu(executable: bytes) -> MachineCode | None:
    for program in _tpu_programs(executable):
        codes = [value for number, value in _fields(program) if number == _TPU_CORE and isinstance(value, bytes)]
        cores = [dict(_fields(code)) for code in codes]
        if cores and all(isinstance(core.get(_TPU_CODE), bytes) for core in cores):
            parts = [b"%d:" % int(core.get(_TPU_CORE_KIND, 0)) + core[_TPU_CODE] for core in cores]  # type: ignore[operator]
            return {"TPU programs": _digest_of_all(parts)}
    return None


_TPU_CORE, _TPU_CORE_KIND, _TPU_CODE = 8, 1, 3  # fields of libtpu's program, and of the code of a core in it


def _tpu_programs(executable: bytes) -> Iterator[bytes]:
    """Yields the possible programs: the first message after the metadata, or in the first record of a file of records."""
    if SIGNATURE in executable:
        if _TPU_EXECUTABLE in executable:
            for record in records(executable[executable.find(SIGNATURE) :]):
                for inner in _inside(record):
                    yield from _inside(inner)
        return
    length, start = read_varint(executable)
    size, start = read_varint(executable, start + length)
    yield executable[start : start + size]


def _inside(message: bytes) -> list[bytes]:
    """Returns the first field of a message, where it is bytes."""
    try:
        return [value for number, value in _fields(message) if number == 1 and isinstance(value, bytes)]
    except ValueError:
        return []


def _fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Reads the fields of a message whose schema is not published: numbers with integers or bytes.

    Raises:
      ValueError: not a message.
    """
    fields: list[tuple[int, int | bytes]] = []
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        kind = tag & 7
        if kind == 0:
            value, position = read_varint(message, position)
            fields.append((tag >> 3, value))
            continue
        if kind not in _SIZES and kind != _LENGTH:
            raise ValueError(f"a field of kind {kind}")
        size = _SIZES.get(kind, 0)
        if kind == _LENGTH:
            size, position = read_varint(message, position)
        if position + size > len(message):
            raise ValueError("a field that ends after its message")
        fields.append((tag >> 3, message[position : position + size]))
        position += size
    return fields


_LENGTH, _SIZES = 2, {1: 8, 5: 4}


def _plain(message: Any) -> bytes:
    """Returns a message of thunks without the fields in `_NAMING`, and with cubins without names."""
    copy = type(message).FromString(message.SerializeToString())
    _clear(copy)
    return bytes(copy.SerializeToString(deterministic=True))


def _clear(message: Any) -> None:
    for field, value in message.ListFields():
        if field.name in _NAMING:
            message.ClearField(field.name)
        elif hasattr(value, "DESCRIPTOR"):
            _clear(value)
        elif isinstance(value, bytes) and value.startswith(MAGIC):
            setattr(message, field.name, _nameless_cubin(value))
        elif isinstance(value, str) and ".entry" in value:
            setattr(message, field.name, _plain_ptx(value))
        elif field.message_type is not None:
            entries = value.values() if hasattr(value, "values") else value
            for each in entries:
                if hasattr(each, "DESCRIPTOR"):
                    _clear(each)


def _plain_ptx(text: str) -> str:
    return _PTX_NAME.sub("", _COMMENT.sub("", text))


def _digest_of_all(parts: Iterable[bytes]) -> str:
    """Returns a digest of parts that does not depend on their order."""
    return digest_of(sorted(digest_of([part]) for part in parts)).hex()
