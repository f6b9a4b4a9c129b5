"""The request to the process of another JAX, and its reply: values in files of the same form as an exploration."""

from __future__ import annotations

import dataclasses

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.reports.portable import PortableModule
from inspector.reports.recorded_exploration import RecordedError

QUESTION, REPLY = "inspector-question", "inspector-reply"
"""The formats of the two files."""


@dataclasses.dataclass(frozen=True, slots=True)
class OtherJaxRequest:
    """A compile request with the module in portable form."""

    program: Program
    options: Options
    target: Target
    products: tuple[str, ...]
    portable: PortableModule


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """The compiled program or the error."""

    result: CompiledProgram | RecordedError
