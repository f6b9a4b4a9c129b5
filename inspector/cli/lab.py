"""A JupyterLab notebook of the programs that a command line names."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from inspector.cli.program_arguments import ProgramRequest
from inspector.support.subprocesses import current_folder


def start_lab(requests: Sequence[ProgramRequest], target: str, flags: tuple[str, ...], compare: Sequence[str]) -> None:
    """Replaces this process with JupyterLab.

    Args:
      requests: the programs, one cell each.
      target: the target device.
      flags: compiler options.
      compare: additional variants, as in `explore`.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        from inspector.support.install_commands import install_command, sentence

        raise click.UsageError(
            f"JupyterLab is not installed. {sentence(install_command('jax-inspector[lab]'))}\nWithout --lab, inspector opens a page."
        )
    path = Path(tempfile.mkdtemp(prefix="inspector-lab-")) / "explore.ipynb"
    path.write_text(json.dumps(notebook(requests, target, flags, compare)), encoding="utf-8")
    click.echo(f"{path}: starting JupyterLab", err=True)
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    # The JupyterLab of this Python, whose notebook kernel has inspector; -P, so that it imports nothing from the current folder.
    command = [sys.executable, "-P", "-m", "jupyterlab", *as_root, str(path)]
    if sys.platform == "win32":
        raise SystemExit(subprocess.call(command))
    os.execv(sys.executable, command)  # Ctrl-C then reaches JupyterLab, which ends its notebook kernels


def notebook(
    requests: Sequence[ProgramRequest], target: str, flags: tuple[str, ...], compare: Sequence[str]
) -> dict[str, Any]:
    """Returns a notebook that explores the programs in the current folder; arguments as for `start_lab`."""
    here = current_folder()
    if here is None:
        raise click.UsageError("The current folder was deleted. Change to another one.")
    first = f"import os\n\nfrom inspector.cli.explorers import ProgramRequest, start\n\nos.chdir({here!r})"
    shown = [f"start({each!r}, {target!r}, {flags!r}, {tuple(compare)!r})" for each in requests]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [_cell(number, source) for number, source in enumerate((first, *shown))]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def _cell(number: int, source: str) -> dict[str, Any]:
    about: dict[str, Any] = {"id": f"cell-{number}", "execution_count": None, "metadata": {}, "outputs": []}
    return {"cell_type": "code", "source": source, **about}
