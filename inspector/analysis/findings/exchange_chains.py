"""The kernels before, between and behind exchanges that only move values or combine them element by element.

Without the exchanges, XLA fuses them: into one kernel, or on TPUs into the product that makes their values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from inspector.analysis.findings.before import MOVING
from inspector.analysis.findings.dataflow import BY_ELEMENT
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction

_PASSING = frozenset({"bitcast", "get-tuple-element", "tuple"})
_INSIDE = MOVING | {
    "parameter", "constant", "concatenate", "tuple", "get-tuple-element", "pad", "partition-id", "iota", "dynamic-update-slice",
}  # fmt: skip
_LEAVES = frozenset({"parameter", "constant", "broadcast", "iota", "partition-id", "custom-call"})
_PRODUCTS = frozenset({"dot", "convolution"})
_MOST_KERNELS = 200
_LEAST_PART = 64  # smaller arrays, such as indices, do not connect kernels


def saved_with(subject: Subject, exchanges: Sequence[Instruction], part: float = 1.0) -> Mapping[str, float]:
    """Returns the part of each kernel's time that is saved without exchanges: theirs, and those of kernels that XLA then fuses.

    Args:
      subject: the program.
      exchanges: the exchanges, in the optimized HLO.
      part: the part of their time that is saved.
    """
    parts = {each.name: part for each in exchanges}
    for chain in chains(exchanges):
        names = [kernel.name for kernel in chain.kernels]
        seconds = {name: subject.seconds([name]) for name in names}
        known = {name: each for name, each in seconds.items() if not isinstance(each, Unavailable)}
        weights = known if len(known) == len(names) else {name: subject.accessed_by([name]) for name in names}
        parts.update(chain.saved(weights, subject.compiled.program.platform == "tpu"))
    return parts


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """Exchanges that are connected by kernels that only move values or combine them element by element.

    Attributes:
      exchanges: the exchanges.
      kernels: those kernels.
      is_of_product: whether a product makes the values of one of the kernels or of the exchanges.
    """

    exchanges: tuple[Instruction, ...]
    kernels: tuple[Instruction, ...]
    is_of_product: bool

    def saved(self, weights: Mapping[str, float], is_tpu: bool) -> Mapping[str, float]:
        """Returns the part of each kernel that is saved without the exchanges, from 0 to 1.

        A kernel whose values other kernels use too is needed in either case. The others become one kernel, which reads the arrays that
        enter the chain and writes those that leave it; on a TPU, the product computes them too.

        Args:
          weights: the times of the kernels by name, or the bytes that they access.
          is_tpu: whether the program is for a TPU.
        """
        inside = {each.row for each in (*self.kernels, *self.exchanges)}
        fused = [each for each in self.kernels if only_moves(each) or _is_used_inside(each, inside)]
        saved = {each.name: 1.0 for each in fused}
        combining = [each for each in fused if not only_moves(each)]
        if len(fused) < len(self.kernels) or not combining or (is_tpu and self.is_of_product):
            return saved
        needed = (
            sum(weights[each.name] for each in fused) * self._passing_bytes(inside) / max(1, sum(map(_accessed, fused)))
        )
        for each in sorted(combining, key=lambda each: -weights[each.name]):
            kept = min(needed, weights[each.name])
            saved[each.name] = 1 - kept / weights[each.name] if weights[each.name] else 1.0
            needed -= kept
        return saved

    def _passing_bytes(self, inside: set[int]) -> int:
        """Returns the bytes of the arrays that enter and leave the chain."""
        parts = (*self.kernels, *self.exchanges)
        entering = {maker for each in parts for maker in makers_of(each) if maker.row not in inside}
        leaving = [each for each in parts if any(user.row not in inside for user in readers_of(each))]
        return sum(each.shape.byte_size for each in entering) + sum(
            each.operands[0].shape.byte_size if each in self.exchanges else each.shape.byte_size for each in leaving
        )


def chains(exchanges: Sequence[Instruction]) -> Iterator[Chain]:
    """Yields the chains of exchanges of an optimized module, each exchange in one of them."""
    wanted = {each.row for each in exchanges}
    seen = set[int]()
    for first in exchanges:
        if first.row in seen:
            continue
        least = _elements(first) // _LEAST_PART
        found, kernels, is_of_product = list[Instruction](), list[Instruction](), False
        waiting = [first]
        while waiting and len(seen) < _MOST_KERNELS:
            each = waiting.pop()
            if each.row in seen:
                continue
            seen.add(each.row)
            (found if each.row in wanted else kernels).append(each)
            makers = [maker for maker in makers_of(each) if _elements(maker) >= least]
            is_of_product = is_of_product or any(map(has_product, makers))
            around = (*makers, *(user for user in readers_of(each) if _elements(user) >= least))
            waiting += [one for one in around if one.row in wanted or is_by_element(one)]
        yield Chain(tuple(found), tuple(kernels), is_of_product)


def at_ends_of_loops(exchanges: Sequence[Instruction], names: Collection[str]) -> Iterator[Instruction]:
    """Yields the exchanges before and behind loops that move the arrays which exchanges in the loops move too.

    Args:
      exchanges: the exchanges; those that are in no loop are left out.
      names: the names of all exchanges of the program.
    """
    for each in exchanges:
        callers = each.module.callers.get(each.computation.name, ())
        loop = callers[0] if len(callers) == 1 and callers[0].opcode == "while" else None
        if loop is None or loop.operands[0].opcode != "tuple":
            continue
        for number in _elements_of_loop(each):
            results = [one for one in loop.users if one.opcode == "get-tuple-element" and one.tuple_index == number]
            around = (*_moved(loop.operands[0].operand(number), is_back=True), *(m for r in results for m in _moved(r)))
            yield from (one for one in around if one.name in names)


def _elements_of_loop(exchange: Instruction) -> set[int]:
    """Returns the numbers of the elements of a loop that an exchange in its body moves."""
    found = {
        each.tuple_index
        for each in _moved(exchange, is_back=True)
        if each.opcode == "get-tuple-element" and each.operands[0].opcode == "parameter"
    }
    for each in _moved(exchange):
        found |= {n for user in each.users if user.is_root and user.opcode == "tuple" for n in user.positions_of(each)}
    return found


def _moved(value: Instruction, is_back: bool = False) -> Iterator[Instruction]:
    """Yields a value and those that it is moved to, or moved from, up to the next exchange or other kernel, which is included."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _MOST_KERNELS:
        each = waiting.pop()
        if each.row not in seen:
            seen.add(each.row)
            yield each
            if each is value or each.opcode in _PASSING or each.opcode.endswith("-done") or only_moves(each):
                waiting += [one for one in (each.operands if is_back else each.users) if not one.is_root]


def makers_of(kernel: Instruction) -> Iterator[Instruction]:
    """Yields the instructions that make a kernel's operands, followed through tuples and the ends of exchanges."""
    waiting = [*kernel.operands]
    while waiting:
        each = waiting.pop()
        is_carried = each.opcode == "get-tuple-element" and each.operands[0].opcode == "parameter"
        if (each.opcode in _PASSING or each.opcode.endswith("-done")) and not is_carried:
            waiting += each.operands
        else:
            yield each


def made_by(value: Instruction) -> Instruction:
    """Returns the instruction that makes a value, followed through the ends of exchanges and elements of tuples."""
    while (value.opcode in _PASSING and value.opcode != "tuple") or value.opcode.endswith("-done"):
        value = value.operands[0]
    return value


def readers_of(kernel: Instruction) -> Iterator[Instruction]:
    """Yields the instructions that read a kernel's result, followed through tuples and the ends of exchanges; the result of a computation too."""
    waiting = [*kernel.users]
    while waiting:
        each = waiting.pop()
        if (each.opcode in _PASSING or each.opcode.endswith("-done")) and not each.is_root:
            waiting += each.users
        else:
            yield each


def only_moves(instruction: Instruction) -> bool:
    """Reports whether a kernel only moves values."""
    return instruction.opcode not in _LEAVES and all(each.opcode in _INSIDE for each in _inside(instruction))


def is_by_element(instruction: Instruction) -> bool:
    """Reports whether a kernel only moves values or combines arrays element by element."""
    known = _INSIDE | BY_ELEMENT
    return instruction.opcode not in _LEAVES | _PASSING and all(each.opcode in known for each in _inside(instruction))


def _inside(instruction: Instruction) -> Sequence[Instruction]:
    return instruction.called_computations[0].instructions if instruction.opcode == "fusion" else (instruction,)


def has_product(instruction: Instruction) -> bool:
    """Reports whether a kernel computes a product."""
    return any(each.opcode in _PRODUCTS for each in _inside(instruction))


def _is_used_inside(kernel: Instruction, inside: set[int]) -> bool:
    """Reports whether only kernels of the chain and products use a kernel's values."""
    return all(user.row in inside or has_product(user) for user in readers_of(kernel))


def moving_behind(exchange: Instruction) -> list[str]:
    """Returns the names of the kernels that only put together what an exchange received."""
    return [
        each.name
        for each in _moved(exchange)
        if each is not exchange and each.opcode not in _PASSING and only_moves(each)
    ]


def _accessed(kernel: Instruction) -> int:
    return kernel.shape.byte_size + sum(each.shape.byte_size for each in kernel.operands)


def _elements(instruction: Instruction) -> int:
    """Returns the number of elements of the largest array that an instruction computes, or takes if it starts an exchange."""
    arrays = [instruction] if instruction.shape.dimensions else [*instruction.operands]
    return max((math.prod(each.shape.dimensions) for each in arrays), default=0)
