"""Programs for engine tests, lowered by JAX alone, so that engines are tested without `lowering/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.sharding_impls import UnspecifiedValue
from jax.sharding import AbstractMesh, NamedSharding

from inspector.compilation.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.hlo.mesh import Mesh


def lower(fun: Callable[..., Any], *args: Any, **jit: Any) -> Program:
    """A `Program` for the CPU, with the build options that JAX itself would use."""
    lowered = jax.jit(fun, **jit).trace(*args).lower(lowering_platforms=("cpu",))
    return as_program(lowered, mesh_of(args))


def as_program(lowered: Any, mesh: Mesh | None = None) -> Program:
    """A `Program` from JAX's `Lowered`."""
    compile_args = lowered._lowering.compile_args
    kept = sorted(compile_args["kept_var_idx"])
    infos = jax.tree.leaves(lowered.args_info)
    arguments = tuple(
        Argument(f"x{i}", tuple(a.shape), _name(a.dtype), kept.index(i) if i in kept else None, a.donated)
        for i, a in enumerate(infos)
    )
    results = tuple(
        Result("", tuple(r.shape), _name(r.dtype)) for r in jax.tree.leaves(lowered.out_info)
    )
    tokens = (False,) * len(compile_args["ordered_effects"])
    options = Options(
        num_replicas=1,
        num_partitions=compile_args["num_devices"],
        use_spmd_partitioning=True,
        use_shardy_partitioner=True,
        allow_spmd_sharding_propagation_to_parameters=tokens + _free(compile_args["in_shardings"]),
        allow_spmd_sharding_propagation_to_output=tokens + _free(compile_args["out_shardings"]),
    )
    callbacks = tuple(compile_args["host_callbacks"])
    module = lowered._lowering.stablehlo()
    return Program(
        name=str(module.operation.attributes["sym_name"]).strip('"'),
        module=mlir.module_to_bytecode(module),
        arguments=arguments,
        results=results,
        options=options,
        mesh=mesh,
        platform="cpu",
        host_callbacks=bool(callbacks),
        keepalive=(callbacks, compile_args["keepalive"]) if callbacks else None,
    )


def mesh_of(args: Any) -> Mesh | None:
    """The abstract mesh of the first sharded argument."""
    for a in jax.tree.leaves(args):
        sharding = getattr(a, "sharding", None)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
            return Mesh(tuple(sharding.mesh.axis_names), tuple(sharding.mesh.axis_sizes), "partition")
    return None


def _free(shardings: Any) -> tuple[bool, ...]:
    return tuple(isinstance(s, UnspecifiedValue) for s in shardings)


def _name(dtype: Any) -> str:
    return str(dtype) if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else np.dtype(dtype).name
