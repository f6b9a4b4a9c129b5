"""One recorded exploration: a program, its variants, and what came of each. Frozen values; load where JAX is not installed.

Made of what an Explorer has. Saved by `bundle.py`, compiled again by `replay.py`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from types import MappingProxyType
from typing import Literal

from inspector import errors
from inspector.analysis.cost.peaks import kind_of
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.errors import (
    CancelledError,
    CompilationError,
    InspectorError,
    LoweringError,
    Unavailable,
    WorkerDiedError,
)
from inspector.execution.outcome import Outcome
from inspector.reports.installation import Installation
from inspector.reports.portable import PortableModules, portable_modules
from inspector.stages.compiled import Compiled, as_compiled
from inspector.stages.lowered import Lowered
from inspector.support.units import format_bytes

MAX_VARIANTS = 1000
"""More are a sweep's."""

State = Literal["done", "failed", "cancelled"]


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedError:
    """An error as a value.

    Attributes:
      kind: its class.
      text: its message.
      buffers: as of a `CompilationError`.
    """

    kind: str
    text: str
    buffers: bytes = b""

    @classmethod
    def of(cls, error: BaseException) -> RecordedError:
        """That of an error."""
        return cls(type(error).__name__, str(error), getattr(error, "buffers", b""))

    @property
    def error(self) -> InspectorError:
        """The error again; one of a library's or the user's own becomes a `LoweringError` that names it."""
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, InspectorError)):
            return LoweringError(f"{self.kind}: {self.text}")
        error = kind(self.text)
        if isinstance(error, (CompilationError, WorkerDiedError)):
            error.buffers = self.buffers
        return error


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class RecordedVariant:
    """A variant and what came of it.

    Attributes:
      label: what sets it apart.
      options, target, tuning: what was asked.
      state: how its compile ended.
      lowered: the program, lowered for the target; None where that failed.
      program: what was compiled, with all products that were recorded; None where that failed.
      failure: why, of one that failed.
      outcome: of its latest run, None where it was not run.
      is_pinned: as of the Explorer's.
    """

    label: str
    options: Options
    target: Target
    state: State
    tuning: Tuning = AS_IT_IS
    lowered: Lowered | None = None
    program: CompiledProgram | None = None
    failure: RecordedError | None = None
    outcome: Outcome | None = dataclasses.field(default=None, compare=False)
    is_pinned: bool = False

    def __post_init__(self) -> None:
        if (self.program is not None) != (self.state == "done") or (self.failure is not None) != (
            self.state == "failed"
        ):
            raise ValueError(f"a variant that is {self.state} with {self.program!r} and {self.failure!r}")

    @property
    def error(self) -> InspectorError | None:
        """Why there is nothing compiled; None where there is."""
        if self.state == "cancelled":
            return CancelledError(f"{self.label} was cancelled before it was recorded.")
        return None if self.failure is None else self.failure.error

    @property
    def compiled(self) -> Compiled:
        """What was compiled.

        Raises:
          InspectorError: why there is nothing, as it was raised then.
        """
        if self.program is None:
            raise self.error or InspectorError(f"{self.label} was not compiled.")
        return as_compiled(self.program)

    def __repr__(self) -> str:
        return f"<RecordedVariant {self.label!r} for {self.target}: {self.state}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class RecordedExploration:
    """An exploration as it was when it was recorded.

    Attributes:
      lowered: the program, as the baseline has it.
      variants: the baseline first.
      installation: what it was recorded with.
      recorded_at: when, in UTC, such as "2026-11-23T06:40:12+00:00".
      portable: the StableHLO modules for other versions of JAX.
    """

    lowered: Lowered
    variants: tuple[RecordedVariant, ...]
    installation: Installation
    recorded_at: str
    portable: PortableModules = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.variants) <= MAX_VARIANTS:
            raise ValueError(f"an exploration of {len(self.variants):,} variants, expected 1 to {MAX_VARIANTS:,}")
        dt.datetime.fromisoformat(self.recorded_at)

    @classmethod
    def now(
        cls, lowered: Lowered, variants: tuple[RecordedVariant, ...], known: PortableModules = MappingProxyType({})
    ) -> RecordedExploration:
        """One that is recorded now, in this process; `known` modules are of programs that were loaded."""
        programs = [lowered.program, *(v.lowered.program for v in variants if v.lowered is not None)]
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        return cls(
            lowered, variants, Installation.here(_device_kinds(variants)), now, portable_modules(programs, known)
        )


_MOST_OUTPUT_BYTES = 16 << 20


def within_limit(variants: tuple[RecordedVariant, ...]) -> tuple[RecordedVariant, ...]:
    """Variants with the outputs of their runs, the baseline's first, as long as there is room for them in a file."""
    left, found = _MOST_OUTPUT_BYTES, []
    for variant in variants:
        outcome = variant.outcome
        if outcome is not None and outcome.byte_size > left:
            reason = f"they have {format_bytes(outcome.byte_size)}, and a file keeps {format_bytes(_MOST_OUTPUT_BYTES)} in all"
            outcome = dataclasses.replace(outcome, outputs=Unavailable(reason, "run the program again"))
        left -= 0 if outcome is None else outcome.byte_size
        found.append(dataclasses.replace(variant, outcome=outcome))
    return tuple(found)


def _device_kinds(variants: tuple[RecordedVariant, ...]) -> list[str]:
    return [kind for v in variants if v.program is not None and (kind := kind_of(v.program.devices))]
