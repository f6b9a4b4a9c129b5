"""JAX's own stages, opened: what `Traced`, `Lowered` and `Exported` know beyond their public face.

Private JAX: `Lowered._lowering.compile_args` (kept arguments, propagation, callbacks, devices, debug information),
`source_info_util.register_exclusion` (our frames are not the user's), `PjitFunction._jit_info`
(static arguments).
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import pathlib
from typing import Any

import jax
from jax._src import source_info_util
from jax._src.named_sharding import UNSPECIFIED, UnspecifiedValue

from inspector import platforms

Traced = jax.stages.Traced
Lowered = jax.stages.Lowered


@dataclasses.dataclass(frozen=True)
class LoweredFacts:
    """What a `jax.stages.Lowered` tells its own `compile`.

    Attributes:
      module: the StableHLO `ir.Module`.
      arguments: (key path, shape, dtype, donated, weak type) a leaf, in flattening order.
      kept: indices of the arguments that are parameters.
      argument_shardings: JAX sharding or None, one a kept argument.
      result_shardings: the same of results.
      results: (key path, shape, dtype) a leaf.
      tokens: of ordered effects, before the parameters and the results of the module.
      device_count: devices that the lowering is for.
      propagate_to_parameters, propagate_to_results: whether XLA may choose the sharding.
      host_callbacks: the program calls into this process.
      keepalive: what the callbacks need.
      in_tree: `jax.tree_util.PyTreeDef` of `(args, kwargs)`.
      out_shape: the result's pytree of ShapeDtypeStructs.
    """

    module: Any
    arguments: tuple[tuple[Any, tuple[int, ...], Any, bool, bool], ...]
    kept: tuple[int, ...]
    argument_shardings: tuple[Any, ...]
    result_shardings: tuple[Any, ...]
    results: tuple[tuple[Any, tuple[int, ...], Any], ...]
    tokens: int
    device_count: int
    propagate_to_parameters: tuple[bool, ...]
    propagate_to_results: tuple[bool, ...]
    host_callbacks: bool
    keepalive: Any
    in_tree: Any
    out_shape: Any


@functools.cache
def hide_own_frames() -> None:
    """Tells JAX that inspector's frames are not the user's, so that locations are as without it."""
    source_info_util.register_exclusion(str(pathlib.Path(__file__).parents[1]) + os.sep)


def static_arguments(fun: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names that `jax.jit` was told are static; none for a function that is not jitted."""
    info = getattr(fun, "_jit_info", None)
    return (tuple(info.static_argnums), tuple(info.static_argnames)) if info is not None else ((), ())


def counted_positions(
    fun: Any, static: tuple[int, ...], donated: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Static and donated positions as `jax.jit` counts them.

    Newer versions count negative ones from the function's last parameter, and have resolved them here; older ones, and
    a function of any number of arguments, from a call's last argument, and leave them.
    """
    if min((*static, *donated), default=0) >= 0:
        return static, donated
    try:
        info: Any = jax.jit(fun, static_argnums=static, donate_argnums=donated)._jit_info  # type: ignore[attr-defined]
    except (TypeError, ValueError):  # they do not fit the function, which whoever checks the call says in its own words
        return static, donated
    return tuple(info.static_argnums), tuple(info.donate_argnums)


def lowered_facts(lowered: Any) -> LoweredFacts:
    """Opens a `jax.stages.Lowered`."""
    compile_args = lowered._lowering.compile_args
    arguments, in_tree = _arguments(lowered)
    results, _ = jax.tree_util.tree_flatten_with_path(lowered.out_info)
    in_shardings = tuple(_specified(s) for s in compile_args["in_shardings"])
    out_shardings = tuple(_specified(s) for s in compile_args["out_shardings"])
    kept = compile_args.get("kept_var_idx")
    tokens = len(compile_args["ordered_effects"])
    return LoweredFacts(
        module=lowered.compiler_ir("stablehlo"),
        arguments=tuple(
            (path, tuple(aval.shape), aval.dtype, donated, bool(getattr(aval, "weak_type", False)))
            for path, aval, donated in arguments
        ),
        kept=tuple(range(len(arguments))) if kept is None else tuple(sorted(kept)),
        argument_shardings=in_shardings,
        result_shardings=out_shardings,
        results=tuple((path, tuple(r.shape), r.dtype) for path, r in results),
        tokens=tokens,
        device_count=int(compile_args["num_devices"]),
        propagate_to_parameters=(False,) * tokens + tuple(s is None for s in in_shardings),
        propagate_to_results=(False,) * tokens + tuple(s is None for s in out_shardings),
        host_callbacks=bool(compile_args["host_callbacks"]) or bool(compile_args["keepalive"]),
        keepalive=(compile_args["host_callbacks"], compile_args["keepalive"]),
        in_tree=in_tree,
        out_shape=lowered.out_info,
    )


def jaxpr_behind(lowered: Any) -> Any | None:
    """The jaxpr that a `jax.stages.Lowered` was made of, while JAX remembers it for the function's next call.

    The lowering keeps only the jaxpr's debug information; what refers to that is the jaxpr, and the garbage
    collector knows it. None when the function is gone, and the jaxpr with it.
    """
    known = lowered._lowering.compile_args["all_args_info"]
    for found in gc.get_referrers(known.debug_info):
        if hasattr(found, "eqns") and list(found.in_avals) == list(known.in_avals):
            # Before JAX 0.11, the constants are in a ClosedJaxpr around it.
            closed = (o for o in gc.get_referrers(found) if getattr(o, "jaxpr", None) is found and hasattr(o, "consts"))
            return next(closed, found)
    return None


def platform_of(lowered: Any) -> str:
    """What a `jax.stages.Lowered` is lowered for, such as "cpu", "gpu" or "tpu"."""
    (platform, *_) = vars(lowered._lowering)["_platforms"]
    return platforms.named(str(platform)).name


def _arguments(lowered: Any) -> tuple[list[tuple[Any, Any, bool]], Any]:
    """(key path, aval, donated) a leaf, and their structure.

    The leaves are counted by the avals. Some pytrees, such as distributions of distrax, take only arrays for leaves, and
    hide what JAX puts there in their place.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(lowered.args_info)
    held: Any = lowered._lowering
    avals = held.compile_args["all_args_info"].in_avals[len(held.const_args) :]
    if len(leaves) == len(avals):
        return [(path, leaf._aval, leaf.donated) for path, leaf in leaves], tree
    kept = sorted(held.compile_args.get("kept_var_idx") or range(len(avals)))
    given = dict(zip(kept, vars(held)["_donated_invars"], strict=True))
    where = (jax.tree_util.SequenceKey(0),)
    return [
        ((*where, jax.tree_util.SequenceKey(i)), a, given.get(i, False)) for i, a in enumerate(avals)
    ], lowered.in_tree


def _specified(sharding: Any) -> Any:
    return None if sharding is UNSPECIFIED or isinstance(sharding, UnspecifiedValue) else sharding
