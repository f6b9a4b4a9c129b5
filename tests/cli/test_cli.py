"""The command line as people and scripts use it: what goes in, what comes out where, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import inspector
from inspector.api.exploration import Exploration
from inspector.cli.arguments import as_call, read_call
from inspector.cli.commands import inspector as commands
from inspector.cli.lab import notebook
from inspector.cli.program_arguments import ProgramRequest
from inspector.errors import ParameterError, TargetError
from inspector.stages.compiled import load_compiled
from tests.absent import needs_tpu
from tests.conftest import ROOT

SCRIPT = """
import jax, jax.numpy as jnp
print("printed by the script")
f32 = jnp.float32  # a name of ours

def make_args():
    return jax.ShapeDtypeStruct((64, 64), f32), jax.ShapeDtypeStruct((32, 64), f32)

def keywords():
    return {"w": jax.ShapeDtypeStruct((64, 64), f32), "x": jax.ShapeDtypeStruct((32, 64), f32)}

@jax.jit
def step(w, x):
    return jnp.tanh(x @ w).sum()

def faster(w, x):
    return jnp.tanh(x.astype(jnp.bfloat16) @ w).sum()

def scaled(x, times):
    return jax.tree.map(lambda leaf: leaf * times, x)

def summed(x):
    return jax.lax.psum(x, "i")

def update(w, x):
    return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

def make_layers():
    w, x = make_args()
    return {"first": w, "second": w}, x

def fit(params, x):
    loss = lambda p: jnp.mean((jnp.tanh(x @ p["first"]) @ p["second"]) ** 2)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

def variance(x):
    return jnp.mean(x * x) - jnp.mean(x) ** 2

def shifted():
    return (1000 + jnp.linspace(0, 1, 64, dtype=f32),)

class Model:
    @staticmethod
    def apply(x):
        return x + 1

def guarded(x):
    return jnp.where(jnp.isnan(jnp.log(x)), 0.0, jnp.log(x))

def broken(x):
    raise RuntimeError("of the user's own")

def talking(x):
    print("printed while tracing")
    return x * 2
"""

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a command in a folder with `step.py`, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "step.py").write_text(SCRIPT)
    for name in ("step", "elsewhere"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(commands, list(arguments))
        assert result.exit_code == status, (result.stdout, result.stderr, result.exception)
        sys.modules.pop("step", None)
        return result

    yield run
    sys.modules.pop("step", None)


# ------------------------------------------------------------------ what goes in


def test_a_function_of_a_script(run: Run) -> None:
    result = run("compile", "step.py:step", "--args", "f32[64,64], f32[32,64]", "-t", "cpu")
    assert result.stdout.startswith("jit_step(w: float32[64, 64], x: float32[32, 64]) for cpu, defaults\n")
    assert re.search(r"^peak memory +\d+ KiB$", result.stdout, re.MULTILINE)
    assert re.search(r"^floating-point operations +\d+ kflop$", result.stdout, re.MULTILINE)
    assert "printed by the script" in result.stderr
    assert "printed by the script" not in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("step.py:step", "--args-from", "make_args"), ("step.py:step", "--args", "*make_args()"),
        ("step.py:step", "--args-from", "keywords"), ("step:step", "--args", "**keywords()"),
        ("step.py:step", "--args-from", "step:make_args"), ("step.py:step", "--args", "w=f32[64,64], x=float32[32,64]"),
    ],
)  # fmt: skip
def test_arguments_in_every_form(run: Run, arguments: tuple[str, ...]) -> None:
    found = json.loads(run("compile", *arguments, "-t", "cpu", "--json").stdout)
    assert found["numbers"]["argument_bytes"] == 4 * (64 * 64 + 32 * 64)
    assert (found["program"], found["target"]) == ("jit_step", "cpu")


def test_settings_axes_methods_and_donations(run: Run) -> None:
    assert "f32[8]" in run("lower", "step.py:Model.apply", "--args", "f32[8]", "--form", "jaxpr", "-t", "cpu").stdout
    text = run(
        "lower", "step.py:scaled", "--args", "{'a': bf16[4], 'b': [i32[]]}, 3", "--static", "times", "--form", "jaxpr"
    ).stdout
    assert "bf16[4]" in text
    assert "i32[]" in text
    assert "all_reduce" in run("lower", "step.py:summed", "--args", "f32[8]", "--axis", "i=4").stdout
    text = run("lower", "step.py:Model.apply", "--args", "f32[8]", "--donate", "0", "--form", "hlo").stdout
    assert "input_output_alias" in text or "buffer_donor" in text


def test_findings_with_proofs_and_a_limit(run: Run) -> None:
    call = ("findings", "step.py:fit", "--args-from", "make_layers", "-t", "cpu")
    text = run(*call, "--prove", "--above", "1 MiB").stdout
    assert text.startswith("1. `params` (2 arrays, 32 KiB) is returned updated as the result but is not donated")
    assert re.search(r"^     remedy:  jax.jit\(fun, donate_argnames=\('params',\)\)$", text, re.MULTILINE)
    assert re.search(r"^     proof:   proven", text, re.MULTILINE)
    found = json.loads(run(*call, "--kind", "undonated", "--above", "1 KiB", "--json", status=1).stdout)
    assert [(row["kind"], row["gain_bytes"], row["is_folded"]) for row in found["findings"]] == [
        ("undonated", 4 * 32 * 64, False)
    ]
    assert (found["kinds"], found["unknown"]) == (["undonated"], [])
    none = run(*call, "--donate", "0", "--kind", "undonated")
    assert none.stdout == "No findings. Looked for: undonated.\n"
    assert "Unknown kind 'undonatd'" in run(*call, "--kind", "undonatd", status=2).stderr
    assert "such as '1 MiB'" in run(*call, "--above", "much", status=2).stderr
    assert "none with a gain above 1 %" in run("expect", *call[1:], "--no-findings", status=1).stdout


@pytest.mark.slow
def test_accuracy_of_variants(run: Run) -> None:
    call = ("accuracy", "step.py:variance", "--args-from", "shifted", "-t", "cpu")
    text = run(*call, "-X", "xla_cpu_enable_fast_math=true").stdout
    heading, baseline, variant, *lines = text.splitlines()
    assert heading.split("  ")[0] == "Variant"
    assert re.match(r"baseline +result +float32 +wrong ", baseline)
    assert re.match(r"--xla_cpu_enable_fast_math=true +result +float32 +wrong ", variant)
    assert re.match(r"baseline: step.py:\d+ sub loses \d digits by cancellation", lines[0])
    found = json.loads(run(*call, "--json", "--exit-code", status=1).stdout)
    (row,) = found["rows"]
    assert (found["program"], row["verdict"], row["outside"]) == ("jit_variance", "wrong", 1)
    assert row["source_file"].endswith("step.py")
    run(*call, "--rtol", "1e3", "--exit-code")
    assert "departure" not in run(*call, "--no-locate").stdout
    assert "rtol is -1.0" in run(*call, "--rtol", "-1", status=2).stderr
    assert "no flag named" in run(*call, "-X", "xla_no_such=1", status=2).stderr


@needs_tpu
def test_accuracy_that_nothing_measured_fails(run: Run) -> None:
    text = run("accuracy", "step.py:variance", "--args-from", "shifted", "-t", "tpu:v5e:1x1", status=1).stdout
    assert re.search(r"baseline .*tpu:v5e:1x1", text)


def test_files_with_programs(run: Run, tmp_path: Path) -> None:
    run("lower", "step.py:step", "--args-from", "make_args", "-t", "cpu", "-o", "step.mlir")
    run("lower", "step.py:step", "--args-from", "make_args", "-t", "cpu", "--form", "hlo", "-o", "step.hlo")
    run("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu", "-o", "step.inspector")
    flops = [
        json.loads(run("compile", name, *target, "--json").stdout)["numbers"]["flops"]
        for name, target in (("step.mlir", ("-t", "cpu")), ("step.hlo", ("-t", "cpu")), ("step.inspector", ()))
    ]
    assert len(set(flops)) == 1
    assert load_compiled("step.inspector").program.name == "jit_step"
    hlo = run("compile", "step.inspector", "--hlo").stdout
    assert hlo.startswith("HloModule jit_step")


def cell(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "source": source.splitlines(keepends=True), "metadata": {}, "outputs": []}


def test_a_function_of_a_notebook_by_its_cell(run: Run) -> None:
    cells = [
        {"cell_type": "markdown", "source": "f = 3"}, cell("%load_ext inspector\nimport jax.numpy as jnp\nprint('in a cell')"),
        cell("def f(x):\n    return jnp.sin(x)"), cell("def f(x):\n    return jnp.cos(x)"), cell("1 / 0"),
    ]  # fmt: skip
    Path("n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    last = run("lower", "n.ipynb:f", "--args", "f32[8]", "--form", "jaxpr")
    assert "cos" in last.stdout
    assert "in a cell" in last.stderr
    assert "sin" in run("lower", "n.ipynb:f", "--args", "f32[8]", "--form", "jaxpr", "--cell", "2").stdout
    assert "ZeroDivisionError" in run("lower", "n.ipynb:f", "--args", "f32[8]", "--cell", "4", status=1).stderr
    assert "4 code cells, and none of them defines 'g'" in run("lower", "n.ipynb:g", status=2).stderr
    Path("bad.ipynb").write_text("[]")
    assert "is not a readable notebook" in run("lower", "bad.ipynb:g", status=2).stderr


F = "import jax.numpy as jnp\ndef f(x):\n    return jnp.sin(x)"
INDENTED = F.replace("\n", "\n    ")


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (["%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1]); plt.show()", F], ""),
        (["%matplotlib widget", F], ""), (["%matplotlib notebook", F], ""), (["%matplotlib qt", F], ""), (["%matplotlib", F], ""),
        (["%pylab inline", F], ""), (["%config InlineBackend.figure_format = 'retina'", F], ""),
        ([f"%%time\n{F}"], ""), ([f"%%capture out\n{F}"], ""), ([f"\n%%capture\n%%time\n{F}"], ""),
        (["%%timeit\n1 / 0", F, "%timeit f"], ""),
        ([f"!pip install -q strange\n%pip install strange\n! python -m pip install strange\nx = !pip install strange\n{F}"],
         "!pip install -q strange: packages are not installed"),
        (["!echo of the shell\nx = !echo a value\nassert x == ['a value'], x", F], "of the shell"),
        (["%load_ext strange\n%load_ext autoreload\n%autoreload 2\n%strange --now", F], "%strange --now: Line magic"),
        (["jnp?\n?jnp\nlen??", F, f"f?\n{F}"], ""),
        (["import asyncio\nawait asyncio.sleep(0)\nasync def g():\n    return 3\ny = await g()\nassert y == 3", F], ""),
        ([f"%%strange --now\n{F}"], "%%strange: unknown magic, the cell runs without it"),
        (["%%strange\nSELECT * FROM x", F], "%%strange: unknown magic, the cell is skipped"),
        (["%%html\n<b>x</b>", "%%javascript\nx", "%%bash\necho in bash", F], "in bash"),
        (["%%writefile beside.py\ndef g(x):\n    return x", f"from beside import g\n{F}"], ""),
        ([f"%%writefile beside.py\n{F}", "%run beside.py"], ""),
        ([f"if True:\n    {INDENTED}"], ""), ([f"try:\n    {INDENTED}\nexcept ImportError:\n    pass"], ""),
        (["import jax.numpy as jnp\nwith open('n.ipynb'):\n    f = lambda x: jnp.sin(x)"], ""),
        (["from IPython.display import display, HTML\ndisplay(HTML('<b>'))\n1 + 1", F], ""),
        (["%env STRANGE=1\n%cd .\n%ls\n%who\n%reset\n%history", F], ""),
    ],
)  # fmt: skip
def test_ordinary_notebooks(run: Run, cells: list[str], note: str) -> None:
    folder = Path("notebooks")  # their own folder is where they read files and modules
    folder.mkdir()
    document = {"cells": [cell(source) for source in cells], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    (folder / "n.ipynb").write_text(json.dumps(document))
    result = run("lower", "notebooks/n.ipynb:f", "--args", "f32[8]", "--form", "jaxpr", "-o", "f.txt")
    assert result.stdout == ""
    assert "sin" in Path("f.txt").read_text()
    assert note in result.stderr
    sys.modules.pop("beside", None)


@pytest.mark.parametrize("source", ["1 / 0", "%%time\n1 / 0", "%%capture\n1 / 0", "%time 1 / 0", "def g(:"])
def test_an_error_of_a_cell_ends_the_command_unless_it_is_expected(run: Run, source: str) -> None:
    document: dict[str, Any] = {"cells": [cell(source), cell(F)], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    Path("n.ipynb").write_text(json.dumps(document))
    said = run("lower", "n.ipynb:f", "--args", "f32[8]", status=1).stderr
    assert re.search("ZeroDivisionError|SyntaxError", said)
    document["cells"][0]["metadata"] = {"tags": ["raises-exception"]}
    Path("n.ipynb").write_text(json.dumps(document))
    run("lower", "n.ipynb:f", "--args", "f32[8]")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compile", "nothing.py:f"), "File 'nothing.py' does not exist"),
        (("compile", "nothing"), "neither a file nor a function"),
        (("compile", "no.such.module:f"), "Module 'no"),
        (("compile", "step.py"), "step.py needs the name of a function: step.py:NAME"),
        (("compile", "step.py:stop"), "step.py has no 'stop'. Its functions: make_args"),
        (("compile", "step.py:Model.aply"), "Model of step.py has no 'aply'"),
        (("compile", "step.py:step"), "step.py:step takes w, x. Give --args"),
        (("compile", "step.py:step", "--args", "f32[64"), "--args 'f32[64': SyntaxError"),
        (("compile", "step.py:step", "--args", "f33[64]"), "name 'f33' is not defined"),
        (("compile", "step.py:step", "--args", "f32[8]", "--args-from", "make_args"), "not both"),
        (("compile", "step.py:step", "--args", "f32[8,8], f32[8,8]", "-t", "cpu:no"), "Target 'cpu:no'"),
        (("compile", "step.py:step", "--args", "f32[8,8], f32[8,8]", "-X", "xla_nonsense=1"), "xla_nonsense"),
        (("compile", "step.py:summed", "--args", "f32[8]", "--axis", "i"), "expected NAME=SIZE"),
        (("compare", "step.py:step", "--args-from", "make_args", "-t", "cpu"), "There is only one program"),
        (("expect", "step.py:step", "--args-from", "make_args"), "No checks. Give at least one"),
        (("expect", "step.py:step", "--args-from", "make_args", "--at-most", "peak"), "expected NAME=AMOUNT"),
        (("expect", "step.py:step", "--args-from", "make_args", "--at-most", "peek=1"), "no number 'peek'"),
        (("replay", "one.inspector"), "does not exist"),
        (("replay", "step.py"), "Cannot open 'step.py'"),
        (("compile", "step.py:step", "--args", "f32[8,8]"), "step.py:step takes w, x; got 1 (missing a required argument: 'x')"),
        (("lower", "step.py:step", "--args", "f32[8], f32[8], 3"), "takes w, x; got 3 (too many"),
        (("explore", "step.py:step", "--args", "f32[8], y=f32[8]"), "takes w, x; got 1, y=..."),
        (("compile", "step.py:scaled", "--args-from", "keywords"), "takes x, times; got w=..., x=..."),
        (("report", "step.py:step", "--args-from", "make_args", "-o", "x.txt"), "'x.txt' must end in .html, .htm, .inspector"),
        (("explore", "step.py:step", "--args-from", "make_args", "-o", "page"), "'page' must end in .html"),
        (("compile", "step.py:step", "--args-from", "make_args", "--html", "x.inspector"), "must end in .html"),
        (("compile", "step.py:step", "--args-from", "make_args", "-o", "x.html"), "For a page: --html x.html"),
        (("report", "step.py:step", "--args-from", "make_args", "-o", "no/x.html"), "the folder 'no' does not exist"),
        (("compile", "step.py:step", "--args-from", "make_args", "-t", "tpu"), "'tpu:v5e', or 'tpu:v5e:2x4'"),
        (("compile", "step.py:step", "--args-from", "make_args", "-t", "gpu"), "'gpu:h100', or 'gpu:h100:8'"),
        (("scan", "step.py:step", "--args-from", "make_args", "--time-limit", "-1"), "not in the range x>0"),
        (("expect", "step.py:step", "--args-from", "make_args", "--baseline", "b.json", "--above", "x"), "such as 5% or 0.05"),
        (("lower", "step.py:summed", "--args", "f32[8]"), "--axis NAME=SIZE"),
        (("compile", "step.py:step", "--args-from", "make_args", "-X", "nonsense=1"), "`inspector options`"),
        (("nonsense",), "No such command"),
    ],
)  # fmt: skip
def test_invalid_usage_exits_with_2_and_a_hint(run: Run, arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments, status=2)
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


CUSTOM_CALL = """HloModule strange

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT y = f32[8]{0} custom-call(x), custom_call_target="Nothing"
}
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile",), ("collectives",), ("expect", "--at-most", "peak_bytes=1"), ("compare", "-t", "cpu"),
        ("explore", "--no-open", "-o", "a.html"), ("report", "-o", "a.html"), ("report", "-o", "a.inspector"),
    ],
)  # fmt: skip
def test_a_failed_compile_ends_with_1_and_its_reason(run: Run, arguments: tuple[str, ...]) -> None:
    Path("strange.hlo").write_text(CUSTOM_CALL)
    command, *options = arguments
    result = run(command, "strange.hlo", "-t", "cpu", *options, status=1)
    assert "No registered implementation for untyped custom call to Nothing" in result.stderr
    assert "None" not in result.stderr
    assert result.stdout in ("", "a.html\n")
    if "a.html" in options:
        page = Path("a.html").read_text()
        assert "✗ baseline<br><small>cpu</small>: CompilationError: XLA rejected the program" in page
        assert "Run the cell" not in page


def test_a_variant_that_is_not_compiled_is_named(run: Run) -> None:
    call = ("step.py:step", "--args-from", "make_args", "-t", "cpu", "-c", "tpu", "-o", "a.html")
    said = run("report", *call, status=1).stderr
    assert "tpu was not compiled: This process has no tpu device" in said
    assert "baseline" not in said


def test_a_replay_that_compiles_less_ends_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.reports import other_jax

    def refuse(version: str, *_: object) -> Path:
        raise TargetError(f"JAX {version} cannot be installed")

    run("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu", "-o", "one.inspector")
    monkeypatch.setattr(other_jax.OtherJax.__init__, "__defaults__", (None, refuse))
    said = run("replay", "one.inspector", "--jax", "9.9.9", status=1).stdout
    assert re.match(r"jit_step, recorded with JAX [\d.]+, replayed with 9\.9\.9\n", said)
    assert "done in the recording, failed in the replay\n    JAX 9.9.9 cannot be installed" in said
    assert "expected a version of JAX" in run("replay", "one.inspector", "--jax", "new", status=2).stderr
    Path("strange.hlo").write_text(CUSTOM_CALL)
    run("report", "strange.hlo", "-t", "cpu", "-o", "strange.inspector", status=1)
    assert "failed as before" in run("replay", "strange.inspector", "--exit-code").stdout


def test_a_saved_program_stays_on_its_platform(run: Run) -> None:
    call = ("step.py:step", "--args-from", "make_args", "-t", "cpu")
    run("compile", *call, "-o", "one.inspector")
    run("lower", *call, "-o", "one.mlir")
    for command in (("compile",), ("lower",), ("expect", "--no-float64")):
        said = run(command[0], "one.inspector", "-t", "tpu:v5e:2x4", *command[1:], status=2).stderr
        assert "one.inspector was lowered for cpu, but tpu:v5e:2x4 needs a program lowered for tpu" in said
        assert "script.py:function -t tpu:v5e:2x4" in said
        assert "platform=" not in said
    run("lower", "one.mlir", "-t", "tpu:v5e:2x4")


def test_numbers_are_written_to_a_file(run: Run) -> None:
    call = ("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu")
    assert run(*call, "-o", "numbers.txt").stdout == ""
    assert Path("numbers.txt").read_text().startswith("jit_step(w: float32[64, 64]")
    run(*call, "--json", "-o", "numbers.json")
    assert json.loads(Path("numbers.json").read_text())["target"] == "cpu"


def test_an_error_of_the_users_own_shows_their_line(run: Run) -> None:
    said = run("lower", "step.py:broken", "--args", "f32[8]", status=1).stderr
    assert "RuntimeError: of the user's own" in said
    assert 'step.py", line' in said
    assert "internal frames" not in said
    assert "inspector/cli" not in said


def test_arguments_are_those_of_a_python_call() -> None:
    args, kwargs = read_call("f32[2,3], (pred[4], [bf16, 1.5]), s8[], n=u32[7], t='i[]'", {"extra": 3})
    assert [a.shape for a in (args[0], args[1][0], args[1][1][0], args[2])] == [(2, 3), (4,), (), ()]
    assert [str(a.dtype) for a in (args[0], args[1][0], args[1][1][0], args[2])] == [
        "float32",
        "bool",
        "bfloat16",
        "int8",
    ]
    assert (kwargs["n"].shape, args[1][1][1]) == ((7,), 1.5)
    assert read_call("*[extra] * 2, np.float32(1), jnp.float32", {"extra": 3})[0][:2] == (3, 3)
    for text in ("f32[-", "1 +", "import os", "a b", "f32['x']"):
        with pytest.raises(ParameterError, match="Expected the arguments of a call"):
            read_call(text, {})
    assert as_call((1, 2)) == ((1, 2), {})
    assert as_call({"a": 1}) == ((), {"a": 1})
    assert as_call(3) == ((3,), {})


# ------------------------------------------------------------------ what comes out


def test_programs_side_by_side(run: Run) -> None:
    call = ("step.py:step", "--args-from", "make_args")
    result = run("compare", *call, "-t", "cpu", "-X", "xla_disable_hlo_passes=fusion")
    assert re.search(r"^ +baseline +xla_disable_hlo_passes=fusion +delta", result.stdout, re.MULTILINE)
    assert re.search(r"^xla_disable_hlo_passes=fusion: .*", result.stdout, re.MULTILINE)
    run("compile", "step.py:Model.apply", "--args", "f32[8]", "-t", "cpu", "-o", "other.inspector")
    run("compile", *call, "-t", "cpu", "-o", "a.inspector")
    run("compile", *call, "-t", "cpu", "-o", "b.inspector")
    assert "other.inspector: " in run("compare", "a.inspector", "other.inspector", "--exit-code", status=1).stdout
    same = json.loads(run("compare", "a.inspector", "b.inspector", "--exit-code", "--json").stdout)
    assert same["changes"] == {"b.inspector": []}
    assert same["programs"] == ["a.inspector", "b.inspector"]


def test_collectives(run: Run) -> None:
    call = ("collectives", "step.py:summed", "--args", "f32[8]", "--axis", "i=4", "-t", "cpu:4")
    said = run(*call).stdout
    assert said.startswith("Collectives on the replica mesh (i=4): 1 all-reduce over i\n")
    assert re.search(r"^psum\S* +all-reduce +i +32 B +32 B +1 +user .*step.py", said, re.MULTILINE), said
    (row,) = json.loads(run(*call, "--json").stdout)
    assert (row["opcode"], row["axes"], row["operand_bytes"]) == ("all-reduce", ["i"], 32)
    head, total = run(*call, "--totals").stdout.splitlines()[1:]
    assert re.fullmatch("axes +opcode +collectives +runs +operand bytes +result bytes", head)
    assert total.split() == ["i", "all-reduce", "1", "1", "32", "B", "32", "B"]
    assert "none" in run("collectives", "step.py:Model.apply", "--args", "f32[8]", "-t", "cpu").stdout


MEMORY = ("memory", "step.py:update", "--args-from", "make_args", "-t", "cpu")


def test_the_memory_of_a_program(run: Run) -> None:
    shown = json.loads(run(*MEMORY, "--json").stdout)
    (space,) = shown["spaces"]
    assert (space["space"], space["argument_bytes"], space["output_bytes"]) == ("RAM", 4 * (64 + 32) * 64, 4 * 64 * 64)
    assert {row["kind"]: row["bytes"] for row in shown["live_at_peak"] if row["kind"] == "output"} == {"output": 16384}
    line = SCRIPT.splitlines().index("    return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)") + 1
    assert line in {row["source_line"] for row in shown["live_at_peak"]}
    sizes = [row["bytes"] for row in shown["live_at_peak"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == space["allocated_bytes"] - space["temp_bytes"] + space["live_bytes"]
    assert [(row["argument"], row["candidate"]) for row in shown["donations"]] == [("w", "result"), ("x", None)]
    donated = json.loads(run(*MEMORY, "--donate", "0", "--json").stdout)
    assert donated["spaces"][0]["alias_bytes"] == 16384
    assert donated["donations"][0]["output"] == "result"
    text = run(*MEMORY, "--top", "2").stdout
    assert "Live in RAM at the peak" in text
    assert f"{len(sizes) - 2} more buffers: --top {len(sizes)}" in text
    assert "Unknown memory space 'HBM'. This program has RAM." in run(*MEMORY, "--space", "HBM", status=2).stderr


def test_the_memory_of_optimized_hlo_is_estimated(run: Run) -> None:
    run("compile", "step.py:update", "--args-from", "make_args", "-t", "cpu", "--hlo", "-o", "optimized.hlo")
    text = run("memory", "optimized.hlo").stdout
    assert "unavailable: the file contains no buffer assignment" in text
    assert "estimated from the schedule" in text


def test_lines_of_texts_with_their_source_lines(run: Run) -> None:
    call = ("step.py:step", "--args-from", "make_args", "-t", "cpu", "--json")
    line = SCRIPT.splitlines().index("    return jnp.tanh(x @ w).sum()") + 1
    for form, word in (("stablehlo", "dot_general"), ("hlo", "dot("), ("jaxpr", "dot_general")):
        shown = json.loads(run("lower", *call, "--form", form).stdout)
        (found,) = (each for each in shown["lines"] if word in each["text"])
        assert (Path(found["source_file"]).name, found["source_line"]) == ("step.py", line)
        assert [each["line"] for each in shown["lines"]] == list(range(1, len(shown["lines"]) + 1))
    shown = json.loads(run("compile", *call, "--hlo").stdout)
    assert line in {each["source_line"] for each in shown["lines"]}
    source = json.loads(run("lower", *call, "--form", "source").stdout)["lines"]
    assert {"line": line, "text": "    return jnp.tanh(x @ w).sum()"}.items() <= {**source[line]}.items()


def test_what_a_traced_function_prints_is_no_part_of_the_output(run: Run) -> None:
    result = run("compile", "step.py:talking", "--args", "f32[8]", "-t", "cpu", "--json")
    assert json.loads(result.stdout)["numbers"]["argument_bytes"] == 32
    assert "printed while tracing" in result.stderr


def test_checks_end_with_their_status(run: Run) -> None:
    call = ("expect", "step.py:summed", "--args", "f32[8]", "--axis", "i=4", "-t", "cpu:4")
    fine = run(
        *call,
        "--at-most",
        "all-reduce over i=1",
        "--at-most",
        "peak_bytes=1 MiB",
        "--no-collectives",
        "all-gather",
        "--no-float64",
    )
    assert fine.stdout.count("ok  ") == 4
    failed = run(*call, "--no-collectives", "any", "--at-most", "peak_bytes=1", status=1)
    assert failed.stdout.count("FAIL") == 2
    assert "see it:  inspector explore" in failed.stdout
    assert failed.stderr.endswith("inspector expect: failed\n")
    told = json.loads(run(*call, "--exactly", "collectives=0", "--json", status=1).stdout)
    assert [f["is_met"] for f in told["findings"]] == [False]
    assert run(*call, "--baseline", "b.json", status=1)
    run(*call, "--baseline", "b.json", "--update")
    run(*call, "--baseline", "b.json", "--above", "5%")


def test_checks_of_a_saved_program_are_the_requested_ones(run: Run) -> None:
    run("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu", "-o", "one.inspector")
    call = ("expect", "one.inspector", "--at-least", "fusions=0", "--json")
    asked = ((), ("-t", "cpu:2"), ("-t", "cpu", "-X", "xla_disable_hlo_passes=tree_reduction_rewriter"))
    as_it_was, elsewhere, otherwise = (json.loads(run(*call, *each).stdout) for each in asked)
    assert [found["target"] for found in (as_it_was, elsewhere, otherwise)] == ["cpu", "cpu:2", "cpu"]
    assert as_it_was["findings"] == elsewhere["findings"] != otherwise["findings"]


def test_a_page_and_a_bundle(run: Run) -> None:
    call = ("step.py:step", "--args-from", "make_args", "-t", "cpu", "-c", "xla_cpu_enable_fast_math=true")
    run("report", *call)
    page = Path("step.html").read_text()
    assert "Content-Security-Policy" in page
    assert "jit_step" in page
    run("report", *call, "-o", "all.inspector")
    assert run("explore", "all.inspector", "--no-open", "-o", "page.html").stdout == "page.html\n"
    assert Path("page.html").stat().st_size > 100_000
    one, two = json.loads(run("replay", "all.inspector", "--json", "--exit-code").stdout)
    same = "the same optimized HLO, machine code not compared (a bundle has no machine code)"
    assert one["difference"] == two["difference"] == same
    assert "recorded with JAX" in run("replay", "all.inspector").stdout
    run("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu", "-o", "one.inspector")
    assert ": the same program\n" in run("replay", "one.inspector").stdout, "`compile -o` keeps the executable"
    run("report", "one.inspector")
    assert "jit_step" in Path("one.html").read_text()


def test_a_report_of_several_programs_begins_with_a_table(run: Run) -> None:
    call = ("step.py:step", "step.py:faster", "--args-from", "make_args", "-t", "cpu")
    run("report", *call, "--html", "two.html")
    page = Path("two.html").read_text()
    index = page[page.index("<nav") : page.index("</nav>")]
    assert [name in index for name in ("jit_step", "jit_faster")] == [True, True]
    assert index.count("<tr>") == 3
    assert "has one program, got 2" in run("report", *call, "-o", "two.inspector", status=2).stderr
    run("report", *call[:1], *call[2:], "-c", "xla_cpu_enable_fast_math=true", "-o", "variants.html")
    assert "<nav" in Path("variants.html").read_text()


def test_a_page_in_addition_to_the_output(run: Run) -> None:
    call = ("step.py:step", "--args-from", "make_args", "-t", "cpu")
    said = run("compile", *call, "-o", "one.inspector", "--html", "compiled.html")
    assert "peak memory" in said.stdout
    assert "compiled.html: " in said.stderr
    for command, page in (("collectives", "exchanged.html"), ("replay", "again.html")):
        run(command, "one.inspector", "--html", page)
        assert "jit_step" in Path(page).read_text(), command
    both = run("compare", "one.inspector", "step.py:faster", *call[1:3], "--html", "both.html")
    assert "step.py:faster: " in both.stdout
    assert "jit_faster" in Path("both.html").read_text()
    again = Path("again.html").read_text()
    assert again[: again.index("</nav>")].count("<tr>") == 3, "recorded, and again"


def test_a_saved_program_is_explored_for_another_target_too(run: Run) -> None:
    run("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu", "-o", "one.inspector")
    run("report", "one.inspector", "-t", "cpu:2", "-o", "two.inspector")
    two = inspector.load("two.inspector")
    assert isinstance(two, Exploration)
    assert [str(variant.target) for variant in two.variants] == ["cpu", "cpu:2"]


def test_the_notebook_for_lab_runs_wherever_it_lies(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu", "-o", "one.inspector")
    asked = [ProgramRequest("step.py:step", args_from="make_args"), ProgramRequest("one.inspector")]
    made = notebook(asked, "cpu", ("xla_cpu_enable_fast_math=true",), ("cpu:2",))
    monkeypatch.chdir("/")
    names: dict[str, Any] = {}
    first, *others = (cell["source"] for cell in made["cells"])
    exec(compile(first, "cell", "exec"), names)
    assert Path.cwd() == tmp_path
    lowered, saved = (eval(source, names).wait() for source in others)
    assert [(str(v.target), v.state) for v in lowered.variants] == [("cpu", "done"), ("cpu:2", "done")]
    assert lowered.baseline.options.flags == {"xla_cpu_enable_fast_math": True}
    assert [str(v.target) for v in saved.variants] == ["cpu", "cpu", "cpu:2"]
    lowered.close()
    saved.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there it stays, and waits")
def test_explore_becomes_this_pythons_jupyterlab(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []

    def become(path: str, command: list[str]) -> None:
        became.append([path, *command])
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run("explore", "step.py:step", "--args-from", "make_args", "--lab")
    ((path, python, *rest, file),) = became
    assert (path, python) == (sys.executable, sys.executable)
    assert rest[:3] == ["-P", "-m", "jupyterlab"]
    cells = json.loads(Path(file).read_text())["cells"]
    assert "args_from='make_args'" in cells[1]["source"]


def test_targets_and_options(run: Run) -> None:
    rows = json.loads(run("targets", "--json").stdout)
    assert {row["target"] for row in rows} >= {"attached", "cpu:8", "tpu:v5e:2x4", "gpu:h100:8"}
    shown = run("targets").stdout
    assert re.match("target +device kind +devices +can run +note\n", shown)
    assert re.search(r"^cpu:8 +cpu +8 +yes$", shown, re.MULTILINE)
    found = run("options", "fast", "math").stdout
    assert re.match("name +type +default +group +description\n", found)
    assert re.search(r"^xla_cpu_enable_fast_math +bool +False +cpu +Enable", found, re.MULTILINE)
    assert "default" in run("options", "xla_cpu_enable_fast_math", "--long").stdout
    assert json.loads(run("options", "xla_cpu_enable_fast_math", "--json").stdout)[0]["type"] == "bool"
    assert run("options", "qqqqqqqqqqqq", status=1).stdout == "none\n"


def test_a_scan(run: Run) -> None:
    call = ("scan", "step.py:step", "--args-from", "make_args", "-t", "cpu")
    result = run(
        *call,
        "--flag",
        "xla_cpu_enable_fast_math",
        "--flag",
        "xla_llvm_disable_expensive_passes",
        "--machine-code",
        "--json",
    )
    assert {row["flag"] for row in json.loads(result.stdout)} == {
        "xla_cpu_enable_fast_math",
        "xla_llvm_disable_expensive_passes",
    }
    measured = run(*call, "--flag", "xla_cpu_enable_fast_math", "--measure", "--json")
    (row,) = json.loads(measured.stdout)
    assert row["measured_s"] > 0
    assert row["measured_spread_s"] >= 0
    shown = run(*call, "--flag", "xla_cpu_enable_fast_math", "--all").stdout
    assert re.match(
        "flag +value +outcome +time +exposed +peak +difference\nxla_cpu_enable_fast_math +True +unknown += += +=", shown
    )


@pytest.mark.slow
def test_a_bisection_with_a_reproduction(run: Run, tmp_path: Path) -> None:
    flags = ("xla_cpu_enable_fast_math=true", "xla_cpu_fast_math_honor_nans=false", "xla_gpu_ftz=true")
    bad = [word for flag in flags for word in ("--bad", flag)]
    call = ("bisect", "step.py:guarded", "--args", "f32[16]", "-t", "cpu", *bad)
    found = json.loads(run(*call, "--json", "--save", "issue").stdout)
    assert {each["name"] for each in found["culprits"]} == {"xla_cpu_enable_fast_math", "xla_cpu_fast_math_honor_nans"}
    line = SCRIPT.splitlines().index("def guarded(x):") + 2
    assert (found["verdict"], found["reproduction"]["lines"]) == ("found", [f"{tmp_path / 'step.py'}:{line}"])
    assert "unavailable" in found["pass"]
    assert found["steps"][0]["tried"] == "good: cpu, defaults"
    assert (tmp_path / "issue" / "run.py").is_file()
    same = run("bisect", "step.py:guarded", "--args", "f32[16]", "-t", "cpu", "--bad", "xla_gpu_ftz=true", status=1)
    assert "by values: no difference: equal within tolerance" in same.stdout


# ------------------------------------------------------------------ what is kept and what is here


def test_the_cache_is_measured_and_cleared(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "inspector" / "compiled"
    with inspector.settings.scope(cache=True, cache_directory=str(folder)):
        run("compile", "step.py:step", "--args-from", "make_args", "-t", "cpu")
        from inspector.engines.shared_engines import close_engines

        close_engines()  # writes what is still to be written
        (folder / "mine.compiled").write_text("a user's")
        (folder / "notes.txt").write_text("a user's")
        rows = {row["what"]: row for row in json.loads(run("cache", "--json").stdout)}
        assert rows["compiled programs"]["path"] == str(folder)
        assert rows["compiled programs"]["files"] == 1
        assert rows["compiled programs"]["bytes"] > 1000
        assert "Delete" in CliRunner().invoke(commands, ["cache", "clear"], input="n\n").stdout
        assert rows == {row["what"]: row for row in json.loads(run("cache", "--json").stdout)}
        assert "freed" in run("cache", "clear", "--yes").stdout
        assert {file.name for file in folder.iterdir()} == {"mine.compiled", "notes.txt"}


def test_the_doctor_lists_installed_packages(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"{os.environ['XLA_FLAGS']} --xla_cpu_enable_fast_math=true")
    said = run("doctor").stdout
    for what in (
        "inspector",
        "Python",
        "JAX",
        "compiling",
        "front end",
        "notebooks",
        "cache",
        "memory",
        "open files",
        "XLA_FLAGS",
    ):
        assert re.search(rf"^(ok|·|missing) +{what} ", said, re.MULTILINE), (what, said)
    rows = {row["what"]: row for row in json.loads(run("doctor", "--quick", "--json").stdout)}
    assert "compiling" not in rows
    assert "--xla_cpu_enable_fast_math=true" in rows["XLA_FLAGS"]["result"]
    assert rows["JAX"]["result"].startswith(inspector.lower(lambda x: x, 1.0).compile(target="cpu").versions["jax"])


def test_the_doctor_names_the_install_command_for_missing_packages(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.support import packages

    monkeypatch.setattr(
        packages, "version", lambda name: "" if name in ("jax", "anywidget", "jupyterlab", "notebook") else "1"
    )
    monkeypatch.setattr(
        "inspector._jax.compiling.ahead_of_time.absent_platform",
        lambda kind: inspector.Unavailable(f"no {kind}", f"install {kind}"),
    )
    monkeypatch.setattr("inspector.support.machine_memory.machine_memory", lambda: (1 << 30, "the machine's"))
    monkeypatch.setenv("HOME", str(Path.cwd()))
    said = run("doctor", "--quick", status=1).stdout
    assert re.search(r"^wrong +JAX +not installed\n +→ .*pip install .*'jax>=0.10,<0.13'$", said, re.MULTILINE)
    assert re.search(r"^missing +TPU compiler +no tpu\n +→ install tpu$", said, re.MULTILINE)
    assert re.search(r"→ .*pip install .*anywidget$", said, re.MULTILINE)
    assert re.search(r"^missing +memory +1 GiB", said, re.MULTILINE)
    assert str(Path.cwd()) not in said, "what is pasted into an issue names no home"


# ------------------------------------------------------------------ how it starts


def test_help_comes_at_once_and_without_jax() -> None:
    code = (
        "import sys, time; sys.argv = ['inspector', '--help']\nfrom inspector.cli import main\n"
        "try: main()\nexcept SystemExit as e: status = e.code\n"
        "heavy = {'jax', 'numpy', 'pandas', 'IPython', 'inspector.errors'} & {n for n in sys.modules}\n"
        "print(status, sorted(heavy), time.process_time())"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
        ).stdout.splitlines()[-1]
        for _ in range(3)
    ]
    assert all(line.startswith("0 [] ") for line in found), found
    assert min(float(line.rpartition(" ")[2]) for line in found) < 0.3, found


def test_every_command_has_help(run: Run) -> None:
    listed = run("--help").stdout.rpartition("Commands:")[2].splitlines()
    assert not [line for line in listed if line.endswith("...")], "in 80 columns"
    for name, command in commands.commands.items():
        said = run(name, "--help").stdout
        assert len(said.splitlines()) > 4, name
        assert "\\b" not in said
        assert command.help
        assert all(option.help for option in command.params if getattr(option, "help", "x") is not None), name
    assert "  inspector compare before.inspector after.inspector\n" in run("compare", "--help").stdout
    assert set(commands.commands) >= {
        "explore", "lower", "compile", "compare", "collectives", "report", "replay", "expect", "targets", "options", "scan", "bisect", "compile-time",
        "doctor", "cache",
    }  # fmt: skip


def test_nothing_in_the_current_folder_is_taken_for_a_library(tmp_path: Path) -> None:
    for name in ("json", "click", "jax"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger was imported')")
    (tmp_path / "mine.py").write_text("import jax\ndef f(x):\n    return x + 1\n")
    process = subprocess.run(
        [sys.executable, "-m", "inspector", "lower", "mine.py:f", "--args", "f32[8]", "--form", "jaxpr", "-t", "cpu"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "add" in process.stdout


def test_pages_without_a_name_are_deleted_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.cli import pages

    monkeypatch.setattr(pages.tempfile, "tempdir", str(tmp_path))
    made = []
    for number in range(8):
        made.append(page := pages.temporary_page())
        page.write_text("<html>")
        os.utime(page.parent, (time.time() - 100 + number,) * 2)
    assert [page.exists() for page in made] == [False] * 3 + [True] * 5
    for page in made[3:]:
        os.utime(page.parent, (0, 0))
    (made[3].parent / "notes.txt").write_text("mine")
    os.utime(made[3].parent, (0, 0))
    last = pages.temporary_page()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([last.parent.name, made[3].parent.name])
    assert (made[3].parent / "notes.txt").read_text() == "mine"


def test_a_profile_of_a_function(run: Run) -> None:
    call = ("profile", "step.py:step", "--args-from", "make_args", "-t", "cpu", "--repeat", "2")
    lines = run(*call).stdout.splitlines()
    assert lines[0].startswith("Profile of jit_step on CPU:0: 2 executions")
    assert lines[1].split()[:4] == ["kernel", "opcode", "device", "calls"]
    assert len(lines) > 2
    read = json.loads(run(*call, "--json").stdout)
    assert sum(row["total_s"] for row in read["rows"]) == pytest.approx(read["total_s"])
    assert (read["devices"], read["executions"]) == (["CPU:0"], 2)
    by_line = json.loads(run(*call, "--json", "--by", "line").stdout)["rows"]
    assert any("step.py:" in (row["name"] or "") for row in by_line)
    assert "kernels" in run(*call, "--by", "opcode", "--top", "1").stdout


@needs_tpu
def test_a_profile_of_a_target_that_cannot_run(run: Run) -> None:
    result = run("profile", "step.py:step", "--args-from", "make_args", "-t", "tpu:v5e:2x2", status=2)
    assert "tpu:v5e:2x2 is not attached" in result.stderr


TWO_MODULES = "\n".join(
    f"HloModule {name}\n\nENTRY e {{\n  p = f32[4]{{0}} parameter(0)\n  ROOT n = f32[4]{{0}} {opcode}(p)\n}}\n"
    for name, opcode in (("first", "negate"), ("second", "exponential"))
)


def test_one_module_of_a_file_and_of_stdin(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two.hlo").write_text(TWO_MODULES)
    form = ("--form", "hlo", "-t", "cpu")
    assert "exponential" in run("lower", "two.hlo", "--module", "second", *form).stdout
    refused = run("lower", "two.hlo", *form, status=2)
    assert "1 first, 2 second. Choose one: --module first." in refused.stderr
    public = "func.func @{name}(%x: tensor<2xf32>) -> tensor<2xf32> {{ return %x : tensor<2xf32> }}\n"
    (tmp_path / "two.mlir").write_text(public.format(name="one") + public.format(name="two"))
    assert "Choose one: --function one." in run("lower", "two.mlir", status=2).stderr
    given = CliRunner().invoke(commands, ["lower", "-", "--module", "1", *form], input=TWO_MODULES)
    assert given.exit_code == 0
    assert "negate" in given.stdout
    refused = run("lower", "step.py:step", "--module", "1", "--args-from", "make_args", status=2)
    assert "--module is for files" in refused.stderr


def test_dynamic_shapes_are_refined(run: Run, tmp_path: Path) -> None:
    tensors = "tensor<?x4xf32>", "tensor<?xf32>"
    (tmp_path / "m.mlir").write_text(
        f"func.func @main(%a: {tensors[0]}, %b: {tensors[1]}) -> ({tensors[0]}, {tensors[1]}) {{\n"
        f"  return %a, %b : {tensors[0]}, {tensors[1]}\n}}\n"
    )
    refused = run("lower", "m.mlir", "-t", "cpu", status=2)
    assert "Give their shapes: --refine arg0=8,4 --refine arg1=8." in refused.stderr
    shapes = ("--refine", "arg0=16,4", "--refine", "arg1=2")
    assert "%arg0: tensor<16x4xf32>, %arg1: tensor<2xf32>" in run("lower", "m.mlir", "-t", "cpu", *shapes).stdout
    assert "(arg0: float32[16, 4], arg1: float32[2]) for cpu" in run("compile", "m.mlir", "-t", "cpu", *shapes).stdout
    refused = run("lower", "m.mlir", "--refine", "arg0", status=2)
    assert "--refine 'arg0': expected ARG=SIZES, such as arg0=8,128." in refused.stderr
    refused = run("lower", "step.py:step", "--refine", "arg0=8", "--args-from", "make_args", status=2)
    assert "--refine is for files" in refused.stderr


def test_optimized_hlo_is_shown_and_not_compiled_again(run: Run, tmp_path: Path) -> None:
    text = TWO_MODULES.partition("HloModule second")[0].replace("HloModule first", "HloModule first, is_scheduled=true")
    (tmp_path / "m.hlo").write_text(text)
    done = run("compile", "m.hlo", "-t", "cpu")
    assert "was not compiled here" in done.stderr
    assert "first(arg0: float32[4]) for cpu" in done.stdout
