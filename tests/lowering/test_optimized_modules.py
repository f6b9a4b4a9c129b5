"""Optimized modules are compiled again where XLA can, and otherwise the error names the cause and the remedy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import OPTIMIZED, CompilationError, ModuleError, WorkerDiedError

ARRAYS = (jax.ShapeDtypeStruct((64, 32), jnp.float32), jax.ShapeDtypeStruct((32, 16), jnp.float32))
FUSION = """HloModule m{header}

f {{
  p = f32[8]{{0}} parameter(0)
  ROOT n = f32[8]{{0}} negate(p)
}}

ENTRY e {{
  a = f32[8]{{0}} parameter(0)
  ROOT r = f32[8]{{0}} {operation}
}}
"""


def optimized(fun: Any) -> inspector.Lowered:
    return inspector.lower(inspector.lower(fun, *ARRAYS).compile(target="cpu").hlo)


def test_a_rejected_optimized_module_is_called_optimized() -> None:
    opened = optimized(lambda a, b: jnp.tanh(a @ b))
    assert opened.program.is_optimized
    for engine in (None, "inline"):
        with pytest.raises(CompilationError, match="XLA rejected the program") as caught:
            opened.compile(target="cpu", engine=engine)
        assert str(caught.value).endswith(OPTIMIZED)


def test_a_crash_of_an_optimized_module_is_not_blamed_on_its_size() -> None:
    with pytest.raises(WorkerDiedError, match="Check failed") as caught:
        optimized(lambda a, b: jnp.cumsum(jnp.linalg.cholesky(a.T @ a) @ b, 1)).compile(target="cpu")
    assert str(caught.value).endswith(OPTIMIZED)
    assert "too large" not in str(caught.value)


def test_a_fusion_or_a_schedule_shows_that_a_module_is_optimized() -> None:
    negate, fusion = "negate(a)", "fusion(a), kind=kLoop, calls=f"
    texts = [FUSION.format(header="", operation=operation) for operation in (negate, fusion)]
    assert [inspector.lower(text).program.is_optimized for text in texts] == [False, True]
    scheduled = inspector.lower(FUSION.format(header=", is_scheduled=true", operation=negate))
    assert scheduled.program.is_optimized
    assert "ROOT" in scheduled.compile(target="cpu").hlo
    assert not inspector.lower(inspector.lower(jnp.sin, ARRAYS[0]).stablehlo).program.is_optimized


def test_an_optimized_module_without_stablehlo_is_called_optimized() -> None:
    text = (
        "HloModule fp8, is_scheduled=true\n\nENTRY main {\n  a = f8e4m3fn[16,128]{1,0} parameter(0)\n"
        "  b = f8e4m3fn[32,128]{1,0} parameter(1)\n  sa = f8e8m0fnu[16,4]{1,0} parameter(2)\n"
        "  sb = f8e8m0fnu[32,4]{1,0} parameter(3)\n"
        "  ROOT d = f32[16,32]{1,0} scaled-dot(a, b, sa, sb), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n"
    )
    lowered = inspector.lower(text)
    assert lowered.program.no_stablehlo is not None
    assert "no operation for the instruction d" in lowered.program.no_stablehlo.reason
    assert lowered.program.no_stablehlo.reason.endswith(OPTIMIZED.rstrip("."))
    with pytest.raises(ModuleError, match="fp8 cannot be compiled"):
        lowered.compile(target="cpu")
