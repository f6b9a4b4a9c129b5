"""The reshardings that the partitioner inserts: the sharding before and after, the source line, the bytes, and advice.

A resharding is read from its collective: the axes, and the dimension that it gathers, splits or scatters. If the
partitioner has no suitable collective, it copies the whole array to every device, and XLA warns about it
("involuntary full rematerialization").
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.analysis.collectives.inserted_by import is_manual
from inspector.analysis.sharding.needed_by import SplitInstruction, SplitInstructions
from inspector.analysis.sharding.program_shardings import shardings
from inspector.analysis.sharding.whole_arrays import WholeArray, WholeArrays
from inspector.compilation.compiled import CompiledProgram, build_options_of, engine_of, placed_mesh
from inspector.errors import Unavailable
from inspector.hlo.devices.group_mode import GroupMode
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.sharding_axes import axes_in_text, spec_text
from inspector.hlo.module import Module
from inspector.hlo.shape import Shape
from inspector.hlo.source import Frame, library_text, line_text, own_frame
from inspector.support.tables import Kind, Tabular, make_table
from inspector.support.units import format_bytes, format_list

if TYPE_CHECKING:
    import pandas as pd

FULL = "full rematerialization"
_WARNING = "nvoluntary full rematerialization"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Resharding:
    """One change of the sharding of an array.

    Attributes:
      name: name of the collective that performs it; for a full rematerialization, the array as XLA names it.
      kind: the collective's opcode, or `FULL`.
      axes: mesh axes of the change; Unavailable if its groups match no axes, or if XLA does not report them.
      had, needed: how the array is split where it is produced, and where it is used.
      operand_bytes: input bytes per device and execution; for a full rematerialization, size of the part before it.
      frames: call stack of its source line, innermost first.
      advice: what the user can change.
      inserted_by: "partitioner"; Unavailable if the collective has lost its origin and may be the user's own.
      array: the argument or result whose sharding changes, before and after; None if it is neither.
      needed_by: the instructions on whole arrays that need the change, several if ambiguous; () if unknown, or if the
        compile did not record its passes.
    """

    name: str
    kind: str
    axes: tuple[str, ...] | Unavailable
    had: str
    needed: str
    operand_bytes: int | Unavailable
    frames: tuple[Frame, ...]
    advice: str
    inserted_by: str | Unavailable = "partitioner"
    array: WholeArray | None = None
    needed_by: tuple[SplitInstruction, ...] = ()

    def __repr__(self) -> str:
        size = "" if isinstance(self.operand_bytes, Unavailable) else f", {format_bytes(self.operand_bytes)}"
        line = f", {line}" if (line := line_text(self.frames)) else ""
        return f"<{self.kind} {self.name}: {self.had}, needed {self.needed}{size}{line}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Reshardings(Tabular):
    """The reshardings of a program.

    Attributes:
      items: full rematerializations first.
      unheard: reason why XLA's warnings about full rematerializations are unknown; "" if they are known.
      left_out: names of all other collectives of the program, each with the reason why it is not a resharding.
    """

    items: tuple[Resharding, ...]
    unheard: str = ""
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Resharding]:
        return iter(self.items)

    def __getitem__(self, position: int) -> Resharding:
        return self.items[position]

    def __repr__(self) -> str:
        count = len(self.left_out)
        others = f"; {count} other collective{'s' * (count > 1)}: see left_out" if count else ""
        return f"<Reshardings: {format_list([repr(one)[1:-1] for one in self.items], most=4) or 'none'}{others}>"

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per resharding."""
        return make_table(_KINDS, map(_row, self.items))


_KINDS: dict[str, Kind] = {
    "name": "text",
    "kind": "text",
    "axes": "object",
    "had": "text",
    "needed": "text",
    "operand_bytes": "int",
    "source_file": "text",
    "source_line": "int",
    "array": "text",
    "split_before": "text",
    "split_after": "text",
    "needed_by": "text",
    "advice": "text",
    "inserted_by": "text",
    "library_line": "text",
    "unknown": "reasons",
}
_NO_ARRAY = WholeArray((), "", "")
_NO_LINE = Unavailable("XLA recorded no source line for it")


def _row(one: Resharding) -> Sequence[object]:
    frame = own_frame(one.frames)
    file, line = (frame.file, frame.line) if frame else (_NO_LINE, _NO_LINE)
    array = one.array or _NO_ARRAY
    names = ", ".join(array.names) or None
    return (
        one.name, one.kind, one.axes, one.had, one.needed, one.operand_bytes, file, line, names, array.before or None,
        array.after or None, "; or ".join(map(str, one.needed_by)) or None, one.advice,
        one.inserted_by, library_text(one.frames),
    )  # fmt: skip


def reshardings(
    compiled: CompiledProgram, collectives: Iterable[Collective], whole: Module | None = None
) -> Reshardings:
    """Returns the reshardings of a program.

    Args:
      compiled: the program.
      collectives: its collectives.
      whole: the partitioner's input; None if unknown.
    """
    full = full_rematerializations(compiled)
    arrays = WholeArrays(compiled.module(), shardings(compiled))
    inside = None if whole is None else SplitInstructions(whole, placed_mesh(compiled))
    by_name = {one.name: resharding(one, arrays, inside) for one in collectives}
    inserted = [each for each in by_name.values() if isinstance(each, Resharding)]
    left_out = {name: each.reason for name, each in by_name.items() if isinstance(each, Unavailable)}
    if isinstance(full, Unavailable):
        return Reshardings(tuple(inserted), str(full), left_out)
    return Reshardings((*full, *inserted), left_out=left_out)


def resharding(
    collective: Collective, arrays: WholeArrays | None = None, inside: SplitInstructions | None = None
) -> Resharding | Unavailable:
    """Describes the resharding by a collective that the partitioner inserted, or may have inserted.

    Args:
      collective: a collective of a partitioned program.
      arrays: the arguments and results of the program; None if unknown.
      inside: the instructions of the partitioner's input; None if unknown.

    Returns:
      The resharding; Unavailable if the collective is not one.
    """
    if not isinstance(collective.inserted_by, Unavailable) and collective.inserted_by != "partitioner":
        return Unavailable(_NOT_INSERTED.get(collective.inserted_by, _NOT_INSERTED["user"]))
    if isinstance(collective.inserted_by, Unavailable) and is_manual(collective.origin.op_name):
        return Unavailable("it combines arrays in a shard_map, where the user's function calls the collectives")
    if collective.mode is GroupMode.CROSS_REPLICA:
        return Unavailable("it joins replicas, and only partitions are sharded")
    over = "its groups of devices" if isinstance(collective.axes, Unavailable) else axes_text(collective.axes)
    gone, come = _dimensions(collective)
    is_sum = collective.reduction in ("add", "")
    parts = f"{'partial sums' if is_sum else f'partial results ({collective.reduction})'} over {over}"
    combined = "summed" if is_sum else "combined"
    ways: dict[str, tuple[str, str, str]] = {
        "all-gather": (f"{gone} split over {over}", f"{gone} whole", _GATHERED),
        "all-to-all": (f"{gone} split over {over}", f"{come} split over it", _MOVED),
        "reduce-scatter": (parts, f"{combined}, {come} split over it", _SCATTERED),
        "all-reduce": (parts, f"{combined}, whole on each of these devices", _REDUCED),
        "collective-permute": (f"parts on other devices of {over}", "parts where they are used", _PERMUTED),
    }
    if collective.opcode not in ways:
        return Unavailable(f"a {collective.opcode} does not show how its array is split")
    had, needed, advice = ways[collective.opcode]
    return Resharding(
        name=collective.name,
        kind=collective.opcode,
        axes=collective.axes if isinstance(collective.axes, Unavailable) else tuple(map(str, collective.axes)),
        had=had,
        needed=needed,
        operand_bytes=collective.operand_bytes,
        frames=collective.origin.frames,
        advice=advice.format(gone=gone, come=come, over=over, combined=combined),
        inserted_by=collective.inserted_by,
        array=None if arrays is None else arrays.of(collective),
        needed_by=() if inside is None else inside.needing(collective),
    )


def _dimensions(collective: Collective) -> tuple[str, str]:
    """Returns the dimensions that are split less than before, and those that are split more."""
    if collective.opcode == "all-to-all":
        return "one dimension", "another"  # its operands are blocks, so the array's dimensions are not visible
    before, after = collective.operand_shapes[0].dimensions, collective.result_shapes[0].dimensions
    if len(before) == len(after) and before != after:
        grown = [d for d, size in enumerate(before) if size < after[d]]
        return _named(grown), _named([d for d, size in enumerate(before) if size > after[d]])
    return _named(collective.dimensions), _named(collective.dimensions)


def _named(dimensions: Sequence[int]) -> str:
    return (
        f"dimension{'s' * (len(dimensions) > 1)} {format_list(list(map(str, dimensions)))}"
        if dimensions
        else "a dimension"
    )


def full_rematerializations(compiled: CompiledProgram) -> tuple[Resharding, ...] | Unavailable:
    """Returns the arrays that XLA replicates in order to reshard them, from its warnings; Unavailable if not captured."""
    if (build_options_of(compiled).num_partitions or 1) == 1:
        return ()
    if engine_of(compiled) == "inline":
        return Unavailable(
            "XLA reports them in warnings, and a compile in this process does not capture XLA's warnings",
            'compile with isolate=True, or for a target that a worker compiles for, such as "cpu:8"',
        )
    warnings = [warning for warning in compiled.warnings if _WARNING in warning]
    return tuple(_full(warning, compiled.module(), placed_mesh(compiled)) for warning in warnings)


def _full(warning: str, module: Module, mesh: Mesh | None) -> Resharding:
    op_name = _between(warning, 'op_name="', '"')
    frame_id = _between(warning, "stack_frame_id=", "}")
    metadata = module.columns.message("xla.OpMetadata", b"")
    metadata.stack_frame_id = int(frame_id) if frame_id.isdecimal() else 0
    had, _, needed = _between(warning, "from sharding ", " efficiently").partition(" to ")
    array = _between(warning, " = ", "{")
    typed = re.fullmatch(r"(\w+)\[([\d,]*)\]", array)
    shape = Shape(typed[1], tuple(map(int, typed[2].split(","))) if typed[2] else ()) if typed else None
    return Resharding(
        name=f"{op_name} {array}".strip(),
        kind=FULL,
        axes=Unavailable("the whole array is copied to every device"),
        had=_split(had, mesh),
        needed=_split(needed, mesh),
        operand_bytes=Unavailable("XLA does not report the array's shape") if shape is None else shape.byte_size,
        frames=module.origin_of(metadata).frames,
        advice=_REPLICATED,
    )


def _split(sharding: str, mesh: Mesh | None) -> str:
    axes = None if mesh is None else axes_in_text(sharding, mesh)
    return sharding if axes is None else spec_text(axes)


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


_NOT_INSERTED = {
    "user": "the user's own collective",
    "autodiff": "the gradient of the user's own collective",
    "compiler": "a collective of the compiler that joins replicas",
}
_GATHERED = (
    "The instruction that uses the array needs {gone} whole. If that is the contracted dimension of a product, split both"
    " factors alike along it: then only sums of the result are communicated. Otherwise keep the result split over {over}, or"
    " keep the array whole from the start. jax.lax.with_sharding_constraint at this line sets a sharding."
)
_MOVED = (
    "One side splits {gone}, the other {come}. Split the same dimension on both sides, with in_shardings, out_shardings or"
    " jax.lax.with_sharding_constraint."
)
_SCATTERED = "The {combined} dimension is split over {over}, and so is the result. This needs the least communication."
_REDUCED = (
    "The {combined} dimension is split over {over}. Split the result over {over} too, which halves the bytes sent (a"
    " reduce-scatter), or keep that dimension whole."
)
_PERMUTED = (
    "Both sides have the same split, but a different order of devices, or parts that begin at different indices (a slice, a"
    " shift, padding). Use one order of devices, and sizes that are multiples of the axes."
)
_REPLICATED = (
    "XLA can make this change only by copying the whole array to every device. Insert a with_sharding_constraint in between"
    " that changes one of the splits and keeps the other, or use the axes in the same order on both sides."
)
