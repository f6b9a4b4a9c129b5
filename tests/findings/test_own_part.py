"""Collectives in a `shard_map` of which each device takes its own part again, and similar programs that need them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import all_found, peak
from tests.findings.sharded import DM, D, Program, array, manual, mesh_of

KIND = "resharding"
CUBE = mesh_of((2, 2, 2), ("a", "b", "c"))
X, W = array((8 * 1024, 512), "d"), array((512, 512))


def own(whole: jax.Array, axis: str, count: int, dimension: int = 0) -> jax.Array:
    size = whole.shape[dimension] // count
    return lax.dynamic_slice_in_dim(whole, lax.axis_index(axis) * size, size, dimension)


def gathered_rows(x: Any, w: Any) -> Any:
    """A helper gathers, another one splits again."""
    return jnp.cos(own(lax.all_gather(jax.nn.relu(x @ w), "d", tiled=True), "d", 8))


def gathered_blocks(x: Any, w: Any) -> Any:
    return jnp.cos(lax.all_gather(jax.nn.relu(x @ w), "d")[lax.axis_index("d")])


def without(x: Any, w: Any) -> Any:
    return jnp.cos(jax.nn.relu(x @ w))


def gathered_in_two_groups(x: Any, w: Any) -> Any:
    return own(lax.all_gather(jnp.tanh(x @ w), "d", axis=1, tiled=True), "d", 4, 1) * 2


def neighbor(x: Any, w: Any) -> Any:
    y = lax.all_gather(jnp.tanh(x @ w), "d", tiled=True)
    return lax.dynamic_slice_in_dim(y, (lax.axis_index("d") + 1) % 8 * 1024, 1024)


def also_used_whole(x: Any, w: Any) -> Any:
    y = lax.all_gather(jnp.tanh(x @ w), "d", tiled=True)
    return own(y, "d", 8) - y.mean(0)


def half_of_it(x: Any, w: Any) -> Any:
    return own(lax.all_gather(jnp.tanh(x @ w), "d", tiled=True), "d", 16)


def of_another_axis(x: Any, w: Any) -> Any:
    return own(lax.all_gather(jnp.tanh(x @ w), "a", tiled=True), "b", 2)


def columns_of_gathered_rows(x: Any, w: Any) -> Any:
    return own(lax.all_gather(jnp.tanh(x @ w), "d", tiled=True), "d", 8, 1)


def exchanged_columns(x: Any, w: Any) -> Any:
    return lax.all_to_all(jnp.tanh(x @ w), "d", 1, 0, tiled=True)


def columns_that_are_computed(x: Any, w: Any) -> Any:
    return own(jnp.sin(lax.all_gather(jnp.tanh(x @ w), "d", tiled=True)) * 2, "d", 8, 1)


def columns_of_a_stack(x: Any, w: Any) -> Any:
    return own(lax.all_gather(jnp.tanh(x @ w).reshape(64, 16, 512), "d", axis=1, tiled=True), "d", 8, 2)


def columns_of_another_device(x: Any, w: Any) -> Any:
    y = lax.all_gather(jnp.tanh(x @ w), "d", tiled=True)
    return lax.dynamic_slice_in_dim(y, (lax.axis_index("d") + 1) % 8 * 64, 64, 1)


def largest(x: Any, w: Any) -> Any:
    return own(lax.pmax(jnp.tanh(x @ w), "d"), "d", 8)


def summed(x: Any, w: Any) -> Any:
    return own(lax.psum(jnp.tanh(x @ w), "d"), "d", 8, 1)


def scattered(x: Any, w: Any) -> Any:
    return lax.psum_scatter(jnp.tanh(x @ w), "d", scatter_dimension=1, tiled=True)


def by_rows(fun: Any, mesh: Any = D, axis: str = "d") -> Program:
    return manual(fun, (P(axis), P()), P(axis), mesh), (
        array((8 * 1024, 512), axis, mesh=mesh),
        array((512, 512), mesh=mesh),
    )


@needs_gpu
@pytest.mark.parametrize("fun", [gathered_rows, gathered_blocks])
def test_the_gain_is_that_of_the_program_with_the_local_value(fun: Any) -> None:
    programs = [inspector.lower(by_rows(each)[0], X, W).compile(target="gpu:h100:8") for each in (fun, without)]
    (finding,) = programs[0].findings(kinds=[KIND])
    assert "The `all_gather` at test_own_part.py:" in finding.title
    assert finding.title.endswith("each device then only takes its own part again.")
    before_s, after_s = (each.roofline().total.least_s for each in programs)
    assert finding.gain_s == pytest.approx(before_s - after_s, rel=0.1)


@needs_gpu
@needs_tpu
@pytest.mark.parametrize("target", ["gpu:h100:8", "tpu:v5e:2x4"])
def test_a_part_along_another_dimension_is_exchanged(target: str) -> None:
    before, after = (
        inspector.lower(by_rows(each)[0], X, W).compile(target=target)
        for each in (columns_of_gathered_rows, exchanged_columns)
    )
    (finding,) = before.findings(kinds=[KIND])
    assert finding.title.endswith("takes its own part along dimension 1: one `all_to_all` does the same.")
    assert finding.remedy.startswith("jax.lax.all_to_all(x, axis, split_axis=1, concat_axis=0, tiled=True)")
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.25)
    assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.02)


@pytest.mark.parametrize("fun", [columns_of_gathered_rows, columns_that_are_computed, columns_of_a_stack])
def test_exchanged_parts_are_the_same(fun: Any) -> None:
    (finding,) = all_found(KIND, by_rows(fun)[0], X, W, target="cpu:8", roofs=peak("gpu:h100:8"))
    proof = finding.prove(run=True)
    assert proof.values == "equal results"
    assert proof.compiled is not None
    assert "all-to-all" in proof.compiled.hlo


def test_a_gather_in_groups() -> None:
    """The devices of a group are not next to each other."""
    fun = manual(gathered_in_two_groups, (P("m"), P(None, "d")), P("m", "d"), DM)
    args = array((1024, 512), "m", mesh=DM), array((512, 512), None, "d", mesh=DM)
    (finding,) = all_found(KIND, fun, *args, target="cpu:8")
    assert finding.share > 0.1


@pytest.mark.parametrize(
    "program",
    [
        *map(by_rows, (neighbor, also_used_whole, half_of_it, largest, columns_of_another_device)),
        by_rows(of_another_axis, CUBE, "a"),
    ],
)
def test_silent_if_a_device_needs_another_part(program: Program) -> None:
    assert not all_found(KIND, program[0], *program[1], target="cpu:8", roofs=peak("gpu:h100:8"))


def moved_sum(x: Any, w: Any) -> Any:
    """The part is along another dimension after the sum is transposed."""
    return own(lax.psum(jnp.tanh(x @ w), "d").T, "d", 8)


def row_of_a_sum(x: Any, w: Any) -> Any:
    return own(lax.psum(jnp.tanh(x @ w), "d").sum(0), "d", 8)[None]


@pytest.mark.parametrize("fun", [moved_sum, row_of_a_sum])
def test_a_part_that_is_taken_after_moves(fun: Any) -> None:
    (finding,) = all_found(KIND, *(by_rows(fun)[0], X, W), target="cpu:8")
    assert finding.remedy.startswith("jax.lax.psum_scatter(x, axis, scatter_dimension=1, tiled=True)")
    assert finding.prove(run=True).values in ("equal results", "results agree within 1e-04")


def test_a_sum_of_which_each_device_takes_a_part() -> None:
    (finding,) = all_found(KIND, *(by_rows(summed)[0], X, W), target="cpu:8")
    assert "The `psum` at test_own_part.py:" in finding.title
    assert finding.remedy.startswith("jax.lax.psum_scatter(x, axis, scatter_dimension=1, tiled=True)")


@needs_tpu
@pytest.mark.slow
def test_the_gain_of_a_scattered_sum() -> None:
    """libtpu chooses another algorithm for it, which takes 12 % less than the one for the sum."""
    programs = [inspector.lower(by_rows(each)[0], X, W).compile(target="tpu:v5e:2x4") for each in (summed, scattered)]
    findings = programs[0].findings(kinds=[KIND])
    saved_s = float.__sub__(*(float(each.roofline().total.least_s) for each in programs))
    assert sum(each.gain_s for each in findings) == pytest.approx(saved_s, rel=0.12)


def normalized(x: Any, w: Any) -> Any:
    """Each row alone, in functions and with constants."""
    whole = lax.all_gather(x, "d", tiled=True)
    y = (whole - whole.mean(-1, keepdims=True)) / jnp.sqrt(whole.var(-1, keepdims=True) + 1e-5) * w[0]
    return own(jax.nn.silu(y), "d", 8)


def multiplied(x: Any, w: Any) -> Any:
    return own(jnp.tanh(lax.all_gather(x, "d", tiled=True) @ w), "d", 8)


def split_into_heads(x: Any, w: Any) -> Any:
    heads = lax.all_gather(x, "d", tiled=True).reshape(8 * 1024, 8, 64).transpose(1, 0, 2)
    return own(jax.nn.softmax(heads), "d", 8, 1).transpose(1, 0, 2).reshape(1024, 512) @ w


def with_positions(x: Any, w: Any) -> Any:
    """The other operand has all rows too."""
    return own(lax.all_gather(x, "d", tiled=True) * jnp.arange(8 * 1024.0)[:, None], "d", 8)


def with_computed_rows(x: Any, w: Any) -> Any:
    rows = jnp.cumsum(jnp.tile(w, (16, 1)), 0)
    return own(lax.all_gather(x, "d", tiled=True) * rows, "d", 8)


def mean_of_all_rows(x: Any, w: Any) -> Any:
    whole = lax.all_gather(x, "d", tiled=True)
    return own(whole - whole.mean(0), "d", 8)


def sums_of_all_rows(x: Any, w: Any) -> Any:
    return own(jnp.cumsum(lax.all_gather(x, "d", tiled=True), 0), "d", 8)


def attention_over_all_rows(x: Any, w: Any) -> Any:
    whole = lax.all_gather(x, "d", tiled=True)
    return own(jax.nn.softmax(whole @ whole.T) @ whole, "d", 8)


@pytest.mark.parametrize("fun", [normalized, multiplied, split_into_heads])
def test_the_own_part_of_what_is_computed_for_each_row(fun: Any) -> None:
    (finding,) = all_found(KIND, by_rows(fun)[0], X, W, target="cpu:8", roofs=peak("gpu:h100:8"))
    assert finding.title.endswith("computes each row independently, and each device then keeps only its own part.")
    proof = finding.prove(run=True)
    assert str(proof.values).startswith(("equal results", "results agree"))
    assert proof.compiled is not None
    assert not [*proof.compiled.module().columns.rows_of("all-gather".__eq__)]


def test_positions_of_rows_begin_at_the_own_part() -> None:
    (finding,) = all_found(KIND, by_rows(with_positions)[0], X, W, target="cpu:8", roofs=peak("gpu:h100:8"))
    assert finding.prove(run=True).values == "equal results"


def test_rows_of_another_array_are_not_taken_automatically() -> None:
    (finding,) = all_found(KIND, by_rows(with_computed_rows)[0], X, W, target="cpu:8", roofs=peak("gpu:h100:8"))
    assert finding.prove(run=False).verdict == "cannot be tried"


@pytest.mark.parametrize("fun", [mean_of_all_rows, sums_of_all_rows, attention_over_all_rows])
def test_silent_if_a_row_depends_on_others(fun: Any) -> None:
    assert not all_found(KIND, by_rows(fun)[0], X, W, target="cpu:8", roofs=peak("gpu:h100:8"))


@needs_gpu
def test_the_gain_of_layers_that_gather_for_each_row() -> None:
    def layers(x: Any, ws: Any) -> Any:
        for w in ws:
            x = x + normalized(x, w) @ w
        return x

    def by_hand(x: Any, ws: Any) -> Any:
        for w in ws:
            y = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * w[0]
            x = x + jax.nn.silu(y) @ w
        return x

    before, after = (
        inspector.lower(manual(fun, (P("d"), P()), P("d")), X, [W, W]).compile(target="gpu:h100:8")
        for fun in (layers, by_hand)
    )
    (finding,) = before.findings(kinds=[KIND])
    assert " (2 times) gathers f32[1024, 512] of each device" in finding.title
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.prove().gain_s == pytest.approx(saved_s, rel=0.01)
    assert finding.gain_s == pytest.approx(saved_s, rel=0.15)


def gated_many_times(x: Any, w: Any) -> Any:
    y = lax.all_gather(x, "d", tiled=True)
    for _ in range(30):
        y = y * jax.nn.sigmoid(y)
    return own(y, "d", 8)


def test_values_that_are_used_twice_are_followed_once() -> None:
    assert all_found(KIND, by_rows(gated_many_times)[0], X, W, target="cpu:8", roofs=peak("gpu:h100:8"))


@needs_gpu
def test_other_operations_of_the_same_name_save_nothing() -> None:
    """All products of a function have one name."""

    def with_others(x: Any, w: Any) -> Any:
        whole = lax.all_gather(x, "d", tiled=True)
        y = own(whole * jnp.square(whole), "d", 8)
        return jnp.sort(y * x, axis=-1) * jnp.cumsum(x * w[0], -1)

    compiled = inspector.lower(by_rows(with_others)[0], X, W).compile(target="gpu:h100:8")
    (finding,) = compiled.findings(kinds=[KIND])
    assert finding.gain_s == pytest.approx(finding.prove().gain_s, rel=0.2)


def averaged(ws: Any, x: Any) -> Any:
    """As of a sharded optimizer, with a loss that all devices need. Switches add up for groups of all eight GPUs as fast as a part."""
    loss, gradients = jax.value_and_grad(lambda ws: ((x @ ws["a"]) @ ws["b"]).var())(ws)
    return lax.pmean(loss, "m"), [own(lax.pmean(g, "m"), "m", 2) * 0.1 for g in gradients.values()]


def scattered_averages(ws: Any, x: Any) -> Any:
    loss, gradients = jax.value_and_grad(lambda ws: ((x @ ws["a"]) @ ws["b"]).var())(ws)
    parts = [lax.psum_scatter(g, "m", scatter_dimension=0, tiled=True) / 2 * 0.1 for g in gradients.values()]
    return lax.pmean(loss, "m"), parts


GRADIENTS = {"a": array((512, 512), mesh=DM), "b": array((512, 1024), mesh=DM)}
ROWS = array((1024, 512), "m", mesh=DM)


def of_gradients(fun: Any) -> Any:
    return manual(fun, (P(), P("m")), (P(), P("m")), DM)


@needs_gpu
def test_averages_that_xla_combined() -> None:
    before, after = (
        inspector.lower(of_gradients(fun), GRADIENTS, ROWS).compile(target="gpu:h100:8")
        for fun in (averaged, scattered_averages)
    )
    (finding,) = before.findings(kinds=[KIND])
    assert " adds up 2 arrays of each device, and each device then only takes its own part" in finding.title
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.prove().gain_s == pytest.approx(saved_s, rel=0.02)
    assert finding.gain_s == pytest.approx(saved_s, rel=0.3)


def test_scattered_averages_are_the_same() -> None:
    found = all_found(KIND, of_gradients(averaged), GRADIENTS, ROWS, target="cpu:8", roofs=peak("gpu:h100:8"))
    for finding in found:
        proof = finding.prove(run=True)
        assert str(proof.values).startswith(("equal results", "results agree"))
        assert proof.compiled is not None
        assert [*proof.compiled.module().columns.rows_of("reduce-scatter".__eq__)]
    assert found
