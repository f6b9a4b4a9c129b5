"""Applies the edits of a proof to a program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inspector.analysis.findings.edits import (
    Donate,
    DropCallbacks,
    DropParameters,
    DropResults,
    Edit,
    InterleaveColumns,
    LiftConstants,
    PlaceDevices,
    SetFlags,
    SingleFloats,
    StoreNarrow,
    StoreTransposed,
    TraceAgain,
    UpdateSlices,
)
from inspector.analysis.findings.subject import NO_FUNCTION
from inspector.compilation.options.options import Options
from inspector.compilation.placement import placed
from inspector.compilation.program import Argument, Program
from inspector.compilation.what_if import WhatIf, fit_shape
from inspector.errors import InspectorError, Unavailable
from inspector.execution.inputs import Input
from inspector.hlo.shape import NUMPY_TYPES

_SINGLE = {"float64": "float32", "complex128": "complex64"}
"""Types of 32-bit floats by those of 64-bit ones."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EditedProgram:
    """A program with edits.

    Attributes:
      program: the changed program.
      flags: flags for its compile, on top of those of the original.
      lifted: values of constants that became further arguments, which are the last ones.
      orders: the new order of dimensions of parameters that are stored in another order, by number.
      types: the names of the new types of parameters that are stored in another type, by number.
      columns: the edits that give columns of parameters another order, by the numbers of the parameters.
      dropped: numbers of the original program's parameters that it does not have.
      is_resized: whether parameters have other shapes, so that its results cannot be compared.
    """

    program: Program
    flags: Options
    lifted: tuple[np.ndarray, ...] = ()
    orders: Mapping[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    types: Mapping[int, str] = dataclasses.field(default_factory=dict)
    columns: Mapping[int, InterleaveColumns] = dataclasses.field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    is_resized: bool = False

    def inputs(self, original: Sequence[Input]) -> tuple[Input, ...]:
        """Returns the inputs with which it computes what the original program computes from its inputs, or those fitted to other shapes."""
        arguments = [argument for argument in self.program.arguments if argument.parameter is not None]
        passed = [each for each in original if each.argument.parameter not in self.dropped]
        known = [self._stored(argument, each) for argument, each in zip(arguments, passed, strict=False)]
        added = zip(arguments[len(arguments) - len(self.lifted) :], self.lifted, strict=True)
        return (*known, *(Input(argument, value) for argument, value in added))

    def _stored(self, argument: Argument, original: Input) -> Input:
        """Returns an input in the order and the type in which the program takes it."""
        number, value = argument.parameter or 0, original.value
        if self.is_resized:
            value = fit_shape(value, argument.shape)
        if number in self.orders:
            value = value.transpose(self.orders[number])
        if number in self.columns:
            value = _interleaved(value, self.columns[number])
        if number in self.types:
            value = value.astype(argument.dtype)
        return original if value is original.value else dataclasses.replace(original, argument=argument, value=value)


def edited_program(program: Program, edits: Sequence[Edit]) -> EditedProgram | Unavailable:
    """Returns a program with edits, or why it cannot have them.

    Raises:
      ModuleError: its StableHLO cannot be read.
    """
    from inspector._jax.edits.edited import edited  # values load without JAX

    flags = Options.of({name: value for edit in edits if isinstance(edit, SetFlags) for name, value in edit.flags})
    suppositions = [edit.what_if for edit in edits if isinstance(edit, TraceAgain)]
    if suppositions:
        traced = _traced_again(program, functools.reduce(WhatIf.merge, suppositions))
        if isinstance(traced, Unavailable):
            return traced
        program = traced
    is_resized = any(isinstance(edit, TraceAgain) and edit.resizes for edit in edits)
    for edit in edits:
        if isinstance(edit, PlaceDevices):
            mesh = placed(program.mesh, edit.device_ids)
            program = dataclasses.replace(program, device_ids=edit.device_ids, mesh=mesh)
    changes = [edit for edit in edits if not isinstance(edit, SetFlags | PlaceDevices | TraceAgain)]
    if not changes:
        return EditedProgram(program, flags, is_resized=is_resized)
    if program.no_stablehlo is not None:
        return program.no_stablehlo
    least = min((edit.least_bytes for edit in changes if isinstance(edit, LiftConstants)), default=0)
    made = edited(program.module, [_call(e) for e in changes if not isinstance(e, LiftConstants)], least)
    if not made.places:
        return Unavailable("the program's StableHLO has no place where this can be changed")
    orders = {edit.parameter: edit.order for edit in changes if isinstance(edit, StoreTransposed)}
    types = {
        number: NUMPY_TYPES[edit.element_type]
        for edit in changes
        if isinstance(edit, StoreNarrow)
        for number in edit.parameters
    }
    if any(isinstance(edit, SingleFloats) for edit in changes):
        types |= {
            a.parameter: _SINGLE[a.dtype] for a in program.arguments if a.parameter is not None and a.dtype in _SINGLE
        }
    narrowed = {
        number: NUMPY_TYPES[edit.element_type]
        for edit in changes
        if isinstance(edit, StoreNarrow)
        for number in edit.results
    }
    columns = {n: edit for edit in changes if isinstance(edit, InterleaveColumns) for n in edit.parameters}
    dropped = frozenset(n for edit in changes if isinstance(edit, DropParameters) for n in edit.parameters)
    kept = (_without(argument, dropped) for argument in program.arguments)
    arguments = tuple(_stored(_donated(argument, changes), orders, types) for argument in kept)
    first = 1 + max((a.parameter for a in arguments if a.parameter is not None), default=-1)
    lifted = tuple(
        Argument(f"constant[{number}]", value.shape, value.dtype.name, first + number)
        for number, value in enumerate(made.lifted)
    )
    left_out = {n for edit in changes if isinstance(edit, DropResults) for n in edit.results}
    has_callbacks = program.host_callbacks and not any(isinstance(edit, DropCallbacks) for edit in changes)
    return EditedProgram(
        dataclasses.replace(
            program,
            module=made.module,
            arguments=(*arguments, *lifted),
            results=tuple(
                dataclasses.replace(each, dtype=narrowed.get(number, each.dtype))
                for number, each in enumerate(program.results)
                if number not in left_out
            ),
            host_callbacks=has_callbacks,
            callbacks=program.callbacks if has_callbacks else None,
            binding=None if lifted or orders or types or columns or dropped or left_out else program.binding,
        ),
        flags,
        made.lifted,
        orders,
        types,
        columns,
        dropped,
        is_resized,
    )


def _interleaved(value: Any, edit: InterleaveColumns) -> Any:
    """Returns an array in the order of columns of an edit."""
    apart = value.reshape(*value.shape[:-1], edit.count, edit.devices, edit.width // (edit.count * edit.devices))
    return apart.swapaxes(-3, -2).reshape(value.shape)


def _traced_again(program: Program, what_if: WhatIf) -> Program | Unavailable:
    if program.changed is None:
        return NO_FUNCTION
    try:
        changed = program.changed(what_if)
    except InspectorError:
        raise
    except Exception as error:  # the function can raise anything
        return Unavailable(
            f"tracing the function again failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        )
    return (
        changed
        if changed.module != program.module
        else Unavailable("the function has no place where this can be changed")
    )


def _call(edit: Edit) -> tuple[str, dict[str, Any]]:
    return type(edit).__name__, {field.name: getattr(edit, field.name) for field in dataclasses.fields(edit)}


def _donated(argument: Argument, edits: Sequence[Edit]) -> Argument:
    donating = (edit for edit in edits if isinstance(edit, Donate | UpdateSlices))
    donated = {parameter for edit in donating for parameter, _ in edit.pairs}
    return dataclasses.replace(argument, donated=True) if argument.parameter in donated else argument


def _without(argument: Argument, dropped: frozenset[int]) -> Argument:
    """Returns an argument with the number that its parameter has without those that are dropped."""
    number = argument.parameter
    if number is None:
        return argument
    left = None if number in dropped else number - sum(each < number for each in dropped)
    return argument if left == number else dataclasses.replace(argument, parameter=left)


def _stored(argument: Argument, orders: Mapping[int, tuple[int, ...]], types: Mapping[int, str]) -> Argument:
    """Returns an argument with the order of its dimensions and the type in which it is stored."""
    number = -1 if argument.parameter is None else argument.parameter
    order = orders.get(number, range(len(argument.shape)))
    return dataclasses.replace(
        argument, shape=tuple(argument.shape[d] for d in order), dtype=types.get(number, argument.dtype)
    )
