"""The Retraces pane: why JAX traced or compiled a function again. Shows the difference from the closest earlier call while watching."""

from __future__ import annotations

import collections
import html
import linecache
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict

from inspector.hlo.source import Root
from inspector.stages.lowered import Lowered
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.panes.framework.pane import Context, Entry, Pane
from inspector.widgets.work import Retrace

_MOST = 200
"""Distinct retraces that are shown; identical ones, as in a loop, count as one."""
_LONGEST = 300
_PAUSE_S = 0.2
"""Minimum time between two messages, however often a program is traced again."""


class RetraceChange(TypedDict):
    """A difference between a call and the closest earlier call; see `inspector._jax.caches.retraces.Changed`."""

    what: str
    where: str
    now: str
    before: str


class RetraceRow(TypedDict):
    """Calls that were traced again for the same reason.

    Attributes:
      event: "trace" or "compile"; see `inspector._jax.caches.retraces.Retrace`.
      is_explored: whether the function is the Explorer's.
      call: source line of the call; "" if it cannot be read.
      remark: explanation of the cause if no change is known; "" if there are changes.
      count: number of such calls.
      explanation: JAX's explanation of the latest call.
    """

    function: str
    event: str
    is_explored: bool
    defined_at: messages.SourceLine | None
    called_at: messages.SourceLine | None
    call: str
    cause: str
    remark: str
    changes: list[RetraceChange]
    count: int
    explanation: str


class Retraces(TypedDict):
    """The functions that were traced again while watching, the latest first.

    Attributes:
      watching: whether the process is being watched.
      was_watched: whether it has ever been watched.
      first_calls: number of functions that were traced for the first time while watching.
      left_out: number of rows that are not listed.
      note: the reason why watching is not possible; "" if it is.
    """

    type: Literal["retraces"]
    watching: bool
    was_watched: bool
    first_calls: int
    rows: list[RetraceRow]
    left_out: int
    note: str


class WatchRetracesRequest(TypedDict):
    """Starts or stops watching the process of the user's Python."""

    type: Literal["watch_retraces"]
    on: bool


class RetracesPane(Pane):
    """Shows the retraces of this process."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is watched yet."""
        super().__init__(name, context)
        self._root, self._explored = Root(), ""
        self._was_watched = False
        self._lock = threading.Lock()
        self._pause: threading.Timer | None = None

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """Returns the initial state, which all variants share."""
        if variant is not None:
            return []
        self._root, self._explored = lowered.root, lowered.program.name.removeprefix("jit_")
        return [self._message()]

    def answer(self, request: WatchRetracesRequest) -> None:
        """Starts or stops watching."""
        watch = self.context.work().retraces
        if watch is None:
            return
        if request["on"]:
            self._was_watched = True
            watch.start(self._on_retrace)
        else:
            watch.stop()
        self._publish()

    def close(self) -> None:
        """Stops watching."""
        watch = self.context.work().retraces
        if watch is not None:
            watch.stop()
        with self._lock:
            if self._pause is not None:
                self._pause.cancel()

    def _on_retrace(self) -> None:
        """Schedules a message, on the thread that traces; retraces in the meantime go into the same message."""
        with self._lock:
            if self._pause is None:
                self._pause = threading.Timer(_PAUSE_S, self._publish_later)
                self._pause.daemon = True
                self._pause.start()

    def _publish_later(self) -> None:
        with self._lock:
            self._pause = None
        self.context.later(self._publish)

    def _publish(self) -> None:
        self.context.publish(self._message())

    def _message(self) -> Retraces:
        watch = self.context.work().retraces
        retraces = [] if watch is None else [*watch.found]
        again = [each for each in retraces if each.cause != "first call"]
        counts = collections.Counter(map(_key, again))
        latest: dict[tuple[object, ...], Retrace] = {}
        for each in reversed(again):
            latest.setdefault(_key(each), each)
        shown = [*latest][:_MOST]
        return Retraces(
            type="retraces",
            watching=watch is not None and watch.is_on,
            was_watched=self._was_watched,
            first_calls=len(retraces) - len(again),
            rows=[self._row(latest[key], counts[key]) for key in shown],
            left_out=len(latest) - len(shown),
            note="" if watch is not None else _NO_FUNCTION,
        )

    def _row(self, retrace: Retrace, count: int) -> RetraceRow:
        defined, called = _place(retrace.defined_at), _place(retrace.called_at)
        own = (self._root.file, self._root.lines[0])
        is_elsewhere = defined is not None and defined[0] == own[0] and defined != own
        return RetraceRow(
            function=_cut(retrace.fun_name),
            event=retrace.event,
            is_explored=retrace.fun_name == self._explored and not is_elsewhere,
            defined_at=_line(defined),
            called_at=_line(called),
            call="" if called is None else _cut(linecache.getline(*called).strip()),
            cause=retrace.cause,
            remark="" if retrace.changes else _REMARKS.get(retrace.cause, _REMARKS["unknown"]),
            changes=[
                RetraceChange(what=c.what, where=_cut(c.where), now=_cut(c.now), before=_cut(c.before))
                for c in retrace.changes
            ],
            count=count,
            explanation=_cut(retrace.explanation, 10 * _LONGEST),
        )


_NO_FUNCTION = "This exploration was loaded from a file, without its function. To watch this process, use inspector.watch_retraces()."
_REMARKS: Mapping[str, str] = {
    "defined again": "A new function object with the same source, as in a loop or a factory. Define and jit it once.",
    "cache cleared": "jax.clear_caches() or clear_cache() removed the trace.",
    "placement": "Different shardings, devices or committed arguments.",
    "arguments": "Different argument types.",
    "structure": "Different pytree structure or static value.",
    "context": "Different JAX settings, such as a mesh or a precision.",
    "unknown": "The difference is not recorded.",
}


def _key(retrace: Retrace) -> tuple[object, ...]:
    changes = tuple((c.what, c.where, c.now, c.before) for c in retrace.changes)
    return retrace.fun_name, retrace.defined_at, retrace.called_at, retrace.event, retrace.cause, changes


def _place(text: str) -> tuple[str, int] | None:
    """Returns file and line of `file:3` or `file:3:4 (name)`; None for any other text."""
    match = re.fullmatch(r"(.+?):(\d+)(?::\d+)?(?: \(.*\))?", text)
    return (match[1], int(match[2])) if match else None


def _line(place: tuple[str, int] | None) -> messages.SourceLine | None:
    return None if place is None else messages.SourceLine(file=display_file(place[0]), line=place[1], library="")


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def retraces_html(retraces: Retraces) -> str:
    """Returns the retraces as HTML for a page without the app; "" if the process was never watched."""
    if not retraces["was_watched"]:
        return ""
    if not retraces["rows"]:
        return "<p>No recompilations while watching.</p>"
    head = "".join(f"<th>{name}</th>" for name in ("function", "call", "times", "event", "difference"))
    rows = "".join(
        f"<tr><td>{html.escape(row['function'])}</td><td>{html.escape(_text(row['called_at']))}</td>"
        f"<td>{row['count']}</td><td>{html.escape(row['event'])}</td><td>{html.escape(_difference_text(row))}</td></tr>"
        for row in retraces["rows"]
    )
    return f"<details><summary>Recompilations</summary><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"


def _text(line: messages.SourceLine | None) -> str:
    return "" if line is None else f"{line['file']}:{line['line']}"


def _difference_text(row: RetraceRow) -> str:
    changes = (f"{c['what']} of {c['where']}: {c['now']}, previously {c['before']}" for c in row["changes"])
    return "; ".join(changes) or row["remark"]
