"""The pytest plugin as a library's CI has it: a package and its tests outside of the checkout, in a pytest of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

CONFTEST = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
"""
STEP = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))

def args():
    of = lambda shape, *axes: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P(*axes)))
    return of((64, 128), None, "model"), of((128, 64), "model", None), of((32, 64), "data", None)

@jax.jit
def step(w, v, x):
    h = jnp.tanh(x @ w)
    return (h @ v).sum()
"""
GATHERED = STEP.replace(
    "(x @ w)\n", '(x @ w)\n    h = jax.lax.with_sharding_constraint(h, NamedSharding(MESH, P("data", None)))\n'
)
TESTS = """
import pytest
from library import args, step

class TestStep:
    @pytest.mark.parametrize("size", [1, 2])
    def test_baseline(self, hlo, size):
        hlo(step, *args(), target="cpu:8").baseline()

def test_own_limits(hlo):
    step_ = hlo(step, *args(), target="cpu:8").baseline(name="shared name")
    step_.collectives(axes="model", at_most=2).peak_bytes(at_most="1 MiB")
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    (tmp_path / "library.py").write_text(STEP)
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests" / "test_step.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, *arguments: str, status: int = 0) -> str:
    plugin = [] if has_entry_point() else ["-p", "inspector.expectations.plugin"]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, *arguments], cwd=folder, capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert process.returncode == status, process.stdout + process.stderr
    return process.stdout


def has_entry_point() -> bool:
    from importlib import metadata

    return any(each.value == "inspector.expectations.plugin" for each in metadata.entry_points(group="pytest11"))


def test_the_plugin_is_installed_for_pytest() -> None:
    assert has_entry_point()


@pytest.mark.slow
@pytest.mark.timeout(900)  # five runs of pytest
def test_a_librarys_tests(library: Path) -> None:
    assert "3 failed" in run(library, "-n", "0", status=1)
    recorded = run(library, "--inspector-update", "-n", "2")
    assert "inspector: 3 baselines recorded; review the files." in recorded
    records = json.loads((library / "tests" / "baselines" / "test_step.json").read_text())["programs"]
    assert set(records) == {"TestStep.test_baseline[1]", "TestStep.test_baseline[2]", "shared name"}
    assert "3 passed" in run(library, "-n", "0")

    (library / "library.py").write_text(GATHERED)
    said = run(library, "-n", "2", "--inspector-summary", "summary.md", "-k", "own_limits or 1", status=1)
    assert "2 failed" in said
    assert "FAIL  all-gather over model: expected none, as recorded, got" in said
    assert re.search(r"^E +library.py:\d+ in step\nE +\d+ \|", said, re.MULTILINE)
    assert re.search(r"^E +> \d+ \|     (h = jnp.tanh\(x @ w\)|return \(h @ v\).sum\(\))", said, re.MULTILINE)
    assert "expectation.py:" not in said, "frames of ours are hidden"
    assert f"inspector explore {library}/.pytest_cache/d/inspector/" in said
    summary = (library / "summary.md").read_text()
    assert "❌ all-gather over model | 0 |" in summary
    assert summary.count("**") == 4


@pytest.mark.slow
@pytest.mark.parametrize("use", ["", "def test_it(request): request.getfixturevalue('hlo')"])
def test_the_plugin_has_no_cost_when_unused(tmp_path: Path, use: str) -> None:
    (tmp_path / "conftest.py").write_text(
        "import sys\ndef pytest_unconfigure(config):\n    print('\\nloaded:', 'jax' in sys.modules, 'inspector.errors' in sys.modules)\n"
    )
    (tmp_path / "test_other.py").write_text(use or "def test_it(): pass")
    loaded = run(tmp_path, "-p", "no:hypothesispytest", "-p", "no:xdist").splitlines()[-1]
    assert loaded == ("loaded: False True" if use else "loaded: False False"), "JAX, and inspector"
