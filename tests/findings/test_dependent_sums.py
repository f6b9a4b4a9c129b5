"""Variances that are added up after the mean, and sums that need each other."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import peak
from tests.findings.recorded import GPU, TPU
from tests.findings.sharded import array, manual

KIND = "small-collectives"
X = array((64, 32, 128), None, "d")
SQUARE = array((4, 128, 256), None, "d")


def two_sums(x: Any) -> Any:
    mean = lax.pmean(x.mean(0), "d")
    variance = lax.pmean(jnp.square(x - mean).mean(0), "d")
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def one_sum(x: Any) -> Any:
    mean, square = lax.pmean((x.mean(0), jnp.square(x).mean(0)), "d")
    return (x - mean) * lax.rsqrt(square - jnp.square(mean) + 1e-5)


def of_other_values(x: Any) -> Any:
    mean = lax.pmean(jnp.tanh(x).mean(0), "d")
    return (x - mean) * lax.pmean(jnp.square(x - mean).mean(0), "d")


def of_products(x: Any) -> Any:
    mean = lax.pmean(x.mean(0), "d")
    return x * lax.pmean((x * mean).mean(0), "d")


def of_absolute_differences(x: Any) -> Any:
    """Sums of powers do not replace these."""
    mean = lax.pmean(x.mean(0), "d")
    return x * lax.pmean(jnp.abs(x - mean).mean(0), "d")


def of_covariances(x: Any) -> Any:
    mean = lax.pmean(x.mean(0), "d")
    other = lax.pmean(jnp.sin(x).mean(0), "d")
    return x * lax.pmean(((x - mean) * (jnp.sin(x) - other)).mean(0), "d")


def of_cubes(x: Any) -> Any:
    mean = lax.pmean(x.mean(0), "d")
    return x * lax.pmean((jnp.square(x - mean) * (x - mean)).mean(0), "d")


def _in_layers(normalized: Any) -> Any:
    return manual(
        lambda x: lax.scan(lambda x, batch: (jnp.tanh(normalized(batch + x)), None), x[0], x)[0], P(None, "d"), P("d")
    )


def _found(compiled: inspector.Compiled) -> list[Finding]:
    findings = compiled.findings(kinds=[KIND])
    return [*findings, *findings.folded]


@pytest.mark.parametrize("target", [pytest.param(GPU, marks=needs_gpu), pytest.param(TPU, marks=needs_tpu)])
def test_a_variance_that_waits_for_the_mean(target: str) -> None:
    before, after = (inspector.lower(_in_layers(each), X).compile(target=target) for each in (two_sums, one_sum))
    (finding,) = _found(before)
    first, second = (two_sums.__code__.co_firstlineno + n for n in (1, 2))
    assert finding.title == (
        f"The all-reduce over d at test_dependent_sums.py:{second} (up to 512 B per device) waits for the mean of the same values at"
        f" test_dependent_sums.py:{first}: one all-reduce of their sums and of the sums of their squares is enough."
    )
    assert not _found(after)
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert 0.5 * saved_s < finding.gain_s < 1.2 * saved_s
    assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.02)


def scaled_by_hand(x: Any) -> Any:
    mean = lax.psum(x.sum(0), "d") / (8 * x.shape[0])
    variance = lax.psum(((x - mean) ** 2).sum(0) * 0.25, "d") * 0.5
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def with_kept_dimensions(x: Any) -> Any:
    mean = lax.pmean(x.mean(0, keepdims=True), "d")
    variance = lax.pmean(jnp.square(x - mean).mean(0, keepdims=True), "d")
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def normalize_with(x: Any, mean: Any) -> Any:
    return (x - mean) * lax.rsqrt(lax.pmean(jnp.square(x - mean).mean(0), "d") + 1e-5)


def in_a_function(x: Any) -> Any:
    return jax.jit(normalize_with)(x, lax.pmean(x.mean(0), "d"))


def kept_locally(x: Any) -> Any:
    """The sum of the squares on the device is used too."""
    mean = lax.pmean(x.mean(0), "d")
    local = jnp.square(x - mean).sum(0)
    return (x - mean) * lax.rsqrt(lax.psum(local, "d") / (8 * x.shape[0]) + 1e-5) + local


def of_other_dimensions(x: Any) -> Any:
    """The mean of each row, of which each column is subtracted."""
    x = x.reshape(-1, 16, 16)
    mean = lax.pmean(x.mean(1), "d")
    return ((x - mean[:, :, None]) * lax.pmean(jnp.square(x - mean[:, :, None]).mean(1, keepdims=True), "d")).reshape(
        -1, 256
    )


def mean_minus_values(x: Any) -> Any:
    mean = lax.pmean(x.mean(0), "d")
    return (x - mean) * lax.rsqrt(lax.pmean((jnp.square(mean - x) * 0.5).sum(0), "d") + 1e-5)


@pytest.mark.parametrize(
    "normalized", [two_sums, scaled_by_hand, with_kept_dimensions, in_a_function, mean_minus_values]
)
def test_the_changed_program_computes_the_same(normalized: Any) -> None:
    compiled = inspector.lower(_in_layers(normalized), X).compile(target="cpu:8")
    findings = compiled.findings(peak(GPU), kinds=[KIND])
    (finding,) = *findings, *findings.folded
    proof = finding.prove(run=True)
    assert proof.values in ("equal results", "results agree within 1e-04")
    assert proof.compiled is not None
    assert proof.compiled.hlo != compiled.hlo


@pytest.mark.parametrize("normalized", [kept_locally, of_other_dimensions])
def test_sums_that_the_edit_leaves_as_they_are(normalized: Any) -> None:
    compiled = inspector.lower(_in_layers(normalized), SQUARE).compile(target="cpu:8")
    findings = compiled.findings(peak(GPU), kinds=[KIND])
    for finding in (*findings, *findings.folded):
        assert finding.prove(run=True).verdict == "cannot be tried"


@pytest.mark.parametrize(
    "normalized", [one_sum, of_other_values, of_products, of_absolute_differences, of_covariances, of_cubes]
)
def test_sums_that_need_each_other(normalized: Any) -> None:
    assert not _found(inspector.lower(_in_layers(normalized), X).compile(target="cpu:8"))


def test_both_variances_are_the_same() -> None:
    x = np.random.default_rng(0).random((64, 8), np.float32)
    assert np.allclose(np.square(x).mean(0) - np.square(x.mean(0)), x.var(0), atol=1e-5)
