"""Gathered arrays that everything reduces along the gathered dimension, and those that are needed as a whole."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from tests.absent import needs_gpu
from tests.findings.examined import all_found, peak
from tests.findings.sharded import DM, Program, array, manual

KIND = "resharding"
LOGITS = array((2048, 4096), "d", "m", mesh=DM)
LABELS = array((2048,), "d", mesh=DM, dtype=jnp.int32)
RELATED = ("equal results", "results agree within 1e-04")


def of_logits(fun: Any) -> Program:
    """Returns a program with two devices for the columns."""
    return manual(fun, (P("d", "m"), P("d")), P("d"), DM), (LOGITS, LABELS)


def gathered(x: Any) -> Any:
    return lax.all_gather(x, "m", axis=1, tiled=True)


def cross_entropy(x: Any, labels: Any) -> Any:
    whole = gathered(x)
    return jax.nn.logsumexp(whole, -1) - jnp.take_along_axis(whole, labels[:, None] % 4096, -1)[:, 0]


def cross_entropy_with_a_mask(x: Any, labels: Any) -> Any:
    whole = gathered(x).astype(jnp.float32)
    picked = jnp.where(jnp.arange(4096) == labels[:, None] % 4096, whole, 0).sum(-1)
    return jax.nn.logsumexp(whole, -1) - picked


def variance_of_columns(x: Any, labels: Any) -> Any:
    return jnp.sqrt(gathered(x).var(-1)) + labels


def largest_product(x: Any, labels: Any) -> Any:
    return (jnp.abs(gathered(x)) * jnp.arange(4096.0)).max(-1) + labels


def average_by_hand(x: Any, labels: Any) -> Any:
    return lax.all_gather(x, "d").mean(0) + labels[:, None]


def margin(x: Any, labels: Any) -> Any:
    """The picked values are negative, and no reduction adds."""
    whole = gathered(-jnp.abs(x) - 1)
    return whole.max(-1) - jnp.take_along_axis(whole, labels[:, None] % 4096, -1)[:, 0]


def cross_entropy_of_rounded_logits(x: Any, labels: Any) -> Any:
    """The picked values have another type than the sums, and some labels are out of bounds."""
    whole = gathered(x)
    picked = jnp.take_along_axis(whole.astype(jnp.bfloat16), labels[:, None] % 5000, -1, mode="clip")[:, 0]
    return jax.nn.logsumexp(whole, -1) - picked.astype(jnp.float32)


FOUND = [
    margin,
    cross_entropy_of_rounded_logits,
    cross_entropy,
    cross_entropy_with_a_mask,
    variance_of_columns,
    largest_product,
    average_by_hand,
]


@pytest.mark.parametrize(
    "fun",
    [
        each if each in (cross_entropy, largest_product) else pytest.param(each, marks=pytest.mark.slow)
        for each in FOUND
    ],
)
def test_the_parts_can_be_reduced_first(fun: Any) -> None:
    program, args = of_logits(fun)
    (finding,) = all_found(KIND, program, *args, target="cpu:8", roofs=peak("gpu:h100:8"))
    assert "The `all_gather` at test_gathered_reductions.py:" in finding.title
    assert "and everything that uses it reduces it along the gathered dimension:" in finding.title
    proof = finding.prove(run=True)
    assert proof.values in RELATED
    assert proof.compiled is not None
    assert not [*proof.compiled.module().columns.rows_of("all-gather".__eq__)]


def test_the_remedies() -> None:
    remedies = []
    for fun in (cross_entropy, largest_product, average_by_hand):
        program, args = of_logits(fun)
        (finding,) = all_found(KIND, program, *args, target="cpu:8", roofs=peak("gpu:h100:8"))
        remedies.append(finding.remedy)
    assert remedies[0].startswith("m = jax.lax.pmax(x.max(dim), axis)\njnp.log(jax.lax.psum(jnp.exp(x - ")
    assert remedies[0].endswith("\njax.lax.psum(jnp.where(is_own, picked, 0), axis)")
    assert remedies[1] == "jax.lax.pmax(x.max(dim), axis)  # x is the device's part"
    assert remedies[2] == "jax.lax.psum(x, axis)  # pmean for a mean"


def also_returned(x: Any, labels: Any) -> Any:
    whole = gathered(x)
    return whole.sum(-1) + labels, whole


def softmax(x: Any, labels: Any) -> Any:
    return jax.nn.softmax(gathered(x)) * labels[:, None]


def sum_over_the_other_dimension(x: Any, labels: Any) -> Any:
    return gathered(x).sum(0) + labels.sum()


def attention(x: Any, labels: Any) -> Any:
    keys = lax.all_gather(x, "m", axis=0, tiled=True)
    return jax.nn.softmax(x @ keys.T) @ keys + labels[:, None]


def picked_rows(x: Any, labels: Any) -> Any:
    """Each row is picked from, and all rows are kept."""
    whole = lax.all_gather(x, "d", tiled=True)
    return whole.mean(0), jnp.take_along_axis(whole, jnp.zeros((2048, 1), jnp.int32), 1)


def other_parts_after_an_exchange(x: Any, labels: Any) -> Any:
    scale = lax.psum_scatter(jnp.ones((8192,)), "m", tiled=True)
    return (gathered(x) * jnp.cumsum(scale)).sum(-1) + labels


def median(x: Any, labels: Any) -> Any:
    return jnp.median(gathered(x), axis=-1) + labels


def other_rows_on_each_device(x: Any, labels: Any) -> Any:
    """The devices along an axis have different examples, so that they cannot reduce each other's parts."""
    whole = lax.all_gather(x, "d", axis=1, tiled=True)
    return jax.nn.logsumexp(whole * labels[:, None], -1)


def other_positions_on_each_device(x: Any, labels: Any) -> Any:
    whole = gathered(x)
    return jnp.where(jnp.arange(4096) <= lax.axis_index("m") * 100, whole, 0).sum(-1) + labels


def rows_of_an_embedding(x: Any, labels: Any) -> Any:
    """Each device looks up its own examples."""
    whole = lax.all_gather(x, "d", tiled=True)
    return (whole[labels % 4096] @ whole.T).max(-1)


@pytest.mark.parametrize(
    "fun",
    [
        other_rows_on_each_device,
        other_positions_on_each_device,
        rows_of_an_embedding,
        picked_rows,
        other_parts_after_an_exchange,
        also_returned,
        softmax,
        sum_over_the_other_dimension,
        attention,
        median,
    ],
)
def test_silent_if_something_needs_the_whole_array(fun: Any) -> None:
    program, args = of_logits(fun)
    assert not all_found(KIND, program, *args, target="cpu:8", roofs=peak("gpu:h100:8"))


def loss(w: Any, x: Any, labels: Any, is_whole: bool = True) -> Any:
    """The logits of a vocabulary in parts, which a constraint makes whole."""
    logits = x @ w
    if is_whole:
        logits = lax.with_sharding_constraint(logits, NamedSharding(DM, P("d", None)))
    picked = jnp.take_along_axis(logits, labels[:, None] % 4096, -1)[:, 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def training(is_whole: bool) -> Program:
    args = array((256, 4096), None, "m", mesh=DM), array((2048, 256), "d", mesh=DM), LABELS
    return jax.value_and_grad(lambda w, x, labels: loss(w, x, labels, is_whole)), args


@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("is_proven", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_constraint_in_front_of_a_loss(has_gradient: bool, is_proven: bool) -> None:
    fun, args = training(is_whole=True)
    fun = fun if has_gradient else loss
    (finding,) = all_found(KIND, fun, *args, target="cpu:8", roofs=peak("gpu:h100:8"))
    assert finding.title.startswith("The sharding constraint at ")
    assert "test_gathered_reductions.py:" in finding.remedy
    if is_proven:
        assert finding.prove(run=True).values in RELATED


def test_a_gathered_weight_is_not_the_constraint() -> None:
    """FSDP: the dimension that is gathered is that which the product adds up."""
    args = array((256, 4096), "d", None, mesh=DM), array((2048, 256), "d", mesh=DM), LABELS
    assert not all_found(KIND, loss, *args, target="cpu:8", roofs=peak("gpu:h100:8"))


@needs_gpu
def test_gathers_that_xla_combined() -> None:
    """The gradients of several weights, each gathered and averaged."""

    def step(fun: Any) -> inspector.Compiled:
        def averaged(ws: Any, x: Any) -> Any:
            return [fun(g) for g in jax.grad(lambda ws: jnp.tanh(x @ ws[0] @ ws[1]).var())(ws)]

        args = [array((512, 512), mesh=DM), array((512, 1024), mesh=DM)], array((4096, 512), "d", mesh=DM)
        return inspector.lower(manual(averaged, (P(), P("d")), P(), DM), *args).compile(target="gpu:h100:8")

    before, after = step(lambda g: lax.all_gather(g, "d").mean(0)), step(lambda g: lax.pmean(g, "d"))
    (finding,) = before.findings(kinds=[KIND])
    assert "The `all_gather` at test_gathered_reductions.py:" in finding.title
    assert " (2 times) gathers f32[4, 512, 1024]" in finding.title
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.prove().gain_s == pytest.approx(saved_s, rel=0.02)
    assert finding.gain_s == pytest.approx(saved_s, rel=0.3)


@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("fun", [cross_entropy, average_by_hand])
def test_the_gain_is_that_by_hand(fun: Any) -> None:
    def in_parts(x: Any, labels: Any) -> Any:
        if fun is average_by_hand:
            return lax.pmean(x, "d") + labels[:, None]
        m = lax.pmax(x.max(-1), "m")
        sums = jnp.log(lax.psum(jnp.exp(x - m[:, None]).sum(-1), "m")) + m
        at = labels % 4096 - lax.axis_index("m") * x.shape[1]
        is_own = (at >= 0) & (at < x.shape[1])
        picked = jnp.take_along_axis(x, jnp.clip(at, 0, x.shape[1] - 1)[:, None], -1)[:, 0]
        return sums - lax.psum(jnp.where(is_own, picked, 0), "m")

    args = array((8192, 4096), "d", "m", mesh=DM), array((8192,), "d", mesh=DM, dtype=jnp.int32)
    before, after = (
        inspector.lower(of_logits(each)[0], *args).compile(target="gpu:h100:8") for each in (fun, in_parts)
    )
    (finding,) = before.findings(kinds=[KIND])
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.3)
    assert finding.prove().gain_s == pytest.approx(saved_s, rel=0.05)
