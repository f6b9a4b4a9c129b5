"""Records the programs of lesson 6 for readers without the compilers of TPUs and GPUs. Run as `python .ci/record_lesson.py`.

It needs the extras `tpu` and `cuda`. The lesson loads the file where a compiler is not installed.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector

FILE = Path(__file__).resolve().parent.parent / "notebooks" / "course" / "6_overlap.inspector"
SCHEDULER = "xla_{}_enable_latency_hiding_scheduler"
COMBINER = "xla_gpu_reduce_scatter_combine_threshold_bytes"
VARIANTS: tuple[tuple[str, dict[str, bool | int]], ...] = (
    ("tpu:v5e:2x4", {SCHEDULER.format("tpu"): True}),
    ("tpu:v5e:2x4", {SCHEDULER.format("tpu"): False}),
    ("gpu:h100:8", {}),
    ("gpu:h100:8", {SCHEDULER.format("gpu"): True}),
    ("gpu:h100:8", {SCHEDULER.format("gpu"): False}),
    ("gpu:h100:8", {COMBINER: 0}),
)


def main() -> None:
    """Compiles the layers of the lesson for each target and option, and writes the file."""
    mesh = AbstractMesh((8,), ("data",), axis_types=(AxisType.Auto,))

    def split(shape: tuple[int, ...], *spec: str) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, P(*spec)))

    def layers(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for weight in weights:
            x = jax.nn.relu(x @ weight)
        return jnp.mean(x**2)

    weights = [split((2048, 2048), "data") for _ in range(4)]
    step = jax.jit(jax.grad(layers), out_shardings=[weight.sharding for weight in weights])
    explorer = inspector.explore(step, weights, split((4096, 2048), "data"), target="tpu:v5e:2x4")
    for target, options in VARIANTS:
        explorer.add(options, target=target)
    explorer.wait(600)
    failed = [variant for variant in explorer.variants if variant.state != "done"]
    if failed:
        raise SystemExit(f"Not compiled: {failed}")
    explorer.save(FILE)
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB, {len(explorer.variants)} variants")


if __name__ == "__main__":
    main()
