"""The Python side of the Explorer's browser app: sends and receives messages.

    app = App("train_step", on_request=handle)          # an ipywidget: display it
    app.publish(messages.VariantMessage(type="variant", variant=0, ...))
    app.publish_document(TextDocument(pane="hlo", variant=None, language="hlo", text=..., ...))

`publish` and `publish_document` can be called from any thread, before, while and after the app is
on screen. The app stores the latest message of each kind (and variant, pane, stage) and replays
all of them to every browser that sends `ready`: a reloaded page and a second tab show the same state.
Several views in one page share one copy.

`on_request(message)` receives the browser's checked requests (`FromBrowser` of `panes/registry.py`) on the
comm's thread: it must start work and return. Its exceptions are shown to the user as notices.

This module does not know JAX, engines or lowering. It transports messages (`messages/`), and
long texts as compressed buffers. Texts are never traits, because notebooks save traits.
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
# Replies are requested again, so they are not stored either.
_NOT_STORED = ("notice", "variant_removed", "said", "existing")
_ALONE = ("focus",)
"""Types of which only the latest message is stored, whatever it refers to."""
_LIVE_ONLY = ("focus", "controls", "flags")
"""Types that are meaningless without a notebook kernel."""

RequestHandler = Callable[[Mapping[str, Any]], None]


class App(anywidget.AnyWidget):
    """The widget. See the module's docstring for its use and its threads."""

    # A string, because anywidget would attach every widget to the file's watcher forever. Only the loader, because
    # notebooks save it with each widget.
    _esm = loader()
    # A trait, so that the notebook saves it: a few hundred bytes.
    arrangement = traitlets.Dict().tag(sync=True)
    # A trait, because a browser needs it before the first message.
    explorable = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        name: str,
        *,
        panes: Sequence[messages.Pane] = _USUAL_PANES,
        height_px: int = 0,
        side_by_side: bool = False,
        is_kernel: bool = False,
        notes: Sequence[str] = (),
        explorable: messages.Explorable = "",
        on_request: RequestHandler | None = None,
    ) -> None:
        """Creates the widget; nothing is sent before a browser shows it.

        Args:
          name: name of the program, used as a title.
          panes: panes to offer, in order.
          height_px: initial height in CSS pixels; 0 for one that fits the window.
          side_by_side: whether the optimized HLO of the variants is initially shown side by side.
          is_kernel: whether the Pallas pane is initially active.
          notes: remarks about the program for the status line.
          explorable: the element to show instead of panes; "" for an Explorer.
          on_request: see the module's docstring.
        """
        # Before the widget is opened: a browser that has the app's code responds while the widget is still being created.
        self._lock = threading.RLock()
        self._stored: dict[Hashable, _Stored] = {}
        self._has_browser = self._is_closed = False
        self._on_request = on_request
        self.on_msg(self._receive)
        super().__init__(explorable=explorable)
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
                is_kernel=is_kernel,
                stored_class=self.stored_class,
                notes=list(notes),
                explorable=explorable,
            )
        )

    def open(self) -> None:
        """Connects the widget to its browsers. Called by ipywidgets."""
        super().open()
        leave_to_front_end(self.comm)

    @property
    def stored_class(self) -> str:
        """The CSS class of the stored output in a notebook, which the app hides on its page."""
        return f"inspector-stored-{self.model_id}"

    def publish(self, message: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Sends a message to all browsers and stores it for browsers that connect later. Thread-safe.

        Args:
          message: the message.
          buffers: its buffers, as the message's class describes.

        Raises:
          ValueError: not a message of `ToBrowser`; documents are sent with `publish_document`.
        """
        if message["type"] == "document":
            raise ValueError("A document has buffers: use publish_document(TextDocument(...)).")
        if problem := messages.problem(message, ToBrowser):
            raise ValueError(f"Not a valid message for the browser: {problem}.")
        self._publish(_Stored(message, list(buffers), time.monotonic()))

    def publish_document(self, document: TextDocument) -> None:
        """Sends a text to all browsers and stores it for browsers that connect later. Thread-safe.

        Raises:
          ValueError: see `TextDocument.buffers`.
        """
        self._publish(_Stored(document.message(), document.buffers(), time.monotonic()))

    def stored_messages(self) -> list[SentMessage]:
        """Returns the stored messages that are meaningful without a notebook kernel."""
        with self._lock:
            stored = [each for each in self._stored.values() if each.message["type"] not in _LIVE_ONLY]
        return [SentMessage(each.current(), each.buffers) for each in stored]

    def close(self) -> None:
        """Removes the widget from the page and drops all messages, stored and future ones. Can be called twice."""
        with self._lock:
            self._is_closed = True
            self._stored.clear()
        self._on_request = None
        self.layout.close()
        super().close()

    def _publish(self, stored: _Stored) -> None:
        message = stored.message
        with self._lock:
            if self._is_closed:
                return
            if message["type"] == "variant_removed":
                removed = message["variant"]
                self._stored = {s: k for s, k in self._stored.items() if removed not in k.variants()}
            elif (slot := stored.slot()) is not None:
                self._stored[slot] = stored
            if self._has_browser:
                self.send(message, stored.buffers)

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        """Handles a message of the browser. Called by ipywidgets on the comm's thread."""
        if problem := messages.problem(content, FromBrowser):
            text = f"The browser sent an invalid message ({problem}). Reload the page."
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
            except Exception as error:  # there is no caller to raise to, so show it
                self.publish(messages.notice_of(error))

    def _replay(self, browser: str) -> None:
        with self._lock:
            self._has_browser = True
            for stored in self._stored.values():
                self.send({**stored.current(), "to": browser}, stored.buffers)


@dataclasses.dataclass(frozen=True, slots=True)
class _Stored:
    """A message that was published at `time_s` of the monotonic clock."""

    message: Mapping[str, Any]
    buffers: list[bytes]
    time_s: float

    def slot(self) -> Hashable | None:
        """Returns the key under which later messages replace this one; None if the message is not stored."""
        message = self.message
        kind = message["type"]
        if "id" in message or kind in _NOT_STORED:
            return None
        if kind in _ALONE:
            return (kind,)
        shown_as = "document" if kind == "unavailable" else kind
        return (shown_as, *(message.get(name) for name in messages.KEYS))

    def variants(self) -> tuple[int | None, ...]:
        """Returns the variants that the message depends on."""
        return tuple(self.message[name] for name in messages.OF_VARIANTS if name in self.message)

    def current(self) -> dict[str, Any]:
        """Returns the message, with its elapsed time updated while the work is running."""
        message = dict(self.message)
        if message.get("state") in ("queued", "running"):
            message["elapsed_s"] = message["elapsed_s"] + time.monotonic() - self.time_s
        return message
