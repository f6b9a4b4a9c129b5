"""The Explorer's browser app, seen from Python: a mailbox for messages, both ways.

    app = App("train_step", on_request=handle)          # an ipywidget: display it
    app.publish(messages.Variant(type="variant", variant=0, ...))
    app.publish_document(TextDocument(pane="hlo", variant=None, language="hlo", text=..., ...))

`publish` and `publish_document` may be called from any thread, before, while and after the app is
on screen. The app keeps the latest message of each kind (and variant, pane, stage) and sends them
all again to every browser that says `ready`: a reloaded page and a second tab show the same.
Several views in one page share one copy.

`on_request(message)` gets what the browser asks for (`FromBrowser` of `panes/registry.py`), checked, on the
thread of the comm: it must start work and return. What it raises is shown to the user as a notice.

This module knows nothing of JAX, engines or lowering; it carries messages (`messages/`), and
long texts as compressed buffers, never as traits, because traits are saved in the notebook.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import anywidget
import traitlets

from inspector.widgets import messages
from inspector.widgets.documents import TextDocument
from inspector.widgets.lifetime import hold_weakly
from inspector.widgets.panes.registry import FromBrowser, ToBrowser, offered
from inspector.widgets.saving.app_code import code, loader
from inspector.widgets.saving.transcript import SentMessage
from inspector.widgets.subshells import leave_to_front_end

_USUAL_PANES = [line.name for line in offered(has_kernels=False, has_partitions=False)]
# What answers a request is asked for again, and has no slot either.
_NOT_KEPT = ("notice", "variant_removed", "said", "existing")
_ALONE = ("focus",)
"""Of which only the latest is kept, whatever it is about."""
_OF_NOW = ("focus", "controls", "flags")
"""What means nothing where there is no notebook kernel."""

RequestHandler = Callable[[Mapping[str, Any]], None]


class App(anywidget.AnyWidget):
    """The widget. See the module's description for its use and its threads."""

    # A text, because anywidget would tie every widget to the file's watcher for ever; and but the loader, because
    # notebooks keep it with each widget.
    _esm = loader()
    # A trait, so that the notebook keeps it: some hundred bytes.
    arrangement = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        name: str,
        *,
        panes: Sequence[messages.Pane] = _USUAL_PANES,
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
        self._has_browser = self._is_closed = False
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

    def open(self) -> None:
        """Connects the widget to its browsers; called by ipywidgets."""
        super().open()
        leave_to_front_end(self.comm)

    @property
    def stored_class(self) -> str:
        """The class of what a notebook keeps of the app, which the app hides on its page."""
        return f"inspector-stored-{self.model_id}"

    def publish(self, message: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Sends a message to all browsers and keeps it for those that come later. Thread-safe.

        Args:
          message: what is told.
          buffers: what goes with it, as the message's class says.

        Raises:
          ValueError: not a message of `ToBrowser`; documents go through `publish_document`.
        """
        if message["type"] == "document":
            raise ValueError("A document has buffers: use publish_document(TextDocument(...)).")
        if found := messages.problem(message, ToBrowser):
            raise ValueError(f"Not a message for the browser: {found}.")
        self._publish(_Kept(message, list(buffers), time.monotonic()))

    def publish_document(self, document: TextDocument) -> None:
        """Sends a text to all browsers and keeps it for those that come later. Thread-safe.

        Raises:
          ValueError: see `TextDocument.buffers`.
        """
        self._publish(_Kept(document.message(), document.buffers(), time.monotonic()))

    def said(self) -> list[SentMessage]:
        """What is kept for browsers that come later, as far as it means something without a notebook kernel."""
        with self._lock:
            kept = [each for each in self._kept.values() if each.message["type"] not in _OF_NOW]
        return [SentMessage(each.current(), each.buffers) for each in kept]

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
            if self._has_browser:
                self.send(message, kept.buffers)

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Called by ipywidgets with a message of the browser, on the comm's thread."""
        if found := messages.problem(content, FromBrowser):
            text = f"The browser sent what Python does not understand ({found}). Reload the page."
            self.publish(messages.Notice(type="notice", level="error", message=text))
            return
        message = cast(Mapping[str, Any], content)
        if message["type"] == "ready":
            self._replay(message["browser"])
        elif message["type"] == "app_code":
            self.send({"type": "app_code", "to": "loader"}, [code()])
        elif self._on_request is not None:
            try:
                self._on_request(message)
            except Exception as error:  # there is no caller to raise to: show it
                self.publish(messages.notice_of(error))

    def _replay(self, browser: str) -> None:
        with self._lock:
            self._has_browser = True
            for kept in self._kept.values():
                self.send({**kept.current(), "to": browser}, kept.buffers)


@dataclasses.dataclass(frozen=True, slots=True)
class _Kept:
    """A message as it was published at `time_s` of the monotonic clock."""

    message: Mapping[str, Any]
    buffers: list[bytes]
    time_s: float

    def slot(self) -> Hashable | None:
        """What a later message replaces; None for a message that is not kept."""
        message = self.message
        kind = message["type"]
        if "id" in message or kind in _NOT_KEPT:
            return None
        if kind in _ALONE:
            return (kind,)
        shown_as = "document" if kind == "unavailable" else kind
        return (shown_as, *(message.get(name) for name in messages.KEYS))

    def variants(self) -> tuple[int | None, ...]:
        """The variants without which the message means nothing."""
        return tuple(self.message[name] for name in messages.OF_VARIANTS if name in self.message)

    def current(self) -> dict[str, Any]:
        """The message with its elapsed time brought up to now, while the work goes on."""
        message = dict(self.message)
        if message.get("state") in ("queued", "running"):
            message["elapsed_s"] = message["elapsed_s"] + time.monotonic() - self.time_s
        return message
