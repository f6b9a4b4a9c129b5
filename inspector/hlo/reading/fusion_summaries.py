"""Fusions told briefly: what XLA has to see of one to count it, the rest being counted by kind.

What is computed in a fusion is the sum of its instructions, most of which come in others too; what is read of an input
depends on the instructions that take it. So of inputs that are taken alike one stays, and of the rest what takes an
input that stays, what a slice or a call may read in its own way, and the result. `tests/compilation/test_cost.py` holds
this against XLA's own counts of the whole fusions.
"""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import numpy.typing as npt

from inspector.hlo.module import Module
from inspector.hlo.reading.byte_arrays import Numbers
from inspector.hlo.reading.field_numbers import PARAMETER_NUMBER
from inspector.hlo.reading.instruction_kinds import Alike
from inspector.support.value_ids import numbered

PLAIN = frozenset({
    "abs", "add", "and", "atan2", "bitcast", "bitcast-convert", "broadcast", "cbrt", "ceil", "clamp", "compare",
    "complex", "constant", "convert", "copy", "cosine", "count-leading-zeros", "divide", "erf", "exponential",
    "exponential-minus-one", "floor", "imag", "iota", "is-finite", "log", "log-plus-one", "logistic", "maximum",
    "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real", "reduce-precision", "remainder", "reshape",
    "reverse", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic",
    "shift-right-logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "transpose", "xor",
})  # fmt: skip
"""Opcodes that read whole operands, call nothing, and compute the same wherever they stand."""

_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))  # of SplitMix64
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))


@dataclasses.dataclass(frozen=True, slots=True)
class Brief:
    """What is told of a fusion.

    Attributes:
      rows: of its computation's instructions that stay, ascending.
      inputs: the parameters that stay, by row, and the number of each, ascending.
      read_as: of each parameter the place in `inputs` of the one that is read like it.
      left_out: how many instructions of each kind are left out, by their numbers in `Module.alike`.
    """

    rows: tuple[int, ...]
    inputs: dict[int, int]
    read_as: tuple[int, ...]
    left_out: dict[int, int]


class Briefs:
    """The fusions of a module, told briefly."""

    def __init__(self, module: Module, counted: Alike, scalars: npt.NDArray[np.bool_]) -> None:
        """Looks at all of them.

        Args:
          module: the module.
          counted: its instructions by what counts, the shapes of what they take included.
          scalars: for each of the columns' shapes whether it is a number's: constant arrays are read too.
        """
        columns = module.columns
        is_input = columns.opcode_is("parameter".__eq__)
        plain = columns.opcode_is(PLAIN.__contains__)
        plain &= ~columns.opcode_is("constant".__eq__) | scalars[columns.shapes.codes]
        links = columns.operands
        taken, takers = links.rows, links.from_rows
        of_input = np.flatnonzero(is_input[taken])
        inputs, takers_of, places = taken[of_input], takers[of_input], of_input - links.offsets[takers[of_input]]
        ways = np.zeros(len(columns), np.uint64)
        np.add.at(ways, inputs, _mixed(counted.kinds[takers_of] * (int(places.max(initial=0)) + 1) + places))
        alone = columns.roots[is_input[columns.roots]]
        alone = np.append(inputs[~plain[takers_of]], alone)
        computations = columns.in_computation.astype(np.int64)
        reads_as = _representatives(computations, ways, is_input, alone)
        stays = reads_as == np.arange(len(columns))
        stays |= ~plain & ~is_input
        stays[takers[(stays & is_input)[taken]]] = True
        stays[columns.roots] = True
        tuples = np.zeros(len(columns), bool)
        tuples[columns.roots] = columns.opcode_is("tuple".__eq__)[columns.roots]
        stays[taken[tuples[takers]]] = True
        # As lists: most fusions are small.
        self._rows = [*map(range, columns.first[:-1].tolist(), columns.first[1:].tolist())]
        self._stays: list[bool] = stays.tolist()
        self._is_input: list[bool] = is_input.tolist()
        self._reads_as: list[int] = reads_as.tolist()
        self._kinds: list[int] = module.alike.kinds.tolist()
        self._numbers: list[int] = columns.integers(PARAMETER_NUMBER).tolist()

    def of(self, computation: int, operands: int) -> Brief | None:
        """A fusion's computation; None where nothing of it would be left out.

        Args:
          computation: its number.
          operands: how many the fusion has.
        """
        rows, stays, is_input = self._rows[computation], self._stays, self._is_input
        kept = tuple([row for row in rows if stays[row]])
        numbered_inputs = [(self._numbers[row], row) for row in rows if is_input[row]]
        inputs = dict(numbered_inputs)
        if len(kept) == len(rows) or len(numbered_inputs) > operands or sorted(inputs) != [*range(operands)]:
            return None
        kept_inputs = {inputs[number]: number for number in range(operands) if stays[inputs[number]]}
        places = {row: place for place, row in enumerate(kept_inputs)}
        return Brief(
            kept,
            kept_inputs,
            tuple([places[self._reads_as[inputs[number]]] for number in range(operands)]),
            dict(collections.Counter([self._kinds[row] for row in rows if not stays[row] and not is_input[row]])),
        )


def _representatives(
    computations: Numbers,
    ways: npt.NDArray[np.uint64],
    is_input: npt.NDArray[np.bool_],
    alone: Numbers,
) -> Numbers:
    """Of each input the first of its computation that is taken alike; -1 of what is none.

    Args:
      computations: the computation of each row.
      ways: a number of how it is taken, equal for those that are taken alike.
      is_input: whether it is an input.
      alone: the rows of inputs that stand for themselves.
    """
    rows = np.flatnonzero(is_input)
    found = np.full(len(is_input), -1, np.int64)
    taken, _ = numbered(ways[rows])
    keys, first = numbered(computations[rows] * (len(rows) + 1) + taken)
    found[rows] = rows[first[keys]]
    found[alone] = alone
    return found


def _mixed(values: Numbers) -> npt.NDArray[np.uint64]:
    """Numbers whose sums tell which they are of, but for a chance in 2^64."""
    found: npt.NDArray[np.uint64] = (values.astype(np.uint64) + np.uint64(1)) * _FACTORS[0]
    found ^= found >> _SHIFTS[0]
    found *= _FACTORS[1]
    found ^= found >> _SHIFTS[1]
    found *= _FACTORS[2]
    found ^= found >> _SHIFTS[2]
    return found
