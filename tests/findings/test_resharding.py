"""Full rematerializations, and arrays that are resharded and back; programs that need both shardings."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.stages.findings import Finding
from tests.findings.sharded import D, Program, array, mesh_of

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


def found(program: Program) -> list[Finding]:
    findings = inspector.lower(program[0], *program[1]).compile(target="cpu:8").findings(kinds=["resharding"])
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
    assert proof.verdict == "proven"
    assert proof.compiled is not None
    assert "all-" not in proof.compiled.hlo  # as without the constraint
    assert finding.share > 0.01


def test_weights_that_are_gathered_either_way_are_no_gain() -> None:
    x = array((512, 512), "d")
    shares = [found((activated_product, (x, array((512, 512), *spec))))[0].share for spec in ((), ("d",), (None, "d"))]
    assert shares[0] > 4 * max(shares[1:])  # the exchange of `y` alone: the weights are gathered instead of `x`
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
    assert "with_sharding_constraint" in finding.remedy
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
        (swapped_once, (array((512, 256), "rows", mesh=FLAT), array((256, 512), None, "columns", mesh=FLAT))),
        (equal, (X, W)),
        (product_split_by_columns, (array((512, 256)), W)),
        (lambda x, w: x @ w, (X, W)),
    ],
)
def test_silent(program: Program) -> None:
    assert not found(program)


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


def test_without_the_constraint_nothing_is_communicated() -> None:
    fun = lambda x, w: jnp.cos(constrain(jnp.sin(constrain(jnp.tanh(x @ w), "d")) * 2, "d")) @ w.T  # noqa: E731
    assert not len(inspector.lower(fun, X, W).compile(target="cpu:8").collectives())
