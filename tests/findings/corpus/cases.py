"""The form of a program of the corpus: where it is recorded, the mistake that is planted in it, and further mistakes.

All of it is written down before the program is examined. Corrections have a comment at the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.findings.sharded import Program, mesh_of

CPU, TPU, GPU = "cpu", "tpu:v5e:1x1", "gpu:h100:1"
CPUS, TPUS, GPUS = "cpu:8", "tpu:v5e:2x4", "gpu:h100:8"
ONE = (CPU, TPU, GPU)
EIGHT = (CPUS, TPUS, GPUS)

BF16, F16, F32, I32, U8 = jnp.bfloat16, jnp.float16, jnp.float32, jnp.int32, jnp.uint8
DATA_MODEL = mesh_of((2, 4), ("data", "model"))
DATA = mesh_of((8,), ("data",))


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A program with or without a mistake.

    Attributes:
      build: returns the function and its arguments.
      targets: the targets for which it is recorded.
      planted: the kind of the mistake; "" for none.
      on: the targets on which `planted` is a mistake.
      also: further mistakes by kind, with their targets. They do not count as planted, and may be found or not.
      resembles: the kind of which it has no mistake, although it is similar to programs with one.
      x64: whether it is traced with 64-bit types.
    """

    build: Callable[[], Program]
    targets: tuple[str, ...]
    planted: str
    on: tuple[str, ...]
    also: Mapping[str, tuple[str, ...]]
    resembles: str
    x64: bool

    @property
    def name(self) -> str:
        return self.build.__name__


CASES: dict[str, Case] = {}
"""All programs by name, in the order of their definitions. Importing the modules beside this one fills it."""


def planted(
    kind: str,
    *targets: str,
    on: Iterable[str] | None = None,
    also: Mapping[str, tuple[str, ...]] | None = None,
    x64: bool = False,
) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    """Registers a program with a mistake: on all targets, or on those of `on` only."""
    return _registered(targets, kind, tuple(targets if on is None else on), also or {}, "", x64)


def silent(
    resembles: str, *targets: str, also: Mapping[str, tuple[str, ...]] | None = None, x64: bool = False
) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    """Registers a program that is similar to programs with a mistake of kind `resembles`, and has none."""
    return _registered(targets, "", (), also or {}, resembles, x64)


def clean(
    *targets: str, also: Mapping[str, tuple[str, ...]] | None = None
) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    """Registers a program without a mistake."""
    return _registered(targets, "", (), also or {}, "", x64=False)


def _registered(
    targets: tuple[str, ...],
    kind: str,
    on: tuple[str, ...],
    also: Mapping[str, tuple[str, ...]],
    resembles: str,
    x64: bool,
) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    def register(build: Callable[[], Program]) -> Callable[[], Program]:
        assert build.__name__ not in CASES, build.__name__
        CASES[build.__name__] = Case(build, targets, kind, on, also, resembles, x64)
        return build

    return register


def struct(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def split(
    *shape: int, spec: tuple[Any, ...] = (), mesh: AbstractMesh = DATA_MODEL, dtype: Any = jnp.float32
) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def constrained(x: jax.Array, *spec: Any, mesh: AbstractMesh = DATA_MODEL) -> jax.Array:
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def narrow(tree: Any, dtype: Any = jnp.bfloat16) -> Any:
    """Returns the tree with all arrays in a narrower type."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, dtype), tree)
