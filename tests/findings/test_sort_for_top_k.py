"""Sorts of which few values are used, and sorts that are needed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import Unavailable
from inspector.support.units import format_bytes
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import all_found, found

KIND = "sort-for-top-k"
ROWS = jax.ShapeDtypeStruct((64, 4096), jnp.float32)
LINE = jax.ShapeDtypeStruct((4096,), jnp.float32)


def in_a_loop(xs: Any) -> Any:
    return jax.lax.map(lambda x: jnp.sort(x)[:10].sum(), xs)


@pytest.mark.parametrize(
    ("fun", "x", "words", "remedy"),
    [
        (lambda x: jnp.sort(x)[..., -5:], ROWS, "last 5 values are", "jax.lax.top_k(x, 5)[0]"),
        (
            lambda x: x[jnp.argsort(-x)[:5]],
            LINE,
            "first 5 values are",
            "values, positions = jax.lax.top_k(x, 5)  # x without its negation",
        ),
        (lambda x: jnp.sort(x, axis=-1)[:, ::-1][:, :8], ROWS, "last 8 values are", "top_k(x, 8)"),
        (lambda x: x >= jnp.sort(x)[..., -3:-2], ROWS, "last 3 values are", "top_k(x, 3)"),
        (lambda x: jnp.sort(x, descending=True)[:, 0], ROWS, "1 value is", "top_k(x, 1)"),
        (in_a_loop, ROWS, "first 10 values are", "top_k(-x, 10)"),
    ],
)
def test_few_values_are_used(fun: Any, x: Any, words: str, remedy: str) -> None:
    (finding,) = found(KIND, fun, x)
    assert words in finding.title
    assert remedy in finding.remedy
    assert finding.share > 0.1
    assert finding.frames[0].file == __file__


def test_the_gain_without_measured_roofs() -> None:
    """A sort takes longer than its accesses to memory, whose share is a few percent."""
    (finding,) = found(KIND, in_a_loop, ROWS)
    assert finding.gain_source.startswith("80 million comparisons per second")
    assert finding.gain_s == pytest.approx(64 * 4096 * 11 / 80e6)
    assert finding.share > 0.9


def test_a_proof_without_roofs_and_runs_has_no_verdict() -> None:
    proof = found(KIND, in_a_loop, ROWS)[0].prove(run=False)
    assert proof.verdict == "cannot be tried"
    assert "it saves time, which is unknown" in proof.reason
    assert "prove(run=True)" in proof.reason


def test_a_threshold_on_cpus() -> None:
    """XLA merges a slice with that of `top_k`, and selects values from the end only."""
    (finding,) = found(KIND, lambda x: jnp.where(x < jnp.sort(x)[:, ::-1][:, 49:50], 0.0, x), ROWS)
    assert finding.remedy == (
        "jax.lax.optimization_barrier(jax.lax.top_k(x, 50))[0]  # the barrier keeps XLA from merging the slice with top_k and sorting again"
    )
    sliced_too = jax.version.__version_info__[:2] > (0, 10)
    for keep, is_selected in ((jax.lax.optimization_barrier, True), (lambda top: top, sliced_too)):
        compiled = inspector.lower(lambda x, keep=keep: keep(jax.lax.top_k(x, 50))[0][:, 49:50], ROWS).compile(
            target="cpu"
        )
        assert ("TopK" in compiled.hlo) == is_selected


@needs_gpu
@pytest.mark.parametrize(("k", "is_selected"), [(16, True), (17, False)])
def test_gpus_select_up_to_16_values(k: int, is_selected: bool) -> None:
    compiled = inspector.lower(lambda x: jax.lax.top_k(x, k), ROWS).compile(target="gpu:h100")
    assert ("TopK" in compiled.hlo) == is_selected
    assert bool(all_found(KIND, lambda x: jnp.sort(x)[:, -k:], ROWS, target="gpu:h100")) == is_selected


@needs_gpu
@pytest.mark.parametrize(
    ("fun", "remedy"),
    [
        (lambda x: jnp.argsort(-x)[:, :20], "values, positions = jax.lax.top_k(x, 20)  # x without its negation"),
        (lambda x: jnp.argsort(x)[:, ::-1][:, :20], "values, positions = jax.lax.top_k(x, 20)"),
        (lambda x: jnp.argsort(x)[:, -20:], "values, positions = jax.lax.top_k(x, 20)"),
    ],
)
def test_more_values_without_the_positions_that_a_gpu_reads(fun: Any, remedy: str) -> None:
    compiled = inspector.lower(fun, jax.ShapeDtypeStruct((64, 1 << 16), jnp.float32)).compile(
        {"xla_gpu_enable_cub_radix_sort": False}, target="gpu:h100"
    )
    (finding,) = compiled.findings(kinds=[KIND])
    assert finding.remedy == remedy
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.01)
    assert finding.gain_bytes == pytest.approx(proof.gain_bytes, rel=0.01)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.sort(x)[..., -5:],
        lambda x: jnp.argsort(-x)[..., :5],
        lambda x: jnp.argsort(x)[:, 1:17],
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                lambda x: jnp.argsort(x)[..., -5:],
                lambda x: jnp.argsort(x, descending=True)[..., :5],
                lambda x: jax.lax.sort_key_val(x, jax.lax.broadcasted_iota(jnp.int32, x.shape, 1))[1][:, :5],
                lambda x: jnp.sort(x, axis=0)[:8],
                lambda x: jnp.sort(x)[:, ::-1][:, 40:50],
                in_a_loop,
            )
        ),
    ],
)
def test_the_proof_has_the_same_results(fun: Any) -> None:
    (finding,) = found(KIND, fun, jax.ShapeDtypeStruct((256, 4096), jnp.float32))
    proof = finding.prove()
    assert proof.verdict == "proven", proof
    assert proof.values == "equal results"
    assert proof.compiled is not None
    assert "TopK" in proof.compiled.hlo


def test_a_sort_with_other_values_is_not_changed() -> None:
    def picked(x: Any, y: Any) -> Any:
        return jax.lax.sort((x, y), num_keys=1)[1][:, :4]

    (finding,) = found(KIND, picked, ROWS, ROWS)
    assert finding.remedy == "positions = jax.lax.top_k(-x, 4)[1]; other = jnp.take_along_axis(other, positions, -1)"
    assert isinstance(finding.edits, Unavailable)
    assert str(finding.prove()) == "cannot be tried: it sorts another array by these values, which needs a gather"


def test_a_sort_of_several_keys_is_needed() -> None:
    def picked(x: Any, y: Any) -> Any:
        return jax.lax.sort((x, y), num_keys=2)[0][:, :4]

    assert not all_found(KIND, picked, ROWS, ROWS)
    assert not all_found(KIND, lambda x, y: jnp.lexsort((x, y))[:4], LINE, LINE)


def both(x: Any) -> Any:
    ordered = jnp.sort(x)
    return ordered[:3], ordered.sum()


def twice(x: Any) -> Any:
    return jnp.sort(x)[:3], jnp.sort(x)


@pytest.mark.parametrize(
    "fun",
    [
        jnp.sort,
        lambda x: jnp.sort(x)[2048],  # a median
        lambda x: jnp.sort(x)[:2000],
        lambda x: jax.lax.top_k(x, 5),
        lambda x: (jnp.sort(x)[:3], jnp.sort(x)[-3:]),  # both ends
        both,
        twice,
        lambda x: jnp.sort(x[:16])[:2],  # short
        lambda x: jnp.sort(x.astype(jnp.int32))[:3],  # of which XLA's top_k sorts pairs
        lambda x: jnp.sort(x.astype(jnp.bfloat16))[:3],
    ],
)
def test_sorts_that_are_needed(fun: Any) -> None:
    assert not all_found(KIND, fun, LINE)


@pytest.mark.slow
@needs_tpu
def test_only_memory_proves_a_sort_on_a_tpu() -> None:
    """The proof selects the values, and has no sort."""
    (finding,) = found(KIND, lambda x: jnp.sort(jnp.sin(x), descending=True)[:, :8] + 1, ROWS, target="tpu:v5e:1x1")
    assert "libtpu does not estimate sorts" in finding.caution
    assert finding.byte_share > 0.01
    proof = finding.prove()
    assert str(proof) == f"proven: {format_bytes(proof.gain_bytes)} less memory"
    assert isinstance(proof.gain_s, Unavailable)
    assert proof.compiled is not None
    assert not proof.compiled.module().columns.rows_of("sort".__eq__)


@needs_tpu
@pytest.mark.slow
def test_no_estimate_proves_the_time_of_a_sort_on_a_tpu() -> None:
    def fun(x: jax.Array, y: jax.Array) -> Any:
        return jnp.sort(x, descending=True)[:, :8], (y @ y).sum()

    large = jax.ShapeDtypeStruct((8192, 8192), jnp.float32)
    (finding,) = all_found(KIND, fun, ROWS, large, target="tpu:v5e:1x1")
    assert finding.byte_share < 0.01
    proof = finding.prove()
    assert (proof.verdict, proof.compiled) == ("cannot be tried", None)
    assert proof.reason.startswith("libtpu does not estimate the time of sorts")
