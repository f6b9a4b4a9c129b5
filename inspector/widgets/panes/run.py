"""The Run pane: durations, inputs and outputs of executions."""

from __future__ import annotations

import concurrent.futures
import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from inspector.errors import CancelledError
from inspector.execution.outcome import Outcome
from inspector.support.units import format_seconds
from inspector.widgets import messages
from inspector.widgets.panes.framework.pane import Context, Excerpt, Pane
from inspector.widgets.panes.framework.running_jobs import RunningJobs
from inspector.widgets.panes.run_parts.accuracy import AccuracyMeasuring, AccuracyRequest
from inspector.widgets.panes.run_parts.results import RunResult, run_comparison, run_result, within_limit
from inspector.widgets.variants import Variant

if TYPE_CHECKING:
    from inspector.execution import run as measurement
    from inspector.widgets.work import ProfileJob, RunJob

_MOST_PROFILED = 5  # executions, whose events grow with their number


class RunRequest(TypedDict):
    """Runs a variant with `repeat` measured executions."""

    type: Literal["run"]
    variant: int
    repeat: int


class RunAllRequest(TypedDict):
    """Runs all variants in turns, with at least `repeat` measured executions of each."""

    type: Literal["run_all"]
    repeat: int


class RunMessage(TypedDict):
    """The state of a variant's run; `result` is set once it is done."""

    type: Literal["run"]
    variant: int
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None
    result: RunResult | None


class Profiling(TypedDict):
    """The state of measuring the time of each kernel, which follows a run; `VariantMessage.profile` numbers the results."""

    type: Literal["profiling"]
    variant: int
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None


class RunPane(Pane):
    """Shows the latest run of every variant."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is running yet."""
        super().__init__(name, context)
        self._jobs: RunningJobs[RunJob] = RunningJobs(context)
        self._profiles: RunningJobs[ProfileJob] = RunningJobs(context)
        self._latest: dict[int, Outcome] = {}
        self._accuracy = AccuracyMeasuring(context)
        self._comparing = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-comparison")

    def answer(self, request: RunRequest | RunAllRequest | AccuracyRequest) -> None:
        """Starts runs, or a measurement of accuracy, on the Explorer's thread: creating the inputs can take seconds."""
        if request["type"] == "measure_accuracy":
            self._accuracy.answer()
            return
        variants = [self.context.variant(request["variant"])] if request["type"] == "run" else self._runnable()
        for variant in variants:
            self.context.publish(run_message(variant.number, "queued"))
        self.context.later(lambda: self._run(variants, request["repeat"]))

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """Returns the duration of its latest run."""
        if outcome := self.outcome(variant):
            took, count = format_seconds(statistics.median(outcome.durations_s)), len(outcome.durations_s)
            yield Excerpt(
                f"Run on {outcome.device_kind}: median {took} of {count:,} {'execution' if count == 1 else 'executions'}"
            )

    def outcome(self, variant: Variant) -> Outcome | None:
        """Returns the stored outcome of the variant's latest run, or None."""
        with self.context.lock:
            return self._latest.get(variant.number)

    def cancel(self, variant: Variant) -> None:
        """Stops the variant's run, and the measurement of accuracy of all variants."""
        self._accuracy.cancel()
        self._jobs.cancel(variant)
        self._profiles.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's run."""
        self._latest.pop(variant.number, None)
        stops = self._jobs.forget(variant), self._profiles.forget(variant)
        return lambda: [stop() for stop in stops]

    def close(self) -> None:
        """Stops all runs."""
        self._accuracy.cancel()
        self._comparing.shutdown(wait=False, cancel_futures=True)
        with self.context.lock:
            self._latest.clear()
        self._jobs.close()
        self._profiles.close()

    def _runnable(self) -> list[Variant]:
        """Returns the variants that are compiled and can run on this machine."""
        return [each for each in self.context.variants() if each.state == "done" and each.runs_here]

    def _run(self, variants: Sequence[Variant], repeat: int) -> None:
        try:
            programs = [variant.compiled_now for variant in variants]
            work = self.context.work()
            runs = work.run_in_turns(programs, repeat) if len(programs) > 1 else [work.run(programs[0], repeat)]
        except Exception as error:  # the pane shows any error
            for variant in variants:
                self.context.publish(run_message(variant.number, "failed", error=error))
            return
        for variant, run in zip(variants, runs, strict=True):
            self._follow(variant, run)

    def _follow(self, variant: Variant, run: RunJob) -> None:
        if not self._jobs.keep(variant, run):
            return
        self._advance(variant, run)
        run.add_progress_callback(lambda _: self.context.later(lambda: self._advance(variant, run)))
        run.add_done_callback(lambda _: self.context.later(lambda: self._show(variant, run)))

    def _advance(self, variant: Variant, run: RunJob) -> None:
        """Publishes the stage of a run whose end was not published yet."""
        if self._jobs.get(variant) is run:
            self.context.publish(run_message(variant.number, "running", run))

    def _show(self, variant: Variant, run: RunJob) -> None:
        measured = None
        try:
            measured = run.result()
            message = run_message(variant.number, "done", run, result=run_result(measured))
        except CancelledError:
            message = run_message(variant.number, "cancelled", run)
        except Exception as error:  # the pane shows any error
            message = run_message(variant.number, "failed", run, error=error)
        if self._jobs.end(variant, run):
            self.context.publish(message)
            if measured is not None:
                with contextlib.suppress(RuntimeError):  # closed
                    self._comparing.submit(self._compare, variant, measured)
                self._profile(variant, min(len(measured.durations_s), _MOST_PROFILED))

    def _profile(self, variant: Variant, repeat: int) -> None:
        """Starts measuring the time of each kernel. A run's durations are measured before, without the profiler."""
        number = variant.number
        try:
            job = self.context.work().profile(variant.compiled_now, repeat)
        except Exception as error:  # the pane shows any error
            self.context.publish(profiling(number, "failed", error=error))
            return
        if not self._profiles.keep(variant, job):
            return
        self.context.publish(profiling(number, "running", job))
        job.add_progress_callback(lambda _: self.context.later(lambda: self._advance_profile(variant, job)))
        job.add_done_callback(lambda _: self.context.aside(lambda: self._show_profile(variant, job)))

    def _advance_profile(self, variant: Variant, job: ProfileJob) -> None:
        if self._profiles.get(variant) is job:
            self.context.publish(profiling(variant.number, "running", job))

    def _show_profile(self, variant: Variant, job: ProfileJob) -> None:
        """Joins the events to instructions, which may take seconds. Called on the thread for such tasks."""
        try:
            profile = job.result()
            message = profiling(variant.number, "done", job)
        except CancelledError:
            profile, message = None, profiling(variant.number, "cancelled", job)
        except Exception as error:  # the pane shows any error
            profile, message = None, profiling(variant.number, "failed", job, error=error)
        with self.context.lock:
            if not self._profiles.end(variant, job) or not self.context.holds(variant):
                return
            if profile is not None:
                variant.profile = profile
                variant.profile_count += 1
        if profile is not None:
            self.context.profiled(variant)
        self.context.publish(message)
        self.context.recorded()

    def _compare(self, variant: Variant, run: measurement.Run) -> None:
        """Compares a run with the baseline's, or all others with it if it is the baseline. Called on a separate thread."""
        outcome = Outcome.of(run)
        with self.context.lock:
            if not self.context.holds(variant):
                return
            first = self.context.variants()[0].number
            self._latest.pop(variant.number, None)
            latest = {**self._latest, variant.number: outcome}
            self._latest = within_limit(latest, first)
        baseline = latest.get(first)
        for number, other in latest.items():
            if baseline is not None and number != first and variant.number in (first, number):
                self.context.publish(run_comparison(number, other, baseline))
        self.context.recorded()


def profiling(
    variant: int, state: messages.State, job: ProfileJob | None = None, *, error: BaseException | None = None
) -> Profiling:
    """Returns the state of a variant's profile."""
    return Profiling(
        type="profiling",
        variant=variant,
        state=state,
        stage="" if job is None else job.stage,
        elapsed_s=0.0 if job is None else job.elapsed_s,
        error=None if error is None else messages.error_of(error),
    )


def run_message(
    variant: int,
    state: messages.State,
    run: RunJob | None = None,
    *,
    error: BaseException | None = None,
    result: RunResult | None = None,
) -> RunMessage:
    """Returns the state of a variant's run, for the pane."""
    return RunMessage(
        type="run",
        variant=variant,
        state=state,
        stage="" if run is None else run.stage,
        elapsed_s=0.0 if run is None else run.elapsed_s,
        error=None if error is None else messages.error_of(error),
        result=result,
    )
