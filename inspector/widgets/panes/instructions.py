"""The Instructions pane: the instructions of a variant's optimized HLO with their costs, sorted by any column."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from inspector.analysis.cost.measured_peak import stored_peak
from inspector.analysis.instructions import INSTRUCTION_COLUMNS
from inspector.analysis.profile.profile import Profile
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.described_tables import cells_of, heads_of
from inspector.widgets.panes.framework.counted import CountedPane
from inspector.widgets.variants import Variant

if TYPE_CHECKING:
    import pandas as pd

InstructionColumn = Literal[
    "order", "name", "opcode", "shape", "flops", "bytes_accessed", "executions", "measured_s", "least_s", "source"
]

# More than a user reads. A different sort order shows other rows.
_SHOWN_ROWS = 400
_FIRST_SEEN: tuple[InstructionColumn, ...] = ("order", "bytes_accessed", "flops")
_BY_EXPENSE: tuple[InstructionColumn, ...] = ("measured_s", "least_s", "bytes_accessed")
_LARGEST_FIRST = tuple(c.name for c in INSTRUCTION_COLUMNS.of("pane") if c.is_number and c.name != "order")


class InstructionsRequest(TypedDict):
    """Requests the first rows of a variant, sorted by a column. `id` numbers the request; late replies are dropped.

    Attributes:
      column: the column to sort by; "order" for the order of the text; None for the most expensive first: by measured
        time, or by estimated time without a profile, or by bytes without roofs.
      is_descending: whether the largest come first.
      has_fused: whether to include instructions inside fusions.
      profile: the variant's `VariantMessage.profile`, so that a new profile is a new request.
      measured_roofs: how often this machine's roofs were measured, so that new roofs are a new request.
    """

    type: Literal["instructions"]
    id: int
    variant: int
    column: InstructionColumn | None
    is_descending: bool
    has_fused: bool
    profile: int
    measured_roofs: int


class InstructionRow(TypedDict):
    """An instruction. Its numbers are per execution and include all computations that it calls."""

    computation: str
    source: messages.SourceLine | None
    cells: list[messages.TableCell]


class InstructionTable(TypedDict):
    """The reply to `InstructionsRequest` number `id`: the first of `total` rows, or an error.

    Attributes:
      column: the column that the rows are sorted by.
    """

    type: Literal["instruction_table"]
    id: int
    variant: int
    column: InstructionColumn
    columns: list[messages.TableHead]
    rows: list[InstructionRow]
    total: int
    error: messages.Error | None


class InstructionsPane(CountedPane):
    """Shows the table of instructions."""

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[InstructionsRequest]:
        """Yields the requests for the initial sort orders; all orders if `is_whole`, but only one direction for large programs."""
        module = self.context.module(variant)
        is_large = module is not None and len(module.columns) > _SHOWN_ROWS
        for has_fused in (False, True) if is_whole else (False,):
            for column in (None, *(self._columns(variant) if is_whole else self._first_seen(variant))):
                first = column is None or column in _LARGEST_FIRST
                is_once = is_large or not is_whole or column is None
                for is_descending in (first,) if is_once else (first, not first):
                    yield InstructionsRequest(
                        type="instructions", id=0, variant=variant.number, column=column, is_descending=is_descending,
                        has_fused=has_fused, profile=variant.profile_count, measured_roofs=0,
                    )  # fmt: skip

    def reply(self, request: InstructionsRequest) -> InstructionTable:
        """Returns the requested rows."""
        reply = InstructionTable(
            type="instruction_table", id=request["id"], variant=request["variant"], column="order", columns=[],
            rows=[], total=0, error=None,
        )  # fmt: skip
        try:
            variant = self.context.variant(request["variant"])
            without = self._absent(variant)
            reply["columns"] = heads_of(INSTRUCTION_COLUMNS, without)
            table = self._table(variant, has_fused=request["has_fused"])
            column = reply["column"] = _order(request["column"], without)
            keys = self.once(
                variant,
                (column, request["has_fused"], *self._versions(variant)),
                lambda: _sort_keys(table, column),
            )
            order = np.argsort(-keys if request["is_descending"] else keys, kind="stable")  # unknown values come last
            reply["rows"] = [_row(row, without) for row in table.iloc[order[:_SHOWN_ROWS]].to_dict("records")]
            reply["total"] = len(table)
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        return reply

    def _table(self, variant: Variant, *, has_fused: bool) -> pd.DataFrame:
        counted: pd.DataFrame = self.once(variant, "table", lambda: variant.compiled_now.instructions())
        versions = self._versions(variant)
        table = self.once(
            variant, ("times", *versions), lambda: _with_times(counted, variant.profile, self._estimates(variant))
        )
        if has_fused:
            return table
        return self.once(variant, ("kernels", *versions), lambda: table[table["fusion"].isna()])

    def _versions(self, variant: Variant) -> tuple[Hashable, ...]:
        """Returns what the times in the table depend on."""
        return variant.profile_count, _roofs_of(variant) is not None

    def _estimates(self, variant: Variant) -> Mapping[str, float]:
        """Returns the estimated time of each kernel in one execution, in seconds, by name; those that are known."""
        roofs = _roofs_of(variant)
        points = self.once(
            variant, ("estimates", roofs is not None), lambda: variant.compiled_now.roofline(roofs)
        ).points
        return {p.name: float(p.least_s) for p in points if not isinstance(p.least_s, Unavailable)}

    def _absent(self, variant: Variant) -> tuple[str, ...]:
        """Returns the columns that the variant has no values for."""
        measured = ("measured_s",) if isinstance(variant.profile, Unavailable) else ()
        return (*measured, *(() if self._estimates(variant) else ("least_s",)))

    def _columns(self, variant: Variant) -> tuple[InstructionColumn, ...]:
        absent = self._absent(variant)
        return tuple(name for name in get_args(InstructionColumn) if name not in absent)

    def _first_seen(self, variant: Variant) -> tuple[InstructionColumn, ...]:
        """Returns the columns that the first view is sorted by, and two that users often choose."""
        absent = self._absent(variant)
        return tuple(name for name in dict.fromkeys((*_BY_EXPENSE, *_FIRST_SEEN)) if name not in absent)


def _order(wanted: InstructionColumn | None, without: tuple[str, ...]) -> InstructionColumn:
    """Returns the requested column, or that of the most expensive first if there is none."""
    if wanted is not None and wanted not in without:
        return wanted
    return next(column for column in _BY_EXPENSE if column not in without)


def _roofs_of(variant: Variant) -> Peak | None:
    """Returns the measured roofs for a CPU, if they are stored; None for the published ones."""
    return stored_peak() if variant.compiled_now.program.platform == "cpu" else None


def _with_times(table: pd.DataFrame, profile: Profile | Unavailable, estimates: Mapping[str, float]) -> pd.DataFrame:
    """Returns the table with the measured and the estimated time of each instruction, in one execution on one device."""
    import pandas as pd

    measured = {} if isinstance(profile, Unavailable) else profile.execution_times
    return table.assign(
        measured_s=pd.array([measured.get(name) for name in table["name"]], "Float64"),
        least_s=pd.array([estimates.get(name) for name in table["name"]], "Float64"),
    )


def _sort_keys(table: pd.DataFrame, column: InstructionColumn) -> npt.NDArray[np.float64]:
    """Returns a sort key for each row; NaN if its cell is unknown."""
    if column == "order":
        return np.arange(len(table), dtype=np.float64)
    if column in _LARGEST_FIRST:
        numbers: npt.NDArray[np.float64] = table[column].to_numpy(np.float64, na_value=np.nan)
        return numbers
    if column != "source":
        return _places(table[column])
    lines = table["source_line"].to_numpy(np.float64, na_value=np.nan)
    last = np.nanmax(lines, initial=0.0) + 1
    keys: npt.NDArray[np.float64] = _places(table["source_file"]) * (last + 1) + np.where(np.isnan(lines), last, lines)
    return keys


def _places(texts: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Returns the rank of each text among the distinct texts."""
    import pandas as pd

    codes, _ = pd.factorize(texts, sort=True)
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def _row(row: dict[Any, Any], without: tuple[str, ...]) -> InstructionRow:
    import pandas as pd

    file, library = row["source_file"], row["library_line"]
    return InstructionRow(
        computation=row["computation"],
        source=None
        if pd.isna(file)
        else messages.SourceLine(
            file=display_file(file), line=int(row["source_line"]), library="" if pd.isna(library) else library
        ),
        cells=cells_of(INSTRUCTION_COLUMNS, row, without),
    )
