"""The Retraces pane: why JAX traced or compiled a function again. Shows the difference from the closest earlier call while watching."""

from __future__ import annotations

import collections
import dataclasses
import html
import linecache
import threading
import time
from collections.abc import Iterable
from typing import Literal, TypedDict

from inspector.hlo.source import Root, place_of
from inspector.stages.lowered import Lowered
from inspector.stages.retrace_events import RETRACE_COLUMNS, Retrace
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.described_tables import cells_of, heads_of, text_of
from inspector.widgets.panes.framework.pane import Context, Entry, Pane

_MOST = 200
"""Distinct retraces that are shown; identical ones, as in a loop, count as one."""
_LONGEST = 300
_PAUSE_S = 0.2
"""Minimum time between two messages, however often a program is traced again."""


class RetraceRow(TypedDict):
    """Calls that were traced again for the same reason.

    Attributes:
      is_explored: whether the function is the Explorer's.
      call: source line of the call; "" if it cannot be read.
      count: number of such calls.
      explanation: JAX's explanation of the latest call.
      differences: cells of the table, in the order of `RetracesMessage.columns`, for each difference from the closest earlier call.
    """

    function: str
    is_explored: bool
    defined_at: messages.SourceLine | None
    called_at: messages.SourceLine | None
    call: str
    count: int
    explanation: str
    differences: list[list[messages.TableCell]]


class RetracesMessage(TypedDict):
    """The functions that were traced again while watching, the latest first.

    Attributes:
      watching: whether the process is being watched.
      was_watched: whether it has ever been watched.
      since: local time of the first start, such as "12:03:04"; "" before it.
      columns: headings of the table.
      first_calls: number of functions that were traced for the first time while watching.
      left_out: number of rows that are not listed.
      note: the reason why watching is not possible; "" if it is.
    """

    type: Literal["retraces"]
    watching: bool
    was_watched: bool
    since: str
    first_calls: int
    columns: list[messages.TableHead]
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
        self._was_watched, self._since = False, ""
        self._lock = threading.Lock()
        self._pause: threading.Timer | None = None
        if (watch := context.work().retraces) is not None:
            watch.add_listener(self._on_retrace)

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """Returns the initial state, which all variants share."""
        if variant is not None:
            return []
        self._root, self._explored = lowered.root, lowered.program.name
        return [self._message()]

    def answer(self, request: WatchRetracesRequest) -> None:
        """Starts or stops watching."""
        watch = self.context.work().retraces
        if watch is None:
            return
        if request["on"]:
            if not self._was_watched:
                self._since = time.strftime("%H:%M:%S")
            self._was_watched = True
            watch.start()
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

    def _message(self) -> RetracesMessage:
        watch = self.context.work().retraces
        retraces = [] if watch is None else [*watch.retraces]
        again = [each for each in retraces if each.cause != "first call"]
        counts = collections.Counter(map(_key, again))
        latest: dict[Retrace, Retrace] = {}
        for each in reversed(again):
            latest.setdefault(_key(each), each)
        shown = [*latest][:_MOST]
        return RetracesMessage(
            type="retraces",
            watching=watch is not None and watch.is_on,
            was_watched=self._was_watched,
            since=self._since,
            first_calls=len(retraces) - len(again),
            columns=heads_of(RETRACE_COLUMNS),
            rows=[self._row(latest[key], counts[key]) for key in shown],
            left_out=len(latest) - len(shown),
            note="" if watch is not None else _NO_FUNCTION,
        )

    def _row(self, retrace: Retrace, count: int) -> RetraceRow:
        defined, called = place_of(retrace.defined_at), place_of(retrace.called_at)
        own = (self._root.file, self._root.lines[0])
        is_elsewhere = defined is not None and defined[0] == own[0] and defined != own
        shown = dataclasses.replace(
            retrace,
            fun_name=_cut(retrace.fun_name),
            called_at=_text(_line(called)),
            changes=tuple(
                dataclasses.replace(c, where=_cut(c.where), now=_cut(c.now), before=_cut(c.before))
                for c in retrace.changes
            ),
        )
        return RetraceRow(
            function=shown.fun_name,
            is_explored=retrace.module_name == self._explored and not is_elsewhere,
            defined_at=_line(defined),
            called_at=_line(called),
            call="" if called is None else _cut(linecache.getline(*called).strip()),
            count=count,
            explanation=_cut(retrace.explanation, 10 * _LONGEST),
            differences=[cells_of(RETRACE_COLUMNS, each) for each in shown.differences(count)],
        )


_NO_FUNCTION = "This exploration was loaded from a file, without its function. To watch this process, use inspector.watch_retraces()."


def _key(retrace: Retrace) -> Retrace:
    """Returns a value that is equal for calls that were traced again for the same reason."""
    return dataclasses.replace(retrace, explanation="")


def _line(place: tuple[str, int] | None) -> messages.SourceLine | None:
    return None if place is None else messages.SourceLine(file=display_file(place[0]), line=place[1], library="")


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def retraces_html(retraces: RetracesMessage) -> str:
    """Returns the retraces as HTML for a page without the app; "" if the process was never watched."""
    if not retraces["was_watched"]:
        return ""
    if not retraces["rows"]:
        return "<p>No retraces while watching.</p>"
    head = "".join(f"<th>{html.escape(column['title'])}</th>" for column in retraces["columns"])
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text_of(cell))}</td>" for cell in cells) + "</tr>"
        for row in retraces["rows"]
        for cells in row["differences"]
    )
    return f"<details><summary>Retraces</summary><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"


def _text(line: messages.SourceLine | None) -> str:
    return "" if line is None else f"{line['file']}:{line['line']}"
