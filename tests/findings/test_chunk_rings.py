"""Rings over the chunks of an array, as of a ring all-reduce, and rings whose chunks take part in other work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.stages.findings import Finding
from tests.absent import needs_gpu
from tests.findings.examined import all_found, peak
from tests.findings.recorded import GPU
from tests.findings.rings import RIGHT, N
from tests.findings.sharded import array, manual

X, W = array((N * 512, 512)), array((512, 512))


def _sent(chunk: Any) -> Any:
    return lax.ppermute(chunk, "d", RIGHT)


def _chunk(whole: Any, number: Any) -> Any:
    return lax.dynamic_index_in_dim(whole, number % N, 0, keepdims=False)


def _set(whole: Any, chunk: Any, number: Any) -> Any:
    return lax.dynamic_update_index_in_dim(whole, chunk, number % N, 0)


def _repeated(in_a_loop: bool, step: Callable[[Any, Any], Any], carry: Any, steps: int = N - 1) -> Any:
    if in_a_loop:
        return lax.fori_loop(0, steps, step, carry)
    for i in range(steps):
        carry = step(i, carry)
    return carry


def _adding(chunks: Any, in_a_loop: bool, steps: int = N - 1) -> Any:
    me = lax.axis_index("d")

    def add(i: Any, c: Any) -> Any:
        return _set(c, _chunk(c, me - i - 1) + _sent(_chunk(c, me - i)), me - i - 1)

    return _repeated(in_a_loop, add, chunks, steps)


def _passing_on(chunks: Any, in_a_loop: bool) -> Any:
    me = lax.axis_index("d")
    return _repeated(in_a_loop, lambda i, c: _set(c, _sent(_chunk(c, me + 1 - i)), me - i), chunks)


def all_reduce_in_loops(x: Any) -> Any:
    return _passing_on(_adding(x.reshape(N, -1), True), True).reshape(x.shape)


def unrolled_all_reduce(x: Any) -> Any:
    return _passing_on(_adding(x.reshape(N, -1), False), False).reshape(x.shape)


def all_reduce_by_index(x: Any) -> Any:
    """With `at[...]`: scatters at first, which add or set."""
    me, chunks = lax.axis_index("d"), x.reshape(N, -1)
    for i in range(N - 1):
        chunks = chunks.at[(me - i - 1) % N].add(_sent(chunks[(me - i) % N]))
    for i in range(N - 1):
        chunks = chunks.at[(me - i) % N].set(_sent(chunks[(me + 1 - i) % N]))
    return chunks.reshape(x.shape)


def _sum_that_goes_round(x: Any, in_a_loop: bool) -> Any:
    me, chunks = lax.axis_index("d"), x.reshape(N, -1)
    return _repeated(in_a_loop, lambda i, total: _sent(total) + _chunk(chunks, me - i - 2), _chunk(chunks, me - 1))


def sum_of_own_chunk(x: Any) -> Any:
    return _sum_that_goes_round(x, in_a_loop=True)


def unrolled_sum_of_own_chunk(x: Any) -> Any:
    return _sum_that_goes_round(x, in_a_loop=False)


def sums_of_chunks(x: Any) -> Any:
    return _chunk(_adding(x.reshape(N, -1), True), lax.axis_index("d") + 1)


def _own(x: Any) -> Any:
    """Returns an array of which this device has one chunk."""
    return _set(jnp.zeros((N, x.size // N)), x.reshape(N, -1).sum(0), lax.axis_index("d") + 1)


def gathered_chunks(x: Any) -> Any:
    return _passing_on(_own(x), True)


FOUND: dict[Callable[[Any], Any], tuple[str, str, str]] = {
    all_reduce_in_loops: ("2 loops", "only adds up the blocks that arrive and passes the sums on", "psum"),
    unrolled_all_reduce: ("14 calls", "only adds up the blocks that arrive and passes the sums on", "psum"),
    all_reduce_by_index: ("14 calls", "only adds up the blocks that arrive and passes the sums on", "psum"),
    sum_of_own_chunk: ("a loop", "only adds up the blocks that arrive", "psum_scatter"),
    unrolled_sum_of_own_chunk: ("7 calls", "only adds up the blocks that arrive", "psum_scatter"),
    sums_of_chunks: ("a loop", "only adds up the blocks that arrive", "psum_scatter"),
    gathered_chunks: ("a loop", "only puts together the blocks that arrive", "all_gather"),
}
BY_HAND: dict[Callable[[Any], Any], Callable[[Any], Any]] = {
    all_reduce_in_loops: lambda x: lax.psum(x, "d"),
    unrolled_all_reduce: lambda x: lax.psum(x, "d"),
    sum_of_own_chunk: lambda x: lax.psum_scatter(x.reshape(N, -1), "d"),
    unrolled_sum_of_own_chunk: lambda x: lax.psum_scatter(x.reshape(N, -1), "d"),
}


def _found(body: Callable[..., Any], *args: Any) -> list[Finding]:
    fun = manual(body, tuple(P() for _ in args), P("d"))
    return all_found("manual-ring", fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))


@pytest.mark.parametrize("body", FOUND)
def test_one_collective_does_the_same(body: Callable[[Any], Any]) -> None:
    (finding,) = _found(body, X)
    form, verb, call = FOUND[body]
    assert f" ({form}, 8 devices, 1 MiB each) {verb}: one `{call}` does the same." in finding.title
    assert finding.remedy == f"jax.lax.{call}({'block' if call == 'all_gather' else 'blocks'}, axis)"
    assert finding.share > 0.2


@pytest.mark.parametrize(
    "body",
    [
        each
        if each in (all_reduce_in_loops, sum_of_own_chunk, gathered_chunks)
        else pytest.param(each, marks=pytest.mark.slow)
        for each in FOUND
    ],
)
def test_the_proof_replaces_the_ring(body: Callable[[Any], Any]) -> None:
    (finding,) = _found(body, X)
    if body in (sums_of_chunks, gathered_chunks):  # the devices have other chunks than after one collective
        assert finding.prove().verdict == "cannot be tried"
        return
    proof = finding.prove(run=True)
    assert proof.values in ("equal results", "results agree within 1e-04")
    assert proof.compiled is not None
    assert not proof.compiled.module().columns.rows_of("collective-permute".__eq__)


@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("body", BY_HAND)
def test_the_gain_on_gpus_equals_the_compile_by_hand(body: Callable[[Any], Any]) -> None:
    ring, collective = (
        inspector.lower(manual(each, P(), P("d")), X).compile(target=GPU) for each in (body, BY_HAND[body])
    )
    (finding,) = ring.findings(kinds=["manual-ring"])
    saved_s = ring.roofline().total.least_s - collective.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)


def test_a_chunk_that_other_work_reads() -> None:
    def body(x: Any, w: Any) -> Any:
        me, y = lax.axis_index("d"), jnp.zeros((512, 512))

        def step(i: Any, carry: Any) -> Any:
            chunks, y = carry
            block = _sent(_chunk(chunks, me + 1 - i))
            return _set(chunks, block, me - i), y + block.reshape(512, 512) @ w

        return lax.fori_loop(0, N - 1, step, (x.reshape(N, -1), y))

    assert not _found(body, X, W)


def test_an_array_that_other_work_of_the_loop_reads() -> None:
    def body(x: Any, w: Any) -> Any:
        me, y = lax.axis_index("d"), jnp.zeros((512, 512))

        def step(i: Any, carry: Any) -> Any:
            chunks, y = carry
            y = y + _chunk(chunks, me + 1 - i).reshape(512, 512) @ w
            return _set(chunks, _sent(_chunk(chunks, me + 1 - i)), me - i), y

        return lax.fori_loop(0, N - 1, step, (x.reshape(N, -1), y))

    assert not _found(body, X, W)


def test_products_that_are_added_as_the_sum_goes_round() -> None:
    def body(x: Any, w: Any) -> Any:
        me, blocks = lax.axis_index("d"), x.reshape(N, 512, 512)
        return lax.fori_loop(0, N - 1, lambda i, y: _sent(y) + _chunk(blocks, me - i) @ w, jnp.zeros((512, 512)))

    assert not _found(body, X, W)


@pytest.mark.parametrize("steps", [N - 3, N])
def test_sums_of_too_few_or_too_many_steps(steps: int) -> None:
    assert not _found(lambda x: _adding(x.reshape(N, -1), True, steps), X)
    assert not _found(lambda x: _adding(x.reshape(N, -1), False, steps), X)


def test_a_sum_that_begins_with_something_else() -> None:
    def body(x: Any) -> Any:
        me, chunks = lax.axis_index("d"), x.reshape(N, -1)
        step = lambda i, total: _sent(total) + _chunk(chunks, me - i)  # noqa: E731
        return lax.fori_loop(0, N - 1, step, jnp.tanh(_chunk(chunks, me)))

    assert not _found(body, X)
