"""Measurements: durations, inputs and outputs."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from inspector.errors import CancelledError, ExecutionError, Unavailable
from inspector.execution.array_difference import Difference
from inspector.execution.comparison import Comparison, compare_outcomes, speed
from inspector.execution.outcome import Outcome
from inspector.support.units import format_bytes, format_seconds
from inspector.widgets import messages
from inspector.widgets.panes.framework.pane import Context, Excerpt, Pane
from inspector.widgets.variants import Variant
from inspector.widgets.work import RunJob

if TYPE_CHECKING:
    from inspector.execution import run as measurement

_PREVIEW_VALUES = 6
_PREVIEW_REPLICAS = 16
_SHOWN_ARRAYS = 40
_MOST_BYTES = 256 << 20  # of outputs of all variants that are kept to be compared
_NOT_KEPT = Unavailable(
    f"those of all variants together are more than the {format_bytes(_MOST_BYTES)} that are kept",
    "Compare two runs with inspector.compare_runs(run, other)",
)


class RunRequest(TypedDict):
    """Run a variant; `repeat` measured executions."""

    type: Literal["run"]
    variant: int
    repeat: int


class RunArray(TypedDict):
    """An input or output of a run.

    Attributes:
      path: how the user would write it, such as `params['w']`.
      shape: as text, such as `f32[128,64]` without the type: `128,64`.
      generated: inspector made the values, because only a shape was given.
      per_replica: every replica has its own values.
      preview: one line of values a replica (a single one when all hold the same).
    """

    path: str
    shape: str
    dtype: str
    generated: bool
    per_replica: bool
    preview: list[str]


class RunResult(TypedDict):
    """What was measured: seconds from call to outputs ready, one duration an execution."""

    device_kind: str
    durations_s: list[float]
    median_s: float
    min_s: float
    iqr_s: float
    inputs: list[RunArray]
    outputs: list[RunArray]
    note: str


class Run(TypedDict):
    """The state of a run of a variant; `result` once it is done."""

    type: Literal["run"]
    variant: int
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None
    result: RunResult | None


class OutputDifference(TypedDict):
    """How an output differs from the baseline's; numbers are None where `unknown` says why.

    Attributes:
      scaled: the largest difference by the baseline's largest value.
      ulps: the most floating-point numbers between two elements.
      first: index of the first element that differs, and what stands there in both; "" where all are equal.
      nans, infinities: of this and the baseline's elements.
    """

    path: str
    count: int
    differing: int
    largest: float | None
    scaled: float | None
    relative: float | None
    ulps: int | None
    first: str
    nans: tuple[int, int]
    infinities: tuple[int, int]
    unknown: str


class RunComparison(TypedDict):
    """A variant's run against the baseline's, anew whenever one of them was run.

    Attributes:
      outputs: how far the outputs agree, or why they cannot be compared.
      verdict: the same in few words.
      is_same: whether all are equal; None where they cannot be compared.
      speed: which is faster, or why nothing can be said.
      is_faster: True, False (slower), or None where the difference is no more than noise.
    """

    type: Literal["run_comparison"]
    variant: int
    outputs: str
    verdict: str
    is_same: bool | None
    speed: str
    is_faster: bool | None
    rows: list[OutputDifference]


class RunPane(Pane):
    """Every variant's latest."""

    def __init__(self, name: str, context: Context) -> None:
        """Nothing runs yet."""
        super().__init__(name, context)
        self._held: dict[int, RunJob] = {}
        self._latest: dict[int, Outcome] = {}
        self._comparing = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-comparison")

    def answer(self, request: RunRequest) -> None:
        """Checking and making inputs can take seconds, so not even that is done on the comm's thread."""
        variant = self.context.variant(request["variant"])
        self.context.publish(run_message(variant.number, "queued"))
        self.context.later(lambda: self._run(variant, request["repeat"]))

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """How long its latest run took."""
        if outcome := self.outcome(variant):
            took, count = format_seconds(statistics.median(outcome.durations_s)), len(outcome.durations_s)
            yield Excerpt(
                f"Run on {outcome.device_kind}: median {took} of {count:,} {'execution' if count == 1 else 'executions'}"
            )

    def outcome(self, variant: Variant) -> Outcome | None:
        """What is kept of the variant's latest run."""
        with self.context.lock:
            return self._latest.get(variant.number)

    def cancel(self, variant: Variant) -> None:
        """Stops its run."""
        run = self._held.get(variant.number)
        if run is not None:
            run.cancel()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops its run."""
        self._latest.pop(variant.number, None)
        run = self._held.pop(variant.number, None)
        return super().forget(variant) if run is None else run.cancel

    def close(self) -> None:
        """Stops all runs."""
        self._comparing.shutdown(wait=False, cancel_futures=True)
        with self.context.lock:
            runs = tuple(self._held.values())
            self._held.clear()
            self._latest.clear()
        for run in runs:
            run.cancel()

    def _run(self, variant: Variant, repeat: int) -> None:
        try:
            run = self.context.work().run(variant.compiled_now, repeat)
        except Exception as error:  # whatever it is, it belongs in the pane
            self.context.publish(run_message(variant.number, "failed", error=error))
            return
        with self.context.lock:
            held = self.context.holds(variant)
            if held:
                self._held[variant.number] = run
        if not held:
            run.cancel()
            return
        self._advance(variant, run)
        run.add_progress_callback(lambda _: self.context.later(lambda: self._advance(variant, run)))
        run.add_done_callback(lambda _: self.context.later(lambda: self._show(variant, run)))

    def _advance(self, variant: Variant, run: RunJob) -> None:
        """Tells the stage, of a run whose end was not told."""
        if self._held.get(variant.number) is run:
            self.context.publish(run_message(variant.number, "running", run))

    def _show(self, variant: Variant, run: RunJob) -> None:
        measured = None
        try:
            measured = run.result()
            message = run_message(variant.number, "done", run, result=run_result(measured))
        except CancelledError:
            message = run_message(variant.number, "cancelled", run)
        except Exception as error:  # whatever it is, it belongs in the pane
            message = run_message(variant.number, "failed", run, error=error)
        if self._held.get(variant.number) is run:
            del self._held[variant.number]
            self.context.publish(message)
            if measured is not None:
                with contextlib.suppress(RuntimeError):  # closed
                    self._comparing.submit(self._compare, variant, measured)

    def _compare(self, variant: Variant, run: measurement.Run) -> None:
        """Compares it with the baseline's, and all others where it is the baseline. On a thread of its own."""
        outcome = Outcome.of(run)
        with self.context.lock:
            if not self.context.holds(variant):
                return
            first = self.context.variants()[0].number
            self._latest.pop(variant.number, None)
            latest = {**self._latest, variant.number: outcome}
            self._latest = _within_limit(latest, first)
        baseline = latest.get(first)
        for number, other in latest.items():
            if baseline is not None and number != first and variant.number in (first, number):
                self.context.publish(run_comparison(number, other, baseline))
        self.context.recorded()


def run_result(run: measurement.Run) -> RunResult:
    """A measurement as the pane shows it; long lists of arrays are cut, and the note says so."""
    notes = []
    if any(given.made for given in run.inputs):
        notes.append(
            "Inputs marked as generated were made from their shapes: small normal numbers, zeros for integers."
        )
    for name, arrays in (("inputs", run.inputs), ("outputs", run.outputs)):
        if len(arrays) > _SHOWN_ARRAYS:
            notes.append(f"The first {_SHOWN_ARRAYS} of {len(arrays)} {name} are shown.")
    if (size := sum(array.nbytes for array in run.outputs)) > _MOST_BYTES:
        notes.append(
            f"Outputs of {format_bytes(size)} are not kept: compare two runs with inspector.compare_runs(run, other)."
        )
    return RunResult(
        device_kind=run.device_kind,
        durations_s=list(run.durations_s),
        median_s=run.median_s,
        min_s=run.min_s,
        iqr_s=run.iqr_s,
        inputs=[_input(given, run.num_replicas) for given in run.inputs[:_SHOWN_ARRAYS]],
        outputs=[
            _array(f"result{about.path}", about, value, run.num_replicas > 1, run.num_replicas)
            for about, value in zip(run.program.results[:_SHOWN_ARRAYS], run.outputs, strict=False)
        ],
        note=" ".join(notes),
    )


def _within_limit(latest: Mapping[int, Outcome], first: int) -> dict[int, Outcome]:
    """Outcomes of variants, the latest last: the baseline's outputs are kept, then the latest, as many as there is room for."""
    left, found = _MOST_BYTES, dict(latest)
    for number in (first, *(each for each in reversed([*latest]) if each != first)):
        if number in latest and latest[number].byte_size <= left:
            left -= latest[number].byte_size
        elif number in latest:
            found[number] = dataclasses.replace(latest[number], outputs=_NOT_KEPT)
    return found


def run_comparison(variant: int, run: Outcome, baseline: Outcome) -> RunComparison:
    """How a variant's run differs from the baseline's, for the pane."""
    faster = speed(run.durations_s, baseline.durations_s)
    message = RunComparison(
        type="run_comparison", variant=variant, outputs="", verdict="not comparable", is_same=None, rows=[],
        speed=faster.reason if isinstance(faster, Unavailable) else faster.words,
        is_faster=None if isinstance(faster, Unavailable) or not faster.is_known else faster.ratio > 1,
    )  # fmt: skip
    try:
        found = compare_outcomes(run, baseline)
    except ExecutionError as error:
        message["outputs"] = str(error)
        return message
    message["outputs"], message["is_same"], message["verdict"] = found.words, found.same, _verdict(found)
    unlike = sorted(found.differences, key=lambda each: not each.differing)
    message["rows"] = [_difference(each) for each in unlike[:_SHOWN_ARRAYS]]
    return message


def _verdict(found: Comparison) -> str:
    if found.same:
        return "equal"
    return "differ" if isinstance(found.bound, Unavailable) else f"differ by {found.bound}"


def _difference(each: Difference) -> OutputDifference:
    numbers = {name: getattr(each, name) for name in ("largest", "scaled", "relative", "ulps")}
    reasons = dict.fromkeys(value.reason for value in numbers.values() if isinstance(value, Unavailable))
    at = f"[{', '.join(map(str, each.first))}]" if each.first else ""
    known = {name: None if isinstance(value, Unavailable) else value for name, value in numbers.items()}
    return OutputDifference(
        path=f"result{each.path}",
        count=each.count,
        differing=each.differing,
        largest=known["largest"],
        scaled=known["scaled"],
        relative=known["relative"],
        ulps=known["ulps"],
        first="" if each.first is None else f"{at} {each.value} for {each.other_value}".strip(),
        nans=(each.nans, each.other_nans),
        infinities=(each.infinities, each.other_infinities),
        unknown="; ".join(reasons),
    )


def _input(given: Any, num_replicas: int) -> RunArray:
    array = _array(given.argument.path, given.argument, given.value, given.per_replica, num_replicas)
    return RunArray(**{**array, "generated": given.made})


def _array(path: str, about: Any, value: np.ndarray, per_replica: bool, num_replicas: int) -> RunArray:
    rows = list(value) if per_replica else [value]
    preview = [_preview(row) for row in rows[:_PREVIEW_REPLICAS]]
    if len(rows) > _PREVIEW_REPLICAS:
        preview.append(f"… {len(rows) - _PREVIEW_REPLICAS:,} more replicas")
    return RunArray(
        path=path,
        shape=",".join(map(str, about.shape)),
        dtype=about.dtype,
        generated=False,
        per_replica=per_replica and num_replicas > 1,
        preview=preview,
    )


def _preview(value: np.ndarray) -> str:
    """A few values on one line."""
    flat = np.asarray(value).reshape(-1)
    words = [_word(v) for v in flat[:_PREVIEW_VALUES]]
    if flat.size > _PREVIEW_VALUES:
        words.append("…")
    return words[0] if value.ndim == 0 else f"[{', '.join(words)}]"


def _word(value: Any) -> str:
    if np.issubdtype(type(value), np.integer) or isinstance(value, np.bool_):
        return str(value)
    number = complex(value) if np.issubdtype(type(value), np.complexfloating) else float(value)
    return f"{number:.5g}"


def run_message(
    variant: int,
    state: messages.State,
    run: RunJob | None = None,
    *,
    error: BaseException | None = None,
    result: RunResult | None = None,
) -> Run:
    """The state of a variant's run, for the pane."""
    return Run(
        type="run",
        variant=variant,
        state=state,
        stage="" if run is None else run.stage,
        elapsed_s=0.0 if run is None else run.elapsed_s,
        error=None if error is None else messages.error_of(error),
        result=result,
    )
