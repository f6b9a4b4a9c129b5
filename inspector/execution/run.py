"""`run`: runs a compiled program on given or generated inputs and measures it. `Run` is the result."""

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
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The result of one measurement.

    Attributes:
      program: the program.
      inputs: one input per program parameter.
      outputs: one array per result, as in `program.results`; with a leading axis of replicas if there is more than one.
      durations_s: wall-clock duration of each execution in seconds, from the call until the outputs are ready, with inputs
        on the device.
      num_replicas: number of replicas.
      device_kind: JAX's name of the device.
      warnings: warnings of the compiler and the runtime.
      first_s: duration of the first execution in seconds, before the measured ones; None without any before.
      dispatch_s: the part of each duration until the call returned, in seconds; the device may still work then.
      printed: the beginning of what host callbacks printed in all executions, such as `jax.debug.print`.
      series: name of the measurement in which it ran in turns with other programs; "" if it ran alone.
    """

    program: Program
    inputs: tuple[Input, ...]
    outputs: tuple[np.ndarray, ...]
    durations_s: tuple[float, ...]
    num_replicas: int
    device_kind: str
    warnings: tuple[str, ...] = ()
    first_s: float | None = None
    dispatch_s: tuple[float, ...] = ()
    printed: str = ""
    series: str = ""

    @property
    def median_s(self) -> float:
        """Median duration, in seconds."""
        return statistics.median(self.durations_s)

    @property
    def min_s(self) -> float:
        """Shortest duration, in seconds."""
        return min(self.durations_s)

    @property
    def iqr_s(self) -> float:
        """Interquartile range of the durations, in seconds; 0 for a single one."""
        return interquartile_range(self.durations_s)

    @property
    def result(self) -> Any | Unavailable:
        """The outputs as the pytree that the function returns."""
        if self.program.binding is None:
            return Unavailable("the program came without its pytree structure", "use outputs, a tuple")
        return self.program.binding.result(self.outputs)

    def replicas(self) -> pd.DataFrame:
        """Returns a table of inputs and outputs with one row per replica. Values are arrays.

        With an axis environment, the first columns are the replica's position along each axis. They are named after the
        axis, or `axis x` if an argument has that name.
        """
        import pandas as pd

        columns: dict[str, list[Any]] = {}
        mesh = self.program.mesh
        if mesh is not None and mesh.kind == "replica" and self.num_replicas == mesh.size:
            coordinates = np.indices(mesh.axis_sizes).reshape(len(mesh.axis_sizes), -1)
            taken = {each.argument.path for each in self.inputs}
            for name, row in zip(mesh.axis_names, coordinates, strict=True):
                columns[f"axis {name}" if name in taken else name] = list(row)
        for each in self.inputs:
            columns[each.argument.path] = [each.of_replica(r) for r in range(self.num_replicas)]
        for result, value in zip(self.program.results, self.outputs, strict=True):
            stacked = value if self.num_replicas > 1 else value[None]
            columns[f"result{result.path}"] = list(stacked)
        return pd.DataFrame(columns, index=pd.RangeIndex(self.num_replicas, name="replica"))

    def __repr__(self) -> str:
        made = sum(each.made for each in self.inputs)
        note = f", {made} of {len(self.inputs)} inputs generated" if made else ""
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
            **({"first execution": format_seconds(self.first_s)} if self.first_s is not None else {}),
            **({"dispatch": format_seconds(statistics.median(self.dispatch_s))} if self.dispatch_s else {}),
            "executions": str(len(self.durations_s)),
            "device": self.device_kind,
            **{
                f"output {i}": f"{each.dtype}[{','.join(map(str, each.shape))}]"
                for i, each in enumerate(self.outputs[:10])
            },
        }
        return described(repr(self), facts)


def interquartile_range(values: Sequence[float]) -> float:
    """Returns the interquartile range; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def run(
    compiled: CompiledProgram,
    engine: Engine,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    repeat: int = 10,
    warmup: int = 2,
) -> Run:
    """Runs a program on an engine and waits for the result. See `Compiled.run`.

    Raises:
      ExecutionError: the inputs do not match the program, or the run failed.
    """
    inputs = choose_inputs(compiled, args, kwargs or {})
    return finish(compiled, inputs, start(compiled, inputs, engine, repeat=repeat, warmup=warmup).result())


def choose_inputs(compiled: CompiledProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Input, ...]:
    """Checks and returns the given inputs, or generates inputs if none are given.

    Raises:
      ExecutionError: the inputs do not match the program.
    """
    num_replicas = build_options_of(compiled).num_replicas or 1
    if not args and not kwargs:
        return made_inputs(compiled.program)
    return given_inputs(compiled.program, args, kwargs, num_replicas)


def start(
    compiled: CompiledProgram,
    inputs: Sequence[Input],
    engine: Engine,
    *,
    repeat: int,
    warmup: int,
    profiled: bool = False,
    with_outputs: bool = True,
) -> Job[RunReply]:
    """Starts a measurement, under JAX's profiler if `profiled`, and returns immediately.

    Without outputs, it takes less time; the reply is for its durations.

    Raises:
      ExecutionError: `repeat` or `warmup` is not a valid number of executions.
    """
    if not _is_count(repeat, 1) or not _is_count(warmup, 0):
        raise ExecutionError(
            f"repeat={short(repeat)}, warmup={short(warmup)}: expected numbers of executions, at least 1 to measure (repeat)"
            " and at least 0 before (warmup)."
        )
    return engine.run(
        RunRequest(
            compiled=compiled,
            inputs=tuple(i.value for i in inputs),
            per_replica=tuple(i.per_replica for i in inputs),
            repeat=repeat,
            warmup=warmup,
            profiled=profiled,
            with_outputs=with_outputs,
        )
    )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least


def finish(compiled: CompiledProgram, inputs: tuple[Input, ...], reply: RunReply) -> Run:
    """Builds a `Run` from the engine's reply."""
    return Run(
        program=compiled.program,
        inputs=inputs,
        outputs=reply.outputs,
        durations_s=reply.durations_s,
        num_replicas=build_options_of(compiled).num_replicas or 1,
        device_kind=reply.device_kind,
        warnings=reply.warnings,
        first_s=reply.first_s,
        dispatch_s=reply.dispatch_s,
        printed=reply.printed,
    )
