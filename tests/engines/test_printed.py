"""The text that host callbacks print during a run is recorded; other text is not."""

from __future__ import annotations

import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.engines.printed import recording_prints


def test_a_run_has_what_its_callbacks_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def loud(x: jax.Array) -> jax.Array:
        jax.debug.print("sum {s}", s=x.sum())
        return x * 2

    x = np.ones(4, np.float32)
    before = sys.stdout
    run = inspector.lower(loud, x).compile(target="attached").run(x, repeat=3, warmup=1)
    assert run.printed.splitlines() == ["sum 4.0"] * 4
    assert capsys.readouterr().out.splitlines() == ["sum 4.0"] * 4  # it is printed as usual too
    assert sys.stdout is before
    assert inspector.lower(jnp.sin, x).compile(target="attached").run(x).printed == ""


def test_threads_of_python_are_not_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    with recording_prints() as printed:
        thread = threading.Thread(target=print, args=("of a cell",))
        thread.start()
        thread.join()
        print("of the program")
    assert str(printed) == "of the program"
    assert capsys.readouterr().out == "of a cell\nof the program\n"


def test_long_texts_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    with recording_prints() as printed:
        for number in range(1000):
            print(f"line {number:04}")
    lines = str(printed).splitlines()
    assert lines[0] == "line 0000"
    assert len(str(printed)) < 4_100
    assert lines[-2:] == ["line 0399", "… 600 more lines"]
    assert len(capsys.readouterr().out.splitlines()) == 1000


def test_another_standard_output_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    other = sys.__stdout__
    with recording_prints():
        monkeypatch.setattr(sys, "stdout", other)
    assert sys.stdout is other
