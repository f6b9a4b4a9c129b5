"""Lowering for the replicas that an axis environment names."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import jax

from inspector import platforms
from inspector._jax import attached, modules, replica
from inspector.compilation.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.lowering.arguments import dtype_name, result_name
from inspector.lowering.assemble import assemble
from inspector.lowering.axis_env import replica_mesh
from inspector.lowering.calls import PlainCall
from inspector.lowering.leaves import Outputs
from inspector.lowering.pallas import Overrides
from inspector.stages.lowered import Lowered


def lower_replicas(
    call: PlainCall,
    axis_env: Sequence[tuple[Hashable, int]],
    platform: str | None,
    name: str,
    overrides: Overrides | None = None,
    *,
    tuple_args: bool = False,
    return_tuple: bool = False,
) -> Lowered:
    """Lowers a call for replicas named by `axis_env`; every array stays a parameter."""
    leaves = list(call.leaves.abstract.values())
    is_donated, paths = call.is_donated, call.leaves.dynamic_paths
    outputs = Outputs()

    def flat(*arrays: Any) -> Any:
        return outputs.keep(call.apply(arrays))

    platform = platform or attached.attached_platform()
    overrides = overrides or Overrides()
    result = replica.lower_with_replicas(
        flat, leaves, axis_env, is_donated, platforms.named(platform).lowering, name, overrides.rewrite
    )
    results, _ = jax.tree_util.tree_flatten_with_path(result.out_shape)
    avals = [jax.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf for leaf in leaves]
    replicas = math.prod(size for _, size in axis_env)
    program = Program(
        name=modules.module_facts(result.module).name,
        module=modules.to_bytecode(result.module),
        arguments=tuple(
            Argument(
                path,
                tuple(a.shape),
                dtype_name(a.dtype),
                number,
                gives,
                bool(getattr(a, "weak_type", False)),
            )
            for number, (path, a, gives) in enumerate(zip(paths, avals, is_donated, strict=True))
        ),
        results=tuple(Result(result_name(path), tuple(o.shape), dtype_name(o.dtype)) for path, o in results),
        options=Options(num_replicas=replicas or 1, num_partitions=1),
        mesh=replica_mesh(axis_env),
        platform=platform,
        host_callbacks=result.host_callbacks,
        keepalive=result.keepalive,
        binding=call.binding(outputs.whole),
    )
    forms = modules.forms(result.module, tuple_args=tuple_args, return_tuple=return_tuple)
    return assemble(
        program, forms, result.jaxpr, call.fun, notes=call.leaves.notes,
        out_shape=result.out_shape, tuple_args=tuple_args, return_tuple=return_tuple, overrides=overrides,
    )  # fmt: skip
