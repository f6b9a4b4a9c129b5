"""The columns of a roofline's tables: kernels, and groups of kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

from inspector.analysis.collectives.collective import with_other_names
from inspector.analysis.cost.roofline_groups import Group
from inspector.analysis.cost.roofline_point import Point
from inspector.errors import Unavailable
from inspector.hlo.source import library_text, line_text
from inspector.support.columns import TableColumn, TableDescription, View
from inspector.support.units import format_seconds

T = TypeVar("T")

_BOTH: tuple[View, ...] = ("data_frame", "pane")
NOT_MEASURED = Unavailable("the profile has no event of it")
_UNIT = (
    "Upper bound of the share of the TPU's matrix unit that matrix products use; the rest is padding to its tiles. The"
    " use in a real run is unknown: it needs the number of cycles"
)


@dataclasses.dataclass(frozen=True, slots=True)
class KernelRow:
    """A row of the table of kernels.

    Attributes:
      point: the kernel, or the whole program.
      spent_s: sum of the estimated times of all kernels, in seconds; 0 if none is known.
      measured_s: measured time of one execution of the program on one device, in seconds.
    """

    point: Point
    spent_s: float
    measured_s: float | Unavailable = NOT_MEASURED

    @property
    def share(self) -> float | None:
        """Share of the estimated time of all kernels; None if unknown."""
        least = self.point.least_s
        return None if isinstance(least, Unavailable) or not self.spent_s else float(least) / self.spent_s


def _known(value: float | Unavailable) -> float | None:
    return None if isinstance(value, Unavailable) else value


def _named(unit: str | Unavailable) -> str | Unavailable | None:
    return None if unit == "none" else unit


def _percent(share: float | Unavailable | None, digits: int = 1) -> str:
    return "" if share is None or isinstance(share, Unavailable) else f"{100 * float(share):.{digits}f} %"


def _exposed(sums: Point | Group) -> str:
    if not sums.link_bytes:
        return ""
    return "unknown" if isinstance(sums.exposed_s, Unavailable) else format_seconds(float(sums.exposed_s))


def _amounts(sums_of: Callable[[T], Point | Group]) -> tuple[TableColumn[T], ...]:
    """Returns the columns that kernels and groups share, after time and share."""
    return (
        TableColumn("flops", "float", lambda row: sums_of(row).flops, "flops", "FLOPs of all runs", "count", _BOTH),
        TableColumn(
            "main_memory_bytes", "float", lambda row: sums_of(row).main_memory_bytes, "bytes",
            "Bytes read from and written to main memory", "bytes", _BOTH,
        ),
        TableColumn(
            "link_bytes", "float", lambda row: sums_of(row).link_bytes, "links",
            "Bytes that one device sends to other devices", "bytes", _BOTH,
        ),
        TableColumn(
            "exposed_s", "float", lambda row: sums_of(row).exposed_s, "exposed",
            "Link time that no kernel hides, estimated from the times at the roof", "seconds", _BOTH,
            text=lambda row: _exposed(sums_of(row)),
        ),
        TableColumn(
            "filled", "float", lambda row: _known(sums_of(row).filled), "unit", _UNIT, views=_BOTH,
            text=lambda row: _percent(sums_of(row).filled, 0),
        ),
    )  # fmt: skip


def _time(sums_of: Callable[[T], Point | Group]) -> TableColumn[T]:
    return TableColumn(
        "least_s", "float", lambda row: sums_of(row).least_s, "estimated time", "Time at the limiting roof, for all runs",
        "seconds", _BOTH,
    )  # fmt: skip


def _share(share_of: Callable[[T], float | Unavailable | None]) -> TableColumn[T]:
    return TableColumn(
        "share", "float", share_of, "share", "Share of the estimated time of all kernels", views=_BOTH,
        text=lambda row: _percent(share_of(row)),
    )  # fmt: skip


def _point(row: KernelRow) -> Point:
    return row.point


def _itself(group: Group) -> Group:
    return group


KERNEL_COLUMNS: TableDescription[KernelRow] = TableDescription(
    TableColumn(
        "name", "text", lambda row: row.point.name, "kernel", "Name of the kernel's instruction, and of a collective inside",
        views=_BOTH, text=lambda row: with_other_names(row.point.name, row.point.collectives),
    ),
    TableColumn("executions", "int", lambda row: row.point.executions),
    TableColumn(
        "measured_s", "float", lambda row: row.measured_s, "measured time",
        "Measured time in one execution on one device, from a profile", "seconds", ("pane",),
    ),
    _time(_point),
    _share(lambda row: row.share),
    TableColumn("bound_by", "text", lambda row: row.point.bound_by, "bound by", "The roof that limits it", views=_BOTH),
    TableColumn(
        "limited_by", "text", lambda row: _named(row.point.limited_by), "limited by", "The unit of the chip that limits it", views=_BOTH
    ),
    TableColumn("opcode", "text", lambda row: row.point.opcode, "opcode", "Kind of instruction", views=_BOTH),
    TableColumn("limit_source", "text", lambda row: row.point.limit_source or None),
    *_amounts(_point),
    TableColumn("algorithm", "text", lambda row: row.point.algorithm),
    TableColumn("intensity", "float", lambda row: _known(row.point.intensity)),
    TableColumn("scope", "text", lambda row: row.point.scope),
    TableColumn("source_file", "text", lambda row: row.point.line and row.point.line.file),
    TableColumn("source_line", "int", lambda row: row.point.line and row.point.line.line),
    TableColumn("phase", "text", lambda row: row.point.phase),
    TableColumn("library_line", "text", lambda row: library_text(row.point.origin.frames)),
    TableColumn("collectives", "object", lambda row: list(row.point.collectives)),
    TableColumn(
        "source", "text", lambda row: line_text(row.point.origin.frames) or None, "source", "Line of your code", views=("pane",)
    ),
    first=(
        "name", "opcode", "executions", "flops", "main_memory_bytes", "link_bytes", "algorithm", "intensity", "bound_by",
        "limited_by", "least_s", "exposed_s", "filled", "share",
    ),
)  # fmt: skip

GROUP_COLUMNS: TableDescription[Group] = TableDescription(
    TableColumn("name", "text", lambda group: group.name, "name", "The common property", views=_BOTH),
    TableColumn("kernels", "int", lambda group: len(group.points), "kernels", "Number of kernels", views=_BOTH),
    _time(_itself),
    _share(lambda group: group.share),
    *_amounts(_itself),
    TableColumn("slowest", "text", lambda group: group.points[0].name, "slowest kernel", "Name of the slowest kernel", views=("pane",)),
    first=("name", "kernels", "flops", "main_memory_bytes", "link_bytes", "least_s", "exposed_s", "filled", "share"),
)  # fmt: skip
