"""`Proof`: what a finding's remedy really gains, from compiling the program with it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from inspector.analysis.findings.edits import (
    DefaultPrecision,
    DropCallbacks,
    DropResults,
    Edit,
    InterleaveColumns,
    LiftConstants,
    NarrowCollectives,
    NarrowProducts,
    SingleFloats,
    SortToTopK,
    StoreNarrow,
    TraceAgain,
)
from inspector.analysis.findings.finding import LEAST_SHARE, Finding
from inspector.compilation.compiled import CompiledProgram, executable_of
from inspector.compilation.engine import Engine
from inspector.compilation.request import CompileRequest
from inspector.errors import CancelledError, InspectorError, Unavailable
from inspector.execution.array_difference import difference
from inspector.execution.comparison import speed
from inspector.execution.inputs import made_inputs
from inspector.execution.tolerances import TOLERANCES
from inspector.stages.edited_program import edited_program
from inspector.stages.proof_runs import FEWEST, MOST_S, ProofRuns, run_both
from inspector.stages.proof_time import ProofTime, TimeOverError
from inspector.support.units import format_bytes, format_seconds

_NOT_COMPILED = Unavailable("it was not compiled")
_NOT_RUN = Unavailable("the programs were not run")
_RESIZED = Unavailable("the remedy changes shapes of arguments")
_NOT_FINITE = Unavailable("no result is finite with the generated inputs")
_REORDERED = Unavailable("the remedy changes the order of columns")

Verdict = Literal["proven", "different results", "no gain", "worse", "cannot be tried", "not tried"]
Estimate = Callable[[CompiledProgram], float | Unavailable]

_ROUNDED = 3e-2  # if operands are rounded to bfloat16
_NEEDS_RUN = "only a run shows the time of callbacks; prove(run=True) runs the program many times, and its callbacks get generated values"
_UNKNOWN_SORT = "libtpu does not estimate the time of sorts; prove(run=True) on a TPU measures it"
_NEEDS_TIME = "it saves time, which is unknown: {}. Measure the roofs with inspector.measured_peak(), or run both programs: prove(run=True)"
_TOO_SLOW = "it saves time, which is unknown: one execution takes {}, and a measurement needs at least {} of each program. Give it more time: prove(time_limit_s={:.0f})"
_SAME_SHARE = 1e-3
"""Smallest share of the time by which two programs differ."""
_MOST_SLOWER = 0.1  # of the time, for a smaller executable
_LESS_WORK = "the program with the smaller dimension does less work, and it is no faster once its time is scaled to the same work; compare both lengths with what_if"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Proof:
    """The comparison of a program with its form after the remedy.

    Attributes:
      verdict: "proven" if the remedy saves what the finding promises, memory or time; "different results" if it does but changes the
        results by more than the tolerance of their types; "no gain", "worse", "cannot be tried", or "not tried" if the time limit was
        over first.
      reason: why it cannot be or was not tried; "" otherwise.
      gain_bytes: peak memory of one device that it saves, in bytes, between both compiles; for lifted constants, bytes of
        the executable (`is_of_executable`).
      gain_s: seconds of one execution that it saves: measured if the program ran, otherwise estimated. 0 for less than a
        thousandth of the program's time.
      is_measured: True if `gain_s` is measured.
      values: how the results agree, in words; Unavailable if they were not compared.
      compiled: the changed program; None if it could not be compiled.
      is_stopped: True if the time limit stopped it, so that it can be tried again.
      is_of_executable: True if `gain_bytes` are bytes of the executable.
      missed: what the finding promised, "time" or "memory", if the remedy saves only the other one; "" otherwise.
    """

    verdict: Verdict
    reason: str = ""
    gain_bytes: int = 0
    gain_s: float | Unavailable = _NOT_COMPILED
    is_measured: bool = False
    values: str | Unavailable = _NOT_RUN
    compiled: CompiledProgram | None = dataclasses.field(default=None, compare=False)
    is_stopped: bool = False
    is_of_executable: bool = False
    missed: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.verdict}: {self.reason}"
        parts = []
        if self.gain_bytes:
            size, is_less = format_bytes(abs(self.gain_bytes)), self.gain_bytes > 0
            parts.append(
                f"{size} {'smaller' if is_less else 'larger'} executable"
                if self.is_of_executable
                else f"{size} {'less' if is_less else 'more'} memory"
            )
        elif self.verdict != "proven":
            parts.append("the same memory")
        if not isinstance(self.gain_s, Unavailable):
            how = "measured" if self.is_measured else "estimated"
            change = f"{format_seconds(abs(self.gain_s))} {'faster' if self.gain_s > 0 else 'slower'}"
            parts.append(f"{change if self.gain_s else 'the same time'} ({how})")
        if not isinstance(self.values, Unavailable):
            parts.append(self.values)
        elif self.values != _NOT_RUN:
            parts.append(f"results not compared, because {self.values.reason}")
        missed = f"{self.verdict} in {self.missed}" if self.missed else self.verdict
        return ": ".join(filter(None, (missed, ", ".join(parts))))

    def __repr__(self) -> str:
        return f"<Proof {self}>"


def cannot_be_tried(reason: str) -> Proof:
    """Returns the proof of a finding that cannot be tried."""
    return Proof("cannot be tried", reason)


def not_tried(time: ProofTime) -> Proof:
    """Returns the proof of a finding that was not begun within the time limit."""
    return Proof("not tried", f"{time.words} was over", is_stopped=True)


def prove(
    finding: Finding,
    compiled: CompiledProgram,
    engine: Engine,
    estimated_s: Estimate,
    *,
    run: bool,
    time: ProofTime | None = None,
) -> Proof:
    """Compiles a program with the remedy of a finding and compares.

    Args:
      finding: the finding.
      compiled: the program in which it was found.
      engine: compiles and runs the changed program.
      estimated_s: returns the estimated seconds of one execution of a program.
      run: whether to run both programs, to compare their times and their results.
      time: the time limit; None for none.
    """
    time = time or ProofTime(None)
    if isinstance(finding.edits, Unavailable):
        return cannot_be_tried(finding.edits.reason)
    if not run and any(isinstance(edit, DropCallbacks) for edit in finding.edits):
        return cannot_be_tried(_NEEDS_RUN)
    is_tpu = compiled.program.platform == "tpu"
    if not run and is_tpu and any(isinstance(edit, SortToTopK) for edit in finding.edits):
        if finding.byte_share < LEAST_SHARE:
            return cannot_be_tried(_UNKNOWN_SORT)
        estimated_s = _no_estimate
    if time.is_over:
        return not_tried(time)
    try:
        changed = edited_program(compiled.program, finding.edits)
        if isinstance(changed, Unavailable):
            return cannot_be_tried(changed.reason)
        products = frozenset() if isinstance(compiled.buffers, Unavailable) else frozenset({"buffers"})
        request = CompileRequest(changed.program, compiled.options.merge(changed.flags), compiled.target, products)
        other = time.result(engine.submit(request))
    except CancelledError:
        raise
    except TimeOverError:
        return Proof("not tried", f"the compile did not end within {time.words}", is_stopped=True)
    except InspectorError as error:
        return cannot_be_tried(str(error).partition("\n")[0])
    is_stopped = False
    runs: ProofRuns | Unavailable
    try:
        runs = _NOT_RUN
        if run:
            inputs = made_inputs(compiled.program)
            sides = (compiled, inputs), (other, changed.inputs(inputs))
            runs = run_both(*sides, engine, time, saves_time=bool(finding.share))
    except TimeOverError as error:
        is_stopped, runs = True, Unavailable(f"{error} before both programs had run once")
    except CancelledError:
        raise
    except InspectorError as error:
        runs = Unavailable(f"the programs cannot be run: {str(error).partition(chr(10))[0]}")
    proof = _compared(finding, finding.edits, compiled, other, estimated_s, runs)
    if not is_stopped:
        return proof
    verdict: Verdict = "not tried" if proof.verdict == "cannot be tried" else proof.verdict
    return dataclasses.replace(proof, verdict=verdict, is_stopped=True)


def _no_estimate(_: CompiledProgram) -> Unavailable:
    return Unavailable(_UNKNOWN_SORT)


def _compared(
    finding: Finding,
    edits: Sequence[Edit],
    compiled: CompiledProgram,
    other: CompiledProgram,
    estimated_s: Estimate,
    runs: ProofRuns | Unavailable,
) -> Proof:
    lifts = any(isinstance(edit, LiftConstants) for edit in edits)
    size = _executable_bytes if lifts else _peak
    work = math.prod(edit.work for edit in edits if isinstance(edit, TraceAgain))
    gain_bytes = size(compiled) - size(other) if work > 1 - LEAST_SHARE else 0  # what less work saves is no gain
    before, after = estimated_s(compiled), estimated_s(other)
    gain_s = after if isinstance(after, Unavailable) else _minus(before, after / work)
    whole_s = 0.0 if isinstance(before, Unavailable) else float(before)
    values: str | Unavailable
    agree = is_measured = False
    if isinstance(runs, Unavailable):
        values = runs
    else:
        unknown = next((why for edit in edits if (why := _not_comparable(edit)) is not None), None)
        values, agree = _agreement(edits, *runs.outputs) if unknown is None else (unknown, True)
        relative = speed(*runs.durations)
        if not isinstance(relative, Unavailable):
            before_s, after_s = (float(np.median(each)) for each in runs.durations)
            gain_s, whole_s, is_measured = (before_s - after_s / work if relative.is_known else 0.0), before_s, True
    saved = _saved(gain_s, whole_s), gain_bytes / max(1, size(compiled))
    if not isinstance(gain_s, Unavailable) and abs(saved[0]) < _SAME_SHARE:
        gain_s = 0.0
    verdict: Verdict = "no gain"
    has_different_results = not isinstance(values, Unavailable) and not agree
    keeps_promise = any(
        part >= LEAST_SHARE for part, is_promised in zip(saved, _promises(finding), strict=True) if is_promised
    )
    if has_different_results:
        verdict = "different results" if keeps_promise else "worse"
    elif work < 1 and not isinstance(gain_s, Unavailable) and saved[0] < LEAST_SHARE:
        return Proof("cannot be tried", _LESS_WORK, 0, gain_s, is_measured, values, other)
    elif lifts and not is_measured and saved[0] < -_MOST_SLOWER:
        verdict = "worse"
    elif keeps_promise:
        verdict = "proven"
    elif isinstance(gain_s, Unavailable) and finding.share:
        needs, reason = _needed(runs, gain_s)
        return Proof(needs, reason, gain_bytes, gain_s, compiled=other, is_stopped=needs == "not tried")
    elif min(saved) <= -LEAST_SHARE:
        verdict = "worse"
    missed = ""
    if verdict == "no gain" and max(saved) >= LEAST_SHARE:
        missed = "time" if saved[1] >= LEAST_SHARE else "memory"
    return Proof(verdict, "", gain_bytes, gain_s, is_measured, values, other, is_of_executable=lifts, missed=missed)


def _not_comparable(edit: Edit) -> Unavailable | None:
    """Returns why an edit leaves no results to compare; None if they can be compared."""
    if isinstance(edit, TraceAgain) and edit.resizes:
        return _RESIZED
    return _REORDERED if isinstance(edit, InterleaveColumns) and not edit.parameters else None


def _promises(finding: Finding) -> tuple[bool, bool]:
    """Returns whether a finding promises to save time, and memory. One with an unknown gain may save either."""
    for least in (LEAST_SHARE, 0.0):
        found = finding.share > 0 and finding.share >= least, finding.gain_bytes > 0 and finding.byte_share >= least
        if any(found):
            return found
    return True, True


def _needed(runs: ProofRuns | Unavailable, unknown: Unavailable) -> tuple[Verdict, str]:
    """Returns the verdict of a proof without a time, and what it needs."""
    if unknown.reason == _UNKNOWN_SORT and runs == _NOT_RUN:
        return "cannot be tried", _UNKNOWN_SORT
    if isinstance(runs, Unavailable):
        reason = unknown.reason if runs == _NOT_RUN else runs.reason
        return "cannot be tried", _NEEDS_TIME.format(reason)
    longest_s = runs.longest_s
    seconds = 2 * (FEWEST + 1) * longest_s + MOST_S
    return "not tried", _TOO_SLOW.format(format_seconds(longest_s), FEWEST, seconds)


def _minus(before: float | Unavailable, after: float) -> float | Unavailable:
    return before if isinstance(before, Unavailable) else float(before) - float(after)


def _saved(gain_s: float | Unavailable, whole_s: float) -> float:
    return 0.0 if isinstance(gain_s, Unavailable) or not whole_s else gain_s / whole_s


def _peak(compiled: CompiledProgram) -> int:
    return 0 if isinstance(compiled.memory, Unavailable) else int(compiled.memory.peak_bytes)


def _executable_bytes(compiled: CompiledProgram) -> int:
    """Returns the size of the executable, or of the optimized HLO if that is larger: GPU executables are compressed."""
    executable = executable_of(compiled)
    return max(len(compiled.hlo_proto), 0 if isinstance(executable, Unavailable) else len(executable))


def _agreement(
    edits: Sequence[Edit], ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]
) -> tuple[str | Unavailable, bool]:
    """Returns how the results agree, in words, and whether they agree within the tolerance of their types."""
    rounding = (NarrowCollectives, NarrowProducts, DefaultPrecision, StoreNarrow)
    rounded = _ROUNDED if any(isinstance(edit, rounding) for edit in edits) else 0.0
    worst, most = 0.0, 0.0
    left_out = {number for edit in edits if isinstance(edit, DropResults) for number in edit.results}
    returned = (each for number, each in enumerate(ours) if number not in left_out)
    for path, (a, b) in enumerate(zip(returned, theirs, strict=True)):
        if any(isinstance(edit, SingleFloats | StoreNarrow) for edit in edits):
            a = a.astype(b.dtype)
        found = difference(str(path), a, b)
        if not found.differing:
            continue
        scaled = found.scaled
        if not isinstance(scaled, float):
            return "the results differ", False
        tolerance = max(TOLERANCES.get(a.dtype.name, 0.0), rounded)
        if scaled > tolerance:
            return f"the results differ by {scaled:.1e} of the largest value, more than {tolerance:.0e}", False
        worst, most = max(worst, scaled), max(most, tolerance)
    if ours and not any(_has_finite(each) for each in ours):
        return _NOT_FINITE, True
    return (f"results agree within {most:.0e}" if worst else "equal results"), True


def _has_finite(array: np.ndarray) -> bool:
    """Reports whether an array has a finite number, or elements of a type that has only such."""
    try:
        return bool(np.isfinite(array).any()) or not array.size
    except TypeError:  # such as keys
        return True
