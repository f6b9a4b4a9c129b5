"""The request to the process of another JAX, and its reply: values in files of the same form as an exploration."""

from __future__ import annotations

import dataclasses

import numpy as np

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.request import RunReply
from inspector.compilation.target import Target
from inspector.reports.portable import PortableModule
from inspector.reports.recorded_exploration import RecordedError

QUESTION, REPLY = "inspector-question", "inspector-reply"
"""The formats of the two files."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The inputs and executions of a run, as in `compilation.request.RunRequest`."""

    inputs: tuple[np.ndarray, ...]
    per_replica: tuple[bool, ...]
    repeat: int
    warmup: int
    with_outputs: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class OtherJaxRequest:
    """A request to compile a module, in portable form, or to run its program with a measurement."""

    program: Program
    options: Options
    target: Target
    products: tuple[str, ...]
    portable: PortableModule
    measurement: Measurement | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """The compiled program, the measured run, or the error."""

    result: CompiledProgram | RunReply | RecordedError
