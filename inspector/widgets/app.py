"""The Explorer's browser app, seen from Python: a mailbox for messages, both ways.

    app = App("train_step", on_request=handle)          # an ipywidget: display it
    app.publish(messages.Variant(type="variant", variant=0, ...))
    app.publish_document(TextDocument(pane="hlo", variant=None, language="hlo", text=..., ...))

`publish` and `publish_document` may be called from any thread, before, while and after the app is
on screen. The app keeps the latest message of each kind (and variant, pane, stage) and sends them
all again to every browser that says `ready`: a reloaded page and a second tab show the same.
Several views in one page share one copy.

`on_request(message)` gets what the browser asks for (`messages.RunRequest`, `CancelRequest`,
`RemoveRequest`, `GraphRequest`, `SelectionChanged`), checked, on the thread of the comm: it must
start work and return. What it raises is shown to the user as a notice.

This module knows nothing of JAX, engines or lowering; it carries messages (`messages.py`), and
long texts as compressed buffers, never as traits, because traits are saved in the notebook.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import anywidget
import numpy as np
import numpy.typing as npt

from inspector.widgets import messages
from inspector.widgets.lifetime import hold_weakly

_STATIC = Path(__file__).parent / "static"
# Level 1: 29 MB of HLO in 0.25 s instead of 0.8, for 20 % more bytes on a mostly local wire.
_GZIP_LEVEL = 1

RequestHandler = Callable[[messages.FromBrowser], None]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TextDocument:
    """A text for one of the text panes, with what is known of its lines.

    Attributes:
      pane: where it is shown.
      variant: whose it is; None when all variants share it.
      language: how it is highlighted.
      text: lines separated by a newline character.
      line_origins: one index into `origins` a line, -1 for none.
      files: source files by index.
      origins: for each index the origins that a line has together, mostly one: operation name and
        frames, innermost first, each (index into `files`, line from 1).
        A line of the source pane has one frame, itself; its operation name is "".
      labels: the line number shown for each line, None for a heading; None: 1, 2, 3, ...
      instructions: the name of the instruction that each line defines, without `%`, or None.
      title: of the pane, such as a file name.
      phases: for each index the part of a differentiated program, "" where it is not known; () where none is.
    """

    pane: messages.TextPane
    variant: int | None
    language: messages.Language
    text: str
    line_origins: Sequence[int] | npt.NDArray[np.int32]
    files: Sequence[str] = ()
    origins: Sequence[Sequence[tuple[str, Sequence[tuple[int, int]]]]] = ()
    labels: Sequence[int | None] | None = None
    instructions: Sequence[str | None] | None = None
    title: str = ""
    phases: Sequence[str] = ()

    @property
    def line_count(self) -> int:
        """Lines of `text`; an empty text has one."""
        return self.text.count("\n") + 1

    def message(self) -> messages.Document:
        """The message that announces the document."""
        return messages.Document(
            type="document",
            pane=self.pane,
            variant=self.variant,
            language=self.language,
            title=self.title,
            line_count=self.line_count,
        )

    def buffers(self) -> list[bytes]:
        """The message's four buffers.

        Raises:
          ValueError: a table has not one entry a line, or an origin does not exist.
        """
        origin_of_line = np.asarray(self.line_origins, dtype="<i4")
        self._check(origin_of_line)
        origins: messages.OriginTable = {
            "files": list(self.files),
            "origins": [
                [(name, [(file, line) for file, line in frames]) for name, frames in entry] for entry in self.origins
            ],
            "phases": list(self.phases),
        }
        lines: messages.LineTable = {
            "labels": None if self.labels is None else list(self.labels),
            "instructions": None if self.instructions is None else list(self.instructions),
        }
        texts = (self.text.encode("utf-8", "replace"), origin_of_line.tobytes(), _json(origins), _json(lines))
        return [gzip.compress(t, _GZIP_LEVEL, mtime=0) for t in texts]

    def _check(self, origin_of_line: npt.NDArray[np.int32]) -> None:
        tables = {"line_origins": origin_of_line, "labels": self.labels, "instructions": self.instructions}
        for name, table in tables.items():
            if table is not None and len(table) != self.line_count:
                raise ValueError(
                    f"{name} of the {self.pane} document has {len(table)} entries;"
                    f" the text has {self.line_count} lines, and every line needs one."
                )
        if origin_of_line.size and not -1 <= origin_of_line.min() <= origin_of_line.max() < len(self.origins):
            raise ValueError(
                f"line_origins of the {self.pane} document runs from {origin_of_line.min()} to"
                f" {origin_of_line.max()}; expected -1 to {len(self.origins) - 1}, an index into origins."
            )


KERNEL_PANES: tuple[messages.Pane, ...] = get_args(messages.Pane)
"""Every pane: for programs with Pallas kernels."""
PANES = tuple(pane for pane in KERNEL_PANES if pane != "pallas")
"""Those of any program."""


class App(anywidget.AnyWidget):
    """The widget. See the module's description for its use and its threads."""

    # Texts, because anywidget would tie every widget to the file's watcher for ever.
    _esm = (_STATIC / "explorer.js").read_text("utf-8")
    _css = (_STATIC / "explorer.css").read_text("utf-8")

    def __init__(
        self,
        name: str,
        *,
        panes: Sequence[messages.Pane] = PANES,
        height_px: int = 700,
        side_by_side: bool = False,
        notes: Sequence[str] = (),
        on_request: RequestHandler | None = None,
    ) -> None:
        """Makes the widget; nothing is sent before a browser shows it.

        Args:
          name: what is explored, as a title.
          panes: the panes to offer, in order.
          height_px: initial height in CSS pixels.
          side_by_side: whether the optimized HLO of the variants stands side by side at first.
          notes: what the status line says of the program.
          on_request: see the module's description.
        """
        # Before the widget is opened: a browser that has the app's code answers while it still is being made.
        self._lock = threading.RLock()
        self._kept: dict[Hashable, _Kept] = {}
        self._has_client = self._is_closed = False
        self._on_request = on_request
        self.on_msg(self._receive)
        super().__init__()
        hold_weakly(self)
        hold_weakly(self.layout)
        self.publish(
            messages.Session(
                type="session",
                version=messages.VERSION,
                name=name,
                panes=list(panes),
                height_px=height_px,
                side_by_side=side_by_side,
                stored_class=self.stored_class,
                notes=list(notes),
            )
        )

    @property
    def stored_class(self) -> str:
        """The class of what a notebook keeps of the app, which the app hides on its page."""
        return f"inspector-stored-{self.model_id}"

    def publish(self, message: messages.ToBrowser, buffers: Sequence[bytes] = ()) -> None:
        """Sends a message to all browsers and keeps it for those that come later. Thread-safe.

        Args:
          message: what is told.
          buffers: what goes with it, as the message's class says.

        Raises:
          ValueError: not a message of `messages.ToBrowser`; documents go through `publish_document`.
        """
        if message["type"] == "document":
            raise ValueError("A document has buffers: use publish_document(TextDocument(...)).")
        if found := messages.problem(message, messages.ToBrowser):
            raise ValueError(f"Not a message for the browser: {found}.")
        self._publish(_Kept(message, list(buffers), time.monotonic()))

    def publish_document(self, document: TextDocument) -> None:
        """Sends a text to all browsers and keeps it for those that come later. Thread-safe.

        Raises:
          ValueError: see `TextDocument.buffers`.
        """
        self._publish(_Kept(document.message(), document.buffers(), time.monotonic()))

    def close(self) -> None:
        """Takes the widget off the page and forgets all messages; later ones are dropped. May be called twice."""
        with self._lock:
            self._is_closed = True
            self._kept.clear()
        self._on_request = None
        self.layout.close()
        super().close()

    def _publish(self, kept: _Kept) -> None:
        message = kept.message
        with self._lock:
            if self._is_closed:
                return
            if message["type"] == "variant_removed":
                gone = message["variant"]
                self._kept = {s: k for s, k in self._kept.items() if gone not in k.variants()}
            elif (slot := kept.slot()) is not None:
                self._kept[slot] = kept
            if self._has_client:
                self.send(message, kept.buffers)

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Called by ipywidgets with a message of the browser, on the comm's thread."""
        if found := messages.problem(content, messages.FromBrowser):
            text = f"The browser sent what Python does not understand ({found}). Reload the page."
            self.publish(messages.Notice(type="notice", level="error", message=text))
            return
        message = cast(messages.FromBrowser, content)
        if message["type"] == "ready":
            self._replay(message["client"])
        elif self._on_request is not None:
            try:
                self._on_request(message)
            except Exception as error:  # there is no caller to raise to: show it
                self.publish(messages.notice_of(error))

    def _replay(self, client: str) -> None:
        with self._lock:
            self._has_client = True
            for kept in self._kept.values():
                self.send({**kept.current(), "to": client}, kept.buffers)


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """A message as it was published at `time_s` of the monotonic clock."""

    message: messages.ToBrowser
    buffers: list[bytes]
    time_s: float

    def slot(self) -> Hashable | None:
        """What a later message replaces; None for a message that is not kept."""
        message = self.message
        match message["type"]:
            case "notice" | "variant_removed" | "graph" | "tuned" | "flags" | "said" | "pass_change" | "code_text":
                return None  # what answers a request is asked for again
            case "recording":
                return ("recording", message["variant"], message["product"])
            case "unavailable" | "document":
                return ("document", message["pane"], message["variant"])
            case "collectives":
                return ("collectives", message["variant"], message["stage"])
            case "diff":
                return ("diff", message["baseline"], message["variant"])
            case kind:
                return (kind, cast(Mapping[str, Any], message).get("variant"))

    def variants(self) -> tuple[int | None, ...]:
        """The variants without which the message means nothing."""
        fields = cast(Mapping[str, Any], self.message)
        return tuple(fields[name] for name in ("variant", "baseline") if name in fields)

    def current(self) -> dict[str, Any]:
        """The message with its elapsed time brought up to now, while the work goes on."""
        message = dict(self.message)
        if message.get("state") in ("queued", "running"):
            message["elapsed_s"] = cast(float, message["elapsed_s"]) + time.monotonic() - self.time_s
        return message


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
