"""The time from a Python function to machine code, in parts and in the order in which it was spent."""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Iterator, Mapping

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.records.passes import Passes
from inspector.compilation.records.phases import BETWEEN, IMPORT, WHOLE
from inspector.errors import Unavailable

MOST_PIPELINES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class TimePart:
    """A part of the time.

    Attributes:
      name: the activity.
      where: the software that spent it: "JAX", "inspector", "XLA" or "XLA's passes".
      duration_s: seconds, or the reason why they are unknown.
    """

    name: str
    where: str
    duration_s: float | Unavailable


def compile_time(compiled: CompiledProgram, lowering: Mapping[str, float]) -> tuple[TimePart, ...]:
    """Returns the parts of the time. A compile that recorded its passes has one part per pipeline of passes.

    Args:
      compiled: the program.
      lowering: `Lowered.timings`; {} if unknown.
    """
    return tuple(_parts(compiled, lowering))


_NOT_TRACED = Unavailable("not measured: the program was passed as a module, or was traced and lowered in one step")
_NOT_MEASURED = Unavailable("the engine did not measure it")


def _parts(compiled: CompiledProgram, lowering: Mapping[str, float]) -> Iterator[TimePart]:
    timings = compiled.timings
    yield TimePart("tracing to a jaxpr", "JAX", lowering.get("trace_s", _NOT_TRACED))
    yield TimePart("lowering to StableHLO", "JAX", lowering.get("lower_s", _NOT_TRACED))
    yield TimePart("waiting for a worker, including its start", "inspector", timings.get("queue_s", _NOT_MEASURED))
    yield TimePart("reading StableHLO", "inspector", timings.get("parse_s", _NOT_MEASURED))
    yield from _of_compiler(compiled)
    yield TimePart("reading the result", "inspector", timings.get("read_s", _NOT_MEASURED))
    if "record_s" in timings:
        yield TimePart("saving the recording", "inspector", timings["record_s"])
    known = sum(timings.get(name, 0.0) for name in ("queue_s", "parse_s", "compile_s", "read_s", "record_s"))
    if "total_s" in timings and timings["total_s"] > known:
        yield TimePart("transfer between processes, and other work", "inspector", timings["total_s"] - known)


def _of_compiler(compiled: CompiledProgram) -> Iterator[TimePart]:
    compile_s = compiled.timings.get("compile_s", _NOT_MEASURED)
    passes = compiled.passes
    if not isinstance(passes, Passes) or not passes.phases or passes.phases[0].name == WHOLE:
        yield TimePart(WHOLE, "XLA", compile_s)
        return
    phases = {phase.name: phase.duration_s for phase in passes.phases}
    yield TimePart(IMPORT, "XLA", phases.pop(IMPORT, 0.0))
    by_pipeline: dict[str, float] = collections.defaultdict(float)
    for each in passes:
        if not isinstance(each.duration_s, Unavailable):
            by_pipeline[each.pipeline] += each.duration_s
    largest = heapq.nlargest(MOST_PIPELINES, by_pipeline, by_pipeline.__getitem__)
    for pipeline, seconds in by_pipeline.items():
        if pipeline in largest:
            yield TimePart(pipeline, "XLA's passes", seconds)
    others = sum(seconds for pipeline, seconds in by_pipeline.items() if pipeline not in largest)
    if others:
        count = len(by_pipeline) - len(largest)
        yield TimePart(f"{count} other pipeline{'s' if count > 1 else ''}", "XLA's passes", others)
    if BETWEEN in phases:
        yield TimePart(BETWEEN, "XLA", phases.pop(BETWEEN))
    for name, seconds in phases.items():
        yield TimePart(name, "XLA", seconds)
