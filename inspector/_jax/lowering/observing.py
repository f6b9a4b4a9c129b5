"""What collectives take and give, as more results of a program.

The jaxpr of a traced function is evaluated anew with a log that goes through its loops, branches and calls: around each
collective, its operands and its result are written into the log, which the program returns beside its own results. No
callback is needed, so that any process can run it, and the user's function stays as it is.

Private JAX: `Primitive.get_bind_params`, `JaxprEqnContext.manager`, `source_info_util.new_name_stack`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax._src import source_info_util
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from inspector._jax.lowering.collectives_on_cpu import ON_CPU
from inspector._jax.lowering.jaxprs import axes_named, frames_of, inner_jaxprs, open_jaxpr
from inspector._jax.lowering.stages import Traced, dtype_name, traced_as
from inspector.platforms import CPU, CUDA

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

AxisEnv = Sequence[tuple[Hashable, int]]
Path: TypeAlias = tuple[int, ...]
"""Where an equation stands: its index, behind those of the equations around it, each with the number of its jaxpr."""
Entry: TypeAlias = tuple[Any, tuple[Any, ...]]
"""Of one collective: how often it ran, and its operands and its result, each with a leading axis of executions."""
Log: TypeAlias = dict[Path, Entry]


@dataclasses.dataclass(frozen=True, slots=True)
class Logged:
    """A collective of a program, and what is logged of it.

    Attributes:
      primitive: JAX's, such as `psum`.
      axes: that it names.
      groups: its `axis_index_groups`, positions along the axes; () where it has none.
      frames: (file, line, function) of the user's, innermost first.
      manual: names and sizes of the axes of the `shard_map`s around it, outermost first.
      levels: `shard_map`s around it.
      operands: shape and dtype of each on one device.
      result: likewise.
      capacity: executions that are logged; 0 where none is, for `reason`.
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
    """How much is logged.

    Attributes:
      executions: of each collective, at most.
      log_bytes: on all devices together, at most.
      replicas: of the program; axes of a `shard_map` are counted besides.
    """

    executions: int
    log_bytes: int
    replicas: int = 1


def observed_call(traced: Traced, limits: ObserveLimits) -> tuple[Traced, tuple[Logged, ...]]:
    """A traced call whose program returns the log behind its own results, for CPUs, and what is in it."""
    program = _Observation(traced.jaxpr, limits)
    # How its arguments are sharded is known once it is lowered, for a platform that has all of its operations.
    lacking = any(one.primitive in ON_CPU for one in program.logged)
    lowered = traced.lower(lowering_platforms=((CUDA if lacking else CPU).lowering,))
    return traced_as(lowered, program), program.logged


def observed_jaxpr(closed: Any, axis_env: AxisEnv, limits: ObserveLimits) -> tuple[Any, tuple[Logged, ...]]:
    """A closed jaxpr that returns the log behind its own results, a list, for CPUs, and what is in it.

    Args:
      closed: of a program for replicas.
      axis_env: names and sizes of the axes that are bound around it.
      limits: of the log.
    """
    program = _Observation(closed, limits)
    return jax.make_jaxpr(program, axis_env=list(axis_env) or None)(*closed.in_avals), program.logged


@dataclasses.dataclass(frozen=True, slots=True)
class _Around:
    """What stands around an equation.

    Attributes:
      executions: of it in one of the program; None where a loop decides while it runs.
      levels: (mesh, manual axes) of each `shard_map`, outermost first.
      frames: of the user, of what calls it.
      reason: why nothing in it can be logged.
    """

    executions: int | None = 1
    levels: tuple[tuple[Any, tuple[str, ...]], ...] = ()
    frames: tuple[tuple[str, int, str], ...] = ()
    reason: str = ""


class _Observation:
    """A program that is evaluated with a log. Called with its arguments, it returns its results and the log, flat."""

    def __init__(self, closed: Any, limits: ObserveLimits) -> None:
        self._closed = closed
        found = list(_found(open_jaxpr(closed), (), _Around()))
        share = limits.log_bytes // max(1, len(found))
        self._logged = {path: _with_capacity(eqn, around, limits, share) for path, eqn, around in found}
        self._around = {path: around for path, _, around in found if self._logged[path].capacity}
        self._holders = {path[:end] for path in self._around for end in range(len(path))}

    @property
    def logged(self) -> tuple[Logged, ...]:
        """In the order of the log; those with a capacity have a count, their operands and their result in it."""
        return tuple(self._logged.values())

    def __call__(self, *arrays: Any) -> list[Any]:
        begun = {path: self._empty(path) for path in self._around}
        results, log = self._evaluate(self._closed, arrays, (), begun)
        for path in self._around:
            count, values = log[path]
            kept = self._logged[path].capacity
            depth = len(self._around[path].levels)
            results += [count, *(jax.lax.slice_in_dim(value, 0, kept, axis=depth) for value in values)]
        return results

    def _empty(self, path: Path) -> Entry:
        logged, levels = self._logged[path], self._around[path].levels
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
        """Whether it never runs more often than its log has room for."""
        executions = self._around[path].executions
        return executions is not None and executions <= self._logged[path].capacity

    def _evaluate(self, closed: Any, operands: Sequence[Any], path: Path, log: Log) -> tuple[list[Any], Log]:
        jaxpr = open_jaxpr(closed)
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True))
        known |= zip(jaxpr.invars, operands, strict=True)

        def read(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else known[atom]

        log = dict(log)
        for index, eqn in enumerate(jaxpr.eqns):
            here, given = (*path, index), list(map(read, eqn.invars))
            with eqn.ctx.manager:
                if here in self._around:
                    found = _bound(eqn, given)
                    log[here] = self._noted(here, log[here], [*_operands(eqn, given), found[0]])
                elif here in self._holders:
                    own = {key: entry for key, entry in log.items() if key[: len(here)] == here}
                    found, own = _INSIDE[_kind(eqn)](self, eqn, given, here, own)
                    log |= own
                else:
                    found = _bound(eqn, given)
            known |= zip(eqn.outvars, found, strict=True)
        return list(map(read, jaxpr.outvars)), log

    def _noted(self, path: Path, entry: Entry, values: Sequence[Any]) -> Entry:
        count, kept = entry
        place = count if self._is_exact(path) else jnp.minimum(count, self._logged[path].capacity)
        updated = (
            jax.lax.dynamic_update_index_in_dim(buffer, _plain(value), place, 0)
            for buffer, value in zip(kept, values, strict=True)
        )
        return count + 1, tuple(updated)

    def call(self, eqn: Any, given: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """Of what only calls a jaxpr: its equations, in its place."""
        return self._evaluate(_called(eqn), given, (*here, 0), log)

    def scan(self, eqn: Any, given: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """A loop that carries the log too."""
        params = eqn.params
        constants, carried = scan_counts(params)

        def body(carry: tuple[Sequence[Any], Log], slices: Sequence[Any]) -> tuple[tuple[Sequence[Any], Log], Any]:
            found, own = self._evaluate(params["jaxpr"], [*given[:constants], *carry[0], *slices], (*here, 0), carry[1])
            return (found[:carried], own), found[carried:]

        begin = given[constants : constants + carried], log
        (last, own), stacked = jax.lax.scan(
            body, begin, given[constants + carried :], params["length"], params["reverse"], params["unroll"]
        )
        return [*last, *stacked], own

    def while_loop(self, eqn: Any, given: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """A loop that carries the log and its condition, which is asked for where a log can be written."""
        params = eqn.params
        asked, done = params["cond_nconsts"], params["body_nconsts"]
        for_condition, for_body, begin = given[:asked], given[asked : asked + done], given[asked + done :]

        def ask(values: Sequence[Any], own: Log) -> tuple[Any, Log]:
            (found,), own = self._evaluate(params["cond_jaxpr"], [*for_condition, *values], (*here, 0), own)
            return found, own

        def body(carry: tuple[list[Any], Log, Any]) -> tuple[list[Any], Log, Any]:
            values, own = self._evaluate(params["body_jaxpr"], [*for_body, *carry[0]], (*here, 1), carry[1])
            condition, own = ask(values, own)
            return values, own, condition

        condition, own = ask(begin, log)
        values, own, _ = jax.lax.while_loop(lambda carry: carry[2], body, (list(begin), own, condition))
        return values, own

    def cond(self, eqn: Any, given: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """Branches that take the log and return it."""
        index, *operands = given

        def branch(number: int, jaxpr: Any) -> Callable[[Log, Sequence[Any]], tuple[list[Any], Log]]:
            return lambda own, values: self._evaluate(jaxpr, values, (*here, number), own)

        branches = [branch(number, jaxpr) for number, jaxpr in enumerate(eqn.params["branches"])]
        found: tuple[list[Any], Log] = jax.lax.switch(index, branches, log, operands)
        return found

    def shard_map(self, eqn: Any, given: Sequence[Any], here: Path, log: Log) -> tuple[list[Any], Log]:
        """One that has the logs of its devices along a leading axis."""
        params = eqn.params
        axes = manual_axes(params)
        spread = PartitionSpec(axes)

        def body(own: Log, *values: Any) -> tuple[list[Any], Log]:
            mine = jax.tree.map(lambda value: jnp.squeeze(value, 0), own)
            found, mine = self._evaluate(params["jaxpr"], values, (*here, 0), mine)
            return found, jax.tree.map(lambda value: jnp.expand_dims(value, 0), mine)

        mapped = jax.shard_map(
            body,
            mesh=params["mesh"],
            in_specs=(spread, *params["in_specs"]),
            out_specs=(list(params["out_specs"]), spread),
            axis_names=set(axes),
            check_vma=params["check_vma"],
        )
        found: tuple[list[Any], Log] = mapped(log, *given)
        return found


_INSIDE: Mapping[str, Callable[..., tuple[list[Any], Log]]] = {
    "call": _Observation.call,
    "scan": _Observation.scan,
    "while": _Observation.while_loop,
    "cond": _Observation.cond,
    "shard_map": _Observation.shard_map,
}
_CALLS = frozenset(
    {"jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call"}
)


def _kind(eqn: Any) -> str:
    name = str(eqn.primitive.name)
    return "call" if name in _CALLS else name


def _called(eqn: Any) -> Any:
    return next(eqn.params[name] for name in ("jaxpr", "call_jaxpr", "fun_jaxpr") if name in eqn.params)


def manual_axes(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The axes that a `shard_map` makes manual, in the order of its mesh."""
    return tuple(name for name in params["mesh"].axis_names if name in params["newly_manual_axes"])


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many operands of a scan are constants, and how many are carried."""
    if "num_consts" in params:
        return int(params["num_consts"]), int(params["num_carry"])
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants), len(carried)


def _found(jaxpr: Any, path: Path, around: _Around) -> Iterator[tuple[Path, Any, _Around]]:
    """Every collective of a jaxpr, those of inner ones among them, in the order of the program."""
    for index, eqn in enumerate(jaxpr.eqns):
        own = dataclasses.replace(around, frames=frames_of(eqn) or around.frames)
        if eqn.primitive.name in COLLECTIVES:
            yield (*path, index), eqn, own
            continue
        jaxprs = [(number, jaxpr) for number, (_, jaxpr) in enumerate(_ordered(eqn))]
        for number, inner in jaxprs:
            yield from _found(inner, (*path, index, number), _entered(eqn, own))


def _ordered(eqn: Any) -> list[tuple[str, Any]]:
    """The jaxprs of an equation in the order in which `_Observation` numbers them."""
    kind = _kind(eqn)
    if kind == "call":
        return [("", open_jaxpr(_called(eqn)))]
    if kind == "while":
        return [("", open_jaxpr(eqn.params[name])) for name in ("cond_jaxpr", "body_jaxpr")]
    return list(inner_jaxprs(eqn))


def _entered(eqn: Any, around: _Around) -> _Around:
    """What stands around the equations of one of its jaxprs."""
    params = eqn.params
    match _kind(eqn):
        case "call" | "cond":
            return around
        case "scan":
            executions = None if around.executions is None else around.executions * int(params["length"])
            return dataclasses.replace(around, executions=executions)
        case "while":
            return dataclasses.replace(around, executions=None)
        case "shard_map":
            return dataclasses.replace(around, levels=(*around.levels, (params["mesh"], manual_axes(params))))
        case kind:
            return dataclasses.replace(around, reason=around.reason or f"it stands inside of {kind}")


def _with_capacity(eqn: Any, around: _Around, limits: ObserveLimits, share: int) -> Logged:
    """What is logged of a collective, which may have so many bytes on all devices."""
    manual = tuple((name, int(mesh.shape[name])) for mesh, axes in around.levels for name in axes)
    devices = limits.replicas * math.prod(size for _, size in manual)
    operands = tuple(map(_aval, _operands(eqn, [v.aval for v in eqn.invars])))
    result = _aval(eqn.outvars[0].aval)
    execution_bytes = devices * sum(
        math.prod(shape) * jnp.dtype(dtype).itemsize for shape, dtype in (*operands, result)
    )
    capacity = min(limits.executions, limits.executions if around.executions is None else around.executions)
    fitting = share // max(1, execution_bytes)
    reason = around.reason
    if not reason and not capacity:
        reason = "its loop has no round"
    elif not reason and not fitting:
        reason = f"one execution has {execution_bytes:,} bytes on {devices} devices, and {share:,} are kept of each collective"
    return Logged(
        primitive=str(eqn.primitive.name),
        axes=axes_named(eqn),
        groups=tuple(tuple(map(int, group)) for group in eqn.params.get("axis_index_groups") or ()),
        frames=around.frames,
        manual=manual,
        levels=len(around.levels),
        operands=operands,
        result=result,
        capacity=0 if reason else min(capacity, fitting),
        reason=reason,
    )


def _operands(eqn: Any, given: Sequence[Any]) -> Sequence[Any]:
    """What a collective exchanges or is told; the index of an axis takes nothing."""
    return () if eqn.primitive.name == "axis_index" else given


def _aval(aval: Any) -> tuple[tuple[int, ...], str]:
    if jnp.issubdtype(aval.dtype, jax.dtypes.extended):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(aval.shape, aval.dtype))
        return tuple(data.shape), dtype_name(data.dtype)
    return tuple(aval.shape), dtype_name(aval.dtype)


def _plain(value: Any) -> Any:
    """Random keys as their data."""
    return jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.extended) else jnp.asarray(value)


def _size(mesh: Any, axes: Sequence[str]) -> int:
    return math.prod(int(mesh.shape[name]) for name in axes)


def _bound(eqn: Any, given: Sequence[Any]) -> list[Any]:
    context = source_info_util.user_context(eqn.source_info.traceback, name_stack=eqn.source_info.name_stack)
    with context:
        if (on_cpu := ON_CPU.get(str(eqn.primitive.name))) is not None:
            return [on_cpu(*given, **eqn.params)]
        found = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
    return list(found) if eqn.primitive.multiple_results else [found]
