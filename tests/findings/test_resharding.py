"""Full rematerializations, and arrays that are resharded and back; programs that need both shardings."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import Unavailable
from inspector.stages.findings import Finding
from tests.absent import needs_gpu, needs_tpu
from tests.findings.corpus.cases import TPUS
from tests.findings.recorded import GPU
from tests.findings.sharded import DM, D, Program, array, manual, mesh_of

CUBE = mesh_of((2, 2, 2), ("a", "b", "c"))
FLAT = mesh_of((2, 4), ("rows", "columns"))
X, W = array((512, 256), "d"), array((256, 256))


def constrain(x: Any, *spec: Any, mesh: Any = D) -> Any:
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def there_and_back(x: Any, w: Any) -> Any:
    y = constrain(jnp.tanh(x @ w), "d")
    y = constrain(y, None, "d")
    y = jnp.sin(y) * 2
    y = constrain(y, "d")
    return jnp.cos(y) @ w.T


def argument_there_and_back(x: Any, w: Any) -> Any:
    y = constrain(x, None, "d")
    y = constrain(jnp.exp(y) + 1, "d")
    return y @ w


def constrained_argument_there_and_back(x: Any, w: Any) -> Any:
    """The argument has a constraint to its own sharding, and two uses."""
    x = constrain(x, "d")
    y = constrain(x, None, "d")
    z = constrain(jnp.sin(x), None, "d")
    return constrain(y + z * 2, "d") @ w


def product_there_and_back(x: Any, w: Any) -> Any:
    y = x @ w
    y = constrain(y, None, "d")
    y = jnp.sin(y) * 2
    return constrain(y, "d")


def product_split_by_columns(x: Any, w: Any) -> Any:
    y = x @ constrain(w, None, "d")
    y = constrain(y, None, "d")
    y = jnp.sin(y)
    return constrain(y, "d")


def activated_product(x: Any, w: Any) -> Any:
    """The partitioner gathers `x` for the product, which has more bytes than `y`."""
    y = constrain(x @ w, None, "d")
    y = constrain(jax.nn.silu(y), "d")
    return y @ w.T


def gradient_there_and_back(x: Any, w: Any) -> Any:
    return jax.grad(lambda w: there_and_back(x, w).sum())(w)


def halves_joined_in_between(x: Any, w: Any) -> Any:
    """The halves of a rotary embedding are those of a dimension that is whole."""
    y = constrain(constrain(jnp.tanh(x @ w), "d"), None, "d")
    left, right = jnp.split(jnp.sin(y), 2, axis=1)
    return jnp.cos(constrain(jnp.concatenate([left - right, right + left], axis=1), "d")) @ w.T


def normalized_in_between(x: Any, w: Any) -> Any:
    """The mean of each row, which is whole in the first sharding."""
    y = constrain(constrain(jnp.tanh(x @ w), "d"), None, "d")
    y = y * jax.lax.rsqrt(jnp.square(y).mean(1, keepdims=True) + 1e-6)
    return jnp.cos(constrain(y, "d")) @ w.T


def columns_normalized_in_between(x: Any, w: Any) -> Any:
    """The mean of each column, for which the first sharding has no whole columns."""
    y = constrain(constrain(jnp.tanh(x @ w), "d"), None, "d")
    y = y * jax.lax.rsqrt(jnp.square(y).mean(0, keepdims=True) + 1e-6)
    return jnp.cos(constrain(y, "d")) @ w.T


def rows_joined_in_between(x: Any, w: Any) -> Any:
    """The halves are those of the split dimension, and are whole in the other sharding."""
    y = constrain(constrain(jnp.tanh(x @ w), "d"), None, "d")
    above, below = jnp.split(jnp.sin(y), 2, axis=0)
    return jnp.cos(constrain(jnp.concatenate([above - below, below + above], axis=0), "d")) @ w.T


def experts_there_and_back(x: Any, up: Any, down: Any) -> Any:
    """The backward pass goes the other way, and only it communicates: XLA for GPUs takes back what the forward pass changes."""

    def loss(up: Any, down: Any) -> Any:
        y = jax.nn.silu(jnp.einsum("ebd,edf->ebf", constrain(x, "rows", mesh=FLAT), up))
        y = constrain(y, mesh=FLAT) * 0.5
        y = constrain(y, "rows", mesh=FLAT)
        return jnp.square(constrain(jnp.einsum("ebf,efd->ebd", y, down), "rows", mesh=FLAT)).sum()

    return jax.grad(loss, (0, 1))(up, down)


def in_a_scan(x: Any, w: Any) -> Any:
    return jax.lax.scan(lambda c, _: (there_and_back(c, w), None), x, length=3)[0]


def copied(x: Any) -> Any:
    y = constrain(jnp.sin(x), "a", "b", "c", mesh=CUBE)
    return constrain(jnp.cos(y), None, None, ("c", "b", "a"), mesh=CUBE)


def copied_between_products(x: Any, w: Any) -> Any:
    y = constrain(x @ w, "a", "b", "c", mesh=CUBE)
    return constrain(jnp.tanh(y), None, None, ("c", "b", "a"), mesh=CUBE) @ w


def heads_and_back(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (constrain(jnp.sin(each), None, None, "d") for each in (q, k, v))
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), -1)
    return constrain(jnp.tanh(jnp.einsum("bhqk,bkhd->bqhd", scores, v)), None, "d")


def summed_between(x: Any, w: Any) -> Any:
    y = constrain(jnp.tanh(x), None, "d")
    y = constrain(y / y.sum(0, keepdims=True), "d")
    return y @ w


def returned_between(x: Any, w: Any) -> Any:
    y = constrain(jnp.tanh(x), None, "d")
    return constrain(jnp.sin(y), "d") @ w, y


def activation_there_and_back(x: Any, w: Any) -> Any:
    """A function of `jax.nn` in between, and a scalar."""
    y = constrain(x * 2, None, "d")
    y = constrain(jax.nn.silu(y) * w.mean(), "d")
    return y - 1


def swapped_once(x: Any, w: Any) -> Any:
    """The product is split like this already, so that only the second constraint changes it, in two exchanges."""
    y = constrain(x @ w, "rows", "columns", mesh=FLAT)
    return jnp.sin(constrain(jnp.tanh(y), "columns", "rows", mesh=FLAT))


def one_way(x: Any, w: Any) -> Any:
    return constrain(jnp.sin(constrain(x, "d")), None, "d") @ w


def equal(x: Any, w: Any) -> Any:
    return constrain(jnp.sin(constrain(constrain(x, "d") * 2, "d")), "d") @ w


def predator_and_prey(x: Any, y: Any) -> Any:
    """Both arrays are split along the rows from one iteration to the next."""

    def step(_: Any, state: Any) -> Any:
        x, y = (constrain(each, None, "d") for each in state)
        x, y = x + 0.1 * x * (1 - y), y + 0.1 * y * (x - 1)
        return constrain(x, "d"), constrain(y, "d")

    return jax.lax.fori_loop(0, 12, step, (x, y))


def layers_trained_with_a_detour(ws: Any, x: Any) -> Any:
    """A helper of the user's makes all constraints."""

    def layer(h: Any, w: Any) -> Any:
        y = constrain(h @ w, "d", None)
        y = constrain(y, None, "d")
        y = constrain(jnp.tanh(y) * 2, "d", None)
        return h + y @ w.T, None

    return jax.grad(lambda ws: jnp.mean(jax.lax.scan(jax.checkpoint(layer), x, ws)[0] ** 2))(ws)


def residual_in_the_other_sharding(x: Any, r: Any) -> Any:
    return constrain(jnp.tanh(constrain(x, None, "d")) + r, "d")


def exchanged(x: Any, split: int, concat: int) -> Any:
    return jax.lax.all_to_all(x, "d", split, concat, tiled=True)


def sent(x: Any, by: int) -> Any:
    return jax.lax.ppermute(x, "d", [(i, (i + by) % 8) for i in range(8)])


def activation_exchanged_and_back(x: Any, w: Any) -> Any:
    y = exchanged(x @ w, 1, 0)
    y = jax.nn.gelu(y) * jnp.linspace(0, 1, y.shape[1])
    return exchanged(y, 0, 1) @ w.T


def two_exchanged_and_back(x: Any, w: Any) -> Any:
    """The heads of two arrays, which are combined."""
    a, b = (exchanged(each.reshape(-1, 16, 16), 1, 0) for each in (x @ w, x - 1))
    return exchanged(jnp.where(a > 0, a, b * 2), 0, 1).reshape(x.shape)


def sent_and_back_in_a_scan(x: Any, w: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return sent(jnp.tanh(sent(c @ w, 1)) + 1, -1), None

    return jax.lax.scan(step, x, length=5)[0]


def exchanged_for_an_attention(x: Any, w: Any) -> Any:
    q = exchanged(x.reshape(-1, 16, 16), 1, 0)
    scores = jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, q))
    return exchanged(jnp.einsum("hqk,khd->qhd", scores, q), 0, 1)


def exchanged_for_a_sum_of_all_rows(x: Any, w: Any) -> Any:
    return exchanged(jnp.cumsum(exchanged(x, 1, 0), 0), 0, 1)


def exchanged_beside_another(x: Any, w: Any) -> Any:
    """`w` is where the exchange brings `x`."""
    return exchanged(jnp.tanh(exchanged(x, 1, 0)) + w, 0, 1)


def exchanged_twice(x: Any, w: Any) -> Any:
    return exchanged(jnp.tanh(exchanged(x, 1, 0)).reshape(64, 8, 32).swapaxes(1, 2), 2, 0)


def sent_on(x: Any, w: Any) -> Any:
    return sent(jnp.tanh(sent(x, 1)), 1)


def sent_without_the_last(x: Any, w: Any) -> Any:
    """The first device receives zeros."""
    there = [(i, i + 1) for i in range(7)]
    y = jnp.tanh(jax.lax.ppermute(x, "d", there))
    return jax.lax.ppermute(y, "d", [(target, source) for source, target in there])


def by_hand(fun: Any, spec: Any = None) -> Program:
    return manual(fun, (P("d"), spec or P()), P("d")), (X, array((256, 256), *(spec or ())))


def found(program: Program, target: str = "cpu:8") -> list[Finding]:
    findings = inspector.lower(program[0], *program[1]).compile(target=target).findings(kinds=["resharding"])
    assert not findings.unknown
    return [*findings, *findings.folded]


@pytest.mark.parametrize(
    "fun",
    [
        there_and_back,
        argument_there_and_back,
        activation_there_and_back,
        in_a_scan,
        product_there_and_back,
        gradient_there_and_back,
        halves_joined_in_between,
        normalized_in_between,
    ],
)
def test_there_and_back(fun: Any) -> None:
    (finding,) = found((fun, (X, W)))
    assert finding.title.startswith("f32[512, 256] is resharded at test_resharding.py:")
    assert finding.remedy.startswith("Remove the sharding constraint at test_resharding.py:")
    assert len(finding.instructions) >= 2
    assert finding.share > 0.01


@pytest.mark.parametrize("sizes", [(1024, 512, 64), (64, 512, 1024), (512, 512, 512)])
def test_an_operand_that_is_gathered_for_the_detour(sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    (finding,) = found((activated_product, (array((rows, inner), "d"), array((inner, columns)))))
    assert sum(name.startswith("all-") for name in finding.instructions) == 2  # besides kernels that only move values
    proof = finding.prove(run=False)
    assert proof.gain_bytes > 0  # its time is unknown
    assert proof.compiled is not None
    assert "all-" not in proof.compiled.hlo  # as without the constraint
    assert finding.share > 0.01


def test_weights_that_are_gathered_either_way_are_no_gain() -> None:
    x = array((512, 512), "d")
    shares = [found((activated_product, (x, array((512, 512), *spec))))[0].share for spec in ((), ("d",), (None, "d"))]
    assert shares[0] > 1.5 * max(shares[1:])  # the exchange of `y` alone: the weights are gathered instead of `x`
    small, large = array((64, 512), "d"), array((512, 1024), None, "d")
    assert not found((activated_product, (small, large)))  # the weights have more bytes than `x` and `y`


@pytest.mark.parametrize(
    "program",
    [
        (copied, (jax.ShapeDtypeStruct((16, 16, 16), jnp.float32),)),
        (copied_between_products, (array((16, 16, 16), mesh=CUBE), array((16, 16), mesh=CUBE))),
    ],
)
def test_full_rematerialization(program: Program) -> None:
    (finding,) = found(program)
    assert "from (a, b, c) to (-, -, c+b+a) at test_resharding.py:" in finding.title
    assert "XLA copies the whole array to every device" in finding.title
    assert finding.remedy == (
        "x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P('a', None, ('c', 'b'))))  # in between\n"
        "x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(None, None, ('c', 'b', 'a'))))"
    )
    assert len(finding.instructions) >= 3  # the gathers have the names of the operations behind the constraint
    assert finding.share > 0.01
    assert finding.gain_bytes == 16**3 * 4 * 7 // 8


@pytest.mark.parametrize(
    "program",
    [
        (heads_and_back, (array((2, 128, 8, 16), None, "d"),) * 3),
        (summed_between, (X, W)),
        (returned_between, (X, W)),
        (one_way, (X, W)),
        (rows_joined_in_between, (X, W)),
        (columns_normalized_in_between, (X, W)),
        (swapped_once, (array((512, 256), "rows", mesh=FLAT), array((256, 512), None, "columns", mesh=FLAT))),
        (equal, (X, W)),
        (product_split_by_columns, (array((512, 256)), W)),
        (lambda x, w: x @ w, (X, W)),
    ],
)
def test_silent(program: Program) -> None:
    assert not found(program)


def gathered_over_another_axis(x: Any, w: Any) -> Any:
    y = constrain(jax.nn.gelu(x @ w), "columns", mesh=FLAT)
    return constrain(y, None, "rows", mesh=FLAT) * 2


def copied_beside_a_detour(x: Any, w: Any) -> Any:
    """The same helper copies one array, and reshards another one there and back."""
    y = gathered_over_another_axis(x, w)
    z = constrain(jnp.sin(x), None, "columns", mesh=FLAT)
    return y, constrain(jnp.cos(z) * 2, "columns", mesh=FLAT) * 3


def detour_before_a_product(x: Any, w: Any) -> Any:
    """The product gathers its operand in either form."""
    z = constrain(jnp.sin(x), None, "columns", mesh=FLAT)
    z = constrain(jnp.cos(z) * 2, "columns", mesh=FLAT)
    return z @ z.T


LARGE = array((2048, 2048), "columns", mesh=FLAT), array((2048, 2048), mesh=FLAT)


@needs_gpu
def test_a_detour_of_the_backward_pass_is_between_the_lines_of_the_forward_pass() -> None:
    args = [array(shape, "rows", mesh=FLAT) for shape in ((4, 512, 256), (4, 256, 1024), (4, 1024, 256))]
    (finding,) = found((experts_there_and_back, tuple(args)), GPU)
    there, back = (experts_there_and_back.__code__.co_firstlineno + n for n in (5, 6))
    assert f"resharded at test_resharding.py:{there} and back at test_resharding.py:{back}," in finding.title
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.2)


@needs_gpu
def test_the_exchange_of_a_slice_behind_a_detour_is_no_way_back() -> None:
    """XLA removes the detour. The last rows are gathered in any case."""

    def last(x: Any, g: Any, w: Any) -> Any:
        def norm(x: Any) -> Any:
            wide = constrain(x, "d", None, None, mesh=DM).astype(jnp.float32)
            y = (wide - wide.mean(-1, keepdims=True)) * jax.lax.rsqrt((wide**2).mean(-1, keepdims=True))
            return constrain(y.astype(jnp.bfloat16) * g, "d", "m", None, mesh=DM)

        x = constrain(x + jnp.tanh(norm(x) @ w), "d", "m", None, mesh=DM)
        return constrain(norm(x)[:, -16:], "d", None, None, mesh=DM)

    shapes = ((8, 1024, 256), "d", "m"), ((256,),), ((256, 256),)
    args = tuple(array(*each, mesh=DM, dtype=jnp.bfloat16) for each in shapes)
    assert not found((last, args), "gpu:h100:8")


@needs_gpu
def test_the_proof_of_a_detour_by_hand_removes_its_permutes() -> None:
    (other,) = found(by_hand(activation_exchanged_and_back), "gpu:h100:8")
    assert isinstance(other.edits, Unavailable)  # between the exchanges, the shapes are others
    fun, args = by_hand(sent_and_back_in_a_scan)
    (finding,) = inspector.lower(fun, *args).compile(target="gpu:h100:8").findings(kinds=["resharding"])
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(finding.gain_s, rel=0.1)


@needs_gpu
@pytest.mark.parametrize("fun", [gathered_over_another_axis, detour_before_a_product])
def test_the_gain_is_that_of_the_proof_on_a_gpu(fun: Any) -> None:
    args = LARGE if fun is gathered_over_another_axis else LARGE[:1] * 2
    (finding,) = inspector.lower(fun, *args).compile(target="gpu:h100:8").findings(kinds=["resharding"])
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(finding.gain_s, rel=0.1)


def test_a_full_rematerialization_hides_no_detour_of_the_same_helper() -> None:
    findings = found((copied_beside_a_detour, LARGE))
    assert len(findings) == 2
    copied = sum("XLA copies the whole array" in each.title for each in findings)
    assert copied in {1, 2}  # XLA of JAX 0.12 copies on the way of the detour too
    assert sum("is resharded" in each.title for each in findings) == 2 - copied


@pytest.mark.parametrize("fun", [activation_there_and_back, constrained_argument_there_and_back])
def test_an_argument_is_not_to_arrive_in_the_sharding_of_a_detour(fun: Any) -> None:
    program = inspector.lower(fun, X, W).compile(target="cpu:8")
    assert [each.kind for each in program.findings(kinds=["resharding", "resharded-argument"])] == ["resharding"]


def test_the_proof_removes_the_constraint() -> None:
    for fun in (there_and_back, in_a_scan, gradient_there_and_back):
        (finding,) = found((fun, (X, W)))
        proof = finding.prove()
        assert proof.values in ("equal results", "results agree within 1e-04")
        assert proof.compiled is not None
        assert "all-to-all" not in proof.compiled.hlo


def constrained_again_on_the_way(x: Any, w: Any) -> Any:
    y = constrain(jnp.tanh(x @ w), "d")
    y = constrain(y, None, "d")
    y = jnp.sin(y) * 2
    y = constrain(y, None, "d")
    y = constrain(y, "d")
    return jnp.cos(y) @ w.T


def test_all_constraints_to_the_other_sharding_are_removed() -> None:
    (finding,) = found((constrained_again_on_the_way, (X, W)))
    first = constrained_again_on_the_way.__code__.co_firstlineno + 2
    assert finding.remedy == (
        f"Remove the sharding constraints at test_resharding.py:{first} and at test_resharding.py:{first + 2}."
    )
    proof = finding.prove()  # times of a busy machine prove nothing
    assert proof.values in ("equal results", "results agree within 1e-04")
    assert proof.compiled is not None
    assert "all-to-all" not in proof.compiled.hlo


def test_without_the_constraint_nothing_is_communicated() -> None:
    fun = lambda x, w: jnp.cos(constrain(jnp.sin(constrain(jnp.tanh(x @ w), "d")) * 2, "d")) @ w.T  # noqa: E731
    assert not len(inspector.lower(fun, X, W).compile(target="cpu:8").collectives())


@needs_gpu
@pytest.mark.parametrize(
    ("program", "count"),
    [
        ((predator_and_prey, (array((2048, 2048), "d"),) * 2), 6),  # also those in front of the loop
        ((layers_trained_with_a_detour, (array((4, 1024, 4096)), array((4096, 1024), "d"))), 6),
    ],
)
def test_the_gain_of_arrays_that_a_loop_carries_is_that_of_the_proof(program: Program, count: int) -> None:
    (finding,) = found(program, "gpu:h100:8")
    assert sum(name.startswith("all-to-all") for name in finding.instructions) == count
    proof = finding.prove()
    assert proof.verdict == "proven"
    assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.1)


@pytest.mark.parametrize(
    ("fun", "count"), [(activation_exchanged_and_back, 2), (two_exchanged_and_back, 3), (sent_and_back_in_a_scan, 2)]
)
def test_exchanges_by_hand_and_back(fun: Any, count: int) -> None:
    (finding,) = found(by_hand(fun))
    assert "at test_resharding.py:" in finding.title
    assert sum(name.startswith(("all", "collective", "ppermute")) for name in finding.instructions) == count


@needs_gpu
def test_the_gain_of_exchanges_by_hand_is_that_of_the_program_without_them() -> None:
    shapes = array((8 * 2048, 2048), "d"), array((2048, 2048))
    with_them, without = (
        inspector.lower(manual(fun, (P("d"), P()), P("d")), *shapes).compile(target="gpu:h100:8")
        for fun in (activation_exchanged_and_back, lambda x, w: jax.nn.gelu(x @ w) * jnp.linspace(0, 1, 2048) @ w.T)
    )
    (finding,) = with_them.findings(kinds=["resharding"])
    saved_s = with_them.roofline().total.least_s - without.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)


@pytest.mark.parametrize(
    "program",
    [
        by_hand(exchanged_for_an_attention),
        by_hand(exchanged_for_a_sum_of_all_rows),
        by_hand(exchanged_twice),
        by_hand(sent_on),
        by_hand(sent_without_the_last),
        (
            manual(exchanged_beside_another, (P("d"), P(None, "d")), P("d")),
            (array((512, 256), "d"), array((512, 256), None, "d")),
        ),
        (residual_in_the_other_sharding, (array((512, 256), "d"), array((512, 256), None, "d"))),
    ],
)
def test_silent_if_the_exchanges_are_needed(program: Program) -> None:
    assert not found(program)


@pytest.mark.slow
@needs_tpu
def test_no_more_memory_than_the_temporaries_take() -> None:
    """The copy of the whole array is in VMEM."""
    mesh = mesh_of((2, 4), ("data", "model"))

    def look_up(table: Any, tokens: Any, w: Any) -> Any:
        split = NamedSharding(mesh, P("data", "model"))
        return jnp.tanh(jax.lax.with_sharding_constraint(table[tokens], split)) @ w

    args = (
        array((8192, 1024), None, ("data", "model"), mesh=mesh, dtype=jnp.bfloat16), array((16, 512), "data", mesh=mesh, dtype=jnp.int32),
        array((1024, 1024), mesh=mesh, dtype=jnp.bfloat16),
    )  # fmt: skip
    compiled = inspector.lower(look_up, *args).compile(target=TPUS)
    finding, *_ = compiled.findings(kinds=["resharding"])
    assert "involuntary full rematerialization" in finding.title
    assert not isinstance(compiled.memory, Unavailable)
    assert 0 <= finding.gain_bytes <= compiled.memory.temp_bytes < 1 << 20


TWO = mesh_of((4, 2), ("d", "m"))
UP, DOWN = array((256, 1024), None, "m", mesh=TWO), array((1024, 256), "m", mesh=TWO)
ROWS = array((4096, 256), "d", mesh=TWO)


def constrained_hidden(up: Any, down: Any, x: Any) -> Any:
    h = constrain(jax.nn.gelu(x @ up), "d", mesh=TWO)
    return h @ down


def constrained_hidden_of_a_step(up: Any, down: Any, x: Any) -> Any:
    return jax.grad(lambda w: (constrained_hidden(*w, x) ** 2).mean())((up, down))


def constrained_hidden_of_layers(up: Any, down: Any, x: Any) -> Any:
    return jax.lax.scan(lambda x, w: (constrain(constrained_hidden(*w, x), "d", mesh=TWO), None), x, (up, down))[0]


STACKED = array((3, 256, 1024), None, None, "m", mesh=TWO), array((3, 1024, 256), None, "m", mesh=TWO)


@pytest.mark.parametrize(
    ("program", "weights", "target"),
    [
        (constrained_hidden, (UP, DOWN), "cpu:8"),
        (constrained_hidden_of_layers, STACKED, "cpu:8"),
        (constrained_hidden_of_a_step, (UP, DOWN), "cpu:8"),
        pytest.param(constrained_hidden_of_a_step, (UP, DOWN), "gpu:h100:8", marks=needs_gpu),
        pytest.param(constrained_hidden_of_a_step, (UP, DOWN), "tpu:v5e:2x4", marks=[needs_tpu, pytest.mark.slow]),
    ],
)
def test_a_constraint_between_split_products(program: Any, weights: Any, target: str) -> None:
    """GPUs and TPUs gather a weight for it, and only the backward pass is slower."""
    (finding,) = found((program, (*weights, ROWS)), target)
    assert finding.title.startswith("f32[4096, 1024] is constrained at test_resharding.py:")
    assert finding.title.endswith(
        " to be whole along m, although the products that make it and that use it are split along it."
    )
    assert finding.share > 0.01
    proof = finding.prove(run=False)
    assert not target.startswith("gpu") or proof.verdict == "proven"


@pytest.mark.parametrize("spec", [("d", "m"), (("d", "m"),), (None, "m")])
def test_constraints_that_keep_or_use_the_axis(spec: Any) -> None:
    """The hidden layer is split by columns, or by rows along the axis too, for which the weights are gathered on purpose."""

    def program(up: Any, down: Any, x: Any) -> Any:
        return constrain(jax.nn.gelu(x @ up), *spec, mesh=TWO) @ down

    assert not [each for each in found((program, (UP, DOWN, ROWS))) if "to be whole" in each.title]


@pytest.mark.parametrize(
    "weights",
    [
        (UP, array((1024, 256), mesh=TWO)),
        (array((256, 1024), mesh=TWO), DOWN),
        (UP, array((1024, 256), None, "m", mesh=TWO)),
    ],
)
def test_constraints_beside_products_that_are_not_split(weights: Any) -> None:
    others = found((constrained_hidden, (*weights, ROWS)))
    assert not [each for each in others if "to be whole" in each.title]


def gradient_of_a_detour(up: Any, down: Any, x: Any) -> Any:
    """The products are split, so that only the backward pass of GPUs and TPUs exchanges, and only once."""

    def loss(up: Any, down: Any) -> Any:
        h = constrain(jax.nn.gelu(x @ up), "d", mesh=TWO)
        return ((constrain(h * 0.5, "d", "m", mesh=TWO) @ down) ** 2).sum()

    return jax.grad(loss, (0, 1))(up, down)


@pytest.mark.parametrize(
    "target",
    [
        "cpu:8",
        pytest.param("gpu:h100:8", marks=needs_gpu),
        pytest.param("tpu:v5e:2x4", marks=[needs_tpu, pytest.mark.slow]),
    ],
)
def test_a_detour_of_a_product_that_is_split(target: str) -> None:
    (finding,) = found((gradient_of_a_detour, (UP, DOWN, ROWS)), target)
    assert finding.title.startswith("f32[4096, 1024] is resharded at test_resharding.py:")
    assert finding.share > 0.05
