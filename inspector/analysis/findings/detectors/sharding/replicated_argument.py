"""Large arguments that are whole on every device along a mesh axis that splits other arguments.

Four kinds are reported:
  - State of an optimizer: the program combines it element by element only, so that no device needs it whole.
  - Arguments of which each device only reads the part at its place along the axis, together at least a tenth of the peak
    memory.
  - An argument of at least a tenth of the peak memory, if most other weights below the same argument are split over the
    axis.
  - Arrays of an argument, together at least a tenth of the peak memory, if those of the same paths and shapes below another
    argument are split, as the weights of a teacher beside those of its student.

Weights that are whole on all devices of an axis that splits the batch are data parallelism, and no mistake: the devices along
the axis use them with different data. They are left out, unless other weights of the argument are gathered over the axis (FSDP).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inspector.analysis.findings.argument_behind import argument_behind
from inspector.analysis.findings.argument_names import argument_root, path_keys
from inspector.analysis.findings.detectors.sharding.whole_versions import whole_versions
from inspector.analysis.findings.device_differences import differs
from inspector.analysis.findings.device_uses import device_uses, read_part
from inspector.analysis.findings.edits import KeepResult, SplitParameter, SplitVersions, TakeParts
from inspector.analysis.findings.finding import LEAST_SHARE, Finding
from inspector.analysis.findings.forward import Reached, reached
from inspector.analysis.findings.spec_code import axis_size, spec_code
from inspector.analysis.findings.subject import Subject
from inspector.analysis.memory.donations import reused_parameters
from inspector.analysis.sharding.array_sharding import Sharding
from inspector.analysis.sharding.program_shardings import ArraySharding
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.support.units import counted, format_bytes, format_list

KIND = "replicated-argument"
LEAST_PART = 0.1
"""Smallest part of the peak memory for which an argument is reported that is not state of an optimizer."""
_MOST_NAMED, _MOST_SPECS = 3, 8
_PUT = (
    "def put(path, x):",
    "    spec = specs.get(jax.tree_util.keystr(path))",
    "    return x if spec is None else jax.device_put(x, NamedSharding(mesh, spec))",
)
_SLICING = frozenset({"dynamic-slice", "bitcast", "reshape", "parameter", "constant", "partition-id"})
_COMBINING = frozenset({"all-gather", "all-reduce"})
"""Collectives after which the devices along the axis have equal values."""
_BY_ELEMENT = frozenset({
    "abs", "add", "and", "ceil", "clamp", "compare", "convert", "divide", "exponential", "floor", "is-finite", "log", "maximum",
    "minimum", "multiply", "negate", "not", "or", "power", "reduce", "rsqrt", "select", "sign", "sqrt", "subtract", "tanh",
})  # fmt: skip
"""Operations that need no whole array. A reduction of parts adds partial sums."""
_STATE_CAUTION = (
    "Each device then updates its part of the parameters, and the parts are gathered in every step (ZeRO), which takes time"
    " if the parameters stay whole."
)
_PART_CAUTION = "A program that needs it whole has to gather it."
_ARGUMENT_CAUTION = "Products that need it whole gather it in every step, which takes time. It may be whole on purpose."


class _Whole(NamedTuple):
    """An array that is whole along axes, with the dimensions that they can split.

    Attributes:
      array: the array.
      sharding: its sharding.
      parameter: its number.
      byte_size: the bytes of a device's part.
      axes: the axes.
      dimensions: the dimension that each of them can split.
      slices: the operations by which each device reads its part.
      version: the position of the result that is the new version of state; None for others.
      has_counterpart: whether another argument of its name and shape is split over the axes.
    """

    array: ArraySharding
    sharding: Sharding
    parameter: int
    byte_size: int
    axes: tuple[str, ...]
    dimensions: tuple[int, ...]
    slices: tuple[Instruction, ...] = ()
    version: int | None = None
    has_counterpart: bool = False

    @property
    def axis(self) -> str:
        return self.axes[0]

    @property
    def splits(self) -> tuple[tuple[int, str], ...]:
        """The dimensions with the axes that can split them."""
        return tuple(zip(self.dimensions, self.axes, strict=True))

    @property
    def device_count(self) -> int:
        """Number of devices along the axes."""
        return math.prod(axis_size(self.sharding, axis) for axis in self.axes)

    @property
    def is_sliced_by_hand(self) -> bool:
        """True if the body of a `shard_map` takes the part of each device, False if the partitioner does."""
        return any("shard_map" in each.op_name for each in self.slices)

    @property
    def saved_bytes(self) -> int:
        return self.byte_size - self.byte_size // self.device_count


def replicated_argument(subject: Subject) -> Iterator[Finding]:
    """Yields findings of arguments with arrays that could be split.

    State, and arrays of which devices read a part, are together by argument and axis; others are alone.
    """
    arrays = [each for each in subject.shardings if each.kind == "argument"]
    if isinstance(subject.before, Unavailable):
        return
    counterparts = _Counterparts(arrays)
    wholes = {each.number: whole for each in arrays if (whole := _whole(each, arrays, counterparts)) is not None}
    versions = _versions(subject, [each for each in arrays if each.number in wholes], arrays)
    states: dict[tuple[str, ...], list[_Whole]] = {}
    parts: dict[tuple[str, tuple[str, ...], bool], list[_Whole]] = {}
    copies: dict[tuple[str, tuple[str, ...]], list[_Whole]] = {}
    rest: list[_Whole] = []
    for array in arrays:
        whole, root = wholes.get(array.number), argument_root(array.name)
        if whole is not None and whole.parameter in versions and _is_by_element(subject, array):
            states.setdefault(whole.axes, []).append(whole._replace(version=versions[whole.parameter]))
        elif (part := _read_in_part(subject, array)) is not None:
            parts.setdefault((root, part.axes, part.is_sliced_by_hand), []).append(part)
        elif whole is not None:
            rest.append(whole)
    for group in states.values():
        if sum(each.saved_bytes for each in group) >= LEAST_SHARE * subject.peak_bytes:
            yield _finding(subject, group, "although the program only combines them element by element", is_state=True)
    for group in parts.values():
        if sum(each.byte_size for each in group) >= LEAST_PART * subject.peak_bytes:
            how = " and slices it by hand" * group[0].is_sliced_by_hand
            yield _finding(
                subject, group, f"although each device reads only a part of them{how}", caution=_PART_CAUTION
            )
    for each in rest:
        if (beside := counterparts.elsewhere(each)) and not _has_own_data(subject, each, arrays, beside):
            copies.setdefault((argument_root(each.array.name), each.axes), []).append(each)
        elif each.byte_size >= LEAST_PART * subject.peak_bytes and _is_split_beside(subject, each, arrays):
            although = f"although other arrays of `{argument_root(each.array.name)}` are split"
            yield _finding(subject, [each], although, caution=_ARGUMENT_CAUTION)
    for group in copies.values():
        if sum(each.byte_size for each in group) >= LEAST_PART * subject.peak_bytes:
            numbers = {number for each in group for number in counterparts.elsewhere(each)}
            roots = {argument_root(each.name): None for each in arrays if each.number in numbers}
            others = format_list([f"`{root}`" for root in roots])
            caution = f"Their products then communicate as those of {others} do, which takes time. They may be whole on purpose."
            yield _finding(subject, group, f"although the same arrays of {others} are split", caution=caution)


def _finding(
    subject: Subject,
    wholes: Sequence[_Whole],
    although: str,
    *,
    is_state: bool = False,
    caution: str = _STATE_CAUTION,
) -> Finding:
    first = wholes[0]
    names = format_list([f"`{each.array.name}`" for each in wholes], most=_MOST_NAMED)
    numbers = {each.parameter for each in wholes}
    size = sum(each.byte_size for each in wholes)
    saved = sum(each.saved_bytes + (_saved_of_new(subject, each) if is_state else 0) for each in wholes)
    copies = {kernel.name: kernel for each in wholes for kernel in _copies(subject, each.slices)}
    times = {**dict(_fetched(subject, wholes)), **dict.fromkeys(copies, 1.0)}
    computed, gathers = whole_versions(subject, _split_beside(wholes), first.device_count) if is_state else ([], [])
    if gathers:  # otherwise the arrays that are computed from the state may be gathered instead
        times |= dict.fromkeys(computed, 1 - 1 / first.device_count) | {each.name: 1.0 for each in gathers}
    freed = {**copies, **{each.name: each for each in gathers}}
    saved = min(saved + sum(map(_result_bytes, _at_peak(subject, freed))), subject.peak_bytes or saved)
    title = (
        f"{names} ({format_bytes(size)} per device) {'is' if len(wholes) == 1 else 'are'} whole on each of the {first.device_count} devices"
        f" of {'axis' if len(first.axes) == 1 else 'axes'} {'+'.join(first.axes)}, {although if len(wholes) > 1 else although.replace('them', 'it')}."
    )
    return subject.finding(
KIND, title, _remedy(wholes, is_state=is_state), gain_bytes=saved, has_estimated_bytes=is_state,
        caution=caution, saved=times or None,
        instructions=[p.name for p in subject.module.entry.parameters if p.parameter_number in numbers],
        frames=first.slices[0].frames if first.is_sliced_by_hand else (),
        edits=(_taken(wholes),) if first.is_sliced_by_hand else (
            *(SplitParameter(each.parameter, *split) for each in wholes for split in each.splits),
            *(_new_versions(subject, wholes) if is_state else ()),
        ),
    )  # fmt: skip


def _split_beside(wholes: Sequence[_Whole]) -> Iterator[tuple[int, int]]:
    """Yields the new versions of state whose counterparts are split already, with their bytes."""
    yield from ((each.version, each.byte_size) for each in wholes if each.version is not None and each.has_counterpart)


def _result_bytes(kernel: Instruction) -> int:
    """Returns the bytes of what a kernel writes; those of the last element for an asynchronous collective."""
    shape = kernel.shape
    return shape.tuple_shapes[-1].byte_size if shape.is_tuple and kernel.opcode.endswith("-start") else shape.byte_size


def _taken(wholes: Sequence[_Whole]) -> TakeParts:
    """Returns the edit that splits arrays, and removes the slices in a `shard_map`."""
    return TakeParts(
        tuple(each.parameter for each in wholes), tuple(each.dimensions[0] for each in wholes), tuple(each.axes for each in wholes)
    )  # fmt: skip


def _specs_of_parts(whole: _Whole) -> str:
    """Returns the change of a `shard_map` whose body slices arrays by hand, as the first line of the remedy."""
    axes = whole.axes[0] if len(whole.axes) == 1 else whole.axes
    return (
        f"# in the shard_map: these specs in in_specs, and no slice at axis_index({axes!r}): the body gets the part\n"
    )


def _remedy(wholes: Sequence[_Whole], *, is_state: bool) -> str:
    """Returns the code that splits arrays below arguments."""
    below: dict[str, list[_Whole]] = {}
    for each in wholes:
        below.setdefault(argument_root(each.array.name), []).append(each)
    return "\n".join(_remedy_below(root, arrays, is_state=is_state) for root, arrays in below.items())


def _remedy_below(root: str, wholes: Sequence[_Whole], *, is_state: bool) -> str:
    """Returns the code that splits arrays below one argument."""
    by_hand = _specs_of_parts(wholes[0]) if wholes[0].is_sliced_by_hand else ""
    return by_hand + _splitting_code(root, wholes, is_state=is_state)


def _splitting_code(root: str, wholes: Sequence[_Whole], *, is_state: bool) -> str:
    after = "  # once, where it is made"
    versions = "\n# and the same out_shardings and sharding constraints of their new versions" * is_state
    if wholes[0].array.name == root:
        return f"{root} = jax.device_put({root}, NamedSharding(mesh, {_split(wholes[0])})){after}{versions}"
    specs = [f'    "{each.array.name[len(root) :]}": {_split(each)},' for each in wholes[:_MOST_SPECS]]
    if len(wholes) > _MOST_SPECS:
        specs.append(f"    # and {counted(len(wholes) - _MOST_SPECS, 'more array')}")
    call = f"{root} = jax.tree_util.tree_map_with_path(put, {root}){after}{versions}"
    return "\n".join(["specs = {", *specs, "}", *_PUT, call])


def _saved_of_new(subject: Subject, whole: _Whole) -> int:
    """Returns the bytes that the new version of state no longer takes beside the old one.

    It is split too. If XLA splits it already, a donated array that is split has room for it.
    """
    if whole.parameter in reused_parameters(subject.module):
        return 0
    for each in subject.shardings:
        if each.kind != "result" or each.number != whole.version or isinstance(each.sharding, Unavailable):
            continue
        if {*whole.axes} <= {*each.sharding.replicated_over}:
            return whole.saved_bytes
        part, is_donated = whole.byte_size // whole.device_count, whole.parameter in subject.donated
        return part if is_donated and each.part_bytes == part else 0
    return 0


def _copies(subject: Subject, slices: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yields the kernels that only write a copy of a part to main memory, before any loop."""
    for each in slices:
        name = subject.kernels.kernel(each)
        kernel = None if name is None else subject.module.instruction(name)
        if kernel is None or not kernel.computation.is_entry or kernel.shape.is_tuple:
            continue
        is_in_main_memory = kernel.shape.layout is None or not kernel.shape.layout.memory_space
        if is_in_main_memory and _opcodes(kernel) <= _SLICING:
            yield kernel


def _fetched(subject: Subject, wholes: Sequence[_Whole]) -> Iterator[tuple[str, float]]:
    """Yields the copies of whole arrays of which a device reads a part, such as those to a TPU's VMEM, with the part that is not needed."""
    for each in wholes:
        for user in subject.module.entry.parameters[each.parameter].users if each.slices else ():
            if user.opcode in ("copy", "copy-start"):
                yield user.name, 1 - 1 / each.device_count


def _at_peak(subject: Subject, copies: Mapping[str, Instruction]) -> list[Instruction]:
    """Returns the copies that are in memory at the peak; all of them if the order of the kernels is unknown."""
    alive = subject.at_peak if copies else None
    return [kernel for name, kernel in copies.items() if alive is None or name in alive]


def _opcodes(kernel: Instruction) -> set[str]:
    """Returns the opcodes of the operations of a kernel on arrays. Offsets are computed from scalars."""
    if kernel.opcode != "fusion":
        return {kernel.opcode}
    inside = kernel.called_computations[0].instructions
    return {each.opcode for each in inside if each.shape.dimensions or each.shape.is_tuple}


def _new_versions(subject: Subject, wholes: Sequence[_Whole]) -> Iterator[SplitVersions | KeepResult]:
    """Yields the edits of the results: new versions are split like the state, and the others stay as they are."""
    for each in wholes:
        if each.version is not None:
            for dimension, axis in each.splits:
                yield SplitVersions(each.parameter, (each.version,), dimension, axis)
    yield from _kept(subject, wholes)


def _kept(subject: Subject, wholes: Sequence[_Whole]) -> Iterator[KeepResult]:
    """Yields the results that are not the state: parameters would be split like it, and the next call needs them whole."""
    versions = {each.version for each in wholes}
    for each in subject.shardings:
        if each.kind != "result" or each.number is None or each.asked or isinstance(each.sharding, Unavailable):
            continue
        if each.number not in versions:
            yield KeepResult(each.number, each.sharding.axes)


def _split(whole: _Whole) -> str:
    """Returns the code of the sharding with the axis."""
    axes = [*whole.sharding.axes]
    for dimension, axis in whole.splits:
        axes[dimension] = (*axes[dimension], axis)
    return spec_code(axes)


def _whole(array: ArraySharding, arrays: Sequence[ArraySharding], counterparts: _Counterparts) -> _Whole | None:
    """Returns an array with axes that split other arguments and could split it too; None if there are none.

    They are all that split its counterpart, or else the largest one.
    """
    sharding, byte_size = array.sharding, array.part_bytes
    if isinstance(sharding, Unavailable) or isinstance(byte_size, Unavailable) or array.number is None:
        return None
    splits = counterparts.splits(array, sharding)
    if splits:
        dimensions, axes = zip(*splits, strict=True)
        return _Whole(array, sharding, array.number, byte_size, axes, dimensions, has_counterpart=True)
    for axis in sorted(sharding.replicated_over, key=lambda axis: -axis_size(sharding, axis)):
        if not any(_splits(other, axis) for other in arrays):
            continue
        for dimension in _dimensions(array, sharding, axis, counterparts, _split_sizes(array, axis, arrays)):
            whole_count = axis_size(sharding, axis) * math.prod(
                axis_size(sharding, a) for a in sharding.axes[dimension]
            )
            if sharding.shape[dimension] and sharding.shape[dimension] % whole_count == 0:
                return _Whole(array, sharding, array.number, byte_size, (axis,), (dimension,))
    return None


def _dimensions(
    array: ArraySharding, sharding: Sharding, axis: str, counterparts: _Counterparts, sizes: Collection[int]
) -> list[int]:
    """Returns the dimensions of an array: first the one in which the axis splits its counterpart, then those of given sizes, then by size."""
    counterpart = counterparts.dimension(array, axis)
    return sorted(
        range(len(sharding.shape)),
        key=lambda d: (d != counterpart, sharding.shape[d] not in sizes, -sharding.part_shape[d]),
    )


def _split_sizes(array: ArraySharding, axis: str, arrays: Sequence[ArraySharding]) -> set[int]:
    """Returns the sizes of the dimensions that an axis splits in the other arrays beside an array, such as its layer's experts."""
    root, (*parents, _) = argument_root(array.name), path_keys(array.name) or ("",)
    return {
        each.sharding.shape[dimension]
        for each in arrays
        if each is not array
        and not isinstance(each.sharding, Unavailable)
        and argument_root(each.name) == root
        and [*path_keys(each.name)[:-1]] == parents
        for dimension, axes in enumerate(each.sharding.axes)
        if axis in axes
    }


class _Counterparts:
    """The dimension in which an axis splits the counterpart of an array.

    The counterpart is the argument of the same shape whose path ends with the most equal keys: the moment `mu['w']` belongs to the
    parameter `params['w']`.
    """

    def __init__(self, arrays: Iterable[ArraySharding]) -> None:
        """Indexes the arrays by shape, axis and the ends of their paths."""
        self._split: dict[tuple[tuple[int, ...], str, tuple[str, ...]], list[tuple[int | None, int]]] = {}
        self._same: dict[tuple[tuple[int, ...], str, tuple[str, ...]], dict[str, int | None]] = {}
        for each in arrays:
            if isinstance(each.sharding, Unavailable):
                continue
            keys = path_keys(each.name)
            for dimension, axes in enumerate(each.sharding.axes):
                for axis in axes if keys else ():
                    self._same.setdefault((each.shape, axis, keys), {})[argument_root(each.name)] = each.number
                for axis, first in itertools.product(axes, range(len(keys))):
                    found = self._split.setdefault((each.shape, axis, keys[first:]), [])
                    if len(found) < 2:  # one of them is another array
                        found.append((each.number, dimension))

    def dimension(self, array: ArraySharding, axis: str) -> int:
        """Returns the dimension; -1 if no counterpart is split over the axis."""
        keys = path_keys(array.name)
        ends = (self._split.get((array.shape, axis, keys[first:]), ()) for first in range(len(keys)))
        others = (dimension for end in ends for number, dimension in end if number != array.number)
        return next(others, -1)

    def elsewhere(self, whole: _Whole) -> list[int | None]:
        """Returns the arguments of the array's shape and whole path below other parameters of the function that its first axis splits."""
        same = self._same.get((whole.array.shape, whole.axis, path_keys(whole.array.name)), {})
        return [number for root, number in same.items() if root != argument_root(whole.array.name)]

    def splits(self, array: ArraySharding, sharding: Sharding) -> list[tuple[int, str]]:
        """Returns the dimensions and axes that split the counterpart, and not the array, in the order of the mesh; none if they do not divide it."""
        axes = [axis for axis in map(str, sharding.mesh.axis_names) if axis in sharding.replicated_over]
        found = [(dimension, axis) for axis in axes if (dimension := self.dimension(array, axis)) >= 0]
        counts = [math.prod(axis_size(sharding, axis) for axis in axes) for axes in sharding.axes]
        for dimension, axis in found:
            counts[dimension] *= axis_size(sharding, axis)
        sizes = zip(sharding.shape, counts, strict=True)
        return found if all(size and size % count == 0 for size, count in sizes) else []


def _is_by_element(subject: Subject, array: ArraySharding) -> bool:
    """Reports whether a program combines an array element by element only, and not in a `shard_map`, which takes it whole."""
    uses = _uses(subject, array.number)
    return uses.opcodes <= _BY_ELEMENT and not uses.is_manual


def _is_state(subject: Subject, array: ArraySharding) -> bool:
    """Reports whether a program combines an array element by element only, and returns one by the same name."""
    return _is_by_element(subject, array) and any(True for _ in _by_name(subject, array))


def _versions(
    subject: Subject, arrays: Sequence[ArraySharding], others: Sequence[ArraySharding]
) -> Mapping[int | None, int]:
    """Returns the position of the result that is the new version of each array, by the number of the array.

    New parameters are computed from the state too. Results that are computed from one argument are its new version first; the
    others are that of an argument that is left.
    """
    possible = dict[int, list[int | None]]()
    for array in arrays:
        for number in _by_name(subject, array):
            possible.setdefault(number, []).append(array.number)
    known = {each.number for each in arrays}
    contested = {keys for each in arrays if (keys := path_keys(each.name)) and len([*_by_name(subject, each)]) > 1}
    for array in others:
        if array.number not in known and path_keys(array.name) in contested:
            for number in _by_name(subject, array):
                possible.setdefault(number, []).append(array.number)
    found = dict[int | None, int]()
    for number, claimants in sorted(possible.items(), key=lambda each: len(each[1])):
        if (array_number := next((each for each in claimants if each not in found), None)) is not None:
            found[array_number] = number
    return found


def _by_name(subject: Subject, array: ArraySharding) -> Iterator[int]:
    """Yields the positions of the results of an array's shape and name to which it is combined element by element."""
    keys, results = path_keys(array.name), subject.compiled.program.results
    for number in sorted(_uses(subject, array.number).results) if keys else ():
        new = results[number] if number < len(results) else None
        if new is not None and new.shape == array.shape and path_keys(new.path)[-len(keys) :] == keys:
            yield number


def _read_in_part(subject: Subject, array: ArraySharding) -> _Whole | None:
    """Returns an array of which each device only reads the part at its place along axes, with these; None for others."""
    sharding, byte_size = array.sharding, array.part_bytes
    if isinstance(sharding, Unavailable) or isinstance(byte_size, Unavailable) or array.number is None:
        return None
    if byte_size < LEAST_SHARE * LEAST_PART * subject.peak_bytes or not sharding.replicated_over:
        return None
    part = read_part(subject.module.entry.parameters[array.number], sharding.mesh.size)
    if part is None:
        return None
    for axes in (order for n in (1, 2) for order in itertools.permutations(sharding.replicated_over, n)):
        numbers, count = np.zeros(sharding.mesh.size, np.int64), 1
        for axis in axes:
            numbers = numbers * axis_size(sharding, axis) + _positions(sharding, axis)
            count *= axis_size(sharding, axis)
        if count == part.count and tuple(numbers.tolist()) == part.numbers:
            dimensions = (part.dimension,) * len(axes)
            return _Whole(array, sharding, array.number, byte_size, axes, dimensions, part.slices)
    return None


def _positions(sharding: Sharding, axis: str) -> npt.NDArray[np.int64]:
    """Returns the position of each partition along an axis."""
    mesh = sharding.mesh
    return mesh.coordinates(mesh.position_of_id)[mesh.axis_names.index(axis)]


def _is_split_beside(subject: Subject, whole: _Whole, arrays: Sequence[ArraySharding]) -> bool:
    """Reports whether an array is an exception: whole, while most other weights below the same argument are split.

    Positions in a tuple name no weights: they may be independent arguments. State of an optimizer does not count.
    """
    root = argument_root(whole.array.name)
    if any(whole.sharding.axes) or all(key.isdecimal() for key in path_keys(whole.array.name)):
        return False
    others = [each for each in arrays if argument_root(each.name) == root and each.number != whole.parameter]
    weights = [each for each in others if not _is_state(subject, each)]
    split = [each for each in weights if _splits(each, whole.axis)]
    if sum(math.prod(each.shape) for each in split) <= sum(math.prod(each.shape) for each in weights) / 2:
        return False
    return not _is_data_parallel(subject, whole, arrays, {each.number for each in split})


def _is_data_parallel(
    subject: Subject, whole: _Whole, arrays: Sequence[ArraySharding], beside: Collection[int | None]
) -> bool:
    """Reports whether devices along the axis use an array with different data, and gather none of the split ones beside it."""
    over_axis = [
        each
        for each in subject.collectives
        if each.opcode in _COMBINING and not isinstance(each.axes, Unavailable) and whole.axis in map(str, each.axes)
    ]
    for each in over_axis:
        if each.opcode == "all-gather":
            source = argument_behind(subject.module.instruction(each.name))
            if source is not None and source.parameter_number in beside and source.computation.is_entry:
                return False
    parameter, positions = subject.module.entry.parameters[whole.parameter], _positions(whole.sharding, whole.axis)
    users = [each for each in device_uses(parameter, len(positions)) if each.user is not None]
    return differs(
        [operand for each in users if each.user is not None for operand in each.user.operands if operand.row != each.value.row],
        {each.number for each in arrays if each.number is not None and _splits(each, whole.axis)},
        {each.name for each in over_axis},
        positions.tolist(),
    )  # fmt: skip


def _has_own_data(
    subject: Subject, whole: _Whole, arrays: Sequence[ArraySharding], beside: Collection[int | None]
) -> bool:
    """Reports whether an array is data parallel over an axis that splits the same array of other arguments.

    If no other argument is split over the axis, there are no data of which the devices have parts. XLA may then join the products of
    both arrays into one kernel, whose results differ between the devices.
    """
    weights = {argument_root(each.name) for each in arrays if each.number in {*beside, whole.parameter}}
    has_data = any(
        _splits(each, whole.axis)
        for each in arrays
        if each.kind == "argument" and argument_root(each.name) not in weights
    )
    return has_data and _is_data_parallel(subject, whole, arrays, beside)


def _uses(subject: Subject, parameter: int | None) -> Reached:
    if isinstance(subject.before, Unavailable) or parameter is None:
        return Reached(frozenset({"unknown"}), frozenset())
    return reached(subject.before, parameter)


def _splits(array: ArraySharding, axis: str) -> bool:
    return not isinstance(array.sharding, Unavailable) and any(axis in axes for axes in array.sharding.axes)
