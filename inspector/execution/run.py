"""`run`: a compiled program on real or made inputs, measured. `Run` is what came of it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.compilation.compiled import CompiledProgram, build_options_of
from inspector.compilation.engine import Engine, Job
from inspector.compilation.program import Program
from inspector.compilation.request import RunReply, RunRequest
from inspector.errors import ExecutionError, Unavailable
from inspector.execution.inputs import Input, given_inputs, made_inputs
from inspector.support.notebook import described, with_hint
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One measurement.

    Attributes:
      program: what ran.
      inputs: what went in, one a program parameter.
      outputs: one array a result, as `program.results`; a leading axis of replicas under an axis
        environment of more than one.
      durations_s: one wall-clock duration an execution, from the call to outputs ready, inputs
        already on the device.
      num_replicas: copies that ran together.
      device_kind: the device, as JAX names it.
      warnings: what compiler and runtime said.
    """

    program: Program
    inputs: tuple[Input, ...]
    outputs: tuple[np.ndarray, ...]
    durations_s: tuple[float, ...]
    num_replicas: int
    device_kind: str
    warnings: tuple[str, ...] = ()

    @property
    def median_s(self) -> float:
        """Median duration."""
        return statistics.median(self.durations_s)

    @property
    def min_s(self) -> float:
        """Shortest duration."""
        return min(self.durations_s)

    @property
    def iqr_s(self) -> float:
        """Interquartile range of the durations, the spread; 0 for a single one."""
        if len(self.durations_s) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.durations_s, n=4, method="inclusive")
        return high - low

    @property
    def result(self) -> Any | Unavailable:
        """The outputs in the shape that the function returns them (a pytree)."""
        if self.program.binding is None:
            return Unavailable("the program came without its pytree structure", "use outputs, a tuple")
        return self.program.binding.result(self.outputs)

    def replicas(self) -> pd.DataFrame:
        """Inputs and outputs of every replica, one row a replica, values as arrays.

        Under an axis environment the first columns are the replica's position along each axis, named
        as the axis, or `axis x` where an argument has that name.
        """
        import pandas as pd

        columns: dict[str, list[Any]] = {}
        mesh = self.program.mesh
        if mesh is not None and mesh.kind == "replica" and self.num_replicas == mesh.size:
            coordinates = np.indices(mesh.axis_sizes).reshape(len(mesh.axis_sizes), -1)
            taken = {given.argument.path for given in self.inputs}
            for name, row in zip(mesh.axis_names, coordinates, strict=True):
                columns[f"axis {name}" if name in taken else name] = list(row)
        for given in self.inputs:
            columns[given.argument.path] = [given.of_replica(r) for r in range(self.num_replicas)]
        for result, value in zip(self.program.results, self.outputs, strict=True):
            stacked = value if self.num_replicas > 1 else value[None]
            columns[f"result{result.path}"] = list(stacked)
        return pd.DataFrame(columns, index=pd.RangeIndex(self.num_replicas, name="replica"))

    def __repr__(self) -> str:
        made = sum(given.made for given in self.inputs)
        note = f", {made} of {len(self.inputs)} inputs made" if made else ""
        replicas = f" x {self.num_replicas} replicas" if self.num_replicas > 1 else ""
        text = (
            f"<Run {self.program.name} on {self.device_kind}{replicas}: median {format_seconds(self.median_s)}, spread"
            f" (IQR) {format_seconds(self.iqr_s)}, {len(self.durations_s)} executions{note}>"
        )
        return with_hint(text, ".result, .durations_s, inspector.compare_runs(run, other)")

    def _repr_html_(self) -> str:
        facts = {
            "median": format_seconds(self.median_s),
            "shortest": format_seconds(self.min_s),
            "spread (IQR)": format_seconds(self.iqr_s),
            "executions": str(len(self.durations_s)),
            "device": self.device_kind,
            **{
                f"output {i}": f"{each.dtype}[{','.join(map(str, each.shape))}]"
                for i, each in enumerate(self.outputs[:10])
            },
        }
        return described(repr(self), facts)


def run(
    compiled: CompiledProgram,
    engine: Engine,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    repeat: int = 10,
    warmup: int = 2,
) -> Run:
    """Runs on an engine and waits. See `Compiled.run`.

    Raises:
      ExecutionError: inputs that the program does not take, or a failure at run time.
    """
    inputs = choose_inputs(compiled, args, kwargs or {})
    return finish(compiled, inputs, start(compiled, inputs, engine, repeat=repeat, warmup=warmup).result())


def choose_inputs(compiled: CompiledProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Input, ...]:
    """The given inputs, checked; made ones when none are given.

    Raises:
      ExecutionError: not what the program takes.
    """
    num_replicas = build_options_of(compiled).num_replicas or 1
    if not args and not kwargs:
        return made_inputs(compiled.program)
    return given_inputs(compiled.program, args, kwargs, num_replicas)


def start(
    compiled: CompiledProgram, inputs: Sequence[Input], engine: Engine, *, repeat: int, warmup: int
) -> Job[RunReply]:
    """Starts the measurement and returns at once.

    Raises:
      ExecutionError: a number of executions that is none.
    """
    if not _is_count(repeat, 1) or not _is_count(warmup, 0):
        raise ExecutionError(
            f"repeat={repeat!r}, warmup={warmup!r}: expected numbers of executions, at least 1 that is measured and no"
            " fewer than 0 before."
        )
    return engine.run(
        RunRequest(
            compiled=compiled,
            inputs=tuple(i.value for i in inputs),
            per_replica=tuple(i.per_replica for i in inputs),
            repeat=repeat,
            warmup=warmup,
        )
    )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def finish(compiled: CompiledProgram, inputs: tuple[Input, ...], reply: RunReply) -> Run:
    """A `Run` from what the engine measured."""
    return Run(
        program=compiled.program,
        inputs=inputs,
        outputs=reply.outputs,
        durations_s=reply.durations_s,
        num_replicas=build_options_of(compiled).num_replicas or 1,
        device_kind=reply.device_kind,
        warnings=reply.warnings,
    )
