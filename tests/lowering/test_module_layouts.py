"""A program has the same entry layouts as a function, as StableHLO text and as an export; HLO text states its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export, lax
from jax.experimental.layout import Format, Layout
from jax.sharding import SingleDeviceSharding

import inspector
from inspector._jax.compiling.ahead_of_time import absent_platform
from inspector.stages.compiled import Compiled

A, B, C = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((16, 24), (8, 16, 4), (2, 4, 6, 8)))
# XLA infers a result layout other than row-major for most of these.
PROGRAMS: dict[str, tuple[Callable[..., Any], Any]] = {
    "transpose": (lambda a: jnp.transpose(a * 2), A),
    "lone transpose": (jnp.transpose, A),
    "transpose back": (lambda a: jnp.transpose(a).T + 1, A),
    "permuted": (lambda b: jnp.transpose(b, (2, 0, 1)), B),
    "swapped": (lambda b: jnp.swapaxes(b, 1, 2) * 3, B),
    "moved": (lambda c: jnp.moveaxis(c, 1, 3), C),
    "dot": (lambda a: jnp.dot(a, a.T).T, A),
    "einsum": (lambda b: jnp.einsum("bij,bjk->kib", b, jnp.swapaxes(b, 1, 2)), B),
    "heads": (lambda c: jnp.einsum("bthd,bshd->bhts", c, c).swapaxes(2, 3), C),
    "gradient": (jax.grad(lambda c: jnp.sum(jnp.einsum("bthd,bshd->bhts", c, c) ** 2)), C),
    "two results": (lambda a: (a.T, a + 1), A),
    "rows": (lambda b: lax.map(lambda row: row.T, b), B),
}
ALL = (jax.jit(lambda a, b, c: [f({A: a, B: b, C: c}[x]) for f, x in PROGRAMS.values()]), (A, B, C))
TARGETS = [
    pytest.param(target, marks=pytest.mark.skipif(absent_platform(name) is not None, reason=f"no compiler for {name}"))
    for target, name in (("gpu:h100:1", "gpu"), ("tpu:v5e:1x1", "tpu"))
]
PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}


def entry_layout(text: str) -> tuple[str, ...]:
    """The arrays of the entry, parameters and results, with the order of their dimensions and without tiles."""
    (layout,) = re.findall(r"entry_computation_layout=\{(.*?->.*?)\}(?:, [a-z_]+=|$)", text.partition("\n")[0])
    return tuple(re.findall(r"\w+\[[\d,]*\](?:\{[\d,]+)?", f"{layout}}}"))


def check(fun: Any, arguments: Any, target: str) -> Compiled:
    """Compiles a function and its module in other forms; returns the compiled function."""
    platform = target.partition(":")[0]
    lowered = inspector.lower(fun, *arguments, target=target)
    expected = lowered.compile(target=target)
    exported = export.export(fun, platforms=[PLATFORMS[platform]])(*arguments)
    for form in (lowered.stablehlo, exported):
        opened = inspector.lower(form, platform=platform)
        compiled = opened.compile(target=target)
        assert entry_layout(compiled.hlo) == entry_layout(expected.hlo)
        assert compiled.diff(expected).headline.startswith(("the same program", "the same optimized HLO"))
        assert opened.notes == ()
    return expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_forms_of_a_program_have_the_same_entry_layouts(name: str) -> None:
    fun, argument = PROGRAMS[name]
    expected = check(jax.jit(fun), (argument,), "cpu")
    from_jax = jax.jit(fun).lower(argument).compile().as_text()
    assert entry_layout(expected.hlo) == entry_layout(from_jax)
    text = inspector.lower(fun, argument).hlo
    assert entry_layout(inspector.lower(text).compile(target="cpu").hlo) == entry_layout(text)


@pytest.mark.parametrize("target", TARGETS)
def test_all_forms_have_the_same_entry_layouts_on_an_accelerator(target: str) -> None:
    check(*ALL, target)


@pytest.mark.parametrize("target", ["cpu", *TARGETS])
def test_layouts_that_a_function_chooses_are_compiled_in_all_forms(target: str) -> None:
    column_major = Format(Layout((1, 0)), SingleDeviceSharding(jax.devices()[0]))
    fun = jax.jit(lambda a: (a * 2, a + 1), in_shardings=column_major, out_shardings=(column_major, None))
    expected = check(fun, (A,), target)
    assert entry_layout(expected.hlo)[:2] == ("f32[16,24]{0,1", "f32[16,24]{0,1")


TILED = """HloModule m, entry_computation_layout={(f32[16,8]{0,1}, f32[16,8]LAYOUT, f32[]{:T(128)}, f32[256]{0:T(256)})->f32[16,8]LAYOUT}
ENTRY e {
  a = f32[16,8]{1,0} parameter(0)
  b = f32[16,8]{1,0} parameter(1)
  c = f32[] parameter(2)
  d = f32[256] parameter(3)
  ROOT r = f32[16,8]{1,0} add(a, b)
}
"""


@pytest.mark.skipif(absent_platform("tpu") is not None, reason="no compiler for tpu")
@pytest.mark.parametrize(("layout", "compiled", "notes"), [
    ("{1,0:T(8,128)}", "{1,0", 0), ("{0,1:T(8,128)}", "{0,1", 0), ("{0,1}", "{0,1", 0), ("{1,0}", "{0,1", 1),
])  # fmt: skip
def test_a_tpu_follows_entry_layouts_except_row_major_without_tiles(layout: str, compiled: str, notes: int) -> None:
    text = TILED.replace("LAYOUT", layout)
    opened = inspector.lower(text, platform="tpu")
    arrays = entry_layout(opened.compile(target="tpu:v5e:1x1").hlo)
    assert arrays == ("f32[16,8]{0,1", f"f32[16,8]{compiled}", "f32[]", "f32[256]{0", f"f32[16,8]{compiled}")
    assert len(opened.notes) == notes
    assert all("row-major layouts without tiles for 1 parameter and 1 result" in note for note in opened.notes)
    assert inspector.lower(text, platform="cpu").notes == ()
