"""Inputs of a run: the user's arrays against the program, or made ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import inspector
from inspector.compilation.program import Program
from inspector.errors import ExecutionError
from inspector.execution.inputs import given_inputs, made_inputs


def program(fun: Any, *args: Any, **settings: Any) -> Program:
    return inspector.lower(fun, *args, **settings).program


def identity(x: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf + 0 if leaf.dtype != jnp.bool_ else ~leaf, x)


def one(dtype: Any, value: Any, shape: tuple[int, ...] = ()) -> np.ndarray:
    """Returns the input of a program lowered for `dtype[shape]` for `value`."""
    (given,) = given_inputs(program(identity, jax.ShapeDtypeStruct(shape, dtype)), (value,), {})
    assert not given.made
    return given.value


F32_2 = jax.ShapeDtypeStruct((2,), jnp.float32)


def test_a_wrong_number_of_arrays_lists_the_expected_ones() -> None:
    p = program(lambda params, x: params["w"] @ x, {"w": jnp.ones((3, 2))}, jnp.ones(2))
    with pytest.raises(ExecutionError, match=r"takes 2 arrays \(params\['w'\], x\), got 1\. Pass the arguments"):
        given_inputs(p, ({"w": jnp.ones((3, 2))},), {})


def test_another_structure_of_as_many_arrays_is_refused() -> None:
    p = program(lambda a: a["x"] - a["y"], {"x": F32_2, "y": F32_2})
    with pytest.raises(ExecutionError, match="was lowered for arguments of the structure"):
        given_inputs(p, ([np.ones(2, np.float32)] * 2,), {})


def test_a_wrong_shape_names_the_path_and_both_shapes() -> None:
    p = program(lambda params: params["layers"][1], {"layers": [F32_2, F32_2]})
    bad = {"layers": [np.zeros(2, np.float32), np.zeros((2, 1), np.float32)]}
    with pytest.raises(ExecutionError, match=r"params\['layers'\]\[1\] has shape \(2, 1\), expected \(2,\)\.$"):
        given_inputs(p, (bad,), {})


def test_a_wrong_dtype_names_the_path_and_the_remedy() -> None:
    p = program(lambda x, *, scale: x * scale, F32_2, kwargs={"scale": 2.0})
    with pytest.raises(ExecutionError, match=r"x has dtype int32, but .* lowered for float32\. Convert .*'float32'"):
        given_inputs(p, (np.zeros(2, np.int32),), {"scale": 1.0})
    with pytest.raises(ExecutionError, match="scale is a str, expected an array of float32"):
        given_inputs(p, (np.zeros(2, np.float32),), {"scale": "2"})


def test_dropped_arguments_are_not_inputs() -> None:
    p = program(lambda a, b, c: a + c, 1.0, jnp.ones(3), 2.0)
    given = given_inputs(p, (1.0, "anything", 5.0), {})
    assert [(g.argument.path, float(g.value)) for g in given] == [("a", 1.0), ("c", 5.0)]


def test_values_for_each_replica_have_a_leading_axis() -> None:
    p = program(lambda x: jax.lax.psum(x, "i"), F32_2, axis_env=[("i", 3)])
    every, each = np.zeros(2, np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    (shared,) = given_inputs(p, (every,), {}, num_replicas=3)
    assert not shared.per_replica
    (split,) = given_inputs(p, (each,), {}, num_replicas=3)
    assert split.per_replica
    np.testing.assert_array_equal(split.of_replica(2), [4, 5])
    message = r"x has shape \(4, 2\), expected \(2,\), or \(3, 2\) with one value per replica\."
    with pytest.raises(ExecutionError, match=message):
        given_inputs(p, (np.zeros((4, 2), np.float32),), {}, num_replicas=3)
    with pytest.raises(ExecutionError, match=r"expected \(2,\)\."):
        given_inputs(p, (each,), {}, num_replicas=1)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.int4, jnp.uint4, jnp.float8_e4m3fn, jnp.bool_, jnp.complex64])
def test_small_and_odd_dtypes_keep_their_values(dtype: Any) -> None:
    value = jnp.asarray([0, 1, 1], dtype)
    got = one(dtype, value, (3,))
    assert got.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(got.astype(np.complex64), [0, 1, 1])
    from_numpy = one(dtype, np.asarray([1, 0, 1]).astype(jnp.dtype(dtype)), (3,))
    np.testing.assert_array_equal(from_numpy.astype(np.complex64), [1, 0, 1])


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(jnp.float32, 2.5), (jnp.float32, 2), (jnp.bfloat16, 2.5), (jnp.int32, -7), (jnp.int8, 127), (jnp.bool_, True), (jnp.complex64, 1 + 2j)],
)  # fmt: skip
def test_python_numbers_of_the_kind_are_taken(dtype: Any, value: Any) -> None:
    got = one(dtype, value)
    assert got.dtype == jnp.dtype(dtype)
    assert got.astype(np.complex64) == value


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        (jnp.int32, 2.5, "x is the float 2.5, but the program was lowered for int32"),
        (jnp.int32, True, "x is the bool True"),
        (jnp.bool_, 1, "x is the int 1"),
        (jnp.float32, 1j, "x is the complex 1j"),
        (jnp.int8, 300, "int8"),
        (jnp.uint8, -1, "uint8"),
        (jnp.int32, 2**40, "int32"),
        (jnp.int32, np.float64(2.5), "x has dtype float64"),
        (jnp.float32, None, "takes 1 array "),
    ],
)
def test_numbers_that_would_lose_their_value_are_refused(dtype: Any, value: Any, words: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        one(dtype, value)
    assert words in str(caught.value)


def test_numpys_wide_types_narrow_as_jax_narrows_them() -> None:
    value = np.linspace(0, 1, 3)
    assert not jax.config.jax_enable_x64
    np.testing.assert_array_equal(one(jnp.float32, value, (3,)), np.asarray(jnp.asarray(value)))
    assert one(jnp.int32, np.arange(3), (3,)).dtype == np.int32
    with pytest.raises(ExecutionError, match="has dtype float64"):
        one(jnp.bfloat16, value, (3,))


def test_with_x64_wide_types_stay_wide() -> None:
    with jax.enable_x64(True):
        assert one(jnp.float64, np.linspace(0, 1, 3), (3,)).dtype == np.float64


def test_random_keys_of_both_styles() -> None:
    draw = program(lambda key: jax.random.normal(key, (2,)), jax.random.key(0))
    (given,) = given_inputs(draw, (jax.random.key(7),), {})
    np.testing.assert_array_equal(given.value, jax.random.key_data(jax.random.key(7)))
    (raw,) = given_inputs(draw, (jax.random.PRNGKey(7),), {})
    np.testing.assert_array_equal(raw.value, given.value)
    old = program(lambda key: jax.random.normal(key, (2,)), jax.random.PRNGKey(0))
    (given,) = given_inputs(old, (jax.random.PRNGKey(7),), {})
    assert given.value.dtype == np.uint32
    many = program(jax.vmap(jax.random.bits), jax.random.split(jax.random.key(0, impl="rbg"), 3))
    keys = jax.random.split(jax.random.key(1, impl="rbg"), 3)
    (given,) = given_inputs(many, (keys,), {})
    np.testing.assert_array_equal(given.value, jax.random.key_data(keys))


def test_keys_and_other_arrays_are_not_interchangeable() -> None:
    draw = program(lambda key: jax.random.bits(key), jax.random.key(0))
    with pytest.raises(ExecutionError, match=r"key is key<rbg>, expected key<fry>\. Create keys with jax\.random\.key"):
        given_inputs(draw, (jax.random.key(0, impl="rbg"),), {})
    with pytest.raises(ExecutionError, match="key is float32, expected key<fry>"):
        given_inputs(draw, (jnp.ones(2),), {})
    with pytest.raises(ExecutionError, match="key is int, expected key<fry>"):
        given_inputs(draw, (3,), {})
    old = program(lambda key: jax.random.bits(key), jax.random.PRNGKey(0))
    with pytest.raises(ExecutionError, match="key is key<fry>, expected uint32, not random keys"):
        given_inputs(old, (jax.random.key(0),), {})


def test_shapes_stand_for_values_that_are_made() -> None:
    p = program(identity, {"a": F32_2, "b": jax.ShapeDtypeStruct((3,), jnp.int32)})
    given = given_inputs(p, ({"a": F32_2, "b": np.arange(3, dtype=np.int32)},), {})
    assert [g.made for g in given] == [True, False]
    assert given[0].value.shape == (2,)
    with pytest.raises(ExecutionError, match=r"x\['a'\] is the shape float32\[3\], but .* for float32\[2\]\."):
        given_inputs(p, ({"a": jax.ShapeDtypeStruct((3,), jnp.float32), "b": np.arange(3, dtype=np.int32)},), {})
    with pytest.raises(ExecutionError, match=r"is the shape int32\[2\], but .* for float32\[2\]\."):
        given_inputs(p, ({"a": jax.ShapeDtypeStruct((2,), jnp.int32), "b": np.arange(3, dtype=np.int32)},), {})


def test_objects_that_jax_takes_as_arrays_are_converted() -> None:
    class Weights:
        shape, dtype = (2,), np.dtype(np.float32)

        def __jax_array__(self) -> jax.Array:
            return jnp.array([3.0, 4.0])

    given = Weights()
    (weights,) = given_inputs(program(lambda w: jnp.asarray(w) + 1, given), (given,), {})
    assert not weights.made
    assert weights.value.tolist() == [3, 4]


def test_a_donated_array_is_refused_with_the_reason() -> None:
    gone = jnp.ones(2)
    gone.delete()
    with pytest.raises(ExecutionError, match=r"x cannot be read: .*deleted.* The buffer of a donated array is deleted"):
        one(jnp.float32, gone, (2,))


def test_made_values_are_the_same_each_time_and_of_each_type() -> None:
    specs = {
        "f": jax.ShapeDtypeStruct((64,), jnp.bfloat16),
        "i": jax.ShapeDtypeStruct((2,), jnp.int4),
        "c": jax.ShapeDtypeStruct((2,), jnp.complex64),
        "b": jax.ShapeDtypeStruct((), jnp.bool_),
    }
    p = program(lambda key, x: (jax.random.bits(key), identity(x)), jax.random.key(0), specs)
    first, again = made_inputs(p), made_inputs(p)
    assert all(g.made for g in first)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.value, b.value)
    made = {g.argument.path: g.value for g in first}
    assert made["key"].shape == (2,)
    assert made["x['f']"].dtype == ml_dtypes.bfloat16
    assert 0 < float(np.abs(made["x['f']"].astype(np.float32)).mean()) < 0.1
    assert made["x['i']"].dtype == ml_dtypes.int4
    assert not made["x['i']"].any()
    assert made["x['b']"].dtype == np.bool_
