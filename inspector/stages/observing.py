"""Runs a program that also returns the values of its collectives, and assigns the values to the collectives."""

from __future__ import annotations

import itertools
import math
import operator
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inspector._jax.lowering.observing import Logged, ObserveLimits
from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import Collectives
from inspector.compilation.engine import Job
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.choice import engine_for
from inspector.errors import CancelledError, ExecutionError, ParameterError, Unavailable
from inspector.execution.collective_values import Observation, Observed
from inspector.execution.run import Run, choose_inputs, finish, start
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.source import Frame, own_frame
from inspector.support.notebook import short

_LOG_BYTES = 256 << 20
_MOST_DEVICES = 256
_MOST_EXECUTIONS = 1 << 16


def limits(program: Program, executions: int) -> ObserveLimits:
    """Returns the limits of a run that keeps a number of executions of each collective.

    Raises:
      ParameterError: an invalid number, or more devices than can run here at once.
    """
    is_number = hasattr(type(executions), "__index__") and not isinstance(executions, bool)
    if not is_number or not 0 < executions <= _MOST_EXECUTIONS:
        raise ParameterError(
            f"executions is {short(executions)}. Expected the number of executions to record per collective, 1 to"
            f" {_MOST_EXECUTIONS:,}."
        )
    if program.device_count > _MOST_DEVICES:
        raise ParameterError(
            f"{program.name} needs {program.device_count:,} devices, but at most {_MOST_DEVICES} virtual devices can run"
            " at once. Lower it for a smaller mesh or axis environment."
        )
    return ObserveLimits(operator.index(executions), _LOG_BYTES)


def target_of(program: Program, logged: Sequence[Logged]) -> Target:
    """Returns the target of virtual CPU devices for the run.

    Raises:
      ParameterError: the program calls no collective.
      ExecutionError: the program calls back into this process.
    """
    if not logged:
        raise ParameterError(
            f"{program.name} calls no collective. Collectives inserted by the partitioner cannot be observed; their groups"
            " are in compile(...).collectives()."
        )
    if program.host_callbacks:
        raise ExecutionError(
            f"{program.name} calls back into this process (jax.debug.print, io_callback, pure_callback), which virtual"
            " devices in another process cannot do. Remove the callbacks."
        )
    return Target.parse(f"cpu:{program.device_count}" if program.device_count > 1 else "cpu")


class Observing:
    """The compile and the run of a program that returns the values of its collectives. Any thread may cancel it."""

    def __init__(
        self,
        request: CompileRequest,
        logged: Sequence[Logged],
        collectives: Collectives,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        """Starts the compile.

        Args:
          request: the compile request of that program.
          logged: descriptions of the values that it returns.
          collectives: the collectives of the original program.
          args: arguments as for `Compiled.run`.
          kwargs: keyword arguments as for `Compiled.run`.
        """
        self._logged, self._collectives, self._call = logged, collectives, (args, kwargs)
        self._engine = engine_for(None, request.program, request.target)
        self._lock, self._is_cancelled = threading.Lock(), False
        self._job: Job[Any] = self._engine.submit(request)

    def cancel(self) -> None:
        """Cancels the compile or the run. `result` then raises a CancelledError."""
        with self._lock:
            self._is_cancelled = True
            job = self._job
        job.cancel()

    def result(self) -> Observed:
        """Waits for the compile, runs the program, and returns the observed values."""
        compiled = self._job.result()
        inputs = choose_inputs(compiled, *self._call)
        with self._lock:
            if self._is_cancelled:
                raise CancelledError("The observation was canceled.")
            self._job = start(compiled, inputs, self._engine, repeat=1, warmup=0)
        return observed(finish(compiled, inputs, self._job.result()), self._logged, self._collectives)


def observed(run: Run, logged: Sequence[Logged], collectives: Collectives) -> Observed:
    """Returns the observed values of a run.

    Args:
      run: the run; its last outputs are the values.
      logged: descriptions of these values.
      collectives: the collectives of the original program.
    """
    log = iter(run.outputs[len(run.outputs) - sum(_arrays(one) for one in logged) :])
    values = [list(itertools.islice(log, _arrays(one))) for one in logged]
    triples = zip(logged, _names(logged, collectives), values, strict=True)
    items = tuple(_observation(one, name, arrays, collectives, run.num_replicas) for one, name, arrays in triples)
    return Observed(items, run.device_kind)


def _arrays(one: Logged) -> int:
    return 2 + len(one.operands) if one.capacity else 0


def _observation(
    one: Logged, name: str | Unavailable, values: Sequence[np.ndarray], collectives: Collectives, replicas: int
) -> Observation:
    mesh = collectives.mesh
    axes = one.manual or tuple(zip(mesh.axis_names, mesh.axis_sizes, strict=True) if mesh is not None else ())
    sizes = [size for _, size in axes]
    count = math.prod(sizes)
    places = np.indices(sizes).reshape(len(sizes), -1).T.tolist() if sizes else [[]]
    depth = one.levels if one.manual else int(replicas > 1)
    runs: tuple[int, ...] = ()
    arrays: list[np.ndarray] = []
    if values:
        counts, *arrays = (value.reshape(count, *value.shape[depth:]) for value in values)
        runs = tuple(counts.tolist())
    recordings = [array[:, : max(runs)] for array in arrays]
    line = own_frame([Frame(*frame) for frame in one.frames])
    ids = _logical_ids([n for n, _ in axes], places, mesh)
    return Observation(
        name=name,
        primitive=one.primitive,
        axes=one.axes,
        groups=one.groups,
        source_file=_NO_LINE if line is None else line.file,
        source_line=_NO_LINE if line is None else line.line,
        coordinates=tuple(dict(zip((n for n, _ in axes), map(int, place), strict=True)) for place in places),
        logical_ids=ids,
        devices=ids
        if isinstance(ids, Unavailable) or not collectives.devices
        else tuple(collectives.devices[i] for i in ids),
        executions=runs,
        before=tuple(recordings[:-1]),
        after=recordings[-1] if recordings else Unavailable(one.reason),
    )


def _logical_ids(
    names: Sequence[str], places: Sequence[Sequence[int]], mesh: Mesh | None
) -> tuple[int, ...] | Unavailable:
    """Returns the logical device ids of places along axes."""
    if mesh is None or len(set(names)) != len(names):
        return Unavailable("the program has no mesh with these axes")
    rest = [name for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True) if size > 1 and name not in names]
    if rest or not set(names) <= set(mesh.axis_names):
        return Unavailable(f"one value stands for all devices along {', '.join(rest) or 'other axes'}")
    order = [names.index(name) if name in names else None for name in mesh.axis_names]
    ids = []
    for place in places:
        position = 0
        for index, size in zip(order, mesh.axis_sizes, strict=True):
            position = position * size + (0 if index is None else place[index])
        ids.append(position if mesh.device_ids is None else mesh.device_ids[position])
    return tuple(ids)


def _names(logged: Sequence[Logged], collectives: Collectives) -> list[str | Unavailable]:
    """Returns the instruction of each collective, matched in order by primitive, line, groups and size. Calls of one function share them."""
    left, shared = list(collectives), list[Collective]()
    names: list[str | Unavailable] = []
    for one in logged:
        if one.primitive == "axis_index":
            names.append(_NO_INDEX)
            continue
        same = _instruction(one, left, collectives.mesh) or _instruction(one, shared, collectives.mesh)
        names.append(same.name if isinstance(same, Collective) else _NO_NAME if same is None else same)
        if same in left:
            left.remove(same)
            shared.append(same)
    return names


def _instruction(one: Logged, among: Sequence[Collective], mesh: Mesh | None) -> Collective | Unavailable | None:
    """Returns the first candidate, or Unavailable if the candidates differ in more than the order of their groups."""
    candidates = [collective for collective in among if _is_of(one, collective, mesh)]
    if _kinds(candidates) > 1:
        groups = _groups(one, mesh)
        candidates = [each for each in candidates if groups is not None and _written(each) == groups]
        if _kinds(candidates) != 1:
            return _SEVERAL
    return next(iter(candidates), None)


def _kinds(collectives: Sequence[Collective]) -> int:
    """Returns the number of different operations among collectives."""
    return len({(str(c.participants), c.dimensions, c.operand_shapes, c.result_shapes) for c in collectives})


def _written(collective: Collective) -> set[tuple[int, ...]]:
    return set() if isinstance(collective.participants, Unavailable) else set(map(tuple, collective.participants))


def _is_of(one: Logged, collective: Collective, mesh: Mesh | None) -> bool:
    """Reports whether a collective has the same primitive, line and size, and the same groups as far as they are known."""
    line = collective.origin.innermost
    if line is None or not one.frames or (line.file, line.line) != one.frames[0][:2]:
        return False
    if collective.origin.op_name.rpartition("/")[2] != one.primitive:
        return False
    if math.prod(collective.operand_shapes[0].dimensions) != math.prod(one.operands[0][0]):
        return False
    members, groups = collective.participants, _groups(one, mesh)
    if groups is None or isinstance(members, Unavailable):
        return True
    if collective.form is not None:
        if collective.opcode in ("all-reduce", "collective-broadcast"):  # where the order says nothing, or who sends
            return set(map(frozenset, members)) == set(map(frozenset, groups))
        return set(map(tuple, members)) == groups
    return all(any(set(group).issuperset(pair) for group in groups) for pair in members)


def _groups(one: Logged, mesh: Mesh | None) -> set[tuple[int, ...]] | None:
    """Returns the ids that communicate with each other along the named axes, in order; None if the mesh lacks one of the axes."""
    if mesh is None or not set(one.axes) <= set(mesh.axis_names):
        return None
    ids = mesh.id_of_position
    named = [mesh.axis_names.index(axis) for axis in one.axes]
    along = np.moveaxis(ids.reshape(mesh.axis_sizes), named, range(-len(named), 0))
    rows = along.reshape(-1, math.prod(mesh.axis_sizes[axis] for axis in named)).tolist()
    positions = one.groups or [range(len(row)) for row in rows[:1]]
    return {tuple(row[position] for position in group) for row in rows for group in positions}


_NO_LINE = Unavailable("its call stack has no line of the user's code")
_NO_INDEX = Unavailable("a device computes its index from its own id, without communication")
_SEVERAL = Unavailable("several instructions from its line match")
_NO_NAME = Unavailable("no instruction of the HLO before optimization is from its line")
