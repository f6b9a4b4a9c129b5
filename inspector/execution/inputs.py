"""Inputs of a run: the user's arrays, checked against the program, or values made from shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inspector.compilation.program import Argument, Program
from inspector.errors import ExecutionError

_SEED = 0


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Input:
    """The value of one program parameter.

    Attributes:
      argument: whose value it is.
      value: the array; with a leading axis of replicas when `per_replica`. Random keys are their
        uint32 key data.
      per_replica: every replica has its own.
      made: inspector made the value, because only a shape was given.
    """

    argument: Argument
    value: np.ndarray
    per_replica: bool = False
    made: bool = False

    def __repr__(self) -> str:
        each = ", one value a replica" if self.per_replica else ""
        return f"<Input {self.argument}{each}{', made by inspector' if self.made else ''}>"

    def of_replica(self, replica: int) -> np.ndarray:
        """What one replica gets."""
        return self.value[replica] if self.per_replica else self.value


def given_inputs(
    program: Program, args: Sequence[Any], kwargs: Mapping[str, Any], num_replicas: int = 1
) -> tuple[Input, ...]:
    """The user's arguments as inputs. A ShapeDtypeStruct among them gets a made value.

    Args:
      program: what takes them.
      args: positional arguments; static ones may be left out.
      kwargs: keyword arguments.
      num_replicas: copies that run together; with more than one, an array may have a leading axis
        of that size with a value for each.

    Raises:
      ExecutionError: another number of arrays, another shape, or values that do not convert.
    """
    leaves = _leaves(program, args, kwargs)
    pairs = [(a, leaf) for a, leaf in zip(program.arguments, leaves, strict=True) if a.parameter is not None]
    return tuple(_input(argument, leaf, num_replicas, index) for index, (argument, leaf) in enumerate(pairs))


def _leaves(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """The value of each of the program's arguments."""
    import jax

    if program.binding is not None:
        leaves = program.binding.leaves(args, kwargs)
    else:
        leaves = jax.tree_util.tree_leaves((tuple(args), dict(kwargs)))
    if len(leaves) != len(program.arguments):
        raise ExecutionError(
            f"{program.name} takes {len(program.arguments)} arrays"
            f" ({', '.join(a.path for a in program.arguments[:8])}{', ...' if len(program.arguments) > 8 else ''}), got"
            f" {len(leaves)}. Pass the arguments that it was lowered with, static ones left out."
        )
    return leaves


def made_inputs(program: Program) -> tuple[Input, ...]:
    """Values for every parameter: small normal numbers, zeros for integers, False, a fixed random key."""
    kept = [a for a in program.arguments if a.parameter is not None]
    return tuple(Input(a, _made(a, index), made=True) for index, a in enumerate(kept))


def _input(argument: Argument, leaf: Any, num_replicas: int, index: int) -> Input:
    import jax

    if hasattr(leaf, "__jax_array__"):
        leaf = leaf.__jax_array__()
    if isinstance(leaf, jax.ShapeDtypeStruct) or (not hasattr(leaf, "__array__") and hasattr(leaf, "dtype")):
        _check_stand_in(argument, leaf)
        return Input(argument, _made(argument, index), made=True)
    value = _array(argument, leaf)
    expected = _physical_shape(argument)
    if value.shape == expected:
        return Input(argument, value)
    if num_replicas > 1 and value.shape == (num_replicas, *expected):
        return Input(argument, value, per_replica=True)
    every = f", or {(num_replicas, *expected)} with a value for each replica" if num_replicas > 1 else ""
    raise ExecutionError(f"{argument.path} has shape {value.shape}, expected {expected}{every}.")


def _array(argument: Argument, leaf: Any) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    if _is_key(argument) or _holds_keys(leaf):
        return _key_data(argument, leaf)
    dtype = jnp.dtype(argument.dtype)
    try:
        value = np.asarray(leaf)
        if value.dtype.kind in "OSUMm":
            raise TypeError("it holds no numbers")
        if type(leaf) in (bool, int, float, complex):
            return _scalar(argument, leaf, dtype)
        if dtype in (value.dtype, jax.dtypes.canonicalize_dtype(value.dtype)):
            return value.astype(dtype, copy=False)
    except (TypeError, ValueError, OverflowError) as e:
        raise ExecutionError(
            f"{argument.path} is a {type(leaf).__name__}, expected an array of {argument.dtype}: {e}"
        ) from e
    except RuntimeError as e:  # a deleted array, or one that lies on other processes' devices
        raise ExecutionError(
            f"{argument.path} cannot be read: {e} An array whose buffer was donated is gone: make it anew, or give"
            " no arguments at all to run on made inputs."
        ) from e
    raise ExecutionError(
        f"{argument.path} has dtype {value.dtype}, but the program was lowered for {argument.dtype}. Convert it"
        f" (x.astype('{argument.dtype}')), or lower the function for {value.dtype}."
    )


def _scalar(argument: Argument, leaf: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """A Python number, when it has the program's kind or a narrower one and fits."""
    import jax.numpy as jnp

    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    kind = (bool, int, float, complex).index(type(leaf))
    if not any(jnp.issubdtype(dtype, k) for k in kinds[kind : kind + 1 if kind == 0 else None]):
        raise ExecutionError(
            f"{argument.path} is the {type(leaf).__name__} {leaf!r}, but the program was lowered for {argument.dtype}."
            f" Pass such a number, or lower the function for {leaf!r}."
        )
    value = np.asarray(leaf).astype(dtype)
    if jnp.issubdtype(dtype, jnp.integer) and int(value) != leaf:
        raise ExecutionError(f"{argument.path} is {leaf!r}, which {argument.dtype} cannot hold.")
    return value


def _key_data(argument: Argument, leaf: Any) -> np.ndarray:
    """The data of random keys, which is what the compiled program takes."""
    import jax

    value = np.asarray(jax.random.key_data(leaf)) if _holds_keys(leaf) else leaf
    wanted = argument.dtype if _is_key(argument) else f"{argument.dtype}, no random keys"
    got = str(leaf.dtype) if hasattr(leaf, "dtype") else type(leaf).__name__
    is_data = _is_key(argument) and isinstance(value, (np.ndarray, jax.Array)) and value.dtype == np.uint32
    if not is_data or (_holds_keys(leaf) and got != argument.dtype):
        raise ExecutionError(f"{argument.path} is {got}, expected {wanted}. Make keys with jax.random.key.")
    return np.asarray(value)


def _holds_keys(leaf: Any) -> bool:
    import jax
    import jax.numpy as jnp

    return isinstance(leaf, jax.Array) and bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _check_stand_in(argument: Argument, leaf: Any) -> None:
    import jax
    import jax.numpy as jnp

    got = f"{leaf.dtype}{list(leaf.shape)}"
    expected = f"{argument.dtype}{list(argument.shape)}"
    extended = jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    dtype = leaf.dtype if extended else jax.dtypes.canonicalize_dtype(leaf.dtype)
    if tuple(leaf.shape) != argument.shape or str(dtype) != argument.dtype:
        raise ExecutionError(f"{argument.path} stands for {got}, but the program was lowered for {expected}.")


def _made(argument: Argument, index: int) -> np.ndarray:
    import jax.numpy as jnp

    shape = _physical_shape(argument)
    if _is_key(argument):
        return np.zeros(shape, np.uint32)
    dtype = jnp.dtype(argument.dtype)
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.random.default_rng((_SEED, index)).normal(scale=0.02, size=shape).astype(dtype)
    return np.zeros(shape, dtype)


def _is_key(argument: Argument) -> bool:
    return argument.dtype.startswith("key<")


def _physical_shape(argument: Argument) -> tuple[int, ...]:
    """The shape that the compiled program takes: key data has trailing words."""
    if not _is_key(argument):
        return argument.shape
    implementation = argument.dtype.removeprefix("key<").removesuffix(">")
    words = {"fry": 2, "rbg": 4, "urbg": 4}.get(implementation)
    if words is None:
        raise ExecutionError(
            f"{argument.path} holds random keys of the implementation {implementation!r}, whose key data inspector"
            " does not know. Use one of JAX's own: threefry2x32, rbg, unsafe_rbg."
        )
    return (*argument.shape, words)
