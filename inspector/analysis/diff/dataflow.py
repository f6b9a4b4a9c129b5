"""`Dataflow`: which value feeds which in a module, fusions and calls seen through.

What a compiler fuses differently computes the same values from the same values: only what holds them differs. So the
instructions of a fusion are taken as if they stood where the fusion does, a parameter of it is the value that is given
for it, and an element taken out of a tuple is what was put in. What is left, the *nodes*, is compared by
`analysis/diff/matching.py`; the rest is *plumbing*.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator

from inspector.errors import ModuleError
from inspector.hlo.module import Module
from inspector.hlo.reading.field_numbers import (
    PARAMETER_NUMBER,
    TUPLE_INDEX,
)

_OPENED = frozenset({"fusion", "call", "async-start"})
_NAMED_AGAIN = frozenset({"async-update", "async-done"})  # they name what `async-start` called

_NOWHERE = -1


class Dataflow:
    """The values of a module. All lists go by rows of the module's columns.

    A *region* is a computation that is not opened, with all that is opened in it: the entry computation, a loop's body,
    a reduction's sum. It goes by the computation's number.

    Attributes:
      module: whose it is.
      opcodes: of each row.
      sources: the row that makes each row's value: its own for a node.
      operands: the values that each node takes; () for plumbing.
      users: the nodes that take each node, with the places at which they do.
      regions: of each row, by number; -1 of what nothing calls.
      groups: the fusion, call or `async-start` that each row stands in, by its row; -1 for none.
      nodes: of each region, operands before users.
      roots: of each region, the node that makes its value.
      calls: the regions that a row calls, such as a loop's.
      opened: the computation of each fusion, call and `async-start` that is seen through.
    """

    def __init__(self, module: Module) -> None:
        """Reads a module.

        Raises:
          ModuleError: it is damaged: computations call each other in a circle, or it lacks what it refers to.
        """
        columns = module.columns
        count = len(columns)
        self.module = module
        self.opcodes = columns.opcode_texts
        self._offsets: list[int] = columns.operands.offsets.tolist()
        self._rows: list[int] = columns.operands.rows.tolist()
        self._roots: list[int] = columns.roots.tolist()
        self.opened, self.calls = _calls(module, self.opcodes)
        self.sources = [*range(count)]
        self.operands: list[tuple[int, ...]] = [()] * count
        self.users: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.regions = [_NOWHERE] * count
        self.groups = [_NOWHERE] * count
        self.nodes: dict[int, list[int]] = {}
        self.roots: dict[int, int] = {}
        inner = {*self.opened.values()}
        for number in range(len(module.computations)):
            if number not in inner:
                self._read(number)

    def taken(self, row: int) -> list[int]:
        """The rows that a row takes, as the module has it."""
        found: list[int] = self._rows[self._offsets[row] : self._offsets[row + 1]]
        return found

    def groups_of(self, row: int) -> list[int]:
        """The fusions, calls and `async-start`s around a row, the outermost last."""
        found: list[int] = []
        while (row := self.groups[row]) >= 0:
            found.append(row)
        return found

    @functools.cached_property
    def members(self) -> dict[int, list[int]]:
        """The nodes in each fusion, call and `async-start` that is seen through, those of fusions in it among them."""
        found: dict[int, list[int]] = {group: [] for group in self.opened}
        for rows in self.nodes.values():
            for row in rows:
                for group in self.groups_of(row):
                    found[group].append(row)
        return found

    def _read(self, region: int) -> None:
        made = [self._value(row) for row in self._walk(region)]
        root = self.roots[region] = self.sources[self._roots[region]]
        nodes = [row for row in made if row >= 0]
        for row in nodes:
            for place, operand in enumerate(self.operands[row]):
                self.users[operand].append((row, place))
        self.nodes[region] = [row for row in nodes if not self._is_bypassed(row, root)]
        for row in {*nodes}.difference(self.nodes[region]):
            for operand in {*self.operands[row]}:
                self.users[operand] = [use for use in self.users[operand] if use[0] != row]

    def _walk(self, region: int) -> Iterator[int]:
        """The rows of a region, operands before users, those of what is opened before their caller."""
        computations = self.module.computations
        waiting: list[tuple[Iterator[int], int]] = [(iter(computations[region].rows), _NOWHERE)]
        while waiting:
            rows, caller = waiting[-1]
            row = next(rows, _NOWHERE)
            if row < 0:
                waiting.pop()
                if caller < 0:
                    continue
                row, caller = caller, waiting[-1][1]
            elif row in self.opened:
                waiting.append((iter(computations[self.opened[row]].rows), row))
                continue
            self.regions[row], self.groups[row] = region, caller
            yield row

    def _value(self, row: int) -> int:
        """Notes where a row's value comes from; the row if it is a node, else -1."""
        opcode, sources = self.opcodes[row], self.sources
        taken = self.taken(row)
        caller = self.groups[row]
        if row in self.opened:
            sources[row] = sources[self._roots[self.opened[row]]]
        elif opcode == "parameter" and caller >= 0:
            sources[row] = sources[self._given(row, caller)]
        elif opcode in _NAMED_AGAIN and taken and self.opcodes[taken[0]] in ("async-start", *_NAMED_AGAIN):
            sources[row] = sources[taken[0]]
            if sources[row] == taken[0]:  # not seen through: the start is a node, and so is this
                sources[row] = row
        elif opcode == "get-tuple-element" and taken and self.opcodes[sources[taken[0]]] == "tuple":
            elements, index = self.operands[sources[taken[0]]], self.indices[row]
            sources[row] = elements[index] if index < len(elements) else row
        if sources[row] != row:
            return _NOWHERE
        self.operands[row] = tuple([sources[operand] for operand in taken])
        return row

    def _given(self, parameter: int, caller: int) -> int:
        """The row that a caller gives for a parameter; the parameter itself where it gives none."""
        given, number = self.taken(caller), self.parameters[parameter]
        return given[number] if 0 <= number < len(given) else parameter

    @functools.cached_property
    def indices(self) -> list[int]:
        found: list[int] = self.module.columns.integers(TUPLE_INDEX).tolist()
        return found

    @functools.cached_property
    def parameters(self) -> list[int]:
        found: list[int] = self.module.columns.integers(PARAMETER_NUMBER).tolist()
        return found

    def _is_bypassed(self, row: int, root: int) -> bool:
        """Whether a tuple is only ever taken apart again."""
        return self.opcodes[row] == "tuple" and row != root and not self.users[row]


def _calls(module: Module, opcodes: list[str]) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """What is opened, and what is called otherwise; of each row its computations."""
    called = module.columns.called
    calling = [row for row in called.having.tolist() if opcodes[row] not in _NAMED_AGAIN]
    callers = collections.Counter(number for row in calling for number in called.of(row))
    opened, calls = dict[int, int](), dict[int, tuple[int, ...]]()
    for row in calling:
        numbers = called.of(row)
        is_alone = len(numbers) == 1 and callers[numbers[0]] == 1
        if opcodes[row] in _OPENED and is_alone and not module.computations[numbers[0]].is_entry:
            opened[row] = numbers[0]
        else:
            calls[row] = tuple(numbers)
    _check_ends(module, opened, calls)
    return opened, calls


def _check_ends(module: Module, opened: dict[int, int], calls: dict[int, tuple[int, ...]]) -> None:
    """Raises ModuleError where computations call each other in a circle."""
    calling: dict[int, list[int]] = collections.defaultdict(list)
    inside = module.columns.in_computation
    for row, numbers in [*((row, (number,)) for row, number in opened.items()), *calls.items()]:
        calling[int(inside[row])].extend(numbers)
    waited = collections.Counter(number for numbers in calling.values() for number in numbers)
    ready = [number for number in range(len(module.computations)) if not waited[number]]
    finished = 0
    while ready:
        finished += 1
        for number in calling[ready.pop()]:
            waited[number] -= 1
            if not waited[number]:
                ready.append(number)
    if finished < len(module.computations):
        raise ModuleError(f"Computations of module {module.name} call each other in a circle: the module is damaged.")
