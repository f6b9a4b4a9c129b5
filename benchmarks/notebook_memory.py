"""What a notebook needs of a small machine: the memory of its JupyterLab, all that it starts, at the peak.

    python -m benchmarks.notebook_memory [--allowed 1024] [--in-a-row] [notebook ...]

Each notebook, those of `notebooks/` without another's devices by default, is run whole in JupyterLab, in Chromium, as on
Binder. Meanwhile the memory of the server and of every process below it (kernels, fork servers, workers) is added up,
each page by the share of it that a process has (PSS, Linux). The browser is somebody else's machine, and not counted.
The server is told that it may take so many MiB, as JupyterHub tells it, and inspector lives accordingly; 0 for all.

With `--in-a-row`, one JupyterLab with the configuration of `binder/` runs all notebooks, the lessons by default, one after
another, and none is closed. `--defaults` leaves that configuration out.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # no py.typed upstream

from benchmarks.lab import ROOT, lab, open_notebook
from benchmarks.measuring import machine, verdict

NOTEBOOKS = ("00_tour", "course/2_replica_groups")
AIM_MB = 800.0
ROW_AIM_MB = 1300.0
CONFIG = ROOT / "binder" / "jupyter_server_config.py"
_EVERY_S = 0.5
_MB = 1 << 20

RUN_ALL = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
FAILED = "() => document.querySelectorAll('.jp-OutputArea-output[data-mime-type*=error]').length"


@dataclasses.dataclass
class Peak:
    """The most memory that was seen at once.

    Attributes:
      total_mb: of all processes.
      by_process: of each then, the largest first: MB and what it is.
    """

    total_mb: float = 0.0
    by_process: tuple[tuple[float, str], ...] = ()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("notebooks", nargs="*")
    parser.add_argument("--in-a-row", action="store_true")
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--allowed", type=int, default=1024, metavar="MiB")
    options = parser.parse_args(arguments)
    os.environ["MEM_LIMIT"] = str(options.allowed * _MB)
    if options.in_a_row:
        lessons = sorted(f"course/{path.stem}" for path in (ROOT / "notebooks" / "course").glob("*.ipynb"))
        _print_row(options.notebooks or lessons, None if options.defaults else CONFIG)
        return
    for name in options.notebooks or NOTEBOOKS:
        peak, failed = _run(ROOT / "notebooks" / f"{name}.ipynb")
        parts = ", ".join(f"{what} {mb:.0f}" for mb, what in peak.by_process)
        said = f"; {failed} cells failed" if failed else ""
        print(
            f"{name}: {peak.total_mb:.0f} MiB at the peak, {verdict((peak.total_mb, AIM_MB))}: {parts}{said} {machine()}"
        )


def _print_row(names: Sequence[str], config: Path | None) -> None:
    """Prints the peak of one JupyterLab that runs all notebooks, and what it takes after each."""
    paths = [ROOT / "notebooks" / f"{name}.ipynb" for name in names]
    with tempfile.TemporaryDirectory() as cache, lab({path.stem: path for path in paths}, cache, config) as page:
        page.set_default_timeout(0)
        with _watched() as peak:
            for path in paths:
                open_notebook(page, path.stem)
                page.evaluate(RUN_ALL)
                failed = int(page.evaluate(FAILED))
                parts = sorted(_parts(_server()), reverse=True)
                listed = ", ".join(f"{what} {mb:.0f}" for mb, what in parts)
                said = f"; {failed} cells failed" if failed else ""
                print(f"after {path.stem}: {sum(mb for mb, _ in parts):.0f} MiB: {listed}{said}", flush=True)
        parts_then = ", ".join(f"{what} {mb:.0f}" for mb, what in peak.by_process)
        print(
            f"{len(paths)} notebooks: {peak.total_mb:.0f} MiB at the peak,"
            f" {verdict((peak.total_mb, ROW_AIM_MB))}: {parts_then} {machine()}"
        )


def _run(notebook: Path) -> tuple[Peak, int]:
    """The peak while a notebook runs, and how many of its outputs are errors."""
    with tempfile.TemporaryDirectory() as cache, lab({notebook.stem: notebook}, cache) as page:
        open_notebook(page, notebook.stem)
        page.set_default_timeout(0)
        with _watched() as peak:
            page.evaluate(RUN_ALL)
        return peak, int(page.evaluate(FAILED))


@contextlib.contextmanager
def _watched() -> Iterator[Peak]:
    """Keeps the peak of this process's JupyterLab while it is open."""
    server = _server()
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            now = sorted(_parts(server), reverse=True)
            total = sum(mb for mb, _ in now)
            if total > peak.total_mb:
                peak.total_mb, peak.by_process = total, tuple(now)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def _server() -> psutil.Process:
    """This process's JupyterLab."""
    (server,) = (p for p in psutil.Process().children() if any("jupyter" in each for each in p.cmdline()))
    return server


def _parts(server: psutil.Process) -> Iterator[tuple[float, str]]:
    """MB and what it is, of a server and each process below it."""
    for process in (server, *server.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            yield process.memory_full_info().pss / _MB, _what(process, server)


def _what(process: psutil.Process, server: psutil.Process) -> str:
    if process.pid == server.pid:
        return "server"
    command = process.cmdline()
    if "ipykernel_launcher" in command:
        return "notebook kernel"
    if "fork-server" in command:
        parent = process.parent()
        return "worker" if parent is not None and "fork-server" in parent.cmdline() else "fork server"
    return Path(command[0]).name if command else "a process that ends"


if __name__ == "__main__":
    main()
