"""`CompileTimeSearch`: finds the part of a program that makes its compile slow.

    whole ─▶ divide into parts ─▶ compile each alone ─▶ leave out the slowest ─▶ if that saves a third: divide it ─▶ …

A loop that is found is divided too: one iteration of its body is a program of its own.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence

from inspector.api.bisection.cut_program import CutProgram
from inspector.api.bisection.division import Division, divisions, frames_of, line_of
from inspector.api.flag_effects.effect import FailedEffect
from inspector.api.flag_effects.pool import EnginePool, OverError
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.engines.choice import chosen_engine
from inspector.errors import CompilationError, Unavailable
from inspector.hlo.source import own_frame
from inspector.reports.other_jax import other_jax_of
from inspector.stages.bisection.compile_time_result import CODE_GENERATION, CompileTime, PartTime, PassTime
from inspector.stages.bisection.result import Phase, Step
from inspector.stages.bisection.sides import Side
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import Lowered, compile_request
from inspector.support.units import format_seconds

_SHARE = 1 / 3  # of the time that the part around it saves, which a part must save to be divided further
_LEAST_S = 0.02  # shorter compiles are noise
_TOO_LATE = Unavailable("the time limit ended before it was measured", "raise time_limit_s")


@dataclasses.dataclass(frozen=True, slots=True)
class _Whole:
    """A program to divide: the user's, or one iteration of a loop.

    Attributes:
      cut: its operations.
      compile_s: seconds of its compile.
      within: the loop; "" for the user's program.
    """

    cut: CutProgram
    compile_s: float
    within: str = ""


class CompileTimeSearch:
    """One search. Works in one thread; `stop` may be called from any."""

    def __init__(
        self,
        lowered: Lowered,
        side: Side,
        engine: object,
        time_limit_s: float | None,
        tell: Callable[[Step], None],
    ) -> None:
        """Prepares the search; compiles nothing yet.

        Args:
          lowered: the program.
          side: the target and the options.
          engine: the engine in any form that users may name one.
          time_limit_s: seconds for all compiles; None for no limit.
          tell: called with each step.
        """
        self._request = compile_request(lowered, side.options, side.target)
        self._side, self._tell = side, tell
        chosen = other_jax_of(side.target) or chosen_engine(engine)
        self._pool = EnginePool(self._request.program, side.target, chosen, time_limit_s=time_limit_s)
        self._steps: list[Step] = []
        self._parts: list[PartTime] = []
        self._notes: list[str] = []

    def stop(self) -> None:
        """Cancels the running compile."""
        self._pool.stop()

    def close(self) -> None:
        """Closes the engines that it started."""
        self._pool.close()

    def run(self) -> CompileTime:
        """Searches.

        Raises:
          CancelledError: `stop` was called.
          CompilationError: the program cannot be compiled, or not within the time limit.
          ModuleError: its StableHLO cannot be cut.
        """
        program = self._request.program
        program.check_compilable()
        cut = CutProgram(program)
        try:
            # The first compile of a worker takes longer, so the shorter time of two counts.
            compile_s = min(self._whole_s(program, "whole program"), self._whole_s(program, "whole program again"))
        except OverError:
            raise CompilationError(
                "The time limit ended before the whole program was compiled twice. Raise time_limit_s."
            ) from None
        whole = _Whole(cut, compile_s)
        slowest: tuple[_Whole, Division, PartTime] | None = None
        passes: tuple[PassTime, ...] | Unavailable = _TOO_LATE
        try:
            slowest = self._search(whole, cut.candidates, compile_s, 0)
            passes = self._passes(*slowest[:2]) if slowest else Unavailable("no part was found")
        except OverError:
            self._notes.append("The time limit ended the search; smaller parts were not compiled.")
        return CompileTime(
            self._side,
            compile_s,
            len(cut.whole.operations),
            tuple(self._parts),
            slowest[2] if slowest else self._no_part(compile_s),
            passes,
            tuple(self._steps),
            tuple(self._notes),
        )

    def _no_part(self, compile_s: float) -> Unavailable:
        if compile_s < _LEAST_S:
            return Unavailable(f"the compile takes {format_seconds(compile_s)}, too little to compare parts")
        return Unavailable("no part takes a third of the time")

    def _search(
        self, whole: _Whole, members: Collection[int], saved_s: float, depth: int
    ) -> tuple[_Whole, Division, PartTime] | None:
        """Returns the smallest part among some operations without which at least a third of `saved_s` is saved."""
        operations = whole.cut.whole.operations
        if len(members) == 1:
            return self._inside(whole, Division("the only operation", (*members,)), saved_s, depth)
        for way in divisions(operations, members):
            found = self._slowest_of(whole, way, saved_s, depth)
            if found is None:
                continue
            part, row = found
            inner = self._inside(whole, part, saved_s, depth)
            if inner or not part.is_rest:
                return inner or (whole, part, row)
        return None

    def _inside(
        self, whole: _Whole, part: Division, saved_s: float, depth: int
    ) -> tuple[_Whole, Division, PartTime] | None:
        """Searches in a part, or in the body of the loop that it is."""
        try:
            if len(part.members) > 1:
                return self._search(whole, part.members, saved_s, depth + 1)
            operation = whole.cut.whole.operations[part.members[0]]
            if not operation.is_loop:
                return None
            body = whole.cut.body(part.members[0])
            place = line_of(operation)
            loop = f"one iteration of the loop at {place}" if place else "one iteration of a loop"
            every = _program(body, body.candidates)
            compile_s = None if every is None else self._time(every, loop)
            if compile_s is None or compile_s < _LEAST_S:
                return None
            return self._search(_Whole(body, compile_s, loop), body.candidates, compile_s, depth + 1)
        except OverError:
            self._notes.append("The time limit ended the search; smaller parts were not compiled.")
            return None

    def _slowest_of(
        self, whole: _Whole, way: Sequence[Division], saved_s: float, depth: int
    ) -> tuple[Division, PartTime] | None:
        """Compiles the parts of a division alone, then the program without the slowest; None if that saves too little."""
        rows = [(part, self._alone(whole, part, depth)) for part in way]
        known = [(row.alone_s, n) for n, (_, row) in enumerate(rows) if not isinstance(row.alone_s, Unavailable)]
        ordered = [rows[n] for _, n in sorted(known, reverse=True)]
        ordered += [each for each in rows if isinstance(each[1].alone_s, Unavailable)]
        first = len(self._parts)
        self._parts += [row for _, row in ordered]
        part, row = ordered[0]
        if isinstance(row.alone_s, Unavailable) or row.alone_s < max(_LEAST_S, saved_s * _SHARE / len(way)):
            return None
        rest = _program(whole.cut, set(whole.cut.candidates) - {*part.members})
        without_s = 0.0 if rest is None else self._time(rest, f"without {row}")
        if without_s is None:
            return None
        row = dataclasses.replace(row, without_s=without_s)
        self._parts[first] = row
        return (part, row) if whole.compile_s - without_s >= saved_s * _SHARE else None

    def _alone(self, whole: _Whole, part: Division, depth: int) -> PartTime:
        operations = whole.cut.whole.operations
        frames = filter(None, (own_frame(frames_of(operations[at])) for at in part.members))
        lines = tuple(dict.fromkeys(f"{frame.file}:{frame.line}" for frame in frames))
        row = PartTime(part.name, depth, lines, len(part.members), whole.within, _TOO_LATE, None, whole.compile_s)
        program = _program(whole.cut, part.members)
        alone: float | Unavailable
        if program is None:
            alone = Unavailable("its values cannot be arguments or results of a program")
        else:
            measured = self._time(program, f"only {row}")
            alone = Unavailable("the compile of the part alone failed") if measured is None else measured
        return dataclasses.replace(row, alone_s=alone)

    # -------------------------------------------------------------- passes

    def _passes(self, whole: _Whole, part: Division) -> tuple[PassTime, ...] | Unavailable:
        """Compiles with and without a part with the passes recorded, and compares their times."""
        rest = _program(whole.cut, set(whole.cut.candidates) - {*part.members})
        every = _program(whole.cut, whole.cut.candidates) if whole.within else self._request.program
        if every is None:
            return Unavailable("the loop's body cannot be compiled alone")
        times: list[dict[str, float]] = []
        for program, words in ((every, "with all parts"), (rest, f"without {part.name}")):
            found = {} if program is None else self._pass_times(program, f"passes {words}")
            if isinstance(found, Unavailable):
                return found
            times.append(found)
        with_part, without = times
        rows = [PassTime(name, seconds, without.get(name, 0.0)) for name, seconds in with_part.items()]
        return tuple(sorted(rows, key=lambda each: -each.saved_s))

    def _pass_times(self, program: Program, words: str) -> dict[str, float] | Unavailable:
        """Returns the seconds of each pass, and of what is outside of passes."""
        found = self._compile(program, words, ("passes",))
        if isinstance(found, FailedEffect):
            return Unavailable(f"the passes cannot be recorded: {found.error}")
        passes = as_compiled(found).passes
        if isinstance(passes, Unavailable):
            return passes
        times: dict[str, float] = {}
        for each in passes:
            if not isinstance(each.duration_s, Unavailable):
                times[each.name] = times.get(each.name, 0.0) + each.duration_s
        outside = found.timings["compile_s"] - sum(times.values())
        return {**times, CODE_GENERATION: max(0.0, outside)}

    # -------------------------------------------------------------- compiles

    def _whole_s(self, program: Program, words: str) -> float:
        found = self._compile(program, words)
        if isinstance(found, FailedEffect):
            raise CompilationError(f"The program cannot be compiled ({self._side}): {found.error}")
        return _seconds(found)

    def _time(self, program: Program, words: str) -> float | None:
        found = self._compile(program, words)
        return None if isinstance(found, FailedEffect) else _seconds(found)

    def _compile(self, program: Program, words: str, products: Collection[str] = ()) -> CompiledProgram | FailedEffect:
        began = time.monotonic()
        phase: Phase = "passes" if products else "parts"
        request = CompileRequest(program, self._request.options, self._side.target, frozenset(products))
        found = self._pool.attempt(request, None, lambda job, limit_s: job.result(limit_s))
        is_failed = isinstance(found, FailedEffect)
        observed = found.error if isinstance(found, FailedEffect) else format_seconds(_seconds(found))
        step = Step(
            len(self._steps) + 1, phase, words, "failed" if is_failed else "good", observed, 1, time.monotonic() - began
        )
        self._steps.append(step)
        self._tell(step)
        return found


def _seconds(compiled: CompiledProgram) -> float:
    """Returns the CPU time of a compile, because other work on the machine makes the elapsed time longer."""
    return compiled.timings.get("compile_cpu_s", compiled.timings["compile_s"])


def _program(cut: CutProgram, chosen: Collection[int]) -> Program | None:
    """Returns some operations as a program; None if there are none, or if their values cannot be arguments or results."""
    kept, inputs, outputs = cut.interface(chosen)
    return cut.part(kept, inputs, outputs) if outputs and cut.have_types((*inputs, *outputs)) else None
