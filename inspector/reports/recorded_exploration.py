"""A recorded exploration: a program, its variants and their results. Frozen values that load without JAX.

Created from the state of an Explorer. Saved by `bundle.py`, compiled again by `replay.py`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from types import MappingProxyType
from typing import Literal

from inspector import errors
from inspector.analysis.cost.peaks import kind_of
from inspector.analysis.profile.profile import Profile
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
"""Maximum number of variants; a sweep can have more."""

State = Literal["done", "failed", "cancelled"]


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedError:
    """An error as a value.

    Attributes:
      kind: name of the error's class.
      text: message of the error.
      buffers: as in `CompilationError`.
    """

    kind: str
    text: str
    buffers: bytes = b""

    @classmethod
    def of(cls, error: BaseException) -> RecordedError:
        """Returns the value of an error."""
        return cls(type(error).__name__, str(error), getattr(error, "buffers", b""))

    @property
    def error(self) -> InspectorError:
        """The error as an exception. An error of a library or of the user's code becomes a `LoweringError` with its name."""
        kind = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, InspectorError)):
            return LoweringError(f"{self.kind}: {self.text}")
        error = kind(self.text)
        if isinstance(error, (CompilationError, WorkerDiedError)):
            error.buffers = self.buffers
        return error


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class RecordedVariant:
    """A variant and its result.

    Attributes:
      label: text that identifies the variant.
      options, target, tuning: the requested ones.
      state: final state of its compile.
      lowered: the program, lowered for the target; None if lowering failed.
      program: the compiled program, with all recorded products; None if the compile failed.
      failure: the error of a failed variant.
      outcome: result of its latest run, None if it was not run.
      profile: measured time of its kernels, None if it was not profiled.
      is_pinned: as in the Explorer.
      origin: the label of another program than the baseline's, such as "previous version"; "" if it is the baseline's.
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
    profile: Profile | None = dataclasses.field(default=None, compare=False)
    is_pinned: bool = False
    origin: str = ""

    def __post_init__(self) -> None:
        if (self.program is not None) != (self.state == "done") or (self.failure is not None) != (
            self.state == "failed"
        ):
            raise ValueError(f"a variant that is {self.state} with {self.program!r} and {self.failure!r}")

    @property
    def error(self) -> InspectorError | None:
        """The reason why there is no compiled program; None if there is one."""
        if self.state == "cancelled":
            return CancelledError(f"{self.label} was canceled before it was recorded.")
        return None if self.failure is None else self.failure.error

    @property
    def compiled(self) -> Compiled:
        """The compiled program.

        Raises:
          InspectorError: there is none; the error is the recorded one.
        """
        if self.program is None:
            raise self.error or InspectorError(f"{self.label} was not compiled.")
        return as_compiled(self.program)

    def __repr__(self) -> str:
        return f"<RecordedVariant {self.label!r} for {self.target}: {self.state}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class RecordedExploration:
    """The state of an exploration when it was recorded.

    Attributes:
      lowered: the program, as in the baseline.
      variants: all variants, with the baseline first.
      installation: the installation with which it was recorded.
      recorded_at: time of the recording in UTC, such as "2026-11-23T06:40:12+00:00".
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
        """Records an exploration in this process. `known` has the modules of loaded programs."""
        programs = [lowered.program, *(v.lowered.program for v in variants if v.lowered is not None)]
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        return cls(
            lowered, variants, Installation.here(_device_kinds(variants)), now, portable_modules(programs, known)
        )


_MOST_OUTPUT_BYTES = 16 << 20
_MOST_ATTRIBUTED = 2_000  # rows of a profile


def within_limit(variants: tuple[RecordedVariant, ...]) -> tuple[RecordedVariant, ...]:
    """Returns variants with the outputs of their runs, the baseline's first, up to the limit for a file.

    Of a profile with very many rows, only those with the most time have their lines and scopes.
    """
    left, results = _MOST_OUTPUT_BYTES, []
    for variant in variants:
        outcome = variant.outcome
        if outcome is not None and outcome.byte_size > left:
            reason = f"they have {format_bytes(outcome.byte_size)}, and a file holds at most {format_bytes(_MOST_OUTPUT_BYTES)} in all"
            outcome = dataclasses.replace(outcome, outputs=Unavailable(reason, "run the program again"))
        left -= 0 if outcome is None else outcome.byte_size
        results.append(dataclasses.replace(variant, outcome=outcome, profile=_shortened(variant.profile)))
    return tuple(results)


def _shortened(profile: Profile | None) -> Profile | None:
    if profile is None or len(profile.rows) <= _MOST_ATTRIBUTED:
        return profile
    rest = (dataclasses.replace(row, parts=row.parts[:0]) for row in profile.rows[_MOST_ATTRIBUTED:])
    note = f"Only the {_MOST_ATTRIBUTED:,} rows with the most time were saved with their lines and scopes."
    rows = (*profile.rows[:_MOST_ATTRIBUTED], *rest)
    return dataclasses.replace(profile, rows=rows, notes=(*profile.notes, note))


def _device_kinds(variants: tuple[RecordedVariant, ...]) -> list[str]:
    return [kind for v in variants if v.program is not None and (kind := kind_of(v.program.devices))]
