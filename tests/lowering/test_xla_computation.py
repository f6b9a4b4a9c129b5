"""The documented behavior of `jax.xla_computation`, and unsupported arguments."""

from __future__ import annotations

import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from inspector import lower, xla_computation
from inspector.errors import ArgumentError, ParameterError, UnboundAxisError


def test_first_example() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.cos(x))

    text = xla_computation(f)(3.0).as_hlo_text()
    assert text.startswith("HloModule xla_computation_f")
    assert text.index("cosine(") < text.index("sine(", text.index("cosine(") + len("cosine("))
    assert "tuple(" in text.split("ROOT")[-1]


def test_duck_typed_argument() -> None:
    scalar = types.SimpleNamespace(shape=(), dtype=np.dtype(np.float32))
    with_value, without = (xla_computation(jnp.sin)(a).as_hlo_text() for a in (np.float32(3), scalar))
    assert with_value == without


def test_example_with_interesting_replica_groups() -> None:
    def g(x: jax.Array) -> tuple[jax.Array, ...]:
        return lax.psum(x, "i"), lax.psum(x, "j"), lax.psum(x, ("i", "j"))

    text = xla_computation(g, axis_env=[("i", 4), ("j", 2)])(5.0).as_hlo_text()
    for groups in ("{{0,2,4,6},{1,3,5,7}}", "{{0,1},{2,3},{4,5},{6,7}}", "{{0,1,2,3,4,5,6,7}}"):
        assert f"replica_groups={groups}" in text


def test_a_computation_has_its_three_representations() -> None:
    computation = xla_computation(jnp.sin)(1.0)
    assert computation.as_hlo_text().startswith("HloModule")
    assert computation.as_serialized_hlo_module_proto()[:1] == b"\n"
    assert computation.as_hlo_dot_graph().startswith("digraph")


def test_return_shape() -> None:
    _, shape = xla_computation(lambda x: {"a": x, "b": (x[0], None)}, return_shape=True)(jnp.ones((2, 3)))
    assert shape["a"].shape == (2, 3)
    assert shape["b"][0].dtype == np.float32
    assert shape["b"][1] is None


def test_tuple_args() -> None:
    computation = xla_computation(lambda x, y: x + y, tuple_args=True)(1.0, 2.0)
    assert [str(p) for p in computation.program_shape().parameter_shapes()] == ["(f32[], f32[])"]


@pytest.mark.parametrize("name", ["in_parts", "out_parts", "instantiate_const_outputs"])
def test_unsupported_arguments_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name}=.*cannot be applied.*Remove it"):
        xla_computation(jnp.sin, **{name: (None,)})


def test_unbound_axis_names_the_bound_ones() -> None:
    def f(x: jax.Array) -> jax.Array:
        return lax.psum(x, "q")

    with pytest.raises(
        UnboundAxisError, match=r"unbound axis name: q\. .* in f\. Bound axes: 'i', 'j'\. Give the axis"
    ):
        xla_computation(f, axis_env=[("i", 4), ("j", 2)])(1.0)


def test_a_non_array_argument() -> None:
    with pytest.raises(ArgumentError, match=r"d\['a'\] is 'text' of type str, not a valid JAX type.*static_argnums"):
        xla_computation(lambda d: d["n"])({"a": "text", "n": 1.0})


@pytest.mark.parametrize(
    ("axis_env", "message"),
    [
        ([("i",)], r"holds \('i',\)\. Expected pairs"),
        (["ij"], r"holds 'ij'\. Expected pairs"),
        ([("i", "4")], r"size '4'\. Expected an integer"),
        ([("i", -1)], r"size -1\. Expected a positive integer"),
        ([([], 2)], r"axis \[\], which cannot be hashed"),
    ],
)
def test_axis_env_that_is_none(axis_env: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        xla_computation(jnp.sin, axis_env=axis_env)(1.0)


def test_static_and_donated_positions_are_checked() -> None:
    with pytest.raises(ParameterError, match=r"static_argnums=\(2,\) names position 2, but f was called with 1"):
        xla_computation(named_f, static_argnums=2)(1.0)
    with pytest.raises(ParameterError, match="cannot intersect: position 0 is in both"):
        xla_computation(named_f, static_argnums=0, donate_argnums=0)(1.0)
    with pytest.raises(ParameterError, match=r"x of f is static and cannot be hashed: got \[1\] of"):
        xla_computation(named_f, static_argnums=0)([1])


def test_many_replicas_lower_as_fast_as_few() -> None:
    def f(x: jax.Array) -> jax.Array:
        return lax.psum(x, "i") + lax.axis_index("i")

    def seconds(replicas: int) -> float:
        start = time.process_time()
        xla_computation(f, axis_env=[("i", replicas)])(jnp.ones(8))
        return time.process_time() - start

    seconds(4)
    few, many = (min(seconds(n) for _ in range(5)) for n in (4, 4096))
    assert many < 3 * few + 0.02


def f(x: jax.Array) -> jax.Array:
    return x


named_f = f


def test_an_axis_of_size_zero() -> None:
    """JAX 0.4.30 lowered what does not exchange anything (`env_size_zero` of the recorded cases)."""
    text = xla_computation(lambda x: x, axis_env=[("i", 0)])(jnp.ones(2)).as_hlo_text()
    assert "f32[2]" in text
    with pytest.raises(ParameterError, match="axis 'i' the size 0, so no replica would run the program"):
        xla_computation(lambda x: jax.lax.psum(x, "i"), axis_env=[("i", 0)])(jnp.ones(2))
    with pytest.raises(ParameterError, match=r"Expected a positive integer, such as \('i', 4\)"):
        lower(lambda x: x, jnp.ones(2), axis_env=[("i", 0)])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("abc", "result is 'abc' of type str, which is not a valid JAX type. Return arrays"),
        ({"a": 1.0, "b": (b"x", None)}, r"result\['b'\]\[0\] is b'x' of type bytes"),
        (np.array(["a"]), "of type ndarray"),
        (len, "of type builtin_function_or_method"),
    ],
)
def test_results_must_be_arrays(result: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        xla_computation(lambda x: result)(1.0)
    with pytest.raises(TypeError, match=message):
        xla_computation(lambda x: result, axis_env=[("i", 2)], return_shape=True)(1.0)


@pytest.mark.parametrize("backend", ["unknown", "gpu", "cuda", "tpu"])
def test_backend_need_not_be_attached(backend: str) -> None:
    text = xla_computation(lambda x: lax.psum(jnp.sin(x), "i"), axis_env=[("i", 2)], backend=backend)(1.0).as_hlo_text()
    assert "all-reduce(" in text


def test_backend_without_a_rule_of_a_primitive() -> None:
    def kernel(x: jax.Array) -> jax.Array:
        return lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos)

    assert "sine(" in xla_computation(kernel, backend="cpu")(1.0).as_hlo_text()
    assert "cosine(" in xla_computation(kernel, backend="tpu")(1.0).as_hlo_text()
    with pytest.raises(NotImplementedError, match="cannot lower for this platform"):
        xla_computation(kernel, backend="unknown")(1.0)
