"""Reduces a program to the smallest part found that still shows the difference.

The program is cut (`cut_program.py`): a set of its operations gets the intermediate values that it uses as arguments, with the
values that the good side computes, and returns the values that anything else used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from inspector.api.bisection.cut_program import CutProgram
from inspector.api.bisection.search import Memory, minimal_subset, shortest_prefix
from inspector.compilation.program import Program
from inspector.errors import Unavailable
from inspector.execution.inputs import Input

_MOST_TRIALS = 80
_MOST_FAILURES = 2  # runs for intermediate values
_MOST_BYTES = 1 << 28  # of intermediate values that are computed at once, and not one by one as needed

Evaluate: TypeAlias = Callable[[Program, Sequence[Input]], Sequence[np.ndarray] | Unavailable]
"""Runs a program of the good side on inputs, and returns its results."""

Trial: TypeAlias = Callable[[Program, Sequence[Input], str], str | None]
"""Compiles a part for both sides and compares. Returns the difference in words, None for no difference."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of a program.

    Attributes:
      program: the part as a program.
      inputs: its inputs.
      operations: number of its operations.
      difference: the difference that it shows, in words.
    """

    program: Program
    inputs: tuple[Input, ...]
    operations: int
    difference: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reduced:
    """The result of a reduction.

    Attributes:
      part: the smallest part found.
      whole: number of operations of the whole program.
      is_minimal: False if the limit of trials ended the search.
    """

    part: Part
    whole: int
    is_minimal: bool


class _EnoughError(Exception):
    """The limit of trials is reached."""


class Reduction:
    """The reduction of one program."""

    def __init__(
        self, program: Program, inputs: Sequence[Input], evaluate: Evaluate, trial: Trial, *, has_values: bool
    ) -> None:
        """Prepares the reduction; compiles nothing yet.

        Args:
          program: the program, for one device.
          inputs: its inputs; any if it does not run.
          evaluate: computes intermediate values.
          trial: tries a part.
          has_values: whether parts run, so that their inputs must have the right values.

        Raises:
          ModuleError: the module cannot be read.
        """
        self._trial, self._evaluate, self._has_values = trial, evaluate, has_values
        self._cut = CutProgram(program)
        self._whole, self._makers, self._free = self._cut.whole, self._cut.makers, self._cut.free
        self._operations = self._whole.operations
        self._arguments = len(self._whole.values) - sum(len(each.results) for each in self._operations)
        self._known: dict[int, np.ndarray] = {number: each.value for number, each in enumerate(inputs)}
        self._memory = Memory()
        self._trials = self._failures = 0
        self._best: Part | None = None

    @property
    def size(self) -> int:
        """The number of operations of the whole program."""
        return len(self._operations)

    def run(self) -> Reduced | Unavailable:
        """Searches for a small part. Raises what the functions that it calls raise."""
        candidates = self._cut.candidates
        if not candidates or not self._is_bad(candidates):
            return Unavailable("the difference disappears when the program's calls are inlined")
        is_minimal = True
        try:
            self._prefetch()
            self._search(candidates)
        except _EnoughError:
            is_minimal = False
        assert self._best is not None, "the whole program is bad"
        return Reduced(self._best, self.size, is_minimal)

    def _search(self, candidates: Sequence[int]) -> None:
        count = shortest_prefix(len(candidates), lambda length: self._is_bad(candidates[:length]))
        last = candidates[count - 1]
        if self._is_bad([last]):
            return
        near = self._by_distance(last)
        rest = near if near and self._is_bad([last, *near]) else candidates[: count - 1][::-1]
        if rest:
            minimal_subset(rest, lambda chosen: self._is_bad([last, *chosen]))

    def _by_distance(self, last: int) -> list[int]:
        """Returns the operations that an operation depends on, the nearest first."""
        found: dict[int, None] = {last: None}
        waiting = [last]
        for at in waiting:
            makers = {self._makers[number] for number in self._operations[at].uses if number in self._makers}
            for maker in sorted(makers - found.keys() - self._free, reverse=True):
                found[maker] = None
                waiting.append(maker)
        return [*found][1:]

    def _is_bad(self, chosen: Collection[int]) -> bool:
        return self._memory.outcome(chosen, lambda: self._try(chosen))

    def _try(self, chosen: Collection[int]) -> bool:
        kept, inputs, outputs = self._cut.interface(chosen)
        if not outputs or not self._cut.have_types((*inputs, *outputs)):
            return False
        if self._best is not None and (self._trials >= _MOST_TRIALS or self._failures >= _MOST_FAILURES):
            raise _EnoughError
        self._trials += 1
        arrays = self._arrays(inputs)
        if isinstance(arrays, Unavailable):
            return False
        program = self._cut.part(kept, inputs, outputs)
        given = tuple(map(Input, program.arguments, arrays))
        words = self._trial(program, given, f"{len(kept):,} of {self.size:,} operations")
        if words is not None and (self._best is None or len(kept) <= self._best.operations):
            self._best = Part(program, given, len(kept), words)
        return words is not None

    def _arrays(self, numbers: Sequence[int]) -> list[np.ndarray] | Unavailable:
        """Returns the values of the good side; zeros for programs that do not run."""
        if not self._has_values:
            shapes = [self._whole.values[number] for number in numbers]
            return [np.broadcast_to(_zero(each.dtype), each.shape) for each in shapes]
        missing = [number for number in numbers if number not in self._known]
        if missing:
            failure = self._compute(missing)
            if failure is not None:
                return failure
        return [self._known[number] for number in numbers]

    def _prefetch(self) -> None:
        """Computes all intermediate values in one run, if they are small."""
        if not self._has_values:
            return
        wanted = [
            number
            for at, each in enumerate(self._operations)
            if at not in self._free
            for number in each.results
            if self._whole.values[number].dtype
        ]
        sizes: Mapping[str, int] = {each.dtype: _zero(each.dtype).itemsize for each in self._whole.values if each.dtype}
        values = (self._whole.values[number] for number in wanted)
        if sum(int(np.prod(each.shape, dtype=np.int64)) * sizes[each.dtype] for each in values) <= _MOST_BYTES:
            self._compute(wanted)

    def _compute(self, numbers: Sequence[int]) -> Unavailable | None:
        """Computes values with the good side and remembers them. Returns the reason for a failure."""
        needed: set[int] = set()
        waiting = [self._makers[number] for number in numbers]
        while waiting:
            at = waiting.pop()
            if at not in needed:
                needed.add(at)
                waiting += [self._makers[n] for n in self._operations[at].uses if n in self._makers]
        arguments = sorted({n for at in needed for n in self._operations[at].uses if n < self._arguments})
        program = self._cut.part(needed, arguments, numbers)
        given = tuple(map(Input, program.arguments, (self._known[number] for number in arguments)))
        found = self._evaluate(program, given)
        if isinstance(found, Unavailable):
            self._failures += 1
            return found
        self._known.update(zip(numbers, found, strict=True))
        return None


def _zero(dtype: str) -> Any:
    import jax.numpy as jnp

    return np.zeros((), jnp.dtype(dtype))
