"""Where JAX is not installed, what was saved is shown, and the rest says that it needs JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

import inspector
from tests.without_jax import NO_JAX, WITHOUT_JAX

HERE = Path(__file__).parent.parent

SHOWN = """
import inspector
explored, compiled = inspector.load("explored.inspector"), inspector.load("compiled.inspector")
assert "jit_f" in repr(explored) and "jit_f" in repr(compiled)
explorer = explored.explorer()
assert "jit_f" in repr(explorer)
bundle = explorer._repr_mimebundle_()
assert "jit_f" in (bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"]
explored._ipython_display_()
explorer.save_html("page.html")
inspector.report("report.html", explorer)
explored.save("again.inspector")
assert len(explored.compare().columns) > 1
assert explored.lowered.hlo.startswith("HloModule") and "dot_general" in str(explored.lowered.jaxpr)
assert "stablehlo.dot" in explored.lowered.stablehlo_listing.text
for program in (explored.variants[0].compiled, compiled):
    assert len(program.instructions()) and program.cost.flops > 0
    program.collectives(), program.roofline().table(), program.timeline(), program.graph(), program.diff(compiled)
    explored.lowered.shardings(program), explored.lowered.line_costs(program)
compiled.passes.table(), compiled.timeline().plot()
inspector.expect(compiled).no_float64()
"""

REFUSED = """
import inspector
compiled, lowered = inspector.load("compiled.inspector"), inspector.load("explored.inspector").lowered
module = "HloModule m\\nENTRY e { ROOT p = f32[] parameter(0) }"
asked = {
    "inspector.lower": lambda: inspector.lower(module), "inspector.explore": lambda: inspector.explore(module),
    "Compiling": lowered.compile, "Running a program": compiled.run, "inspector.targets": inspector.targets,
    "The StableHLO text of a module": lambda: lowered.stablehlo, "inspector.xla_computation": lambda: inspector.xla_computation,
    "inspector.watch_compiles": lambda: inspector.watch_compiles,
}
for what, ask in asked.items():
    try:
        ask()
    except inspector.errors.MissingPackageError as e:
        assert str(e).startswith(f"{what} needs JAX, which is not installed"), str(e)
    else:
        raise AssertionError(what)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two files, and with what keeps JAX from every Python that is started with it on its path."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "blocked").mkdir()
    (folder / "blocked" / "sitecustomize.py").write_text(WITHOUT_JAX)

    def f(x: object, w: object) -> object:
        return jnp.tanh(x @ w).sum()  # type: ignore[operator]

    given = jnp.ones((32, 64)), jnp.ones((64, 16))
    explorer = inspector.explore(f, *given, target="cpu", compare=[{"xla_cpu_enable_fast_math": True}])
    explorer.save(folder / "explored.inspector")
    explorer.close()
    inspector.lower(f, *given).compile(target="cpu", products=("passes", "buffers")).save(folder / "compiled.inspector")
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "blocked"), str(HERE)])
    environ = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("script", [SHOWN, REFUSED], ids=["shown", "refused"])
def test_without_jax(saved: Path, script: str) -> None:
    done = python(saved, "-c", f"{WITHOUT_JAX}\n{script}\n{NO_JAX}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("command", "wanted"), [
    ("report explored.inspector -o r.html", "r.html: "), ("lower explored.inspector --form hlo", "HloModule jit_f"),
    ("compile compiled.inspector", "peak memory"), ("compare explored.inspector compiled.inspector", "the same optimized HLO, machine code not compared"),
])  # fmt: skip
def test_commands_without_jax(saved: Path, command: str, wanted: str) -> None:
    done = python(saved, "-m", "inspector", *command.split())
    assert done.returncode == 0, done.stderr
    assert wanted in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["report compiled.inspector", "replay explored.inspector", "targets"])
def test_commands_that_need_jax_report_it(saved: Path, command: str) -> None:
    done = python(saved, "-m", "inspector", *command.split())
    assert done.returncode == 2
    assert "needs JAX, which is not installed" in done.stderr
    assert "Traceback" not in done.stderr
