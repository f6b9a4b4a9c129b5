"""`Variant`: a choice of options and target, with the job that compiles it and its result."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from inspector import platforms
from inspector.compilation.compiled import is_from_cache
from inspector.compilation.engine import COMPILED_BY, UNHEARD
from inspector.compilation.options.options import Options
from inspector.compilation.options.options_text import value_text
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.errors import CancelledError, ExecutionError, Unavailable
from inspector.stages.compiled import Compiled, as_compiled
from inspector.stages.findings import Proofs
from inspector.support.units import format_seconds
from inspector.widgets import messages

if TYPE_CHECKING:
    from inspector.analysis.profile.profile import Profile
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Job
    from inspector.stages.bisection.compile_time_result import CompileTime
    from inspector.stages.bisection.result import Bisection
    from inspector.stages.lowered import Lowered

PREVIOUS = "previous version"
"""Label of the program that the cell had before it ran again."""

NOT_PROFILED = Unavailable("the program was not run here", "run it in the pane Run")


def state_of(job: Job[Any]) -> messages.State:
    """Returns the state of a job, in the browser's terms."""
    if not job.done():
        return "queued" if job.is_queued else "running"
    error = job.exception()
    return "done" if error is None else "cancelled" if isinstance(error, CancelledError) else "failed"


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Variant:
    """A choice of options and target in an Explorer.

    Attributes:
      number: unique number in its Explorer.
      is_baseline: whether the other variants are compared with it.
      options: requested options.
      target: requested target.
      lowered: the program, lowered for the target's platform; None if lowering failed.
      tuning: the changes to the program's Pallas kernels and to its call.
      job: the compile; None if the request itself was rejected.
      error: the reason for the rejection, or None.
      name: its difference from the other variants of its Explorer, as in `labels`; "" if it is the only one.
      origin: the label of another program than the baseline's: one that was read and not compiled, such as "dumped", or
        `PREVIOUS`, or one that the proof of a finding changed; "" otherwise.
      is_pinned: whether it is shown directly after the baseline and cannot be removed.
      profile: the measured times of its latest run; Unavailable until it was run.
      profile_count: the number of profiles so far.
      bisection: the latest bisection between the baseline and this variant; None before.
      compile_time: the latest search for the part that makes its compile slow; None before.
      proofs: the proofs of its findings so far.
      shown: set once the panes have received everything about it.
    """

    number: int
    is_baseline: bool
    options: Options
    target: Target
    lowered: Lowered | None = None
    tuning: Tuning = AS_IT_IS
    job: Job[CompiledProgram] | None = None
    error: Exception | None = None
    name: str = ""
    origin: str = ""
    is_pinned: bool = False
    profile: Profile | Unavailable = NOT_PROFILED
    profile_count: int = 0
    bisection: Bisection | None = None
    compile_time: CompileTime | None = None
    proofs: Proofs = dataclasses.field(default_factory=Proofs)
    shown: threading.Event = dataclasses.field(default_factory=threading.Event, repr=False)

    def __repr__(self) -> str:
        return f"<Variant {self.number} {self.label!r} for {self.target}: {self.state}>"

    @property
    def label(self) -> str:
        """A short description: the difference of its options from the baseline's, or its target if the options are equal."""
        return self.name or _text(self, _options_text(self), is_module=False)

    @property
    def compiled(self) -> Compiled:
        """The result of the compile; waits for it.

        Raises:
          InspectorError: the request was rejected, failed, or was canceled.
        """
        if self.job is None:
            raise self.error or CancelledError("The variant was never compiled.")
        return as_compiled(self.job.result())

    @property
    def compiled_now(self) -> Compiled:
        """The result of the compile, without waiting.

        Raises:
          InspectorError: the compile is not done, or it has no result.
        """
        if self.state in ("queued", "running"):
            raise ExecutionError(f"{self.label} is still compiling ({self.state}). Try again when it is done.")
        return self.compiled

    @property
    def state(self) -> messages.State:
        """The state of the compile."""
        return "failed" if self.job is None else state_of(self.job)

    @property
    def failure(self) -> BaseException | None:
        """The error of the compile; None if it did not fail, or not yet."""
        if self.state != "failed":
            return None
        return self.error if self.job is None else self.job.exception()

    @property
    def _cached(self) -> str:
        """A note if the program came from the cache, "" otherwise."""
        if self.job is None or self.state != "done" or not is_from_cache(compiled := self.job.result()):
            return ""
        before_s = compiled.timings["cache_s"] + compiled.timings["saved_s"]
        return (
            f"Loaded from the compilation cache; the original compile took {format_seconds(before_s)}."
            " To turn the cache off, call inspector.settings.update(cache=False)."
        )

    @property
    def _timing(self) -> str:
        """A description of where the time went; "" before the end."""
        if self.job is None or self.state != "done" or self._cached:
            return self._cached
        timings = self.job.result().timings
        parts = (
            ("compile_s", "compiled in {}"),
            ("queue_s", "waited {} for other compiles"),
            ("total_s", "{} in total"),
        )
        texts = [words.format(format_seconds(timings[name])) for name, words in parts if name in timings]
        where = "".join(f" {each}" for each in self.job.result().warnings if each.startswith(COMPILED_BY))
        return f"{', '.join(texts)}; the rest is starting a worker and reading the result.{where}" if texts else ""

    @property
    def _warnings(self) -> list[str]:
        """The warnings of its compile, once it succeeded."""
        if self.job is None or self.state != "done":
            return []
        notes = () if self.lowered is None else self.lowered.notes  # the Explorer shows them already
        shown = (UNHEARD, *notes)
        return [each for each in self.job.result().warnings if each not in shown and not each.startswith(COMPILED_BY)]

    @property
    def target_text(self) -> str:
        """The target; for a program that another machine's device ran, its platform."""
        program = None if self.lowered is None else self.lowered.program
        if program is None or self.target.kind != "attached" or program.not_compilable is None:
            return str(self.target)
        return program.platform

    @property
    def runs_here(self) -> bool:
        """Whether its programs run on this machine. Another version of JAX runs programs for CPUs only."""
        is_cpu = self.lowered is not None and self.lowered.program.platform == "cpu"
        return not self.target.is_absent and (is_cpu or not self.target.jax) and self._not_compilable is None

    @property
    def _not_compilable(self) -> Unavailable | None:
        return None if self.lowered is None else self.lowered.program.not_compilable

    def message(self) -> messages.VariantMessage:
        """Returns the state for the browser."""
        error = self.failure
        absence = f"{self.target} is not attached: its programs can be compiled but not run."
        if self.target.jax:
            absence = f"Compiled with JAX {self.target.jax}, which runs programs for CPUs only."
        if self._not_compilable is not None:
            absence = f"The program cannot run here: {self._not_compilable.reason.rstrip('.')}."
        return messages.VariantMessage(
            type="variant",
            variant=self.number,
            label=self.label,
            target=self.target_text,
            platform="" if self.lowered is None else platforms.named(self.lowered.program.platform).kind,
            options=self.options.as_dict(),
            state=self.state,
            stage="" if self.job is None else self.job.stage,
            elapsed_s=0.0 if self.job is None else self.job.elapsed_s,
            error=None if error is None else messages.error_of(error),
            origin=self.origin,
            cached=self._cached,
            timing=self._timing,
            warnings=self._warnings,
            pinned=self.is_pinned,
            no_run="" if self.runs_here else absence,
            supposed=str(self.tuning.what_if),
            profile=self.profile_count,
        )


class Variants:
    """The variants of an Explorer in order, the baseline first. Thread-safe.

    Attributes:
      lock: guards the set of variants. Hold it to combine several operations.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._by_number: dict[int, Variant] = {}

    def __iter__(self) -> Iterator[Variant]:
        with self.lock:
            return iter(tuple(self._by_number.values()))

    def __len__(self) -> int:
        return len(self._by_number)

    def __contains__(self, variant: object) -> bool:
        return isinstance(variant, Variant) and self._by_number.get(variant.number) is variant

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all variants."""
        with self.lock:
            return frozenset(self._by_number)

    def by_number(self, number: int) -> Variant:
        """Returns a variant by its number.

        Raises:
          ValueError: there is no such variant; it may have been removed.
        """
        with self.lock:
            if number not in self._by_number:
                raise ValueError(f"There is no variant {number}. It may have been removed.")
            return self._by_number[number]

    def add(self, variant: Variant) -> None:
        """Adds a variant after the others."""
        with self.lock:
            self._by_number[variant.number] = variant

    def remove(self, variant: Variant) -> None:
        """Removes a variant."""
        with self.lock:
            del self._by_number[variant.number]

    def clear(self) -> None:
        """Removes all variants."""
        with self.lock:
            self._by_number.clear()


_PARTS = 2
_VALUE_LENGTH = 32


def labels(variants: Sequence[Variant]) -> list[str]:
    """Returns the differences of each variant from the baseline and the others, unique for each target.

    At most two options that differ from the baseline's are named, starting with those that not every other variant has.
    """
    if not variants:
        return []
    differences = [_difference(variant, variants[0]) for variant in variants]
    shared = set[str].intersection(*map(set, differences[1:])) if len(differences) > 2 else set[str]()
    are_modules = _are_modules(variants)
    names: list[str] = []
    counts: collections.Counter[tuple[str, Target]] = collections.Counter()
    for variant, parts in zip(variants, differences, strict=True):
        own = sorted(parts, key=shared.__contains__)
        more = [f"and {len(own) - _PARTS} more"] if len(own) > _PARTS else []
        # The options of a program that was read describe its compile; they were not requested here.
        changes = _options_text(variant) if variant.is_baseline else " ".join([*own[:_PARTS], *more])
        text = (variant.origin if not are_modules else "") if variant.origin else changes
        label = _text(variant, text, is_module=are_modules)
        counts[label, variant.target] += 1
        number = counts[label, variant.target]
        names.append(label if number == 1 else f"{label} ({number})")
    return names


def _are_modules(variants: Sequence[Variant]) -> bool:
    """Reports whether the variants are different modules of one file."""
    programs = [variant.lowered.program for variant in variants if variant.lowered is not None]
    return len({program.hlo_digest for program in programs} - {""}) > 1


def _text(variant: Variant, options: str, *, is_module: bool) -> str:
    """Returns options and tuning as text, or a substitute for a variant that has neither."""
    name = variant.lowered.name if is_module and variant.lowered is not None else ""
    text = f"{name} {options} {variant.tuning}".strip()
    return text or ("baseline" if variant.is_baseline else str(variant.target))


def _options_text(variant: Variant) -> str:
    return str(variant.options).replace("--", "") if variant.options.as_dict() else ""


def _difference(variant: Variant, baseline: Variant) -> list[str]:
    return [
        f"without {name}" if ours is None else f"{name}={_clipped(value_text(ours))}"
        for name, (ours, _) in variant.options.diff(baseline.options).items()
    ]


def _clipped(text: str) -> str:
    return text if len(text) <= _VALUE_LENGTH else f"{text[: _VALUE_LENGTH - 1]}…"
