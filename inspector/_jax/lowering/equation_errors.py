"""Evaluates a traced program at its own and at 64-bit width side by side, and measures the error of each equation.

Every value is a pair: as the program computes it, and widened (`widening.py`). Loops and branches follow the program's own
values, so that both sides run the same equations. Only statistics leave the program, a few numbers for each equation. The test
for finite numbers reads the bits, because fast-math flags remove other tests.

Private JAX: `JaxprEqnContext.manager`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import PartitionSpec

from inspector._jax.lowering.equation_log import (
    COUNT,
    FIRST,
    OPERANDS,
    PEAK,
    PEAK_AT,
    SUM,
    EquationLog,
    EquationNode,
    Frames,
)
from inspector._jax.lowering.equations import AxisEnv, bind, called_jaxpr, kind_of, manual_axes, scan_counts
from inspector._jax.lowering.jaxprs import frames_of, open_jaxpr
from inspector._jax.lowering.stages import Traced, dtype_name
from inspector._jax.lowering.widening import (
    CALLBACKS,
    Widened,
    call_without_donations,
    is_finite,
    is_float,
    literal,
    widened,
)
from inspector.errors import LoweringError

_MOST_EQUATIONS = 3000  # each adds about a dozen operations to the program

Pair: TypeAlias = tuple[Any, Any]
Path: TypeAlias = tuple[int, ...]
Log: TypeAlias = dict[Path, Any]


def measured_call(traced: Traced) -> tuple[Traced, EquationLog]:
    """Returns a traced call whose only result is an array with the statistics of all equations, and their format.

    Raises:
      LoweringError: the program has too many equations.
    """
    program = _Measured(traced.jaxpr)
    return call_without_donations(traced, program), program.log


def measured_jaxpr(closed: Any, axis_env: AxisEnv) -> tuple[Any, EquationLog]:
    """Returns a closed jaxpr with that result, and the format; parameters and errors as for `measured_call`."""
    program = _Measured(closed)
    return jax.make_jaxpr(program, axis_env=list(axis_env) or None)(*closed.in_avals), program.log


class _Graph:
    """The nodes of a program. Slots have the size that the statistics of their equation need."""

    def __init__(self, closed: Any) -> None:
        self.nodes: list[EquationNode] = []
        self.slots: dict[Path, int] = {}
        self.size = 0
        arguments = [-1] * len(open_jaxpr(closed).invars)
        self.results = tuple(self._scope(closed, arguments, (), ()))
        if len(self.slots) > _MOST_EQUATIONS:
            raise LoweringError(
                f"The program has {len(self.slots):,} equations. Errors are measured for at most {_MOST_EQUATIONS:,}."
            )

    def _scope(self, closed: Any, sources: Sequence[int], path: Path, outer: Frames) -> list[int]:
        jaxpr = open_jaxpr(closed)
        known: dict[Any, int] = dict(zip(jaxpr.invars, sources, strict=True))

        def of(atom: Any) -> int:
            return -1 if hasattr(atom, "val") else known.get(atom, -1)

        for index, eqn in enumerate(jaxpr.eqns):
            here, frames = (*path, index), frames_of(eqn) or outer
            operands = list(map(of, eqn.invars))
            inside: Callable[..., list[int]] = _GRAPHS.get(kind_of(eqn), _Graph.leaf)
            results = inside(self, eqn, operands, here, frames)
            known |= zip(eqn.outvars, results, strict=True)
        return list(map(of, jaxpr.outvars))

    def leaf(self, eqn: Any, operands: Sequence[int], here: Path, frames: Frames) -> list[int]:
        aval = next((v.aval for v in eqn.outvars if hasattr(v.aval, "dtype")), None)
        if aval is None:
            return [-1] * len(eqn.outvars)
        slot = -1
        if not _only_moves(eqn):
            slot = self.slots[here] = self.size
            self.size += OPERANDS + 2 * len(operands)
        node = EquationNode(
            str(eqn.primitive.name), frames, tuple(aval.shape), dtype_name(aval.dtype), tuple(operands), slot
        )
        return [self._add(node)] * len(eqn.outvars)

    def _add(self, node: EquationNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _join(self, frames: Frames, *operands: int) -> int:
        return self._add(EquationNode("", frames, (), "", operands))

    def call(self, eqn: Any, operands: Sequence[int], here: Path, frames: Frames) -> list[int]:
        return self._scope(called_jaxpr(eqn), operands, (*here, 0), frames)

    def scan(self, eqn: Any, operands: Sequence[int], here: Path, frames: Frames) -> list[int]:
        constants, carried = scan_counts(eqn.params)
        begin = operands[constants : constants + carried]
        joins = [self._join(frames, each) for each in begin]
        sources = [*operands[:constants], *joins, *operands[constants + carried :]]
        results = self._scope(eqn.params["jaxpr"], sources, (*here, 0), frames)
        self._close(joins, begin, results)
        return results

    def while_loop(self, eqn: Any, operands: Sequence[int], here: Path, frames: Frames) -> list[int]:
        conditions, bodies = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        begin = operands[conditions + bodies :]
        joins = [self._join(frames, each) for each in begin]
        self._scope(eqn.params["cond_jaxpr"], [*operands[:conditions], *joins], (*here, 0), frames)
        for_body = operands[conditions : conditions + bodies]
        results = self._scope(eqn.params["body_jaxpr"], [*for_body, *joins], (*here, 1), frames)
        self._close(joins, begin, results)
        return results

    def cond(self, eqn: Any, operands: Sequence[int], here: Path, frames: Frames) -> list[int]:
        index, *others = operands
        branches = [
            self._scope(jaxpr, others, (*here, number), frames) for number, jaxpr in enumerate(eqn.params["branches"])
        ]
        return [self._join(frames, index, *each) for each in zip(*branches, strict=True)]

    def shard_map(self, eqn: Any, operands: Sequence[int], here: Path, frames: Frames) -> list[int]:
        return self._scope(eqn.params["jaxpr"], operands, (*here, 0), frames)

    def _close(self, joins: Sequence[int], begin: Sequence[int], results: Sequence[int]) -> None:
        """Adds the value of the previous iteration to each value that a loop carries."""
        for join, first, last in zip(joins, begin, results, strict=False):
            self.nodes[join] = dataclasses.replace(self.nodes[join], operands=(first, last))


class _Measured:
    """A program evaluated at both widths. When called with the program's arguments, it returns the statistics in a list."""

    def __init__(self, closed: Any) -> None:
        self._closed, self._graph, self._widened = closed, _Graph(closed), Widened(closed)
        begins = [*self._graph.slots.values(), self._graph.size]
        self._lengths = dict(zip(self._graph.slots, np.diff(begins).tolist(), strict=True))

    @property
    def log(self) -> EquationLog:
        """The format of the statistics."""
        return EquationLog(tuple(self._graph.nodes), self._graph.results)

    def __call__(self, *arrays: Any) -> list[Any]:
        _, log = self._evaluate(self._closed, [(array, widened(array)) for array in arrays], (), self._empty())
        return [jnp.concatenate([log[path] for path in self._graph.slots]) if log else jnp.zeros(0)]

    def _empty(self) -> Log:
        """Returns the statistics before the first execution."""
        return {path: jnp.zeros(length).at[FIRST].set(-1.0) for path, length in self._lengths.items()}

    def _evaluate(self, closed: Any, operands: Sequence[Pair], path: Path, log: Log) -> tuple[list[Pair], Log]:
        jaxpr = open_jaxpr(closed)
        constants = [(value, widened(value)) for value in getattr(closed, "consts", ())]
        known: dict[Any, Pair] = dict(zip(jaxpr.constvars, constants, strict=True))
        known |= zip(jaxpr.invars, operands, strict=True)
        errors: dict[Any, Pair] = {}

        def read(atom: Any) -> Pair:
            return (np.asarray(atom.val, atom.aval.dtype), literal(atom)) if hasattr(atom, "val") else known[atom]

        def error_of(atom: Any) -> Pair:
            if hasattr(atom, "val"):
                return _NONE
            if atom not in errors:
                errors[atom] = _error(*known[atom])
            return errors[atom]

        log = dict(log)
        for index, eqn in enumerate(jaxpr.eqns):
            here, inputs = (*path, index), list(map(read, eqn.invars))
            with eqn.ctx.manager:
                inside = _EVALUATIONS.get(kind_of(eqn))
                if inside is not None:
                    own = {key: entry for key, entry in log.items() if key[: len(here)] == here}
                    results, own = inside(self, eqn, inputs, here, own)
                    log |= own
                else:
                    results = self._leaf(eqn, inputs)
                known |= zip(eqn.outvars, results, strict=True)
                if here in log:
                    log[here] = _with_entry(
                        log[here],
                        [error_of(v) for v in eqn.invars],
                        [error_of(v) for v in eqn.outvars],
                        sum(_summary(own) for own, _ in results),
                    )
        return list(map(read, jaxpr.outvars)), log

    def _leaf(self, eqn: Any, inputs: Sequence[Pair]) -> list[Pair]:
        if eqn.primitive.name in CALLBACKS:  # called once
            return [(each, widened(each)) for each in bind(eqn, [pair[0] for pair in inputs])]
        wide = self._widened.equation(eqn, [pair[1] for pair in inputs], ())
        if not eqn.outvars:
            return []
        is_same = all(own is other for own, other in inputs) and not any(
            is_float(v.aval.dtype) for v in eqn.outvars if hasattr(v.aval, "dtype")
        )
        own = wide if is_same else bind(eqn, [pair[0] for pair in inputs])
        return list(zip(own, wide, strict=True))

    def call(self, eqn: Any, inputs: Sequence[Pair], here: Path, log: Log) -> tuple[list[Pair], Log]:
        return self._evaluate(called_jaxpr(eqn), inputs, (*here, 0), log)

    def scan(self, eqn: Any, inputs: Sequence[Pair], here: Path, log: Log) -> tuple[list[Pair], Log]:
        params = eqn.params
        constants, carried = scan_counts(params)

        def body(carry: tuple[list[Pair], Log], slices: list[Pair]) -> tuple[tuple[list[Pair], Log], list[Pair]]:
            operands = [*inputs[:constants], *carry[0], *slices]
            results, own = self._evaluate(params["jaxpr"], operands, (*here, 0), carry[1])
            return (results[:carried], own), results[carried:]

        begin, slices = list(inputs[constants : constants + carried]), list(inputs[constants + carried :])
        (last, own), stacked = jax.lax.scan(
            body, (begin, log), slices, params["length"], params["reverse"], params["unroll"]
        )
        return [*last, *stacked], own

    def while_loop(self, eqn: Any, inputs: Sequence[Pair], here: Path, log: Log) -> tuple[list[Pair], Log]:
        """The body computes the condition, because the log can be written there."""
        params = eqn.params
        conditions, bodies = params["cond_nconsts"], params["body_nconsts"]
        for_condition, for_body = inputs[:conditions], inputs[conditions : conditions + bodies]

        def test(values: Sequence[Pair], own: Log) -> tuple[Any, Log]:
            (condition,), own = self._evaluate(params["cond_jaxpr"], [*for_condition, *values], (*here, 0), own)
            return condition[0], own

        def body(carry: tuple[list[Pair], Log, Any]) -> tuple[list[Pair], Log, Any]:
            values, own = self._evaluate(params["body_jaxpr"], [*for_body, *carry[0]], (*here, 1), carry[1])
            condition, own = test(values, own)
            return values, own, condition

        begin = list(inputs[conditions + bodies :])
        condition, own = test(begin, log)
        values, own, _ = jax.lax.while_loop(lambda carry: carry[2], body, (begin, own, condition))
        return values, own

    def cond(self, eqn: Any, inputs: Sequence[Pair], here: Path, log: Log) -> tuple[list[Pair], Log]:
        (index, _), *operands = inputs

        def branch(number: int, jaxpr: Any) -> Callable[[Log, Sequence[Pair]], tuple[list[Pair], Log]]:
            return lambda own, values: self._evaluate(jaxpr, values, (*here, number), own)

        branches = [branch(number, jaxpr) for number, jaxpr in enumerate(eqn.params["branches"])]
        results: tuple[list[Pair], Log] = jax.lax.switch(index, branches, log, operands)
        return results

    def shard_map(self, eqn: Any, inputs: Sequence[Pair], here: Path, log: Log) -> tuple[list[Pair], Log]:
        """Evaluates a `shard_map`. Each device has its own statistics, of which the worst are continued."""
        params = eqn.params
        axes = manual_axes(params)

        def body(begun: Log, *values: Pair) -> tuple[list[Pair], Log]:
            varying = 0 * jax.lax.axis_index(axes) if axes else 0  # one value for each device, as the results are
            own = {path: entry + varying for path, entry in begun.items()}
            results, own = self._evaluate(params["jaxpr"], values, (*here, 0), own)
            return results, {path: entry[None] for path, entry in own.items()}

        mapped: Callable[..., tuple[list[Pair], Log]] = jax.shard_map(
            body,
            mesh=params["mesh"],
            in_specs=(PartitionSpec(), *((spec, spec) for spec in params["in_specs"])),
            out_specs=([(spec, spec) for spec in params["out_specs"]], PartitionSpec(axes)),
            axis_names=set(axes),
            check_vma=params["check_vma"],
        )
        results, own = mapped(log, *inputs)
        return results, {path: _worst(rows) for path, rows in own.items()}


_GRAPHS: Mapping[str, Callable[..., list[int]]] = {
    "call": _Graph.call,
    "scan": _Graph.scan,
    "while": _Graph.while_loop,
    "cond": _Graph.cond,
    "shard_map": _Graph.shard_map,
}
_EVALUATIONS: Mapping[str, Callable[..., tuple[list[Pair], Log]]] = {
    "call": _Measured.call,
    "scan": _Measured.scan,
    "while": _Measured.while_loop,
    "cond": _Measured.cond,
    "shard_map": _Measured.shard_map,
}
_MOVES = frozenset(
    {"broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "copy", "copy_p", "rev", "pvary", "pcast",
     "stop_gradient", "sharding_constraint", "optimization_barrier", "neg"}
)  # fmt: skip
"""Primitives that do not change the error of their operand."""


def _only_moves(eqn: Any) -> bool:
    return str(eqn.primitive.name) in _MOVES and len(eqn.invars) == 1


def _with_entry(entry: Any, operands: Sequence[Pair], results: Sequence[Pair], summary: Any) -> Any:
    """Returns the statistics of an equation after one more execution.

    Args:
      entry: the statistics before it.
      operands: (error, whether finite numbers disagree) of each operand.
      results: likewise, of each result.
      summary: the sum of `SUM` in this execution.
    """
    count = entry[COUNT]
    error = jnp.stack([each[0] for each in results]).max()
    bad = jnp.stack([each[1] for each in results]).max()
    is_first, is_peak = (bad > 0) & (entry[FIRST] < 0), error > entry[PEAK]
    end = OPERANDS + len(operands)

    def chosen(condition: Any, new: Sequence[Any], old: Any) -> Any:
        return jnp.where(condition, jnp.stack([jnp.asarray(each, jnp.float64) for each in new]), old)

    parts = [
        entry[COUNT : COUNT + 1] + 1,
        chosen(is_first, [count], entry[FIRST : FIRST + 1]),
        chosen(is_peak, [error, count], entry[PEAK : PEAK_AT + 1]),
        entry[SUM : SUM + 1] + summary,
    ]
    if operands:
        parts.append(chosen(is_first, [each[1] for each in operands], entry[OPERANDS:end]))
        parts.append(chosen(is_peak, [each[0] for each in operands], entry[end:]))
    return jnp.concatenate(parts)


def _worst(rows: Any, numpy: Any = jnp) -> Any:
    """Returns the statistics of the devices that have the first unexpected values and the largest error.

    Args:
      rows: a row of statistics of one equation per device.
      numpy: the module that computes.
    """
    end = OPERANDS + (rows.shape[1] - OPERANDS) // 2
    first = numpy.where(rows[:, FIRST] < 0, numpy.inf, rows[:, FIRST])
    is_first, is_peak = first == first.min(), rows[:, PEAK] == rows[:, PEAK].max()

    def most(selected: Any, begin: int, end: int | None) -> Any:
        return numpy.where(selected[:, None], rows[:, begin:end], 0.0).max(axis=0)

    parts = [
        rows[:, COUNT : COUNT + 1].max(axis=0),
        numpy.where(numpy.isinf(first.min()), -1.0, first.min())[None],
        rows[:, PEAK : PEAK + 1].max(axis=0),
        most(is_peak, PEAK_AT, PEAK_AT + 1),
        rows[:, SUM : SUM + 1].sum(axis=0),
        most(is_first, OPERANDS, end),
        most(is_peak, end, None),
    ]
    return numpy.concatenate(parts)


def worst_of_replicas(log: EquationLog, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the statistics of the replicas that have the first unexpected values and the largest errors.

    Args:
      log: the format of the statistics.
      numbers: a row of statistics per replica.
    """
    worst: npt.NDArray[np.float64] = numbers[0].copy()
    for node in log.nodes:
        if node.slot >= 0:
            part = slice(node.slot, node.slot + OPERANDS + 2 * len(node.operands))
            worst[part] = _worst(numbers[:, part], np)
    return worst


_NONE: Pair = (np.float64(0), np.float64(0))


def _error(own: Any, wide: Any) -> Pair:
    """Returns the largest error of a value relative to its size or its scale, and 1 if finite numbers disagree, else 0.

    The scale is the root mean square of all elements. Integers have the error 1 if one differs.
    """
    if own is wide or not hasattr(own, "dtype") or own.size == 0 or jnp.issubdtype(own.dtype, jax.dtypes.extended):
        return _NONE
    if not is_float(own.dtype):
        return jnp.any(own != wide).astype(jnp.float64), _NONE[1]
    is_known = is_finite(own) & is_finite(wide)
    disagree = jnp.any(is_finite(own) != is_finite(wide)).astype(jnp.float64)
    sizes = jnp.where(is_known, jnp.abs(wide), 0.0)
    most = jnp.maximum(sizes.max(), _smallest(own.dtype))
    scale = most * jnp.sqrt(jnp.sum((sizes / most) ** 2) / jnp.maximum(1, is_known.sum()))
    apart = jnp.where(is_known, jnp.abs(widened(own) - wide), 0.0)
    return jnp.max(apart / jnp.maximum(jnp.maximum(sizes, scale), _smallest(own.dtype))), disagree


def _summary(own: Any) -> Any:
    if not hasattr(own, "dtype") or jnp.issubdtype(own.dtype, jax.dtypes.extended):
        return 0.0
    counted = ~is_finite(own) if is_float(own.dtype) else own
    return jnp.sum(counted, dtype=jnp.float64)


def _smallest(dtype: Any) -> float:
    return max(float(jnp.finfo(dtype).tiny), float(np.finfo(np.float32).tiny))  # type: ignore[no-untyped-call]
