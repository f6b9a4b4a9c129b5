"""Measurements of accuracy: the errors of all variants against 64-bit values, one measurement at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from inspector import settings
from inspector.errors import CancelledError, ParameterError, Unavailable
from inspector.hlo.source import own_frame
from inspector.stages.accuracy_result import ACCURACY_COLUMNS, Accuracy, AccuracyRow, VariantAccuracy
from inspector.stages.departure import Departure
from inspector.widgets import messages
from inspector.widgets.panes.framework.pane import Context
from inspector.widgets.variants import Variant
from inspector.widgets.work import NO_FUNCTION

if TYPE_CHECKING:
    from inspector.widgets.work import AccuracyJob

_SHOWN_OUTPUTS = 40
_OWN_COLUMN = "variant"  # the pane shows one variant


class AccuracyRequest(TypedDict):
    """Measures the errors of all compiled variants of the baseline's call."""

    type: Literal["measure_accuracy"]


class AccuracyResult(TypedDict):
    """The errors of a variant.

    Attributes:
      verdict: the verdict, or "" if the variant was not measured.
      words: the verdict with the largest error, or the reason why there is none.
      departure: the line whose value departs from the reference, in a sentence; "" if there is none.
      file, line: this line; "" and 0 if unknown.
      titles: headings of the table.
      rows: one row of cells per output.
      notes: remarks on the reference.
    """

    verdict: str
    words: str
    departure: str
    file: str
    line: int
    titles: list[str]
    rows: list[list[str]]
    notes: list[str]


class AccuracyMessage(TypedDict):
    """The state of a variant's measurement; `result` is set once the errors are known, before their lines are."""

    type: Literal["accuracy"]
    variant: int
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None
    result: AccuracyResult | None


class AccuracyMeasuring:
    """The measurement of one Explorer."""

    def __init__(self, context: Context) -> None:
        """Creates the object; nothing is measured yet."""
        self.context = context
        self._job: AccuracyJob | None = None
        self._enter = settings.here()

    def answer(self) -> None:
        """Starts a measurement on the Explorer's thread. Lowering executes user code of any duration."""
        variants = _comparable(self.context.variants())
        for variant in variants:
            self.context.publish(accuracy_message(variant.number, "queued"))
        self.context.later(lambda: self._begin(variants))

    def cancel(self) -> None:
        """Stops the measurement."""
        job = self._job
        if job is not None:
            job.cancel()

    def _begin(self, variants: Sequence[Variant]) -> None:
        start = time.perf_counter()
        try:
            if not variants or variants[0].lowered is None:
                raise ParameterError(NO_FUNCTION)
            job = self.context.work().accuracy(variants[0].lowered, [(each.options, each.target) for each in variants])
        except Exception as error:  # user code can raise anything; the pane shows it
            self._publish(variants, "failed", start, error=error)
            return
        self.cancel()
        self._job = job
        self._publish(variants, "running", start)
        # A separate thread, because it waits; a daemon thread, so that the interpreter does not wait for it at exit.
        threading.Thread(target=self._measure, args=(variants, job, start), daemon=True).start()

    def _measure(self, variants: Sequence[Variant], job: AccuracyJob, start: float) -> None:
        self._enter()
        measured = None
        try:
            measured = job.errors()
            self._publish(variants, "running", start, measured=measured)
            measured = job.result()
        except CancelledError:
            # Canceled while it searched the lines, it has all errors.
            self._publish(variants, "cancelled" if measured is None else "done", start, measured=measured)
        except Exception as error:  # the pane shows any error
            self._publish(variants, "failed", start, error=error)
        else:
            self._publish(variants, "done", start, measured=measured)
        self.context.recorded()

    def _publish(
        self,
        variants: Sequence[Variant],
        state: messages.State,
        start: float,
        error: BaseException | None = None,
        measured: Accuracy | None = None,
    ) -> None:
        found = [None] * len(variants) if measured is None else [accuracy_result(each, measured) for each in measured]
        took = time.perf_counter() - start
        for variant, result in zip(variants, found, strict=True):
            self.context.publish(accuracy_message(variant.number, state, elapsed_s=took, error=error, result=result))


def _comparable(variants: Sequence[Variant]) -> list[Variant]:
    """Returns the compiled variants of the baseline's call: others take other arguments, or have no function."""
    first = variants[0]
    return [
        each
        for each in variants
        if each is first or (each.state == "done" and not each.origin and each.tuning == first.tuning)
    ]


def accuracy_result(found: VariantAccuracy, measured: Accuracy) -> AccuracyResult:
    """Returns the errors of a variant, as the pane shows them."""
    columns = [column for column in ACCURACY_COLUMNS.of("pane") if column.name != _OWN_COLUMN]
    outputs = () if isinstance(found.outputs, Unavailable) else found.outputs
    rows = [AccuracyRow(found, output) for output in outputs[:_SHOWN_OUTPUTS]]
    departure = found.departure if isinstance(found.departure, Departure) else None
    frame = None if departure is None else own_frame(departure.frames)
    notes = list(measured.remarks)
    if len(outputs) > _SHOWN_OUTPUTS:
        notes.append(f"showing the first {_SHOWN_OUTPUTS} of {len(outputs)} outputs")
    return AccuracyResult(
        verdict="" if isinstance(found.verdict, Unavailable) else found.verdict,
        words=found.words,
        departure="" if departure is None else departure.words,
        file="" if frame is None else frame.file,
        line=0 if frame is None else frame.line,
        titles=[column.title for column in columns],
        rows=[[column.cell(row).text for column in columns] for row in rows],
        notes=notes,
    )


def accuracy_message(
    variant: int,
    state: messages.State,
    *,
    elapsed_s: float = 0.0,
    error: BaseException | None = None,
    result: AccuracyResult | None = None,
) -> AccuracyMessage:
    """Returns the state of a variant's measurement, for the pane."""
    return AccuracyMessage(
        type="accuracy",
        variant=variant,
        state=state,
        stage="",
        elapsed_s=elapsed_s,
        error=None if error is None else messages.error_of(error),
        result=result,
    )
