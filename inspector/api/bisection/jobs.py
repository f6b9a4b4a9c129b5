"""The jobs of searches that compile trials: `BisectJob` and `CompileTimeJob`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from inspector.api.progress import Progress, Quiet, background_progress, foreground_progress
from inspector.compilation.engine import Job
from inspector.stages.bisection.compile_time_result import CompileTime
from inspector.stages.bisection.result import Bisection, Step

ABOUT_STEPS = 40
"""The length of a bar: the number of steps is not known before."""

T = TypeVar("T")
T_co = TypeVar("T_co", bound="Bisection | CompileTime", covariant=True)


class Search(Protocol[T_co]):
    """The work of a job, in one thread."""

    def run(self) -> T_co:
        """Searches."""
        ...

    def stop(self) -> None:
        """Cancels the running work. Called from any thread."""
        ...

    def close(self) -> None:
        """Closes the engines that it started."""
        ...


class SearchJob(Job[T]):
    """A running search. Thread-safe. `result()` waits for it, `cancel()` stops it; its steps so far stay.

    Its stage is the present phase with the latest step.
    """

    def __init__(
        self, search: Callable[[Callable[[Step], None]], Search[Any]], *, has_bar: bool, is_background: bool
    ) -> None:
        """Starts the search; called by `bisect` and `compile_time`.

        Args:
          search: creates the search from a function that is called with each step.
          has_bar: whether to show progress.
          is_background: whether the caller does not wait.
        """
        super().__init__(cancel=lambda: self._search.stop())
        self._lock = threading.Lock()
        self._steps: list[Step] = []
        self._search = search(self._add)
        self._progress_bar: Progress = Quiet()
        if has_bar:
            self._progress_bar = (
                background_progress(ABOUT_STEPS, self.cancel) if is_background else foreground_progress(ABOUT_STEPS)
            )
        self.advance("compiling")
        threading.Thread(target=self._work, name="inspector-bisect", daemon=True).start()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        with self._lock:
            return tuple(self._steps)

    def wait(self) -> T:
        """Returns the result. Ctrl-C cancels the search."""
        try:
            return self.result()
        except KeyboardInterrupt:
            self.cancel()
            raise

    def _add(self, step: Step) -> None:
        with self._lock:
            self._steps.append(step)
        self._progress_bar.update(min(step.number, ABOUT_STEPS), f"{step.phase}: {step.tried}: {step.outcome}")
        self.advance(f"step {step.number}, {step.phase}: {step.tried}: {step.outcome}")

    def _work(self) -> None:
        words = ""
        try:
            found = self._search.run()
            words = found.words
            self.resolve(found)
        except BaseException as e:  # the thread has no one to raise to; the job carries the error
            words = f"{type(e).__name__}: {e}"
            self.fail(e)
        finally:
            self._search.close()
            self._progress_bar.close(words.partition("\n")[0])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.stage}>"


class BisectJob(SearchJob[Bisection]):
    """A running bisection. Thread-safe. `result()` waits for it, `cancel()` stops it; its steps so far stay.

    Its stage is the present phase with the latest step.
    """


class CompileTimeJob(SearchJob[CompileTime]):
    """A running search of `compile_time`. Thread-safe. `result()` waits for it, `cancel()` stops it; its steps so far stay.

    Its stage is the present phase with the latest step.
    """
