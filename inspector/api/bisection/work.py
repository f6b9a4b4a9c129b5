"""`Bisector`: the trials of a bisection, phase by phase: both sides, the flags, the passes, the reduction."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inspector.api.bisection.judges import Compared, FailureJudge, Judge, NoResultError, Trial
from inspector.api.bisection.pass_search import PassSearch
from inspector.api.bisection.reduction import Reduction
from inspector.api.bisection.search import Memory, minimal_subset
from inspector.api.flag_effects.effect import FailedEffect
from inspector.api.flag_effects.pool import EnginePool, OverError
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, Job
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.choice import chosen_engine
from inspector.errors import CompilationError, ModuleError, Unavailable
from inspector.execution.inputs import Input
from inspector.execution.run import choose_inputs
from inspector.reports.other_jax import other_jax_of, shared_other_jax
from inspector.reports.portable import installed_jax
from inspector.stages.bisection.reproduction import Reproduction
from inspector.stages.bisection.result import (
    Bisection,
    InstructionChange,
    Outcome,
    Phase,
    Step,
    Verdict,
    instruction_changes,
)
from inspector.stages.bisection.sides import FlagChange, Side, changed, changes_between
from inspector.stages.changed_lowered import changed_lowered
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import Lowered, compile_request

_LEAST_LIMIT_S, _TIMES_GOOD = 30.0, 10.0
_TOO_LATE = Unavailable("the time limit ended before it was searched", "raise time_limit_s")
_NOT_SEARCHED = Unavailable("there is no difference to search for")


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """The parameters of a bisection.

    Attributes:
      lowered: the program.
      good, bad: the sides.
      args, kwargs: the arguments of the program's runs; none for generated inputs.
      engine: the engine in any form that users may name one.
      time_limit_s: limit of all work in seconds; None for none.
      trial_limit_s: limit of each compile and run in seconds; None for a multiple of the good side's time.
      rtol, atol: tolerances of values.
      reproduce: whether to reduce the program.
    """

    lowered: Lowered
    good: Side
    bad: Side
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    engine: object
    time_limit_s: float | None
    trial_limit_s: float | None
    rtol: float | None
    atol: float | None
    reproduce: bool


class Bisector:
    """One bisection. Works in one thread; `stop` may be called from any."""

    def __init__(self, question: Question, judge: Judge[Any], tell: Callable[[Step], None]) -> None:
        """Prepares the bisection; compiles nothing yet.

        Args:
          question: its parameters.
          judge: decides which programs are bad.
          tell: called with each step.
        """
        self._question, self._judge, self._tell = question, judge, tell
        self._pools: dict[Target, EnginePool] = {}
        self._requests: dict[Target, CompileRequest] = {}
        self._until = None if question.time_limit_s is None else time.monotonic() + question.time_limit_s
        self._trial_s = question.trial_limit_s
        self._steps: list[Step] = []
        self._notes: list[str] = []
        self._inputs: tuple[Input, ...] = ()
        self._good: Any = None
        self._good_program: CompiledProgram | None = None
        self._found: dict[Side, CompiledProgram] = {}
        self._difference = ""
        self._started = set[Target]()
        for side in (question.good, question.bad):
            self._pool(side.target)

    def stop(self) -> None:
        """Cancels the running work."""
        for pool in tuple(self._pools.values()):
            pool.stop()

    def close(self) -> None:
        """Closes the engines that it started."""
        for pool in self._pools.values():
            pool.close()

    def run(self) -> Bisection:
        """Bisects.

        Raises:
          CancelledError: `stop` was called.
          CompilationError: the good side cannot be compiled.
        """
        question = self._question
        try:
            self._install_versions()
            verdict = self._compare_sides()
        except OverError:
            self._difference = "the time limit ended before both sides were compared"
            return self._result("not finished")
        if verdict != "found":
            return self._result(verdict)
        try:
            culprits = self._find_changes()
        except OverError:
            return self._result("not finished")
        culprit = changed(question.good, culprits)
        found: CulpritDetails = self._details(culprit)
        return self._result("found", culprits, found)

    def _install_versions(self) -> None:
        """Installs the versions of JAX that sides name, which takes longer than a trial may.

        Raises:
          TargetError: a version cannot be installed.
        """
        targets = {side.target for side in (self._question.good, self._question.bad) if side.target.jax}
        for target in targets:
            self._pool(target).work(functools.partial(_install, self._request(target)))
        if targets:
            self._notes.append(
                f"Both sides compile the StableHLO of JAX {installed_jax()}: differences in how JAX lowers are not compared."
            )

    def _result(
        self, verdict: Verdict, culprits: tuple[FlagChange, ...] = (), found: CulpritDetails | None = None
    ) -> Bisection:
        question = self._question
        details = found or CulpritDetails(*[_NOT_SEARCHED if verdict != "not finished" else _TOO_LATE] * 3)
        return Bisection(
            verdict, self._judge.by, question.good, question.bad, self._difference, culprits, details.compiler_pass,
            details.changes, details.reproduction, tuple(self._steps), tuple(self._notes),
        )  # fmt: skip

    # -------------------------------------------------------------- the sides

    def _compare_sides(self) -> Verdict:
        question = self._question
        started = began = time.monotonic()
        good = self._compile(question.good)
        if isinstance(good, FailedEffect):
            raise CompilationError(
                f"The good side ({question.good}) cannot be compiled, so nothing can be compared with it: {good.error}"
            )
        self._good_program = self._found[question.good] = good
        self._inputs = tuple(
            sorted(choose_inputs(good, question.args, question.kwargs), key=lambda each: each.argument.parameter or 0)
        )
        self._good = self._first_observation(good)
        self._add("sides", f"good: {question.good}", "good", "", 1, began)
        began = time.monotonic()
        if self._trial_s is None:
            self._trial_s = max(_LEAST_LIMIT_S, _TIMES_GOOD * (began - started))
        bad = self._compile(question.bad)
        failure = bad.error if isinstance(bad, FailedEffect) else ""
        observed: Any = None
        if isinstance(bad, CompiledProgram):
            self._found[question.bad] = bad
            try:
                observed = self._observe(bad)
            except NoResultError as e:
                failure = str(e)
        if failure:
            self._judge = FailureJudge(self._judge.needs_inputs)
            self._good, self._difference = True, f"the bad side fails: {_first_line(failure)}"
            self._add("sides", f"bad: {question.bad}", "bad", self._difference, 1, began)
            return "found"
        compared = self._judge.calibrate(self._good, observed)
        self._difference = compared.words
        self._add("sides", f"bad: {question.bad}", _outcome(compared), self._difference, 1, began)
        if not compared.differs:
            return "no difference"
        return self._repeat(good, bad if isinstance(bad, CompiledProgram) else good, observed)

    def _first_observation(self, good: CompiledProgram) -> Any:
        try:
            return self._observe(good)
        except NoResultError as e:
            raise CompilationError(f"The good side ({self._question.good}) has nothing to compare: {e}") from e

    def _repeat(self, good: CompiledProgram, bad: CompiledProgram, observed: Any) -> Verdict:
        """Observes both sides again, if observations of the same program may differ."""
        if self._judge.is_exact:
            return "found"
        if self._judge.by == "compile_time":
            return self._repeat_compiles(observed)
        for name, program, expected in (("good", good, False), ("bad", bad, True)):
            began = time.monotonic()
            compared = self._judge.compare(self._good, self._observe(program))
            self._add("sides", f"{name} again", _outcome(compared), compared.words, 0, began)
            if compared.differs != expected:
                self._notes.append(
                    f"The {name} side does not always give the same result, so a search would blame changes by chance."
                )
                return "flaky"
        return "found"

    def _repeat_compiles(self, observed: float) -> Verdict:
        """Compiles both sides again, and takes the shorter time of each."""
        times = []
        for name, side, first in (("good", self._question.good, self._good), ("bad", self._question.bad, observed)):
            began = time.monotonic()
            again = self._compile(side)
            seconds = first if isinstance(again, FailedEffect) else min(first, self._observe(again))
            times.append(seconds)
            self._add("sides", f"{name} again", "good" if name == "good" else "bad", "", 1, began)
        self._good = times[0]
        compared = self._judge.calibrate(*times)
        self._difference = compared.words
        return "found" if compared.differs else "no difference"

    # -------------------------------------------------------------- the flags

    def _find_changes(self) -> tuple[FlagChange, ...]:
        changes = changes_between(self._question.good, self._question.bad)
        memory = Memory()

        def is_bad(chosen: tuple[FlagChange, ...]) -> bool:
            side = changed(self._question.good, chosen)
            return memory.outcome(chosen, lambda: self._is_bad("flags", "; ".join(map(str, chosen)), side))

        memory.outcome(changes, lambda: True)
        found = minimal_subset(changes, is_bad) if len(changes) > 1 else changes
        if len(found) > 1:
            self._notes.append(f"The difference needs all {len(found)} changes together.")
        if not memory.is_monotone:
            self._notes.append("Some changes hide the difference: a set of changes is good that contains a bad one.")
        return found

    # -------------------------------------------------------------- the passes and the reproduction

    def _details(self, culprit: Side) -> CulpritDetails:
        compiler_pass: Any = _TOO_LATE
        changes: tuple[InstructionChange, ...] | Unavailable = _TOO_LATE
        reproduction: Reproduction | Unavailable = _TOO_LATE
        try:
            bad = self._compiled(culprit)
            search = PassSearch(self._question.good, culprit, self._is_bad, self._recorded, self._compiled)
            if isinstance(bad, FailedEffect):
                compiler_pass = Unavailable(f"the program cannot be compiled: {_first_line(bad.error)}")
                changes = compiler_pass
            else:
                assert self._good_program is not None, "both sides were compared"
                whole = as_compiled(self._good_program).diff(bad)
                compiler_pass, difference = search.run(whole)
                changes = instruction_changes(difference)
            reproduction = self._reproduction(culprit)
        except OverError:
            pass
        return CulpritDetails(compiler_pass, changes, reproduction)

    def _compiled(self, side: Side) -> CompiledProgram | FailedEffect:
        """Returns the program of a side that was tried."""
        return self._found.get(side) or self._compile(side)

    def _recorded(self, side: Side, began: float) -> CompiledProgram | FailedEffect:
        """Compiles a side with its passes recorded."""
        found = self._compile(side, ("passes",))
        outcome: Outcome = (
            "failed" if isinstance(found, FailedEffect) else "good" if side == self._question.good else "bad"
        )
        self._add("passes", f"record the passes of {side}", outcome, "", 1, began)
        return found

    def _reproduction(self, culprit: Side) -> Reproduction | Unavailable:
        question = self._question
        program = self._request(culprit.target).program
        reason = self._not_reducible(program)
        if reason is not None:
            return reason
        try:
            reduction = Reduction(
                program,
                self._inputs,
                self._evaluate,
                lambda part, inputs, words: self._try_part(part, inputs, words, culprit),
                has_values=self._judge.needs_inputs,
            )
            found = reduction.run()
        except ModuleError as e:
            return Unavailable(f"the program's StableHLO cannot be cut: {e}")
        if isinstance(found, Unavailable):
            return found
        part = found.part
        return Reproduction(
            part.program.module,
            tuple(np.ascontiguousarray(each.value) for each in part.inputs),
            tuple((each.shape, each.dtype) for each in part.program.results),
            question.good,
            culprit,
            self._judge.by,
            part.difference,
            part.operations,
            found.whole,
            _lines(question.lowered, part.program),
            found.is_minimal,
            question.rtol,
            question.atol,
        )

    def _not_reducible(self, program: Program) -> Unavailable | None:
        if not self._question.reproduce:
            return Unavailable("it was not requested", "pass reproduce=True")
        if self._judge.can_reduce is not None:
            return self._judge.can_reduce
        if program.no_stablehlo is not None:
            return program.no_stablehlo
        if program.device_count > 1:
            return Unavailable("the program runs on several devices, and parts of it would lose their shardings")
        if program.host_callbacks:
            return Unavailable("the program calls back into this process")
        if self._request(self._question.good.target).program.module != program.module:
            return Unavailable("the program is lowered differently for the two targets")
        return None

    def _evaluate(self, program: Program, inputs: Sequence[Input]) -> Sequence[np.ndarray] | Unavailable:
        began = time.monotonic()
        side = self._question.good
        found = self._compile_part(side, program)
        outputs: Sequence[np.ndarray] | Unavailable
        if isinstance(found, FailedEffect):
            outputs = Unavailable(f"intermediate values cannot be computed: {_first_line(found.error)}")
        else:
            try:
                outputs = self._trial(found, inputs).run().outputs
            except NoResultError as e:
                outputs = Unavailable(str(e))
        outcome: Outcome = "failed" if isinstance(outputs, Unavailable) else "good"
        words = outputs.reason if isinstance(outputs, Unavailable) else ""
        self._add("reduction", f"compute {len(program.results):,} intermediate values", outcome, words, 1, began)
        return outputs

    def _try_part(self, program: Program, inputs: Sequence[Input], words: str, culprit: Side) -> str | None:
        began = time.monotonic()
        difference: str | None = None
        outcome: Outcome = "good"
        observed = ""
        good = self._compile_part(self._question.good, program)
        bad = self._compile_part(culprit, program)
        try:
            if isinstance(good, FailedEffect):
                raise NoResultError(good.error)
            ours = self._judge.observe(self._trial(good, inputs))
            try:
                if isinstance(bad, FailedEffect):
                    raise NoResultError(bad.error)
                theirs = self._judge.observe(self._trial(bad, inputs))
                compared = self._judge.compare(ours, theirs)
                observed = compared.words
                difference = observed if compared.differs else None
            except NoResultError as e:
                if not isinstance(self._judge, FailureJudge):
                    raise
                observed = difference = f"the bad side fails: {_first_line(str(e))}"
            outcome = "bad" if difference is not None else "good"
        except NoResultError as e:
            outcome, observed = "failed", _first_line(str(e))
        self._add("reduction", words, outcome, observed, 2, began)
        return difference

    # -------------------------------------------------------------- trials

    def _is_bad(self, phase: Phase, tried: str, side: Side) -> bool:
        """Tries a side. One that fails is bad only if the bad side fails too."""
        began = time.monotonic()
        found = self._compile(side)
        try:
            if isinstance(found, FailedEffect):
                raise NoResultError(found.error)
            compared = self._judge.compare(self._good, self._observe(found))
        except NoResultError as e:
            is_bad = isinstance(self._judge, FailureJudge)
            self._add(phase, tried, "bad" if is_bad else "failed", _first_line(str(e)), 1, began)
            return is_bad
        if compared.differs or phase == "passes":
            self._found[side] = found
        self._add(phase, tried, _outcome(compared), compared.words, 1, began)
        return compared.differs

    def _observe(self, compiled: CompiledProgram) -> Any:
        return self._judge.observe(self._trial(compiled, self._inputs))

    def _trial(self, compiled: CompiledProgram, inputs: Sequence[Input]) -> Trial:
        return Trial(compiled, inputs, self._pool(compiled.target), self._trial_s)

    def _add(self, phase: Phase, tried: str, outcome: Outcome, observed: str, compiles: int, began: float) -> None:
        step = Step(len(self._steps) + 1, phase, tried, outcome, observed, compiles, time.monotonic() - began)
        self._steps.append(step)
        self._tell(step)

    def _compile(self, side: Side, products: Sequence[str] = ()) -> CompiledProgram | FailedEffect:
        request = self._request(side.target)
        return self._attempt(
            side, dataclasses.replace(request, options=side.options, target=side.target, products=frozenset(products))
        )

    def _compile_part(self, side: Side, program: Program) -> CompiledProgram | FailedEffect:
        return self._attempt(side, CompileRequest(program, side.options, side.target))

    def _attempt(self, side: Side, request: CompileRequest) -> CompiledProgram | FailedEffect:
        pool = self._pool(side.target)
        # The first request to another JAX also starts its process.
        is_starting = bool(side.target.jax) and side.target not in self._started
        self._started.add(side.target)
        limit_s = None if is_starting else self._trial_s
        return pool.attempt(request, limit_s, lambda job, limit_s: job.result(limit_s))

    def _request(self, target: Target) -> CompileRequest:
        if target not in self._requests:
            self._requests[target] = compile_request(self._question.lowered, None, target)
        return self._requests[target]

    def _pool(self, target: Target) -> EnginePool:
        if target not in self._pools:
            engine = other_jax_of(target) or chosen_engine(self._question.engine)
            left_s = None if self._until is None else max(0.0, self._until - time.monotonic())
            self._pools[target] = EnginePool(self._request(target).program, target, engine, time_limit_s=left_s)
        return self._pools[target]


@dataclasses.dataclass(frozen=True, slots=True)
class CulpritDetails:
    """The results of the phases after the flags, as in `Bisection`."""

    compiler_pass: Any
    changes: Any
    reproduction: Any


def _install(request: CompileRequest, _: Engine) -> Job[Path]:
    return shared_other_jax().install(request)


def _lines(lowered: Lowered, program: Program) -> tuple[str, ...]:
    """Returns the user's lines of a part, in order."""
    listing = changed_lowered(lowered, program).stablehlo_listing
    if isinstance(listing, Unavailable):
        return ()
    lines = [origin.line for entry in listing.origins for origin in entry]
    return tuple(dict.fromkeys(f"{line.file}:{line.line}" for line in lines if line is not None))


def _outcome(compared: Compared) -> Outcome:
    return "bad" if compared.differs else "good"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
