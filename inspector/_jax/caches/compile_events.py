"""Records JAX's own compiles in this process: whether each was compiled or loaded from the persistent cache, and why.

JAX reports compiles in two ways, both incomplete: durations through `jax.monitoring`, and cache keys and reasons
through debug messages of its compiler module. Both arrive on the compiling thread, in order. The
duration of the backend compile comes last, and ends an event. Messages are identified by their templates,
and values are read from their arguments, never from text. No additional messages are printed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Iterator
from typing import Any, Literal

from jax import monitoring

from inspector._jax.caches import cache_state
from inspector.errors import Unavailable
from inspector.support.units import format_seconds

_LOGGERS = ("jax._src.compiler", "jax._src.compilation_cache")
_COMPILED = "/jax/core/compile/backend_compile_duration"
_RETRIEVED = "/jax/compilation_cache/cache_retrieval_time_sec"
_SAVED = "/jax/compilation_cache/compile_time_saved_sec"

_HIT = "Persistent compilation cache hit for"
_MISS = "PERSISTENT COMPILATION CACHE MISS for"
_NOT_WRITTEN = "Not writing persistent cache entry"
_WRITTEN = "Writing %s to persistent compilation cache"
_LONG_ENOUGH = "'%s' took at least %.2f seconds to compile"
_SENDS = "Process %d compiling and sharing module"
_WAITS = "Waiting for module: %s from process %d"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CompileEvent:
    """One compile request of JAX to its compiler module.

    Attributes:
      fun_name: as JAX names it, for example `jit(step)`.
      cache: "hit": loaded from the persistent cache; "miss": not in it, or not readable; "unused": not looked up.
      source: origin of the executable: "cache"; "compiler"; "process": another process compiled and sent it;
        "memory": it was sent for an earlier compile.
      sent: whether this process compiled for others and sent them the executable.
      cache_key: the name of the entry in the cache, or why there is none.
      written: whether the executable was written to the cache.
      reason: why it was not written, in JAX's words, or why the cache is unused; otherwise "".
      seconds: time in seconds to obtain the executable, from the cache or from XLA.
      retrieval_s: time in seconds to read from the cache; only for a hit.
      saved_s: compile time recorded in the entry, in whole seconds as JAX stores it, minus
        `retrieval_s`: negative for short compiles; only for a hit.
    """

    fun_name: str
    cache: Literal["hit", "miss", "unused"]
    source: Literal["cache", "compiler", "process", "memory"]
    sent: bool
    cache_key: str | Unavailable
    written: bool
    reason: str
    seconds: float
    retrieval_s: float | Unavailable
    saved_s: float | Unavailable

    def __repr__(self) -> str:
        source = {"cache": "from the cache", "compiler": "compiled", "memory": "sent before"}.get(self.source, "sent")
        written = ", written" if self.written else ""
        return (
            f"<CompileEvent {self.fun_name}: cache {self.cache}, {source} in {format_seconds(self.seconds)}{written}>"
        )

    @property
    def notice(self) -> str:
        """A note for an executable that this process did not compile; otherwise ""."""
        return (
            "" if self.source == "compiler" else "not compiled in this process: XLA ran no passes, so there is no dump"
        )


@contextlib.contextmanager
def watch_compiles() -> Iterator[list[CompileEvent]]:
    """Lists JAX's compiles in this process, on all threads, while the `with` block runs.

    Compiles by inspector's workers are not included. They never use JAX's cache, so a cache hit hides none of their results.
    """
    events: list[CompileEvent] = []
    _recorder.add(events)
    try:
        yield events
    finally:
        _recorder.remove(events)


class _ThreadState(threading.local):
    """Messages and durations that a thread has received since its last event."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.cache: Literal["hit", "miss", "unused"] = "unused"
        self.key = ""
        self.had_entry = False
        self.written = False
        self.compiled = False
        self.source: Literal["compiler", "process"] = "compiler"
        self.sent = False
        self.reason = ""
        self.durations: dict[str, float] = {}


class _Recorder(logging.Filter):
    """Receives JAX's messages while there are watchers. One per process: a filter that drops a record hides it from later filters."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._watchers: list[list[CompileEvent]] = []
        self._levels: dict[str, tuple[int, int]] = {}
        self._state = _ThreadState()

    def add(self, events: list[CompileEvent]) -> None:
        with self._lock:
            self._watchers.append(events)
            if len(self._watchers) == 1:
                self._install()

    def remove(self, events: list[CompileEvent]) -> None:
        with self._lock:
            self._watchers = [each for each in self._watchers if each is not events]
            if not self._watchers:
                self._uninstall()

    def filter(self, record: logging.LogRecord) -> bool:
        """Records a message; passes it on only if it would be visible without this filter."""
        self._record(str(record.msg), record)
        _, effective = self._levels.get(record.name, (0, logging.WARNING))
        return record.levelno >= effective

    def _install(self) -> None:
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            self._levels[name] = (logger.level, logger.getEffectiveLevel())
            logger.setLevel(logging.DEBUG)
            logger.addFilter(self)
        monitoring.register_event_duration_secs_listener(self._duration)

    def _uninstall(self) -> None:
        monitoring.unregister_event_duration_listener(self._duration)
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.removeFilter(self)
            logger.setLevel(self._levels[name][0])

    def _record(self, template: str, record: logging.LogRecord) -> None:
        state, arguments = self._state, record.args
        if template.startswith((_HIT, _MISS)) and isinstance(arguments, tuple) and len(arguments) == 2:
            state.clear()  # discards the messages of a failed compile
            state.cache = "hit" if template.startswith(_HIT) else "miss"
            state.key = str(arguments[1])
            state.had_entry = state.cache == "miss" and cache_state.has_entry(state.key)
        elif template.startswith(_NOT_WRITTEN):
            state.compiled, state.reason = True, record.getMessage()
        elif template.startswith(_LONG_ENOUGH):
            state.compiled = True
        elif template.startswith(_WRITTEN):
            state.written = True
        elif template.startswith(_SENDS):
            state.sent = True
        elif template.startswith(_WAITS):
            state.source = "process"

    def _duration(self, event: str, duration_secs: float, **about: Any) -> None:
        if event != _COMPILED:
            self._state.durations[event] = duration_secs
            return
        made = _event(self._state, str(about.get("fun_name", "")), duration_secs)
        self._state.clear()
        with self._lock:
            for events in self._watchers:
                events.append(made)


def _event(state: _ThreadState, fun_name: str, seconds: float) -> CompileEvent:
    unused = "" if state.cache == "hit" or state.written else _why_unused(state)
    no_hit = Unavailable("the compile was not a cache hit")
    written, unwritten = _written(state)
    return CompileEvent(
        fun_name=fun_name,
        cache="unused" if unused else state.cache,
        source=_source(state),
        sent=state.sent,
        cache_key=state.key or Unavailable("JAX did not create a cache key"),
        written=written,
        reason=unused or unwritten,
        seconds=seconds,
        retrieval_s=state.durations.get(_RETRIEVED, no_hit),
        saved_s=state.durations.get(_SAVED, no_hit),
    )


def _why_unused(state: _ThreadState) -> str:
    """Returns why the persistent cache was not used for a compile, "" if it was."""
    return cache_state.why_unused() or ("" if state.key else "JAX does not use the cache with this backend")


def _source(state: _ThreadState) -> Literal["cache", "compiler", "process", "memory"]:
    if state.cache == "hit":
        return "cache"
    # If there is a key, JAX logs after each compile in this process whether it writes the result.
    return state.source if state.source == "process" or state.compiled or not state.key else "memory"


def _written(state: _ThreadState) -> tuple[bool, str]:
    """Returns whether there is a new entry, and why not. JAX also logs "Writing" for entries that it then does not replace."""
    if state.written and state.had_entry:
        return False, "the key already had an entry, which JAX did not use and does not replace; see cache_status()"
    if state.written and not cache_state.has_entry(state.key):
        return False, "JAX wrote no entry; is it larger than jax_compilation_cache_max_size?"
    return state.written, state.reason


_recorder = _Recorder()
