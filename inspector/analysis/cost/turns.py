"""The turns of unrolled Python loops, such as the layers of a model that a loop calls from one line.

The operations of all turns have the same names and call stacks, so only their order tells them apart. A line is in an
unrolled loop if each matrix product of the line, in the forward pass, is in as many kernels as the others or a multiple, and
each of these kernels depends on more of the program than the one before it. Its kernels are ordered by their distance from
the arguments along the dataflow, which does not depend on the schedule. The backward pass has the turns in reverse order.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inspector.analysis.cost.scopes import operation_of
from inspector.hlo.source import Frame, Origin

if TYPE_CHECKING:
    from inspector.hlo.module import Module

_PRODUCTS = ("dot_general", "ragged_dot", "conv_general", "pallas_call")
_PRODUCT_OPCODES = frozenset({"dot", "ragged-dot", "convolution", "custom-call", "fusion"})
_REDUCTIONS = ("reduce_", "argmax", "argmin", "sort", "scatter")
_BEHIND = ("backward", "recomputed")


class Use(NamedTuple):
    """An operation in a kernel.

    Attributes:
      kernel: name of its instruction.
      opcode: opcode of the operation; "fusion" for a kernel that is known only as a whole.
      phase: as in `scope_costs.ScopeCost`.
    """

    kernel: str
    opcode: str
    origin: Origin
    phase: str | None


@dataclasses.dataclass(frozen=True)
class Loop:
    """An unrolled loop.

    Attributes:
      function: the innermost function that all its matrix products are in.
      count: the number of turns, at least 2.
      origins: the origins of its operations.
      turns: the turn of each kernel that its operations are in, from 0.
    """

    function: str
    count: int
    origins: frozenset[Origin]
    turns: Mapping[str, int]


def unrolled_loops(module: Module, uses: Iterable[Use]) -> tuple[Loop, ...]:
    """Returns the unrolled loops of a module: of nested ones, the outermost. Loops of one kernel a turn are left out.

    Args:
      module: the optimized HLO.
      uses: the operations in its kernels.
    """
    known = [use for use in uses if use.origin.frames and use.kernel in module.rows_by_name]
    moving = {use.kernel for use in known if use.opcode == "fusion" and not _has_product(module, use.kernel)}
    known = [use._replace(opcode="copy") if use.kernel in moving else use for use in known]
    found = _Search(module, known).within([*dict.fromkeys(map(_operation, known))], 0)
    return tuple(loop for loop in found if len(loop.turns) >= 2 * loop.count)


def _has_product(module: Module, kernel: str) -> bool:
    """Reports whether a fusion computes a product. Copies of a product's operands have the name of the product too."""
    called = module.instruction(kernel).called_computations
    return any(each.opcode in _PRODUCT_OPCODES for computation in called for each in computation.instructions)


class _Operation(NamedTuple):
    """Equal operations of all turns. Products are separate from the rest of their line, such as sums of a product's parts."""

    origin: Origin
    is_product: bool
    is_reduction: bool


def _operation(use: Use) -> _Operation:
    name = operation_of(use.origin.op_name)
    is_product = name.startswith(_PRODUCTS) and use.opcode in _PRODUCT_OPCODES
    return _Operation(use.origin, is_product, name.startswith(_REDUCTIONS))


class _Place(NamedTuple):
    """The place of a kernel in the dataflow; a kernel comes after those that it depends on."""

    computation: int
    distance: int
    position: int


class _Body(NamedTuple):
    """Lines that are in one loop, and the places of the first and last kernel of their products."""

    lines: int
    trips: int
    operations: list[_Operation]
    first: _Place
    last: _Place


class _Search:
    """The search for loops, from the outermost frames of the call stacks to the innermost."""

    def __init__(self, module: Module, uses: Sequence[Use]) -> None:
        """Sorts the kernels of each origin, separately for those that have a part in the backward pass."""
        self._places = _places(module, dict.fromkeys(use.kernel for use in uses))
        behind = {use.kernel for use in uses if any(phase in (use.phase or "") for phase in _BEHIND)}
        kernels: dict[tuple[_Operation, bool], dict[str, None]] = collections.defaultdict(dict)
        for use in uses:
            kernels[_operation(use), use.kernel in behind][use.kernel] = None
        self._kernels = {key: sorted(each, key=self._places.__getitem__) for key, each in kernels.items()}

    def within(self, operations: Sequence[_Operation], depth: int) -> Iterator[Loop]:
        """Yields the loops of the operations, whose outermost frames, as many as `depth`, are the same."""
        lines: dict[Frame, list[_Operation]] = collections.defaultdict(list)
        for operation in operations:
            if len(operation.origin.frames) > depth:
                lines[operation.origin.frames[-1 - depth]].append(operation)
        bodies: list[_Body] = []
        others: list[list[_Operation]] = []
        for members in lines.values():
            body = self._body(members)
            if body is not None:
                bodies.append(body)
            elif not any(each.is_product for each in members):
                others.append(members)
            else:
                yield from self.within(members, depth + 1)
        for body in _merged(bodies):
            if body.lines == 1 and self._is_in_one_line(body.operations, depth + 1):
                yield from self.within(body.operations, depth + 1)
                continue
            own = [each for members in others if self._is_inside(members, body) for each in members]
            yield self._loop(body.trips, [*body.operations, *own])

    def _products(self, operations: Iterable[_Operation]) -> list[_Operation]:
        """Returns the products of the forward pass, because the call stacks of derivatives may lack inner frames."""
        return [each for each in operations if each.is_product and self._ahead(each)]

    def _is_in_one_line(self, operations: Sequence[_Operation], depth: int) -> bool:
        """Reports whether all products are in one line of the function that their line calls."""
        products = [each.origin.frames for each in self._products(operations)]
        return all(len(frames) > depth for frames in products) and len({frames[-1 - depth] for frames in products}) == 1

    def _body(self, operations: Sequence[_Operation]) -> _Body | None:
        """Returns the operations as the body of a loop; None if they are not one."""
        products = [self._ahead(each) for each in self._products(operations)]
        count = min(map(len, products), default=0)
        if count < 2 or any(len(each) % count for each in products):
            return None
        is_single = len(products) == 1  # one line may have several products, such as gelu(x @ up) @ down
        checked = [each for each in operations if each.is_reduction or is_single]
        if any(len(self._ahead(each)) in range(1, count) for each in checked):
            return None
        chains = [[self._places[kernel] for kernel in each] for each in products if len(each) == count]
        for chain in chains:
            if any(a.computation != b.computation or a.distance >= b.distance for a, b in itertools.pairwise(chain)):
                return None
        places = [place for chain in chains for place in chain]
        return _Body(1, count, [*operations], min(places), max(places))

    def _is_inside(self, operations: Sequence[_Operation], body: _Body) -> bool:
        """Reports whether all operations of a line without products are repeated, and between the products of a loop."""
        for operation in operations:
            kernels = self._ahead(operation)
            if len(kernels) in range(1, body.trips):
                return False
            if kernels and not body.first <= self._places[kernels[len(kernels) // 2]] <= body.last:
                return False
        return any(map(self._ahead, operations))

    def _ahead(self, operation: _Operation) -> Sequence[str]:
        return self._kernels.get((operation, False), ())

    def _loop(self, count: int, operations: Sequence[_Operation]) -> Loop:
        behind = {kernel: count - 1 - turn for kernel, turn in self._turns(count, operations, is_behind=True).items()}
        turns = {**self._turns(count, operations, is_behind=False), **behind}
        return Loop(
            _common_function(self._products(operations)), count, frozenset(each.origin for each in operations), turns
        )

    def _turns(self, count: int, operations: Sequence[_Operation], *, is_behind: bool) -> dict[str, int]:
        """Returns the turn of each kernel in the order of the dataflow; nothing if no operation is in a multiple of kernels.

        A kernel is in the turn of its products, or else in that of most of its operations. Operations that are not in
        a multiple of kernels do not count, and a kernel with only such operations is in the turn of the kernel before it.
        """
        counted: dict[str, tuple[collections.Counter[int], collections.Counter[int]]] = {}
        for operation in operations:
            kernels = self._kernels.get((operation, is_behind), ())
            # The slope of the first turn's input is often not needed. It would be the last product of the backward pass.
            is_short = is_behind and operation.is_product and len(kernels) == count - 1
            each, rest = divmod(len(kernels) + is_short, count)
            for at, kernel in enumerate(kernels):
                votes = counted.setdefault(kernel, (collections.Counter(), collections.Counter()))
                if not rest:
                    votes[not operation.is_product][at // each] += 1
        chosen: dict[str, int | None] = {}
        for kernel in sorted(counted, key=self._places.__getitem__):
            most = next(filter(None, counted[kernel]), None)
            chosen[kernel] = None if most is None else most.most_common(1)[0][0]
        turn = next((turn for turn in chosen.values() if turn is not None), None)
        if turn is None:
            return {}
        return {kernel: (turn := turn if own is None else own) for kernel, own in chosen.items()}


def _places(module: Module, kernels: Iterable[str]) -> dict[str, _Place]:
    columns = module.columns
    rows = {kernel: module.rows_by_name[kernel] for kernel in kernels}
    numbers = {int(columns.in_computation[row]) for row in rows.values()}
    distances: dict[int, int] = {}
    for number in numbers:
        inside = (columns.in_computation == number).nonzero()[0]
        for row in inside[columns.positions[inside].argsort()].tolist():
            distances[row] = 1 + max((distances.get(operand, 0) for operand in columns.operands.of(row)), default=0)
    return {
        kernel: _Place(int(columns.in_computation[row]), distances[row], int(columns.positions[row]))
        for kernel, row in rows.items()
    }


def _merged(bodies: Sequence[_Body]) -> list[_Body]:
    """Joins the lines of one loop, of which none begins after another has ended; drops those with unequal numbers of turns."""
    groups: list[list[_Body]] = []
    for body in bodies:
        same = [group for group in groups if any(each.first <= body.last and body.first <= each.last for each in group)]
        groups = [group for group in groups if group not in same]
        groups.append([*itertools.chain.from_iterable(same), body])
    return [
        _Body(
            len(group),
            group[0].trips,
            [operation for each in group for operation in each.operations],
            min(each.first for each in group),
            max(each.last for each in group),
        )
        for group in groups
        if len({each.trips for each in group}) == 1
    ]


def _common_function(operations: Sequence[_Operation]) -> str:
    """Returns the name of the innermost function that all operations are in."""
    function = ""
    for frames in zip(*(reversed(each.origin.frames) for each in operations), strict=False):
        if len({(frame.file, frame.function) for frame in frames}) > 1:
            break
        function = frames[0].function
        if len({frame.line for frame in frames}) > 1:
            break
    return function.rpartition("<locals>.")[2]
