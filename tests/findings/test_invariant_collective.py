"""Collectives in loops that do not change their operands, and loops that do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.findings.edits import HoistCollectives
from inspector.errors import AtLeast, Unavailable
from inspector.stages.edited_program import edited_program
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings import sharded
from tests.findings.recorded import GPU, TPU, recorded
from tests.findings.sharded import D, Program, array

KIND = ["invariant-collective"]


def found(compiled: inspector.Compiled) -> list[Finding]:
    findings = compiled.findings(kinds=KIND)
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize(
    ("program", "name", "trips"),
    [
        (sharded.gather_in_scan, "w", "each of the 10 iterations"),
        (sharded.gather_in_while_of_unknown_length, "w", "every iteration"),
        (sharded.weight_gathered_by_partitioner, "params['w']", "each of the 10 iterations"),
        (sharded.accumulated_gradients, "w", "each of the 6 iterations"),
    ],
)
def test_repeated(program: Callable[[], sharded.Program], name: str, trips: str, target: str) -> None:
    (finding,) = found(recorded(program, target))
    assert finding.title.startswith(f"The all-gather over d of `{name}` (")
    assert f"is repeated in {trips} of the loop around sharded.py:" in finding.title
    assert "on purpose to save memory (FSDP)" in finding.caution
    assert 0.3 < finding.share < 1.0 or trips == "every iteration"
    assert isinstance(finding.edits, Unavailable) == (trips == "every iteration")
    assert ("if the loop runs many times" in finding.gain_source) == (trips == "every iteration")
    assert (" in each iteration (" in finding.gain) == (trips == "every iteration")
    assert finding.share < 1.0  # of an iteration's time, if the length is unknown


def test_a_sum_needs_no_more_memory() -> None:
    (finding,) = found(recorded(sharded.sum_of_bfloat16_in_fori_loop, GPU))
    assert finding.title.startswith(
        "The all-reduce over d of `y` (16 KiB per device) is repeated in each of the 20 iter"
    )
    assert finding.remedy == "Call jax.lax.psum before the loop, and use its result in the body."
    assert not finding.caution


def test_the_gain_is_all_iterations_but_one() -> None:
    compiled = recorded(sharded.gather_in_scan, GPU)
    (finding,) = found(compiled)
    (collective,) = compiled.collectives()
    (point,) = [each for each in compiled.roofline().points if each.name == collective.name]
    assert not isinstance(point.least_s, Unavailable)
    assert not isinstance(finding.gain_s, Unavailable)
    assert finding.gain_s == pytest.approx(0.9 * point.least_s)
    assert finding.instructions == (collective.name,)


def test_one_of_two_sums_that_xla_combines() -> None:
    (finding,) = found(recorded(sharded.invariant_sum_beside_another, GPU))
    assert (
        "The all-reduce over d of `scale` (1 MiB per device) is repeated in each of the 12 iterations" in finding.title
    )
    assert finding.remedy == "Call jax.lax.psum before the loop, and use its result in the body."


@needs_gpu
def test_the_proof_of_one_of_two_combined_sums() -> None:
    fun, args = sharded.invariant_sum_beside_another()
    (finding,) = found(inspector.lower(fun, *args).compile(target=GPU))
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(finding.gain_s, rel=0.15)  # with JAX 0.12, XLA copies the other sum


@pytest.mark.parametrize("target", [TPU, GPU])
def test_the_gain_is_the_difference_of_both_recordings(target: str) -> None:
    (finding,) = found(recorded(sharded.gather_in_scan, target))
    times = [
        recorded(each, target).roofline().total.least_s for each in (sharded.gather_in_scan, sharded.gather_before_scan)
    ]
    assert finding.gain_s == pytest.approx(float(times[0]) - float(times[1]), rel=0.1)


def test_the_remedy_keeps_the_other_axes() -> None:
    (finding,) = found(recorded(sharded.weight_gathered_over_one_axis, GPU))
    assert finding.remedy.splitlines() == [
        "# before the loop",
        "w = jax.lax.with_sharding_constraint(w, NamedSharding(mesh, P(None, 'm')))",
    ]


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize(
    "program",
    [
        sharded.layers_by_partitioner,
        sharded.layers_gathered_by_hand,
        sharded.gather_of_updated_weight,
        sharded.gather_before_scan,
    ],
)
def test_silent(program: Callable[[], sharded.Program], target: str) -> None:
    assert not found(recorded(program, target))


@pytest.mark.parametrize("program", [sharded.gather_in_scan, sharded.weight_gathered_by_partitioner])
def test_a_compiler_that_hoists_leaves_nothing_to_find(program: Callable[[], sharded.Program]) -> None:
    fun, args = program()
    assert not found(inspector.lower(fun, *args).compile(target="cpu:8"))


@needs_gpu
@pytest.mark.parametrize(
    ("program", "by_hand"),
    [
        (sharded.gather_in_scan, sharded.gather_before_scan),
        (sharded.weight_gathered_over_one_axis, sharded.weight_gathered_over_one_axis_before),
    ],
)
def test_the_proof_equals_the_compile_by_hand(
    program: Callable[[], sharded.Program], by_hand: Callable[[], sharded.Program]
) -> None:
    before, after = (inspector.lower(fun, *args).compile(target=GPU) for fun, args in (program(), by_hand()))
    (finding,) = found(before)
    proof = finding.prove()
    saved = _seconds(before) - _seconds(after)
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(saved, rel=0.02)
    assert finding.gain_s == pytest.approx(saved, rel=0.1)
    assert proof.gain_bytes == before.memory.peak_bytes - after.memory.peak_bytes


def scaled_in_a_loop(is_hoisted: bool = False) -> sharded.Program:
    """XLA computes what the loop does not change in a kernel with what it changes."""

    def f(x: Any, d: Any) -> Any:
        def largest() -> Any:
            return jax.lax.pmax(jnp.max(jnp.abs(d)), "d")

        known = largest()

        def step(x: Any, _: Any) -> Any:
            scale = known if is_hoisted else largest()
            y = x - 0.1 * d * x
            return y / scale + jax.lax.psum(jnp.vdot(y, y), "d"), None

        return jax.lax.scan(step, x, None, length=50)[0]

    return sharded.manual(f, (P("d"), P("d")), P("d")), (
        sharded.array((1024, 256), "d"),
        sharded.array((1024, 256), "d"),
    )


@needs_gpu
def test_a_kernel_with_several_results() -> None:
    before, after = (
        inspector.lower(fun, *args).compile(target=GPU)
        for fun, args in (scaled_in_a_loop(), scaled_in_a_loop(is_hoisted=True))
    )
    (finding,) = found(before)
    saved = _seconds(before) - _seconds(after)
    assert finding.gain_s == pytest.approx(saved, rel=0.1)
    assert finding.prove().gain_s == pytest.approx(saved, rel=0.1)


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [sharded.weight_gathered_by_partitioner, sharded.accumulated_gradients, sharded.gather_in_scan]
)
def test_proofs_on_a_tpu(program: Callable[[], sharded.Program]) -> None:
    fun, args = program()
    (finding,) = found(inspector.lower(fun, *args).compile(target=TPU))
    assert finding.prove().verdict == "proven"


def _seconds(compiled: inspector.Compiled) -> float:
    seconds = compiled.roofline().total.least_s
    assert not isinstance(seconds, (Unavailable, AtLeast))
    return float(seconds)


@pytest.mark.parametrize(
    ("program", "op_name"),
    [
        (sharded.gather_in_scan, "all_gather"),
        (sharded.sum_of_bfloat16_in_fori_loop, "psum"),
        (sharded.gather_of_updated_weight, None),
    ],
)
def test_the_edit_moves_only_what_the_loop_does_not_change(
    program: Callable[[], sharded.Program], op_name: str | None
) -> None:
    fun, args = program()
    calls = ("closed_call", "eval_jaxpr")  # JAX's names of the function that a loop calls
    names = tuple(f"jit(f)/shard_map/while/body/{call}/{op_name or 'all_gather'}" for call in calls)
    lowered = inspector.lower(fun, *args)
    edited = edited_program(lowered.program, (HoistCollectives(names),))
    assert isinstance(edited, Unavailable) == (op_name is None)


def repeated_gathers(w: Any, v: Any, x: Any) -> Any:
    """A GPU hides a part of one gather behind the product with the other weight."""
    whole = lambda w: jax.lax.with_sharding_constraint(w, NamedSharding(sharded.D, P()))  # noqa: E731
    return jax.lax.fori_loop(0, 9, lambda _, x: x + jnp.tanh(x @ whole(w)) @ whole(v), x)


def repeated_context(c: Any, k: Any, x: Any) -> Any:
    """The gathered array is transposed for the product."""

    def step(x: Any, _: Any) -> Any:
        keys = jax.lax.all_gather(c, "d", axis=1, tiled=True)
        return x + jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", x, keys)), keys) @ k, None

    return jax.lax.scan(step, x, length=12)[0]


def repeated(compiled: Any) -> Any:
    """Returns the finding of a program of which XLA gathers the weights in the loop: before it since JAX 0.12, where there is nothing to find."""
    findings = compiled.findings(kinds=KIND)
    if all(each.executions == 1 for each in compiled.collectives()):
        assert not findings
        pytest.skip("XLA hoists the collectives itself")
    (finding,) = findings
    return finding


BF16 = jnp.bfloat16
WEIGHTS = (sharded.array((1024, 4096), None, "d", dtype=BF16), sharded.array((4096, 1024), "d", dtype=BF16))
CONTEXT = (sharded.array((4, 4096, 512), None, "d", dtype=BF16), sharded.array((512, 512), dtype=BF16))


@needs_gpu
@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (repeated_gathers, (*WEIGHTS, sharded.array((2048, 1024), "d", dtype=BF16))),
        (
            sharded.manual(repeated_context, (P(None, "d"), P(), P(None, "d")), P(None, "d")),
            (*CONTEXT, sharded.array((4, 2048, 512), None, "d", dtype=BF16)),
        ),
    ],
)
def test_the_gain_is_that_of_the_proof(fun: Any, args: Any) -> None:
    finding = repeated(inspector.lower(fun, *args).compile(target=GPU))
    assert finding.gain_s == pytest.approx(finding.prove().gain_s, rel=0.1)


@needs_tpu
@pytest.mark.slow
def test_weights_that_a_tpu_copies_in_slices() -> None:
    """libtpu joins the slices by a custom call."""
    args = (*WEIGHTS, sharded.array((2048, 1024), "d", dtype=BF16))
    finding = repeated(inspector.lower(repeated_gathers, *args).compile(target=TPU))
    assert "`w`" in finding.title
    assert "`v`" in finding.title
    assert finding.gain_s == pytest.approx(finding.prove().gain_s, rel=0.1)


def repeated_keys(growth: int, wrap: Any) -> Any:
    """The products of the gathered array do not change either, and may be larger than it."""

    def loop(w: Any, x: Any, c: Any, is_hoisted: bool) -> Any:
        whole = jax.lax.all_gather(c, "d", axis=0, tiled=True) if is_hoisted else None

        def step(x: Any, _: Any) -> Any:
            keys = wrap((jax.lax.all_gather(c, "d", axis=0, tiled=True) if whole is None else whole) @ w)
            return x + jax.nn.softmax((x @ keys.T).astype(jnp.float32)).astype(x.dtype) @ keys, None

        return jax.lax.scan(step, x, length=10)[0]

    specs = (P(), P("d"), P("d"))
    arrays = ((512, 512 * growth), (2048, 512 * growth), (4096, 512))
    args = [sharded.array(shape, *spec, dtype=BF16) for shape, spec in zip(arrays, specs, strict=True)]
    return [sharded.manual(lambda w, x, c, h=h: loop(w, x, c, h), specs, P("d")) for h in (False, True)], args


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("growth", "wrap", "moves", "rel"),
    [(1, lambda keys: keys, True, 0.1), (4, lambda keys: keys, False, 0.2), (1, jax.nn.gelu, False, 0.5)],
)
def test_a_tpu_moves_the_products_of_gathered_arrays_too(growth: int, wrap: Any, moves: bool, rel: float) -> None:
    (fun, by_hand), args = repeated_keys(growth, wrap)
    first, second = (inspector.lower(each, *args).compile(target=TPU) for each in (fun, by_hand))
    (finding,) = first.findings(kinds=KIND)
    saved_s = first.roofline().total.least_s - second.roofline().total.least_s
    assert (len(finding.instructions) > 1) == moves
    assert finding.gain_s == pytest.approx(saved_s, rel=rel)  # a GELU on its own takes longer


@needs_gpu
def test_a_gather_that_xla_combined_with_one_that_changes() -> None:
    """Both have one name, and their results are read at once."""

    def solve(x: Any, p: Any) -> Any:
        def step(_: Any, p: Any) -> Any:
            whole, other = (jax.lax.all_gather(each, "d", tiled=True) for each in (x, p))
            return jnp.tanh(x @ (whole.T @ other))

        return jax.lax.fori_loop(0, 30, step, p)

    fun = jax.shard_map(solve, mesh=sharded.D, in_specs=(P("d"), P("d")), out_specs=P("d"), check_vma=False)
    args = sharded.array((4096, 256), "d"), sharded.array((4096,), "d")
    (finding,) = inspector.lower(fun, *args).compile(target="gpu:h100:8").findings(kinds=["invariant-collective"])
    assert "The all-gather over d of `x`" in finding.title
    assert "30 iterations" in finding.title
    assert finding.prove().verdict == "proven"


def _recurrent_step(hoisted: bool) -> Program:
    """A step of a recurrent network whose weight is split, and gathered in each iteration or once."""

    def loss(w: Any, xs: Any) -> Any:
        whole = jax.lax.with_sharding_constraint(w.astype(jnp.bfloat16), NamedSharding(D, P())) if hoisted else w

        def cell(h: Any, x: Any) -> Any:
            return jax.lax.with_sharding_constraint(
                jnp.tanh(x + h @ whole.astype(jnp.bfloat16)), NamedSharding(D, P("d"))
            ), None

        h, _ = jax.lax.scan(cell, jnp.zeros(xs.shape[1:], xs.dtype), xs)
        return jnp.square(h.astype(jnp.float32)).sum()

    fun = jax.jit(lambda w, xs: w - 1e-3 * jax.grad(loss)(w, xs))
    return fun, (array((2048, 2048), None, "d"), array((32, 2048, 2048), None, "d", dtype=jnp.bfloat16))


@needs_gpu
def test_the_gain_has_the_sums_of_gradients_in_the_backward_pass() -> None:
    before, after = (
        inspector.lower(fun, *args).compile(target=GPU) for fun, args in (_recurrent_step(False), _recurrent_step(True))
    )
    findings = before.findings(kinds=KIND)
    (sums,) = [each.name for each in before.collectives() if each.opcode == "reduce-scatter"]
    assert sorted(sums in each.instructions for each in findings) == [False, True]  # the loops of both passes
    assert all("of `w` (8 MiB per device)" in each.title for each in findings)
    seconds = [each.roofline().total.least_s for each in (before, after)]
    assert sum(each.gain_s for each in findings) == pytest.approx(seconds[0] - seconds[1], rel=0.1)


def _stencil(once: bool) -> Program:
    """Three fields whose halos are exchanged in each step, and one that never changes. XLA for GPUs combines their exchanges."""

    def shift(a: Any, axis: int, by: int) -> Any:
        rows = jax.lax.slice_in_dim(a, 0, 1, axis=axis) if by < 0 else jax.lax.slice_in_dim(a, -1, None, axis=axis)
        return jax.lax.ppermute(rows, "d", [(i, (i + by) % 8) for i in range(8)])

    def halo(a: Any) -> Any:
        for axis in (0, 1):  # the corners come with the second exchange
            a = jnp.concatenate([shift(a, axis, 1), a, shift(a, axis, -1)], axis)
        return a

    def solve(h: Any, u: Any, v: Any, b: Any) -> Any:
        given = halo(b)

        def step(c: Any, _: Any) -> Any:
            h, u, v = map(halo, c)
            e = h + (given if once else halo(b))
            flow = [0.1 * (a[2:, 1:-1] - a[:-2, 1:-1] + a[1:-1, 2:] - a[1:-1, :-2]) for a in (e, h * u, h * v)]
            return tuple(a[1:-1, 1:-1] - f for a, f in zip((h, u, v), flow, strict=True)), None

        return jax.lax.scan(step, (h, u, v), None, length=50)[0]

    field = array((4096, 512), "d")
    return sharded.manual(solve, P("d"), P("d")), (field,) * 4


@needs_gpu
def test_a_field_that_never_changes_among_combined_exchanges() -> None:
    before, after = (inspector.lower(fun, *args).compile(target=GPU) for fun, args in (_stencil(False), _stencil(True)))
    (finding,) = before.findings(kinds=KIND)
    assert finding.title.startswith("The collective-permute over d of `b` (")
    seconds = [each.roofline().total.least_s for each in (before, after)]
    assert finding.prove().gain_s == pytest.approx(seconds[0] - seconds[1], rel=0.05)


@pytest.mark.parametrize(
    "joined",
    [
        lambda g, x: jnp.concatenate([g, x, g]),
        lambda g, x: jnp.concatenate([g, g[::-1].reshape(g.shape), x]),
        lambda g, x: jnp.concatenate([jnp.concatenate([g, x]), jnp.concatenate([x, g])]),
    ],
)
def test_what_joins_a_collective_is_moved_once(joined: Any) -> None:
    """A value is joined several times, with itself, or in two ways that meet again."""

    def f(x: Any, y: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            shifted = jax.lax.ppermute(y, "d", [(i, (i + 1) % 8) for i in range(8)])
            return jnp.tanh(c + joined(shifted, y).sum(0)), None

        return jax.lax.scan(step, x, None, length=4)[0]

    args = array((8, 256), "d"), array((64, 256), "d")
    lowered = inspector.lower(sharded.manual(f, P("d"), P("d")), *args)
    names = [f"jit(f)/shard_map/while/body/{call}/ppermute" for call in ("closed_call", "eval_jaxpr")]
    edited = edited_program(lowered.program, (HoistCollectives(tuple(names)),))
    assert not isinstance(edited, Unavailable)
