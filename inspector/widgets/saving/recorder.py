"""Saves an Explorer: its output in the notebook, and a separate HTML page.

Both consist of the app's messages and of the replies to a reader's first requests. The notebook's output is
updated as compiles end: immediately with the available results, and with the replies once all work has ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import gzip
import html
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from inspector.support.ipython import is_batch
from inspector.support.units import format_list
from inspector.widgets import messages
from inspector.widgets.app import App
from inspector.widgets.compiles import Compiles
from inspector.widgets.frame import Frame
from inspector.widgets.panes.retraces import retraces_html
from inspector.widgets.saving import code_holder
from inspector.widgets.saving.fallback import Details, html_form, text_form
from inspector.widgets.saving.fallback_collectives import collectives_html
from inspector.widgets.saving.page import element, page
from inspector.widgets.saving.stored_output import Bundle, StoredOutput
from inspector.widgets.saving.transcript import SentMessage, Transcript
from inspector.widgets.threads import Threads
from inspector.widgets.variants import Variant

_STORED_BYTES = 150_000
"""Limit for the transcript in a notebook, before base64 adds a third."""
_MOST_ROWS = 20_000
"""Largest program, in instructions, whose replies are stored: counting a larger one takes time without a request."""
_QUICK_BYTES = 1 << 17
"""Size of a lowered module up to which its texts are written before the panes receive them."""
_PAUSE_S = 2.0
_IN_NOTEBOOK = "Run the cell to get more."
_IN_PAGE = "This page contains only recorded results. Run inspector.explore in a notebook for more."


class Recorder:
    """Saves one Explorer. Thread-safe after `display`."""

    def __init__(self, app: App, compiles: Compiles, threads: Threads) -> None:
        """Creates a recorder without any data.

        Args:
          app: the app whose messages are recorded.
          compiles: the program and its variants.
          threads: the Explorer's threads, whose pending tasks are waited for.
        """
        self._app, self._compiles, self._threads = app, compiles, threads
        self._stored = StoredOutput(self._form)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inspector-recorder")
        self._asking = threading.Lock()
        self._more = threading.Event()
        self._replies: dict[int, list[SentMessage]] = {}
        self._recorded: dict[int, tuple[Sequence[str], int]] = {}
        self._collectives: dict[int, str] = {}
        self._is_closed = False
        code_holder.add(self)

    def display(self, widget: Bundle, frame: Frame | None = None) -> None:
        """Displays the stored output, see `StoredOutput.display`; in batch execution it is complete from the start."""
        if is_batch():
            self._ask_new()
        is_large = not is_batch() and len(self._compiles.lowered.program.module) > _QUICK_BYTES
        self._stored.display(widget, self._form(has_texts=not is_large), frame)
        if is_large:
            self._compiles.board.behind(self._compiles.variants[0], self.refresh)
        elif not is_batch():
            self.refresh()

    def refresh(self) -> None:
        """Updates the notebook's output, on a separate thread."""
        if self._stored.is_shown and not self._more.is_set():
            self._more.set()
            with contextlib.suppress(RuntimeError):  # closed
                self._thread.submit(_refresh, weakref.ref(self), self._more)

    def rewrite(self) -> None:
        """Updates the notebook's output on the calling thread."""
        self._stored.refresh()

    def rewrite_after_panes(self) -> None:
        """Updates the notebook's output after the panes are filled, so that both do not read the same data at once."""
        with contextlib.suppress(Exception):  # closed in the meantime
            self._threads.drain()
        self.rewrite()

    def complete(self) -> None:
        """Adds the replies, once all work has ended."""
        if self._is_closed or self._compiles.are_busy:
            return
        with contextlib.suppress(Exception):  # closed in the meantime; the stored output remains
            self._ask_new()
            self._stored.refresh()

    def finish(self) -> None:
        """Updates the output before the cell ends, in batch execution."""
        if self._stored.is_shown and is_batch():
            self._ask_new()
            self._stored.refresh()

    def page(self, place: messages.Focus | None = None, note: str = "") -> str:
        """Returns the whole exploration as a single HTML file; see `element`."""
        name = self._compiles.lowered.program.name
        return page(name, "", [self.element(has_code=True, place=place, note=note)])

    def element(self, *, has_code: bool, place: messages.Focus | None = None, note: str = "") -> str:
        """Returns the whole exploration as an element of a page.

        Args:
          has_code: whether it has the app's code, as one element of a page must.
          place: the place that readers see first; None for the usual one.
          note: a text for readers.
        """
        transcript = self._transcript(self._ask(self._done, is_whole=True)).repacked()
        more: list[Any] = [] if place is None else [place]
        if note:
            more.append(messages.Notice(type="notice", level="info", message=note))
        transcript = dataclasses.replace(
            transcript, messages=(*transcript.messages, *(SentMessage(each, ()) for each in more))
        )
        form = f"<p>{html.escape(note)}</p>" if note else ""
        return element(form + self.html(), transcript, _IN_PAGE, has_code=has_code)

    def text(self) -> str:
        """Returns a few lines that describe the Explorer without the app."""
        details = {variant.number: Details(excerpts=self._compiles.board.excerpts(variant)) for variant in self._done}
        return text_form(self._compiles.lowered, self._compiles.variants, details)

    def html(self, *, has_texts: bool = True) -> str:
        """Returns the available results as static HTML.

        With `has_texts=False` it leaves out texts and collectives, which take time for large programs.
        """
        variants = self._compiles.variants
        differences = {
            entry.message["variant"]: entry.message["summary"]
            for entry in self._app.stored_messages()
            if entry.message["type"] == "diff" and entry.message["baseline"] == variants[0].number
        }
        details = {
            variant.number: Details(
                differences.get(variant.number, ""),
                self._collectives_of(variant),
                self._compiles.board.excerpts(variant),
            )
            for variant in (self._done if has_texts else ())
        }
        watched: list[Any] = [
            entry.message for entry in self._app.stored_messages() if entry.message["type"] == "retraces"
        ]
        return html_form(self._compiles.lowered, variants, details, has_texts=has_texts) + "".join(
            map(retraces_html, watched)
        )

    def send_page(self, number: int, place: messages.Focus | None, note: str) -> None:
        """Answers request `number` of a browser with the page, on a separate thread; see `element`."""

        def answer() -> None:
            reply, buffers = messages.Page(type="page", id=number, error=None), list[bytes]()
            try:
                buffers = [gzip.compress(self.page(place, note).encode(), 1, mtime=0)]
            except Exception as error:  # shown to the user
                reply["error"] = messages.error_of(error)
            self._app.publish(reply, buffers)

        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(answer)

    def close(self) -> None:
        """Stops recording; the stored output remains, and another output takes over the app's code."""
        self._is_closed = True
        self._more.set()  # ends the pause
        self._thread.shutdown(wait=False, cancel_futures=True)
        code_holder.remove(self)

    @property
    def _done(self) -> list[Variant]:
        return [variant for variant in self._compiles.variants if variant.state == "done"]

    def _ask_new(self) -> None:
        """Requests the replies that the notebook stores for each variant, and again when more data was recorded for it."""
        board = self._compiles.board
        for variant in self._done:
            recorded = board.products(variant), variant.profile_count
            if self._recorded.get(variant.number) != recorded and board.rows_of(variant) <= _MOST_ROWS:
                self._recorded[variant.number] = recorded
                self._replies[variant.number] = self._ask([variant], is_whole=False)

    def _ask(self, variants: Sequence[Variant], *, is_whole: bool) -> list[SentMessage]:
        with self._asking:
            collect = self._compiles.board.ask(variants, is_whole=is_whole)
            self._threads.drain()
            return collect()

    def _form(self, *, has_texts: bool = True) -> Bundle:
        replies = [reply for each in list(self._replies.values()) for reply in each]
        transcript = self._transcript(replies).within(_STORED_BYTES, _IN_NOTEBOOK)
        stored = element(
            self.html(has_texts=has_texts),
            transcript,
            _IN_NOTEBOOK,
            name=self._app.stored_class,
            has_code=code_holder.has_code(self),
        )
        return {"text/plain": self.text(), "text/html": stored}

    def _collectives_of(self, variant: Variant) -> str:
        if variant.number not in self._collectives:
            self._collectives[variant.number] = collectives_html(variant.compiled.collectives())
        return self._collectives[variant.number]

    def _transcript(self, replies: Sequence[SentMessage]) -> Transcript:
        versions = dict[str, str]()
        for variant in self._compiles.variants:
            if variant.state == "done":
                versions |= variant.compiled.versions
        made_by = format_list([f"{name} {version}" for name, version in versions.items() if name in ("jax", "libtpu")])
        when = dt.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
        about = f"Recorded {when}" + (f" with {made_by}" if made_by else "")
        numbers = {variant.number for variant in self._compiles.variants}
        current = [reply for reply in replies if reply.message.get("variant") in numbers]
        return Transcript(about, self._app.arrangement, (*self._app.stored_messages(), *current))


def _refresh(recorder: weakref.ref[Recorder], more: threading.Event) -> None:
    """Updates the output while holding the recorder only briefly, so that an unreferenced Explorer is collected immediately."""
    more.clear()
    if active := recorder():
        active.rewrite_after_panes()
        del active
    if not more.wait(_PAUSE_S) and (active := recorder()):
        active.complete()
