"""The stored output of an Explorer in a notebook: a second output below the widget, updated as compiles end.

Changing the widget's own output would redraw it, so the stored form is in a separate output,
identified by a display id. The page hides it while the widget is shown (`frontend/src/lib/stored.ts`); a notebook
that is opened without its notebook kernel shows it.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets
import ipywidgets.widgets.widget as registry

from inspector.support.ipython import notebook_shell
from inspector.widgets.frame import Frame

Bundle = Mapping[str, Any]
_Publish = Callable[..., None]


class StoredOutput:
    """The stored output. Thread-safe after `display`, which a cell calls on the notebook kernel's main thread."""

    def __init__(self, form: Callable[[], Bundle]) -> None:
        """Creates an output that is not displayed yet.

        Args:
          form: returns the current results as text and HTML.
        """
        self._form = form
        self._places: list[tuple[_Publish, str]] = []

    @property
    def is_shown(self) -> bool:
        """True once it was displayed on a page."""
        return bool(self._places)

    def display(self, widget: Bundle, form: Bundle, frame: Frame | None = None) -> None:
        """Displays the widget and its current stored form below the running cell; outside a notebook kernel, prints the text.

        The widget replaces `frame` if that is on the page and the cell displays the widget itself, not in an `Output`.
        """
        shell = notebook_shell()
        if shell is None:
            sys.stdout.write(f"{form['text/plain']}\n")
            return
        # Keeps this publisher, as another cell may capture its outputs when a compile ends.
        publish, name = shell.display_pub.publish, uuid.uuid4().hex
        if frame is None or _is_redirected(shell) or not frame.replace(widget):
            publish(widget)
        publish(form, transient={"display_id": name})
        self._places.append((publish, name))

    def refresh(self) -> None:
        """Replaces the stored form wherever it is displayed."""
        places = tuple(self._places)
        form = self._form() if places else {}
        for publish, name in places:
            publish(form, transient={"display_id": name}, update=True)


def _is_redirected(shell: Any) -> bool:
    """Reports whether an `Output` widget receives what the running cell displays."""
    cell = shell.get_parent().get("header", {}).get("msg_id")
    outputs = [each for each in list(registry._instances.values()) if isinstance(each, ipywidgets.Output)]  # noqa: SLF001 - ipywidgets has no public way
    return any(each.msg_id == cell for each in outputs)
