"""Another version of JAX beside this one, as `.ci/run` makes one: of an environment in the project's folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jax
import pytest

import inspector

VERSION = "import importlib.metadata as m; print(m.version('jax'))"


@pytest.fixture(scope="session")
def other() -> Path:
    """Its Python."""
    root = Path(inspector.__file__).parent.parent
    named = [Path(os.environ["INSPECTOR_OTHER_PYTHON"])] if os.environ.get("INSPECTOR_OTHER_PYTHON") else []
    for python in [*named, *sorted(root.glob(".venv*/bin/python"))]:
        child = subprocess.run([python, "-P", "-c", VERSION], capture_output=True, text=True, check=False)
        if child.returncode == 0 and child.stdout.strip() not in ("", jax.__version__):
            return python
    pytest.skip("no Python with another JAX: set INSPECTOR_OTHER_PYTHON")


@pytest.fixture(scope="session")
def other_version(other: Path) -> str:
    """Its version of JAX."""
    return subprocess.run([other, "-P", "-c", VERSION], capture_output=True, text=True, check=True).stdout.strip()
