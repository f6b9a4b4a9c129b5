"""Rings that one collective replaces, and rings whose blocks take part in other work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import Unavailable
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings import overlap, rings, small
from tests.findings.examined import all_found, peak
from tests.findings.recorded import FOLDER, GPU, TPU, recorded
from tests.findings.sharded import DM, D, Program, array, manual

KIND = "manual-ring"
CALLS = {
    rings.unrolled_sum: ("7 calls", "only adds up", "psum"),
    rings.sum_in_a_loop: ("a loop", "only adds up", "psum"),
    rings.sum_in_a_scan: ("a loop", "only adds up", "psum"),
    rings.unrolled_maximum: ("7 calls", "only compares", "pmax"),
    rings.unrolled_concatenation: ("7 calls", "only puts together", "all_gather"),
    rings.buffer_in_a_loop: ("a loop", "only puts together", "all_gather"),
    rings.unrolled_buffer: ("7 calls", "only puts together", "all_gather"),
    rings.wrapped_buffer_in_a_loop: ("a loop", "only puts together", "all_gather"),
}


def found(program: Callable[[], Program], target: str) -> list[Finding]:
    if target == "cpu:8":
        fun, args = program()
        return all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))
    findings = recorded(program, target).findings(kinds=[KIND])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize("target", [TPU, GPU, "cpu:8"])
@pytest.mark.parametrize("program", rings.FOUND)
def test_one_collective_does_the_same(program: Callable[[], Program], target: str) -> None:
    (finding,) = found(program, target)
    form, verb, call = CALLS[program]
    assert finding.title == (
        f"The ring of `ppermute`s at rings.py:22 ({form}, 8 devices, 1 MiB each) {verb} the blocks that arrive: one `{call}`"
        " does the same."
    )
    assert finding.remedy == f"jax.lax.{call}(block, axis)"
    if target == GPU and program in (rings.unrolled_concatenation, rings.unrolled_buffer):
        assert finding.is_small  # GPUs gather in a ring too, and the blocks arrive where they are needed
        assert "takes as long" in finding.caution
    else:
        assert 0.3 < finding.share < 0.9
        assert "takes as long" not in finding.caution


@pytest.mark.parametrize("program", rings.SILENT)
def test_silent(program: Callable[[], Program]) -> None:
    assert not found(program, "cpu:8")


@pytest.mark.parametrize("program", [small.shift_of_each_field, small.ring_attention, overlap.sum_beside_products])
def test_silent_on_tpus(program: Callable[[], Program]) -> None:
    assert not found(program, TPU)


@pytest.mark.parametrize("steps", [5, 9])
def test_a_ring_that_does_not_end_where_it_began(steps: int) -> None:
    def f(x: Any) -> Any:
        total = block = x
        for _ in range(steps):
            block = lax.ppermute(block, "d", rings.RIGHT)
            total = total + block
        return total

    fun = manual(f, (P("d"),), P("d"))
    assert not all_found(KIND, fun, rings.X, target="cpu:8", roofs=peak("tpu:v5e"))


def test_sums_that_are_not_one() -> None:
    def f(x: jax.Array) -> Any:
        block, sums = x, []
        for number in range(7):
            block = lax.ppermute(block, "d", rings.RIGHT)
            sums.append(jnp.full_like(x, number + 1) + block)
        return sums

    fun = manual(f, (P("d"),), P("d"))
    assert not all_found(KIND, fun, rings.X, target="cpu:8", roofs=peak("tpu:v5e"))


def _gathered(x: Any) -> Any:
    return lax.all_gather(x, "d", tiled=True)


BY_HAND: dict[Any, tuple[Callable[[Any], Any], Any]] = {
    rings.unrolled_sum: (lambda x: jnp.tanh(lax.psum(x, "d")), P()),
    rings.sum_in_a_loop: (lambda x: lax.psum(x, "d"), P()),
    rings.unrolled_concatenation: (lambda x: _gathered(x)[:, :8], P("d")),
    rings.buffer_in_a_loop: (_gathered, P("d")),
    rings.wrapped_buffer_in_a_loop: (lambda x: lax.all_gather(x, "d")[:, :, :8], P("d")),
}


def _saved_by_hand(program: Callable[[], Program], target: str) -> float:
    collective, sharding = BY_HAND[program]
    fun = manual(collective, (P("d"),), sharding)
    after = inspector.lower(fun, rings.X).compile(target=target)
    return _seconds(recorded(program, target)) - _seconds(after)


@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("program", BY_HAND)
def test_the_gain_on_gpus_equals_the_compile_by_hand(program: Callable[[], Program]) -> None:
    (finding,) = found(program, GPU)
    assert finding.gain_s == pytest.approx(_saved_by_hand(program, GPU), rel=0.1, abs=1e-9)


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize("program", BY_HAND)
def test_the_gain_on_tpus_equals_the_compile_by_hand(program: Callable[[], Program]) -> None:
    (finding,) = found(program, TPU)
    saved_s = _saved_by_hand(program, TPU)
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)
    if program is not rings.unrolled_concatenation:
        assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.02)


def ring_of_each_weight(x: Any) -> Any:
    """The function is called for each weight, and for each of some layers."""
    ring = jax.jit(sum_by_hand)
    return lax.fori_loop(0, 3, lambda _, c: (jnp.tanh(ring(c[0])), jnp.tanh(ring(c[1][:256]))), (x, x[:256]))


def ring_into_a_wider_total(x: Any) -> Any:
    total = jnp.ones_like(x)
    block = x.astype(jnp.bfloat16)
    for _ in range(8):
        total += block.astype(jnp.float32)
        block = shifted(block)
    return total


PROVEN = [*(each for each in rings.FOUND if each is not rings.unrolled_concatenation), ring_of_each_weight]
QUICKLY = (rings.sum_in_a_loop, rings.unrolled_buffer, ring_of_each_weight)


@pytest.mark.parametrize(
    "body",
    [*(each if each in QUICKLY else pytest.param(each, marks=pytest.mark.slow) for each in PROVEN), ring_into_a_wider_total],
)  # fmt: skip
def test_the_proof_replaces_the_ring(body: Any) -> None:
    fun, args = body() if body in rings.FOUND else (manual(body, P(), P()), (array((512, 64)),))
    (finding,) = all_found(KIND, fun, *args, target="cpu:8", roofs=peak("tpu:v5e"))
    for proof in [finding.prove(run=True)]:
        assert proof.values in ("equal results", "results agree within 1e-04")
        assert proof.compiled is not None
        assert not proof.compiled.module().columns.rows_of("collective-permute".__eq__)


def _of_seven_iterations(x: Any, adds_first: bool, adds_after: bool) -> Any:
    def step(_: Any, carry: Any) -> Any:
        block, total = carry
        arrived = shifted(block)
        return arrived, total + (block if adds_first else arrived)

    block, total = lax.fori_loop(0, 7, step, (x, jnp.zeros_like(x) if adds_first else x + 1))
    return total + block if adds_after else total


@pytest.mark.parametrize(("adds_first", "adds_after"), [(False, False), (True, True)])
def test_a_sum_of_eight_blocks_in_seven_iterations(adds_first: bool, adds_after: bool) -> None:
    fun = manual(lambda x: _of_seven_iterations(x, adds_first, adds_after), P("d"), P("d"))
    (finding,) = all_found(KIND, fun, rings.X, target="cpu:8", roofs=peak("tpu:v5e"))
    assert finding.prove(run=True).values == "results agree within 1e-04"


def gossip(x: Any) -> Any:
    """The average of the others' blocks has another weight than the own block."""
    block, others = shifted(x), 0.0
    for _ in range(7):
        others, block = others + block, shifted(block)
    return x / 2 + others / 14


def gossip_in_a_loop(x: Any) -> Any:
    def step(_: Any, carry: Any) -> Any:
        block, total = carry
        block = shifted(block)
        return block, total + block

    return x / 2 + lax.fori_loop(0, 7, step, (x, jnp.zeros_like(x)))[1] / 14


@pytest.mark.parametrize("body", [gossip, gossip_in_a_loop])
def test_a_sum_without_the_own_block(body: Any) -> None:
    fun = manual(body, P("d"), P("d"))
    assert not all_found(KIND, fun, rings.X, target="cpu:8", roofs=peak("tpu:v5e"))


def with_running_sums(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        block, total = carry
        block = shifted(block)
        return (block, total + block), total[0]

    (block, total), sums = lax.scan(step, (x, x), length=7)
    return block + total + sums.sum(0)


def test_a_loop_that_uses_the_ring_for_something_else_is_not_changed() -> None:
    fun = manual(with_running_sums, P("d"), P("d"))
    for finding in all_found(KIND, fun, rings.X, target="cpu:8", roofs=peak("tpu:v5e")):
        assert finding.prove().verdict == "cannot be tried"


def test_a_sum_of_seven_blocks_is_none_of_all() -> None:
    fun = manual(lambda x: _of_seven_iterations(x, adds_first=True, adds_after=False), P("d"), P("d"))
    assert not all_found(KIND, fun, rings.X, target="cpu:8", roofs=peak("tpu:v5e"))


def test_rings_in_a_row() -> None:
    """The sum over one axis goes round the other one at once. A third ring has a result that nothing uses."""

    def body(x: Any) -> Any:
        for axis, size in (("d", 4), ("m", 2), ("d", 4)):
            before, total, block = x, x, x
            for _ in range(size - 1):
                block = lax.ppermute(block, axis, [(i, (i + 1) % size) for i in range(size)])
                total = total + block
            x = total
        return before

    fun = manual(body, P(("d", "m")), P(("d", "m")), DM)
    x = array((512, 512), ("d", "m"), mesh=DM)
    (finding,) = all_found(KIND, fun, x, target="cpu:8", roofs=peak("tpu:v5e"))
    proof = finding.prove(run=True)
    assert proof.values == "results agree within 1e-04"
    assert proof.compiled is not None
    assert len(proof.compiled.module().columns.rows_of("all-reduce".__eq__)) == 1


def test_blocks_in_the_order_in_which_they_arrive() -> None:
    """An `all_gather` has another order."""
    (finding,) = found(rings.unrolled_concatenation, "cpu:8")
    assert finding.prove().verdict == "cannot be tried"


KERNELS_OF_THE_RING = {"collective-permute-start", "wrapped_add", "copy"}


@needs_gpu
def test_other_kernels_of_the_loop_do_not_count() -> None:
    fun, args = rings.sum_beside_products()
    (finding,) = all_found(KIND, fun, *args, target=GPU)
    assert {name.split(".")[0] for name in finding.instructions} == KERNELS_OF_THE_RING


def test_an_exchange_in_a_computation_that_a_start_calls() -> None:
    """JAX 0.12 writes permutes of GPUs so. `recorded.py` wrote the file with that version."""
    (compiled,) = [inspector.load(FOLDER / "sum_beside_products-gpu-h100-8-jax-0.12.inspector")]
    assert isinstance(compiled, inspector.Compiled)
    (exchange,) = compiled.collectives()
    assert compiled.module().instruction(exchange.name).opcode == "async-start"
    (finding,) = compiled.findings(kinds=[KIND])
    assert {name.split(".")[0] for name in finding.instructions} == KERNELS_OF_THE_RING
    assert finding.gain_s == pytest.approx(8.2e-6, rel=0.01)


def _seconds(compiled: inspector.Compiled) -> float:
    seconds = compiled.roofline().total.least_s
    assert not isinstance(seconds, Unavailable)
    return float(seconds)


def scanned_ring(x: Any) -> Any:
    """The scan slices its numbers in the kernel that writes the block."""
    i, n = lax.axis_index("d"), x.shape[0]

    def step(carry: Any, k: Any) -> Any:
        block, out = carry
        block = lax.ppermute(block, "d", small.RIGHT)
        return (block, lax.dynamic_update_slice(out, block, ((i - k) % 8 * n, 0))), None

    out = lax.dynamic_update_slice(jnp.zeros((8 * n, x.shape[1]), x.dtype), x, (i * n, 0))
    return jnp.tanh(lax.scan(step, (x, out), jnp.arange(1, 8))[0][1])


@needs_gpu
def test_the_gain_has_the_kernel_that_takes_a_number_of_its_scan() -> None:
    args = (array((4096, 2048), "d"),)
    before, after = (
        inspector.lower(manual(fun, P("d"), P()), *args).compile(target=GPU)
        for fun in (scanned_ring, lambda x: jnp.tanh(lax.all_gather(x, "d", tiled=True)))
    )
    (finding,) = before.findings(kinds=[KIND])
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)


def shifted(x: Any) -> Any:
    return lax.ppermute(x, "d", rings.RIGHT)


def sum_by_hand(x: Any) -> Any:
    def step(_: Any, carry: Any) -> Any:
        block, total = carry
        block = shifted(block)
        return block, total + block

    return lax.fori_loop(0, 7, step, (x, x))[1]


def ring_by_index(x: Any, update: Callable[[Any, Any, Any], Any]) -> Any:
    place = lax.axis_index("d")
    whole = update(jnp.zeros((8, *x.shape)), place, x)
    for step in range(1, 8):
        x = shifted(x)
        whole = update(whole, (place - step) % 8, x)
    return whole


@pytest.mark.parametrize("target", [pytest.param(GPU, marks=needs_gpu), pytest.param(TPU, marks=needs_tpu)])
def test_blocks_that_are_set_by_index(target: str) -> None:
    """Against the `all_gather`. XLA writes what is there already if the index is out of bounds."""

    def program(gather: Callable[[Any], Any]) -> inspector.Compiled:
        def body(x: Any, w: Any) -> Any:
            return gather(x).reshape(-1, 512) @ w

        fun = jax.shard_map(body, mesh=D, in_specs=(P("d"), P()), out_specs=P("d"), check_vma=False)
        return inspector.lower(fun, array((8 * 1024, 512), "d"), array((512, 512))).compile(target=target)

    ring = program(lambda x: ring_by_index(x, lambda whole, place, x: whole.at[place].set(x)))
    (finding,) = ring.findings(kinds=[KIND])
    assert "(7 calls, 8 devices, 2 MiB each) only puts together" in finding.title
    saved = _seconds(ring) - _seconds(program(lambda x: lax.all_gather(x, "d")))
    assert (0.9 if target == GPU else 0.4) * saved < finding.gain_s < 1.1 * saved


def test_blocks_that_are_added_by_index() -> None:
    def body(x: Any) -> Any:
        return ring_by_index(x, lambda whole, place, x: whole.at[place // 2].add(x)).sum(0)

    fun = jax.shard_map(body, mesh=D, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    assert not all_found(KIND, fun, array((8 * 1024, 512), "d"), target="cpu:8", roofs=peak("tpu:v5e"))


@needs_gpu
def test_the_rings_of_a_line_are_one_finding() -> None:
    """One for each weight, of which one has another size."""

    def body(*gradients: Any) -> Any:
        return [sum_by_hand(each) for each in gradients]

    fun = jax.shard_map(body, mesh=D, in_specs=P(), out_specs=P(), check_vma=False)
    compiled = inspector.lower(fun, *(array((1024, n)) for n in (512, 512, 1024))).compile(target=GPU)
    (finding,) = compiled.findings(kinds=[KIND])
    assert finding.title.startswith("3 rings of `ppermute`s at test_manual_ring.py:")
    assert finding.title.endswith(
        " (a loop, 8 devices, up to 4 MiB each) only add up the blocks that arrive: one `psum` for each does the same."
    )
    assert 0.5 < finding.share < 1


@needs_gpu
@pytest.mark.parametrize("loop", [False, True])
def test_rings_in_a_loop_over_layers(loop: bool) -> None:
    """The loops have names of their own, but XLA writes that of the outer one only once."""

    def unrolled(x: Any) -> Any:
        total = block = x
        for _ in range(7):
            block = shifted(block)
            total = total + block
        return total

    def layers(reduced: Callable[[Any], Any]) -> inspector.Compiled:
        def body(x: Any) -> Any:
            return lax.scan(lambda x, _: (jnp.tanh(reduced(x)), None), x, None, length=6)[0]

        return inspector.lower(manual(body, P(), P()), array((1024, 512))).compile(target=GPU)

    before, after = layers(sum_by_hand if loop else unrolled), layers(lambda x: lax.psum(x, "d"))
    (finding,) = before.findings(kinds=[KIND])
    assert finding.gain_s == pytest.approx(_seconds(before) - _seconds(after), rel=0.1)
