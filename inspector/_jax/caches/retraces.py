"""The traces and repeated compiles of JAX, each with its differences from the closest previous call.

A trace and a compile are two events. JAX traces again for other types, structures, static values and settings, and explains
the reason in a warning (`jax_explain_cache_misses`). XLA compiles a trace again for other shardings, devices and options,
which JAX does not explain. `cache_misses.py` determines both reasons from JAX's caches while a watch is active.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import jax
from jax import monitoring
from jax._src.interpreters import partial_eval

from inspector._jax.caches import cache_misses
from inspector._jax.caches.cache_misses import Cause, Event, What
from inspector._jax.lowering.stages import Traced
from inspector.support.packages import is_library_file
from inspector.support.tables import Kind, Tabular, make_table

if TYPE_CHECKING:
    import pandas as pd

_FLAG = "jax_explain_cache_misses"
_BEGINS = cache_misses.BEGINS
_TRACED = "/jax/core/compile/jaxpr_trace_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """A difference between a call and the closest previous one.

    Attributes:
      what: the property that differs.
      where: the argument, as JAX names it, for example `params['w']`, or its position, for example `args[1]`; the name of a
        setting; "" for the whole call.
      now, before: the type, sharding, static value, structure or setting in each call, in JAX's words.
    """

    what: What
    where: str
    now: str
    before: str

    def __str__(self) -> str:
        return f"{self.what}{f' of {self.where}' if self.where else ''}: {self.now}, before {self.before}"


@dataclasses.dataclass(frozen=True, slots=True)
class Retrace:
    """A call for which JAX had no trace, or had a trace but no executable.

    Attributes:
      fun_name: the function's name.
      defined_at: its file and line; "" if JAX does not record them.
      called_at: the line of the call; if JAX names a line of an installed library, the line of user code that called it.
      cause: "first call"; "defined again": a new function object of the same source, for example a lambda in a loop or
        another closure of a factory; "cache cleared": the trace existed before `jax.clear_caches()`; "arguments": other
        types; "structure": another pytree or static value; "context": other JAX settings; "placement", for a compile:
        other shardings, devices or layouts, or arguments that are now committed to a device;
        "unknown": the difference is not recorded.
      changes: the differences from the closest previous call, by argument; () for a first call.
      explanation: JAX's message for a trace, inspector's for a compile.
      event: "trace": JAX traced the function, and XLA compiled it if it was called; "compile": XLA compiled a trace
        again that JAX already had.
    """

    fun_name: str
    defined_at: str
    called_at: str
    cause: Cause
    changes: tuple[Changed, ...]
    explanation: str
    event: Event = "trace"

    def __str__(self) -> str:
        event = "compiled: " if self.event == "compile" else ""
        changes = "; ".join(map(str, self.changes))
        return f"{self.fun_name} at {self.called_at}: {event}{changes or self.cause}"


def compile_between(first: Traced, second: Traced) -> Retrace | None:
    """Returns the compile that a second call causes although JAX has its trace; None if one compiled program serves both."""
    miss = cache_misses.compile_between(first, second)
    return None if miss is None else _retrace(miss)


def _retrace(miss: cache_misses.Miss) -> Retrace:
    changes = tuple(Changed(*each) for each in miss.changes)
    place = users_place(miss.called_at)
    return Retrace(miss.fun_name, miss.defined_at, place, miss.cause, changes, miss.explanation, miss.event)


class Retraces(Tabular):
    """The retraces of a `with` block, in order; grows while it runs."""

    def __init__(self, retraces: Sequence[Retrace]) -> None:
        """Wraps a list, which may grow."""
        self._retraces = retraces

    def __len__(self) -> int:
        return len(self._retraces)

    def __iter__(self) -> Iterator[Retrace]:
        return iter(tuple(self._retraces))

    def __getitem__(self, index: int) -> Retrace:
        return self._retraces[index]

    def table(self) -> pd.DataFrame:
        """Returns one row for each change, and one for an event without changes.

        Columns: `function, called_at, cause, what, where, now, before, defined_at, event`.
        """
        rows: list[tuple[object, ...]] = []
        for each in self:
            changes: list[tuple[str | None, ...]] = [(c.what, c.where, c.now, c.before) for c in each.changes]
            rows += (
                (each.fun_name, each.called_at, each.cause, *change, each.defined_at, each.event)
                for change in changes or [(None, None, None, None)]
            )
        return make_table(_COLUMNS, rows)

    def __repr__(self) -> str:
        compiles = sum(each.event == "compile" for each in self)
        first = sum(each.cause == "first call" for each in self)
        lines = "".join(f"\n  {each}" for each in self if each.cause != "first call")
        again = len(self) - compiles - first
        return f"<Retraces: {first} first calls, {again} traced again, {compiles} compiled again{lines}>"


_COLUMNS: Mapping[str, Kind] = {
    "function": "text", "called_at": "text", "cause": "text", "what": "text", "where": "text", "now": "text",
    "before": "text", "defined_at": "text", "event": "text",
}  # fmt: skip


@contextlib.contextmanager
def watch_retraces() -> Iterator[Retraces]:
    """Lists JAX's traces and repeated compiles in this process while the `with` block runs, each with its reason.

    All threads are watched. A trace also represents the compile that follows it; a compile is listed only if JAX already had the trace.
    Functions of JAX itself are left out, as in JAX's own explanations.
    """
    retraces: list[Retrace] = []
    _listener.add(retraces)
    try:
        yield Retraces(retraces)
    finally:
        _listener.remove(retraces)


class RetraceWatch:
    """Lists JAX's retraces in this process between `start` and `stop`; can be started and stopped repeatedly.

    Attributes:
      found: the latest 10,000 retraces, also after `stop`.
    """

    def __init__(self) -> None:
        """Creates a stopped watch."""
        self._latest: collections.deque[Retrace] = collections.deque(maxlen=_MOST)
        self._callback: weakref.WeakMethod[Callable[[], None]] | None = None
        self.found = Retraces(self._latest)

    @property
    def is_on(self) -> bool:
        """True while the watch is started."""
        return self._callback is not None

    def start(self, heard: Callable[[], None]) -> None:
        """Starts the watch.

        Args:
          heard: a method, held by a weak reference; called after each retrace, on the tracing thread.
        """
        if not self.is_on:
            _listener.add(self)
        self._callback = weakref.WeakMethod(heard)

    def stop(self) -> None:
        """Stops the watch; keeps the retraces listed so far."""
        if self.is_on:
            _listener.remove(self)
        self._callback = None

    def append(self, retrace: Retrace) -> None:
        """Adds a retrace; called by the listener."""
        self._latest.append(retrace)
        callback = self._callback and self._callback()
        if callback:
            callback()


_MOST = 10_000


class _Watcher(Protocol):
    """A receiver of retraces."""

    def append(self, retrace: Retrace, /) -> None: ...


class _Listener:
    """Receives JAX's explanations of traces and its events of compiles while there are watchers; one per process.

    Replaces the logger that JAX writes explanations to, because a level, `logging.disable` or a configuration may silence
    that logger.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._watchers: list[_Watcher] = []
        self._was_on = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def add(self, watcher: _Watcher) -> None:
        with self._lock:
            self._watchers.append(watcher)
            if len(self._watchers) == 1:
                cache_misses.remember_functions()
                self._was_on = bool(jax.config.values[_FLAG])
                jax.config.update(_FLAG, True)
                partial_eval.logger = self  # type: ignore[assignment]  # has everything that JAX uses of it
                monitoring.register_event_duration_secs_listener(self._on_duration)

    def remove(self, watcher: _Watcher) -> None:
        with self._lock:
            self._watchers = [each for each in self._watchers if each is not watcher]
            if not self._watchers:
                monitoring.unregister_event_duration_listener(self._on_duration)
                partial_eval.logger = self._logger
                jax.config.update(_FLAG, self._was_on)

    def log(self, level: int, message: object, *args: object, **rest: Any) -> None:
        """Handles an explanation, and passes it on if the user enabled JAX's explanations."""
        text = str(message)
        is_explanation = text.startswith(_BEGINS)
        if is_explanation:
            self._report(cache_misses.trace(_caller(), text))
        if self._was_on or not is_explanation:
            self._logger.log(level, message, *args, **rest)

    def _on_duration(self, event: str, duration_secs: float, **kwargs: Any) -> None:  # noqa: ARG002 - JAX names them
        if event == _TRACED:
            cache_misses.trace_ended()
        elif event == _COMPILED:
            miss = cache_misses.compile_again(_caller())
            if miss is not None:
                self._report(miss)

    def _report(self, miss: cache_misses.Miss) -> None:
        retrace = _retrace(miss)
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher.append(retrace)


def _caller() -> FrameType:
    """Returns the frame that called the caller of this function."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    assert frame is not None, "CPython has frames"
    return frame


def users_place(place: str) -> str:
    """Returns the innermost line on the stack outside libraries, if `place` is in a library or unknown; otherwise `place`."""
    frame = inspect.currentframe() if not place or is_library_file(place) else None
    while frame and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else place


_listener = _Listener(partial_eval.logger)
