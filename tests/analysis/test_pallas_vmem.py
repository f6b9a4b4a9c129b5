"""The VMEM of kernels that people use, against what libtpu gives them and says when it refuses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.matmul import matmul
from jax.experimental.pallas.ops.tpu.megablox import gmm
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask

import inspector
from inspector.analysis.memory.tpu_errors import MemoryOverflow, advice, explain
from inspector.analysis.pallas.vmem import VmemBudget, vmem_budget
from inspector.errors import CompilationError, Unavailable
from inspector.widgets.panes.pallas import kernels_message
from tests.absent import needs_tpu

pytestmark = [needs_tpu, pytest.mark.slow]

KIB = 1 << 10


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _splash(q: Any, k: Any, v: Any) -> Any:
    mask = splash_attention_mask.MultiHeadMask([splash_attention_mask.CausalMask((512, 512)) for _ in range(2)])
    return splash_attention_kernel.make_splash_mha(mask, head_shards=1, q_seq_shards=1)(q, k, v)


def _flash_gradient(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda q, k, v: flash_attention(q, k, v).sum(), (0, 1, 2))(q, k, v)


def _flash(q: Any, k: Any, v: Any) -> Any:
    return flash_attention(q, k, v, causal=True)


LARGE = (array(2, 4, 1024, 128, dtype=jnp.bfloat16),) * 3
PROGRAMS: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "flash, arrays in HBM": (_flash, LARGE),
    "flash, arrays in VMEM": (_flash, (array(1, 1, 512, 64),) * 3),
    "flash, gradient": (_flash_gradient, (array(1, 2, 512, 128),) * 3),
    "splash": (_splash, (array(2, 512, 128),) * 3),
    "gmm": (
        lambda x, y, sizes: gmm(x, y, sizes, preferred_element_type=jnp.float32),
        (array(512, 256), array(4, 256, 512), array(4, dtype=jnp.int32)),
    ),
    "matmul": (lambda x, y: matmul(x, y, block_shape=(256, 256), block_k=256), (array(512, 512),) * 2),
    "paged": (
        lambda q, k, v, lengths, pages: paged_attention(q, k, v, lengths, pages, pages_per_compute_block=4),
        (
            array(2, 8, 128), array(2, 32, 16, 128), array(2, 32, 16, 128), array(2, dtype=jnp.int32),
            array(2, 8, dtype=jnp.int32),
        ),
    ),
}  # fmt: skip


def known(budget: Any) -> VmemBudget:
    assert isinstance(budget, VmemBudget)
    return budget


@pytest.mark.parametrize("chip", ["v5e", "v6e"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_byte_that_the_compiler_gives_is_named(name: str, chip: str) -> None:
    fun, args = PROGRAMS[name]
    lowered = inspector.lower(fun, *args, platform="tpu", chip=chip)
    module = lowered.compile(target=f"tpu:{chip}:1x1").module()
    for kernel in lowered.kernels:
        budget = known(kernel.vmem(chip, module))
        assert budget.certainty == "compiler"
        assert budget.total_bytes == kernel.used_vmem(module)
        assert budget.counted_bytes + budget.own_bytes == budget.total_bytes, kernel
        assert budget.own_bytes == 0 or (name, chip) == ("paged", "v5e"), kernel  # which moves rows about in its body
        estimate = known(kernel.vmem(chip))
        assert estimate.certainty == "estimate"
        assert str(estimate).startswith("about ")
        assert estimate.counted_bytes >= budget.counted_bytes


@pytest.mark.parametrize("limit", [1, 100, 191, 193, 447])
def test_the_size_in_an_error_is_a_lower_bound(limit: int) -> None:
    params = {"*": {"vmem_limit_bytes": limit * KIB}}
    lowered = inspector.lower(_flash, *LARGE, platform="tpu", compiler_params=params)
    with pytest.raises(CompilationError) as refused:
        lowered.compile(target="tpu:v5e:1x1")
    found = explain(str(refused.value))
    assert isinstance(found, MemoryOverflow)
    assert found.asked_bytes == (192 if limit < 192 else 448) * KIB  # scratch alone, then scratch and blocks
    assert "needs at least " in str(found)
    budget = known(vmem_budget(lowered.kernels[0], "v5e", refused_bytes=found.asked_bytes))
    assert (budget.total_bytes, budget.fits) == (448 * KIB, False)
    assert advice(found, lowered.kernels, "v5e")[0].endswith("vmem_limit_bytes=2 << 20.")
    message = kernels_message(0, lowered.kernels, [()], inspector.Target("tpu:v5e:1x1"), refused.value)
    memory = message["rows"][0]["memory"]
    assert memory is not None
    assert (memory["total_bytes"], memory["fits"]) == (448 * KIB, False)
    assert "stops counting at the first part that exceeds the limit" in memory["remark"]


def test_the_limit_that_is_advised_is_enough() -> None:
    params = {"*": {"vmem_limit_bytes": 2 << 20}}
    lowered = inspector.lower(_flash, *LARGE, platform="tpu", compiler_params=params)
    budget = known(lowered.kernels[0].vmem("v5e", lowered.compile(target="tpu:v5e:1x1").module()))
    assert (budget.total_bytes, budget.fits, budget.certainty) == (448 * KIB, True, "compiler")


def test_a_kernel_with_all_arrays_in_vmem_is_marked() -> None:
    lowered = inspector.lower(_flash, *[array(1, 1, 512, 64)] * 3, platform="tpu")
    budget = known(lowered.kernels[0].vmem("v5e", lowered.compile(target="tpu:v5e:1x1").module()))
    assert budget.total_bytes == 192 * KIB
    assert "in VMEM, so no blocks of it are fetched" in budget.remark
    assert {a.buffer_count for a in budget.allocations if a.role in ("input", "output")} == {0}


def blocks_of(rows: int, columns: int, grid: int, *, is_softmax: bool) -> inspector.Lowered:
    """For tpu7x, with all of its VMEM."""

    def body(x: Any, o: Any) -> None:
        value = x[...]
        if is_softmax:
            value = jnp.exp(value - value.max(-1, keepdims=True))
            value = value / value.sum(-1, keepdims=True)
        o[...] = value * 2

    def call(x: jax.Array) -> jax.Array:
        block = pl.BlockSpec((rows, columns), lambda i: (i, 0))
        limit = {"compiler_params": pltpu.CompilerParams(vmem_limit_bytes=64 << 20)} if is_softmax else {}
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(body, grid=(grid,), in_specs=[block], out_specs=block, out_shape=out, **limit)(x)  # type: ignore[arg-type]

    return inspector.lower(call, array(rows * grid, columns), platform="tpu", chip="tpu7x")


def test_an_estimate_is_not_a_verdict() -> None:
    """The compiler needs more than the blocks for spilled registers, or less where an array lies in VMEM whole."""
    spills = blocks_of(512, 8192, 4, is_softmax=True)
    estimate = known(spills.kernels[0].vmem("tpu7x"))
    assert (estimate.total_bytes, estimate.limit_bytes) == (64 << 20, 64 << 20)
    assert isinstance(estimate.fits, Unavailable)
    assert estimate.verdict == "leaves 0 B for the compiler's own needs"
    with pytest.raises(CompilationError) as refused:
        spills.compile(target="tpu:tpu7x:2x2x1")
    found = explain(str(refused.value))
    assert isinstance(found, MemoryOverflow)
    assert found.asked_bytes > 64 << 20
    assert known(vmem_budget(spills.kernels[0], "tpu7x", refused_bytes=found.asked_bytes)).fits is False
    whole = blocks_of(2560, 1024, 2, is_softmax=False)
    estimate = known(whole.kernels[0].vmem("tpu7x"))
    assert estimate.total_bytes > estimate.limit_bytes
    assert isinstance(estimate.fits, Unavailable)
    assert "unless XLA places a whole array in VMEM" in str(estimate)
    assert known(whole.kernels[0].vmem("tpu7x", whole.compile(target="tpu:tpu7x:2x2x1").module())).fits is True
