"""DOT to SVG in a process of its own, with a time limit and without a system Graphviz.

pygraphviz brings Graphviz along, but its layout cannot be interrupted, and a large graph can take
minutes; so a child process lays out and is killed when its time is up.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import shlex
import shutil
import stat
import subprocess
import sys

from inspector.errors import InspectorError

LIMIT_S = 20.0
"""Seconds that one layout may take."""


class LayoutError(InspectorError, RuntimeError):
    """A graph could not be laid out."""


def svg(dot: str, limit_s: float = LIMIT_S) -> str:
    """The SVG element of a DOT graph, without XML prologue.

    Raises:
      LayoutError: not laid out in time, or not valid DOT.
    """
    # -P: the modules beside the script must not hide those of other packages.
    command = [sys.executable, "-P", str(pathlib.Path(__file__).with_name("dot.py")), "-Tsvg"]
    try:
        done = subprocess.run(command, input=dot.encode(), capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as e:
        raise LayoutError(
            f"Graphviz did not lay out the graph in {limit_s:g} s. Draw what is around one instruction instead."
        ) from e
    start = done.stdout.find(b"<svg")
    if done.returncode or start < 0:
        raise LayoutError(f"Graphviz refused the graph: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout[start:].decode()


@functools.cache
def find_dot() -> None:
    """Lets the `graphviz` package draw where there is no system Graphviz: through pygraphviz's."""
    if shutil.which("dot") is not None:
        return
    import graphviz

    graphviz.backend.dot_command.DOT_BINARY = _shim()


def _shim() -> pathlib.Path:
    """An executable that takes `dot`'s arguments; the graphviz package starts one by name."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "inspector"
    cache.mkdir(parents=True, exist_ok=True)
    script = pathlib.Path(__file__).with_name("dot.py")
    windows = os.name == "nt"
    text = (
        f'@"{sys.executable}" -P "{script}" %*\n'
        if windows
        else f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P {shlex.quote(str(script))} "$@"\n'
    )
    shim = cache / f"dot-{hashlib.sha256(text.encode()).hexdigest()[:16]}{'.cmd' if windows else ''}"
    partial = shim.with_suffix(f".{os.getpid()}")
    partial.write_text(text)
    partial.chmod(partial.stat().st_mode | stat.S_IXUSR)
    return partial.replace(shim)
