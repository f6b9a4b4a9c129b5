"""Collectives that send a wider type than their values need, and those that need it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector._jax.modules import stablehlo
from inspector.errors import Unavailable
from inspector.stages.edited_program import edited_program
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings import wide_exchanges as w
from tests.findings.recorded import GPU, TPU, recorded
from tests.findings.sharded import D, Program, array

KIND = "wide-collective"
BOTH_WAYS = "sends bfloat16 values in float32: they are converted before it and back after it."
ONE_WAY = "sends bfloat16 values in float32: they are converted before it."
PRODUCT = "sends the results of a product in float32, although every use converts them to bfloat16."
TEXTS: dict[Callable[[], Program], tuple[str, str]] = {
    w.sum_of_widened_gradients: (
        f"The all-reduce over d at wide_exchanges.py:37 (4 MiB per device) {BOTH_WAYS}",
        "jax.lax.psum(x, axis)  # convert x neither before nor after",
    ),
    w.mean_of_widened_gradients: (BOTH_WAYS, "psum(x, axis)"),
    w.sums_of_a_tree_of_gradients: (f"(4 MiB per device) {BOTH_WAYS}", "psum(x, axis)"),
    w.scattered_sum_of_widened_gradients: (BOTH_WAYS, "jax.lax.psum_scatter(x, axis)"),
    w.product_in_float32: (PRODUCT, "# without preferred_element_type=jnp.float32"),
    w.product_with_a_float32_scale: (
        PRODUCT,
        "# convert float32[1024, 4096] to bfloat16 before the product, so that its result is bfloat16 too",
    ),
    w.largest_of_widened: (ONE_WAY, "jax.lax.pmax(x, axis).astype(jnp.float32)  # convert after, not before"),
    w.gather_of_widened: (ONE_WAY, "jax.lax.all_gather(x, axis).astype(jnp.float32)"),
    w.exchange_of_widened: (ONE_WAY, "jax.lax.all_to_all(x, axis).astype(jnp.float32)"),
}
CASES = [*((each, TPU) for each in (*w.FOUND, *w.ON_TPUS)), *((each, GPU) for each in w.FOUND)]


def found(compiled: inspector.Compiled) -> list[Finding]:
    findings = compiled.findings(kinds=[KIND])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize(("program", "target"), CASES)
def test_values_that_a_narrower_type_can_hold(program: Callable[[], Program], target: str) -> None:
    (finding,) = found(recorded(program, target))
    title, remedy = TEXTS[program]
    assert title in finding.title
    assert remedy in finding.remedy
    assert 0.1 < finding.share < 0.6
    is_rounded = "rounded to bfloat16: float32 may be intended for its accuracy" in finding.caution
    assert is_rounded == (program not in (*w.ON_TPUS, w.largest_of_widened))


@pytest.mark.parametrize("target", [TPU, GPU])
@pytest.mark.parametrize("program", w.SILENT)
def test_silent(program: Callable[[], Program], target: str) -> None:
    assert not found(recorded(program, target))


def test_cpus_add_up_in_float32() -> None:
    fun, args = w.sum_of_widened_gradients()
    assert not found(inspector.lower(fun, *args).compile(target="cpu:8"))


def _seconds(compiled: inspector.Compiled) -> float:
    seconds = compiled.roofline().total.least_s
    assert not isinstance(seconds, Unavailable)
    return float(seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "target"),
    [pytest.param(each, target, marks=needs_tpu if target == TPU else needs_gpu) for each, target in CASES],
)
def test_the_proof(program: Callable[[], Program], target: str) -> None:
    fun, args = program()
    (finding,) = found(inspector.lower(fun, *args).compile(target=target))
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    # Kernels of TPUs take longer for bfloat16 values. On GPUs, those that combine arrays or widen operands are saved too.
    is_near = target == GPU and program not in (w.sums_of_a_tree_of_gradients, w.product_with_a_float32_scale)
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.2 if is_near else 0.5)


@needs_gpu
@pytest.mark.slow
def test_the_proof_equals_the_program_without_conversions() -> None:
    (fun, args), (by_hand, others) = w.sum_of_widened_gradients(), w.sum_of_narrow_gradients()
    before = inspector.lower(fun, *args).compile(target=GPU)
    after = inspector.lower(by_hand, *others).compile(target=GPU)
    (finding,) = found(before)
    assert finding.prove(run=False).gain_s == pytest.approx(_seconds(before) - _seconds(after), rel=0.01)


@needs_gpu
def test_a_proof_sends_the_narrower_type() -> None:
    fun, args = w.sums_of_a_tree_of_gradients()
    compiled = inspector.lower(fun, *args).compile(target=GPU)
    (finding,) = found(compiled)
    changed = edited_program(compiled.program, finding.edits)
    assert not isinstance(changed, Unavailable)
    with stablehlo.parse_stablehlo(changed.program.module).context:
        text = str(stablehlo.parse_stablehlo(changed.program.module))
    assert len(re.findall(r"tensor<(?:512x1024|1024x512)xbf16>\) -> tensor<(?:512x1024|1024x512)xbf16>", text)) >= 2
    assert not re.search(r"all_reduce.*xf32", text)


@needs_gpu
def test_the_remedy_of_a_backward_pass_is_in_the_forward_pass() -> None:
    """The gradient of the logits is in float32, as they are; that of the weights is converted to their type."""

    def step(x: Any, head: Any) -> Any:
        def loss(head: Any) -> Any:
            return jnp.square(jnp.matmul(x, head, preferred_element_type=w.WIDE)).sum()

        return jax.grad(loss)(head)

    head = array((512, 2048), dtype=w.NARROW)
    fun = jax.jit(step, out_shardings=NamedSharding(D, P()))
    (finding,) = found(inspector.lower(fun, w.X, head).compile(target=GPU))
    assert finding.remedy.startswith(
        "y = jnp.matmul(a, b).astype(jnp.float32)  # in the forward pass, without preferred_"
    )
    by_hand = jax.jit(
        lambda x, head: jax.grad(lambda head: jnp.square((x @ head).astype(w.WIDE)).sum())(head),
        out_shardings=NamedSharding(D, P()),
    )
    saved_s = finding.prove(run=False).gain_s
    hand_s = _seconds(inspector.lower(fun, w.X, head).compile(target=GPU)) - _seconds(
        inspector.lower(by_hand, w.X, head).compile(target=GPU)
    )
    assert 0 < saved_s < 1.1 * hand_s


@needs_gpu
def test_a_gather_of_an_embedding_that_is_converted_after_it() -> None:
    """The rows are looked up, and the product needs all of them. XLA does not convert before the gather."""

    def program(gathered: Callable[[Any], Any]) -> Any:
        def f(embedding: Any, tokens: Any) -> Any:
            e = gathered(embedding)
            return jnp.tanh(e[tokens] @ e.T)

        fun = jax.shard_map(f, mesh=D, in_specs=(P("d"), P("d")), out_specs=P("d"), check_vma=False)
        args = array((16384, 1024), "d"), array((512,), "d", dtype=jnp.int32)
        return inspector.lower(fun, *args).compile(target=GPU)

    before = program(lambda e: jax.lax.all_gather(e, "d", tiled=True).astype(jnp.bfloat16))
    after = program(lambda e: jax.lax.all_gather(e.astype(jnp.bfloat16), "d", tiled=True))
    (finding,) = found(before)
    assert finding.title.endswith("sends float32 values, although every use converts them to bfloat16.")
    assert finding.remedy == "jax.lax.all_gather(x.astype(jnp.bfloat16), axis)  # convert before, not after"
    saved_s = _seconds(before) - _seconds(after)
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)
    assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.01)
