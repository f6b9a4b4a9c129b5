"""Lowering for the replicas that an axis environment names."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax

from inspector._jax import modules, replica
from inspector.compilation.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.lowering.arguments import (
    abstract_tree,
    argument_names,
    dtype_name,
    original_path,
    resolve_positions,
    result_name,
)
from inspector.lowering.assemble import assemble, fun_name, mlir_platform
from inspector.lowering.axis_env import replica_mesh
from inspector.lowering.lowered import Lowered
from inspector.lowering.pallas import Overrides


def lower_replicas(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    axis_env: Sequence[tuple[Hashable, int]],
    static_argnums: Sequence[int],
    donate_argnums: Sequence[int],
    platform: str | None,
    name: str,
    overrides: Overrides | None = None,
    *,
    tuple_args: bool = False,
    return_tuple: bool = False,
) -> Lowered:
    """Lowers `fun` for replicas named by `axis_env`; every argument stays a parameter."""
    static, donated = resolve_positions(args, static_argnums, donate_argnums, fun_name(fun))
    dynamic = [i for i in range(len(args)) if i not in static]
    names = argument_names(fun, len(args))

    def tree_names(path: Sequence[Any]) -> str:
        return names(original_path(path, dynamic))

    tree = abstract_tree((tuple(args[i] for i in dynamic), dict(kwargs)), tree_names)
    with_paths, in_tree = jax.tree_util.tree_flatten_with_path(tree)
    leaves = [leaf for _, leaf in with_paths]
    is_donated = [path[0].idx == 0 and dynamic[path[1].idx] in donated for path, _ in with_paths]

    def flat(*flat_leaves: Any) -> Any:
        given, named = jax.tree_util.tree_unflatten(in_tree, flat_leaves)
        full = list(args)
        for position, value in zip(dynamic, given, strict=True):
            full[position] = value
        return fun(*full, **named)

    platform = platform or jax.default_backend()
    overrides = overrides or Overrides()
    result = replica.lower_with_replicas(
        flat, leaves, axis_env, is_donated, mlir_platform(platform), name, overrides.rewrite
    )
    outputs, _ = jax.tree_util.tree_flatten_with_path(result.out_shape)
    avals = [jax.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf for leaf in leaves]
    replicas = math.prod(size for _, size in axis_env)
    program = Program(
        name=modules.module_facts(result.module).name,
        module=modules.to_bytecode(result.module),
        arguments=tuple(
            Argument(
                tree_names(path),
                tuple(a.shape),
                dtype_name(a.dtype),
                number,
                gives,
                bool(getattr(a, "weak_type", False)),
            )
            for number, ((path, _), a, gives) in enumerate(zip(with_paths, avals, is_donated, strict=True))
        ),
        results=tuple(Result(result_name(path), tuple(o.shape), dtype_name(o.dtype)) for path, o in outputs),
        options=Options(num_replicas=replicas or 1, num_partitions=1),
        mesh=replica_mesh(axis_env),
        platform=platform,
        host_callbacks=result.host_callbacks,
        keepalive=result.keepalive,
        in_tree=in_tree,
        out_tree=jax.tree_util.tree_structure(result.out_shape),
    )
    return assemble(
        program, result.module, result.jaxpr, fun,
        out_shape=result.out_shape, tuple_args=tuple_args, return_tuple=return_tuple, overrides=overrides,
    )  # fmt: skip
