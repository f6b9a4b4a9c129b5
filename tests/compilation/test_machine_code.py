"""Machine code is compared by what is loaded: flags that change it are found, names and lines change nothing.

The text of the recorded assembly is the reference: that of the last stage, without comments and names.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.api.flag_effects import flag_effect, scan
from inspector.compilation import machine_code
from inspector.errors import Unavailable
from inspector.stages.compiled import Compiled
from inspector.stages.lowered import Lowered
from tests.absent import needs_gpu, needs_tpu

X = jax.ShapeDtypeStruct((64, 64), jnp.float32)
CPU = "cpu"
GPU = pytest.param("gpu:h100:1", marks=needs_gpu)
TPU = pytest.param("tpu:v5e:1x1", marks=needs_tpu)


def f(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.nn.softmax(jnp.tanh(x @ w) * 2 + 1) / (1 + jnp.exp(-(w * w).sum(0))) + jnp.sort(x)


def the_same_with_other_names(images: jax.Array, weights: jax.Array) -> jax.Array:
    with jax.named_scope("a_scope"):  # whose name no symbol of the other has
        sums = (weights * weights).sum(0)
        return jax.nn.softmax(jnp.tanh(images @ weights) * 2 + 1) / (1 + jnp.exp(-sums)) + jnp.sort(images)


def lowered(target: str, function: Any = f) -> Lowered:
    return inspector.lower(function, X, X, target=target)


def last_stage(compiled: Compiled) -> Counter[str]:
    """The texts of all kernels at the last stage that has code, without what names and places something."""
    assembly = compiled.assembly
    assert not isinstance(assembly, Unavailable)
    stage = next(each for each in ("SASS", "PTX", "VLIW bundles", "assembly") if each in assembly.stages)
    texts = [str(code.text) for code in assembly if code.stage == stage]
    assert texts
    names = sorted({name for code in assembly for name in (code.kernel, *code.symbols) if name}, key=len, reverse=True)
    plain = [re.sub("|".join(map(re.escape, names)) or "$^", "", text) for text in texts]
    comments = r"//.*|/\*.*?\*/" if stage == "VLIW bundles" else r"(//|;|!|#).*|/\*.*?\*/"
    return Counter(re.sub(r"%[a-z]*\d+", "%", re.sub(comments, "", text)) for text in plain)


@pytest.mark.parametrize("target", [CPU, GPU, TPU])
def test_names_and_lines_do_not_count(target: str) -> None:
    ours, theirs = (lowered(target, each).compile(target=target) for each in (f, the_same_with_other_names))
    assert ours._executable != theirs._executable
    assert machine_code.of_program(ours) == machine_code.of_program(theirs)
    assert machine_code.differ(ours, theirs) is False
    assert ours.diff(theirs).headline == "the same program"


@pytest.mark.parametrize(
    ("target", "flag", "value"),
    [
        (CPU, "xla_cpu_enable_fast_math", True),
        (CPU, "xla_backend_optimization_level", 0),
        (CPU, "xla_llvm_disable_expensive_passes", True),
        (CPU, "xla_dump_max_hlo_modules", 3),
        pytest.param("gpu:h100:1", "xla_gpu_ftz", True, marks=[needs_gpu, pytest.mark.slow]),
        pytest.param("gpu:h100:1", "xla_backend_optimization_level", 0, marks=[needs_gpu, pytest.mark.slow]),
        pytest.param("gpu:h100:1", "xla_llvm_disable_expensive_passes", True, marks=[needs_gpu, pytest.mark.slow]),
        pytest.param("gpu:h100:1", "xla_dump_max_hlo_modules", 3, marks=[needs_gpu, pytest.mark.slow]),
        pytest.param("tpu:v5e:1x1", "xla_jf_vliw_scheduler", False, marks=[needs_tpu, pytest.mark.slow]),
        pytest.param("tpu:v5e:1x1", "xla_dump_max_hlo_modules", 3, marks=[needs_tpu, pytest.mark.slow]),
    ],
)
def test_a_flag_changes_the_code_where_its_text_is_another(target: str, flag: str, value: Any) -> None:
    program = lowered(target)
    base, other = (program.compile(options, target=target, products=("assembly",)) for options in ({}, {flag: value}))
    differs = last_stage(base) != last_stage(other)
    assert machine_code.differ(base, other) is differs
    (row,) = flag_effect(program, flag, [value], target=target).to_dict("records")
    if row["hlo"]:
        assert row["outcome"] == "hlo"
        return
    assert row["code"] == differs
    assert row["outcome"] == ("code" if differs else "nothing")
    said = "the same optimized HLO, different machine code" if differs else "the same program"
    assert base.diff(other).headline == said
    assert bool(base.diff(other)) is differs


@pytest.mark.parametrize("target", [CPU, GPU, TPU])
def test_recorded_assembly_stands_in_for_a_lost_executable(target: str) -> None:
    compiled = lowered(target).compile(target=target, products=("assembly",))
    lost = Unavailable("it was not saved")
    without = dataclasses.replace(compiled, _executable=lost)
    assert machine_code.differ(compiled, without) is False
    assert machine_code.differ(without, dataclasses.replace(without)) is False
    neither = dataclasses.replace(without, assembly=lost)
    assert machine_code.differ(compiled, neither) == lost
    assert compiled.diff(neither).headline == "the same optimized HLO, machine code not compared (it was not saved)"
    assert not compiled.diff(neither)


def test_a_scan_without_machine_code_does_not_report_unchanged_code() -> None:
    flags = ["xla_cpu_enable_fast_math", "xla_dump_hlo_as_text"]
    table = scan(lowered(CPU), flags, target=CPU, show_progress=False).result(240)
    assert list(table["outcome"]) == ["unknown"] * 2
    assert table["code"].isna().all()
    table = scan(lowered(CPU), flags, target=CPU, machine_code=True, show_progress=False).result(240)
    assert dict(zip(table["flag"], table["outcome"], strict=True)) == {
        "xla_cpu_enable_fast_math": "code", "xla_dump_hlo_as_text": "nothing",
    }  # fmt: skip


@pytest.mark.parametrize("target", [CPU, GPU, TPU])
def test_a_damaged_executable_is_unknown_or_another(target: str) -> None:
    executable = lowered(target).compile(target=target)._executable
    assert isinstance(executable, bytes)
    generator = random.Random(0)
    for _ in range(30):
        damaged = bytearray(executable)
        for _ in range(generator.randrange(1, 20)):
            damaged[generator.randrange(min(len(damaged), 4000))] = generator.randrange(256)
        found = machine_code.of_executable(bytes(damaged[: generator.randrange(len(damaged))]))
        assert isinstance(found, Unavailable) or found
    for nonsense in (b"", b"\0", b"\xff" * 50, b"hello", bytes(1000)):
        assert isinstance(machine_code.of_executable(nonsense), Unavailable)
