"""The ladder builds programs of the size that its names promise."""

from __future__ import annotations

import math

import jax
import pytest

from benchmarks import workloads


def test_every_rung_is_built() -> None:
    for name in (*workloads.LADDER, "pallas_mm"):
        assert workloads.make(name).name == name


@pytest.mark.parametrize("name", ["tiny", "mlp", "cnn", "tf1", "tfscan12", "fsdp8_1"])
def test_lowers(name: str) -> None:
    workload = workloads.make(name)
    text = jax.jit(workload.fun).lower(*workload.args).as_text()
    assert ("all_gather" in text) == name.startswith("fsdp")
    assert ("stablehlo.while" in text) == name.startswith("tfscan")


@pytest.mark.parametrize(("name", "layers"), [("tf2", 2), ("tf12", 12), ("tfscan12", 12)])
def test_parameters_of_a_transformer(name: str, layers: int) -> None:
    # d=128, ff=512, V=512, T=64: attention 4d²+4d, MLP 2·d·ff+ff+d, two norms 4d; embeddings and last norm.
    block = 4 * 128**2 + 4 * 128 + 2 * 128 * 512 + 512 + 128 + 4 * 128
    expected = layers * block + 512 * 128 + 64 * 128 + 2 * 128
    params = workloads.make(name).args[0]
    assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params)) == expected


@pytest.mark.parametrize("name", ["tf", "tfx", "tf0", "resnet", "fsdp8_"])
def test_unknown_rung(name: str) -> None:
    with pytest.raises(KeyError, match="there are tiny, mlp"):
        workloads.make(name)
