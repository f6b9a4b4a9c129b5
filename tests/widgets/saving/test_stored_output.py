"""The stored output of an Explorer in a notebook, in a real kernel: updated automatically, complete in a batch."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import nbclient
import nbformat
import pytest

from inspector.widgets.saving.app_code import code
from tests.widgets.kernel import Kernel

pytestmark = pytest.mark.slow

EXPLORE = """
import jax.numpy as jnp
from inspector import explore
e = explore(lambda x: jnp.sin(x) @ x, jnp.ones((8, 8)), target="cpu")
e
"""
WIDGET = "application/vnd.jupyter.widget-view+json"
LIMIT_S = 60.0


def until(kernel: Kernel, holds: Callable[[str], bool]) -> str:
    """The stored HTML once it is as it should be."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        kernel.updates()
        # The widget has a display too, where it replaced the frame of a slow trace.
        (form,) = [each for each in kernel.displays.values() if WIDGET not in each]
        if holds(form["text/html"]):
            break
    page: str = form["text/html"]
    return page


def test_the_stored_output_follows_the_compiles(kernel: Kernel) -> None:
    outputs = [each["data"] for each in kernel.run(EXPLORE)]
    (shown,) = [each for each in [*outputs, *kernel.displays.values()] if WIDGET in each]
    assert "queued" not in str(shown), "it would be kept so"
    assert WIDGET not in outputs[-1], "a widget that is updated is drawn anew"
    page = until(kernel, lambda page: "Optimized HLO of baseline" in page)
    assert "ENTRY %main" in page
    assert "queued" not in page
    kernel.run("v = e.add({'xla_cpu_enable_fast_math': True})")
    page = until(kernel, lambda page: "Optimized HLO of xla_cpu_enable_fast_math=true" in page)
    kernel.run("e.remove(v)")
    page = until(kernel, lambda page: "fast_math" not in page)
    assert "Optimized HLO of baseline" in page


def test_an_update_reaches_its_place_while_another_cell_captures(kernel: Kernel) -> None:
    kernel.run(EXPLORE)
    kernel.run("from IPython.utils.capture import capture_output\nwith capture_output() as c:\n    e.wait()")
    assert "ENTRY %main" in until(kernel, lambda page: "ENTRY" in page)


def test_a_batch_saves_compiled_programs(kernel: Kernel) -> None:
    _, stored = kernel.run(EXPLORE, allow_stdin=False)
    assert "ENTRY %main" in stored["data"]["text/html"]
    assert "baseline [cpu]: done" in stored["data"]["text/plain"]


def test_a_notebook_executed_by_nbclient_keeps_it_in_its_file() -> None:
    cells = [nbformat.v4.new_code_cell(EXPLORE.strip())]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    text = nbformat.writes(notebook)
    assert "ENTRY %main" in text
    assert "queued" not in text
    assert len(json.dumps(notebook.metadata["widgets"])) < 10_000, "the state of widgets has no code"
    assert len(text) - len(base64.b64encode(code())) < 100_000
