"""The Explorer in front ends other than Jupyter's, which the dependency group `front-ends` installs: one line, and it lives."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import ROOT
from tests.frontend.menus import show_fields

STEP = """
import jax.numpy as jnp
from inspector import explore

def step(x):
    return jnp.tanh(x @ x).sum()
"""
EXPLORE = 'explore(step, jnp.ones((64, 64)), target="cpu")'
LIMIT_S = 90.0


def marimo_notebook(path: Path) -> None:
    cells = (f"{STEP}\nreturn explore, jnp, step", f"{EXPLORE}\nreturn")
    heads = ("_()", "_(explore, jnp, step)")
    bodies = [
        f"@app.cell\ndef {head}:\n" + "".join(f"    {line}\n" for line in cell.splitlines())
        for head, cell in zip(heads, cells, strict=True)
    ]
    path.write_text("import marimo\napp = marimo.App()\n\n" + "\n".join(bodies))


def jupyter_notebook(path: Path) -> None:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in (STEP, EXPLORE)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


@dataclasses.dataclass(frozen=True)
class FrontEnd:
    """One that serves a notebook at its root: its module, its arguments for a port and a file, what writes that."""

    name: str
    arguments: str
    file: str

    def write(self, path: Path) -> None:
        (marimo_notebook if self.name == "marimo" else jupyter_notebook)(path)


FRONT_ENDS = [
    FrontEnd("marimo", "run --headless --no-token --host 127.0.0.1 -p {port} {path}", "notebook.py"),
    FrontEnd("voila", "--no-browser --Voila.ip=127.0.0.1 --port={port} {path}", "notebook.ipynb"),
]


@pytest.fixture(params=FRONT_ENDS, ids=lambda front_end: front_end.name)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    front_end: FrontEnd = request.param
    if importlib.util.find_spec(front_end.name) is None:
        pytest.skip(f"{front_end.name} is not installed: uv sync --inexact --extra test --group front-ends")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    path = tmp_path / front_end.file
    front_end.write(path)
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", front_end.name, *front_end.arguments.format(port=port, path=path).split()]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + LIMIT_S
            while not _listens(port):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()
            process.wait(20)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_one_line_gives_a_live_explorer(url: str, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1500, "height": 1000})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url, timeout=LIMIT_S * 1e3)
    done = page.locator(".insp-chip-done")
    expect(done).to_have_count(1, timeout=LIMIT_S * 1e3)
    page.locator("[data-pane=source] .cm-line", has_text="jnp.tanh").click()
    expect(page.locator("[data-pane=optimized] .insp-strong", has_text="tanh").first).to_be_visible()
    show_fields(page)
    page.get_by_placeholder(re.compile("^Flag")).fill("xla_cpu_enable_fast_math")
    page.get_by_role("button", name="Add variant").click()
    expect(done).to_have_count(2, timeout=LIMIT_S * 1e3)  # the notebook kernel heard, and answered
    page.close()
    assert errors == []
