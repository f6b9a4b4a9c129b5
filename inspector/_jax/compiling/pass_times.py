"""When each compiler pass ran, from JAX's profiler: on the CPU XLA marks every pass for it, and writes no metadata.

A pipeline's mark is called `<pipeline> (<module>)`; the marks directly inside are its passes. A pass that
is or runs a pipeline itself holds that one's mark. Only names and times are read: jaxlib 0.12 aborts the process
at the sight of some other statistics of marks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from jax.profiler import ProfileData
from jaxlib import _profiler  # type: ignore[attr-defined]

from inspector.errors import Unavailable

# Beside passes, XLA marks its own checks between them.
_NO_PASSES = ("RunInvariantCheckers",)
_START = "pipeline-start"  # XLA's own word for it, on platforms where it writes times itself
_HOST_LEVEL = 1  # XLA's own marks, no finer ones
_S = 1e-9

TimedPass = tuple[str, str, float, float]
"""Pipeline, pass, start and end in seconds since the epoch; a pipeline itself is listed as its pass `pipeline-start`."""


class PassTimes:
    """A context around one compile on the CPU; `passes` then tells."""

    def __init__(self) -> None:
        self._session: Any = None
        self._origin_s = 0.0
        self._profile: Any = Unavailable("the compile has not ended")

    def __enter__(self) -> PassTimes:
        options = _profiler.ProfileOptions()
        options.host_tracer_level = _HOST_LEVEL
        options.python_tracer_level = 0
        options.enable_hlo_proto = False
        options.raise_error_on_start_failure = True
        try:
            self._session = _profiler.ProfilerSession(options)
            self._origin_s = time.time()  # the profile counts from its start
        except Exception as e:
            self._profile = _failed(e)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is None:
            return
        try:
            self._profile = ProfileData.from_serialized_xspace(self._session.stop())
        except Exception as e:  # a process has one profiler, and the user may be using it
            self._profile = _failed(e)

    def passes(self, module: str) -> list[TimedPass] | Unavailable:
        """The passes of a module, by its name, in the order in which they started; or why they are not known."""
        if isinstance(self._profile, Unavailable):
            return self._profile
        suffix = f" ({module})"
        lines = (line for plane in self._profile.planes for line in plane.lines)
        marks = (timed for line in lines for timed in _passes_of(line.events, suffix))
        found = [(pipeline, name, self._origin_s + s, self._origin_s + e) for pipeline, name, s, e in marks]
        return found or Unavailable(f"XLA marked no pass of {module!r} for JAX's profiler")


def _failed(error: Exception) -> Unavailable:
    return Unavailable(f"JAX's profiler, which times passes, did not run: {error}", "Stop the profile under way.")


def _passes_of(events: Any, suffix: str) -> Iterator[TimedPass]:
    """The passes of one thread; marks of pipelines end with `suffix`."""
    marks = sorted((event.start_ns, -event.duration_ns, event.name) for event in events)
    open_marks: list[tuple[float, str | None]] = []
    for start, minus_duration, name in marks:
        end = start - minus_duration
        while open_marks and open_marks[-1][0] <= start:
            open_marks.pop()
        pipeline = name.removesuffix(suffix) if name.endswith(suffix) else None
        within = open_marks[-1][1] if open_marks else None
        if pipeline is not None:
            yield pipeline, _START, start * _S, end * _S
        elif within is not None and name not in _NO_PASSES:
            yield within, name, start * _S, end * _S
        open_marks.append((end, pipeline))
