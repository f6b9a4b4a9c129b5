"""Why JAX traced and compiled again: what differed from the closest call before, of this process while it is watched."""

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
"""Different retraces that are shown; the same ones of a loop are one."""
_LONGEST = 300
_PAUSE_S = 0.2
"""Between two messages, however fast a program is traced again."""


class RetraceChange(TypedDict):
    """What a call has other than the closest one before; see `inspector._jax.caches.retraces.Changed`."""

    what: str
    where: str
    now: str
    before: str


class RetraceRow(TypedDict):
    """Calls that were traced again for the same reason.

    Attributes:
      event: "trace" or "compile"; see `inspector._jax.caches.retraces.Retrace`.
      is_explored: whether the function is the Explorer's.
      call: the text of the line of the call; "" where it cannot be read.
      remark: what the cause means where nothing else is known; "" beside changes.
      count: how many there were.
      explanation: JAX's words of the last.
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
    """What was traced again while somebody watched, the latest first.

    Attributes:
      watching: whether the process is watched now.
      was_watched: whether it ever was.
      first_calls: functions that were traced for the first time meanwhile.
      left_out: rows that there are besides.
      note: why nothing can be watched; "" where it can.
    """

    type: Literal["retraces"]
    watching: bool
    was_watched: bool
    first_calls: int
    rows: list[RetraceRow]
    left_out: int
    note: str


class WatchRetracesRequest(TypedDict):
    """Watch the process of the user's Python, or no longer."""

    type: Literal["watch_retraces"]
    on: bool


class RetracesPane(Pane):
    """See the module."""

    def __init__(self, name: str, context: Context) -> None:
        """Watches nothing yet."""
        super().__init__(name, context)
        self._root, self._explored = Root(), ""
        self._was_watched = False
        self._lock = threading.Lock()
        self._pause: threading.Timer | None = None

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """What there is to watch; the same for all variants."""
        if variant is not None:
            return []
        self._root, self._explored = lowered.root, lowered.program.name.removeprefix("jit_")
        return [self._message()]

    def answer(self, request: WatchRetracesRequest) -> None:
        """Starts to listen, or stops."""
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
        """Listens no longer."""
        watch = self.context.work().retraces
        if watch is not None:
            watch.stop()
        with self._lock:
            if self._pause is not None:
                self._pause.cancel()

    def _on_retrace(self) -> None:
        """On the thread that traces: what comes meanwhile is told together."""
        with self._lock:
            if self._pause is None:
                self._pause = threading.Timer(_PAUSE_S, self._tell)
                self._pause.daemon = True
                self._pause.start()

    def _tell(self) -> None:
        with self._lock:
            self._pause = None
        self.context.later(self._publish)

    def _publish(self) -> None:
        self.context.publish(self._message())

    def _message(self) -> Retraces:
        watch = self.context.work().retraces
        found = [] if watch is None else [*watch.found]
        again = [each for each in found if each.cause != "first call"]
        counts = collections.Counter(map(_key, again))
        latest: dict[tuple[object, ...], Retrace] = {}
        for each in reversed(again):
            latest.setdefault(_key(each), each)
        shown = [*latest][:_MOST]
        return Retraces(
            type="retraces",
            watching=watch is not None and watch.is_on,
            was_watched=self._was_watched,
            first_calls=len(found) - len(again),
            rows=[self._row(latest[key], counts[key]) for key in shown],
            left_out=len(latest) - len(shown),
            note="" if watch is not None else _NOT_HERE,
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


_NOT_HERE = "This was loaded from a file, without its function. What this process compiles again says inspector.watch_retraces()."
_REMARKS: Mapping[str, str] = {
    "defined again": "A new function object of the same source, as in a loop or a factory. Define and jit it once.",
    "cache cleared": "jax.clear_caches() or clear_cache() removed the trace.",
    "placement": "Other shardings, devices or committed arguments.",
    "arguments": "other types of arguments",
    "structure": "another pytree or static value",
    "context": "other settings of JAX, such as a mesh or a precision",
    "unknown": "The difference is not recorded.",
}


def _key(retrace: Retrace) -> tuple[object, ...]:
    changes = tuple((c.what, c.where, c.now, c.before) for c in retrace.changes)
    return retrace.fun_name, retrace.defined_at, retrace.called_at, retrace.event, retrace.cause, changes


def _place(said: str) -> tuple[str, int] | None:
    """File and line of `file:3`, `file:3:4 (name)`; None of anything else."""
    found = re.fullmatch(r"(.+?):(\d+)(?::\d+)?(?: \(.*\))?", said)
    return (found[1], int(found[2])) if found else None


def _line(place: tuple[str, int] | None) -> messages.SourceLine | None:
    return None if place is None else messages.SourceLine(file=display_file(place[0]), line=place[1], library="")


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def retraces_html(told: Retraces) -> str:
    """What was told of retraces for a page without an app; "" where nobody watched."""
    if not told["was_watched"]:
        return ""
    if not told["rows"]:
        return "<p>Nothing was compiled again while it was watched.</p>"
    head = "".join(f"<th>{name}</th>" for name in ("function", "call", "times", "event", "what differed"))
    rows = "".join(
        f"<tr><td>{html.escape(row['function'])}</td><td>{html.escape(_text(row['called_at']))}</td>"
        f"<td>{row['count']}</td><td>{html.escape(row['event'])}</td><td>{html.escape(_said(row))}</td></tr>"
        for row in told["rows"]
    )
    return f"<details><summary>Compiled again</summary><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"


def _text(line: messages.SourceLine | None) -> str:
    return "" if line is None else f"{line['file']}:{line['line']}"


def _said(row: RetraceRow) -> str:
    changes = (f"{c['what']} of {c['where']}: {c['now']}, before {c['before']}" for c in row["changes"])
    return "; ".join(changes) or row["remark"]
