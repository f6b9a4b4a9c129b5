"""`replay`: compiles every variant of a recorded exploration again, with another JAX, and reports the differences."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Protocol

from inspector.analysis.diff.module_diff import is_other
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Job
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.errors import InspectorError, ModuleError, TargetError, Unavailable
from inspector.reports.recorded_exploration import RecordedError, RecordedExploration, RecordedVariant
from inspector.support.tables import UNKNOWN, Kind, Tabular, make_table

if TYPE_CHECKING:
    import pandas as pd

_KINDS: dict[str, Kind] = {
    "variant": "text", "target": "text", "state": "text", "replayed_state": "text", "difference": "text",
    "jax": "text", "replayed_jax": "text", "peak_bytes": "int", "replayed_peak_bytes": "int", "flops": "float",
    "replayed_flops": "float", "compile_s": "float", "replayed_compile_s": "float", UNKNOWN: "reasons",
}  # fmt: skip


_SHOWN = 800
_AS_BEFORE = " as before"  # for variants without a program


class CompilingEngine(Protocol):
    """An engine that can compile."""

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Replay(Tabular):
    """The recorded and the repeated compiles of an exploration, variant by variant.

    Attributes:
      recorded: the recorded exploration.
      replayed: the same variants, compiled again.
      differences: the difference of each variant, such as "2 fusions split, peak +1.2 MiB", or why it is unknown.
    """

    recorded: RecordedExploration
    replayed: RecordedExploration
    differences: tuple[str | Unavailable, ...]

    @property
    def is_complete(self) -> bool:
        """Reports whether every variant with a recorded program was compiled again."""
        pairs = zip(self.recorded.variants, self.replayed.variants, strict=True)
        return all(after.program is not None for before, after in pairs if before.program is not None)

    @property
    def is_same(self) -> bool:
        """Reports whether every variant ended in the same state, and no program or machine code is known to differ."""
        texts = [str(each) for each in self.differences]
        return not any(is_other(each) for each in texts if not each.endswith(_AS_BEFORE))

    def table(self) -> pd.DataFrame:
        """Returns one row per variant: both states, the difference, and peak memory, flops and compile time of both."""
        pairs = zip(self.recorded.variants, self.replayed.variants, self.differences, strict=True)
        return make_table(_KINDS, [_row(before, after, difference) for before, after, difference in pairs])

    def __str__(self) -> str:
        lines = [
            f"{self.recorded.lowered.name}, recorded with JAX {_jax_of(self.recorded)}, replayed with {_jax_of(self.replayed)}"
        ]
        for before, after, difference in zip(
            self.recorded.variants, self.replayed.variants, self.differences, strict=True
        ):
            target = "" if before.label == str(before.target) else f" [{before.target}]"
            lines.append(f"  {before.label}{target}: {difference}")
            if after.error is not None and before.error is None:
                lines.append(f"    {' '.join(str(after.error).split())[:_SHOWN]}")
        return "\n".join(lines)

    __repr__ = __str__


def replay(exploration: RecordedExploration, compiler: CompilingEngine, jax: str) -> Replay:
    """Compiles every lowered variant again, and waits for the results.

    Args:
      exploration: the recorded exploration.
      compiler: the engine that compiles.
      jax: version of JAX for the targets; "" for the installed one.
    """
    jobs = [_submit(variant, compiler, jax) for variant in exploration.variants]
    variants = tuple(_again(variant, job, jax) for variant, job in zip(exploration.variants, jobs, strict=True))
    again = RecordedExploration.now(exploration.lowered, variants, exploration.portable)
    pairs = zip(exploration.variants, variants, strict=True)
    return Replay(exploration, again, tuple(_difference(before, after) for before, after in pairs))


def _submit(variant: RecordedVariant, compiler: CompilingEngine, jax: str) -> Job[CompiledProgram]:
    """Starts the compile of a variant. If it was not lowered, returns a failed job."""
    job: Job[CompiledProgram] = Job()
    try:
        if variant.lowered is None:
            raise variant.error or InspectorError(f"{variant.label} was not lowered.")
        target = _target(variant).by(jax)
        # The JAX that compiles checks the options, because flags differ between versions.
        return compiler.submit(CompileRequest(variant.lowered.program, variant.options, target, _products(variant)))
    except InspectorError as e:
        job.fail(e)
    return job


def _target(variant: RecordedVariant) -> Target:
    """Returns the variant's target, with attached CPU devices as a target of the same number of CPU devices."""
    target, lowered = variant.target, variant.lowered
    if target.kind == "attached" and lowered is not None and lowered.program.platform == "cpu":
        return Target(f"cpu:{lowered.program.device_count}")
    return target


def _products(variant: RecordedVariant) -> frozenset[str]:
    """Returns the products that the recorded compile had, as far as they affect the compile."""
    has_buffers = variant.program is not None and not isinstance(variant.program.buffers, Unavailable)
    return frozenset({"buffers"} if has_buffers else ())


def _again(variant: RecordedVariant, job: Job[CompiledProgram], jax: str) -> RecordedVariant:
    error = job.exception()
    plain = dataclasses.replace(variant, state="cancelled", program=None, failure=None, outcome=None)
    if error is not None:
        with contextlib.suppress(TargetError):  # an unknown version: the error reports it
            plain = dataclasses.replace(plain, target=_target(variant).by(jax))
        return dataclasses.replace(plain, state="failed", failure=RecordedError.of(error))
    program = job.result()
    return dataclasses.replace(plain, state="done", program=program, target=program.target)


def _difference(before: RecordedVariant, after: RecordedVariant) -> str | Unavailable:
    if before.program is None or after.program is None:
        same = before.program is after.program and before.state == after.state
        return (
            f"{before.state}{_AS_BEFORE}" if same else f"{before.state} in the recording, {after.state} in the replay"
        )
    try:
        return before.compiled.diff(after.compiled).headline
    except ModuleError as e:
        return Unavailable(str(e))


def _row(before: RecordedVariant, after: RecordedVariant, difference: str | Unavailable) -> tuple[object, ...]:
    pairs = zip(_figures(before), _figures(after), strict=True)
    figures = [figure for pair in pairs for figure in pair]
    return before.label, str(before.target), before.state, after.state, difference, *figures


def _figures(variant: RecordedVariant) -> tuple[object, ...]:
    """Returns the version of JAX, peak memory, flops and compile time."""
    program = variant.program
    if program is None:
        error = f": {' '.join(str(variant.error).split())[:_SHOWN]}" if variant.error is not None else ""
        return (Unavailable(f"{variant.label} was not compiled{error}"),) * 4
    memory, cost = program.memory, program.cost
    return (
        program.versions.get("jax", Unavailable("it was not recorded")),
        memory if isinstance(memory, Unavailable) else memory.peak_bytes,
        cost if isinstance(cost, Unavailable) else cost.flops,
        program.timings.get("compile_s", Unavailable("it was not measured")),
    )


def _jax_of(exploration: RecordedExploration) -> str:
    """Returns the versions of JAX that compiled the programs."""
    versions = dict.fromkeys(
        v.target.jax if v.program is None else v.program.versions.get("jax", "") for v in exploration.variants
    )
    return ", ".join(filter(None, versions)) or exploration.installation.jax or "unknown"
