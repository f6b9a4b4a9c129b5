"""Applies the edits of a proof to a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from inspector.analysis.findings.edits import Donate, DropCallbacks, Edit, LiftConstants, SetFlags
from inspector.compilation.options.options import Options
from inspector.compilation.program import Argument, Program
from inspector.errors import Unavailable


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EditedProgram:
    """A program with edits.

    Attributes:
      program: the changed program.
      flags: flags for its compile, on top of those of the original.
      lifted: values of constants that became further arguments, which are the last ones.
    """

    program: Program
    flags: Options
    lifted: tuple[np.ndarray, ...] = ()


def edited_program(program: Program, edits: Sequence[Edit]) -> EditedProgram | Unavailable:
    """Returns a program with edits, or why it cannot have them.

    Raises:
      ModuleError: its StableHLO cannot be read.
    """
    from inspector._jax.modules.edits import edited  # values load without JAX

    flags = Options.of({name: value for edit in edits if isinstance(edit, SetFlags) for name, value in edit.flags})
    changes = [edit for edit in edits if not isinstance(edit, SetFlags)]
    if not changes:
        return EditedProgram(program, flags)
    if program.no_stablehlo is not None:
        return program.no_stablehlo
    least = min((edit.least_bytes for edit in changes if isinstance(edit, LiftConstants)), default=0)
    made = edited(program.module, [_call(e) for e in changes if not isinstance(e, LiftConstants)], least)
    if not made.places:
        return Unavailable("the program's StableHLO has no place where this can be changed")
    arguments = tuple(_donated(argument, changes) for argument in program.arguments)
    first = 1 + max((a.parameter for a in arguments if a.parameter is not None), default=-1)
    lifted = tuple(
        Argument(f"constant[{number}]", value.shape, value.dtype.name, first + number)
        for number, value in enumerate(made.lifted)
    )
    has_callbacks = program.host_callbacks and not any(isinstance(edit, DropCallbacks) for edit in changes)
    return EditedProgram(
        dataclasses.replace(
            program,
            module=made.module,
            arguments=(*arguments, *lifted),
            host_callbacks=has_callbacks,
            callbacks=program.callbacks if has_callbacks else None,
            binding=None if lifted else program.binding,
        ),
        flags,
        made.lifted,
    )


def _call(edit: Edit) -> tuple[str, dict[str, Any]]:
    return type(edit).__name__, {field.name: getattr(edit, field.name) for field in dataclasses.fields(edit)}


def _donated(argument: Argument, edits: Sequence[Edit]) -> Argument:
    donated = {parameter for edit in edits if isinstance(edit, Donate) for parameter, _ in edit.pairs}
    return dataclasses.replace(argument, donated=True) if argument.parameter in donated else argument
