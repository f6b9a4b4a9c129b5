"""All-reduces in a loop that only accumulates or stacks their results, and those that the loop needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from tests.absent import needs_gpu, needs_tpu
from tests.findings.sharded import Program, array, manual

KIND = "small-collectives"
BATCHES = array((64, 256, 128), None, "d")


def of_batches(body: Callable[..., Any], initial: Any) -> Program:
    def evaluate(batches: Any) -> Any:
        return lax.scan(body, initial() if callable(initial) else initial, batches)

    return manual(evaluate, P(None, "d"), P()), (BATCHES,)


def largest(total: Any, batch: Any) -> Any:
    return jnp.maximum(total, lax.pmax(jnp.abs(batch).max(), "d")), None


def summed(total: Any, batch: Any) -> Any:
    return total + lax.psum((batch**2).sum(0), "d"), None


def stacked(total: Any, batch: Any) -> Any:
    return total + 1, lax.psum((batch**2).sum(), "d")


def normalized(total: Any, batch: Any) -> Any:
    """The body uses the sum."""
    mean = lax.psum(batch.mean(), "d")
    return total + mean, ((batch - mean) ** 2).sum()


def counted(total: Any, batch: Any) -> Any:
    """The total is read for something else."""
    total = total + lax.psum((batch**2).sum(), "d")
    return total, total / 2


def maximum_of_psum(total: Any, batch: Any) -> Any:
    return jnp.maximum(total, lax.psum(jnp.abs(batch).max(), "d")), None


CASES = [
    (largest, 0.0, "accumulates", "total = jax.lax.pmax(total, axes)"),
    (summed, lambda: jnp.zeros(128), "accumulates", "total = jax.lax.psum(total, axes)"),
    (stacked, 0, "stacks", "ys = jax.lax.psum(ys, axes)"),
]


def compiled(program: Program, target: str = "cpu:8") -> inspector.Compiled:
    fun, args = program
    return inspector.lower(fun, *args).compile(target=target)


@pytest.mark.parametrize(("body", "initial", "use", "remedy"), CASES)
def test_an_all_reduce_that_the_loop_does_not_need(body: Any, initial: Any, use: str, remedy: str) -> None:
    found = compiled(of_batches(body, initial)).findings(kinds=[KIND])
    (finding,) = [*found, *found.folded]
    assert finding.title.startswith("The all-reduce over d at test_deferred_collectives.py:")
    assert finding.title.endswith(
        f"runs 64 times, in a loop that only {use} the results: an all-reduce after the loop is enough."
    )
    assert finding.remedy.startswith(remedy)
    proof = finding.prove(run=True)
    assert proof.values in ("equal results", "results agree within 1e-04")
    assert proof.compiled is not None
    (left,) = proof.compiled.module().columns.rows_of("all-reduce".__eq__)
    assert proof.compiled.module().at(left).computation.is_entry


def test_a_sum_that_begins_with_something_else() -> None:
    """Each device would add the initial value."""
    found = compiled(of_batches(summed, lambda: jnp.ones(128))).findings(kinds=[KIND])
    (finding,) = [*found, *found.folded]
    assert "total must start at zero" in finding.remedy
    assert finding.prove().verdict == "cannot be tried"


@pytest.mark.parametrize(
    ("body", "initial"), [(normalized, 0.0), (counted, 0.0), (maximum_of_psum, 0.0)]
)  # fmt: skip
def test_an_all_reduce_that_the_loop_needs(body: Any, initial: Any) -> None:
    found = compiled(of_batches(body, initial)).findings(kinds=[KIND])
    assert not [*found, *found.folded]


@pytest.mark.parametrize(
    "target", [pytest.param("gpu:h100:8", marks=needs_gpu), pytest.param("tpu:v5e:2x4", marks=needs_tpu)]
)
def test_the_gain_of_a_maximum_is_that_by_hand(target: str) -> None:
    """XLA for TPUs and GPUs moves sums and stacked results behind the loop itself."""

    def after(batches: Any) -> Any:
        total, _ = lax.scan(lambda total, batch: (jnp.maximum(total, jnp.abs(batch).max()), None), 0.0, batches)
        return lax.pmax(total, "d"), None

    before, by_hand = (
        compiled(program, target)
        for program in (of_batches(largest, 0.0), (manual(after, P(None, "d"), P()), (BATCHES,)))
    )
    (finding,) = before.findings(kinds=[KIND])
    saved_s = before.roofline().total.least_s - by_hand.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)
    assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.02)


def into_another_array(batches: Any) -> Any:
    """Half of the slots keep their initial values, which an all-reduce after the loop would add up."""

    def body(i: Any, sums: Any) -> Any:
        return lax.dynamic_update_index_in_dim(sums, lax.psum((batches[i] ** 2).sum(), "d"), i, 0)

    return lax.fori_loop(0, 32, body, jnp.ones(64))


def test_an_array_that_the_loop_fills_in_part() -> None:
    found = compiled((manual(into_another_array, P(None, "d"), P()), (BATCHES,))).findings(kinds=[KIND])
    (finding,) = [*found, *found.folded]
    assert finding.prove().verdict == "cannot be tried"
