"""pytest in forks of a process that has loaded the libraries, which takes most of the start."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

LOADED = ["jax", "jax.numpy", "jax.export", "matplotlib.figure", "numpy", "pandas", "pytest"]
TEST_LIMIT_S = 120  # one that takes longer hangs
LIMIT_S = 1800


def pytest_of(folder: Path, marks: str, tests: Sequence[str]) -> tuple[int | None, list[str]]:
    """What pytest ends with in a process that has loaded the libraries, and what it wrote; None where it did not end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    log = folder / "pytest.log"
    process = context.Process(target=_run, args=(str(folder), str(log), marks, list(tests)))
    process.start()
    process.join(LIMIT_S)
    code = process.exitcode
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # with the processes that its tests left
    process.join()
    return code, log.read_text(errors="replace").splitlines()


def _run(folder: str, log: str, marks: str, tests: Sequence[str]) -> None:
    os.setsid()
    os.chdir(folder)
    sys.path.insert(0, folder)
    with Path(log).open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    import pytest

    limits = [f"--timeout={TEST_LIMIT_S}", "-p", "no:cacheprovider"]
    code = pytest.main(["-q", "-x", *limits, "-m", marks, *tests])
    sys.stdout.flush()
    os._exit(int(code))
