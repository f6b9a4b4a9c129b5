"""The retraces of a process: JAX's traces and repeated compiles, each with its differences from the closest previous call.

`_jax/caches/cache_miss_events.py` reports them. The values here load without JAX.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from inspector.stages.retrace_events import RETRACE_COLUMNS, Changed, Retrace
from inspector.stages.retrace_findings import KINDS, retrace_findings
from inspector.support.tables import Tabular

if TYPE_CHECKING:
    import pandas as pd

    from inspector._jax.caches.cache_misses import Miss
    from inspector._jax.lowering.stages import Traced
    from inspector.stages.findings import Findings

_MOST = 10_000
"""Maximum number of retraces that a watch keeps."""


class Retraces(Tabular):
    """The retraces of a `with` block, in order; grows while it runs."""

    def __init__(self, retraces: Sequence[Retrace], spent_s: Mapping[str, float] = types.MappingProxyType({})) -> None:
        """Wraps a list and seconds by name of the function, which may grow."""
        self._retraces, self._spent_s = retraces, spent_s

    def __len__(self) -> int:
        return len(self._retraces)

    def __iter__(self) -> Iterator[Retrace]:
        return iter(tuple(self._retraces))

    def __getitem__(self, index: int) -> Retrace:
        return self._retraces[index]

    def findings(self, fun_name: str = "") -> Findings:
        """Returns what the calls could avoid, most expensive first: see docs/findings.md, `jit-in-loop`, `weak-type` and `retraced`.

        A few traces of a function are normal, and are not listed. Findings of less than 0.1 s are in `folded`.

        Args:
          fun_name: the function, or the name of its module; "" for all.
        """
        from inspector.stages.findings import watched_findings

        watched = (each for each in self if fun_name in ("", each.fun_name, each.module_name))
        return watched_findings(retrace_findings(watched, dict(self._spent_s)), KINDS)

    def table(self) -> pd.DataFrame:
        """Returns one row for each change, and one for an event without changes.

        Columns: `function, called_at, cause, what, where, now, before, defined_at, event`.
        """
        return RETRACE_COLUMNS.data_frame(each for retrace in self for each in retrace.differences())

    def __repr__(self) -> str:
        compiles = sum(each.event == "compile" for each in self)
        first = sum(each.cause == "first call" for each in self)
        lines = "".join(f"\n  {each}" for each in self if each.cause != "first call")
        again = len(self) - compiles - first
        return f"<Retraces: {first} first calls, {again} traced again, {compiles} compiled again{lines}>"


def compile_between(first: Traced, second: Traced) -> Retrace | None:
    """Returns the compile that a second call causes although JAX has its trace; None if one compiled program serves both."""
    from inspector._jax.caches import cache_miss_events

    miss = cache_miss_events.compile_between(first, second)
    return None if miss is None else _retrace(miss)


def _retrace(miss: Miss) -> Retrace:
    changes = tuple(Changed(*each) for each in miss.changes)
    return Retrace(miss.fun_name, miss.defined_at, miss.called_at, miss.cause, changes, miss.explanation, miss.event)


@contextlib.contextmanager
def watch_retraces() -> Iterator[Retraces]:
    """Lists JAX's traces and repeated compiles in this process while the `with` block runs, each with its reason.

    All threads are watched. A trace also represents the compile that follows it; a compile is listed only if JAX already had the trace.
    Functions of JAX itself are left out, as in JAX's own explanations.
    """
    from inspector._jax.caches import cache_miss_events

    retraces: list[Retrace] = []
    spent_s = collections.defaultdict[str, float](float)

    def append(miss: Miss) -> None:
        retraces.append(_retrace(miss))

    def spent(fun_name: str, seconds: float) -> None:
        spent_s[fun_name] += seconds

    cache_miss_events.watch(append, spent)
    try:
        yield Retraces(retraces, spent_s)
    finally:
        cache_miss_events.unwatch(append)


class RetraceWatch:
    """Lists JAX's retraces in this process between `start` and `stop`; can be started and stopped repeatedly.

    Attributes:
      retraces: the latest 10,000 retraces, also after `stop`.
    """

    def __init__(self) -> None:
        """Creates a stopped watch."""
        self._latest: collections.deque[Retrace] = collections.deque(maxlen=_MOST)
        self._listeners: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._unwatch: Callable[[], None] | None = None
        self._spent_s = collections.defaultdict[str, float](float)
        self.retraces = Retraces(self._latest, self._spent_s)

    @property
    def is_on(self) -> bool:
        """True while the watch is started."""
        return self._unwatch is not None

    def start(self) -> None:
        """Starts the watch."""
        from inspector._jax.caches import cache_miss_events

        if not self.is_on:
            cache_miss_events.watch(self._append, self._add_spent)
            # Kept because `stop` may be called when Python exits, which is too late to import.
            self._unwatch = functools.partial(cache_miss_events.unwatch, self._append)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Adds a method, held by a weak reference, that is called after each retrace, on the tracing thread."""
        self._listeners.append(weakref.WeakMethod(listener))

    def stop(self) -> None:
        """Stops the watch; keeps the retraces listed so far."""
        if self._unwatch is not None:
            self._unwatch()
        self._unwatch = None

    def _add_spent(self, fun_name: str, seconds: float) -> None:
        self._spent_s[fun_name] += seconds

    def _append(self, miss: Miss) -> None:
        self._latest.append(_retrace(miss))
        for reference in self._listeners:
            if notify := reference():
                notify()
