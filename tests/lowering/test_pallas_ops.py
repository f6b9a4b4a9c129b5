"""JAX's own Pallas kernels for TPUs: large, with scalar operands, dynamic grids and custom gradients."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.megablox import gmm
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention

import inspector
from inspector.analysis.pallas.vmem import used_vmem
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.lowering.pallas import fields_of
from inspector.widgets.messages import problem
from inspector.widgets.panes.pallas import kernels_message
from inspector.widgets.panes.registry import ToBrowser
from tests.kernels import struct

pytestmark = pytest.mark.slow


def array(*shape: int, dtype: Any = jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return struct(*shape, dtype=dtype)


def attention_loss(q: Any, k: Any, v: Any) -> Any:
    return flash_attention(q, k, v, causal=True).astype(jnp.float32).sum()


OPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "flash": (attention_loss, (array(1, 4, 512, 128),) * 3, 1),
    "flash_gradient": (jax.grad(attention_loss, argnums=(0, 1, 2)), (array(1, 4, 512, 128),) * 3, 3),
    "grouped_matmul": (gmm, (array(512, 256), array(4, 256, 256), array(4, dtype=jnp.int32)), 1),
    "paged": (
        lambda *args: paged_attention(*args, pages_per_compute_block=4),
        (array(4, 8, 128), *(array(1, 64, 16, 128),) * 2, array(4, dtype=jnp.int32), array(4, 16, dtype=jnp.int32)),
        1,
    ),
}


@pytest.mark.parametrize("name", OPS)
def test_they_become_values_that_are_drawn_and_shown(name: str) -> None:
    fun, args, count = OPS[name]
    lowered = inspector.lower(fun, *args, platform="tpu")
    assert len(lowered.kernels) == count
    assert pickle.loads(pickle.dumps(lowered.kernels)) == lowered.kernels
    message = kernels_message(
        0, lowered.kernels, [fields_of(k, "tpu") for k in lowered.kernels], Target.parse("tpu:v5e")
    )
    assert problem(message, ToBrowser) is None
    for kernel in lowered.kernels:
        assert len(kernel.plot().axes) == len(kernel.operands)
        assert len(kernel.table()) == len(kernel.operands)


@pytest.mark.parametrize("name", OPS)
def test_their_parameters_can_be_replaced(name: str) -> None:
    fun, args, _ = OPS[name]
    lowered = inspector.lower(fun, *args, platform="tpu", compiler_params={"*": {"vmem_limit_bytes": 7654321}})
    assert all(dict(kernel.params)["vmem_limit_bytes"] == 7654321 for kernel in lowered.kernels)
    assert lowered.stablehlo.count("7654321") >= len(lowered.kernels)


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
@pytest.mark.parametrize("name", OPS)
def test_the_compiler_reports_the_memory_of_each_kernel(name: str) -> None:
    fun, args, _ = OPS[name]
    lowered = inspector.lower(fun, *args, platform="tpu")
    module = lowered.compile(target="tpu:v5e").module()
    for kernel in lowered.kernels:
        assert not isinstance(used_vmem(kernel, module), Unavailable)
