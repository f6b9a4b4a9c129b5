"""Lowers under an axis environment, with JAX's own replica branch, which no public function reaches.

`jax.make_jaxpr(axis_env=...)` traces with the names bound; the private module lowering then runs
with a *replica context*, in which every collective rule makes dense replica groups and no channel.
Up to JAX 0.10.0 that is JAX's `ReplicaAxisContext`. Later versions take that branch for any context
that is neither `SPMDAxisContext` nor `ShardingContext`, but their rules for `axis_index` and
`ppermute` do not support it, so the rules in this module override them.

Private JAX: `mlir.lower_jaxpr_to_module`, `mlir.LoweringParameters`, `sharding_impls`,
`core.remove_named_axis_effects`, `effects.ordered_effects`, `lax.parallel` primitives,
`pxla.axis_groups`, `config.traceback_filtering` and `traceback_util.filter_traceback`.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import itertools
import math
import traceback
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import config, core, effects, sharding_impls, source_info_util, traceback_util
from jax._src.interpreters import mlir, pxla
from jax._src.lax import parallel
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from inspector._jax.lowering import jaxprs
from inspector._jax.lowering.callbacks import HostCallbacks, host_callbacks
from inspector._jax.lowering.pallas import kernel_equations
from inspector._jax.lowering.pallas_overrides import Choose, changed_jaxpr
from inspector._jax.lowering.reevaluation import Description, Reevaluation, Width, context, reevaluated_jaxpr
from inspector._jax.lowering.rematerialize import rematerialized
from inspector._jax.lowering.stages import ArgumentFacts, ResultFacts, dtype_name
from inspector._jax.lowering.traced import JaxprFacts, jaxpr_facts
from inspector._jax.modules import module_contents
from inspector._jax.values import UserFunction, UserValue
from inspector.errors import LoweringError

AxisEnv = Sequence[tuple[Hashable, int]]


@dataclasses.dataclass(frozen=True)
class ReplicaLowering:
    """Result of a lowering for replicas.

    Attributes:
      contents: contents of the module.
      jaxpr: facts of the traced function.
      arguments, results: array leaves, in flattening order.
      out_shape: a pytree of ShapeDtypeStructs.
      callbacks: host callbacks of the program, or None.
      logged: description of the further results of another evaluation; () without one.
    """

    contents: module_contents.Contents
    jaxpr: JaxprFacts
    arguments: tuple[ArgumentFacts, ...]
    results: tuple[ResultFacts, ...]
    out_shape: UserValue
    callbacks: HostCallbacks | None
    logged: Description = ()


def lower_with_replicas(
    fun: UserFunction,
    leaves: Sequence[UserValue],
    axis_env: AxisEnv,
    donated: Sequence[bool],
    platform: str,
    name: str,
    *,
    choose: Choose,
    scopes: Sequence[str] = (),
    reevaluation: Reevaluation | None = None,
    max_steps: int,
    tuple_args: bool = False,
    return_tuple: bool = False,
) -> ReplicaLowering:
    """Traces and lowers `fun(*leaves)` with the axes of `axis_env` bound. Needs no devices.

    Args:
      fun: a function that takes the array leaves in order and returns a pytree.
      leaves: arrays, scalars or ShapeDtypeStructs.
      axis_env: axis names and sizes, outermost first.
      donated: one boolean per leaf.
      platform: "cpu", "tpu" or "cuda".
      name: the module's name.
      choose: chooses the parameters of the Pallas kernels.
      scopes: scopes that are recomputed for the backward pass, as in `rematerialized`.
      reevaluation: evaluates the traced function again and changes it; None to lower it as it is.
      max_steps: as for `jaxpr_facts`.
      tuple_args: as for `module_contents.forms`.
      return_tuple: likewise.
    """
    environment = [(axis, int(size)) for axis, size in axis_env]
    trace = jax.make_jaxpr(fun, axis_env=environment or None, return_shape=True)
    try:
        with config.traceback_filtering("off"):
            closed, out_shape = trace(*leaves)
    except Exception as e:
        if _went_through_pmap(e):
            raise LoweringError(_NO_MESH) from e
        filtered: Any = traceback_util.filter_traceback
        raise e.with_traceback(filtered(e.__traceback__)) from None
    if environment and jaxprs.mesh_of(closed) is not None:
        raise LoweringError(_NO_MESH)
    closed = changed_jaxpr(closed, choose)
    if scopes:
        closed = rematerialized(closed, scopes, environment)
    logged: Description = ()
    with context(reevaluation):
        if reevaluation is not None:
            closed, logged = reevaluated_jaxpr(closed, environment, reevaluation)
            donated = (False,) * len(donated) if isinstance(reevaluation, Width) else donated
            out_shape = list(closed.out_avals)
        traced = closed
        result = _lowered_module(name, closed, environment, donated, platform)
    struct = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), out_shape)
    return ReplicaLowering(
        module_contents.contents(result.module, tuple_args=tuple_args, return_tuple=return_tuple),
        jaxpr_facts(traced, max_steps),
        tuple(map(_argument, itertools.count(), leaves, donated)),
        tuple(
            ResultFacts(path, tuple(o.shape), dtype_name(o.dtype), "")
            for path, o in jax.tree_util.tree_flatten_with_path(struct)[0]
        ),
        struct,
        host_callbacks(getattr(result, "host_callbacks", None), result.keepalive),
        logged,
    )


def _lowered_module(name: str, closed: Any, environment: AxisEnv, donated: Sequence[bool], platform: str) -> Any:
    if environment:
        closed = _without_axis_effects(closed, {axis for axis, _ in environment})
    axes, parameters = _replica_context(environment)
    result: Any = mlir.lower_jaxpr_to_module(
        name, closed, **_lowering_arguments(closed, axes, parameters, donated, platform)
    )
    with result.module.context, ir.Location.unknown():
        result.module.operation.attributes["sym_name"] = ir.StringAttr.get(_module_name(name))
    return result


def _argument(number: int, leaf: Any, donated: bool) -> ArgumentFacts:
    aval = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
    is_weak = bool(getattr(aval, "weak_type", False))
    return ArgumentFacts((), tuple(aval.shape), dtype_name(aval.dtype), donated, is_weak, number, "")


_NO_MESH = (
    "The function calls jax.pmap, which JAX cannot lower inside a program for replicas: like jax.shard_map, it is a"
    " shard_map over devices. Call the mapped function itself and name its axis in axis_env, such"
    " as axis_env=[('i', 2), ('p', 4)]."
)


def _went_through_pmap(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(f.f_code.co_filename.endswith(("jax/_src/pmap.py", "jax\\_src\\pmap.py")) for f, _ in frames)


def _backend() -> Any:
    from jax.extend.backend import get_backend  # deferred: it imports Pallas

    return get_backend()


def _lowering_arguments(
    closed: Any, context: Any, parameters: Any, donated: Sequence[bool], platform: str
) -> dict[str, Any]:
    """Returns the keywords that this JAX's `lower_jaxpr_to_module` accepts, out of those of any supported version."""
    offered: dict[str, Any] = {
        "ordered_effects": list(effects.ordered_effects.filter_in(closed.effects)),
        "platforms": [platform],
        # A Pallas kernel needs a backend, and treats another platform's as none.
        "backend": _backend() if kernel_equations(closed) else None,
        "axis_context": context,
        "donated_args": list(donated),
        "lowering_parameters": parameters,
        "num_const_args": 0,
        "in_avals": closed.in_avals,
        "out_avals": closed.out_avals,
    }
    if hasattr(source_info_util, "new_name_stack"):
        offered["name_stack"] = source_info_util.new_name_stack()
    taken = inspect.signature(mlir.lower_jaxpr_to_module).parameters
    return {name: value for name, value in offered.items() if name in taken}


def _without_axis_effects(closed: Any, names: set[Hashable]) -> Any:
    if not hasattr(core, "ClosedJaxpr"):  # since JAX 0.11 a jaxpr carries its constants
        return core.remove_named_axis_effects(closed, names)
    return core.ClosedJaxpr(core.remove_named_axis_effects(closed.jaxpr, names), closed.consts)


def _replica_context(environment: Sequence[tuple[Hashable, int]]) -> tuple[Any, Any]:
    if hasattr(sharding_impls, "ReplicaAxisContext"):
        names, sizes = tuple(n for n, _ in environment), tuple(s for _, s in environment)
        internals: Any = sharding_impls  # its AxisEnv is gone where ReplicaAxisContext is
        axes = internals.AxisEnv(math.prod(sizes), names, sizes)
        return internals.ReplicaAxisContext(axes), mlir.LoweringParameters(override_lowering_rules=_RAGGED)
    rules: Any = ((parallel.axis_index_p, _lower_axis_index), (parallel.ppermute_p, _lower_ppermute), *_RAGGED)
    return _ReplicaContext(_ReplicaMesh(environment)), mlir.LoweringParameters(override_lowering_rules=rules)


# MLIR's stubs require a Buffer, which NumPy's stubs declare on Python 3.12 and later only.
_dense: Any = ir.DenseElementsAttr.get
_dense_int: Any = ir.DenseIntElementsAttr.get


class _ReplicaMesh:
    """The attributes of a mesh that JAX's rules read."""

    is_scalar = False
    manual_axes = ()

    def __init__(self, environment: Sequence[tuple[Hashable, int]]) -> None:
        self.axis_names = tuple(name for name, _ in environment)
        self.axis_sizes = tuple(size for _, size in environment)
        self.size = math.prod(self.axis_sizes)
        self.shape = collections.OrderedDict(environment)
        self.empty = not environment


@dataclasses.dataclass(frozen=True)
class _ReplicaContext:
    mesh: _ReplicaMesh
    manual_axes: frozenset[Hashable] = frozenset()


def _lower_axis_index(ctx: Any, *, axis_name: Any) -> list[Any]:
    """Returns `(replica_id / inner sizes) mod size`."""
    mesh = ctx.module_context.axis_context.mesh
    if isinstance(axis_name, tuple):
        (axis_name,) = axis_name
    position = max(k for k, name in enumerate(mesh.axis_names) if name == axis_name)
    u32 = ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))

    def constant(value: int) -> Any:
        return stablehlo.constant(_dense(np.array([value], np.uint32), type=u32))

    inner = constant(math.prod(mesh.axis_sizes[position + 1 :]))
    size = constant(mesh.axis_sizes[position])
    index = stablehlo.remainder(stablehlo.divide(stablehlo.replica_id(), inner), size)
    return [stablehlo.convert(ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)), index)]


def _lower_ppermute(ctx: Any, x: Any, *, axis_name: Any, perm: Any, **_: Any) -> Any:
    groups = pxla.axis_groups(ctx.module_context.axis_context, axis_name)
    size = len(groups[0])
    sources, targets = [s % size for s, _ in perm], [t % size for _, t in perm]
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ValueError(f"ppermute sources and destinations must be unique, got {perm}.")
    pairs = [(sorted(g)[s], sorted(g)[t]) for g in groups for s, t in perm]
    attribute = _dense_int(np.asarray(pairs, np.int64).reshape(-1, 2))
    return stablehlo.CollectivePermuteOp(x, attribute).results


def _lower_ragged_all_to_all(ctx: Any, *operands: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    """Lowers as JAX does, with a channel id: without one, converting StableHLO to HLO is a segmentation fault.

    In HLO, the id 0 means no channel.
    """
    groups: Any = pxla.axis_groups(ctx.module_context.axis_context, axis_name)
    if axis_index_groups is not None:
        groups = [[group[i] for i in own] for own in axis_index_groups for group in groups]
    _, output, *_ = operands
    attributes = {
        "replica_groups": _dense_int(np.asarray(groups, np.int64)),
        "channel_id": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
    }
    return stablehlo.CustomCallOp(
        result=[output.type],
        inputs=list(operands),
        call_target_name=ir.StringAttr.get("ragged_all_to_all"),
        backend_config=ir.DictAttr.get(attributes),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
    ).results


_RAGGED: Any = ((parallel.ragged_all_to_all_p, _lower_ragged_all_to_all),)


def _module_name(name: str) -> str:
    """Returns a name that MLIR and HLO accept: other characters become underscores, as in old JAX versions."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)
