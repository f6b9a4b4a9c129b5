"""The totals of a program's collectives by axes and opcode."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.analysis.collectives.collective import Collective, axes_text
from inspector.errors import AtLeast, Missing, Unavailable, total
from inspector.support.columns import TableColumn, TableDescription


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveTotal:
    """The collectives with the same axes and opcode, in one execution of the program.

    Attributes:
      axes: such as "data, model", or the reason why no axes fit.
      opcode: of the collectives.
      collectives: number of instructions.
      executions: number of runs of all of them together.
      operand_bytes, result_bytes: per device, for all executions.
    """

    axes: str
    opcode: str
    collectives: int
    executions: float
    operand_bytes: float
    result_bytes: float


TOTAL_COLUMNS: TableDescription[CollectiveTotal] = TableDescription(
    TableColumn("axes", "text", lambda row: row.axes, "axes", views=("data_frame", "command_line")),
    TableColumn("opcode", "text", lambda row: row.opcode, "opcode", views=("data_frame", "command_line")),
    TableColumn("collectives", "int", lambda row: row.collectives, "collectives", views=("data_frame", "command_line")),
    TableColumn("executions", "int", lambda row: row.executions, "runs", views=("data_frame", "command_line")),
    TableColumn(
        "operand_bytes", "int", lambda row: row.operand_bytes, "operand bytes", unit="bytes",
        views=("data_frame", "command_line"),
    ),
    TableColumn(
        "result_bytes", "int", lambda row: row.result_bytes, "result bytes", unit="bytes",
        views=("data_frame", "command_line"),
    ),
)  # fmt: skip


def totals_of(collectives: Sequence[Collective]) -> list[CollectiveTotal]:
    """Returns the totals, most operand bytes first."""
    groups: dict[tuple[str, str], list[Collective]] = {}
    for collective in collectives:
        groups.setdefault((axes_text(collective.axes), collective.opcode), []).append(collective)
    rows = [
        CollectiveTotal(
            axes,
            opcode,
            len(group),
            executions=total(_executed(one, 1) for one in group),
            operand_bytes=total(_executed(one, one.operand_bytes) for one in group),
            result_bytes=total(_executed(one, one.result_bytes) for one in group),
        )
        for (axes, opcode), group in groups.items()
    ]
    return sorted(rows, key=lambda row: -row.operand_bytes)


def _executed(collective: Collective, amount: int) -> float:
    """Returns an amount per execution times the number of executions; a lower bound if that number is unknown."""
    if isinstance(collective.executions, Unavailable):
        return AtLeast(0, [Missing(collective.name, "collective that runs an unknown number of times")])
    return amount * collective.executions
