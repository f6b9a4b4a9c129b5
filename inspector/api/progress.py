"""Progress of long work: a bar in a notebook, a line on a terminal's stderr, otherwise nothing.

Used by `sweep` and `flag_effects`, from any thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol, TextIO

from inspector.support.ipython import notebook_shell

_BAR_COLUMNS = 30


class Progress(Protocol):
    """Shows the progress of work."""

    def update(self, done: int, text: str) -> None:
        """Shows the number of finished pieces; `text` describes the present one."""
        ...

    def close(self, text: str) -> None:
        """Ends the display; `text` stays."""
        ...


class Quiet:
    """Shows nothing, for scripts, tests and pipes."""

    def update(self, done: int, text: str) -> None: ...

    def close(self, text: str) -> None: ...


class TerminalLine:
    """One line on a terminal, overwritten until the work ends."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = max(total, 1)
        self._stream = stream
        self._columns = 0

    def update(self, done: int, text: str) -> None:
        filled = _BAR_COLUMNS * done // self._total
        self._write(f"[{'#' * filled}{'.' * (_BAR_COLUMNS - filled)}] {done}/{self._total} {text}", end="")

    def close(self, text: str) -> None:
        self._write(text, end="\n")

    def _write(self, line: str, end: str) -> None:
        # Spaces over what a longer line left.
        self._stream.write(f"\r{line.ljust(self._columns)}{end}")
        self._stream.flush()
        self._columns = len(line)


class Bar:
    """A bar below the notebook's cell, with a Stop button where the work can be stopped."""

    def __init__(self, total: int, stop: Callable[[], object] | None = None) -> None:
        import ipywidgets
        from IPython.display import display

        self._bar = ipywidgets.IntProgress(value=0, max=max(total, 1), layout={"width": "40%"})
        self._text = ipywidgets.Label()
        self._button = ipywidgets.Button(description="Stop", tooltip="Stop and keep the finished results")
        if stop is not None:
            self._button.on_click(lambda _: stop())
        shown = [self._bar, self._text] if stop is None else [self._bar, self._button, self._text]
        display(ipywidgets.HBox(shown))  # type: ignore[no-untyped-call]

    def update(self, done: int, text: str) -> None:
        self._bar.value = done
        self._text.value = f"{done} of {self._bar.max} · {text}"

    def close(self, text: str) -> None:
        self._text.value = text
        self._button.disabled = True


def foreground_progress(total: int) -> Progress:
    """Returns the display for work that the caller waits for: a bar in a notebook, a line on a terminal."""
    if in_notebook():
        return Bar(total)
    return TerminalLine(total, sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else Quiet()


def background_progress(total: int, stop: Callable[[], object]) -> Progress:
    """Returns the display for background work: a bar in a notebook, nothing on a terminal."""
    return Bar(total, stop) if in_notebook() else Quiet()


def in_notebook() -> bool:
    """Reports whether a notebook kernel shows the output of this process."""
    return notebook_shell() is not None
