"""Summaries of fusions: the instructions that XLA's cost analysis must see; the others are counted by kind.

The computation of a fusion is the sum of its instructions, most of which also occur in other fusions. The bytes read from
an input depend on the instructions that use it. So a summary keeps one of the inputs that are used alike, the users of the
kept inputs, slices and calls, which may read parts of operands, and the result. `tests/compilation/test_cost.py` compares the
counts with XLA's counts of the whole fusions.
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
"""Opcodes that read whole operands, call no computation, and cost the same everywhere."""

_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))  # of SplitMix64
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))


@dataclasses.dataclass(frozen=True, slots=True)
class Brief:
    """A summary of a fusion.

    Attributes:
      rows: rows of the kept instructions of its computation, ascending.
      inputs: the number of each kept parameter by row, ascending.
      read_as: for each parameter, the index in `inputs` of the one that is read alike.
      left_out: the number of omitted instructions of each kind, by their numbers in `Module.alike`.
    """

    rows: tuple[int, ...]
    inputs: dict[int, int]
    read_as: tuple[int, ...]
    left_out: dict[int, int]


class Briefs:
    """Summaries of the fusions of a module."""

    def __init__(self, module: Module, counted: Alike, scalars: npt.NDArray[np.bool_]) -> None:
        """Analyzes all fusions.

        Args:
          module: the module.
          counted: its instructions grouped by everything that affects their cost, including operand shapes.
          scalars: for each shape in the columns, whether it is a scalar. Constant arrays are kept, because they are read too.
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
        """Returns the summary of a fusion's computation; None if nothing would be omitted.

        Args:
          computation: number of the computation.
          operands: number of operands of the fusion.
        """
        rows, stays, is_input = self._rows[computation], self._stays, self._is_input
        kept_rows = tuple([row for row in rows if stays[row]])
        numbered_inputs = [(self._numbers[row], row) for row in rows if is_input[row]]
        inputs = dict(numbered_inputs)
        if len(kept_rows) == len(rows) or len(numbered_inputs) > operands or sorted(inputs) != [*range(operands)]:
            return None
        kept_inputs = {inputs[number]: number for number in range(operands) if stays[inputs[number]]}
        places = {row: place for place, row in enumerate(kept_inputs)}
        return Brief(
            kept_rows,
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
    """Returns for each input the first input of its computation that is used alike; -1 for other rows.

    Args:
      computations: the computation of each row.
      ways: a hash of the uses of each row, equal for inputs that are used alike.
      is_input: whether each row is an input.
      alone: rows of inputs that represent themselves only.
    """
    rows = np.flatnonzero(is_input)
    representatives = np.full(len(is_input), -1, np.int64)
    taken, _ = numbered(ways[rows])
    keys, first = numbered(computations[rows] * (len(rows) + 1) + taken)
    representatives[rows] = rows[first[keys]]
    representatives[alone] = alone
    return representatives


def _mixed(values: Numbers) -> npt.NDArray[np.uint64]:
    """Hashes values so that sums of hashes identify the summands, except with probability 2^-64."""
    hashes: npt.NDArray[np.uint64] = (values.astype(np.uint64) + np.uint64(1)) * _FACTORS[0]
    hashes ^= hashes >> _SHIFTS[0]
    hashes *= _FACTORS[1]
    hashes ^= hashes >> _SHIFTS[1]
    hashes *= _FACTORS[2]
    hashes ^= hashes >> _SHIFTS[2]
    return hashes
