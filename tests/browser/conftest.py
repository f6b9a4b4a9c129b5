"""JupyterLab and Notebook 7 on a copy of the notebooks, driven in Chromium.

A test asks for `jupyter` (the server, once for Lab and once for Notebook), writes or picks a
notebook, and drives it through `page` with `open_notebook` and `run_all`. `page` fails its test
when the browser asked anything of another host, which would be a CDN.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page

ROOT = Path(__file__).resolve().parent.parent.parent
# Errors of Jupyter itself, by message, that come from its own bundle.
UPSTREAM_ERRORS = {
    # Notebook 7.6.5 throws this at start.
    "Cannot read properties of undefined (reading 'schema')": "/static/notebook/notebook_core",
    # A kernel that starts or ends writes to stderr and to its channel on two threads, and ipykernel 7.4 mixes their frames:
    # IOPubThread.schedule sends at once while its own thread is not alive.
    "Kernel message validation error: Unexpected token 's', \"stream.stderr\" is not valid JSON": "/static/",
}
START_LIMIT_S = 60.0
CELLS_LIMIT_S = 240.0

App = Literal["lab", "notebook"]


@dataclasses.dataclass(frozen=True)
class Jupyter:
    """A running server.

    Attributes:
      app: which front end.
      url: its root, without a slash at the end.
      root: the folder it serves, a copy of notebooks/ to write into.
      log: what the server and its kernels said.
    """

    app: App
    url: str
    root: Path
    log: Path

    def notebook_url(self, name: str) -> str:
        """Where one notebook opens alone, without the file browser."""
        return f"{self.url}/{'doc/tree' if self.app == 'lab' else 'notebooks'}/{name}"


@dataclasses.dataclass
class Seen:
    """Errors of a page: uncaught JavaScript errors, and requests to other hosts."""

    errors: list[str] = dataclasses.field(default_factory=list)
    foreign: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class CellResult:
    """How one code cell ended: its execution count, and the error's message or None."""

    execution_count: int | None
    error: str | None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _environment(home: Path) -> dict[str, str]:
    """Jupyter with separate settings: no user configuration, no news, no update checks."""
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    return {
        **{name: value for name, value in os.environ.items() if name != "XLA_FLAGS"},  # one device, as a user has
        "INSPECTOR_CACHE": "on",
        "INSPECTOR_CACHE_DIR": str(home.parent / "cache"),  # one for both front ends
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    }


def _await_server(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/api", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"Jupyter did not answer at {url} within {START_LIMIT_S:.0f} s. Its log:\n{log.read_text()}")


@pytest.fixture(scope="session", params=["lab", "notebook"])
def jupyter(
    request: pytest.FixtureRequest, chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jupyter]:
    app: App = request.param
    home = tmp_path_factory.mktemp(app)
    root, log, url = home / "notebooks", home / "log", f"http://127.0.0.1:{_free_port()}"
    shutil.copytree(ROOT / "notebooks", root, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    command = [
        *(sys.executable, "-m", "jupyter", app, "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={url.rpartition(':')[2]}", f"--ServerApp.root_dir={root}", "--IdentityProvider.token="),
        f"--{'LabApp' if app == 'lab' else 'JupyterNotebookApp'}.expose_app_in_browser=True",
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=_environment(home), stdout=out, stderr=subprocess.STDOUT)
        try:
            _await_server(url, process, log)
            yield Jupyter(app, url, root, log)
        finally:
            process.terminate()  # Jupyter ends its kernels on SIGTERM
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_upstream(error: Error) -> bool:
    return error.message in UPSTREAM_ERRORS and UPSTREAM_ERRORS[error.message] in (error.stack or "")


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture(scope="session")
def profile(chromium: Browser, jupyter: Jupyter) -> Iterator[BrowserContext]:
    """One for all pages of a server, so that Jupyter's code is read and compiled once."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900})
    yield context
    context.close()


@pytest.fixture
def page(profile: BrowserContext, jupyter: Jupyter, seen: Seen) -> Iterator[Page]:
    page = profile.new_page()
    own = (jupyter.url, jupyter.url.replace("http", "ws", 1), "data:", "blob:")
    page.on("pageerror", lambda error: None if _is_upstream(error) else seen.errors.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(own) else seen.foreign.append(request.url))
    page.on("websocket", lambda socket: None if socket.url.startswith(own) else seen.foreign.append(socket.url))
    yield page
    if page.url != "about:blank":
        page.evaluate("() => localStorage.clear()")  # what the Explorer remembers of its layout
    page.close()
    assert seen.foreign == []


# The status indicator says "idle" before the kernel has answered, so the kernel itself is asked. Each
# look ends within a second: a dialog ("Select Kernel") would otherwise hold these promises for ever.
READY = """async () => {
  const ready = async () => {
    const app = window.jupyterapp;
    if (!app) return false;
    await app.restored;
    const panel = app.shell.currentWidget;
    if (!panel?.context || !panel.sessionContext) return false;
    await panel.context.ready;
    await panel.sessionContext.ready;
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) return false;
    await kernel.info;
    return kernel.status === 'idle';
  };
  return await Promise.race([ready(), new Promise(resolve => setTimeout(() => resolve(false), 1000))]);
}"""
DIALOGS = "() => [...document.querySelectorAll('.jp-Dialog')].map(dialog => dialog.innerText)"


@pytest.fixture
def open_notebook(page: Page, jupyter: Jupyter) -> Callable[[str], Page]:
    """Opens a notebook of `jupyter.root` by name and waits for its kernel.

    The notebook must name its kernel in `metadata.kernelspec`, or Jupyter asks for one in a dialog.
    """

    def open_(name: str) -> Page:
        page.goto(jupyter.notebook_url(name))
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:  # wait_for_function does not ask an async predicate twice
            try:
                if page.evaluate(READY):
                    return page
            except Error:  # the page is still navigating
                pass
            page.wait_for_timeout(100)
        raise TimeoutError(
            f"No idle kernel for {name} in {START_LIMIT_S:.0f} s; open dialogs: {page.evaluate(DIALOGS)}. "
            f"The server's log:\n{jupyter.log.read_text()}"
        )

    return open_


RUN_ALL = """async limit_ms => {
  const finished = window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => true);
  return await Promise.race([finished, new Promise(resolve => setTimeout(() => resolve(false), limit_ms))]);
}"""
CELLS = """() => window.jupyterapp.shell.currentWidget.content.widgets
  .filter(cell => cell.model.type === 'code')
  .map(cell => {
    const error = cell.model.outputs.toJSON().find(output => output.output_type === 'error');
    return [cell.model.executionCount, error ? `${error.ename}: ${error.evalue}` : null];
  })"""


@pytest.fixture
def run_all(page: Page) -> Callable[[], list[CellResult]]:
    """Runs every cell of the open notebook and waits for the last."""

    def run() -> list[CellResult]:
        finished = page.evaluate(RUN_ALL, CELLS_LIMIT_S * 1000)
        cells: list[list[Any]] = page.evaluate(CELLS)
        assert finished, f"cells still run after {CELLS_LIMIT_S:.0f} s; execution counts and errors so far: {cells}"
        return [CellResult(count, error) for count, error in cells]

    return run
