"""Returns the operands and results of collectives as additional results of a program.

The jaxpr of a traced function is evaluated again with a log that is passed through its loops, branches and calls. Around each
collective, its operands and its result are written into the log, which the program returns after its own results. This needs no
callback, so any process can run the program, and leaves the user's function unchanged.

Private JAX: `JaxprEqnContext.manager`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from inspector._jax.lowering.equations import (
    AxisEnv,
    bind,
    called_jaxpr,
    kind_of,
    lowered_on_cpu,
    manual_axes,
    scan_counts,
)
from inspector._jax.lowering.jaxprs import axes_named, frames_of, inner_jaxprs, open_jaxpr
from inspector._jax.lowering.stages import Traced, dtype_name, traced_as

COLLECTIVES = frozenset(
    {
        "psum",
        "psum_invariant",
        "pmax",
        "pmin",
        "ppermute",
        "pbroadcast",
        "all_to_all",
        "ragged_all_to_all",
        "all_gather",
        "all_gather_invariant",
        "all_gather_reduced",
        "reduce_scatter",
        "axis_index",
    }
)
"""Primitives whose values are logged."""

Path: TypeAlias = tuple[int, ...]
"""Position of an equation: alternating equation indices and jaxpr numbers, from the outermost equation to this one."""
Entry: TypeAlias = tuple[Any, tuple[Any, ...]]
"""Log of one collective: how often it ran, and its operands and its result, each with a leading axis of executions."""
Log: TypeAlias = dict[Path, Entry]


@dataclasses.dataclass(frozen=True, slots=True)
class Logged:
    """A collective of a program, and the format of its log.

    Attributes:
      primitive: JAX's name, for example `psum`.
      axes: axes that it names.
      groups: its `axis_index_groups`, positions along the axes; () without groups.
      frames: (file, line, function) of user frames, innermost first.
      manual: names and sizes of the axes of the enclosing `shard_map`s, outermost first.
      levels: number of enclosing `shard_map`s.
      operands: shape and dtype of each operand on one device.
      result: shape and dtype of the result on one device.
      capacity: maximum number of logged executions; 0 if none is logged, for `reason`.
      reason: why nothing is logged.
    """

    primitive: str
    axes: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    frames: tuple[tuple[str, int, str], ...]
    manual: tuple[tuple[str, int], ...]
    levels: int
    operands: tuple[tuple[tuple[int, ...], str], ...]
    result: tuple[tuple[int, ...], str]
    capacity: int
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ObserveLimits:
    """Limits of the log.

    Attributes:
      executions: maximum number of executions of each collective.
      log_bytes: maximum size in bytes on all devices together.
    """

    executions: int
    log_bytes: int


def observed_call(traced: Traced, limits: ObserveLimits) -> tuple[Traced, tuple[Logged, ...]]:
    """Returns a traced call, for CPUs, whose program returns the log after its own results, and a description of the log."""
    program = _Observation(traced.jaxpr, limits, 1)
    return traced_as(lowered_on_cpu(traced), program), program.logged


def observed_jaxpr(closed: Any, axis_env: AxisEnv, limits: ObserveLimits) -> tuple[Any, tuple[Logged, ...]]:
    """Returns a closed jaxpr, for CPUs, that returns a list of the original results and the log, and a description of the log.

    Args:
      closed: jaxpr of a program for replicas.
      axis_env: names and sizes of the axes that are bound around it.
      limits: limits of the log.
    """
    program = _Observation(closed, limits, math.prod(size for _, size in axis_env))
    return jax.make_jaxpr(program, axis_env=list(axis_env) or None)(*closed.in_avals), program.logged


@dataclasses.dataclass(frozen=True, slots=True)
class _Context:
    """Context of an equation.

    Attributes:
      executions: how often it runs in one execution of the program; None if a loop decides at run time.
      levels: (mesh, manual axes) of each enclosing `shard_map`, outermost first.
      frames: user frames of the calling equation.
      reason: why nothing inside it can be logged.
    """

    executions: int | None = 1
    levels: tuple[tuple[Any, tuple[str, ...]], ...] = ()
    frames: tuple[tuple[str, int, str], ...] = ()
    reason: str = ""


class _Observation:
    """A program evaluated with a log. When called with the program's arguments, it returns its results and the log, flat."""

    def __init__(self, closed: Any, limits: ObserveLimits, replicas: int) -> None:
        self._closed = closed
        collectives = list(_collectives_in(open_jaxpr(closed), (), _Context()))
        share = limits.log_bytes // max(1, len(collectives))
        self._logged = {
            path: _with_capacity(eqn, context, limits, share, replicas) for path, eqn, context in collectives
        }
        self._contexts = {path: context for path, _, context in collectives if self._logged[path].capacity}
        self._holders = {path[:end] for path in self._contexts for end in range(len(path))}

    @property
    def logged(self) -> tuple[Logged, ...]:
        """The collectives in log order; those with a capacity have a count, their operands and their result in the log."""
        return tuple(self._logged.values())

    def __call__(self, *arrays: Any) -> list[Any]:
        begun = {path: self._empty(path) for path in self._contexts}
        results, log = self._evaluate(self._closed, arrays, (), begun)
        for path in self._contexts:
            count, values = log[path]
            capacity = self._logged[path].capacity
            depth = len(self._contexts[path].levels)
            results += [count, *(jax.lax.slice_in_dim(value, 0, capacity, axis=depth) for value in values)]
        return results

    def _empty(self, path: Path) -> Entry:
        logged, levels = self._logged[path], self._contexts[path].levels
        sizes = tuple(_size(mesh, axes) for mesh, axes in levels)
        room = (*sizes, logged.capacity + (not self._is_exact(path)))

        def zeros(shape: tuple[int, ...], dtype: Any) -> Any:
            made = jnp.zeros(shape, dtype)
            for depth, (mesh, axes) in enumerate(levels):
                if depth == 0 and AxisType.Explicit in mesh.axis_types:
                    made = jax.sharding.reshard(made, NamedSharding(mesh, PartitionSpec(axes)))
            return made

        values = tuple(zeros((*room, *shape), dtype) for shape, dtype in (*logged.operands, logged.result))
        return zeros(sizes, jnp.int32), values

    def _is_exact(self, path: Path) -> bool:
        """Reports whether it never runs more often than its log has space for."""
        executions = self._contexts[path].executions
        return executions is not None and executions <= self._logged[path].capacity

    def _evaluate(self, closed: Any, operands: Sequence[Any], path: Path, log: Log) -> tuple[list[Any], Log]:
        jaxpr = open_jaxpr(closed)
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True))
        known |= zip(jaxpr.invars, operands, strict=True)

        def read(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else known[atom]

        log = dict(log)
        for index, eqn in enumerate(jaxpr.eqns):
            here, inputs = (*path, index), list(map(read, eqn.invars))
            with eqn.ctx.manager:
                if here in self._contexts:
                    results = bind(eqn, inputs)
                    log[here] = self._with_entry(here, log[here], [*_operands(eqn, inputs), results[0]])
                elif here in self._holders:
                    own = {key: entry for key, entry in log.items() if key[: len(here)] == here}
                    results, own = _INSIDE[kind_of(eqn)](self, eqn, inputs, here, own)
                    log |= own
                else:
                    results = bind(eqn, inputs)
            known |= zip(eqn.outvars, results, strict=True)
        return list(map(read, jaxpr.outvars)), log

    def _with_entry(self, path: Path, entry: Entry, values: Sequence[Any]) -> Entry:
        count, buffers = entry
        place = count if self._is_exact(path) else jnp.minimum(count, self._logged[path].capacity)
        updated = (
            jax.lax.dynamic_update_index_in_dim(buffer, _plain(value), place, 0)
            for buffer, value in zip(buffers, values, strict=True)
        )
        return count + 1, tuple(updated)

    def call(self, eqn: Any, inputs: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """Evaluates the equations of a called jaxpr in its place."""
        return self._evaluate(called_jaxpr(eqn), inputs, (*here, 0), log)

    def scan(self, eqn: Any, inputs: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """Evaluates a scan whose carry includes the log."""
        params = eqn.params
        constants, carried = scan_counts(params)

        def body(carry: tuple[Sequence[Any], Log], slices: Sequence[Any]) -> tuple[tuple[Sequence[Any], Log], Any]:
            results, own = self._evaluate(
                params["jaxpr"], [*inputs[:constants], *carry[0], *slices], (*here, 0), carry[1]
            )
            return (results[:carried], own), results[carried:]

        begin = inputs[constants : constants + carried], log
        (last, own), stacked = jax.lax.scan(
            body, begin, inputs[constants + carried :], params["length"], params["reverse"], params["unroll"]
        )
        return [*last, *stacked], own

    def while_loop(self, eqn: Any, inputs: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """Evaluates a while loop whose carry includes the log and the condition.

        The body computes the condition, because the log can be written there.
        """
        params = eqn.params
        condition_count, body_count = params["cond_nconsts"], params["body_nconsts"]
        for_condition = inputs[:condition_count]
        for_body, begin = inputs[condition_count : condition_count + body_count], inputs[condition_count + body_count :]

        def test(values: Sequence[Any], own: Log) -> tuple[Any, Log]:
            (condition,), own = self._evaluate(params["cond_jaxpr"], [*for_condition, *values], (*here, 0), own)
            return condition, own

        def body(carry: tuple[list[Any], Log, Any]) -> tuple[list[Any], Log, Any]:
            values, own = self._evaluate(params["body_jaxpr"], [*for_body, *carry[0]], (*here, 1), carry[1])
            condition, own = test(values, own)
            return values, own, condition

        condition, own = test(begin, log)
        values, own, _ = jax.lax.while_loop(lambda carry: carry[2], body, (list(begin), own, condition))
        return values, own

    def cond(self, eqn: Any, inputs: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """Evaluates a cond whose branches take the log and return it."""
        index, *operands = inputs

        def branch(number: int, jaxpr: Any) -> Callable[[Log, Sequence[Any]], tuple[list[Any], Log]]:
            return lambda own, values: self._evaluate(jaxpr, values, (*here, number), own)

        branches = [branch(number, jaxpr) for number, jaxpr in enumerate(eqn.params["branches"])]
        results: tuple[list[Any], Log] = jax.lax.switch(index, branches, log, operands)
        return results

    def shard_map(self, eqn: Any, inputs: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """Evaluates a `shard_map` in which the logs of its devices are stacked along a leading axis."""
        params = eqn.params
        axes = manual_axes(params)
        spread = PartitionSpec(axes)

        def body(own: Log, *values: Any) -> tuple[list[Any], Log]:
            local = jax.tree.map(lambda value: jnp.squeeze(value, 0), own)
            results, local = self._evaluate(params["jaxpr"], values, (*here, 0), local)
            return results, jax.tree.map(lambda value: jnp.expand_dims(value, 0), local)

        mapped = jax.shard_map(
            body,
            mesh=params["mesh"],
            in_specs=(spread, *params["in_specs"]),
            out_specs=(list(params["out_specs"]), spread),
            axis_names=set(axes),
            check_vma=params["check_vma"],
        )
        results: tuple[list[Any], Log] = mapped(log, *inputs)
        return results


_INSIDE: Mapping[str, Callable[..., tuple[list[Any], Log]]] = {
    "call": _Observation.call,
    "scan": _Observation.scan,
    "while": _Observation.while_loop,
    "cond": _Observation.cond,
    "shard_map": _Observation.shard_map,
}


def _collectives_in(jaxpr: Any, path: Path, context: _Context) -> Iterator[tuple[Path, Any, _Context]]:
    """Yields every collective of a jaxpr, including those of inner jaxprs, in program order."""
    for index, eqn in enumerate(jaxpr.eqns):
        own = dataclasses.replace(context, frames=frames_of(eqn) or context.frames)
        if eqn.primitive.name in COLLECTIVES:
            yield (*path, index), eqn, own
            continue
        jaxprs = [(number, jaxpr) for number, (_, jaxpr) in enumerate(_ordered(eqn))]
        for number, inner in jaxprs:
            yield from _collectives_in(inner, (*path, index, number), _inner_context(eqn, own))


def _ordered(eqn: Any) -> list[tuple[str, Any]]:
    """Returns the jaxprs of an equation in the order in which `_Observation` numbers them."""
    kind = kind_of(eqn)
    if kind == "call":
        return [("", open_jaxpr(called_jaxpr(eqn)))]
    if kind == "while":
        return [("", open_jaxpr(eqn.params[name])) for name in ("cond_jaxpr", "body_jaxpr")]
    return list(inner_jaxprs(eqn))


def _inner_context(eqn: Any, context: _Context) -> _Context:
    """Returns the context of the equations inside one of its jaxprs."""
    params = eqn.params
    match kind_of(eqn):
        case "call" | "cond":
            return context
        case "scan":
            executions = None if context.executions is None else context.executions * int(params["length"])
            return dataclasses.replace(context, executions=executions)
        case "while":
            return dataclasses.replace(context, executions=None)
        case "shard_map":
            return dataclasses.replace(context, levels=(*context.levels, (params["mesh"], manual_axes(params))))
        case kind:
            return dataclasses.replace(context, reason=context.reason or f"it is inside a {kind}")


def _with_capacity(eqn: Any, context: _Context, limits: ObserveLimits, share: int, replicas: int) -> Logged:
    """Describes the log of a collective, given its share of bytes on all devices of all replicas."""
    manual = tuple((name, int(mesh.shape[name])) for mesh, axes in context.levels for name in axes)
    devices = replicas * math.prod(size for _, size in manual)
    operands = tuple(map(_aval, _operands(eqn, [v.aval for v in eqn.invars])))
    result = _aval(eqn.outvars[0].aval)
    execution_bytes = devices * sum(
        math.prod(shape) * jnp.dtype(dtype).itemsize for shape, dtype in (*operands, result)
    )
    capacity = min(limits.executions, limits.executions if context.executions is None else context.executions)
    fitting = share // max(1, execution_bytes)
    reason = context.reason
    if not reason and not capacity:
        reason = "its loop has no iterations"
    elif not reason and not fitting:
        reason = f"one execution has {execution_bytes:,} bytes on {devices} devices, and the limit per collective is {share:,} bytes"
    return Logged(
        primitive=str(eqn.primitive.name),
        axes=axes_named(eqn),
        groups=tuple(tuple(map(int, group)) for group in eqn.params.get("axis_index_groups") or ()),
        frames=context.frames,
        manual=manual,
        levels=len(context.levels),
        operands=operands,
        result=result,
        capacity=0 if reason else min(capacity, fitting),
        reason=reason,
    )


def _operands(eqn: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """Returns the operands of a collective to log; `axis_index` has none."""
    return () if eqn.primitive.name == "axis_index" else inputs


def _aval(aval: Any) -> tuple[tuple[int, ...], str]:
    if jnp.issubdtype(aval.dtype, jax.dtypes.extended):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(aval.shape, aval.dtype))
        return tuple(data.shape), dtype_name(data.dtype)
    return tuple(aval.shape), dtype_name(aval.dtype)


def _plain(value: Any) -> Any:
    """Converts random keys to their key data."""
    return jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.extended) else jnp.asarray(value)


def _size(mesh: Any, axes: Sequence[str]) -> int:
    return math.prod(int(mesh.shape[name]) for name in axes)
