"""Values in a `shard_map` that are the same on all devices along some axes of the mesh, in the HLO before optimization."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.detectors.memory.loop_slices import initial
from inspector.hlo.module import Instruction

_SHARDINGS = "xla.sdy.in_shardings"
_EACH = re.compile(r"<@[^,]+, \[([^\]]*)\]")
_NAME = re.compile(r'"([^"]+)"')
_DIFFERING = frozenset({
    "partition-id", "replica-id", "rng", "rng-bit-generator", "custom-call", "infeed", "recv", "reduce-scatter", "all-to-all",
    "collective-permute", "while", "conditional",
})  # fmt: skip
"""Operations whose result may differ although their operands do not."""
_MAKING_SAME = frozenset({"all-reduce", "all-gather"})
_MOST_VALUES = 500


def is_same_along(value: Value, axes: Collection[str] | None, collective: Instruction) -> bool:
    """Reports whether a value is known to be the same on all devices along some axes.

    Args:
      value: the value.
      axes: names of mesh axes; None for all.
      collective: a collective over these axes. Results of sums and gathers in the same groups are the same.
    """
    waiting, seen = [value], set[Value]()
    while waiting and len(seen) < _MOST_VALUES:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        instruction = each.instruction
        if entered := list(_axes_of_parts(instruction)):
            if any(found is None or ({*found} if axes is None else {*found} & {*axes}) for found in entered):
                return False
            continue
        if instruction.opcode in _MAKING_SAME and _groups(instruction) == _groups(collective):
            continue
        if instruction.opcode in _DIFFERING or (instruction.opcode == "parameter" and not each.calls):
            return False
        if (begun := initial(each)) is not None:
            ended = each.calls[-1].called_computations[0].root.operand(instruction.tuple_index)
            waiting += [begun, source(Value(ended, each.calls))]
        else:
            waiting += each.operands
    return not waiting


def _axes_of_parts(instruction: Instruction) -> Iterator[list[str] | None]:
    """Yields the axes that split an array where it enters a `shard_map`; None if they are unknown."""
    for user in instruction.users:
        if user.opcode == "custom-call" and _SHARDINGS in user.frontend_attributes:
            shardings = _EACH.findall(user.frontend_attributes[_SHARDINGS])
            for number in user.positions_of(instruction):
                yield _NAME.findall(shardings[number]) if number < len(shardings) else None


def _groups(collective: Instruction) -> str:
    return str(collective.replica_groups)
