"""Reads JAX's own stages: the private data of `Traced`, `Lowered` and `Exported`.

Private JAX: `Lowered._lowering.compile_args` (kept arguments, propagation, callbacks, number of devices, debug information),
`Lowered._lowering._device_list` (the devices, in the order of the partitions),
`source_info_util.register_exclusion` (our frames are not the user's), `PjitFunction._jit_info`
(static arguments), `Traced._params` (its jaxpr, shardings and donations), `Traced._meta_tys_flat` (the shardings of its arrays).
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
from inspector._jax.modules import module_contents, stablehlo
from inspector._jax.values import KeyPath, UserFunction, UserValue

Traced = jax.stages.Traced
Lowered = jax.stages.Lowered


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentFacts:
    """An array leaf of a program's arguments.

    Attributes:
      path: key path into `(args, kwargs)`.
      shape: global shape under a mesh.
      dtype: NumPy's name, or JAX's for random keys.
      donated: whether the caller donates its buffer.
      weak_type: whether it is weakly typed, like a Python number.
      parameter: its index among the module's parameters; None if the lowering dropped it.
      sharding: JAX's text, "" if unspecified.
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
    """An array leaf of a program's results; fields as in `ArgumentFacts`, with the path into the function's return value."""

    path: KeyPath
    shape: tuple[int, ...]
    dtype: str
    sharding: str


@dataclasses.dataclass(frozen=True, slots=True)
class LoweredFacts:
    """The data that a `jax.stages.Lowered` passes to its own `compile`.

    Attributes:
      name: the module's name.
      arguments, results: array leaves, in flattening order.
      meshes: meshes of the shardings, those of the arguments first.
      device_count: number of devices that the lowering is for.
      device_ids: their ids, by partition; None if only abstract meshes are named.
      device_platform: the platform of these devices; "" without devices.
      hoisted: number of constants of the function that became parameters of the module.
      propagate_to_parameters, propagate_to_results: whether XLA may choose each sharding, including those of effect tokens.
      callbacks: host callbacks of the program, or None.
      in_tree: the structure of `(args, kwargs)`.
      out_shape: the result's pytree, with shapes and dtypes as leaves.
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
    """Registers inspector's frames with JAX as internal, so that source locations are the same as without inspector."""
    source_info_util.register_exclusion(str(pathlib.Path(__file__).parents[2]) + os.sep)


def static_arguments(fun: UserFunction) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Returns the static positions and names of a jitted function; none for a function that is not jitted."""
    info = getattr(fun, "_jit_info", None)
    return (tuple(info.static_argnums), tuple(info.static_argnames)) if info is not None else ((), ())


def counted_positions(
    fun: UserFunction, static: tuple[int, ...], donated: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns static and donated positions as `jax.jit` counts them.

    Newer JAX versions count negative positions from the function's last parameter, and this function resolves them. Older versions
    count them from a call's last argument, as for functions with any number of arguments; these stay negative.
    """
    if min((*static, *donated), default=0) >= 0:
        return static, donated
    try:
        info: Any = jax.jit(fun, static_argnums=static, donate_argnums=donated)._jit_info  # type: ignore[attr-defined]
    except (TypeError, ValueError):  # they do not fit the function; the check of the call reports that
        return static, donated
    return tuple(info.static_argnums), tuple(info.donate_argnums)


def lowered_facts(lowered: Lowered) -> LoweredFacts:
    """Reads a `jax.stages.Lowered`."""
    compile_args = _compile_args(lowered)
    opened, in_tree = _arguments(lowered)
    results, _ = jax.tree_util.tree_flatten_with_path(lowered.out_info)
    in_shardings = [_specified(s) for s in compile_args["in_shardings"]]
    out_shardings = [_specified(s) for s in compile_args["out_shardings"]]
    indices, tokens = _kept_arguments(lowered, len(opened)), len(compile_args["ordered_effects"])
    numbers, placed = {leaf: n for n, leaf in enumerate(indices, tokens)}, dict(zip(indices, in_shardings, strict=True))
    module = stablehlo.module_facts(_module(lowered))
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
        hoisted=len(module.parameters) - tokens - len(indices),
        propagate_to_parameters=(False,) * tokens + tuple(s is None for s in in_shardings),
        propagate_to_results=(False,) * tokens + tuple(s is None for s in out_shardings),
        callbacks=host_callbacks(compile_args["host_callbacks"], compile_args["keepalive"]),
        in_tree=in_tree,
        out_shape=lowered.out_info,
    )  # fmt: skip


def contents(lowered: Lowered) -> module_contents.Contents:
    """Returns all contents of the module in a `jax.stages.Lowered`.

    Raises:
      ModuleError: XLA cannot convert it to HLO.
    """
    return module_contents.contents(_module(lowered))


def traced_facts(traced: Traced, max_steps: int) -> JaxprFacts:
    """Returns the facts of a traced function; `max_steps` as for `jaxpr_facts`."""
    return jaxpr_facts(traced.jaxpr, max_steps)


def facts_behind(lowered: Lowered, max_steps: int) -> JaxprFacts | None:
    """Returns the facts of the function that a `jax.stages.Lowered` was made from; None if it no longer exists."""
    jaxpr = _original_jaxpr(lowered)
    return None if jaxpr is None else jaxpr_facts(jaxpr, max_steps)


def traced_again(lowered: Lowered) -> Traced | None:
    """Traces the function that a `jax.stages.Lowered` was made from, with its shardings and donations; None if it no longer exists."""
    jaxpr = _original_jaxpr(lowered)
    if jaxpr is None:
        return None
    structure = jax.tree_util.tree_structure(lowered.out_info)

    # Deferred: this imports Pallas, which takes longer than tracing a function.
    from jax.extend.core import jaxpr_as_fun

    def call(*arrays: Any) -> Any:
        return jax.tree_util.tree_unflatten(structure, jaxpr_as_fun(jaxpr)(*arrays))

    return traced_as(lowered, call)


def traced_as(lowered: Lowered, fun: UserFunction) -> Traced:
    """Traces a function of the arrays that a `jax.stages.Lowered` takes, with the same name, shardings and donations."""
    opened, _ = _arguments(lowered)
    in_shardings = (_specified(s) for s in _compile_args(lowered)["in_shardings"])
    shardings = dict(zip(_kept_arguments(lowered, len(opened)), in_shardings, strict=True))
    leaves = [
        jax.ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=shardings.get(i), weak_type=bool(getattr(aval, "weak_type", False))
        )
        for i, (_, aval, _) in enumerate(opened)
    ]

    def call(*arrays: Any) -> Any:
        return fun(*arrays)

    call.__name__ = stablehlo.module_facts(_module(lowered)).name.removeprefix("jit_")
    donated = tuple(i for i, (_, _, gives) in enumerate(opened) if gives)
    return jax.jit(call, donate_argnums=donated).trace(*leaves)


def with_jaxpr(traced: Traced, jaxpr: Any) -> Traced:
    """Returns a traced call with another jaxpr of the same types; the call itself if the jaxpr is the same."""
    return traced if traced.jaxpr is jaxpr else _with_params(traced, jaxpr=jaxpr)


def donated_arguments(traced: Traced) -> tuple[bool, ...]:
    """Returns one boolean per array: whether its buffer may be reused."""
    private: Any = traced
    return tuple(private._params["donated_invars"])


def with_donated(traced: Traced, donated: tuple[bool, ...]) -> Traced:
    """Returns a traced call with other donations; one boolean per array."""
    return _with_params(traced, donated_invars=donated)


def given_shardings(traced: Traced) -> tuple[str, ...]:
    """Returns JAX's texts of the partition specs of the arrays in a traced call; "" for arrays without one."""
    private: Any = traced
    shardings = zip(private._params["in_shardings"], private._meta_tys_flat, strict=True)
    chosen = (array.sharding if _specified(own) is None else own for own, array in shardings)
    return tuple(_sharding_text(each) if hasattr(each, "spec") else "" for each in chosen)


def with_arguments_anywhere(traced: Traced) -> Traced:
    """Returns a traced call for shardings over devices that are not attached, with arrays that are on no device.

    Otherwise JAX would reject an array because it is on one attached device. Returns the call itself if no sharding of the function or
    its arrays is over an `AbstractMesh`. Does not change an array whose memory kind differs from that of its sharding: JAX rejects it.
    """
    private: Any = traced
    arguments, results = private._params["in_shardings"], private._params["out_shardings"]
    own = [argument.sharding for argument in private._meta_tys_flat]
    if not any(map(_is_abstract, (*arguments, *results, *own))):
        return traced
    other: Any = copy.copy(traced)
    other._meta_tys_flat = [_unplaced(*each) for each in zip(private._meta_tys_flat, arguments, strict=True)]
    other._lojax = None
    made: Traced = other
    return made


def _unplaced(argument: Any, sharding: Any) -> Any:
    own, kind = argument.sharding, getattr(sharding, "memory_kind", None)
    if own is None or _is_abstract(own) or own.num_devices > 1 or kind not in (None, own.memory_kind):
        return argument
    return argument.replace(sharding=None, format=None, committed=False)


def _is_abstract(sharding: Any) -> bool:
    """Reports whether a sharding has no concrete devices."""
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
    """Returns NumPy's name of a dtype; `key<...>` for random keys."""
    is_extended = jax.numpy.issubdtype(dtype, jax.dtypes.extended)
    return str(dtype) if is_extended else str(np.dtype(dtype))


def _module(lowered: Any) -> Any:
    return lowered.compiler_ir("stablehlo")


def _compile_args(lowered: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = lowered._lowering.compile_args
    return arguments


def _devices(lowered: Any) -> tuple[Any, ...]:
    """Returns the devices that JAX assigns to the partitions, in order; () if it names none."""
    return tuple(vars(lowered._lowering)["_device_list"] or ())


def _kept_arguments(lowered: Lowered, arguments: int) -> tuple[int, ...]:
    """Returns the indices of the arguments that are parameters of the module."""
    indices = _compile_args(lowered).get("kept_var_idx")
    return tuple(range(arguments)) if indices is None else tuple(sorted(indices))


def _sharding_text(sharding: Any) -> str:
    return "" if sharding is None else str(getattr(sharding, "spec", sharding))


def _original_jaxpr(lowered: Any) -> Any | None:
    """Returns the jaxpr that a `jax.stages.Lowered` was made from, while JAX caches it for the function's next call.

    The lowering keeps only the jaxpr's debug information, so this function asks the garbage collector for the jaxpr that
    refers to it. Returns None if the function was deleted, and the jaxpr with it.
    """
    known = _compile_args(lowered)["all_args_info"]
    for referrer in gc.get_referrers(known.debug_info):
        if hasattr(referrer, "eqns") and list(referrer.in_avals) == list(known.in_avals):
            # Before JAX 0.11, the constants are in a ClosedJaxpr around it.
            holders = (o for o in gc.get_referrers(referrer) if getattr(o, "jaxpr", None) is referrer)
            return next((o for o in holders if hasattr(o, "consts")), referrer)
    return None


def platform_of(lowered: Lowered) -> str:
    """Returns the platform that a `jax.stages.Lowered` is lowered for, for example "cpu", "gpu" or "tpu"."""
    private: Any = lowered
    (platform, *_) = vars(private._lowering)["_platforms"]
    return platforms.named(str(platform)).name


def _arguments(lowered: Any) -> tuple[list[tuple[Any, Any, bool]], Any]:
    """Returns (key path, aval, donated) for each leaf, and their structure.

    The avals determine the number of leaves: some pytrees, such as distributions of distrax, accept only arrays as leaves and
    hide the objects that JAX puts in their place.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(lowered.args_info)
    private: Any = lowered._lowering
    avals = _compile_args(lowered)["all_args_info"].in_avals[len(private.const_args) :]
    if len(leaves) == len(avals):
        return [(path, leaf._aval, leaf.donated) for path, leaf in leaves], tree
    donations = dict(zip(_kept_arguments(lowered, len(avals)), vars(private)["_donated_invars"], strict=True))
    where = (jax.tree_util.SequenceKey(0),)
    return [
        ((*where, jax.tree_util.SequenceKey(i)), a, donations.get(i, False)) for i, a in enumerate(avals)
    ], lowered.in_tree


def _specified(sharding: Any) -> Any:
    return None if sharding is UNSPECIFIED or isinstance(sharding, UnspecifiedValue) else sharding
