"""`KernelFacts`: the size and resources of a kernel, read from its machine code.

    CPU   symbols of the object file; instructions counted by capstone
    GPU   symbols and sections of the cubin, and the records of ptxas in it (`.nv.info`, EIATTR)
    TPU   the VLIW bundles

Needs no CUDA tools. NVIDIA names the records and does not document them. Their layout, the size of an instruction and the
reserved shared memory were compared with the output of `ptxas -v` and `nvdisasm` of CUDA 12.9 for sm_80, sm_90a and sm_100a.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Iterator

from inspector.compilation.records import disassembly
from inspector.compilation.records.elf import CUDA, ObjectFile
from inspector.errors import ModuleError, Unavailable

GPU_ONLY = Unavailable("only machine code of NVIDIA GPUs records it")
"""Unknown facts of all other machine code."""

_NO_RECORD = Unavailable("the cubin does not record it")
_NO_BUNDLES = Unavailable("libtpu writes VLIW bundles as text, without their size")


@dataclasses.dataclass(frozen=True, slots=True)
class KernelFacts:
    """The size and resources of a kernel. Unknown ones are Unavailable, with the reason.

    Attributes:
      machine_instructions: number of machine instructions, without padding; for TPUs, of VLIW bundles. From the last stage.
      code_bytes: size of the kernel's functions in bytes, with padding. From the symbols of the machine code.
      registers: 32-bit registers of each thread of a GPU. From the cubin.
      spill_bytes: bytes of registers that each thread of a GPU spills to memory. 0 if the cubin records no stack frame. The cubin
        does not separate spills from other values in a stack frame.
      stack_bytes: stack frame of each thread of a GPU, in bytes. From the cubin.
      shared_bytes: shared memory that the code of a GPU kernel declares, in bytes per block. More may be added at launch (stage
        "thunks"). From the cubin.
      threads: threads of a block of a GPU, where the code requires a number (PTX `.reqntid`). From the cubin.
    """

    machine_instructions: int | Unavailable
    code_bytes: int | Unavailable
    registers: int | Unavailable = GPU_ONLY
    spill_bytes: int | Unavailable = GPU_ONLY
    stack_bytes: int | Unavailable = GPU_ONLY
    shared_bytes: int | Unavailable = GPU_ONLY
    threads: int | Unavailable = GPU_ONLY


def unknown_facts(reason: Unavailable) -> KernelFacts:
    """Returns facts that are all unknown for one reason."""
    return KernelFacts(*[reason] * len(dataclasses.fields(KernelFacts)))


def facts_of_object(data: bytes) -> KernelFacts:
    """Returns the facts of a CPU kernel.

    Args:
      data: its object file.
    """
    try:
        functions = ObjectFile(data).functions()
    except ModuleError as e:
        return KernelFacts(Unavailable(str(e)), Unavailable(str(e)))
    return KernelFacts(disassembly.instruction_count(data), sum(len(function.code) for function in functions))


def facts_of_bundles(text: str) -> KernelFacts:
    """Returns the facts of a TPU kernel.

    Args:
      text: its VLIW bundles, as libtpu writes them.
    """
    return KernelFacts(len(_BUNDLE.findall(text)), _NO_BUNDLES)


_BUNDLE = re.compile(r"^ *(?:0x[0-9a-f]+|0) .*?: +(?:> *)*\{", re.MULTILINE)


def facts_of_cubin(data: bytes, kernel: str) -> KernelFacts:
    """Returns the facts of a GPU kernel.

    Args:
      data: a cubin.
      kernel: name of a kernel in the cubin.
    """
    try:
        cubin = ObjectFile(data)
        code = next((each.code for each in cubin.functions() if each.name == kernel), None)
        if cubin.machine != CUDA or code is None:
            return unknown_facts(Unavailable(f"the machine code has no kernel {kernel!r}"))
        of_all = {number: value for number, value in _records(cubin, ".nv.info") if _names(cubin, value, kernel)}
        own = dict(_records(cubin, f".nv.info.{kernel}"))
    except (ModuleError, struct.error) as e:
        return unknown_facts(Unavailable(f"the cubin cannot be read ({e})"))
    stack = _word(of_all.get(_FRAME_SIZE), 1)
    return KernelFacts(
        machine_instructions=_instructions(code),
        code_bytes=len(code),
        registers=_word(of_all.get(_REGISTERS), 1),
        spill_bytes=_spills(stack),
        stack_bytes=stack,
        shared_bytes=_shared(cubin, kernel),
        threads=_threads(own.get(_REQUIRED_THREADS)),
    )


# A record: format, number, and a 16-bit value (which with `_SIZED` is the size of the bytes that follow).
_RECORD = struct.Struct("<BBH")
_SIZED = 4
_REQUIRED_THREADS, _FRAME_SIZE, _REGISTERS = 0x10, 0x11, 0x2F  # EIATTR_REQNTID, EIATTR_FRAME_SIZE, EIATTR_REGCOUNT
_INSTRUCTION_BYTES = 16  # since Volta (sm_70)
_NOP = 0x918  # the opcode, in the lowest 12 bits
_RESERVED_BYTES = 1024  # of a kernel's shared memory, since Hopper


def _records(cubin: ObjectFile, section: str) -> Iterator[tuple[int, bytes]]:
    data = cubin.section(section) or b""
    position = 0
    while position < len(data):
        form, number, value = _RECORD.unpack_from(data, position)
        position += _RECORD.size
        if form == _SIZED:
            yield number, data[position : position + value]
            position += value


def _names(cubin: ObjectFile, value: bytes, kernel: str) -> bool:
    """Reports whether a record about all kernels is about one: its first word is the index of a symbol."""
    return len(value) == 8 and cubin.symbol(int.from_bytes(value[:4], "little")) == kernel


def _word(value: bytes | None, index: int) -> int | Unavailable:
    return _NO_RECORD if value is None else int.from_bytes(value[4 * index : 4 * index + 4], "little")


def _spills(stack: int | Unavailable) -> int | Unavailable:
    if isinstance(stack, Unavailable) or stack == 0:
        return stack
    return Unavailable(f"the cubin records a stack frame of {stack} bytes, not how much of it is for spilled registers")


def _shared(cubin: ObjectFile, kernel: str) -> int:
    size = cubin.section_size(f".nv.shared.{kernel}") or 0
    is_reserved = size > 0 and cubin.section_size(".nv.shared.reserved.0") is not None
    return size - _RESERVED_BYTES if is_reserved else size


def _threads(value: bytes | None) -> int | Unavailable:
    if value is None or len(value) != 12:
        return Unavailable("the code does not require a number of threads")
    x, y, z = struct.unpack("<3I", value)
    return int(x * y * z)


def _instructions(code: bytes) -> int:
    count = len(code) // _INSTRUCTION_BYTES
    while count and int.from_bytes(code[(count - 1) * _INSTRUCTION_BYTES :][:2], "little") & 0xFFF == _NOP:
        count -= 1
    return count
