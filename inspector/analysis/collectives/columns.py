"""The columns of the table of collectives, for data frames, the pane, the command line, checks and pages."""

from __future__ import annotations

import dataclasses
import math

from inspector.analysis.collectives.collective import Collective, axes_text, with_other_names
from inspector.analysis.cost.phases import phases_text
from inspector.errors import Partial, Unavailable
from inspector.hlo.source import Frame, library_text, line_text
from inspector.support.columns import TableColumn, TableDescription

_MOST_PAIRS = 32
_MOST_IDS = 1024
"""Maximum number of ids whose groups are written out, except in data frames."""


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveRow:
    """A row of the table.

    Attributes:
      collective: the collective.
      groups: its ids as lists, for data frames. Other views show the form in which the module stores them.
      sent_bytes: lower bound of the bytes that one device sends per execution, for the pane.
      estimated_s: estimated time of one execution in seconds (`analysis/collectives/pricing/price.py`), for the pane.
      measured_s: measured time of all executions in seconds (`analysis/profile/collective_times.py`), for the pane.
    """

    collective: Collective
    groups: list[list[int]] | Unavailable | None = None
    sent_bytes: float | Unavailable | None = None
    estimated_s: float | Unavailable | None = None
    measured_s: float | Unavailable | None = None

    @property
    def frame(self) -> Frame | None:
        """The user's source line; None if unknown."""
        return self.collective.origin.line

    def of_all_runs(self, amount: float | Unavailable | None) -> float | Unavailable | None:
        """Returns an amount for all runs; for one run if their number is unknown."""
        runs = self.collective.executions
        if amount is None or isinstance(runs, Unavailable) or isinstance(amount, Unavailable):
            return amount
        return Unavailable(amount.reason) if isinstance(amount, Partial) and not amount else amount * runs


def _groups_text(row: CollectiveRow) -> str:
    one = row.collective
    if math.prod(one.who.shape) > _MOST_IDS:
        count, largest = one.who.shape
        return f"{count:,} pairs" if one.form is None else f"{count:,} groups of up to {largest:,} ids"
    return str(one.form) if one.form is not None else ", ".join(f"{a}→{b}" for a, b in one.groups[:_MOST_PAIRS])


COLLECTIVE_COLUMNS: TableDescription[CollectiveRow] = TableDescription(
    TableColumn(
        "name", "text", lambda row: row.collective.name, "instruction",
        "Name of the instruction, and of its kernel in the roofline if that is another",
        views=("data_frame", "pane", "command_line", "check", "page"),
        text=lambda row: with_other_names(row.collective.name, (row.collective.kernel,)),
    ),
    TableColumn(
        "opcode", "text", lambda row: row.collective.opcode, "opcode", "Kind of collective",
        views=("data_frame", "command_line", "check", "page"),
    ),
    TableColumn(
        "measured_s", "float", lambda row: row.measured_s, "measured time",
        "Time in one execution of the program on one device, for all runs; start and done are added",
        "seconds", ("pane",),
    ),
    TableColumn(
        "estimated_s", "float", lambda row: row.of_all_runs(row.estimated_s), "estimated time",
        "On the links of the target with about 1 µs per hop, for all runs; for one run if their number is unknown",
        "seconds", ("pane",),
    ),
    TableColumn("computation", "text", lambda row: row.collective.computation),
    TableColumn("context", "text", lambda row: " > ".join(row.collective.context)),
    TableColumn(
        "axes", "object", lambda row: row.collective.axes, "axes", "Mesh axes that the groups span",
        views=("data_frame", "pane", "command_line", "check", "page"), text=lambda row: axes_text(row.collective.axes),
    ),
    TableColumn("group_mode", "text", lambda row: str(row.collective.mode)),
    TableColumn("result_shapes", "object", lambda row: [str(s.without_layout()) for s in row.collective.result_shapes]),
    TableColumn(
        "operand_bytes", "int", lambda row: row.collective.operand_bytes, "operand bytes",
        "Operand bytes per device and execution", "bytes", ("data_frame", "pane", "command_line", "check", "page"),
    ),
    TableColumn(
        "result_bytes", "int", lambda row: row.collective.result_bytes, "result bytes",
        "Result bytes per device and execution", "bytes", ("data_frame", "command_line", "check", "page"),
    ),
    TableColumn(
        "executions", "int", lambda row: row.collective.executions, "runs", "Runs per execution of the program",
        views=("data_frame", "pane", "command_line", "check"),
    ),
    TableColumn(
        "sent_bytes", "float", lambda row: row.of_all_runs(row.sent_bytes), "sent bytes",
        "Lower bound of the bytes that one device sends or receives, for all runs; for one run if their number is unknown",
        "bytes", ("pane",),
    ),
    TableColumn(
        "replica_groups", "object", lambda row: row.groups, "groups", "Device groups",
        views=("data_frame", "pane", "page"), text=_groups_text,
    ),
    TableColumn(
        "operand_shapes", "object", lambda row: [str(s.without_layout()) for s in row.collective.operand_shapes],
        "operand", "Operand shapes", views=("data_frame", "pane"),
    ),
    TableColumn(
        "inserted_by", "text", lambda row: row.collective.inserted_by, "inserted by",
        "The user's program, JAX's differentiation, the partitioner or another pass of XLA", views=("data_frame", "command_line", "check"),
    ),
    TableColumn(
        "group_size", "int", lambda row: row.collective.who.group_sizes[1], "group size",
        "Devices of the largest group; 2 for pairs", views=("data_frame", "command_line", "check", "page"),
    ),
    TableColumn("source_file", "text", lambda row: row.frame and row.frame.file),
    TableColumn("source_line", "int", lambda row: row.frame and row.frame.line),
    TableColumn("library_line", "text", lambda row: library_text(row.collective.origin.frames)),
    TableColumn(
        "source", "text", lambda row: line_text(row.collective.origin.frames) or None, "source",
        "Line of your code, and the library line that it calls", views=("pane", "command_line"),
    ),
    TableColumn("phase", "text", lambda row: phases_text(row.collective.phases)),
    TableColumn("source_from", "text", lambda row: row.collective.source_from),
    TableColumn("dimensions", "object", lambda row: list(row.collective.dimensions)),
    TableColumn("reduction", "text", lambda row: row.collective.reduction),
    TableColumn("channel_id", "int", lambda row: row.collective.channel_id),
    TableColumn("done", "text", lambda row: row.collective.done),
    TableColumn("kernel", "text", lambda row: row.collective.kernel),
    TableColumn("op_name", "text", lambda row: row.collective.origin.op_name),
    first=(
        "name", "opcode", "computation", "axes", "replica_groups", "group_mode", "operand_shapes", "result_shapes",
        "operand_bytes", "source_file", "source_line", "inserted_by",
    ),
)  # fmt: skip
