"""Records the kept explorations with the JAX that runs this: python -m tests.reports.record_explorations (needs libtpu and the CUDA plugin).

One file for each platform, of a version of JAX each: they must keep loading, so they are never recorded again.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp

import inspector
from inspector.widgets.explorer import Explorer

FOLDER = Path(__file__).parent.parent / "data" / "explorations"
TARGETS = {"cpu": "cpu:2", "tpu": "tpu:v5e:1x1", "gpu": "gpu:h100:1"}
FLAGS = {
    "cpu": "xla_cpu_enable_fast_math",
    "tpu": "xla_tpu_enable_latency_hiding_scheduler",
    "gpu": "xla_gpu_enable_triton_gemm",
}


def step(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
    with jax.named_scope("layer"):
        return jnp.sort(jax.nn.gelu(x @ w["a"])) @ w["a"].T


def recorded(platform: str) -> Explorer:
    """Two variants that compile, of which the first has passes, and one whose flag there is not."""
    arguments = jnp.ones((8, 16)), {"a": jnp.ones((16, 16))}
    explorer = inspector.explore(
        step,
        *arguments,
        target=TARGETS[platform],
        compare=[{FLAGS[platform]: True}, "tpu:v5e:1x1" if platform == "cpu" else "cpu"],
    )
    explorer.wait(300)
    board = explorer._compiles.board
    board.record(explorer.baseline, "passes")
    if platform == "cpu":
        board.answer({"type": "run", "variant": 0, "repeat": 3})
    while not board.products(explorer.baseline) or (platform == "cpu" and board.outcome(explorer.baseline) is None):
        explorer.wait(300)
    return explorer


def main() -> None:
    """Writes the files that there are not."""
    for platform in TARGETS:
        path = FOLDER / f"{platform}-{jax.__version__}.inspector"
        if not path.exists():
            recorded(platform).save(path)
            print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
