"""The Shardings pane: the distribution of a partitioned program's arrays over its devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypedDict

from inspector.analysis.sharding.program_shardings import MOST_DEVICES, SHARDING_COLUMNS, ArraySharding, shardings
from inspector.compilation.compiled import CompiledProgram, placed_mesh
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.stages.compiled import whole_program
from inspector.support.units import format_array
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.described_tables import cells_of, heads_of
from inspector.widgets.panes.framework.pane import Entry, Pane
from inspector.widgets.variants import Variant

_MOST: Mapping[str, int] = {"argument": 500, "result": 300, "constraint": 200, "value": 500}
"""Maximum number of listed arrays of each kind."""


class ShardedArray(TypedDict):
    """An array; see `inspector.analysis.sharding.program_shardings.ArraySharding`.

    Attributes:
      what: dtype and shape.
      cells: cells of the table, in the order of `ShardingList.columns`.
      axes: mesh axes that split each dimension; None if the sharding is not expressed by axes, with the `reason`.
      asked: the user's spec, "" if XLA chose the sharding.
      differs: whether the sharding is known and is not that spec.
      text: the sharding in XLA's notation.
    """

    kind: Literal["argument", "result", "constraint", "value"]
    name: str
    what: str
    shape: list[int]
    axes: list[list[str]] | None
    reason: str
    replicated_over: list[str]
    asked: str
    differs: bool
    text: str
    source: messages.SourceLine | None
    cells: list[messages.TableCell]


class ShardingList(TypedDict):
    """The arrays of a variant's program.

    Attributes:
      axis_names, axis_sizes: axes of the mesh.
      ids: JAX's ids of the mesh's devices, in row-major order.
      columns: headings of the table.
      left_out: number of arrays that are not listed.
      has_values: whether intermediate values are included, which requires recorded passes.
      note: the reason why there are none; "" if there are some.
    """

    type: Literal["sharding_list"]
    variant: int
    axis_names: list[str]
    axis_sizes: list[int]
    ids: list[int]
    columns: list[messages.TableHead]
    rows: list[ShardedArray]
    left_out: int
    has_values: bool
    note: str


class ShardingsPane(Pane):
    """Lists the shardings of each variant."""

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """Yields the shardings of arguments, results and user constraints."""
        yield from self._list(variant, compiled, None)

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterator[Entry]:
        """Yields the shardings including intermediate values."""
        if (whole := whole_program(compiled)) is not None:
            yield from self._list(variant, compiled, whole)

    def _list(self, variant: Variant, compiled: CompiledProgram, whole: Module | None) -> Iterator[Entry]:
        assert variant.lowered is not None, "a compiled variant was lowered"
        arrays = shardings(compiled, variant.lowered.module(), whole)
        mesh = placed_mesh(compiled) if len(arrays) else None
        ids = mesh.physical_id_of_position.tolist() if mesh is not None and mesh.size <= MOST_DEVICES else []
        rows = [row for kind, most in _MOST.items() for row in [each for each in arrays if each.kind == kind][:most]]
        yield ShardingList(
            type="sharding_list",
            variant=variant.number,
            axis_names=[] if mesh is None else list(mesh.axis_names),
            axis_sizes=[] if mesh is None else list(mesh.axis_sizes),
            ids=ids,
            columns=heads_of(SHARDING_COLUMNS),
            rows=[_array(each) for each in rows],
            left_out=len(arrays) - len(rows),
            has_values=whole is not None,
            note="" if len(arrays) else _NONE,
        )


def _array(each: ArraySharding) -> ShardedArray:
    known = each.sharding
    return ShardedArray(
        kind=each.kind,
        name=each.name,
        what=format_array(each.dtype, each.shape),
        shape=list(each.shape),
        axes=None if isinstance(known, Unavailable) else [list(axes) for axes in known.axes],
        reason=known.reason if isinstance(known, Unavailable) else "",
        replicated_over=[] if isinstance(known, Unavailable) else list(known.replicated_over),
        asked=each.asked,
        differs=each.differs,
        text=each.text,
        source=source_line(each.frames),
        cells=cells_of(SHARDING_COLUMNS, each),
    )


_NONE = (
    "The program runs on one partition, so no array is split. Pass arguments with a NamedSharding, or use jit with in_shardings over a"
    " mesh."
)
