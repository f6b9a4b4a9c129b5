"""The frame of a cell while a function is traced, and JAX's warnings as notes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.api.jax_warnings import noted_warnings
from inspector.widgets import frame as frames
from inspector.widgets.frame import Frame, frame
from tests.widgets.test_run import until


class Events:
    """IPython's events of cells."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[..., object]] = []

    def register(self, _event: str, callback: Callable[..., object]) -> None:
        self.callbacks.append(callback)

    def unregister(self, _event: str, callback: Callable[..., object]) -> None:
        self.callbacks.remove(callback)


class Shell:
    """IPython's shell with a kernel whose outputs are kept."""

    def __init__(self) -> None:
        self.events, self.display_pub, self.kernel = Events(), self, self
        self.published: list[tuple[Mapping[str, Any], str, bool]] = []

    def publish(self, data: Mapping[str, Any], transient: Mapping[str, str], update: bool = False) -> None:
        self.published.append((data, transient["display_id"], update))


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    made = Shell()
    monkeypatch.setattr(frames, "notebook_shell", lambda: made)
    return made


def shown(shell: Shell) -> Frame:
    with frame("<f>") as waiting:
        until(lambda: bool(shell.published))
    assert waiting is not None
    return waiting


def test_the_explorer_replaces_the_frame(shell: Shell) -> None:
    waiting = shown(shell)
    ((data, name, update),) = shell.published
    assert not update
    assert "<b>&lt;f&gt;</b>" in data["text/html"]
    assert waiting.replace({"text/plain": "explorer"})
    assert shell.published[1:] == [({"text/plain": "explorer"}, name, True)]
    assert not waiting.replace({"text/plain": "again"})
    assert shell.events.callbacks == []
    assert len(shell.published) == 2


def test_a_captured_display_does_not_replace_the_frame(shell: Shell) -> None:
    waiting = shown(shell)
    shell.display_pub = Shell()
    assert not waiting.replace({"text/plain": "explorer"})
    shell.display_pub = shell
    assert waiting.replace({"text/plain": "explorer"})


def test_a_cell_that_does_not_show_the_explorer_empties_the_frame(shell: Shell) -> None:
    shown(shell)
    for callback in [*shell.events.callbacks]:
        callback("result")
    assert [(data["text/html"], update) for data, _, update in shell.published[1:]] == [("", True)]
    assert shell.events.callbacks == []


def test_an_error_empties_the_frame(shell: Shell) -> None:
    def fail() -> None:
        with frame("f"):
            until(lambda: bool(shell.published))
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert len(shell.published) == 2
    assert shell.events.callbacks == []


def test_a_fast_function_has_no_frame(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_AFTER_S", 0.05)
    with frame("f") as waiting:
        pass
    assert waiting is not None
    assert not waiting.replace({"text/plain": "explorer"})
    time.sleep(0.15)
    assert shell.published == []


def test_warnings_of_jax_are_notes_and_others_are_shown(shell: Shell) -> None:
    def f(x: Any) -> Any:
        warnings.warn("mine", UserWarning, stacklevel=1)
        return jnp.sin(x).sum()

    with pytest.warns(UserWarning, match="mine") as caught:
        explorer = inspector.explore(f, jnp.ones(8), donate_argnums=0, target="cpu")
    assert [str(each.message) for each in caught] == ["mine"]
    (note,) = [note for note in explorer.lowered.notes if note.startswith("JAX warns: ")]
    assert "Some donated buffers were not usable: float32[8]" in note
    explorer.close()
    assert shell.events.callbacks != []  # the cell has not ended


def test_a_failed_trace_shows_the_warnings_of_jax() -> None:
    notes: list[str] = []

    def fail() -> None:
        with noted_warnings(notes):
            warnings.warn_explicit("donated", UserWarning, str(Path(jax.__file__).with_name("x.py")), 1)
            raise ValueError("wrong")

    with pytest.warns(UserWarning, match="donated"), pytest.raises(ValueError, match="wrong"):
        fail()
    assert notes == []
