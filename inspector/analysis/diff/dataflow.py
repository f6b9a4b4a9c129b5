"""`Dataflow`: the dataflow of a module, with fusions and calls flattened.

Differently fused programs compute the same values from the same values; only the fusions around them differ. So the
instructions of a fusion are treated as if they replaced the fusion, a parameter of a fusion is its operand, and a tuple
element is the value that was put into the tuple. The remaining instructions are the *nodes*, which
`analysis/diff/matching.py` compares; all others are *plumbing*.
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
_NAMED_AGAIN = frozenset({"async-update", "async-done"})  # they repeat the called computation of `async-start`

_NOWHERE = -1


class Dataflow:
    """The values of a module. All lists are indexed by rows of the module's columns.

    A *region* is a computation that is not flattened, with all computations flattened into it: the entry computation, a
    loop's body, the function of a reduction. It is identified by the computation's number.

    Attributes:
      module: the module.
      opcodes: opcode of each row.
      sources: the row that computes each row's value; the row itself for a node.
      operands: the values that each node takes; () for plumbing.
      users: the nodes that use each node, with the operand positions.
      regions: region of each row, by number; -1 in computations that nothing calls.
      groups: the fusion, call or `async-start` that contains each row, by its row; -1 for none.
      nodes: nodes of each region, operands before users.
      roots: for each region the node that computes its result.
      calls: the regions that a row calls, such as a loop's.
      opened: the computation of each flattened fusion, call and `async-start`.
    """

    def __init__(self, module: Module) -> None:
        """Reads a module.

        Raises:
          ModuleError: the module is damaged: computations call each other in a cycle, or references are dangling.
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
        """Returns the operand rows of a row in the module, without flattening."""
        rows: list[int] = self._rows[self._offsets[row] : self._offsets[row + 1]]
        return rows

    def groups_of(self, row: int) -> list[int]:
        """Returns the fusions, calls and `async-start`s around a row, the outermost last."""
        groups: list[int] = []
        while (row := self.groups[row]) >= 0:
            groups.append(row)
        return groups

    @functools.cached_property
    def members(self) -> dict[int, list[int]]:
        """Maps each flattened fusion, call and `async-start` to its nodes, those of inner fusions included."""
        members: dict[int, list[int]] = {group: [] for group in self.opened}
        for rows in self.nodes.values():
            for row in rows:
                for group in self.groups_of(row):
                    members[group].append(row)
        return members

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
        """Yields the rows of a region, operands before users, flattened computations before their caller."""
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
        """Records the source of a row's value. Returns the row if it is a node, else -1."""
        opcode, sources = self.opcodes[row], self.sources
        taken = self.taken(row)
        caller = self.groups[row]
        if row in self.opened:
            sources[row] = sources[self._roots[self.opened[row]]]
        elif opcode == "parameter" and caller >= 0:
            sources[row] = sources[self._passed_row(row, caller)]
        elif opcode in _NAMED_AGAIN and taken and self.opcodes[taken[0]] in ("async-start", *_NAMED_AGAIN):
            sources[row] = sources[taken[0]]
            if sources[row] == taken[0]:  # not flattened: the start is a node, and so is this
                sources[row] = row
        elif opcode == "get-tuple-element" and taken and self.opcodes[sources[taken[0]]] == "tuple":
            elements, index = self.operands[sources[taken[0]]], self.indices[row]
            sources[row] = elements[index] if index < len(elements) else row
        if sources[row] != row:
            return _NOWHERE
        self.operands[row] = tuple([sources[operand] for operand in taken])
        return row

    def _passed_row(self, parameter: int, caller: int) -> int:
        """Returns the row that a caller passes for a parameter; the parameter itself if it passes none."""
        operands, number = self.taken(caller), self.parameters[parameter]
        return operands[number] if 0 <= number < len(operands) else parameter

    @functools.cached_property
    def indices(self) -> list[int]:
        indices: list[int] = self.module.columns.integers(TUPLE_INDEX).tolist()
        return indices

    @functools.cached_property
    def parameters(self) -> list[int]:
        numbers: list[int] = self.module.columns.integers(PARAMETER_NUMBER).tolist()
        return numbers

    def _is_bypassed(self, row: int, root: int) -> bool:
        """Reports whether all uses of a tuple only extract its elements."""
        return self.opcodes[row] == "tuple" and row != root and not self.users[row]


def _calls(module: Module, opcodes: list[str]) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """Returns the flattened computation of each row that has one, and the other computations that each row calls."""
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
    """Checks that the call graph has no cycle.

    Raises:
      ModuleError: computations call each other in a cycle.
    """
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
        raise ModuleError(f"Computations of module {module.name} call each other in a cycle: the module is damaged.")
