"""`Variant`: one choice of options and target, with the job that compiles it and what came back."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector import platforms
from inspector.compilation.compiled import is_from_cache
from inspector.compilation.engine import UNHEARD
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.options.options_text import value_text
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.errors import CancelledError, ExecutionError
from inspector.stages.compiled import Compiled, as_compiled
from inspector.support.units import format_seconds
from inspector.widgets import messages

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Job
    from inspector.stages.lowered import Lowered

OptionsLike = Options | Mapping[str, FlagValue] | str | None


def state_of(job: Job[Any]) -> messages.State:
    """Where a job stands, in the browser's words."""
    if not job.done():
        return "queued" if job.is_queued else "running"
    error = job.exception()
    return "done" if error is None else "cancelled" if isinstance(error, CancelledError) else "failed"


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Variant:
    """One options + target choice of an Explorer.

    Attributes:
      number: unique in its Explorer.
      is_baseline: the others are compared with it.
      options: what was asked.
      target: for what.
      lowered: the program, lowered for the target's platform; None when that failed.
      tuning: what was put in place of what the program says of its Pallas kernels.
      job: the compile; None when the request itself was refused.
      error: why it was refused, or None.
      name: what sets it apart among the variants of its Explorer, as `labels` says; "" where it is the only one.
      is_pinned: whether it stands right after the baseline and cannot be removed.
      shown: set once nothing more of it comes to the panes.
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
    is_pinned: bool = False
    shown: threading.Event = dataclasses.field(default_factory=threading.Event, repr=False)

    def __repr__(self) -> str:
        return f"<Variant {self.number} {self.label!r} for {self.target}: {self.state}>"

    @property
    def label(self) -> str:
        """What sets it apart: how its options differ from the baseline's, or its target where they do not."""
        return self.name or _text(self, _options_text(self))

    @property
    def compiled(self) -> Compiled:
        """Waits for the compile.

        Raises:
          InspectorError: the request was refused, failed, or was cancelled.
        """
        if self.job is None:
            raise self.error or CancelledError("The variant was never compiled.")
        return as_compiled(self.job.result())

    @property
    def compiled_now(self) -> Compiled:
        """The same without waiting.

        Raises:
          InspectorError: it is still compiling, or there is nothing compiled.
        """
        if self.state in ("queued", "running"):
            raise ExecutionError(f"{self.label} is still compiling ({self.state}). Ask again when it is done.")
        return self.compiled

    @property
    def state(self) -> messages.State:
        """Where the compile stands."""
        return "failed" if self.job is None else state_of(self.job)

    @property
    def failure(self) -> BaseException | None:
        """Why it failed; None where it did not, or not yet."""
        if self.state != "failed":
            return None
        return self.error if self.job is None else self.job.exception()

    @property
    def _cached(self) -> str:
        """What is said where nothing was compiled, "" elsewhere."""
        if self.job is None or self.state != "done" or not is_from_cache(compiled := self.job.result()):
            return ""
        before_s = compiled.timings["cache_s"] + compiled.timings["saved_s"]
        return (
            f"Nothing was compiled now: this comes from the cache. Its compile took {format_seconds(before_s)} then."
            " inspector.settings.update(cache=False) turns the cache off."
        )

    @property
    def _timing(self) -> str:
        """Where the time went, in words; "" before the end."""
        if self.job is None or self.state != "done" or self._cached:
            return self._cached
        timings = self.job.result().timings
        parts = (("compile_s", "compiled in {}"), ("queue_s", "waited {} for other compiles"), ("total_s", "{} in all"))
        said = [words.format(format_seconds(timings[name])) for name, words in parts if name in timings]
        return f"{', '.join(said)}; the rest is starting a worker and reading the result." if said else ""

    @property
    def _warnings(self) -> list[str]:
        """Those of its compile, once it has ended well."""
        if self.job is None or self.state != "done":
            return []
        return [warning for warning in self.job.result().warnings if warning != UNHEARD]

    def message(self) -> messages.Variant:
        """The state for the browser."""
        error = self.failure
        absence = f"{self.target} is not here: its programs can be compiled, not run."
        if self.target.jax:
            absence = f"JAX {self.target.jax} compiled it, and it is not run here."
        return messages.Variant(
            type="variant",
            variant=self.number,
            label=self.label,
            target=str(self.target),
            platform="" if self.lowered is None else platforms.named(self.lowered.program.platform).kind,
            options=self.options.as_dict(),
            state=self.state,
            stage="" if self.job is None else self.job.stage,
            elapsed_s=0.0 if self.job is None else self.job.elapsed_s,
            error=None if error is None else messages.error_of(error),
            cached=self._cached,
            timing=self._timing,
            warnings=self._warnings,
            pinned=self.is_pinned,
            no_run=absence if self.target.is_absent or self.target.jax else "",
            supposed=str(self.tuning.what_if),
        )


_PARTS = 2
_VALUE_LENGTH = 32


def labels(variants: Sequence[Variant]) -> list[str]:
    """What sets each variant apart from the baseline and from the others, unique for each target.

    Of options that differ from the baseline's, two at most are named: those first that not every other variant has too.
    """
    if not variants:
        return []
    differences = [_difference(variant, variants[0]) for variant in variants]
    shared = set[str].intersection(*map(set, differences[1:])) if len(differences) > 2 else set[str]()
    found: list[str] = []
    counts: collections.Counter[tuple[str, Target]] = collections.Counter()
    for variant, parts in zip(variants, differences, strict=True):
        own = sorted(parts, key=shared.__contains__)
        more = [f"and {len(own) - _PARTS} more"] if len(own) > _PARTS else []
        label = _text(variant, _options_text(variant) if variant.is_baseline else " ".join([*own[:_PARTS], *more]))
        counts[label, variant.target] += 1
        number = counts[label, variant.target]
        found.append(label if number == 1 else f"{label} ({number})")
    return found


def _text(variant: Variant, options: str) -> str:
    """Options and tuning, or what stands for a variant that has none."""
    text = f"{options} {variant.tuning}".strip()
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


_OF_JAX = "jax=="


def variants_of(
    compare: Iterable[OptionsLike | Target], baseline: str | Target = "attached"
) -> list[tuple[OptionsLike, str | Target | None]]:
    """What `explore(compare=...)` takes, as (options, target): a target's text, a Target, or options.

    "jax==" and a version means the baseline's target as that JAX compiles for it.
    """
    given: Any = compare  # one variant needs no list around it
    several = isinstance(given, Iterable) and not isinstance(given, (str, Mapping, Options, Target))
    pairs: list[tuple[OptionsLike, str | Target | None]] = []
    for entry in given if several else [given]:
        if isinstance(entry, str) and entry.startswith(_OF_JAX):
            entry = Target.parse(baseline).by(entry.removeprefix(_OF_JAX).strip())
        is_target = isinstance(entry, Target) or (
            isinstance(entry, str) and ("=" not in entry or f"@{_OF_JAX}" in entry) and not entry.startswith("--")
        )
        pairs.append((None, entry) if is_target else (entry, None))
    return pairs
