"""What another JAX is asked, and what it replies: values that lie in files as an exploration does."""

from __future__ import annotations

import dataclasses

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.reports.portable import PortableModule
from inspector.reports.recorded_exploration import RecordedError

QUESTION, REPLY = "inspector-question", "inspector-reply"
"""The formats of their files."""


@dataclasses.dataclass(frozen=True, slots=True)
class OtherJaxRequest:
    """What is compiled."""

    program: Program
    options: Options
    target: Target
    products: tuple[str, ...]
    portable: PortableModule


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What came of it."""

    result: CompiledProgram | RecordedError
