"""Arrays that are stored in a wider float type than the values need: arguments, and elements that a loop carries or stacks.

XLA fuses conversions into the kernels next to them, but it does not change the types of arguments and of loops. A narrower type holds the
same values if every use converts the array to it first, or if everything that is stored was converted from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from inspector.analysis.findings.argument_names import argument_root, common_path
from inspector.analysis.findings.at_line import at_line
from inspector.analysis.findings.before import full_name, moved_from
from inspector.analysis.findings.dataflow import Value, carried_from, results, source
from inspector.analysis.findings.detectors.memory.loop_slices import loop_slice, written_back
from inspector.analysis.findings.detectors.memory.wide_slices import wide_slices
from inspector.analysis.findings.edits import StoreNarrow
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.storage import (
    FLOATS,
    computes_in,
    loop_places,
    narrow_type,
    narrower_part,
    only_converts,
    stored_uses,
    widened_type,
)
from inspector.analysis.findings.subject import Subject
from inspector.analysis.memory.donations import reused_parameters
from inspector.compilation.program import Argument
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import NUMPY_TYPES, Shape, element_bits
from inspector.hlo.source import Frame, merged_names, own_frame, phases
from inspector.support.units import counted, format_bytes, format_list

KIND = "wide-storage"
_FILLING = frozenset({"constant", "broadcast", "bitcast", "tuple"})
_WHOLE, _STACK, _SLICES = "whole", "stack", "slices"
"""Ways in which a loop stores an array: a new one in each iteration, a result of each iteration, and slices of an array that it reads."""
_LOOP_TEXTS = {
    _WHOLE: ("carries its state", "", "return carry.astype(jnp.{narrow}), y  # in the body, and begin with carry.astype(jnp.{narrow})"),
    _STACK: ("stacks the results of its iterations", "", "return carry, y.astype(jnp.{narrow})  # in the body; convert after the loop where {wide} is needed"),
    _SLICES: ("carries an array", " and replaces slices of it", "array = array.astype(jnp.{narrow})  # before the loop; write new.astype(jnp.{narrow}) into it in the body"),
}  # fmt: skip
"""A sentence about the loop, and the remedy."""
_REPLACING = frozenset({"dynamic-update-slice", "dynamic-slice", "select"})
_MOST_NAMED = 3
_ONCE = "  # once, where it is made, or stored in this type"
_KEPT = "Other programs that take the array may need its precision, such as an optimizer's master weights. Pass a narrow copy of those."


def wide_storage(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for the arguments of a type, one for each loop, type and way to store, and one for each array that loops only read."""
    if subject.calls is None or isinstance(subject.before, Unavailable):
        return
    names = [name for _, name in subject.calls.values(("while",))]
    stored = _stored_arguments(subject, subject.before)
    covered = {each.argument.parameter for each in stored if any(version.is_carried for version in each.versions)}
    begun = set[int]()
    for loop, name in subject.calls.values(("while",)):
        groups: dict[tuple[str, str, str], list[_Carried]] = {}
        for each in _carried(loop, name):
            if computes_in(each.narrow, subject) and (each.begun is None or each.begun not in covered):
                groups.setdefault((each.shape.element_type, each.narrow, each.form), []).append(each)
                if each.begun is not None:
                    begun.add(each.begun)
        for members in groups.values():
            yield from _loop_findings(subject, loop, members, is_unique=names.count(name) == 1)
    groups_of_types: dict[tuple[str, str], list[_Stored]] = {}
    for one in stored:
        if one.argument.parameter not in begun:  # the finding of a loop that begins with it is enough
            groups_of_types.setdefault((one.wide, one.narrow), []).append(one)
    for (wide, narrow), arguments in groups_of_types.items():
        if computes_in(narrow, subject):
            yield _argument_finding(subject, wide, narrow, arguments)
    yield from wide_slices(subject, KIND)


def _stored_arguments(subject: Subject, module: Module) -> list[_Stored]:
    """Returns the arguments that a narrower type can hold."""
    arguments = {a.parameter: a for a in subject.compiled.program.arguments}
    values = results(module)
    versions = _versions(values)
    of_versions = {each.result for found in versions.values() for each in found}
    others = {each.instruction.shape.without_layout() for n, each in enumerate(values) if n not in of_versions}
    found: list[_Stored] = []
    for parameter in module.entry.parameters:
        argument, wide = arguments.get(parameter.parameter_number), parameter.shape.element_type
        if argument is None or wide not in FLOATS or parameter.shape.without_layout() in others:
            continue  # a result of its shape may be its gradient or its next version
        own = versions.get(parameter.parameter_number, [])
        replacing = {u for one in own for u in one.updates if u.instruction.opcode == "select" or u == one.stacked}
        for one in own:  # values that a mask keeps are written again
            kept = {
                moved_from(each)
                for each in one.written
                if len(_new_values(each, parameter)) == 1 and moved_from(each).instruction.opcode == "select"
            }
            replacing |= kept | ({*one.updates} if kept else set())
        uses = list(stored_uses(Value(parameter), replacing=replacing))
        inside = [each for each in uses if each.user is not None]
        if len(uses) - len(inside) != len(own):
            continue
        narrow = narrow_type(inside, wide)
        if narrow and all(
            widened_type([moved_from(new)], wide) == narrow
            for one in own
            for each in one.written
            for new in _new_values(each, parameter)
        ):
            reads = [each.user for each in inside if each.user is not None]
            found.append(_Stored(argument, wide, narrow, reads, own))
    return found


class _Version(NamedTuple):
    """A result that is an argument of which values were replaced: slices, or those that a mask selects.

    Attributes:
      result: its position.
      updates: the operations that replace values.
      written: the new values.
      stacked: the update with which a loop writes each new slice to the result; None if no loop does.
      is_carried: whether a loop carries the array, and replaces its values.
    """

    result: int
    updates: list[Value]
    written: list[Value]
    stacked: Value | None
    is_carried: bool


class _Stored(NamedTuple):
    """An argument that a narrower type can hold, with the conversions that read it, and its new versions."""

    argument: Argument
    wide: str
    narrow: str
    reads: list[Value]
    versions: list[_Version]


def _versions(values: Sequence[Value]) -> dict[int | None, list[_Version]]:
    """Returns the results that are arguments of which values were replaced, by the argument's parameter number."""
    found: dict[int | None, list[_Version]] = {}
    for number, value in enumerate(values):
        updates, written = list[Value](), list[Value]()
        begun = _begun(value)
        stacked = _stacked(value) if begun is None else None
        if stacked is not None:
            updates.append(stacked)
            value = moved_from(stacked.operand(1))
        if begun is not None:
            value = begun[1]
        new = value
        while (parts := _replaced(value)) is not None:
            updates.append(value)
            value, values_put_in = parts
            written.append(values_put_in)
        part = loop_slice(value) if stacked is not None else None
        if stacked is not None:
            if part is None or written_back(new, part) != stacked:
                continue
            value = part.array
        if begun is not None:
            if not _is_element(value, begun[2]):
                continue
            value = begun[0]
        instruction = value.instruction
        if written and instruction.opcode == "parameter" and instruction.computation.is_entry:
            found.setdefault(instruction.parameter_number, []).append(
                _Version(number, updates, written, stacked, begun is not None)
            )
    return found


def _new_values(written: Value, array: Instruction) -> list[Value]:
    """Returns a value that is put into an array, or, of a selection between it and a slice of the array, the value itself."""
    chosen = moved_from(written)
    if chosen.instruction.opcode != "select":
        return [written]
    options = [chosen.operand(1), chosen.operand(2)]
    return [each for each in options if moved_from(each).instruction != array]


def _stacked(result: Value) -> Value | None:
    """Returns the update with which a loop writes the slices of a result, as `lax.scan` does; None for other values."""
    instruction = result.instruction
    if instruction.opcode != "get-tuple-element" or instruction.operands[0].opcode != "while":
        return None
    loop = instruction.operands[0]
    body = loop.called_computations[0]
    if body.root.opcode != "tuple":
        return None
    ended = source(Value(body.root.operands[instruction.tuple_index], (*result.calls, loop)))
    is_update = ended.instruction.opcode == "dynamic-update-slice"
    return ended if is_update and _is_element(ended.operand(0), instruction.tuple_index) else None


def _begun(result: Value) -> tuple[Value, Value, int] | None:
    """Returns the argument with which a loop begins a result that it carries, its value after an iteration, and its number; None for other values."""
    instruction = result.instruction
    if instruction.opcode != "get-tuple-element" or (begun := carried_from(result)) is None:
        return None
    if begun.instruction.opcode != "parameter" or not begun.instruction.computation.is_entry:
        return None
    loop, number = instruction.operands[0], instruction.tuple_index
    root = loop.called_computations[0].root
    return (
        (begun, source(Value(root.operand(number), (*result.calls, loop))), number) if root.opcode == "tuple" else None
    )


def _replaced(value: Value) -> tuple[Value, Value] | None:
    """Returns the array of which an operation replaces values, and the new values; None for other operations."""
    opcode = value.instruction.opcode
    if opcode == "dynamic-update-slice":
        return value.operand(0), value.operand(1)
    if opcode != "select":
        return None
    for old, new in ((value.operand(2), value.operand(1)), (value.operand(1), value.operand(2))):
        instruction = old.instruction
        if instruction.opcode in _REPLACING or (instruction.opcode == "parameter" and instruction.computation.is_entry):
            return old, new
    return None


def _argument_finding(subject: Subject, wide: str, narrow: str, members: Sequence[_Stored]) -> Finding:
    reads = [read for each in members for read in each.reads]
    versions = [version for each in members for version in each.versions]
    saved = _saved(subject, reads, wide, narrow, [update for each in versions for update in each.updates])
    numbers = {each.argument.parameter for each in members}
    reused = {*reused_parameters(subject.module).values()}
    sizes = [each.shape.byte_size for each in subject.module.entry.parameters if each.parameter_number in numbers]
    new = [
        subject.module.entry.root.shape.leaves[each.result].byte_size for each in versions if each.result not in reused
    ]
    paths = [each.argument.path for each in members]
    is_one = len(paths) == 1
    per_device = " per device" if subject.compiled.program.device_count > 1 else ""
    it = "it" if is_one else "them"
    written = f", and all values written to {it} are converted from {NUMPY_TYPES[narrow]}" if versions else ""
    title = (
        f"{format_list([f'`{path}`' for path in paths], most=_MOST_NAMED)} ({format_bytes(sum(sizes))}{per_device})"
        f" {'is' if is_one else 'are'} stored in {NUMPY_TYPES[wide]}, although every use converts {it} to"
        f" {NUMPY_TYPES[narrow]} first{written}."
    )
    lines = [*_narrowing(subject.compiled.program.arguments, paths, wide, narrow)]
    others = f"# and {counted(len(lines) - _MOST_NAMED, 'other argument')}"
    writing = ["# in the function, before each update: new = new.astype(array.dtype)"] * bool(versions)
    remedy = "\n".join(lines[:_MOST_NAMED] + [others] * (len(lines) > _MOST_NAMED) + writing)
    parameters = tuple(each.argument.parameter for each in members if each.argument.parameter is not None)
    return subject.finding(
        KIND, title, remedy, instructions=saved.kernels, frames=reads[0].instruction.frames, saved_part=saved.part,
        gain_bytes=_most_bytes(sum(sizes) + sum(new), wide, narrow, saved), caution=_KEPT,
        edits=(StoreNarrow(parameters, narrow, results=tuple(each.result for each in versions)),),
    )  # fmt: skip


def _narrowing(arguments: Sequence[Argument], paths: Sequence[str], wide: str, narrow: str) -> Iterator[str]:
    """Yields code that converts arguments to a narrower type: a line for a tree all of whose wide arrays are among them, or for an array."""
    by_root: dict[str, list[str]] = {}
    for path in paths:
        by_root.setdefault(argument_root(path), []).append(path)
    for root, listed in by_root.items():
        tree = root + common_path(listed)
        leaves = [a for a in arguments if a.path.startswith((f"{tree}[", f"{tree}."))]
        types = {a.dtype for a in leaves}
        if len(listed) > 1 and {a.path for a in leaves if a.dtype == NUMPY_TYPES[wide]} == {*listed}:
            others = f" if a.dtype == jnp.{NUMPY_TYPES[wide]} else a" * (len(types) > 1)
            yield f"{tree} = jax.tree.map(lambda a: a.astype(jnp.{NUMPY_TYPES[narrow]}){others}, {tree}){_ONCE}"
        else:
            yield from (f"{path} = {path}.astype(jnp.{NUMPY_TYPES[narrow]}){_ONCE}" for path in listed)


class _Carried(NamedTuple):
    """An element of a loop that a narrower type can hold.

    `form` is how the loop stores it. `conversions` are the operations that convert it to or from that type, `writes` those that replace
    slices of it, and the one that fills it before the loop. `is_read_narrow` is False if it is exact only because all values that are
    stored were converted from that type. `edit` is None if the loop changes another element of the same shape that needs its type.
    """

    shape: Shape
    narrow: str
    form: str
    is_read_narrow: bool
    conversions: tuple[Value, ...]
    writes: tuple[Value, ...]
    edit: StoreNarrow | None
    begun: int | None = None


def _carried(loop: Value, name: str) -> list[_Carried]:
    """Returns the elements that a loop changes and that a narrower type can hold.

    Loops of a backward pass follow the types of the forward pass, and what differentiated loops stack is chosen by JAX.
    """
    parts = {*phases(name)} - {"rest"}
    body = loop.instruction.called_computations[0]
    if "backward" in parts or "recomputed" in parts or body.root.opcode != "tuple":
        return []
    found: list[_Carried] = []
    wide: list[Shape] = []  # of all elements that the loop changes
    for number, shape in enumerate(loop.instruction.shape.tuple_shapes):
        ended = source(Value(body.root.operands[number]))
        if shape.is_tuple or shape.element_type not in FLOATS or _is_element(ended, number):
            continue
        wide.append(shape)
        each = _narrowable(loop, number, shape, ended)
        if each is not None and not (each.form != _WHOLE and parts):
            found.append(each)
    alike = [each.shape.without_layout() for each in found]
    return [
        each._replace(
            edit=StoreNarrow((), each.narrow, name, (each.shape.element_type, *map(str, each.shape.dimensions)))
        )
        if alike.count(shape := each.shape.without_layout()) == [w.without_layout() for w in wide].count(shape)
        else each
        for each in found
    ]


def _narrowable(loop: Value, number: int, shape: Shape, ended: Value) -> _Carried | None:
    """Returns an element of a loop if a narrower type can hold it.

    Args:
      loop: the loop.
      number: the number of the element.
      shape: its shape.
      ended: its value at the end of an iteration, with calls from the body on.
    """
    wide, places = shape.element_type, loop_places(loop, number)
    written, updates = [ended], list[Value]()
    while written[-1].instruction.opcode == "dynamic-update-slice":
        updates.append(written.pop())
        written.insert(0, updates[-1].operand(1))
        written.append(updates[-1].operand(0))
    if updates and not _is_element(written.pop(), number):
        return None
    widened = [moved_from(each) for each in written]
    stored = widened_type(widened, wide)
    initial = source(Value(loop.instruction.operands[0], loop.calls))
    begun = initial.operand(number) if initial.instruction.opcode == "tuple" else initial
    first = moved_from(begun)
    is_filled = first.instruction.opcode == "constant" and begun.instruction.opcode == "broadcast"
    inside = [use for place in places[0] for use in stored_uses(*place, within=loop.instruction)]
    after = list(stored_uses(*places[1]))
    read = {narrow_type(uses, wide) for uses in (inside, after) if uses}
    if not inside and not after:
        return None
    for narrow in sorted({stored, *read} - {""}):
        is_read_so = all(narrow_type(uses, wide) == narrow for uses in (inside, after) if uses)
        starts_so = not inside or narrow_type(inside, wide) == narrow or widened_type([first], wide) == narrow == stored
        if is_read_so or (starts_so and stored == narrow):
            reads = [use.user for use in (*inside, *after) if use.user and use.user.instruction.opcode == "convert"]
            calls = (*loop.calls, loop.instruction)
            stores = [Value(v.instruction, (*calls, *v.calls)) for v in widened] if stored else []
            writes = [Value(v.instruction, (*calls, *v.calls)) for v in updates] + [begun] * is_filled
            form = _WHOLE if not updates else _STACK if is_filled and not inside else _SLICES
            is_argument = first.instruction.opcode == "parameter" and first.instruction.computation.is_entry
            argument = first.instruction.parameter_number if is_argument else None
            return _Carried(shape, narrow, form, is_read_so, (*reads, *stores), tuple(writes), None, argument)
    return None


def _is_element(value: Value, number: int) -> bool:
    """Reports whether a value in a loop's body is an element with which the iteration began."""
    instruction = value.instruction
    return (
        instruction.opcode == "get-tuple-element"
        and instruction.operands[0].opcode == "parameter"
        and instruction.tuple_index == number
    )


def _loop_findings(subject: Subject, loop: Value, members: Sequence[_Carried], *, is_unique: bool) -> Iterator[Finding]:
    """Yields the finding of a loop, if it saves time: an element of a TPU's loop may stay in VMEM."""
    first, frames = members[0], loop.instruction.frames
    wide, narrow = first.shape.element_type, first.narrow
    conversions = [value for each in members for value in each.conversions]
    writes = [value for each in members for value in each.writes]
    saved = _saved(subject, conversions, wide, narrow, writes)
    if not saved.part:
        return
    size, is_whole = sum(each.shape.byte_size for each in members), subject.compiled.program.device_count == 1
    shapes = format_list([str(each.shape.without_layout()) for each in members], most=_MOST_NAMED)
    does, in_loop, remedy = _LOOP_TEXTS[first.form]
    it = "them" if first.form == _STACK or (first.form == _SLICES and len(members) > 1) else "it"
    if first.form == _SLICES and len(members) > 1:
        does, in_loop = "carries arrays", " and replaces slices of them"
    why = (
        f"every use converts {it} to {NUMPY_TYPES[narrow]} first"
        if all(each.is_read_narrow for each in members)
        else f"each iteration converts {it} from {NUMPY_TYPES[narrow]}"
    )
    title = f"The loop{at_line(frames)} {does} in {NUMPY_TYPES[wide]} ({shapes}, {format_bytes(size)}){in_loop}, although {why}."
    edits = dict.fromkeys(each.edit for each in members if each.edit)
    yield subject.finding(
        KIND, title, remedy.format(wide=NUMPY_TYPES[wide], narrow=NUMPY_TYPES[narrow]), instructions=saved.kernels, frames=frames,
        saved_part=saved.part, gain_bytes=_most_bytes(size, wide, narrow, saved) if is_whole else 0,
        edits=tuple(edits) if is_unique and all(each.edit for each in members) else None,
    )  # fmt: skip


class _Saved(NamedTuple):
    """The time and the memory that a narrower type saves.

    Attributes:
      kernels: the kernels that access the arrays in the wide type.
      part: the part of their time that is saved.
      copied_bytes: bytes of the narrow copies that kernels write, and that may be the stored arrays.
    """

    kernels: list[str]
    part: float
    copied_bytes: int


def _most_bytes(size: int, wide: str, narrow: str, saved: _Saved) -> int:
    """Returns the largest number of bytes that the narrower type can save: a narrow copy beside the array is no longer needed."""
    return min(size, int(size * (1 - element_bits(narrow) / element_bits(wide))) + saved.copied_bytes)


def _saved(
    subject: Subject, conversions: Iterable[Value], wide: str, narrow: str, writes: Iterable[Value] = ()
) -> _Saved:
    """Returns what the narrower type saves.

    A kernel that only converts is not needed. Others that memory bounds access fewer bytes.

    Args:
      subject: the program.
      conversions: operations that convert the arrays.
      wide: the type of the arrays.
      narrow: the narrower type.
      writes: operations that replace slices of the arrays or fill them.
    """
    width = (element_bits(wide) - element_bits(narrow)) / 8
    conversions = [*conversions]
    kinds = {_types(each.instruction) for each in conversions}  # those of other types at the line stay
    converted, stored = _named_kernels(subject, conversions), _named_kernels(subject, writes)
    elements_by_kernel, copied = dict[str, int](), 0
    for instruction, kernel in stored:
        if instruction.shape.element_type == wide and _is_write(subject, instruction, kernel):
            is_update = instruction.opcode == "dynamic-update-slice"
            elements = math.prod((instruction.operands[1] if is_update else instruction).shape.dimensions)
            elements_by_kernel[kernel] = elements_by_kernel.get(kernel, 0) + elements
    updating = {*elements_by_kernel}
    for instruction, kernel in converted:
        types = _types(instruction)
        if types in kinds and (types == (wide, narrow) or (types == (narrow, wide) and kernel not in updating)):
            elements = math.prod(instruction.shape.dimensions)
            elements_by_kernel[kernel] = elements_by_kernel.get(kernel, 0) + elements
            whole = subject.module.instruction(kernel)
            if types == (wide, narrow) and only_converts(whole) and instruction in _written(whole):
                copied += instruction.shape.byte_size
    spent = saved = 0.0
    for kernel, elements in elements_by_kernel.items():
        time = subject.seconds([kernel])
        weight = subject.accessed(kernel) if isinstance(time, Unavailable) else time
        # A kernel may read a part of an array, such as a gather: all that it reads becomes narrower at most.
        most = (
            1.0 if only_converts(subject.module.instruction(kernel)) else 1 - element_bits(narrow) / element_bits(wide)
        )
        spent += weight
        saved += weight * min(narrower_part(subject, kernel, elements * width), most)
    return _Saved([*elements_by_kernel], saved / spent if spent else 0.0, copied)


def _named_kernels(subject: Subject, values: Iterable[Value]) -> list[tuple[Instruction, str]]:
    """Returns the instructions that operations became, each with its kernel. Operations of JAX's functions have no line of their own."""
    wanted: dict[tuple[str, Frame | None, str], set[int]] = {}  # and the numbers of elements on all devices
    for each in values:
        key = full_name(each), own_frame(each.instruction.frames), each.instruction.opcode
        wanted.setdefault(key, set()).add(math.prod(each.instruction.shape.dimensions))
    found = list[tuple[Instruction, str]]()
    for instruction in subject.kernels.named(name for name, _, _ in wanted):
        kernel, frame = subject.kernels.kernel(instruction), own_frame(instruction.frames)
        if kernel is None:
            continue
        keys = [
            (name, line, instruction.opcode) for name in merged_names(instruction.op_name) for line in (frame, None)
        ]
        elements = math.prod(instruction.shape.dimensions)
        if any(_is_part(elements, whole, subject) for key in keys for whole in wanted.get(key, ())):
            found.append((instruction, kernel))
    return found


def _is_write(subject: Subject, instruction: Instruction, kernel: str) -> bool:
    """Reports whether a kernel writes what an instruction of it computes. Fills count only in kernels that do nothing else."""
    whole = subject.module.instruction(kernel)
    if instruction.opcode == "broadcast":
        inside = whole.called_computations[0].instructions if whole.opcode == "fusion" else (whole,)
        return all(each.opcode in _FILLING for each in inside)
    return instruction in _written(whole)


def _types(conversion: Instruction) -> tuple[str, ...]:
    """Returns the element types of the operand and of the result of a conversion."""
    return (*(each.shape.element_type for each in conversion.operands), conversion.shape.element_type)


def _written(kernel: Instruction) -> list[Instruction]:
    """Returns the instructions whose results a kernel writes."""
    if kernel.opcode != "fusion":
        return [kernel]
    root = kernel.called_computations[0].root
    results = [*root.operands] if root.opcode == "tuple" else [root]
    for number, result in enumerate(results):
        while result.opcode == "bitcast":
            result = result.operands[0]
        results[number] = result
    return results


def _is_part(elements: int, whole: int, subject: Subject) -> bool:
    """Reports whether an array can be a device's part of another one, by their numbers of elements."""
    return elements * subject.compiled.program.device_count >= whole and elements <= whole
