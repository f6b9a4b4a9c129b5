"""Writes `tests/hlo/data`: small real modules of the JAX that runs this, and what is in them.

    python tests/hlo/make_data.py

For each case `<case>.<jax version>.pb` (the module), `.hlo` (jaxlib's text) and `.json` (what the
oracle's reference parser reads in that text: an independent expectation). Run once under each
supported JAX; the version is in the file name.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "data" / "oracle"))

import digest  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402
from jaxlib import _hlo  # noqa: E402

VERSION = ".".join(jax.__version__.split(".")[:2])

ASYNC = """HloModule asynchronous, num_partitions=8

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

all-to-all-computation {
  q = f32[8,4]{1,0} parameter(0)
  ROOT inner-all-to-all = f32[8,4]{1,0} all-to-all(q), channel_id=5, replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, metadata={op_name="jit(f)/all_to_all"}
}

scatter-computation {
  q = f32[8,4]{1,0} parameter(0)
  ROOT inner-reduce-scatter = f32[4,4]{1,0} reduce-scatter(q), channel_id=6, replica_groups=[4,2]<=[8], use_global_device_ids=true, dimensions={0}, to_apply=add
}

ENTRY main {
  x = f32[8,4]{1,0} parameter(0)
  gather-start = (f32[8,4]{1,0}, f32[8,16]{1,0}) all-gather-start(x), channel_id=1, replica_groups=[2,4]<=[8], dimensions={1}, use_global_device_ids=true, metadata={op_name="jit(f)/all_gather"}
  gather-done = f32[8,16]{1,0} all-gather-done(gather-start)
  reduce-start = f32[8,4]{1,0} all-reduce-start(x), channel_id=2, replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true, to_apply=add
  reduce-done = f32[8,4]{1,0} all-reduce-done(reduce-start)
  permute-start = (f32[8,4]{1,0}, f32[8,4]{1,0}, u32[], u32[]) collective-permute-start(x), channel_id=3, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, metadata={op_name="jit(f)/ppermute"}
  permute-done = f32[8,4]{1,0} collective-permute-done(permute-start)
  exchange-start = ((f32[8,4]{1,0}), f32[8,4]{1,0}) async-start(x), calls=all-to-all-computation
  exchange-done = f32[8,4]{1,0} async-done(exchange-start), calls=all-to-all-computation
  scatter-start = ((f32[8,4]{1,0}), f32[4,4]{1,0}) async-start(x), calls=scatter-computation
  scatter-update = ((f32[8,4]{1,0}), f32[4,4]{1,0}) async-update(scatter-start), calls=scatter-computation
  scatter-done = f32[4,4]{1,0} async-done(scatter-update), calls=scatter-computation
  broadcast = f32[8,4]{1,0} collective-broadcast(x), channel_id=4, replica_groups={{4,0},{5,1},{6,2},{7,3}}, frontend_attributes={note="metadata={op_name=\\"no\\"}"}
  ROOT result = (f32[8,16]{1,0}, f32[8,4]{1,0}, f32[8,4]{1,0}, f32[8,4]{1,0}, f32[4,4]{1,0}, f32[8,4]{1,0}) tuple(gather-done, reduce-done, permute-done, exchange-done, scatter-done, broadcast)
}
"""

FORMS = """HloModule forms, num_partitions=8

ENTRY main {
  x = f32[2]{0} parameter(0)
  all = f32[2]{0} all-to-all(x), channel_id=1, replica_groups={}, dimensions={0}
  uneven = (f32[2]{0}) all-to-all(x), channel_id=2, replica_groups={{0},{1,2},{3,4,5},{6,7}}
  iota = f32[8]{0} all-gather(x), channel_id=3, replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}, use_global_device_ids=true
  mesh = f32[8]{0} all-gather(x), channel_id=4, replica_groups=mesh['a'=2,'b'=4] {'b':(2)2,'a'}, dimensions={0}, use_global_device_ids=true
  listed = f32[8]{0} all-gather(x), channel_id=5, replica_groups=mesh['a'=2,'b'=4], device_ids=(3,1,2,0,7,5,6,4) {'b'}, dimensions={0}, use_global_device_ids=true
  transposed = f32[16]{0} all-gather(x), channel_id=6, replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b','a'}, dimensions={0}, use_global_device_ids=true
  ROOT result = (f32[2]{0}, (f32[2]{0}), f32[8]{0}, f32[8]{0}, f32[8]{0}, f32[16]{0}) tuple(all, uneven, iota, mesh, listed, transposed)
}
"""


def save(name: str, module: _hlo.HloModule) -> None:
    """Writes the module, its text and what the reference parser reads in it."""
    text = module.to_string()
    path = HERE / "data" / f"{name}.{VERSION}"
    path.with_name(path.name + ".pb").write_bytes(module.as_serialized_hlo_module_proto())
    path.with_name(path.name + ".hlo").write_text(text, encoding="utf-8")
    parsed = digest.parse_module(text)
    for instructions in parsed["comps"].values():
        for instruction in instructions:
            for attribute in ("replica_groups", "source_target_pairs"):
                if attribute in instruction["attrs"]:
                    instruction[attribute] = digest.parse_groups(instruction["attrs"][attribute])
            del instruction["attrs"]
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    parsed["ppermute_line"] = next(
        n for n, line in enumerate(source, start=1) if line.strip().startswith("lax.ppermute(")
    )
    path.with_name(path.name + ".json").write_text(json.dumps(parsed, indent=1) + "\n", encoding="utf-8")


def save_compiled(name: str, fun: Callable[..., object], *args: object) -> None:
    compiled = jax.jit(fun).lower(*args).compile()
    save(name, compiled.runtime_executable().hlo_modules()[0])


def every_collective(x: jax.Array) -> jax.Array:
    """One of each, over one axis, two axes in either order, and groups of indices."""
    gathered = lax.all_gather(x, ("b", "a"))
    parts = [
        lax.psum(x, "b"),
        gathered,
        lax.ppermute(x, "b", [(0, 1), (1, 2)]),
        lax.all_to_all(gathered, "a", 0, 1, tiled=True),
        lax.all_gather(x, "b", axis_index_groups=[[0, 2], [1, 3]]),
        lax.psum_scatter(gathered, ("a", "b")),
        lax.pmax(x, ("a", "b")),
        lax.fori_loop(0, 3, lambda _, carry: carry + lax.psum(carry, "a").sum(), x),
        lax.cond(x[0] > 0, lambda x: lax.all_gather(x, "a", tiled=True), lambda x: jnp.tile(x, 2), x),
    ]
    return sum(part.sum() for part in parts)[None]


def main() -> None:
    # The same bytes wherever the repository lies.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", f"{HERE.parent.parent}/")
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(2, 4), ("a", "b"))
    spec = P(("a", "b"))
    mapped = jax.shard_map(every_collective, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    save_compiled("shard_map", mapped, jnp.arange(32.0))

    x = jax.device_put(jnp.ones((16, 32)), NamedSharding(mesh, P("a", "b")))
    w = jax.device_put(jnp.ones((32, 16)), NamedSharding(mesh, P("b", None)))

    def partitioned(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(jnp.tanh(x @ w), NamedSharding(mesh, P(None, "a")))

    save_compiled("partitioned", partitioned, x, w)
    save_compiled("plain", lambda x: (jnp.sort(jnp.sin(x)), x.astype("int4")), jnp.arange(6.0))
    save("asynchronous", _hlo.hlo_module_from_text(ASYNC))
    save("forms", _hlo.hlo_module_from_text(FORMS))


if __name__ == "__main__":
    main()
