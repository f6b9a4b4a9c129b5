"""Provides Graphviz for drawing graphs; pygraphviz bundles it if the system has none."""

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
    """Sets the `dot` that the `graphviz` package starts: the system's, else one that draws with pygraphviz."""
    import graphviz

    # An absolute path, since a bare name could match a program in the current folder.
    system_dot = shutil.which("dot", path=subprocesses.environ().get("PATH", os.defpath))
    graphviz.backend.dot_command.DOT_BINARY = pathlib.Path(system_dot) if system_dot else _shim()


def _dot() -> list[str]:
    """Returns the command that runs `dot.py` as a script, without importing other modules of inspector."""
    run = "import runpy; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    return subprocesses.python(run, str(pathlib.Path(__file__).with_name("dot.py")))


def _shim() -> pathlib.Path:
    """Writes an executable that takes `dot`'s arguments, since the graphviz package starts a single executable."""
    windows = os.name == "nt"
    # PYTHONPATH is unset: the command contains its path and the safe entries of that variable.
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
    """Returns the user's cache folder, else a temporary folder that is removed when this process ends."""
    cache = files.cache_folder()
    if cache is not None:
        with contextlib.suppress(OSError):
            return files.make_own_folder(cache)
    return pathlib.Path(_temporary().name)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="inspector-dot-", ignore_cleanup_errors=True)
