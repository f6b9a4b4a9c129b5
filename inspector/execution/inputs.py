"""Inputs of a run: the user's arrays, checked against the program, or values made from shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inspector.compilation.program import Argument, Program
from inspector.errors import ExecutionError

_SEED = 0


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
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

    def of_replica(self, replica: int) -> np.ndarray:
        """What one replica gets."""
        return self.value[replica] if self.per_replica else self.value


def given_inputs(
    program: Program, args: Sequence[Any], kwargs: Mapping[str, Any], num_replicas: int = 1
) -> tuple[Input, ...]:
    """The user's arguments as inputs. A ShapeDtypeStruct among them gets a made value.

    Args:
      program: what takes them.
      args: positional arguments, static ones left out.
      kwargs: keyword arguments.
      num_replicas: copies that run together; with more than one, an array may have a leading axis
        of that size with a value for each.

    Raises:
      ExecutionError: another number of arrays, another shape, or values that do not convert.
    """
    leaves, tree = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
    if len(leaves) != len(program.arguments):
        raise ExecutionError(
            f"{program.name} takes {len(program.arguments)} arrays"
            f" ({', '.join(a.path for a in program.arguments[:8])}{', ...' if len(program.arguments) > 8 else ''}), got"
            f" {len(leaves)}. Pass the arguments that it was lowered with, static ones left out."
        )
    if program.in_tree is not None and tree != program.in_tree:
        raise ExecutionError(
            f"{program.name} was lowered for arguments of the structure {program.in_tree}, got {tree}. Pass the same"
            " pytrees that it was lowered with, static arguments left out."
        )
    pairs = [(a, leaf) for a, leaf in zip(program.arguments, leaves, strict=True) if a.parameter is not None]
    return tuple(_input(argument, leaf, num_replicas, index) for index, (argument, leaf) in enumerate(pairs))


def made_inputs(program: Program) -> tuple[Input, ...]:
    """Values for every parameter: small normal numbers, zeros for integers, False, a fixed random key."""
    kept = [a for a in program.arguments if a.parameter is not None]
    return tuple(Input(a, _made(a, index), made=True) for index, a in enumerate(kept))


def _input(argument: Argument, leaf: Any, num_replicas: int, index: int) -> Input:
    if isinstance(leaf, jax.ShapeDtypeStruct) or not hasattr(leaf, "__array__") and hasattr(leaf, "dtype"):
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
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    try:
        value = np.asarray(leaf)
        dtype = np.dtype(np.uint32) if _is_key(argument) else jnp.dtype(argument.dtype)
        if isinstance(leaf, (bool, int, float, complex)) or value.dtype == dtype:
            return value.astype(dtype)
    except (TypeError, ValueError) as e:
        raise ExecutionError(
            f"{argument.path} is a {type(leaf).__name__}, expected an array of {argument.dtype}: {e}"
        ) from e
    canonical = jax.dtypes.canonicalize_dtype(value.dtype)
    if canonical == dtype:
        return value.astype(dtype)
    raise ExecutionError(
        f"{argument.path} has dtype {value.dtype}, but the program was lowered for {argument.dtype}. Convert it"
        f" (x.astype('{argument.dtype}')), or lower the function for {value.dtype}."
    )


def _made(argument: Argument, index: int) -> np.ndarray:
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
