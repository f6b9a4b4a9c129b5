"""The columns of a profile's tables: instructions, and sums of them."""

from __future__ import annotations

import dataclasses

from inspector.analysis.profile.rows import OTHER_WORK, ProfileGroup, ProfileRow
from inspector.hlo.source import library_text, line_text
from inspector.support.columns import TableColumn, TableDescription, View

_ALL: tuple[View, ...] = ("data_frame", "pane", "command_line", "check")
_NEW: tuple[View, ...] = ("pane", "command_line")


@dataclasses.dataclass(frozen=True, slots=True)
class SharedRow:
    """A row of the table.

    Attributes:
      row: the instruction on a device.
      share: its share of the time of all rows.
    """

    row: ProfileRow
    share: float


PROFILE_COLUMNS: TableDescription[SharedRow] = TableDescription(
    TableColumn("name", "text", lambda r: r.row.name, "kernel", "Name of the instruction, or of other work", views=_ALL),
    TableColumn("opcode", "text", lambda r: r.row.opcode or OTHER_WORK, "opcode", "Kind of instruction", views=_ALL),
    TableColumn("computation", "text", lambda r: r.row.computation or None),
    TableColumn("device", "text", lambda r: r.row.device, "device", "Device that ran it", views=_ALL),
    TableColumn("calls", "int", lambda r: r.row.calls, "calls", "Measured events in all executions", views=_ALL),
    TableColumn(
        "total_s", "float", lambda r: r.row.total_s, "measured time",
        "Sum of all executions, without the instructions that it calls", "seconds", _ALL,
    ),
    TableColumn("mean_s", "float", lambda r: r.row.mean_s, "per call", "Mean time of an event", "seconds", _ALL),
    TableColumn(
        "share", "float", lambda r: r.share, "share", "Share of the measured time of all rows", views=_ALL,
        text=lambda r: f"{100 * r.share:.1f} %",
    ),
    TableColumn("run_s", "float", lambda r: r.row.run_s, "per execution", "Median over executions", "seconds", _ALL),
    TableColumn("spread_s", "float", lambda r: r.row.spread_s, "spread", "Interquartile range over executions", "seconds", ("data_frame", "pane")),
    TableColumn("min_s", "float", lambda r: r.row.min_s),
    TableColumn("max_s", "float", lambda r: r.row.max_s),
    TableColumn(
        "estimated_s", "float", lambda r: r.row.estimated_s, "estimated time",
        "Time at the roof of one execution of the program, by the roofline model", "seconds", ("data_frame", "pane"),
    ),
    TableColumn("source_file", "text", lambda r: r.row.line and r.row.line.file),
    TableColumn("source_line", "int", lambda r: r.row.line and r.row.line.line),
    TableColumn("scope", "text", lambda r: r.row.scope or None),
    TableColumn("phase", "text", lambda r: r.row.phase),
    TableColumn("library_line", "text", lambda r: library_text(r.row.origin.frames)),
    TableColumn(
        "source", "text", lambda r: line_text(r.row.origin.frames) or None, "source", "Line of your code", views=_NEW
    ),
    first=(
        "name", "opcode", "computation", "calls", "total_s", "mean_s", "share", "device", "source_file", "source_line", "scope",
        "estimated_s",
    ),
)  # fmt: skip

PROFILE_GROUP_COLUMNS: TableDescription[ProfileGroup] = TableDescription(
    TableColumn("name", "text", lambda g: g.name, "name", "The common property", views=_ALL, text=lambda g: g.name or "unknown"),
    TableColumn("kernels", "int", lambda g: g.kernels, "kernels", "Number of instructions", views=_ALL),
    TableColumn("calls", "int", lambda g: g.calls, "calls", "Measured events in all executions", views=_ALL),
    TableColumn("total_s", "float", lambda g: g.total_s, "measured time", "Sum of all executions", "seconds", _ALL),
    TableColumn(
        "share", "float", lambda g: g.share, "share", "Share of the measured time", views=_ALL,
        text=lambda g: f"{100 * g.share:.1f} %",
    ),
    TableColumn("slowest", "text", lambda g: g.rows[0].name, "slowest kernel", "The kernel with the most time", views=_NEW),
    has_reasons=False,
)  # fmt: skip
