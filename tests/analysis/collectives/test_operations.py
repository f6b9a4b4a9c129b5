"""Collectives however compilers write them: each once, with what ends it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.collectives.operations import operations
from inspector.analysis.cost.kernels import structure
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from tests.absent import needs_tpu
from tests.modules import module_of

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


# As libtpu writes a reduce-scatter of two arrays, of which one is padded, and an all-reduce of which it keeps more.
SCATTER = """HloModule scattered, num_partitions=8

add { x = bf16[] parameter(0)  y = bf16[] parameter(1)  ROOT s = bf16[] add(x, y) }

all-reduce-scatter {
  p = bf16[1024]{0} parameter(0)
  q = bf16[9,8]{1,0} parameter(1)
  zero = bf16[] constant(0)
  padded = bf16[10,8]{1,0} pad(q, zero), padding=0_1x0_0
  r = (bf16[1024]{0}, bf16[10,8]{1,0}) all-reduce(p, padded), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, to_apply=add
  table = s32[8]{0} constant({0, 0, 0, 0, 1, 1, 1, 1})
  id = u32[] partition-id()
  row = s32[1]{0} dynamic-slice(table, id), dynamic_slice_sizes={1}
  index = s32[] bitcast(row)
  first = bf16[1024]{0} get-tuple-element(r), index=0
  kept = bf16[512]{0} dynamic-slice(first, index), dynamic_slice_sizes={512}
  second = bf16[10,8]{1,0} get-tuple-element(r), index=1
  origin = s32[] constant(0)
  rows = bf16[5,8]{1,0} dynamic-slice(second, index, origin), dynamic_slice_sizes={5,8}
  ROOT t = (bf16[512]{0}, bf16[5,8]{1,0}) tuple(kept, rows)
}

reduced_and_sliced {
  p2 = bf16[64]{0} parameter(0)
  r2 = bf16[64]{0} all-reduce(p2), channel_id=2, replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, to_apply=add
  i2 = s32[] constant(0)
  d2 = bf16[32]{0} dynamic-slice(r2, i2), dynamic_slice_sizes={32}
  n2 = bf16[64]{0} negate(r2)
  ROOT t2 = (bf16[32]{0}, bf16[64]{0}) tuple(d2, n2)
}

ENTRY main {
  a = bf16[1024]{0} parameter(0)
  b = bf16[9,8]{1,0} parameter(1)
  c = bf16[64]{0} parameter(2)
  f = (bf16[512]{0}, bf16[5,8]{1,0}) fusion(a, b), kind=kCustom, calls=all-reduce-scatter, frontend_attributes={is_spmd_generated="true"}, metadata={op_name="jit(f)/jvp()/dot_general" source_file="f.py" source_line=7}
  g = (bf16[32]{0}, bf16[64]{0}) fusion(c), kind=kCustom, calls=reduced_and_sliced
  ROOT u = ((bf16[512]{0}, bf16[5,8]{1,0}), (bf16[32]{0}, bf16[64]{0})) tuple(f, g)
}
"""

# As XLA decomposes a collective-permute for GPUs, and a transfer to the host, which is none.
SENT = """HloModule sent, num_partitions=4

ENTRY main {
  a = f32[16]{0} parameter(0)
  begin = token[] after-all()
  got = (f32[16]{0}, u32[], token[]) recv(begin), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3}}}
  put = (f32[16]{0}, u32[], token[]) send(a, begin), channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3}}}
  gd = (f32[16]{0}, token[]) recv-done(got), channel_id=3
  pd = token[] send-done(put), channel_id=3
  host = (f32[16]{0}, u32[], token[]) send(a, pd), channel_id=4, is_host_transfer=true
  hd = token[] send-done(host), channel_id=4, is_host_transfer=true
  ROOT r = f32[16]{0} get-tuple-element(gd), index=0
}
"""

# Two that XLA starts together for GPUs.
TOGETHER = """HloModule together, num_partitions=4

add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }

both {
  p = f32[16]{0} parameter(0)
  q = f32[4]{0} parameter(1)
  r = f32[16]{0} all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  g = f32[16]{0} all-gather(q), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  ROOT t = (f32[16]{0}, f32[16]{0}) tuple(r, g)
}

ENTRY main {
  a = f32[16]{0} parameter(0)
  b = f32[4]{0} parameter(1)
  begun = ((f32[16]{0}, f32[4]{0}), (f32[16]{0}, f32[16]{0})) async-start(a, b), calls=both
  ROOT ended = (f32[16]{0}, f32[16]{0}) async-done(begun)
}
"""


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


def test_a_reduce_scatter_that_is_written_as_an_all_reduce() -> None:
    scatter, reduce = collectives(module_of(SCATTER), None, num_partitions=8)
    assert (scatter.name, scatter.opcode, scatter.reduction, scatter.context) == (
        "r",
        "reduce-scatter",
        "add",
        ("entry", "fusion"),
    )
    assert [str(shape.without_layout()) for shape in scatter.operand_shapes] == ["bf16[1024]", "bf16[10,8]"]
    assert [str(shape.without_layout()) for shape in scatter.result_shapes] == ["bf16[512]", "bf16[5,8]"]
    assert (scatter.operand_bytes, scatter.result_bytes, scatter.dimensions) == (2048 + 160, 1024 + 80, (0,))
    assert (scatter.origin.frames[0].line, scatter.source_from) == (7, "f, which contains it")
    assert (scatter.inserted_by, scatter.phases) == ("partitioner", ("forward",))
    assert (reduce.opcode, reduce.operand_bytes, reduce.result_bytes) == ("all-reduce", 128, 128)


OUTSIDE = """HloModule outside, num_partitions=2

add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }

kept {
  p = f32[8]{0} parameter(0)
  r = f32[8]{0} all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  zero = u32[] constant(0)
  ROOT part = f32[4]{0} dynamic-slice(r, zero), dynamic_slice_sizes={4}
}

ENTRY main {
  a = f32[8]{0} parameter(0)
  f = f32[4]{0} fusion(a), kind=kLoop, calls=kept
  r.1 = f32[8]{0} all-reduce(a), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  zero.1 = u32[] constant(0)
  part.1 = f32[4]{0} dynamic-slice(r.1, zero.1), dynamic_slice_sizes={4}
  ROOT sum = f32[4]{0} add(f, part.1)
}
"""


def test_an_all_reduce_is_one_where_all_of_it_is_written() -> None:
    """Only in a fusion of the compiler's own kind is it known that the rest is not."""
    found = collectives(module_of(OUTSIDE), None, num_partitions=2)
    assert [(each.opcode, each.result_bytes) for each in found] == [("all-reduce", 32)] * 2


# The partitions of each group keep blocks in another order than the group's.
KEPT = """HloModule kept, num_partitions=8

add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }

all-reduce-scatter {
  p = f32[256,1024]{1,0} parameter(0)
  r = f32[256,1024]{1,0} all-reduce(p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=add
  zero = u32[] constant(0)
  table = u32[8]{0} constant({0, 2, 1, 3, 0, 1, 2, 3})
  id = u32[] partition-id()
  row = u32[1]{0} dynamic-slice(table, id), dynamic_slice_sizes={1}
  index = u32[] bitcast(row)
  size = u32[] constant(256)
  offset = u32[] multiply(index, size)
  ROOT kept = f32[256,256]{1,0} dynamic-slice(r, zero, OFFSET), dynamic_slice_sizes={256,256}
}

ENTRY main {
  a = f32[256,1024]{1,0} parameter(0)
  ROOT f = f32[256,256]{1,0} fusion(a), kind=kCustom, calls=all-reduce-scatter
}
"""


@pytest.mark.parametrize(("offset", "blocks", "said"), [
    ("offset", (0, 2, 1, 3, 0, 1, 2, 3), "block 2 of 4 along dimension 1 of the sum of all 4: f32[256,256]"),
    ("id", Unavailable("the slice's offset does not come from a table of partitions that inspector can read"),
     "along dimension 1 of the sum of all 4: f32[256,256]"),
])  # fmt: skip
def test_which_block_each_keeps_is_read_and_not_assumed(offset: str, blocks: object, said: str) -> None:
    found = collectives(module_of(KEPT.replace("OFFSET", offset)), None, num_partitions=8)
    assert found[0].blocks == blocks
    members = found.members("r").set_index("logical_id")
    assert members.loc[1, "position"] == 1
    assert members.loc[1, "after"].endswith(said)
    assert ("block number unknown: the slice's offset" in members.loc[1, "after"]) == (offset == "id")


@needs_tpu
@pytest.mark.slow
def test_the_blocks_that_a_tpu_keeps_are_those_of_the_sharding() -> None:
    mesh = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    x = jax.ShapeDtypeStruct((512, 1024), jnp.float32, sharding=NamedSharding(mesh, P("data", "model")))
    w = jax.ShapeDtypeStruct((1024, 1024), jnp.float32, sharding=NamedSharding(mesh, P("model", None)))
    step = jax.jit(lambda x, w: jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("data", "model"))))
    compiled = inspector.lower(step, x, w, target="tpu:v5e:2x4").compile(target="tpu:v5e:2x4")
    (scatter,) = compiled.collectives()
    assert (scatter.opcode, scatter.blocks) == ("reduce-scatter", (0, 1, 2, 3, 0, 1, 2, 3))


def test_a_collective_permute_that_is_written_as_send_and_recv() -> None:
    (sent,) = collectives(module_of(SENT), Mesh(("x",), (4,), "partition"), num_partitions=4)
    assert (sent.name, sent.opcode, sent.done, sent.axes) == ("put", "collective-permute", "pd", ("x",))
    assert sent.participants == ((0, 1), (1, 2), (2, 3))
    assert (sent.operand_bytes, sent.result_bytes) == (64, 64)


def test_several_that_start_together() -> None:
    found = collectives(module_of(TOGETHER), None, num_partitions=4)
    assert [(c.name, c.opcode, c.done, c.operand_bytes, c.result_bytes) for c in found] == [
        ("r", "all-reduce", "ended", 64, 64),
        ("g", "all-gather", "ended", 16, 64),
    ]


def test_only_the_sent_bytes_of_a_ragged_all_to_all_are_counted() -> None:
    text = """HloModule ragged, replica_count=2
ENTRY main {
  a = f32[8]{0} parameter(0)
  into = f32[16]{0} parameter(1)
  n = s32[2]{0} parameter(2)
  ROOT r = f32[16]{0} ragged-all-to-all(a, into, n, n, n, n), replica_groups={{0,1}}
}"""
    (ragged,) = collectives(module_of(text), None, num_replicas=2)
    assert (ragged.operand_bytes, ragged.result_bytes, len(ragged.operand_shapes)) == (32, 64, 6)


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
