"""JAX's own stages, opened: what `Traced`, `Lowered` and `Exported` know beyond their public face.

Private JAX: `Lowered._lowering.compile_args` (kept arguments, propagation, callbacks, number of devices, debug information),
`Lowered._lowering._device_list` (the devices, in the order of the partitions),
`source_info_util.register_exclusion` (our frames are not the user's), `PjitFunction._jit_info`
(static arguments), `Traced._params` (its jaxpr, shardings and donations), `Traced._meta_tys_flat` (where its arrays lie).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import os
import pathlib
from typing import Any

import jax
import numpy as np
from jax._src import source_info_util
from jax._src.named_sharding import UNSPECIFIED, UnspecifiedValue
from jax.sharding import AbstractMesh, NamedSharding

from inspector import platforms
from inspector._jax.lowering.callbacks import HostCallbacks, host_callbacks
from inspector._jax.lowering.traced import JaxprFacts, MeshFacts, jaxpr_facts, mesh_facts
from inspector._jax.modules import conversions
from inspector._jax.values import KeyPath, UserFunction, UserValue

Traced = jax.stages.Traced
Lowered = jax.stages.Lowered


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentFacts:
    """An array leaf of a program's arguments.

    Attributes:
      path: into `(args, kwargs)`.
      shape: global under a mesh.
      dtype: NumPy's name, or JAX's of random keys.
      donated: the caller gives its buffer away.
      weak_type: as of a number of Python's.
      parameter: its number among the module's parameters; None where the lowering dropped it.
      sharding: JAX's text, "" where nothing is said.
    """

    path: KeyPath
    shape: tuple[int, ...]
    dtype: str
    donated: bool
    weak_type: bool
    parameter: int | None
    sharding: str


@dataclasses.dataclass(frozen=True, slots=True)
class ResultFacts:
    """An array leaf of a program's results; fields as of `ArgumentFacts`, the path into what the function returns."""

    path: KeyPath
    shape: tuple[int, ...]
    dtype: str
    sharding: str


@dataclasses.dataclass(frozen=True, slots=True)
class LoweredFacts:
    """What a `jax.stages.Lowered` tells its own `compile`.

    Attributes:
      name: the module's.
      arguments, results: in flattening order.
      meshes: of the shardings, the arguments' first.
      device_count: devices that the lowering is for.
      device_ids: their ids, by partition; None where only abstract meshes are named.
      device_platform: the platform of these devices; "" for none.
      hoisted: constants of the function that became parameters of the module.
      propagate_to_parameters, propagate_to_results: whether XLA may choose the sharding, tokens of effects included.
      callbacks: what the program calls in this process, or None.
      in_tree: the structure of `(args, kwargs)`.
      out_shape: the result's pytree, with shapes and dtypes for leaves.
    """

    name: str
    arguments: tuple[ArgumentFacts, ...]
    results: tuple[ResultFacts, ...]
    meshes: tuple[MeshFacts, ...]
    device_count: int
    device_ids: tuple[int, ...] | None
    device_platform: str
    hoisted: int
    propagate_to_parameters: tuple[bool, ...]
    propagate_to_results: tuple[bool, ...]
    callbacks: HostCallbacks | None
    in_tree: jax.tree_util.PyTreeDef
    out_shape: UserValue


@functools.cache
def hide_own_frames() -> None:
    """Tells JAX that inspector's frames are not the user's, so that locations are as without it."""
    source_info_util.register_exclusion(str(pathlib.Path(__file__).parents[2]) + os.sep)


def static_arguments(fun: UserFunction) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names that `jax.jit` was told are static; none for a function that is not jitted."""
    info = getattr(fun, "_jit_info", None)
    return (tuple(info.static_argnums), tuple(info.static_argnames)) if info is not None else ((), ())


def counted_positions(
    fun: UserFunction, static: tuple[int, ...], donated: tuple[int, ...]
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


def lowered_facts(lowered: Lowered) -> LoweredFacts:
    """Opens a `jax.stages.Lowered`."""
    compile_args = _compile_args(lowered)
    opened, in_tree = _arguments(lowered)
    results, _ = jax.tree_util.tree_flatten_with_path(lowered.out_info)
    in_shardings = [_specified(s) for s in compile_args["in_shardings"]]
    out_shardings = [_specified(s) for s in compile_args["out_shardings"]]
    kept, tokens = _kept(lowered, len(opened)), len(compile_args["ordered_effects"])
    numbers, placed = {leaf: n for n, leaf in enumerate(kept, tokens)}, dict(zip(kept, in_shardings, strict=True))
    module = conversions.module_facts(_module(lowered))
    devices = _devices(lowered)
    return LoweredFacts(
        name=module.name,
        arguments=tuple(
            ArgumentFacts(
                path, tuple(aval.shape), dtype_name(aval.dtype), donated, bool(getattr(aval, "weak_type", False)),
                numbers.get(i), _sharding_text(placed.get(i)),
            )
            for i, (path, aval, donated) in enumerate(opened)
        ),
        results=tuple(
            ResultFacts(path, tuple(r.shape), dtype_name(r.dtype), _sharding_text(sharding))
            for (path, r), sharding in zip(results, out_shardings, strict=True)
        ),
        meshes=tuple(mesh_facts(s.mesh) for s in (*in_shardings, *out_shardings) if hasattr(s, "mesh")),
        device_count=int(compile_args["num_devices"]),
        device_ids=tuple(int(device.id) for device in devices) or None,
        device_platform=platforms.named(str(devices[0].platform)).name if devices else "",
        hoisted=len(module.parameters) - tokens - len(kept),
        propagate_to_parameters=(False,) * tokens + tuple(s is None for s in in_shardings),
        propagate_to_results=(False,) * tokens + tuple(s is None for s in out_shardings),
        callbacks=host_callbacks(compile_args["host_callbacks"], compile_args["keepalive"]),
        in_tree=in_tree,
        out_shape=lowered.out_info,
    )  # fmt: skip


def contents(lowered: Lowered) -> conversions.Contents:
    """Everything of the module that a `jax.stages.Lowered` holds.

    Raises:
      ModuleError: XLA makes no HLO of it.
    """
    return conversions.contents(_module(lowered))


def traced_facts(traced: Traced, max_steps: int) -> JaxprFacts:
    """What a traced function says; `max_steps` as for `jaxpr_facts`."""
    return jaxpr_facts(traced.jaxpr, max_steps)


def facts_behind(lowered: Lowered, max_steps: int) -> JaxprFacts | None:
    """What the function said that a `jax.stages.Lowered` was made of; None when it is gone."""
    jaxpr = _jaxpr_behind(lowered)
    return None if jaxpr is None else jaxpr_facts(jaxpr, max_steps)


def traced_again(lowered: Lowered) -> Traced | None:
    """The function that a `jax.stages.Lowered` was made of, traced, with its shardings and donations; None when it is gone."""
    jaxpr = _jaxpr_behind(lowered)
    if jaxpr is None:
        return None
    structure = jax.tree_util.tree_structure(lowered.out_info)

    # Late: it brings Pallas along, which takes longer than to trace a function.
    from jax.extend.core import jaxpr_as_fun

    def call(*arrays: Any) -> Any:
        return jax.tree_util.tree_unflatten(structure, jaxpr_as_fun(jaxpr)(*arrays))

    return traced_as(lowered, call)


def traced_as(lowered: Lowered, fun: UserFunction) -> Traced:
    """A function of the arrays that a `jax.stages.Lowered` takes, traced with its name, shardings and donations."""
    opened, _ = _arguments(lowered)
    in_shardings = (_specified(s) for s in _compile_args(lowered)["in_shardings"])
    shardings = dict(zip(_kept(lowered, len(opened)), in_shardings, strict=True))
    leaves = [
        jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=shardings.get(i), weak_type=bool(getattr(aval, "weak_type", False))
        )
        for i, (_, aval, _) in enumerate(opened)
    ]

    def call(*arrays: Any) -> Any:
        return fun(*arrays)

    call.__name__ = conversions.module_facts(_module(lowered)).name.removeprefix("jit_")
    donated = tuple(i for i, (_, _, gives) in enumerate(opened) if gives)
    return jax.jit(call, donate_argnums=donated).trace(*leaves)


def with_jaxpr(traced: Traced, jaxpr: Any) -> Traced:
    """A traced call with another jaxpr of the same types; itself where it is the same."""
    return traced if traced.jaxpr is jaxpr else _with_params(traced, jaxpr=jaxpr)


def donated_arguments(traced: Traced) -> tuple[bool, ...]:
    """Whether each array's buffer may be reused."""
    held: Any = traced
    return tuple(held._params["donated_invars"])


def with_donated(traced: Traced, donated: tuple[bool, ...]) -> Traced:
    """A traced call that gives away other arrays; one boolean each."""
    return _with_params(traced, donated_invars=donated)


def with_arguments_anywhere(traced: Traced) -> Traced:
    """A traced call whose shardings are over devices that are not here, with arrays that lie on none.

    JAX would hold against an array that it lies here, on one device. Itself where no sharding of the function or its arrays
    is over an `AbstractMesh`. An array in a memory of another kind than its sharding names stays, for JAX to refuse.
    """
    held: Any = traced
    given, results = held._params["in_shardings"], held._params["out_shardings"]
    own = [argument.sharding for argument in held._meta_tys_flat]
    if not any(map(_is_over_nothing, (*given, *results, *own))):
        return traced
    other: Any = copy.copy(traced)
    other._meta_tys_flat = [_anywhere(*each) for each in zip(held._meta_tys_flat, given, strict=True)]
    other._lojax = None
    made: Traced = other
    return made


def _anywhere(argument: Any, given: Any) -> Any:
    own, kind = argument.sharding, getattr(given, "memory_kind", None)
    if own is None or _is_over_nothing(own) or own.num_devices > 1 or kind not in (None, own.memory_kind):
        return argument
    return argument.replace(sharding=None, format=None, committed=False)


def _is_over_nothing(sharding: Any) -> bool:
    """Whether the devices of a sharding are not said."""
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


def _with_params(traced: Traced, **changed: Any) -> Traced:
    other: Any = copy.copy(traced)
    other._params = {**other._params, **changed}
    for derived in ("_lojax", "_closure_converted"):
        if hasattr(other, derived):
            setattr(other, derived, None)
    made: Traced = other
    return made


def dtype_name(dtype: Any) -> str:
    """NumPy's name of a dtype; `key<...>` for random keys."""
    is_extended = jax.numpy.issubdtype(dtype, jax.dtypes.extended)
    return str(dtype) if is_extended else str(np.dtype(dtype))


def _module(lowered: Any) -> Any:
    return lowered.compiler_ir("stablehlo")


def _compile_args(lowered: Any) -> dict[str, Any]:
    given: dict[str, Any] = lowered._lowering.compile_args
    return given


def _devices(lowered: Any) -> tuple[Any, ...]:
    """The devices that JAX assigns to the partitions, in their order; () where it names none."""
    return tuple(vars(lowered._lowering)["_device_list"] or ())


def _kept(lowered: Lowered, arguments: int) -> tuple[int, ...]:
    """Indices of the arguments that are parameters."""
    kept = _compile_args(lowered).get("kept_var_idx")
    return tuple(range(arguments)) if kept is None else tuple(sorted(kept))


def _sharding_text(sharding: Any) -> str:
    return "" if sharding is None else str(getattr(sharding, "spec", sharding))


def _jaxpr_behind(lowered: Any) -> Any | None:
    """The jaxpr that a `jax.stages.Lowered` was made of, while JAX remembers it for the function's next call.

    The lowering keeps only the jaxpr's debug information; what refers to that is the jaxpr, and the garbage
    collector knows it. None when the function is gone, and the jaxpr with it.
    """
    known = _compile_args(lowered)["all_args_info"]
    for found in gc.get_referrers(known.debug_info):
        if hasattr(found, "eqns") and list(found.in_avals) == list(known.in_avals):
            # Before JAX 0.11, the constants are in a ClosedJaxpr around it.
            closed = (o for o in gc.get_referrers(found) if getattr(o, "jaxpr", None) is found and hasattr(o, "consts"))
            return next(closed, found)
    return None


def platform_of(lowered: Lowered) -> str:
    """What a `jax.stages.Lowered` is lowered for, such as "cpu", "gpu" or "tpu"."""
    held: Any = lowered
    (platform, *_) = vars(held._lowering)["_platforms"]
    return platforms.named(str(platform)).name


def _arguments(lowered: Any) -> tuple[list[tuple[Any, Any, bool]], Any]:
    """(key path, aval, donated) a leaf, and their structure.

    The leaves are counted by the avals. Some pytrees, such as distributions of distrax, take only arrays for leaves, and
    hide what JAX puts there in their place.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(lowered.args_info)
    held: Any = lowered._lowering
    avals = _compile_args(lowered)["all_args_info"].in_avals[len(held.const_args) :]
    if len(leaves) == len(avals):
        return [(path, leaf._aval, leaf.donated) for path, leaf in leaves], tree
    given = dict(zip(_kept(lowered, len(avals)), vars(held)["_donated_invars"], strict=True))
    where = (jax.tree_util.SequenceKey(0),)
    return [
        ((*where, jax.tree_util.SequenceKey(i)), a, given.get(i, False)) for i, a in enumerate(avals)
    ], lowered.in_tree


def _specified(sharding: Any) -> Any:
    return None if sharding is UNSPECIFIED or isinstance(sharding, UnspecifiedValue) else sharding
