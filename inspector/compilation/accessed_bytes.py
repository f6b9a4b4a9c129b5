"""Bytes that an instruction accesses, in all and by memory, from XLA's counts.

On TPUs the sizes of tiled arrays are those of whole tiles, as in the TPU's own analysis.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import Shape

BYTES = "bytes accessed"
_POINTER_BYTES = 8
_UNTILED = 8 * 128
_HOST = 5  # memory space (xla/layout.h)


def has_vector_memory(module: Module) -> bool:
    """Reports whether some values are in another memory than the main one, as on TPUs."""
    leaves = (leaf for shape in module.known_shapes for leaf in shape.leaves)
    return not all(map(_in_main_memory, leaves))


def accessed_bytes(
    instruction: Instruction, counts: Mapping[str, float], touched_bytes: float | None
) -> tuple[float, float, float]:
    """Returns the bytes accessed, with tiled arrays in whole tiles, and the parts of them in the main and the host's memory."""
    operands = instruction.operands
    shapes = {bytes_read(n): operand.shape for n, operand in enumerate(operands)}
    shapes[f"{BYTES}out{{}}"] = instruction.shape
    leaves = [leaf for shape in shapes.values() for leaf in shape.leaves]
    if not any(leaf.layout and leaf.layout.tiles for leaf in leaves):  # not a TPU
        moved_by_all = counts.get(BYTES, 0.0) if touched_bytes is None else touched_bytes
        if not any(map(_in_host_memory, leaves)):
            return moved_by_all, moved_by_all, 0.0
        host = (
            _copied(instruction, _in_host_memory)
            if instruction.opcode == "copy-start"
            else sum(
                counts[name] * _part_in(shape, _in_host_memory) for name, shape in shapes.items() if name in counts
            )
        )
        host = 0.0 if instruction.opcode == "copy-done" else min(float(host), moved_by_all)
        return moved_by_all, moved_by_all - host, host
    if instruction.shape.is_tuple and instruction.opcode in (
        "fusion",
        "custom-call",
    ):  # XLA also counts the bytes of each result
        parts = {bytes_written(n): each for n, each in enumerate(instruction.shape.tuple_shapes)}
        if parts.keys() <= counts.keys():
            del shapes[f"{BYTES}out{{}}"]
            shapes |= parts
    moved = {name: _padded(counts[name], shape) for name, shape in shapes.items() if name in counts}
    if instruction.opcode == "copy-start":  # its result contains the operand again
        main, host = _copied(instruction, _in_main_memory), _copied(instruction, _in_host_memory)
    elif instruction.opcode == "copy-done":
        main = host = 0.0
    else:
        main, host = (
            sum(value * _part_in(shapes[name], is_in) for name, value in moved.items())
            for is_in in (_in_main_memory, _in_host_memory)
        )
    return sum(moved.values()), main, host


def _copied(start: Instruction, is_in: Callable[[Shape], bool]) -> float:
    """Returns the bytes that a copy-start reads from and writes to a memory."""
    ends = (start.shape.tuple_shapes[0], *(operand.shape for operand in start.operands))
    return float(sum(_tpu_bytes(leaf) for shape in ends for leaf in shape.leaves if is_in(leaf)))


def _part_in(shape: Shape, is_in: Callable[[Shape], bool]) -> float:
    """Returns the fraction of a value that is in a memory."""
    inside = sum(_tpu_bytes(leaf) for leaf in shape.leaves if is_in(leaf))
    return inside / max(1, sum(map(_tpu_bytes, shape.leaves))) if inside else 0.0


def _in_main_memory(leaf: Shape) -> bool:
    return leaf.layout is None or leaf.layout.memory_space == 0


def _in_host_memory(leaf: Shape) -> bool:
    return leaf.layout is not None and leaf.layout.memory_space == _HOST


def _padded(counted: float, shape: Shape) -> float:
    if shape.is_tuple and counted <= _POINTER_BYTES * len(shape.tuple_shapes):
        return counted  # the size of the pointer table only
    return counted * sum(map(_tpu_bytes, shape.leaves)) / max(1, shape.byte_size)


def _tpu_bytes(leaf: Shape) -> int:
    """Returns the size of an array in libtpu's cost analysis, which counts whole tiles of 8 x 128 for untiled ones too."""
    if leaf.layout is None or leaf.layout.tiles:
        return leaf.padded_byte_size
    return leaf.byte_size * _UNTILED // max(1, min(_UNTILED, math.prod(leaf.dimensions)))


@functools.cache
def bytes_read(operand: int) -> str:
    """Returns XLA's name for the bytes that are read from an operand."""
    return f"{BYTES}{operand}{{}}"


@functools.cache
def bytes_written(result: int) -> str:
    """Returns XLA's name for the bytes that are written to an array of a tuple."""
    return f"{BYTES}out{{{result}}}"
