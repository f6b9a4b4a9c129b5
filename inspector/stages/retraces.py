"""The retraces of a process: JAX's traces and repeated compiles, each with its differences from the closest previous call.

`_jax/caches/cache_miss_events.py` reports them. The values here load without JAX.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from inspector.support.columns import TableColumn, TableDescription
from inspector.support.tables import Tabular

if TYPE_CHECKING:
    import pandas as pd

    from inspector._jax.caches.cache_misses import Cause, Event, Miss, What
    from inspector._jax.lowering.stages import Traced

_MOST = 10_000
"""Maximum number of retraces that a watch keeps."""


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
        other shardings, devices or layouts, or arguments that are now committed to a device; "transformation", for a
        compile: the function is called in or outside of `vmap`, `grad`, `scan` or similar, or in one for other shapes;
        "unknown": the difference is not recorded, or an error prevented the comparison.
      changes: the differences from the closest previous call, by argument; () for a first call.
      explanation: JAX's message for a trace, inspector's for a compile.
      event: "trace": JAX traced the function, and XLA compiled it if it was called; "compile": XLA compiled a trace
        that JAX already had. Further compiles of a new trace, such as the backward pass of `grad`, have its cause.
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

    def differences(self, count: int = 1) -> tuple[RetraceDifference, ...]:
        """Returns the rows of the table: one for each change, or one without a change.

        Args:
          count: number of such calls.
        """
        return tuple(RetraceDifference(self, change, count) for change in self.changes or (None,))


@dataclasses.dataclass(frozen=True, slots=True)
class RetraceDifference:
    """A row of the table of retraces.

    Attributes:
      retrace: the retrace.
      change: one of its changes; None if there are none.
      count: number of such calls.
    """

    retrace: Retrace
    change: Changed | None
    count: int = 1


_REMARKS: Mapping[str, str] = {
    "first call": "",
    "defined again": "A new function object with the same source, as in a loop or a factory. Define and jit it once.",
    "cache cleared": "jax.clear_caches() or clear_cache() removed the trace.",
    "placement": "Different shardings, devices or committed arguments.",
    "arguments": "Different argument types.",
    "structure": "Different pytree structure or static value.",
    "context": "Different JAX settings, such as a mesh or a precision.",
    "transformation": "Called in or outside of a transformation, such as vmap, grad or scan.",
    "unknown": "The difference is not recorded.",
}

RETRACE_COLUMNS: TableDescription[RetraceDifference] = TableDescription(
    TableColumn(
        "function", "text", lambda row: row.retrace.fun_name, "function", "Name of the function",
        views=("data_frame", "pane", "check"),
    ),
    TableColumn("called_at", "text", lambda row: row.retrace.called_at, "call", "Line of the call", views=("data_frame", "pane")),
    TableColumn("count", "int", lambda row: row.count, "times", "Number of calls", views=("pane",)),
    TableColumn(
        "event", "text", lambda row: row.retrace.event, "event", "JAX traced again, or XLA compiled a trace again",
        views=("data_frame", "pane"),
    ),
    TableColumn("cause", "text", lambda row: row.retrace.cause),
    TableColumn(
        "what", "text", lambda row: row.change and row.change.what, "difference", "Shape, dtype, weak type, ...",
        views=("data_frame", "pane", "check"), text=lambda row: row.change.what if row.change else row.retrace.cause,
    ),
    TableColumn(
        "where", "text", lambda row: row.change and row.change.where, "argument", "Argument or JAX setting",
        views=("data_frame", "pane", "check"),
    ),
    TableColumn(
        "now", "text", lambda row: row.change and row.change.now, "now", "Value in this call",
        views=("data_frame", "pane", "check"),
        text=lambda row: row.change.now if row.change else _REMARKS.get(row.retrace.cause, _REMARKS["unknown"]),
    ),
    TableColumn(
        "before", "text", lambda row: row.change and row.change.before, "before",
        "Value in the most similar earlier call", views=("data_frame", "pane", "check"),
    ),
    TableColumn("defined_at", "text", lambda row: row.retrace.defined_at),
    first=("function", "called_at", "cause", "what", "where", "now", "before", "defined_at", "event"),
    has_reasons=False,
)  # fmt: skip


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

    def append(miss: Miss) -> None:
        retraces.append(_retrace(miss))

    cache_miss_events.watch(append)
    try:
        yield Retraces(retraces)
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
        self._callback: weakref.WeakMethod[Callable[[], None]] | None = None
        self._unwatch: Callable[[], None] | None = None
        self.retraces = Retraces(self._latest)

    @property
    def is_on(self) -> bool:
        """True while the watch is started."""
        return self._callback is not None

    def start(self, callback: Callable[[], None]) -> None:
        """Starts the watch.

        Args:
          callback: a method, held by a weak reference; called after each retrace, on the tracing thread.
        """
        from inspector._jax.caches import cache_miss_events

        if not self.is_on:
            cache_miss_events.watch(self._append)
            # Kept because `stop` may be called when Python exits, which is too late to import.
            self._unwatch = functools.partial(cache_miss_events.unwatch, self._append)
        self._callback = weakref.WeakMethod(callback)

    def stop(self) -> None:
        """Stops the watch; keeps the retraces listed so far."""
        if self._unwatch is not None:
            self._unwatch()
        self._callback = self._unwatch = None

    def _append(self, miss: Miss) -> None:
        self._latest.append(_retrace(miss))
        notify = self._callback and self._callback()
        if notify:
            notify()
