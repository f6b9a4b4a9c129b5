"""The frame that a cell shows while `explore` imports and traces, before there is an Explorer.

It is replaced by the Explorer if the cell shows it, and otherwise emptied when the cell ends. Imports nothing that takes time.
"""

from __future__ import annotations

import contextlib
import contextvars
import html
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from inspector.support.ipython import is_batch, notebook_shell

_AFTER_S = 0.1
"""A function that is traced faster needs no frame."""


class Frame:
    """An output of the running cell with a name, a stage and a clock."""

    def __init__(self, shell: Any, name: str) -> None:
        """Creates a frame that is not shown yet.

        Args:
          shell: IPython's shell, which has a kernel.
          name: name of the function.
        """
        self._publish, self._id = shell.display_pub.publish, uuid.uuid4().hex
        self._shell, self._name = shell, name
        self._lock = threading.Lock()
        self._is_shown = self._is_over = False
        self._timer = threading.Timer(_AFTER_S, contextvars.copy_context().run, (self._show,))
        self._timer.daemon = True

    def start(self) -> None:
        """Shows the frame in a moment, unless it is replaced or emptied by then."""
        self._shell.events.register("post_run_cell", self.end)
        self._timer.start()

    def replace(self, bundle: Mapping[str, Any]) -> bool:
        """Replaces the frame with a MIME bundle. Returns False, and does nothing, if the frame is not on the page."""
        if self._shell.display_pub.publish != self._publish:  # another publisher captures the display
            return False
        with self._lock:
            was_shown, self._is_over = self._is_shown and not self._is_over, True
        self._timer.cancel()
        with contextlib.suppress(ValueError):  # a second end
            self._shell.events.unregister("post_run_cell", self.end)
        if was_shown:
            self._send(bundle, update=True)
        return was_shown

    def _show(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_shown = True
                text = f"inspector traces {self._name}"
                self._send({"text/plain": text, "text/html": _html(self._name)})

    def end(self, *_: object) -> None:
        """Empties the output, which cannot be removed without the cell's other outputs."""
        self.replace({"text/plain": "", "text/html": ""})

    def _send(self, bundle: Mapping[str, Any], **kwargs: Any) -> None:
        self._publish(bundle, transient={"display_id": self._id}, **kwargs)


@contextlib.contextmanager
def frame(name: str) -> Iterator[Frame | None]:
    """Shows a frame in the running cell of a notebook, from now until the Explorer replaces it or the cell ends.

    Args:
      name: name of the function.

    Yields:
      The frame; None outside of notebooks.
    """
    shell = None if is_batch() else notebook_shell()
    started = None if shell is None else Frame(shell, name)
    if started is not None:
        started.start()
    try:
        yield started
    except BaseException:
        if started is not None:
            started.end()
        raise


def _html(name: str) -> str:
    # The clock counts in CSS, because the kernel is busy and pages may run no scripts.
    return (
        "<style>@property --inspector-s{syntax:'<integer>';initial-value:0;inherits:false}"
        "@keyframes inspector-clock{to{--inspector-s:3600}}"
        ".inspector-frame{box-sizing:border-box;height:min(85vh,900px);min-height:480px;padding:8px 12px;"
        "border:1px solid color-mix(in srgb,currentColor 20%,transparent);border-radius:6px;font:13px system-ui,sans-serif}"
        ".inspector-frame i{font-style:normal;opacity:.7}"
        ".inspector-frame i::after{counter-reset:s var(--inspector-s);content:counter(s) ' s';"
        "animation:inspector-clock 3600s linear forwards}</style>"
        f"<div class='inspector-frame'><b>{html.escape(name)}</b> &nbsp;Tracing <i></i></div>"
    )
