"""`Retrace`: a call for which JAX had no trace or no executable, with its differences from the closest previous call."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from inspector.support.columns import TableColumn, TableDescription

if TYPE_CHECKING:
    from inspector._jax.caches.cache_misses import Cause, Event, What


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

    @property
    def module_name(self) -> str:
        """JAX's name of the function's module, such as `jit_step` or `jit__lambda`."""
        return re.sub(r"[^\w.-]", "_", f"jit({self.fun_name})").rstrip("_")

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
