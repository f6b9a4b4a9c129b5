"""All-reduces in a loop that only accumulates or stacks their results, and those that the loop needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from tests.absent import needs_gpu, needs_tpu
from tests.findings.sharded import D, Program, array, manual

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


def accumulated(scale: Callable[[Any], Any]) -> Program:
    """The gradients of batches, each averaged over the devices before it is added."""

    def step(params: Any, batches: Any) -> Any:
        def of_batch(total: Any, x: Any) -> Any:
            g = jax.grad(lambda p: (jnp.tanh(x @ p["w"]) @ p["v"]).var())(params)
            return jax.tree.map(lambda total, g: total + scale(g), total, g), None

        return lax.scan(of_batch, jax.tree.map(jnp.zeros_like, params), batches)[0]

    params = {"w": array((256, 1024)), "v": array((1024, 256))}
    batches = array((8, 1024, 256), None, "d")
    return jax.shard_map(step, mesh=D, in_specs=(P(), P(None, "d")), out_specs=P(), check_vma=False), (params, batches)


@needs_gpu
def test_gradients_that_are_averaged_in_each_iteration() -> None:
    """XLA combines their all-reduces, and names the result after another operation."""
    fun, args = accumulated(lambda g: lax.pmean(g, "d"))
    compiled = inspector.lower(fun, *args).compile(target="gpu:h100:8")
    (finding,) = compiled.findings(kinds=[KIND])
    assert "(2 MiB per device) run" in finding.title
    assert "8 times, in a loop that only accumulates the results" in finding.title
    assert finding.share > 0.1
    proof = finding.prove()
    assert proof.verdict == "proven"
    fun, args = accumulated(lambda g: g)
    later = inspector.lower(lambda *args: jax.tree.map(lambda g: g / 8, fun(*args)), *args).compile(target="gpu:h100:8")
    before, after = (float(each.roofline().total.least_s) for each in (compiled, later))
    assert proof.gain_s < 1.1 * (before - after)


@pytest.mark.slow
def test_an_average_after_the_loop_has_the_same_values() -> None:
    fun, args = accumulated(lambda g: lax.pmean(g, "d"))
    found = inspector.lower(fun, *args).compile(target="cpu:8").findings(kinds=[KIND])
    (finding,) = [*found, *found.folded]
    assert finding.prove(run=True).values in ("equal results", "results agree within 1e-04")


@needs_gpu
def test_sums_that_depend_on_the_iteration_stay() -> None:
    fun, args = accumulated(lambda g: lax.psum(g, "d") * jnp.abs(g).max())
    compiled = inspector.lower(fun, *args).compile(target="gpu:h100:8")
    assert not [each for each in compiled.findings(kinds=[KIND]) if "in a loop that only" in each.title]


def averaged_in_bfloat16(params: Any, batches: Any) -> Any:
    """The gradients are averaged in the type of the parameters, with the loss, and accumulated in float32."""

    def step(total: Any, x: Any) -> Any:
        found = jax.value_and_grad(lambda params: ((x @ params["w"]) @ params["v"]).astype(jnp.float32).mean())(params)
        return jax.tree.map(lambda a, b: a + b.astype(jnp.float32), total, lax.pmean(found, "d")), None

    total = 0.0, jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
    return lax.scan(step, total, batches)[0]


def of_bfloat16() -> Program:
    w = array((128, 128), dtype=jnp.bfloat16)
    x = array((8, 64, 128), None, "d", dtype=jnp.bfloat16)
    return manual(averaged_in_bfloat16, (P(), P(None, "d")), P()), ({"w": w, "v": w}, x)


def test_sums_that_are_accumulated_in_a_wider_type() -> None:
    found = compiled(of_bfloat16()).findings(kinds=[KIND])
    (finding,) = [*found, *found.folded]
    assert "in a loop that only accumulates the results" in finding.title
    proof = finding.prove(run=True)
    assert str(proof.values).startswith("results agree") or proof.verdict == "different results"  # one is not rounded
    assert proof.compiled is not None
    module = proof.compiled.module()
    sums = [module.at(row) for row in module.columns.rows_of("all-reduce".__eq__)]
    assert sums
    assert all(each.computation.is_entry for each in sums)
    assert {leaf.element_type for each in sums for leaf in each.shape.leaves} == {"f32"}


@needs_gpu
def test_a_combined_sum_without_the_name_of_all_its_parts() -> None:
    """XLA for GPUs combines the gradients, under another name, and leaves the loss alone."""
    (finding,) = compiled(of_bfloat16(), "gpu:h100:8").findings(kinds=[KIND])
    assert finding.title.startswith("2 all-reduces over d")
    assert finding.prove().verdict == "proven"


def written_where(is_uniform: bool) -> Program:
    """The outputs of a pipeline, which begin after some iterations."""

    def run(batches: Any) -> Any:
        def tick(outs: Any, t: Any) -> Any:
            done = t - 7 if is_uniform else t - lax.axis_index("d")
            result = lax.psum(batches[t % 64].sum(0), "d")
            written = lax.dynamic_update_index_in_dim(outs, result, jnp.clip(done, 0, 31), 0)
            return jnp.where(done >= 0, written, outs), None

        return lax.scan(tick, jnp.zeros((32, 128)), jnp.arange(39))[0]

    return manual(run, P(None, "d"), P()), (BATCHES,)


def test_results_that_are_written_in_some_iterations() -> None:
    found = compiled(written_where(is_uniform=True)).findings(kinds=[KIND])
    (finding,) = [*found, *found.folded]
    assert "runs 39 times, in a loop that only stacks the results" in finding.title
    assert finding.prove(run=True).values in ("equal results", "results agree within 1e-04")


def test_results_that_each_device_writes_in_other_iterations() -> None:
    found = compiled(written_where(is_uniform=False)).findings(kinds=[KIND])
    assert not [*found, *found.folded]


def test_a_loop_in_a_function_that_is_called_twice() -> None:
    """The edit moves the sum of the function once."""

    def evaluate(a: Any) -> Any:
        total = jax.jit(lambda x: lax.scan(lambda t, b: (t + lax.psum((b * b).sum(), "d"), None), 0.0, x)[0])
        return total(a) + total(jnp.cos(a))

    found = compiled((manual(evaluate, P(None, "d"), P()), (BATCHES,))).findings(kinds=[KIND])
    for finding in (*found, *found.folded):
        assert finding.prove(run=True).values in ("equal results", "results agree within 1e-04")
    assert [*found, *found.folded]


def test_a_maximum_that_begins_with_a_value_of_each_device() -> None:
    def run(batches: Any) -> Any:
        start = batches.max()
        return lax.scan(lambda m, b: (jnp.maximum(m, lax.pmax(b.min(), "d")), None), start, batches)[0][None]

    found = compiled((manual(run, P(None, "d"), P("d")), (BATCHES,))).findings(kinds=[KIND])
    assert not [*found, *found.folded]
