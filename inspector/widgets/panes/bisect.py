"""The Bisect pane: the change that makes a variant differ from the baseline, and the part of it that is slow to compile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from inspector.errors import ExecutionError, ParameterError, Unavailable, UnavailableError
from inspector.hlo.source import place_of
from inspector.stages.bisection.compile_time_result import PART_COLUMNS, CompileTime
from inspector.stages.bisection.result import CHANGE_COLUMNS, STEP_COLUMNS, Bisection, Step
from inspector.stages.bisection.sides import Side
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.described_tables import cells_of, heads_of
from inspector.widgets.panes.framework.followed import Followed, state_of_job
from inspector.widgets.panes.framework.pane import Context, Excerpt, Pane
from inspector.widgets.panes.framework.running_jobs import RunningJobs
from inspector.widgets.variants import Variant

if TYPE_CHECKING:
    from inspector.widgets.work import SearchJob

_SHOWN_ROWS = 200
_MOST_TEXT = 200_000  # characters of StableHLO

Search = Literal["values", "memory", "time", "compile_time", "parts"]
"""The aim of a search: the change that alters a quantity, or the part that is slow to compile."""


class BisectRequest(TypedDict):
    """Starts or stops the search of a variant."""

    type: Literal["bisect"]
    variant: int
    do: Literal["start", "stop"]
    search: Search
    time_limit_s: float


class SaveReproductionRequest(TypedDict):
    """Writes the files of a variant's reproduction into a new folder."""

    type: Literal["save_reproduction"]
    variant: int


class BisectStep(TypedDict):
    """A trial: one compile, with a run if the search needs it."""

    outcome: str
    cells: list[messages.TableCell]


class BisectRow(TypedDict):
    """A changed instruction, or a part; `source` is its first line, None if unknown."""

    source: messages.SourceLine | None
    cells: list[messages.TableCell]


class BisectResult(TypedDict):
    """The result of a search.

    Attributes:
      is_found: whether a change, or a part, was found.
      facts: the parts of the result, each with its name.
      title: heading of the table; "" if there is no table.
      columns, rows: the changed instructions, or the parts.
      left_out: number of rows that are not shown.
      stablehlo: the reproduction; "" if there is none.
    """

    is_found: bool
    facts: list[tuple[str, str]]
    title: str
    columns: list[messages.TableHead]
    rows: list[BisectRow]
    left_out: int
    stablehlo: str


class BisectMessage(TypedDict):
    """The state of a variant's search; `result` is set once it is done."""

    type: Literal["bisect"]
    variant: int
    search: Search
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None
    columns: list[messages.TableHead]
    steps: list[BisectStep]
    result: BisectResult | None


class ReproductionSaved(TypedDict):
    """The folder with the files of a variant's reproduction, or why they were not written."""

    type: Literal["reproduction_saved"]
    variant: int
    folder: str
    error: messages.Error | None


class BisectPane(Pane):
    """Runs one search per variant at a time."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is searched yet."""
        super().__init__(name, context)
        self._jobs: RunningJobs[SearchJob[Bisection | CompileTime]] = RunningJobs(context)

    def answer(self, request: Any) -> None:
        """Starts or stops a search, or writes files, on the Explorer's thread: lowering executes user code."""
        variant = self.context.variant(request["variant"])
        if request["type"] == "save_reproduction":
            self.context.aside(lambda: self._save(variant))
        elif request["do"] == "stop":
            self.cancel(variant)
        else:
            self.context.publish(bisect_message(variant.number, request["search"], "queued"))
            self.context.later(lambda: self._start(variant, request["search"], request["time_limit_s"]))

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """Returns the results of its searches."""
        for found in (variant.bisection, variant.compile_time):
            if found is not None:
                first, _, rest = found.words.partition("\n")
                yield Excerpt(f"{'Bisection' if isinstance(found, Bisection) else 'Compile time'}: {first}", rest)

    def cancel(self, variant: Variant) -> None:
        """Stops the variant's search; its steps remain."""
        self._jobs.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's search."""
        return self._jobs.forget(variant)

    def close(self) -> None:
        """Stops all searches."""
        self._jobs.close()

    def _start(self, variant: Variant, search: Search, time_limit_s: float) -> None:
        known = self._jobs.get(variant)
        if known is not None and not known.done():
            return
        try:
            job = self._job(variant, search, time_limit_s)
        except Exception as error:  # the pane shows any error
            self.context.publish(bisect_message(variant.number, search, "failed", error=error))
            return
        if not self._jobs.keep(variant, job):
            return
        job.add_done_callback(lambda _: self._keep(variant, job))
        Followed(job, lambda: message_of(variant.number, search, job), self.context.publish).begin()

    def _job(self, variant: Variant, search: Search, time_limit_s: float) -> SearchJob[Bisection | CompileTime]:
        baseline = self.context.variants()[0]
        if variant.lowered is None:
            raise ExecutionError(f"{variant.label} was not lowered, so it cannot be compiled. Choose another variant.")
        bad = Side(variant.target, variant.options)
        work = self.context.work()
        if search == "parts":
            return work.compile_time(variant.lowered, bad, time_limit_s)
        if variant is baseline:
            raise ParameterError(
                "The baseline is the good side. Add a variant that differs from it, and choose that variant."
            )
        if variant.origin or variant.tuning != baseline.tuning or baseline.lowered is None:
            raise ParameterError(
                f"{variant.label} is another program than the baseline, so no flag or pass makes the difference. Choose a variant"
                " that differs in options or target."
            )
        sides = Side(baseline.target, baseline.options), bad
        return work.bisect(baseline.lowered, sides, search, time_limit_s)

    def _keep(self, variant: Variant, job: SearchJob[Bisection | CompileTime]) -> None:
        """Keeps a result with its variant, for Python."""
        with contextlib.suppress(Exception):  # the message has the error
            found = job.result()
            if isinstance(found, Bisection):
                variant.bisection = found
            else:
                variant.compile_time = found
            self.context.recorded()

    def _save(self, variant: Variant) -> None:
        folder, error = "", None
        try:
            if variant.bisection is None:
                raise UnavailableError("There is no reproduction to save. Bisect the variant first.")
            path = _new_folder(Path.cwd())
            variant.bisection.save_reproduction(path)
            folder = str(path)
        except Exception as e:  # the pane shows any error
            error = messages.error_of(e)
        self.context.publish(
            ReproductionSaved(type="reproduction_saved", variant=variant.number, folder=folder, error=error)
        )


def _new_folder(parent: Path) -> Path:
    """Returns a path that does not exist, such as `reproduction-20261128-172210`."""
    name = f"reproduction-{time.strftime('%Y%m%d-%H%M%S')}"
    numbers = (parent / (name + (f"-{number}" if number else "")) for number in range(100))
    return next(path for path in numbers if not path.exists())


def message_of(variant: int, search: Search, job: SearchJob[Bisection | CompileTime]) -> BisectMessage:
    """Returns the state of a running or finished search, for the pane."""
    state = state_of_job(job)
    return bisect_message(
        variant,
        search,
        state,
        stage=job.stage,
        elapsed_s=job.elapsed_s,
        error=job.exception() if state == "failed" else None,
        steps=job.steps,
        result=_result(job.result()) if state == "done" else None,
    )


def bisect_message(
    variant: int,
    search: Search,
    state: messages.State,
    *,
    stage: str = "",
    elapsed_s: float = 0.0,
    error: BaseException | None = None,
    steps: Sequence[Step] = (),
    result: BisectResult | None = None,
) -> BisectMessage:
    """Returns the state of a search, for the pane."""
    return BisectMessage(
        type="bisect",
        variant=variant,
        search=search,
        state=state,
        stage=stage,
        elapsed_s=elapsed_s,
        error=None if error is None else messages.error_of(error),
        columns=heads_of(STEP_COLUMNS),
        steps=[BisectStep(outcome=each.outcome, cells=cells_of(STEP_COLUMNS, each)) for each in steps],
        result=result,
    )


def _line(text: str) -> messages.SourceLine | None:
    place = place_of(text)
    return None if place is None else messages.SourceLine(file=display_file(place[0]), line=place[1], library="")


def _result(found: Bisection | CompileTime) -> BisectResult:
    return _of_bisection(found) if isinstance(found, Bisection) else _of_compile_time(found)


def _of_bisection(found: Bisection) -> BisectResult:
    changes = () if isinstance(found.changes, Unavailable) else found.changes
    part = found.reproduction
    return BisectResult(
        is_found=found.verdict == "found",
        facts=list(found.facts),
        title="Changed instructions" if changes else "",
        columns=heads_of(CHANGE_COLUMNS),
        rows=[
            BisectRow(source=_line(each.source), cells=cells_of(CHANGE_COLUMNS, each)) for each in changes[:_SHOWN_ROWS]
        ],
        left_out=max(0, len(changes) - _SHOWN_ROWS),
        stablehlo="" if isinstance(part, Unavailable) else part.stablehlo[:_MOST_TEXT],
    )


def _of_compile_time(found: CompileTime) -> BisectResult:
    return BisectResult(
        is_found=not isinstance(found.slowest, Unavailable),
        facts=list(found.facts),
        title="Parts" if found.parts else "",
        columns=heads_of(PART_COLUMNS),
        rows=[
            BisectRow(source=_line(next(iter(each.lines), "")), cells=cells_of(PART_COLUMNS, each))
            for each in found.parts[:_SHOWN_ROWS]
        ],
        left_out=max(0, len(found.parts) - _SHOWN_ROWS),
        stablehlo="",
    )
