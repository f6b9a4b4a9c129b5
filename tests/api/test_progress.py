"""The output of progress reports."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from inspector.api import progress
from inspector.api.progress import Bar, Quiet, TerminalLine, background_progress, foreground_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(text: str) -> list[str]:
    """Returns the text that each carriage return left on the line."""
    return [part.rstrip() for part in text.split("\r")[1:]]


def test_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = foreground_progress(4)
    line.update(1, "a long description of the first")
    line.update(4, "short")
    line.close("4 variants.")
    first, last, end = shown(terminal.getvalue())
    assert first.endswith("] 1/4 a long description of the first")
    assert last.endswith("] 4/4 short")
    assert (first.count("#"), last.count("#")) == (7, 30)
    assert end == "4 variants."
    assert terminal.getvalue().endswith("\n")
    written = terminal.getvalue().split("\r")[1:]
    assert len(written[1]) >= len(written[0]), "what a longer line left is written over"


def test_no_output_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    for made in (foreground_progress(3), background_progress(3, lambda: None)):
        assert isinstance(made, Quiet)
        made.update(1, "x")
        made.close("done")
    assert pipe.getvalue() == ""


def test_quiet_without_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert isinstance(foreground_progress(3), Quiet)


def test_nothing_in_the_background_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(background_progress(3, lambda: None), Quiet)


def test_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[Any] = []
    monkeypatch.setattr("IPython.display.display", displayed.append)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    stopped: list[bool] = []
    bar = background_progress(5, lambda: stopped.append(True))
    assert isinstance(bar, Bar)
    slider, button, label = displayed[0].children
    bar.update(2, "xla_flag=True")
    assert (slider.value, slider.max) == (2, 5)
    assert label.value == "2 of 5 · xla_flag=True"
    button.click()
    assert stopped == [True]
    bar.close("stopped")
    assert button.disabled
    assert label.value == "stopped"


def test_a_bar_that_is_waited_for_has_no_button(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[Any] = []
    monkeypatch.setattr("IPython.display.display", displayed.append)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    assert isinstance(foreground_progress(2), Bar)
    assert len(displayed[0].children) == 2


def test_pytest_is_not_a_notebook() -> None:
    assert not progress.in_notebook()


def test_line_of_nothing() -> None:
    terminal = Terminal()
    TerminalLine(0, terminal).update(0, "")
    assert "0/1" in terminal.getvalue()
