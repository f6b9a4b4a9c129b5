"""Bytes that the kernels of a CPU write to memory that the operating system has just provided.

glibc returns memory of at least 32 MiB to the system when a program frees it (`M_MMAP_THRESHOLD` in mallopt(3)). So each
execution that allocates more writes to new pages, and the system clears each page on its first write. XLA gives a value the
memory of an earlier value after its last use, and lets a loop write its result over an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from inspector.hlo.module import Instruction, Module

RETURNED = 32 << 20
"""Bytes from which glibc returns freed memory to the system."""

_SMALLEST = 128 << 10  # of values that count: glibc always reuses the memory of smaller ones
_FORWARDING = frozenset({
    "add-dependency", "after-all", "bitcast", "call", "conditional", "get-tuple-element", "opt-barrier", "tuple", "while",
})  # fmt: skip
_ELSEWHERE = _FORWARDING | {"constant", "parameter"}
_FOREVER = 1 << 62


def first_writes(module: Module) -> dict[int, float]:
    """Returns the bytes of the first writes to new pages, by the row of the kernel in the entry computation."""
    columns, rows = module.columns, np.array(module.entry.rows)
    by_shape = np.array([float(sum(leaf.byte_size for leaf in shape.leaves)) for shape in module.known_shapes])
    sizes = by_shape[columns.shapes.codes[rows]]
    is_made = ~columns.opcode_is(_ELSEWHERE.__contains__)[rows]
    large = rows[is_made & (sizes >= _SMALLEST)]
    if by_shape[columns.shapes.codes[large]].sum() < RETURNED:
        return {}
    found = _new(module, large[np.argsort(columns.positions[large], kind="stable")].tolist())
    return found if sum(found.values()) >= RETURNED else {}


def _new(module: Module, scheduled: Iterable[int]) -> dict[int, float]:
    """Returns the bytes for which no earlier value leaves memory, by row."""
    last_use, positions, donated = _last_uses(module), module.columns.positions, _in_donated_memory(module)
    found, held, free = dict[int, float](), dict[int, tuple[int, float]](), 0.0
    for row in scheduled:
        instruction, now, end = module.at(row), int(positions[row]), last_use(row)
        size = float(sum(leaf.byte_size for leaf in instruction.shape.leaves))
        for other in [other for other, (last, _) in held.items() if last < now]:
            free += held.pop(other)[1]
        if (over := _overwritten(instruction, held, size, now)) is not None:
            del held[over]
        elif end == _FOREVER:  # outputs have memory of their own, or that of a donated argument
            if row not in donated:
                found[row] = size
        else:
            if size > free:
                found[row] = size - free
            free = max(0.0, free - size)
        held[row] = (end, size)
    return found


def _in_donated_memory(module: Module) -> set[int]:
    """Returns the rows of the instructions that make outputs in the memory of donated arguments."""
    root, rows = module.entry.root, set[int]()
    for entry in module.proto.input_output_alias.entries:
        value = (
            root.operands[entry.output_shape_index[0]] if entry.output_shape_index and root.opcode == "tuple" else root
        )
        while value.opcode == "bitcast":
            value = value.operands[0]
        rows.add(value.row)
    return rows


def _last_uses(module: Module) -> Callable[[int], int]:
    """Returns a function of a row: the position in the schedule where its value is last used."""
    columns, known = module.columns, dict[int, int]()
    root = module.entry.root.row

    def last_use(row: int) -> int:
        waiting = [row]
        while waiting:
            current = waiting[-1]
            users = columns.users.of(current)
            unknown = [u for u in users if columns.opcode_texts[u] in _FORWARDING and u not in known]
            if unknown and current not in known:
                waiting += unknown
                continue
            waiting.pop()
            ends = (known.get(u, 0) if columns.opcode_texts[u] in _FORWARDING else 0 for u in users)
            places = (int(columns.positions[u]) for u in users)
            own = int(columns.positions[current])
            known[current] = _FOREVER if current == root else max((own, *ends, *places))
        return known[row]

    return last_use


def _overwritten(kernel: Instruction, held: dict[int, tuple[int, float]], size: float, now: int) -> int | None:
    """Returns the row of the operand over which a loop writes its result; None if there is none."""
    if kernel.opcode != "fusion" or kernel.fusion_kind != "kLoop":
        return None
    for operand in kernel.operands:
        while operand.opcode in ("bitcast", "get-tuple-element"):
            operand = operand.operands[0]
        if held.get(operand.row) == (now, size):
            return operand.row
    return None
