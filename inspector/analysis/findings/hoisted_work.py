"""The work in a loop that moves in front of it together with collectives.

XLA moves what a loop does not change in front of the loop, but neither collectives nor anything that needs their results. If the
program calls the collectives before the loop, libtpu moves the products of their results too. The compilers for GPUs and CPUs do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.findings.before import MOVING
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.loops import carried_index, carried_unchanged, is_joined
from inspector.hlo.module import Instruction
from inspector.hlo.opcodes import COLLECTIVES

_CHANGING = frozenset({
    "parameter", "rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "recv", "recv-done", "send", "while", "conditional",
    "call",
})  # fmt: skip
"""Opcodes whose result may differ in each iteration, or that are not followed."""
_COLLECTIVES = frozenset(COLLECTIVES)
_PRODUCTS = frozenset({"dot", "convolution"})


def hoisted_products(subject: Subject, collectives: Sequence[Collective], loop: Instruction) -> Mapping[str, float]:
    """Returns the kernels that compute products of collectives' results and of what a loop does not change, for TPUs.

    Args:
      subject: the program.
      collectives: collectives in the body of the loop, whose operands the loop does not change.
      loop: the loop.

    Returns:
      The part of each kernel's FLOPs that these products have, from 0 to 1, by name.
    """
    if subject.compiled.program.platform != "tpu":
        return {}
    body = loop.called_computations[0]
    ends = (subject.module.instruction(each.done or each.name) for each in collectives)
    collected = {_in_body(end, body.number) for end in ends}
    fixed = _Fixed(loop, {each.row for each in collected if each is not None})
    for each in body.instructions:
        fixed.add(each)
    fused, found = products(subject.module), dict[str, float]()
    for each in body.instructions:
        inside = [*fused.of(each)]
        flops = [_flops(subject, product) for product in inside]
        hoisted = sum(n for n, product in zip(flops, inside, strict=True) if fixed.is_hoisted(product))
        if hoisted and each.name in subject.points:
            found[each.name] = hoisted / sum(flops)
    return found


class _Fixed:
    """The values in the body of a loop that are the same in each iteration.

    Attributes:
      rows: the rows of these values.
      gathered: the rows of those that need the result of a collective.
    """

    def __init__(self, loop: Instruction, collected: Collection[int]) -> None:
        self._loop, self._collected = loop, collected
        self.rows, self.gathered = set[int](), set[int]()

    def add(self, each: Instruction, parameters: Sequence[Instruction] = ()) -> None:
        """Adds an instruction, and those that are fused into it, if it is one of these values.

        Args:
          each: the instruction. Its operands were added before.
          parameters: the operands of the fusion that it is a part of.
        """
        element = carried_index(each)
        if each.row in self._collected:
            self.rows.add(each.row)
            self.gathered.add(each.row)
        elif each.opcode == "parameter" and parameters:
            self._add_from(each, (parameters[each.parameter_number or 0],))
        elif element is not None and not parameters:
            if carried_unchanged(self._loop, element) is not None:
                self.rows.add(each.row)
        elif each.opcode == "fusion":
            inner = each.called_computations[0]
            for one in inner.instructions:
                self.add(one, each.operands)
            self._add_from(each, (inner.root,))
        elif each.opcode not in _CHANGING | _COLLECTIVES and (each.opcode != "custom-call" or is_joined(each)):
            self._add_from(each, each.operands)

    def is_hoisted(self, product: Instruction) -> bool:
        """Reports whether a product moves in front of the loop, and nothing that its kernel computes of it stays.

        XLA leaves an operation in the loop if its result is larger than its operands.
        """
        if product.shape.byte_size > sum(each.shape.byte_size for each in product.operands):
            return False
        waiting = [product]
        while waiting:
            each = waiting.pop()
            if each.row not in self.gathered:
                continue
            if each is not product and each.opcode not in _PRODUCTS and not _moves(each):
                return False
            if each is product or each.opcode not in _PRODUCTS:
                waiting += _readers_in_kernel(each)
        return product.row in self.gathered

    def _add_from(self, each: Instruction, makers: Sequence[Instruction]) -> None:
        """Adds a value that is computed from others, if these are the same in each iteration."""
        if all(maker.row in self.rows for maker in makers):
            self.rows.add(each.row)
            if any(maker.row in self.gathered for maker in makers):
                self.gathered.add(each.row)


def _moves(each: Instruction) -> bool:
    """Reports whether an instruction only moves or rounds values; a fusion is followed into instead."""
    return each.opcode in MOVING or each.opcode in ("convert", "fusion", "parameter")


def _readers_in_kernel(each: Instruction) -> Iterator[Instruction]:
    """Yields the instructions of a kernel that read a value, inside and outside of fusions in it."""
    for user in each.users:
        parameters = user.called_computations[0].parameters if user.opcode == "fusion" else ()
        yield from (parameters[number] for number in user.positions_of(each) if parameters)
        if not parameters:
            yield user
    callers = each.module.callers.get(each.computation.name, ())
    if each.is_root and len(callers) == 1 and callers[0].opcode == "fusion":
        yield callers[0]


def _in_body(instruction: Instruction, body: int) -> Instruction | None:
    """Returns the instruction of a computation that is an instruction, or that contains it; None if there is none."""
    while instruction.computation.number != body:
        callers = instruction.module.callers.get(instruction.computation.name, ())
        if len(callers) != 1 or callers[0].opcode == "while":
            return None
        (instruction,) = callers
    return instruction


def _flops(subject: Subject, product: Instruction) -> float:
    flops = subject.costs[product.name].flops
    return 0.0 if isinstance(flops, Unavailable) else float(flops)
