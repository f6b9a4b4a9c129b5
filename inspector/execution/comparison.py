"""Compares two runs of one function: their outputs and their durations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from inspector.errors import ExecutionError, Unavailable
from inspector.execution.array_difference import Array, Difference, difference
from inspector.execution.outcome import Outcome
from inspector.support.tables import UNKNOWN, Kind, Tabular, make_table
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd

_ONE_SIDE = 40  # 2.5 %
_MOST_CHANCE = 0.005  # of a difference by chance between programs in turns
_FEWEST_TURNS = 9  # with fewer, even the most uneven count is likelier
TURN = 2
"""Executions of a program in a turn."""
_FEW_ULPS = 1024  # larger numbers are misleading: near 0, two almost equal numbers can be billions of ulps apart


@dataclasses.dataclass(frozen=True, slots=True)
class Speed:
    """The relative speed of two runs.

    Attributes:
      ratio: the other run's median divided by this run's median; above 1 if this run is faster.
      is_known: whether the difference exceeds the noise: the 95% confidence intervals of both medians do not overlap, or for programs
        that ran in turns, one was faster in enough of them.
      words: a summary.
    """

    ratio: float
    is_known: bool
    words: str


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """A comparison of two runs.

    Attributes:
      differences: the differences of each output, in order.
      speed: the relative speed, or why it is unknown.
    """

    differences: tuple[Difference, ...]
    speed: Speed | Unavailable

    @property
    def same(self) -> bool:
        """Reports whether all outputs are equal."""
        return not any(each.differing for each in self.differences)

    @property
    def words(self) -> str:
        """Summarizes the differences of the outputs."""
        unlike = [each for each in self.differences if each.differing]
        if not unlike:
            return (
                f"all {len(self.differences)} outputs equal" if len(self.differences) != 1 else "the outputs are equal"
            )
        summary = (
            f"{len(unlike)} of {len(self.differences)} outputs differ"
            if len(self.differences) > 1
            else "the output differs"
        )
        bound = self.bound
        return f"{summary}: {bound.reason}" if isinstance(bound, Unavailable) else f"{summary}, by {bound}"

    @property
    def bound(self) -> str | Unavailable:
        """The largest difference of any output, as text; Unavailable if the values of one cannot be subtracted."""
        unlike = [each for each in self.differences if each.differing]
        ulps = [each.ulps for each in unlike if not isinstance(each.ulps, Unavailable)]
        if len(ulps) == len(unlike) and max(ulps, default=0) <= _FEW_ULPS:
            return f"at most {max(ulps, default=0):,} ulp{'s' if max(ulps, default=0) > 1 else ''}"
        largest = [float(each.largest) for each in unlike if not isinstance(each.largest, Unavailable)]
        if len(largest) < len(unlike):
            return next(each.largest for each in unlike if isinstance(each.largest, Unavailable))
        scaled = [each.scaled for each in unlike if isinstance(each.scaled, float)]
        if len(scaled) == len(unlike):
            return f"at most {max(scaled):.2g} of an output's largest value"
        return f"at most {max(largest):.2g}"

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per output. The columns are the attributes of `Difference`."""
        return make_table(_COLUMNS, map(_row, self.differences))

    def __repr__(self) -> str:
        speed = self.speed if isinstance(self.speed, Unavailable) else self.speed.words
        return f"<Comparison: {self.words}; {speed}>"


_COLUMNS: Mapping[str, Kind] = {
    "path": "text", "count": "int", "differing": "int", "largest": "float", "scaled": "float", "relative": "float", "ulps": "int",
    "first": "object", "value": "text", "other_value": "text", "nans": "int", "other_nans": "int", "infinities": "int",
    "other_infinities": "int", UNKNOWN: "reasons",
}  # fmt: skip


def _row(each: Difference) -> tuple[object, ...]:
    return tuple(getattr(each, field.name) for field in dataclasses.fields(each))


def compare_outcomes(ours: Outcome, theirs: Outcome) -> Comparison:
    """Compares the outputs and durations of two runs with the same inputs.

    Raises:
      ExecutionError: the inputs, or the number, shapes or types of outputs, differ, or outputs were not kept.
    """
    outputs, others = _outputs(ours), _outputs(theirs)
    types, other_types = ([(o.shape, o.dtype.name) for o in each] for each in (outputs, others))
    if types != other_types:
        raise ExecutionError(
            f"Outputs can be compared only if their shapes and types are the same: one run has {_listed(types)}, the other"
            f" {_listed(other_types)}."
        )
    for path in dict.fromkeys((*ours.inputs, *theirs.inputs)):
        if ours.inputs.get(path) != theirs.inputs.get(path):
            one_sided = path not in ours.inputs or path not in theirs.inputs
            raise ExecutionError(
                f"Runs can be compared only if their inputs are the same: {path or 'an input'}"
                f" {'is an input of only one run' if one_sided else 'differs'}. Run both with the same arguments."
            )
    pairs = zip(ours.paths, outputs, others, strict=True)
    return Comparison(tuple(difference(*each) for each in pairs), relative_speed(ours, theirs))


def _outputs(outcome: Outcome) -> tuple[Array, ...]:
    if isinstance(outcome.outputs, Unavailable):
        raise ExecutionError(f"The outputs cannot be compared: {outcome.outputs.reason}. {outcome.outputs.remedy}.")
    return outcome.outputs


def _listed(types: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in types) or "none"


def relative_speed(ours: Outcome, theirs: Outcome) -> Speed | Unavailable:
    """Returns the speed of a run relative to another one: by turns if they ran in turns, else by intervals."""
    compare = speed_in_turns if ours.series and ours.series == theirs.series else speed
    return compare(ours.durations_s, theirs.durations_s)


def speed_in_turns(durations_s: Sequence[float], other_s: Sequence[float]) -> Speed | Unavailable:
    """Compares the durations of two programs that ran in turns of `TURN` executions.

    The turns in which each program was faster are counted (a sign test). A difference is known if so uneven a count has a
    probability of at most 0.5 % for equal programs. Other work on the machine lasts longer than a turn, so it affects both
    programs. Turns that only one of them had are left out. With fewer than nine turns, intervals are compared, as by `speed`.
    """
    turns = min(len(durations_s), len(other_s)) // TURN
    if turns < _FEWEST_TURNS:
        return speed(durations_s, other_s)
    pair = durations_s[: turns * TURN], other_s[: turns * TURN]
    ours, theirs = (np.reshape(each, (turns, TURN)).min(axis=1) for each in pair)
    faster, slower = int((ours < theirs).sum()), int((ours > theirs).sum())
    ratio = float(np.exp(np.median(np.log(theirs) - np.log(ours))))
    is_known = (
        _chance(min(faster, turns - faster) if faster > slower else min(slower, turns - slower), turns) <= _MOST_CHANCE
    )
    return speed_in_words(ratio, float(np.median(durations_s)), float(np.median(other_s)), is_known=is_known)


def _chance(fewer: int, turns: int) -> float:
    """Returns the probability that two equal programs split their turns at least as unevenly."""
    return float(min(1.0, 2 * sum(math.comb(turns, k) for k in range(fewer + 1)) / 2**turns))


def speed(durations_s: Sequence[float], other_s: Sequence[float]) -> Speed | Unavailable:
    """Compares two sets of durations by 95% confidence intervals of their medians."""
    ours, theirs = median_interval(durations_s), median_interval(other_s)
    for interval in (ours, theirs):
        if isinstance(interval, Unavailable):
            return interval
    assert not isinstance(ours, Unavailable)
    assert not isinstance(theirs, Unavailable)
    middle, other_middle = float(np.median(durations_s)), float(np.median(other_s))
    ratio = other_middle / middle if middle else math.inf
    is_known = ours[1] < theirs[0] or theirs[1] < ours[0]
    return speed_in_words(ratio, middle, other_middle, is_known=is_known)


def speed_in_words(ratio: float, middle_s: float, other_s: float, *, is_known: bool) -> Speed:
    """Returns a relative speed.

    Args:
      ratio: as `Speed.ratio`.
      middle_s: the median duration of the run, in seconds.
      other_s: that of the other run.
      is_known: whether the difference exceeds the noise.
    """
    times = f"{max(ratio, 1 / ratio if ratio else math.inf):.2f} times as fast"
    medians = f"median {format_seconds(middle_s)} and {format_seconds(other_s)}"
    if not is_known:
        return Speed(ratio, False, f"no difference beyond the noise ({medians})")
    return Speed(
        ratio, True, f"faster, {times} ({medians})" if ratio > 1 else f"slower, the other is {times} ({medians})"
    )


def median_interval(durations_s: Sequence[float]) -> tuple[float, float] | Unavailable:
    """Returns a confidence interval of the median with at least 95% confidence, for any distribution.

    The interval is between the k-th shortest and the k-th longest of n durations, with the largest valid k (order
    statistics of a binomial distribution).
    """
    count = len(durations_s)
    ways, below, k = 1, 1, 0  # outcomes, of 2 ** count equally likely ones, with at most k executions below the median
    while below * _ONE_SIDE <= 1 << count:
        k += 1
        ways = ways * (count - k + 1) // k
        below += ways
    if not k:
        return Unavailable(f"{count} executions are too few to separate a difference from noise", "measure at least 6")
    ordered = sorted(durations_s)
    return ordered[k - 1], ordered[-k]
