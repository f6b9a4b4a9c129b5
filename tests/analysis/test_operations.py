"""Collectives however compilers write them: each once, with what ends it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P
from jaxlib import _hlo

import inspector
from inspector.analysis.collectives import collectives
from inspector.analysis.kernels import structure
from inspector.analysis.operations import operations
from inspector.hlo.module import Module
from tests.absent import needs_tpu

# As XLA writes them for GPUs since JAX 0.12: one in a fusion, one without.
IN_FUSION = """HloModule fused, num_partitions=8

add { x = bf16[] parameter(0)  y = bf16[] parameter(1)  ROOT s = bf16[] add(x, y) }

reduced { p = bf16[64]{0} parameter(0)  ROOT r = bf16[64]{0} all-reduce(p), channel_id=1, replica_groups=[4,2]<=[8], use_global_device_ids=true, to_apply=add }

wrapped { q = bf16[64]{0} parameter(0)  ROOT f = bf16[64]{0} fusion(q), kind=kCustom, calls=reduced }

started { w = bf16[32]{0} parameter(0)  ROOT g = bf16[256]{0} all-gather(w), channel_id=2, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true }

ENTRY main {
  a = bf16[64]{0} parameter(0)
  b = bf16[32]{0} parameter(1)
  fs = ((bf16[64]{0}), bf16[64]{0}) async-start(a), calls=wrapped
  gs = ((bf16[32]{0}), bf16[256]{0}) async-start(b), calls=started
  fd = bf16[64]{0} async-done(fs)
  gd = bf16[256]{0} async-done(gs)
  ROOT t = (bf16[64]{0}, bf16[256]{0}) tuple(fd, gd)
}
"""

# As libtpu writes an all-gather that runs beside a fusion, without the semaphores that it hands along; then one alone.
CHAIN = """HloModule chained, num_partitions=8

start { p = bf16[32]{0} parameter(0)  g = bf16[256]{0} all-gather(p), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true, frontend_attributes={chain_id="4"}  ROOT s = (bf16[32]{0}, bf16[256]{0}) custom-call(g), custom_call_target="AsyncCollectiveStart" }

beside { q = bf16[32]{0} parameter(0)  z = f32[8]{0} parameter(1)  h = bf16[256]{0} all-gather(q), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true, frontend_attributes={chain_id="4"}  n = f32[8]{0} negate(z)  ROOT o = (f32[8]{0}, bf16[32]{0}, bf16[256]{0}) tuple(n, q, h) }

end { r = bf16[32]{0} parameter(0)  k = bf16[256]{0} all-gather(r), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true, frontend_attributes={chain_id="4"}  ROOT e = bf16[256]{0} custom-call(r, k), custom_call_target="AsyncCollectiveDone" }

ENTRY main {
  a = bf16[32]{0} parameter(0)
  b = f32[8]{0} parameter(1)
  begun = (bf16[32]{0}, bf16[256]{0}) fusion(a), kind=kCustom, calls=start
  x = bf16[32]{0} get-tuple-element(begun), index=0
  during = (f32[8]{0}, bf16[32]{0}, bf16[256]{0}) fusion(x, b), kind=kOutput, calls=beside
  y = bf16[32]{0} get-tuple-element(during), index=1
  ended = bf16[256]{0} fusion(y), kind=kCustom, calls=end
  c = bf16[256]{0} all-gather(a), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true
  ROOT t = (bf16[256]{0}, bf16[256]{0}) tuple(ended, c)
}
"""


def module_of(text: str) -> Module:
    return Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


@pytest.mark.parametrize(
    ("text", "expected", "put_in_bytes"),
    [
        (IN_FUSION, [("r", "all-reduce", "fd"), ("gs", "all-gather", "gd")], 64 * 2 + 32 * 2),
        (CHAIN, [("g", "all-gather", "ended"), ("c", "all-gather", "")], 2 * 32 * 2),
    ],
)
def test_each_is_one(text: str, expected: list[tuple[str, str, str]], put_in_bytes: int) -> None:
    module = module_of(text)
    found = collectives(module, None, num_partitions=8).items
    assert [(c.name, c.opcode, c.done) for c in found] == expected
    assert [c.result_bytes for c in found] == [{"all-reduce": 128, "all-gather": 512}[c.opcode] for c in found]
    numbers = structure(module)
    assert (numbers.collectives, numbers.collective_bytes) == (len(expected), put_in_bytes)


@needs_tpu
@pytest.mark.slow
def test_a_gathered_weight_is_gathered_once_however_many_fusions_run_beside_it() -> None:
    mesh = AbstractMesh((8,), ("x",), axis_types=(AxisType.Auto,))

    def layers(x: jax.Array, *weights: jax.Array) -> jax.Array:
        for shard in weights:
            x = jnp.tanh(x @ jax.lax.all_gather(shard, "x", tiled=True))
        return x

    mapped = jax.shard_map(layers, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    arrays = [jax.ShapeDtypeStruct((4096, 1024), jnp.bfloat16)] + [jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)] * 4
    compiled = inspector.lower(jax.jit(mapped), *arrays, platform="tpu").compile(target="tpu:v5e:2x4")
    assert "AsyncCollectiveStart" in compiled.hlo, "libtpu no longer runs these beside others in this way"
    assert [c.opcode for c in compiled.collectives()] == ["all-gather"] * 4
    chained = [f for f in operations(compiled.module()) if f.done is not None]
    assert chained
    assert all(f.done is not None and f.done.opcode in ("fusion", "all-gather-done") for f in chained)
