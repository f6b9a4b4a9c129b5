"""Arguments in another sharding than their only use needs, and exchanges that the program needs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.absent import needs_gpu, needs_tpu
from tests.findings.corpus.cases import GPUS
from tests.findings.corpus.record import recorded
from tests.findings.examined import all_found, found, peak
from tests.findings.sharded import DM, D, array

KIND = "resharded-argument"


def on(x: Any, *spec: Any, mesh: Any = D) -> Any:
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def attention(q: Any, k: Any, v: Any, w: Any) -> Any:
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", scores, v)
    return mixed.reshape(*mixed.shape[:2], -1) @ w


SHAPE = (8, 64, 16, 32)
BY_HEAD, BY_PLACE = array(SHAPE, "d", None, "m", mesh=DM), array(SHAPE, "d", "m", mesh=DM)
PROJECTION = array((512, 256), "m", mesh=DM)
NARROW = array(SHAPE, "d", "m", mesh=DM, dtype=jnp.bfloat16)
ROWS, COLUMNS = array((64, 256), "d"), array((64, 256), None, "d")


@pytest.mark.parametrize(
    ("fun", "args", "title", "remedy"),
    [
        (attention, (BY_HEAD, BY_PLACE, BY_HEAD, PROJECTION), "`k` arrives split as P('d', 'm')", "P('d', None, 'm')"),
        (attention, (BY_HEAD, BY_HEAD, BY_PLACE, PROJECTION), "`v` arrives split as P('d', 'm')", "P('d', None, 'm')"),
        (
            lambda k: jnp.cumsum(on(k, "d", None, "m", mesh=DM), 1), (NARROW,),  # exchanged as float32 on CPUs
            "`k` arrives split as P('d', 'm')", "P('d', None, 'm')",
        ),
        (lambda x: jnp.tanh(on(x, None, "d")), (ROWS,), "`x` arrives split as P('d')", "P(None, 'd')"),
        (
            lambda batch: jax.jit(lambda x: jnp.sin(on(x, "d")))(batch["x"]), ({"x": COLUMNS},),
            "`batch['x']` arrives split as P(None, 'd')", "NamedSharding(mesh, P('d')))",
        ),
    ],
)  # fmt: skip
def test_exchanged_arguments(fun: Any, args: Any, title: str, remedy: str) -> None:
    (finding,) = found(KIND, fun, *args, target="cpu:8")
    assert finding.title.startswith(title)
    assert "needs another sharding: each execution exchanges it over" in finding.title
    assert remedy in finding.remedy
    assert finding.frames[0].file == __file__
    assert 0 < finding.share <= 1


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (attention, (BY_HEAD, BY_HEAD, BY_HEAD, PROJECTION)),
        (lambda x: jnp.tanh(on(x, None, "d")).sum() + jnp.sin(x).sum(), (ROWS,)),  # used in both
        (
            lambda x, w: on(jnp.tanh(x @ w), None, "d") * 2,
            (ROWS, array((256, 256))),
        ),  # a value, such as tokens of experts
        (lambda x, w: x @ w, (ROWS, array((256, 256), "d"))),  # gathered weights
        (lambda x: jnp.tanh(on(x, None, None)), (ROWS,)),
    ],
)
def test_other_exchanges(fun: Any, args: Any) -> None:
    assert not all_found(KIND, fun, *args, target="cpu:8")


def test_the_proof_splits_the_other_dimension() -> None:
    (finding,) = found(KIND, attention, BY_HEAD, BY_PLACE, BY_HEAD, PROJECTION, target="cpu:8")
    proof = finding.prove(run=True)
    assert proof.values in ("equal results", "results agree within 1e-04")
    assert proof.compiled is not None
    opcodes = [each.opcode for each in proof.compiled.module().instructions()]
    assert "all-to-all" not in opcodes


def test_the_time_of_an_exchange_that_a_gpu_starts() -> None:
    """The kernel has another name than the start of the exchange."""
    (finding,) = recorded("experts_split_by_features", GPUS).findings(kinds=[KIND])
    assert finding.instructions[0].startswith("all-to-all-start")
    assert finding.share > 0.1


@pytest.mark.parametrize("fun", [lambda w, x: x @ on(w, None, "m", mesh=DM)])
def test_the_gain_has_the_kernels_that_move_values_for_the_exchange(fun: Any) -> None:
    args = array((1024, 2048), "m", mesh=DM), array((64, 1024), "d", mesh=DM)
    (finding,) = found(KIND, fun, *args, target="cpu:8", roofs=peak("gpu:h100:8"))
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1)


def cached(q: Any, k: Any, v: Any) -> Any:
    k, v = (on(each, "d", None, "m", mesh=DM) for each in (k, v))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k)), v)


HEADS, PLACES = (
    array((8, n, 16, 64), "d", *s, mesh=DM, dtype=jnp.bfloat16) for n, s in ((4, (None, "m")), (1024, "m"))
)


@pytest.mark.parametrize(
    ("fun", "args", "target"),
    [
        (cached, (HEADS, PLACES, PLACES), "cpu:8"),  # in float32, to which two kernels convert
        pytest.param(cached, (HEADS, PLACES, PLACES), GPUS, marks=needs_gpu),  # the product needs an order in either case
        pytest.param(
            lambda x, w: jnp.tanh(jnp.sin(on(x, "d")) @ w),  # without the exchange, the product's kernel computes the sine
            (array((4096, 512), None, "d"), array((512, 1024))), GPUS, marks=needs_gpu,
        ),
    ],
)  # fmt: skip
def test_the_gain_has_the_kernels_behind_the_exchange(fun: Any, args: Any, target: str) -> None:
    for finding in found(KIND, fun, *args, target=target, roofs=peak(GPUS)):
        assert finding.gain_s == pytest.approx(finding.prove(run=False).gain_s, rel=0.1)
        assert finding.share > 0.1


@needs_tpu
@pytest.mark.slow
def test_arguments_that_a_tpu_copies_in_slices() -> None:
    """libtpu copies one of the weights in slices, which a custom call joins."""

    def experts(up: Any, down: Any, x: Any) -> Any:
        up, down = (on(each, "d") for each in (up, down))
        return jnp.einsum("ecf,efd->ecd", jax.nn.silu(jnp.einsum("ecd,edf->ecf", x, up)), down)

    shapes = ((16, 1024, 1536), (16, 1536, 1024))
    args = (
        *(array(shape, None, "d", dtype=jnp.bfloat16) for shape in shapes),
        array((16, 256, 1024), "d", dtype=jnp.bfloat16),
    )
    findings = found(KIND, experts, *args, target="tpu:v5e:2x4")
    assert sorted(each.title[:6] for each in findings) == ["`down`", "`up` a"]


def used_late(w: Any, x: Any, mask: Any) -> Any:
    """The exchange of a small mask runs beside the products."""
    h = jax.nn.relu(x @ w["a"]) @ w["b"]
    return h * on(mask, "d").mean(1, keepdims=True)


@needs_gpu
def test_an_exchange_beside_longer_work_is_silent() -> None:
    w = {"a": array((1024, 4096)), "b": array((4096, 1024))}
    args = w, array((4096, 1024), "d"), array((4096, 16), None, "d")
    assert not all_found(KIND, used_late, *args, target="gpu:h100:8")
    (finding,) = all_found(KIND, used_late, *args, target="cpu:8")  # without links, its time is unknown
    assert "`mask`" in finding.title


def test_a_function_that_constrains_for_several_lines_is_named_with_its_caller() -> None:
    def once(x: Any) -> Any:
        return jnp.tanh(on(x, None, "d"))

    def twice(x: Any) -> Any:
        return once(x) + on(jnp.ones(x.shape), None, "d")

    inner = on.__code__.co_firstlineno + 1
    (alone,) = found(KIND, once, ROWS, target="cpu:8")
    assert f"its use at test_resharded_argument.py:{inner} needs" in alone.title
    (finding,) = found(KIND, twice, ROWS, target="cpu:8")
    line = once.__code__.co_firstlineno + 1
    assert (
        f"its use at test_resharded_argument.py:{line} (through test_resharded_argument.py:{inner}) needs"
        in finding.title
    )
    assert finding.frames[0].line == line


def grouped(w: Any, x: Any) -> Any:
    """Both weights are exchanged, one of them beside the product with the other."""
    first, second = (on(each, "d") for each in w)
    return on(jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", x, first)), second), "d")


@needs_gpu
def test_the_gain_is_what_the_schedule_loses() -> None:
    w = [array(shape, None, "d", dtype=jnp.bfloat16) for shape in ((8, 1024, 4096), (8, 4096, 1024))]
    findings = found(KIND, grouped, w, array((8, 512, 1024), "d", dtype=jnp.bfloat16), target="gpu:h100:8")
    assert len(findings) == 2
    for finding in findings:
        assert finding.gain_s == pytest.approx(finding.prove(run=False).gain_s, rel=0.1)
