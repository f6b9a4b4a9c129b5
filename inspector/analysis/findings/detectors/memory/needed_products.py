"""Recomputed products that the backward pass reads; other products only feed further recomputed products."""

from __future__ import annotations

import math
from collections.abc import Iterator

from inspector.analysis.findings.before import full_name, uses
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.products import PRODUCTS
from inspector.analysis.findings.subject import Subject
from inspector.hlo.module import Instruction
from inspector.hlo.source import Frame, merged_names, own_frame, phases

_MOST_VALUES = 200
_Place = tuple[str, Frame | None]


class NeededProducts:
    """The recomputed products of a program, by the full name, the line and the size before optimization."""

    def __init__(self, subject: Subject) -> None:
        """Follows the products in the HLO before optimization."""
        self._device_count = subject.compiled.program.device_count
        self._known: dict[_Place, list[tuple[int, bool]]] = {}
        for value, name in subject.calls.values(PRODUCTS) if subject.calls is not None else ():
            if phases(name) == ("recomputed",):
                found = self._known.setdefault((name, own_frame(value.instruction.frames)), [])
                found.append((result_elements(value.instruction), _is_needed(value)))

    def has(self, product: Instruction) -> bool:
        """Reports whether the backward pass reads an optimized product, or it is not known."""
        found, size = [*self._alike(product)], result_elements(product)
        parts = [is_needed for whole, is_needed in found if size <= whole <= size * self._device_count]
        return any(parts) or not parts

    def _alike(self, product: Instruction) -> Iterator[tuple[int, bool]]:
        for name in merged_names(product.op_name):
            yield from self._known.get((name, own_frame(product.frames)), ())


def result_elements(value: Instruction) -> int:
    """Returns the number of elements of the first array of a result."""
    return math.prod(next(iter(value.shape.leaves)).dimensions)  # a library's product has a workspace too


def _is_needed(product: Value) -> bool:
    """Reports whether anything except recomputed products uses a value, directly or through recomputed operations."""
    waiting, seen = [product], set[Value]()
    while waiting:
        for use in uses(waiting.pop()):
            user = use.user
            if user is None or phases(full_name(user)) != ("recomputed",) or len(seen) > _MOST_VALUES:
                return True
            if user.instruction.opcode not in PRODUCTS and user not in seen:
                seen.add(user)
                waiting.append(user)
    return False
