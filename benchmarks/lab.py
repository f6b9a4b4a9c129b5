"""A JupyterLab in headless Chromium, for what is measured in a page."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, Error, Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
VIEWPORT: ViewportSize = {"width": 1400, "height": 900}
START_LIMIT_S = 60.0
EXPLORE_LIMIT_MS = 900_000

EXPLORE = """
from benchmarks.workloads import make
from inspector import explore

workload = make({!r})
ex = explore(workload.fun, *workload.args)
ex
"""

COUNT = "print(sum(len(c.instructions) for c in ex.wait().baseline.compiled.module().computations))"

RUN = """async limit => {
  window.jupyterapp.commands.execute('notebook:run-cell');
  await window.painted(() => window.optimized(window.explorer()), limit);
}"""

READY = """async () => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const kernel = panel?.sessionContext?.session?.kernel;
  if (!kernel) return false;
  return await Promise.race([kernel.info.then(() => kernel.status === 'idle'), new Promise(r => setTimeout(() => r(false), 1000))]);
}"""

RESTART = """async () => {
  await window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs');
  await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart();
}"""

# Runs a piece of code in the notebook's kernel, without a cell, and gives what it printed.
ASK = """async code => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  let printed = '';
  const future = kernel.requestExecute({ code, store_history: false });
  future.onIOPub = message => {
    if (message.header.msg_type === 'stream' && message.content.name === 'stdout') printed += message.content.text;
    if (message.header.msg_type === 'error') printed += 'ERROR ' + message.content.evalue;
  };
  await future.done;
  return printed;
}"""

# `isDone` is asked at every change of the page; the clock stops after the frame in which it held.
PAINTED = """
window.afterFrame = run => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = run;
  channel.port2.postMessage(0);
});
window.painted = (isDone, limit) => new Promise((resolve, reject) => {
  const timer = setTimeout(() => reject(new Error('not painted in time')), limit);
  const look = () => {
    if (!isDone()) return;
    observer.disconnect();
    clearTimeout(timer);
    window.afterFrame(() => resolve(performance.now()));
  };
  const observer = new MutationObserver(look);
  observer.observe(document.body, { childList: true, subtree: true, attributes: true, characterData: true });
  look();
});
window.explorer = () => document.querySelector('.inspector-explorer');
window.optimized = e => {
  const editor = e?.querySelector('[data-pane=optimized] .cm-editor');
  return editor && [...editor.querySelectorAll('.cm-line')].some(line => /HloModule|ENTRY/.test(line.textContent)) ? editor : null;
};
"""


def ask(page: Page, code: str) -> str:
    """What a piece of code printed, run in the notebook kernel of the page.

    Raises:
      RuntimeError: it raised.
    """
    answer: str = page.evaluate(ASK, code)
    if "ERROR" in answer:
        raise RuntimeError(f"The kernel could not run {code.strip().splitlines()[-1]!r}: {answer}")
    return answer.strip()


def open_notebook(page: Page, name: str) -> None:
    """Opens one of the notebooks that `lab` was given, with `window.painted` and the like, and waits for its kernel.

    Raises:
      TimeoutError: no kernel answers.
    """
    page.goto(page.url.rpartition("/")[0] + f"/{name}.ipynb")
    _wait_for_kernel(page)
    page.evaluate(PAINTED)


def explorer_of(workload: str) -> str:
    """The cell of a notebook that explores a program of the ladder, for `open_explorer`."""
    return EXPLORE.format(workload)


def open_explorer(page: Page, name: str) -> int:
    """Opens a notebook with such a cell, runs it until the optimized HLO is painted, and counts the instructions.

    Raises:
      TimeoutError: no kernel answers.
    """
    open_notebook(page, name)
    page.evaluate(RUN, EXPLORE_LIMIT_MS)
    return int(ask(page, COUNT))


def thread_clock(page: Page) -> Callable[[], float]:
    """Milliseconds of CPU time of the page's thread, which is the first of the process that has worked most."""
    assert page.context.browser is not None
    session = page.context.browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    renderer = max((p for p in processes if p["type"] == "renderer"), key=lambda p: float(p["cpuTime"]))
    clock = Path(f"/proc/{renderer['id']}/schedstat")
    return lambda: int(clock.read_text().split()[0]) / 1e6


def start_anew(page: Page) -> None:
    """Gives the open notebook a new kernel, and takes its outputs away.

    Raises:
      TimeoutError: no kernel answers.
    """
    page.evaluate(RESTART)
    _wait_for_kernel(page)


def _wait_for_kernel(page: Page) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(Error):  # the page is still navigating
            if page.evaluate(READY):
                return
        page.wait_for_timeout(100)
    raise TimeoutError(f"No kernel in {START_LIMIT_S:.0f} s.")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        sys.exit(f"None of {', '.join(CHROMIUMS)} is on PATH; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextlib.contextmanager
def lab(notebooks: Mapping[str, str | Path], cache: str = "", config: Path | None = None) -> Iterator[Page]:
    """A page of a JupyterLab.

    Args:
      notebooks: the only cell of each, by its name; or a notebook's file.
      cache: the folder in which inspector remembers what it compiled; "" for none.
      config: configuration of the server, such as that of `binder/`; None for Jupyter's defaults.
    """
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        home = Path(folder)
        for name, code in notebooks.items():
            if isinstance(code, Path):
                shutil.copy(code, home / f"{name}.ipynb")
            else:
                _write_notebook(home / f"{name}.ipynb", code)
        if config is not None:
            (home / ".config").mkdir()
            shutil.copy(config, home / ".config" / "jupyter_server_config.py")
        with _server(home, cache) as url:
            page = browser.new_page(viewport=VIEWPORT)
            page.goto(f"{url}/doc/tree/{next(iter(notebooks))}.ipynb")
            yield page


def _write_notebook(path: Path, code: str) -> None:
    cells = [nbformat.v4.new_code_cell(code)]  # type: ignore[no-untyped-call]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})  # type: ignore[no-untyped-call]
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _server(home: Path, cache: str) -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "XLA_FLAGS"},
        "INSPECTOR_CACHE": "on" if cache else "off",
        "INSPECTOR_CACHE_DIR": cache,
        "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
        "JUPYTER_CONFIG_DIR": str(home / ".config"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / ".settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / ".workspaces"),
        "IPYTHONDIR": str(home / ".ipython"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    }
    settings = home / ".settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", f"--ServerApp.root_dir={home}", "--IdentityProvider.token="]
    command += ["--LabApp.expose_app_in_browser=True"]
    with (home / ".log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_LIMIT_S
        while not _answers(url):
            if time.monotonic() > deadline or process.poll() is not None:
                sys.exit(f"JupyterLab did not start:\n{(home / '.log').read_text()}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api", timeout=1):
            return True
    except OSError:
        return False
