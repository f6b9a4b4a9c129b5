"""Start and end of each compiler pass on the CPU, from JAX's profiler: XLA's CPU compiler annotates its passes but writes no metadata.

A pipeline's annotation is called `<pipeline> (<module>)`; the annotations directly inside it are its passes. A pass that
is or runs a pipeline contains that pipeline's annotation. Only names and times are read: reading some other statistics of
annotations makes jaxlib 0.12 abort the process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from jax.profiler import ProfileData
from jaxlib import _profiler  # type: ignore[attr-defined]

from inspector.errors import Unavailable

# XLA annotates not only passes but also its own checks between them.
_NO_PASSES = ("RunInvariantCheckers",)
_START = "pipeline-start"  # XLA's own name, on platforms where it records times itself
_HOST_LEVEL = 1  # only XLA's own coarse annotations
_S = 1e-9

TimedPass = tuple[str, str, float, float]
"""Pipeline, pass, start and end in seconds since the epoch; a pipeline itself is listed as the pass `pipeline-start`."""


class PassTimes:
    """A context around one compile on the CPU; afterwards, `passes` returns the times."""

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
            self._origin_s = time.time()  # times in the profile are relative to its start
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
        except Exception as e:  # a process has only one profiler, and the user may be using it
            self._profile = _failed(e)

    def passes(self, module: str) -> list[TimedPass] | Unavailable:
        """Returns the passes of a module, given its name, in order of their start; or why they are unknown."""
        if isinstance(self._profile, Unavailable):
            return self._profile
        suffix = f" ({module})"
        lines = (line for plane in self._profile.planes for line in plane.lines)
        marks = (timed for line in lines for timed in _passes_of(line.events, suffix))
        passes = [(pipeline, name, self._origin_s + s, self._origin_s + e) for pipeline, name, s, e in marks]
        return passes or Unavailable(f"XLA annotated no pass of {module!r} for JAX's profiler")


def _failed(error: Exception) -> Unavailable:
    return Unavailable(f"JAX's profiler, which times passes, could not run: {error}", "Stop the running profile.")


def _passes_of(events: Any, suffix: str) -> Iterator[TimedPass]:
    """Yields the passes of one thread; names of pipeline annotations end with `suffix`."""
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
