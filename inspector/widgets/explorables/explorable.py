"""`Explorable`: a page element that readers operate, alive in a notebook and without a kernel in a saved page."""

from __future__ import annotations

import contextlib
import datetime as dt
import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from inspector.support import files
from inspector.support.ipython import is_batch
from inspector.widgets import messages
from inspector.widgets.app import App
from inspector.widgets.lifetime import hold, keep
from inspector.widgets.saving import code_holder
from inspector.widgets.saving.page import element, page
from inspector.widgets.saving.stored_output import Bundle, StoredOutput
from inspector.widgets.saving.transcript import SentMessage, Transcript

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Replies to a request; may take seconds and raise any error."""

_REMEDY = "Run the cell in a notebook, press the button there, and save the notebook again."
_MOST_REPLIES = 64
"""Largest number of replies that a saved page contains."""


class Explorable:
    """A page element that readers operate.

    Display it in a notebook. Saved notebooks and pages show it without a notebook kernel, with the replies to all requests
    so far.
    """

    def __init__(
        self,
        kind: messages.Explorable,
        title: str,
        content: Mapping[str, Any],
        form: str | Callable[[Sequence[Mapping[str, Any]]], str],
        answer: Answer | None = None,
        batch_requests: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Creates an element that is not displayed yet.

        Args:
          kind: name of the browser's half.
          title: title as text.
          content: the message that the browser draws.
          form: HTML for pages without scripts, or a function that returns it for the replies so far.
          answer: replies to requests; None if the browser has none.
          batch_requests: requests that are answered before `save_html` or a run in batch, as by nbconvert, saves a page.
        """
        self._title, self._form, self._batch_requests = title, form, batch_requests
        self._answer, self._is_closed = answer, False
        self._replies: dict[str, SentMessage] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"inspector-{kind}")
        self._app = App(title, panes=(), explorable=kind, on_request=self._on_request)
        self._app.publish(content)
        self._stored = StoredOutput(self._bundle)
        code_holder.add(self)

    @property
    def is_busy(self) -> bool:
        """False: nothing outlives the cell."""
        return False

    def state_for_rerun(self) -> None:
        """Returns None: a cell that runs again starts from the beginning."""

    def refresh(self) -> None:
        """Writes the stored output again."""
        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(self._stored.refresh)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes an HTML page that needs no network and no notebook kernel.

        If the element can run, and has not run yet, it runs once: the page then has the values. This may take seconds.

        Args:
          path: the file; an existing file is replaced.

        Raises:
          OSError: the file cannot be written.
        """
        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(self._reply_in_batch).result()
        text = page(self._title, "", [self._element(name="", has_code=True)])
        with files.writing(path) as file:
            file.write(text.encode())

    def close(self) -> None:
        """Removes the element from the page; its stored output remains. Can be called twice."""
        self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        code_holder.remove(self)
        self._app.close()

    def __del__(self) -> None:
        """Ends the element when it is garbage collected."""
        if not getattr(self, "_is_closed", True):
            with contextlib.suppress(Exception):  # at exit
                self.close()

    def __repr__(self) -> str:
        return f"<{self._title}>"

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Shows the element in a cell. Called by IPython."""
        if self._is_closed:
            raise NotImplementedError  # IPython then shows its repr
        keep(self)
        if is_batch():  # the output is saved as it is now
            self._reply_in_batch()
        bundle = self._app._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        self._stored.display({**(data or {}), "text/plain": self._title}, self._bundle())

    def _display_(self) -> App:
        """Returns the widget. Called by marimo to show the element."""
        hold(self._app)
        return self._app

    def _bundle(self) -> Bundle:
        return {
            "text/plain": repr(self),
            "text/html": self._element(name=self._app.stored_class, has_code=code_holder.has_code(self)),
        }

    def _element(self, *, name: str, has_code: bool) -> str:
        about = f"Saved {dt.datetime.now().astimezone():%Y-%m-%d %H:%M}"
        stored = (*self._app.stored_messages(), *self._replies.values())
        form = (
            self._form
            if isinstance(self._form, str)
            else self._form([reply.message for reply in self._replies.values()])
        )
        transcript = Transcript(about, self._app.arrangement, stored).repacked()
        return element(
            f"<p><b>{html.escape(self._title)}</b></p>{form}",
            transcript,
            _REMEDY,
            name=name,
            has_code=has_code,
        )

    def _on_request(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(self._reply, message)

    def _reply_in_batch(self) -> None:
        """Answers its usual requests, so that a saved page has the results even if no button was pressed."""
        for request in self._batch_requests:
            if json.dumps(request, sort_keys=True) not in self._replies:
                self._reply({**request, "id": 0})

    def _reply(self, message: Mapping[str, Any]) -> None:
        if self._answer is None:
            return
        request = {name: value for name, value in message.items() if name not in ("id", "to")}
        reply = {**self._answer(message), "id": message["id"]}
        if len(self._replies) < _MOST_REPLIES and reply["error"] is None:
            self._replies[json.dumps(request, sort_keys=True)] = SentMessage(reply, (), request)
        self._app.publish(reply)
        if self._stored.is_shown:
            self._stored.refresh()
