"""Graphviz for graphs that users draw, without one on the system: pygraphviz brings it along."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from inspector.support import files, subprocesses


@functools.cache
def find_dot() -> None:
    """Tells the `graphviz` package which `dot` to start: the system's, else one that draws through pygraphviz."""
    import graphviz

    # By its path: by name, one in the current folder could be found.
    found = shutil.which("dot", path=subprocesses.environ().get("PATH", os.defpath))
    graphviz.backend.dot_command.DOT_BINARY = pathlib.Path(found) if found else _shim()


def _dot() -> list[str]:
    """The command of `dot.py`, as a script: nothing else of inspector is imported."""
    run = "import runpy; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    return subprocesses.python(run, str(pathlib.Path(__file__).with_name("dot.py")))


def _shim() -> pathlib.Path:
    """An executable that takes `dot`'s arguments; the graphviz package starts one by name."""
    windows = os.name == "nt"
    # Without PYTHONPATH: the command has its path, and of that variable only what is safe.
    text = (
        f"@set PYTHONPATH=\n@{subprocess.list2cmdline(_dot())} %*\n"
        if windows
        else (f'#!/bin/sh\nunset PYTHONPATH\nexec {shlex.join(_dot())} "$@"\n')
    )
    name = f"dot-{hashlib.sha256(text.encode()).hexdigest()[:16]}{'.cmd' if windows else ''}"
    shim = _own_folder() / name
    with files.writing(shim, mode=0o700, durable=False) as file:
        file.write(text.encode())
    return shim


def _own_folder() -> pathlib.Path:
    """The user's cache, else a folder for as long as this process lives."""
    cache = files.cache_folder()
    if cache is not None:
        with contextlib.suppress(OSError):
            return files.make_own_folder(cache)
    return pathlib.Path(_temporary().name)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="inspector-dot-", ignore_cleanup_errors=True)
