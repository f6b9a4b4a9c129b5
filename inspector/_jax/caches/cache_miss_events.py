"""Reports the traces and repeated compiles of JAX in this process while they are watched.

A trace and a compile are two events. JAX traces again for other types, structures, static values and settings, and explains
the reason in a warning (`jax_explain_cache_misses`). XLA compiles a trace again for other shardings, devices, options and
transformations, which JAX does not explain. `cache_misses.py` and `compile_misses.py` determine the reasons from JAX's caches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import logging
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeAlias

import jax
from jax import monitoring
from jax._src.interpreters import partial_eval

from inspector._jax.caches import cache_misses, compile_misses
from inspector._jax.caches.cache_misses import Event, Miss
from inspector._jax.lowering.stages import Traced
from inspector.support.packages import is_library_file

_log = logging.getLogger(__name__)
_FLAG = "jax_explain_cache_misses"
_BEGINS = cache_misses.BEGINS
_COMPILING = "/jax/core/compile/"  # traces, lowerings and compiles
_TRACED = "/jax/core/compile/jaxpr_trace_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"

Watcher: TypeAlias = Callable[[Miss], object]
"""Receives each trace and repeated compile, on the thread that traces. `called_at` is a line of the user's code."""
Spent: TypeAlias = Callable[[str, float], object]
"""Receives the name of a function and the seconds that JAX spent on a trace, a lowering or a compile of it."""


def watch(watcher: Watcher, spent: Spent | None = None) -> None:
    """Starts to report to a watcher, from all threads. Functions of JAX itself are left out, as in JAX's own explanations.

    Args:
      watcher: receives the traces and repeated compiles; identifies the watch.
      spent: receives the durations of all traces and compiles, with those of JAX's functions; None for none.
    """
    _listener.add(watcher, spent)


def unwatch(watcher: Watcher) -> None:
    """Stops reporting to a watcher."""
    _listener.remove(watcher)


def compile_between(first: Traced, second: Traced) -> Miss | None:
    """Returns the compile that a second call causes although JAX has its trace; None if one compiled program serves both."""
    miss = compile_misses.compile_between(first, second)
    return None if miss is None else _with_users_place(miss)


def _with_users_place(miss: Miss) -> Miss:
    return dataclasses.replace(miss, called_at=_users_place(miss.called_at))


class _Listener:
    """Receives JAX's explanations of traces and its events of compiles while there are watchers; one per process.

    Replaces the logger that JAX writes explanations to, because a level, `logging.disable` or a configuration may silence
    that logger.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._watchers: list[Watcher] = []
        self._spent: dict[Watcher, Spent] = {}
        self._was_on = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def add(self, watcher: Watcher, spent: Spent | None) -> None:
        with self._lock:
            self._watchers.append(watcher)
            if spent is not None:
                self._spent[watcher] = spent
            if len(self._watchers) == 1:
                self._was_on = bool(jax.config.values[_FLAG])
                jax.config.update(_FLAG, True)
                partial_eval.logger = self  # type: ignore[assignment]  # has everything that JAX uses of it
                monitoring.register_event_duration_secs_listener(self._on_duration)
        self._observe("trace", _UNNAMED, cache_misses.begin_watch)

    def remove(self, watcher: Watcher) -> None:
        with self._lock:
            self._watchers = [each for each in self._watchers if each != watcher]
            self._spent.pop(watcher, None)
            if not self._watchers:
                partial_eval.logger = self._logger
                jax.config.update(_FLAG, self._was_on)
                with contextlib.suppress(AssertionError):  # the user may have cleared JAX's listeners
                    monitoring.unregister_event_duration_listener(self._on_duration)

    def log(self, level: int, message: object, *args: object, **rest: Any) -> None:
        """Handles an explanation, and passes it on if the user enabled JAX's explanations."""
        text = str(message)
        is_explanation = text.startswith(_BEGINS)
        if is_explanation:
            frame = _caller()
            self._observe("trace", _UNNAMED, lambda: cache_misses.trace(frame, text))
        if self._was_on or not is_explanation:
            self._logger.log(level, message, *args, **rest)

    def _on_duration(self, event: str, duration_secs: float, **about: Any) -> None:
        fun_name = str(about.get("fun_name", _UNNAMED))
        if event.startswith(_COMPILING):
            with self._lock:
                receivers = tuple(self._spent.values())
            for receive in receivers:
                receive(fun_name.removeprefix("jit(").removesuffix(")"), duration_secs)
        if event == _TRACED:
            self._observe("trace", fun_name, cache_misses.trace_ended)
        elif event == _COMPILED:
            frame = _caller()
            self._observe("compile", fun_name, lambda: compile_misses.compile_again(frame))

    def _observe(self, event: Event, fun_name: str, find_miss: Callable[[], Miss | None]) -> None:
        """Reports the cache miss, if there is one, or else the error. Raises nothing: JAX runs it within the user's calls."""
        try:
            miss = find_miss()
            miss = None if miss is None else _with_users_place(miss)
        except Exception as error:
            explanation = f"inspector could not determine the reason: {type(error).__name__}: {error}"
            miss = Miss(fun_name, "", "", "unknown", (), explanation, event)
        if miss is None:
            return
        with self._lock:
            watchers = tuple(self._watchers)
        for watcher in watchers:
            try:
                watcher(miss)
            except Exception:
                _log.exception("A retrace could not be reported.")


_UNNAMED = "<unnamed function>"


def _caller() -> FrameType:
    """Returns the frame that called the caller of this function."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    assert frame is not None, "CPython has frames"
    return frame


def _users_place(place: str) -> str:
    """Returns the innermost line on the stack outside libraries, if `place` is in a library or unknown; otherwise `place`."""
    frame = inspect.currentframe() if not place or is_library_file(place) else None
    while frame and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else place


_listener = _Listener(partial_eval.logger)
