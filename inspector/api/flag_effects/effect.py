"""`FlagEffect`: the effect of one value of one flag on a program, and tables of effects."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from inspector.analysis.cost.kernels import structure
from inspector.analysis.cost.stats import difference
from inspector.analysis.diff.fingerprint import ASPECTS, Fingerprint, changes, fingerprint
from inspector.analysis.diff.module_diff import diff
from inspector.analysis.diff.text_diff import instruction_changes, instruction_multiset
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import FlagValue
from inspector.compilation.preview import Preview
from inspector.errors import Partial, Unavailable
from inspector.execution.comparison import speed
from inspector.execution.run import interquartile_range
from inspector.platforms import Peak
from inspector.stages.estimates import Estimate, estimate
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.units import Unit, format_number

Outcome = Literal["hlo", "memory", "cost", "code", "unknown", "nothing", "refused", "crashed", "timed out", "not tried"]

OUTCOMES: tuple[Outcome, ...] = (
    "hlo", "memory", "cost", "code", "unknown", "nothing", "refused", "crashed", "timed out", "not tried",
)  # fmt: skip
"""The outcomes of a flag, in the order of a scan's rows: the most telling aspect that changed, or the kind of failure.

"unknown" where no aspect is known to change and one could not be compared, mostly the machine code; "nothing" where all
were compared.
"""

DELTAS = (
    "measured_s", "estimated_s", "exposed_s", "peak_bytes", "temp_bytes", "generated_code_bytes", "flops", "bytes_accessed", "kernels",
    "collectives",
)  # fmt: skip
"""Numbers of which a row has the difference to the baseline: times, `Memory`, `Cost`, and what the device executes."""

RANKED_BY = (
    "measured_s",
    "estimated_s",
    "exposed_s",
    "peak_bytes",
    "generated_code_bytes",
    "bytes_accessed",
    "flops",
    "temp_bytes",
)
"""The order of importance of differences."""

_NOT_COMPILED = Unavailable("it could not be compiled")
_NO_CODE_TIME = Unavailable("it was not compiled to machine code", "use flag_effect or scan(machine_code=True)")
_SAME = Unavailable("the compiled program is that of the baseline")
_EARLIER = Unavailable("it was compiled before the scan was resumed", "scan this flag again")
_NOT_TRIED = Unavailable("it was not tried", "continue with ScanJob.resume()")

Found = CompiledProgram | Preview
"""The result of a trial: the compiled program, or its preview."""


@dataclasses.dataclass(frozen=True, slots=True)
class FlagEffect:
    """The effect of one value of one flag on a program.

    Attributes:
      flag, value: the flag and its value.
      outcome: one of `OUTCOMES`.
      hlo, memory, cost, code: True if changed (names and metadata aside), or the reason why that is unknown.
      headline: the structural difference of the optimized HLO, a sentence; "" for none.
      instructions: the differences in instruction counts as text; "" if the HLO did not change.
      changed_instructions: number of instructions of either program that the other lacks; 0 if only order, operands or backend
        configuration changed.
      deltas: differences from the baseline by the names in `DELTAS`; empty for a failure.
      compile_s: XLA's compile time in seconds, if it compiled to machine code.
      measured_s: median measured duration of an execution, in seconds; None if no measurement was requested.
      measured_spread_s: interquartile range of these durations, in seconds; None as for `measured_s`.
      error: the error; "" for none.
      warnings: warnings of this compile that the baseline lacks, e.g. about an unknown pass name.
    """

    flag: str
    value: FlagValue
    outcome: Outcome
    hlo: bool | Unavailable
    memory: bool | Unavailable
    cost: bool | Unavailable
    code: bool | Unavailable
    headline: str = ""
    instructions: str = ""
    changed_instructions: int = 0
    deltas: Mapping[str, float | Unavailable] = dataclasses.field(default_factory=dict)
    compile_s: float | Unavailable = _NOT_COMPILED
    measured_s: float | Unavailable | None = None
    measured_spread_s: float | Unavailable | None = None
    error: str = ""
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        text = self.headline or self.instructions or self.error.partition("\n")[0]
        return f"<FlagEffect {self.flag}={self.value!r}: {self.outcome}{f'; {text[:160]}' if text else ''}>"


@dataclasses.dataclass(frozen=True, slots=True)
class FailedEffect:
    """The reason why there is no comparison."""

    outcome: Literal["refused", "crashed", "timed out"]
    error: str


def failed(flag: str, value: FlagValue, failure: FailedEffect) -> FlagEffect:
    """Returns the effect of a value with which the program cannot be compiled."""
    no = _NOT_COMPILED
    return FlagEffect(flag, value, failure.outcome, hlo=no, memory=no, cost=no, code=no, error=failure.error)


def not_tried(flag: str, value: FlagValue) -> FlagEffect:
    """Returns the row of a value that was not tried because of the time limit."""
    no = _NOT_TRIED
    return FlagEffect(flag, value, "not tried", hlo=no, memory=no, cost=no, code=no, compile_s=no)


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """The program without the flag.

    Attributes:
      program: the compiled program.
      digests: its fingerprint, as far as repeated compiles agree.
      estimate: its estimated time.
      peak: the roofs of estimated times; None for the published ones of the target.
      warnings: warnings of its request.
    """

    program: Found
    digests: Fingerprint
    estimate: Estimate
    peak: Peak | None = None
    warnings: tuple[str, ...] = ()


def compare(
    flag: str, value: FlagValue, baseline: Baseline, program: Found, warnings: tuple[str, ...] = ()
) -> FlagEffect:
    """Returns the effect of a value.

    Args:
      flag: name of the flag.
      value: its value.
      baseline: the program without it.
      program: the program with it.
      warnings: warnings of its request.
    """
    base, digests = baseline.program, baseline.digests
    changed = changes(digests, fingerprint(program, digests if program.hlo == base.hlo else None))
    headline, words, count = _difference(base, program) if changed["hlo"] is True else ("", "", 0)
    return FlagEffect(
        flag=flag,
        value=value,
        outcome=_outcome(changed),
        hlo=changed["hlo"],
        memory=changed["memory"],
        cost=changed["cost"],
        code=changed["code"],
        headline=headline,
        instructions=words,
        changed_instructions=count,
        deltas=_deltas(baseline, program, changed["hlo"]),
        compile_s=_compile_s(program),
        warnings=tuple(warning for warning in warnings if warning not in baseline.warnings),
    )


def is_measurable(effect: FlagEffect) -> bool:
    """Reports whether a value gave a program that may differ from the baseline's."""
    return effect.outcome in (*_ASPECT_OUTCOMES, "unknown")


def with_times(
    effect: FlagEffect, durations_s: Sequence[float] | Unavailable, baseline_s: Sequence[float] | Unavailable
) -> FlagEffect:
    """Returns an effect with measured times.

    The difference from the baseline is 0 if the 95% confidence intervals of both medians overlap.

    Args:
      effect: the effect.
      durations_s: durations of the executions with the flag, in seconds.
      baseline_s: durations of those without it, measured in turns with the others.
    """
    if isinstance(durations_s, Unavailable):
        absent = durations_s
        deltas = {**effect.deltas, "measured_s": absent}
        return dataclasses.replace(effect, measured_s=absent, measured_spread_s=absent, deltas=deltas)
    median = statistics.median(durations_s)
    return dataclasses.replace(
        effect,
        measured_s=median,
        measured_spread_s=interquartile_range(durations_s),
        deltas={**effect.deltas, "measured_s": _measured_delta(durations_s, baseline_s)},
    )


def unmeasured(effect: FlagEffect) -> FlagEffect:
    """Returns an effect whose program was not measured, with the reason: it is the baseline's, or it is not available."""
    if effect.outcome == "nothing":
        deltas = {**effect.deltas, "measured_s": 0.0}
        return dataclasses.replace(effect, measured_s=_SAME, measured_spread_s=_SAME, deltas=deltas)
    return with_times(effect, _EARLIER if is_measurable(effect) else _absence(effect), ())


def _measured_delta(durations_s: Sequence[float], baseline_s: Sequence[float] | Unavailable) -> float | Unavailable:
    if isinstance(baseline_s, Unavailable):
        return baseline_s
    compared = speed(durations_s, baseline_s)
    if isinstance(compared, Unavailable):
        return compared
    return statistics.median(durations_s) - statistics.median(baseline_s) if compared.is_known else 0.0


def _outcome(changed: Mapping[str, bool | Unavailable]) -> Outcome:
    for aspect in _ASPECT_OUTCOMES:
        if changed[aspect] is True:
            return aspect
    # XLA counts the cost of the HLO: of the same it is the same.
    needed = [aspect for aspect in ASPECTS if aspect != "cost" or changed["hlo"] is not False]
    return "unknown" if any(isinstance(changed[aspect], Unavailable) for aspect in needed) else "nothing"


def _difference(base: Found, program: Found) -> tuple[str, str, int]:
    """Returns the structural difference of two programs, the differences in instruction counts, and the number of changed instructions."""
    ours, theirs = base.module(), program.module()
    moved = instruction_changes(instruction_multiset(ours), instruction_multiset(theirs))
    count = moved.only_before.total() + moved.only_after.total()
    words = str(moved) if count else "the same instructions with another order, operands or configuration"
    return diff(ours, theirs).headline, words, count


def _deltas(baseline: Baseline, program: Found, is_changed: bool | Unavailable) -> dict[str, float | Unavailable]:
    base = baseline.program
    deltas = {name: difference(_number(program, name), _number(base, name)) for name in (*_MEMORY, *_COST)}
    if is_changed is not True:
        return {**deltas, **dict.fromkeys((*_TIMES, *_EXECUTED), 0.0)}
    executed = [structure(each.module()) for each in (program, base)]
    times = estimate(program, baseline.peak).minus(baseline.estimate)
    return {
        **{name: getattr(times, name) for name in _TIMES},
        **deltas,
        **{name: difference(*(getattr(each, name) for each in executed)) for name in _EXECUTED},
    }


def _compile_s(program: Found) -> float | Unavailable:
    if isinstance(program, Preview):
        return _NO_CODE_TIME
    return program.timings.get("compile_s", Unavailable("the engine did not measure it"))


_TIMES = ("estimated_s", "exposed_s")
_MEMORY = ("peak_bytes", "temp_bytes", "generated_code_bytes")
_COST = ("flops", "bytes_accessed")
_EXECUTED = ("kernels", "collectives")
_ASPECT_OUTCOMES: tuple[Outcome, ...] = ("hlo", "memory", "cost", "code")


def _number(compiled: Found, name: str) -> float | Unavailable:
    holder: Any = compiled.memory if name in _MEMORY else compiled.cost
    value: float | Unavailable = holder if isinstance(holder, Unavailable) else getattr(holder, name)
    return value


def rank(effect: FlagEffect) -> tuple[Any, ...]:
    """Returns a sort key that puts the most important effects first: those with the largest differences in `RANKED_BY`.

    Values with which the program could not be compiled come last.
    """
    deltas = (effect.deltas.get(name, 0.0) for name in RANKED_BY)
    sizes = (0.0 if isinstance(delta, Unavailable) else -abs(float(delta)) for delta in deltas)
    place = 0 if effect.outcome in _ASPECT_OUTCOMES else OUTCOMES.index(effect.outcome)
    return place, *sizes, -effect.changed_instructions, OUTCOMES.index(effect.outcome), effect.flag


def summary(effects: Sequence[FlagEffect], total: int) -> str:
    """Returns the number of tried values and the results as a sentence."""
    counts = {outcome: sum(effect.outcome == outcome for effect in effects) for outcome in OUTCOMES}
    parts = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    return f"{len(effects)} of {total} tried" + (f" ({', '.join(parts)})" if parts else "")


def _absence(effect: FlagEffect) -> Unavailable:
    """Returns the reason for missing numbers."""
    return effect.hlo if isinstance(effect.hlo, Unavailable) else _NOT_COMPILED


def _changed(aspect: str) -> TableColumn[FlagEffect]:
    return TableColumn(aspect, "bool", lambda effect: getattr(effect, aspect))


def _delta(name: str) -> TableColumn[FlagEffect]:
    def value(effect: FlagEffect) -> float | Unavailable | None:
        return effect.deltas.get(name, None if name == "measured_s" else _absence(effect))

    if name not in _TITLES:
        return TableColumn(f"delta_{name}", "float", value)
    title, unit = _TITLES[name]
    return TableColumn(
        f"delta_{name}", "float", value, title, unit=unit, views=("data_frame", "command_line"),
        text=lambda effect: _change_text(value(effect), unit),
    )  # fmt: skip


def _change_text(change: float | Unavailable | None, unit: Unit) -> str:
    """Formats a difference: "+2 ms", "=" for none, "≈ " before an estimate with unknown parts."""
    if change is None:
        return ""
    if isinstance(change, Unavailable):
        return "unknown"
    about = "≈ " if isinstance(change, Partial) else ""
    number = float(change)
    return about + (f"{'+' if number > 0 else ''}{format_number(number, unit)}" if number else "=")


_TITLES: Mapping[str, tuple[str, Unit]] = {
    "estimated_s": ("time", "seconds"),
    "exposed_s": ("exposed", "seconds"),
    "peak_bytes": ("peak", "bytes"),
}
"""Titles and units of the differences that the command line shows."""


EFFECT_COLUMNS: TableDescription[FlagEffect] = TableDescription(
    TableColumn("flag", "text", lambda effect: effect.flag, "flag", views=("data_frame", "command_line")),
    TableColumn(
        "value", "object", lambda effect: effect.value, "value", views=("data_frame", "command_line"),
        text=lambda effect: str(effect.value),
    ),
    TableColumn("outcome", "text", lambda effect: effect.outcome, "outcome", views=("data_frame", "command_line")),
    *map(_changed, ASPECTS),
    *map(_delta, DELTAS),
    TableColumn("headline", "text", lambda effect: effect.headline, "difference", views=("data_frame", "command_line")),
    TableColumn("instructions", "text", lambda effect: effect.instructions),
    TableColumn("changed_instructions", "int", lambda effect: effect.changed_instructions),
    TableColumn("measured_s", "float", lambda effect: effect.measured_s),
    TableColumn("measured_spread_s", "float", lambda effect: effect.measured_spread_s),
    TableColumn("compile_s", "float", lambda effect: effect.compile_s),
    TableColumn("error", "text", lambda effect: effect.error),
    TableColumn("warnings", "text", lambda effect: "\n".join(effect.warnings)),
    first=("flag", "value", "outcome", *ASPECTS, "headline", "instructions", "changed_instructions"),
)  # fmt: skip
"""The columns of `ScanJob.table`."""
