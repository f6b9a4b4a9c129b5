"""Gathers of whole fields of which each device only reads its neighbors' rows, and gathers that are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings.recorded import GPU, TPU
from tests.findings.rings import LEFT, RIGHT, N
from tests.findings.sharded import array, manual

KIND = "resharding"
FIELD = array((N * 256, 1024), "d")


def _rows(whole: Any, start: Any, count: int = 1) -> Any:
    return lax.dynamic_slice_in_dim(whole, start % whole.shape[0], count, 0)


def by_gather(x: Any, width: int = 1) -> Any:
    me, rows = lax.axis_index("d"), x.shape[0]
    whole = lax.all_gather(x, "d", tiled=True)
    return jnp.concatenate([_rows(whole, me * rows - width, width), x, _rows(whole, (me + 1) * rows, width)])


def by_permutes(x: Any) -> Any:
    above, below = lax.ppermute(x[-1:], "d", RIGHT), lax.ppermute(x[:1], "d", LEFT)
    return jnp.concatenate([above, x, below])


def _smoothed(halo: Callable[[Any], Any]) -> Any:
    def body(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            wide = halo(x)
            return (wide[:-2] + wide[2:] + wide[1:-1]) / 3, None

        return lax.scan(step, x, None, length=8)[0]

    return manual(body, P("d"), P("d"))


def _found(fun: Any, *args: Any, target: str = "cpu:8") -> list[Finding]:
    findings = inspector.lower(fun, *args).compile(target=target).findings(kinds=[KIND])
    return [*findings, *findings.folded]


@pytest.mark.parametrize("target", [pytest.param(GPU, marks=needs_gpu), pytest.param(TPU, marks=needs_tpu)])
def test_halos_of_a_gathered_field(target: str) -> None:
    before, after = (
        inspector.lower(_smoothed(halo), FIELD).compile(target=target) for halo in (by_gather, by_permutes)
    )
    (finding,) = before.findings(kinds=[KIND])
    assert finding.title.startswith("The `all_gather` at test_gathered_halos.py:")
    assert finding.title.endswith(
        "gathers f32[256, 1024] from each device, but each device only reads f32[1, 1024], f32[1, 1024] of the result."
    )
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.2)


@needs_gpu
def test_halos_of_several_fields() -> None:
    """One line gathers all of them."""

    def body(x: Any, y: Any) -> Any:
        def step(fields: Any, _: Any) -> Any:
            above, below = map(by_gather, fields)
            return (above[2:] + below[:-2], below[2:] - above[:-2]), None

        return lax.scan(step, (x, y), None, length=8)[0]

    fun = manual(body, (P("d"), P("d")), (P("d"), P("d")))
    (finding,) = inspector.lower(fun, FIELD, FIELD).compile(target=GPU).findings(kinds=[KIND])
    assert " (2 times) gathers f32[256, 1024] from each device, but" in finding.title
    assert finding.share > 0.3


def test_both_halos_have_the_same_values() -> None:
    x = jnp.arange(N * 4.0 * 3).reshape(N * 4, 3)
    mesh = jax.make_mesh((N,), ("d",), axis_types=(jax.sharding.AxisType.Auto,)) if len(jax.devices()) >= N else None
    if mesh is None:
        pytest.skip("one device")
    both = [
        jax.jit(jax.shard_map(halo, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False))(x)
        for halo in (by_gather, by_permutes)
    ]
    assert (both[0] == both[1]).all()


def _looked_up(x: Any, numbers: Any) -> Any:
    """The rows follow from data."""
    return _rows(lax.all_gather(x, "d", tiled=True), numbers[0])


@pytest.mark.parametrize(
    "body",
    [
        lambda x, numbers: by_gather(x, 64),
        lambda x, numbers: jnp.sort(lax.all_gather(x, "d", tiled=True), 0)[:1] + by_gather(x),
        lambda x, numbers: _rows(lax.all_gather(x, "d", tiled=True), 5),
        _looked_up,
    ],
)
def test_gathers_that_are_needed(body: Any) -> None:
    assert not _found(manual(body, (P("d"), P()), P("d")), FIELD, array((1,), dtype=jnp.int32))
