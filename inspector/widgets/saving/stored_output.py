"""What a notebook keeps of an Explorer: a second output below the widget, brought up to date as compiles end.

The widget's own output cannot change without being drawn anew, so the stored form stands in one of its own,
known by a display id. The page hides it while the widget is there (`frontend/src/lib/stored.ts`); a notebook
that is opened without its notebook kernel shows it.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

Bundle = Mapping[str, Any]
_Publish = Callable[..., None]


class StoredOutput:
    """Thread-safe after `display`, which a cell calls on the notebook kernel's main thread."""

    def __init__(self, form: Callable[[], Bundle]) -> None:
        """Nothing is on a page yet.

        Args:
          form: the text and HTML of what is known now.
        """
        self._form = form
        self._places: list[tuple[_Publish, str]] = []

    @property
    def is_shown(self) -> bool:
        """Whether it stands on a page."""
        return bool(self._places)

    def display(self, widget: Bundle, form: Bundle) -> None:
        """Puts the widget and its stored form, for now, below the running cell; outside of a notebook kernel, prints the text."""
        shell = _shell()
        if shell is None or not hasattr(shell, "kernel"):
            sys.stdout.write(f"{form['text/plain']}\n")
            return
        # This very publisher, for what ends while another cell captures its outputs.
        publish, name = shell.display_pub.publish, uuid.uuid4().hex
        publish(widget)
        publish(form, transient={"display_id": name})
        self._places.append((publish, name))

    def refresh(self) -> None:
        """Replaces the stored form wherever it is."""
        places = tuple(self._places)
        form = self._form() if places else {}
        for publish, name in places:
            publish(form, transient={"display_id": name}, update=True)


def is_batch() -> bool:
    """Whether the running cell is executed for its outputs, as by nbconvert: nobody could answer a question."""
    return getattr(getattr(_shell(), "kernel", None), "_allow_stdin", True) is False


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None
