"""Large arguments that are whole on every device along a mesh axis that splits other arguments.

Two kinds are reported:
  - State of an optimizer: the program combines it element by element only, so that no device needs it whole.
  - An argument of at least a tenth of the peak memory, if most other weights below the same argument are split over the
    axis.

Weights that are whole on all devices of an axis that splits the batch are data parallelism, and no mistake.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.argument_names import argument_root, path_keys
from inspector.analysis.findings.edits import KeepResult, SplitParameter
from inspector.analysis.findings.finding import LEAST_SHARE, Finding
from inspector.analysis.findings.forward import Reached, reached
from inspector.analysis.findings.spec_code import axis_size, spec_code
from inspector.analysis.findings.subject import Subject
from inspector.analysis.memory.donations import reused_parameters
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.analysis.sharding.program_shardings import ArraySharding
from inspector.compilation.program import Result
from inspector.errors import Unavailable
from inspector.support.units import counted, format_bytes, format_list

KIND = "replicated-argument"
LEAST_PART = 0.1
"""Smallest part of the peak memory for which an argument is reported that is not state of an optimizer."""
_MOST_NAMED = 3
_BY_ELEMENT = frozenset({
    "abs", "add", "and", "ceil", "clamp", "compare", "convert", "divide", "exponential", "floor", "is-finite", "log", "maximum",
    "minimum", "multiply", "negate", "not", "or", "power", "reduce", "rsqrt", "select", "sign", "sqrt", "subtract", "tanh",
})  # fmt: skip
"""Operations that need no whole array. A reduction of parts adds partial sums."""
_STATE_CAUTION = (
    "Each device then updates its part of the parameters, and the parts are gathered in every step (ZeRO), which takes time"
    " if the parameters stay whole."
)
_ARGUMENT_CAUTION = "Products that need it whole gather it in every step, which takes time. It may be whole on purpose."


class _Whole(NamedTuple):
    """An array that is whole along an axis, with a dimension that the axis can split."""

    array: ArraySharding
    sharding: Sharding
    parameter: int
    byte_size: int
    axis: str
    dimension: int

    @property
    def saved_bytes(self) -> int:
        return self.byte_size - self.byte_size // axis_size(self.sharding, self.axis)


def replicated_argument(subject: Subject) -> Iterator[Finding]:
    """Yields findings of arguments with arrays that could be split: state together by argument and axis, others alone."""
    arrays = [each for each in subject.shardings if each.kind == "argument"]
    wholes = [whole for each in arrays if (whole := _whole(each, arrays)) is not None]
    if sum(each.saved_bytes for each in wholes) < LEAST_SHARE * subject.peak_bytes or isinstance(
        subject.before, Unavailable
    ):
        return
    results = subject.compiled.program.results
    states: dict[tuple[str, str], list[_Whole]] = {}
    for each in wholes:
        if _is_state(each.array, _uses(subject, each.parameter), results):
            states.setdefault((argument_root(each.array.name), each.axis), []).append(each)
        elif each.byte_size >= LEAST_PART * subject.peak_bytes and _is_split_beside(subject, each, arrays):
            yield _finding(
                subject,
                [each],
                f"although other arrays of `{argument_root(each.array.name)}` are split",
                is_state=False,
            )
    for group in states.values():
        yield _finding(subject, group, "although the program only combines them element by element", is_state=True)


def _finding(subject: Subject, wholes: Sequence[_Whole], although: str, *, is_state: bool) -> Finding:
    first = wholes[0]
    names = format_list([f"`{each.array.name}`" for each in wholes], most=_MOST_NAMED)
    numbers = {each.parameter for each in wholes}
    size = sum(each.byte_size for each in wholes)
    count = axis_size(first.sharding, first.axis)
    reused = reused_parameters(subject.module)
    # The new version of state is split too: it is another array unless it has the buffer of the old one.
    saved = sum(each.saved_bytes * (2 if is_state and each.parameter not in reused else 1) for each in wholes)
    title = (
        f"{names} ({format_bytes(size)} per device) {'is' if len(wholes) == 1 else 'are'} whole on each of the {count} devices"
        f" of axis {first.axis}, {although if len(wholes) > 1 else although.replace('them', 'it')}."
    )
    specs = dict.fromkeys(f"{each.array.name}: {_split(each)}" for each in wholes[:_MOST_NAMED])
    more = f"\n# and {counted(len(wholes) - _MOST_NAMED, 'more array')}" if len(wholes) > _MOST_NAMED else ""
    return subject.finding(
        KIND, title, "\n".join([f"# shardings of the arguments{' and of their new versions (out_shardings)' * is_state}", *specs]) + more, gain_bytes=saved,
        caution=_STATE_CAUTION if is_state else _ARGUMENT_CAUTION,
        instructions=[p.name for p in subject.module.entry.parameters if p.parameter_number in numbers],
        edits=(*(SplitParameter(each.parameter, each.dimension, each.axis) for each in wholes), *(_kept(subject, wholes) if is_state else ())),
    )  # fmt: skip


def _kept(subject: Subject, wholes: Sequence[_Whole]) -> Iterator[KeepResult]:
    """Yields the results that are not the state: parameters would be split like it, and the next call needs them whole."""
    names = [path_keys(each.array.name) for each in wholes]
    for each in subject.shardings:
        if each.kind != "result" or each.number is None or each.asked or isinstance(each.sharding, Unavailable):
            continue
        keys = path_keys(each.name)
        if not any(name and keys[-len(name) :] == name for name in names):
            yield KeepResult(each.number, each.sharding.axes)


def _split(whole: _Whole) -> str:
    """Returns the code of the sharding with the axis."""
    axes = [*whole.sharding.axes]
    axes[whole.dimension] = (*axes[whole.dimension], whole.axis)
    return spec_code(axes)


def _whole(array: ArraySharding, arrays: Sequence[ArraySharding]) -> _Whole | None:
    """Returns an array with an axis that splits other arguments and could split it too; None if there is none."""
    sharding, byte_size = array.sharding, array.part_bytes
    if isinstance(sharding, Unavailable) or isinstance(byte_size, Unavailable) or array.number is None:
        return None
    for axis in sorted(sharding.replicated_over, key=lambda axis: -axis_size(sharding, axis)):
        if not any(_splits(other, axis) for other in arrays):
            continue
        for dimension in sorted(range(len(sharding.shape)), key=lambda d: -sharding.part_shape[d]):
            whole_count = axis_size(sharding, axis) * math.prod(
                axis_size(sharding, a) for a in sharding.axes[dimension]
            )
            if sharding.shape[dimension] and sharding.shape[dimension] % whole_count == 0:
                return _Whole(array, sharding, array.number, byte_size, axis, dimension)
    return None


def _is_state(array: ArraySharding, uses: Reached, results: Sequence[Result]) -> bool:
    """Reports whether a program combines an array element by element only, and returns the new one by the same name."""
    keys = path_keys(array.name)
    return uses.opcodes <= _BY_ELEMENT and any(
        results[number].shape == array.shape and bool(keys) and path_keys(results[number].path)[-len(keys) :] == keys
        for number in uses.results
        if number < len(results)
    )


def _is_split_beside(subject: Subject, whole: _Whole, arrays: Sequence[ArraySharding]) -> bool:
    """Reports whether an array is an exception: whole, while most other weights below the same argument are split.

    Positions in a tuple name no weights: they may be independent arguments. State of an optimizer does not count.
    """
    root, results = argument_root(whole.array.name), subject.compiled.program.results
    if any(whole.sharding.axes) or all(key.isdecimal() for key in path_keys(whole.array.name)):
        return False
    others = [each for each in arrays if argument_root(each.name) == root and each.number != whole.parameter]
    weights = [each for each in others if not _is_state(each, _uses(subject, each.number), results)]
    split = sum(math.prod(each.shape) for each in weights if _splits(each, whole.axis))
    return split > sum(math.prod(each.shape) for each in weights) / 2


def _uses(subject: Subject, parameter: int | None) -> Reached:
    if isinstance(subject.before, Unavailable) or parameter is None:
        return Reached(frozenset({"unknown"}), frozenset())
    return reached(subject.before, parameter)


def _splits(array: ArraySharding, axis: str) -> bool:
    return not isinstance(array.sharding, Unavailable) and any(axis in axes for axes in array.sharding.axes)
