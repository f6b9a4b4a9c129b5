"""`Shardings`: the shardings of the arguments, results and intermediate values of a partitioned program."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from inspector.analysis.sharding.array_sharding import Sharding
from inspector.compilation.compiled import CompiledProgram, build_options_of, placed_mesh
from inspector.compilation.preview import Preview
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.devices.sharding import sharding_text
from inspector.hlo.devices.sharding_axes import axes_of
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import HLO_TYPES, Shape
from inspector.hlo.source import Frame, library_text, line_text, own_frame
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import short
from inspector.support.tables import Tabular
from inspector.support.units import format_array, format_list

if TYPE_CHECKING:
    import pandas as pd

    from inspector.hlo.devices.mesh import Mesh

_NUMPY = {hlo: name for name, hlo in HLO_TYPES.items()}
MOST_DEVICES = 1 << 16
"""The largest mesh for which parts are listed."""
_CONSTRAINTS = ("Sharding",)
"""Custom calls that constrain the sharding of their operand."""
_MANUAL = ("{manual}", " manual={", " last_tile_dims={")
"""Texts in manual shardings (`shard_map`), over all or some axes of the mesh."""
_NO_VALUES = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ArraySharding:
    """One array of a program, with its sharding.

    Attributes:
      kind: "argument", "result", "constraint" for an intermediate value whose sharding the user constrains, or "value"
        for an intermediate value in the partitioner's input.
      name: path of an argument or result; otherwise name of an instruction, before optimization for a constraint and in
        the partitioner's input for a value.
      dtype: NumPy's name, or `key<fry>` for random keys.
      shape: shape of the whole array.
      sharding: parts by device; Unavailable if no axes of the mesh match it, or if the compiler does not report it.
      asked: the user's `PartitionSpec`; "" if XLA chose the sharding.
      text: the sharding as XLA writes it.
      part_bytes: size of one device's part.
      frames: call stack of an intermediate value, innermost first.
      number: parameter number of an argument, or position of a result; None for intermediate values.
    """

    kind: Literal["argument", "result", "constraint", "value"]
    name: str
    dtype: str
    shape: tuple[int, ...]
    sharding: Sharding | Unavailable
    asked: str
    text: str
    part_bytes: int | Unavailable
    frames: tuple[Frame, ...] = ()
    number: int | None = None

    @property
    def differs(self) -> bool:
        """True if the sharding is known and is not the one that the user requests.

        Axes of size 1 split nothing, so they make no difference.
        """
        if isinstance(self.sharding, Unavailable) or not self.asked:
            return False
        requested, sizes = (
            axes_in_spec(self.asked),
            dict(zip(self.sharding.mesh.axis_names, self.sharding.mesh.axis_sizes, strict=True)),
        )
        if requested is None:
            return False
        used = [tuple(axis for axis in axes if sizes.get(axis, 1) > 1) for axes in self.sharding.axes]
        wanted = [axes and tuple(axis for axis in axes if sizes.get(axis, 1) > 1) for axes in requested]
        wanted += [()] * (len(used) - len(wanted))
        return any(one is not None and one != other for one, other in zip(wanted, used, strict=True))

    def __repr__(self) -> str:
        how = self.sharding.reason if isinstance(self.sharding, Unavailable) else repr(self.sharding)[1:-1]
        return f"<{self.kind} {self.name}: {how}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Shardings(Tabular):
    """The shardings of a program; empty if it is not partitioned."""

    items: tuple[ArraySharding, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[ArraySharding]:
        return iter(self.items)

    def __getitem__(self, key: str | int) -> ArraySharding:
        """Returns one array by position or name.

        Raises:
          ParameterError: there is no such array. The message lists all of them.
        """
        matches = (
            [each for each in self.items if each.name == key]
            if isinstance(key, str)
            else [*self.items[key : key + 1 or None]]
        )
        if not matches:
            names = format_list([each.name for each in self.items], most=20)
            raise ParameterError(f"No array {short(key)} with a sharding. The arrays are {names or 'none'}.")
        return matches[0]

    def __repr__(self) -> str:
        return f"<Shardings: {format_list([repr(one)[1:-1] for one in self.items], most=4) or 'none'}>"

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per array.

        `split` has the mesh axes of each dimension, `replicated_over` the axes along which devices hold the same part.
        """
        return SHARDING_COLUMNS.data_frame(self.items)


_NO_LINE = Unavailable("only intermediate values have a source line")


_SPEC = re.compile(r"(?:P|PartitionSpec)\((.*?)(?:, *(?:unreduced|reduced)=.*)?\)$")
_UNCONSTRAINED = re.compile(r"(?:PartitionSpec\.)?UNCONSTRAINED")


def axes_in_spec(text: str) -> list[tuple[str, ...] | None] | None:
    """Returns the axes of each dimension of a `PartitionSpec` as text, None for an unconstrained one; None for other texts."""
    match = _SPEC.match(text)
    if match is None:
        return None
    entries = _UNCONSTRAINED.sub("0", match[1]).rstrip(", ")
    try:
        values = ast.literal_eval(f"({entries},)" if entries else "()")
    except (SyntaxError, ValueError):
        return None
    kinds: dict[type, Any] = {int: None, type(None): ()}
    return [kinds[type(e)] if type(e) in kinds else (e,) if isinstance(e, str) else tuple(e) for e in values]


def _known(one: ArraySharding, part: Callable[[Sharding], object]) -> object:
    return one.sharding if isinstance(one.sharding, Unavailable) else part(one.sharding)


def _split_text(one: ArraySharding) -> str:
    return "unknown" if isinstance(one.sharding, Unavailable) else one.sharding.split_text


def _line(one: ArraySharding, part: Callable[[Frame], object]) -> object:
    frame = own_frame(one.frames)
    return part(frame) if frame else _NO_LINE


SHARDING_COLUMNS: TableDescription[ArraySharding] = TableDescription(
    TableColumn("name", "text", lambda one: one.name, "array", "Path of an argument or result, or name of an instruction", views=("data_frame", "pane")),
    TableColumn("dtype", "text", lambda one: one.dtype),
    TableColumn(
        "split", "object", lambda one: _known(one, lambda known: known.axes), "sharding",
        "Mesh axes that split each dimension", views=("data_frame", "pane"), text=_split_text,
    ),
    TableColumn("part_shape", "object", lambda one: _known(one, lambda known: known.part_shape)),
    TableColumn(
        "part_bytes", "int", lambda one: one.part_bytes, "per device", "Bytes of the part on one device", "bytes",
        ("data_frame", "pane"),
    ),
    TableColumn("asked", "text", lambda one: one.asked, "requested", "The PartitionSpec of your code", views=("data_frame", "pane")),
    TableColumn(
        "shape", "object", lambda one: one.shape, "shape", "Shape of the whole array", views=("data_frame", "pane"),
        text=lambda one: format_array(one.dtype, one.shape),
    ),
    TableColumn("kind", "text", lambda one: one.kind, "kind", "Argument, result, constraint or inner value", views=("data_frame", "pane")),
    TableColumn(
        "replicated_over", "object", lambda one: _known(one, lambda known: known.replicated_over), "replicated over",
        "Mesh axes over which the array is replicated", views=("data_frame", "pane"),
    ),
    TableColumn("differs", "bool", lambda one: one.differs),
    TableColumn("source_file", "text", lambda one: _line(one, lambda frame: frame.file)),
    TableColumn("source_line", "int", lambda one: _line(one, lambda frame: frame.line)),
    TableColumn("library_line", "text", lambda one: library_text(one.frames)),
    TableColumn("source", "text", lambda one: line_text(one.frames) or None, "source", "Line of your code", views=("pane",)),
    first=("kind", "name", "dtype", "shape", "split", "part_shape", "part_bytes", "replicated_over", "asked"),
)  # fmt: skip


def shardings(
    compiled: CompiledProgram | Preview, before: Module | None = None, whole: Module | None = None
) -> Shardings:
    """Returns the shardings of a compiled program.

    Args:
      compiled: the program.
      before: its HLO before optimization, which has the constraints; None leaves them out.
      whole: the partitioner's input, which has the values; None leaves them out.
    """
    mesh, options = placed_mesh(compiled), build_options_of(compiled)
    if (options.num_partitions or 1) == 1:
        return Shardings(())
    named = None if mesh is None or mesh.kind != "partition" else mesh
    return Shardings((*_ends(compiled, named), *_constraints(before, named), *_values(whole, named)))


def value_sharding(instruction: Instruction, mesh: Mesh | None) -> ArraySharding | None:
    """Returns the sharding of an instruction's result; None if it is not an array, or is one device's part (`shard_map`).

    Args:
      instruction: an instruction of the partitioner's input.
      mesh: the program's mesh.
    """
    return None if instruction.shape.is_tuple else next(value_shardings(instruction, mesh), None)


def value_shardings(instruction: Instruction, mesh: Mesh | None) -> Iterator[ArraySharding]:
    """Yields the sharding of each array of an instruction's result, like `value_sharding`."""
    proto, leaves = instruction.proto, instruction.shape.leaves
    whole = proto.sharding if proto.HasField("sharding") else _replicated(proto)
    own = [*whole.tuple_shardings]
    for shape, sharding in zip(leaves, own if len(own) == len(leaves) else [whole] * len(leaves), strict=True):
        is_manual = any(word in sharding_text(sharding) for word in _MANUAL)
        if shape.element_type not in ("token", "buffer") and not is_manual:
            frames = instruction.origin.frames
            yield _array("value", instruction.name, shape.element_type, shape, sharding, mesh, "", frames)


def _replicated(proto: Any) -> Any:
    """Returns the sharding that the partitioner assumes for an instruction without one."""
    return type(proto.sharding)()


def _values(whole: Module | None, mesh: Mesh | None) -> Iterator[ArraySharding]:
    for each in () if whole is None else whole.instructions():
        if each.opcode not in _NO_VALUES and each.proto.HasField("sharding"):
            array = value_sharding(each, mesh)
            if array is not None:
                yield array


def _ends(compiled: CompiledProgram | Preview, mesh: Mesh | None) -> Iterator[ArraySharding]:
    module = compiled.module()
    parameters, returned = [*module.proto.spmd_parameters_shardings], module.proto.spmd_output_sharding
    own = {p.parameter_number: p.proto.sharding for p in module.entry.parameters if p.proto.HasField("sharding")}
    for argument in compiled.program.arguments:
        number = argument.parameter
        if number is None:
            continue
        proto = parameters[number] if number < len(parameters) else own.get(number)
        shape = Shape(HLO_TYPES.get(argument.dtype, argument.dtype), argument.shape)
        yield _array("argument", argument.path, argument.dtype, shape, proto, mesh, argument.sharding, number=number)
    results = compiled.program.results
    parts = [*returned.tuple_shardings] or ([returned] if module.proto.HasField("spmd_output_sharding") else [])
    for position, result in enumerate(results):
        proto = parts[position] if len(parts) == len(results) else None
        shape = Shape(HLO_TYPES.get(result.dtype, result.dtype), result.shape)
        yield _array(
            "result", f"result{result.path}", result.dtype, shape, proto, mesh, result.sharding, number=position
        )


def _constraints(before: Module | None, mesh: Mesh | None) -> Iterator[ArraySharding]:
    if before is None:
        return
    for row in before.calls_to(_CONSTRAINTS):
        call: Instruction = before.at(row)
        if call.custom_call_target in _CONSTRAINTS and call.proto.HasField("sharding"):
            shape = call.shape
            yield _array(
                "constraint", call.name, shape.element_type, shape, call.proto.sharding, mesh, "", call.origin.frames
            )


def _array(
    kind: Any,
    name: str,
    dtype: str,
    shape: Shape,
    proto: Any,
    mesh: Mesh | None,
    request: str,
    frames: Iterable[Frame] = (),
    number: int | None = None,
) -> ArraySharding:
    text = "" if proto is None else sharding_text(proto)
    is_key = dtype.startswith("key<")
    known = _OF_KEYS if is_key else _sharding(shape.dimensions, proto, mesh)
    size: int | Unavailable = known if isinstance(known, Unavailable) else _bytes(shape, known)
    return ArraySharding(kind, name, dtype, shape.dimensions, known, request, text, size, tuple(frames), number)


def _bytes(shape: Shape, known: Sharding) -> int:
    return (
        dataclasses.replace(shape, dimensions=known.part_shape, layout=None).byte_size
        if math.prod(shape.dimensions)
        else 0
    )


def _sharding(shape: tuple[int, ...], proto: Any, mesh: Mesh | None) -> Sharding | Unavailable:
    if proto is None:
        return Unavailable("the compiler does not report it")
    if mesh is None:
        return Unavailable("the program has no mesh with named axes")
    if mesh.size > MOST_DEVICES:
        return Unavailable(f"parts on more than {MOST_DEVICES:,} devices are not listed")
    axes = axes_of(proto, mesh, len(shape))
    if axes is None:
        return Unavailable(f"no axes of the mesh match {sharding_text(proto)}")
    try:
        return Sharding(shape, mesh, axes)
    except ParameterError as e:
        return Unavailable(str(e))


_OF_KEYS = Unavailable("the compiler reports the sharding of the words of random keys, not of the keys")
