"""The instructions of a variant's optimized HLO with what each costs, sorted by any column.

XLA counts the costs in a worker process, which takes seconds for large programs: they are asked for when somebody looks.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.panes.pane import Context, Pane
from inspector.widgets.variants import Variant

if TYPE_CHECKING:
    import pandas as pd

InstructionColumn = Literal["order", "name", "opcode", "shape", "flops", "bytes_accessed", "executions", "source"]

# More than anybody reads: the rest is found by another order.
_SHOWN_ROWS = 400
_BY: dict[InstructionColumn, list[str]] = {"order": [], "source": ["source_file", "source_line"]}


class InstructionsRequest(TypedDict):
    """Send the first rows of a variant by a column. `id` numbers the request; late replies are dropped.

    Attributes:
      column: what the rows are sorted by; "order" for the order of the text.
      is_descending: whether the largest come first.
      has_fused: whether instructions inside of fusions are wanted too.
    """

    type: Literal["instructions"]
    id: int
    variant: int
    column: InstructionColumn
    is_descending: bool
    has_fused: bool


class InstructionRow(TypedDict):
    """An instruction; its numbers are of one execution, with all that it calls, None where `unknown` says why.

    Attributes:
      executions: how often it runs in one execution of the program.
      unknown: what is not known or known in part, and why; "" where all is known.
    """

    name: str
    opcode: str
    computation: str
    shape: str
    flops: float | None
    bytes_accessed: float | None
    executions: int | None
    source: messages.SourceLine | None
    unknown: str


class InstructionTable(TypedDict):
    """The reply to `InstructionsRequest` number `id`: the first of `total` rows, or an error."""

    type: Literal["instruction_table"]
    id: int
    variant: int
    rows: list[InstructionRow]
    total: int
    error: messages.Error | None


class InstructionsPane(Pane):
    """Counts once for each variant, on a thread of its own."""

    def __init__(self, name: str, context: Context) -> None:
        """Counts nothing yet."""
        super().__init__(name, context)
        self._tables: dict[int, pd.DataFrame] = {}
        self._counting = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-instructions")

    def answer(self, request: InstructionsRequest) -> None:
        """The rows, once they are counted."""
        with contextlib.suppress(RuntimeError):  # closed
            self._counting.submit(lambda: self.context.publish(self._reply(request)))

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops its table."""
        self._tables.pop(variant.number, None)
        return super().forget(variant)

    def close(self) -> None:
        """Counts no more."""
        self._counting.shutdown(wait=False, cancel_futures=True)
        self._tables.clear()

    def _reply(self, request: InstructionsRequest) -> InstructionTable:
        reply = InstructionTable(
            type="instruction_table", id=request["id"], variant=request["variant"], rows=[], total=0, error=None
        )
        try:
            table = self._table(self.context.variant(request["variant"]))
            if not request["has_fused"]:
                table = table[table["fusion"].isna()]
            by = _BY.get(request["column"], [request["column"]])
            if by:
                table = table.sort_values(by, ascending=not request["is_descending"], kind="stable", na_position="last")
            elif request["is_descending"]:
                table = table[::-1]
            reply["rows"] = [_row(row) for row in table.head(_SHOWN_ROWS).to_dict("records")]
            reply["total"] = len(table)
        except Exception as error:  # whatever it is, it belongs in the pane
            reply["error"] = messages.error_of(error)
        return reply

    def _table(self, variant: Variant) -> pd.DataFrame:
        table = self._tables.get(variant.number)
        if table is None:
            table = variant.compiled_now.instructions()
            with self.context.lock:
                if self.context.holds(variant):
                    self._tables[variant.number] = table
        return table


def _row(row: dict[Any, Any]) -> InstructionRow:
    known = _plain(row)
    file = known["source_file"]
    return InstructionRow(
        name=row["name"],
        opcode=row["opcode"],
        computation=row["computation"],
        shape=row["shape"],
        flops=known["flops"],
        bytes_accessed=known["bytes_accessed"],
        executions=known["executions"],
        source=None if file is None else messages.SourceLine(file=display_file(file), line=known["source_line"]),
        unknown=row["unknown"],
    )


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    """The cells that may be missing as Python's own values."""
    import pandas as pd

    kinds = {"flops": float, "bytes_accessed": float, "executions": int, "source_file": str, "source_line": int}
    return {name: None if pd.isna(row[name]) else kind(row[name]) for name, kind in kinds.items()}
