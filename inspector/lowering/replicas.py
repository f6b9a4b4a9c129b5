"""Lowers a call for the replicas of an axis environment."""

from __future__ import annotations

import inspect
import keyword
import math
import re
from collections.abc import Hashable, Sequence
from typing import Any

from inspector import platforms
from inspector._jax.compiling import attached_devices
from inspector._jax.lowering import replica
from inspector.compilation.options.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.hlo.pallas import MAX_STEPS
from inspector.lowering.arguments import result_name
from inspector.lowering.assemble import assemble, fun_name
from inspector.lowering.axis_env import replica_mesh
from inspector.lowering.calls import PlainCall
from inspector.lowering.leaves import Outputs
from inspector.lowering.pallas import Overrides
from inspector.lowering.what_if import are_donated
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
    """Lowers a call for the replicas that `axis_env` names; every array stays a parameter.

    Args:
      call: the function with its example arguments.
      axis_env: axis names and sizes.
      platform: the platform to lower for, by any name; None for the attached device.
      name: the module's name.
      overrides: changes to the call and to its Pallas kernels.
      tuple_args: pass all arguments as one tuple.
      return_tuple: return a tuple of arrays, as `jax.xla_computation` did. JAX then raises TypeError for other results.
    """
    leaves = list(call.leaves.abstract.values())
    paths = call.leaves.dynamic_paths
    overrides = overrides or Overrides()
    supposed = overrides.what_if
    is_donated = are_donated(call.is_donated, paths, supposed)
    outputs = Outputs(strict=return_tuple)

    def flat(*arrays: Any) -> Any:
        return outputs.keep(call.apply(arrays))

    # JAX's messages take the names of the function, its file and its arguments from these attributes.
    flat.__name__, flat.__wrapped__ = fun_name(call.fun, type(call.fun).__name__), call.fun  # type: ignore[attr-defined]
    flat.__signature__ = _signature(paths)  # type: ignore[attr-defined]
    platform = platform or attached_devices.attached_platform()
    replicas = math.prod(size for _, size in axis_env)
    result = replica.lower_with_replicas(
        flat, leaves, axis_env, is_donated, platforms.named(platform).lowering, name, choose=overrides.choose,
        scopes=supposed.rematerialize, reevaluation=overrides.reevaluation, max_steps=MAX_STEPS, tuple_args=tuple_args,
        return_tuple=return_tuple,
    )  # fmt: skip
    overrides.logged = result.logged
    program = Program(
        name=result.contents.facts.name,
        module=result.contents.stablehlo,
        arguments=tuple(
            Argument(path, a.shape, a.dtype, a.parameter, a.donated, a.weak_type)
            for path, a in zip(paths, result.arguments, strict=True)
        ),
        results=tuple(Result(result_name(r.path), r.shape, r.dtype) for r in result.results),
        options=Options(num_replicas=replicas or 1, num_partitions=1),
        mesh=replica_mesh(axis_env),
        platform=platform,
        host_callbacks=result.callbacks is not None,
        callbacks=result.callbacks,
        binding=call.binding(outputs.whole),
    )
    return assemble(
        program, result.contents, result.jaxpr, call.fun, notes=(*call.leaves.notes, *overrides.notes),
        out_shape=result.out_shape, overrides=overrides,
    )  # fmt: skip


def _signature(paths: Sequence[str]) -> inspect.Signature:
    """Returns a signature with a parameter per array, named after its path: `params_w` for `params['w']`."""
    names: dict[str, None] = {}
    for path in paths:
        name = re.sub(r"\W+", "_", path).strip("_") or "argument"
        while not name.isidentifier() or keyword.iskeyword(name) or name in names:
            name = f"_{name}"
        names[name] = None
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names])
