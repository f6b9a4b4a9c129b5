"""The Profile pane: the measured time of each kernel of a variant, after a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypedDict, get_args

from inspector.analysis.profile.columns import PROFILE_COLUMNS, PROFILE_GROUP_COLUMNS, SharedRow
from inspector.analysis.profile.profile import Profile
from inspector.analysis.profile.rows import GroupedBy, ProfileGroup
from inspector.errors import Unavailable, UnavailableError
from inspector.support.units import format_seconds
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.described_tables import cells_of, heads_of
from inspector.widgets.panes.framework.counted import CountedPane
from inspector.widgets.panes.framework.pane import Excerpt
from inspector.widgets.variants import Variant

_SHOWN = 400  # more than a user reads
_EXCERPT = 5


class ProfileRequest(TypedDict):
    """Requests the measured times of a variant. `id` numbers the request; late replies are dropped.

    Attributes:
      number: the variant's `VariantMessage.profile`, so that a new profile is a new request.
      by: rows of the table: instructions on each device, or sums by a property.
    """

    type: Literal["profile"]
    id: int
    variant: int
    number: int
    by: Literal["instruction", "kernel", "scope", "line", "phase", "opcode"]


class ProfileTableRow(TypedDict):
    """A row of the table.

    Attributes:
      instruction: instruction of the row, of the slowest one in a group; "" for work that belongs to none.
      share: share of the measured time of all rows.
    """

    instruction: str
    share: float
    source: messages.SourceLine | None
    cells: list[messages.TableCell]


class ProfileTable(TypedDict):
    """The reply to `ProfileRequest` number `id`, or an error.

    Attributes:
      heading: executions, time in kernels and wall time in a line of text.
      notes: explanations, such as about parallel threads.
      columns, rows: the table, the longest time first.
      count: total number of rows in the table, including those that are not sent.
    """

    type: Literal["profile_table"]
    id: int
    variant: int
    heading: str
    notes: list[str]
    columns: list[messages.TableHead]
    rows: list[ProfileTableRow]
    count: int
    error: messages.Error | None


class ProfilePane(CountedPane):
    """Sends the measured times of each variant that was run."""

    def reply(self, request: ProfileRequest) -> ProfileTable:
        """Returns the requested rows."""
        reply = ProfileTable(
            type="profile_table", id=request["id"], variant=request["variant"], heading="", notes=[], columns=[], rows=[],
            count=0, error=None,
        )  # fmt: skip
        try:
            profile = self.context.variant(request["variant"]).profile
            if isinstance(profile, Unavailable):
                raise UnavailableError(str(profile))
            reply["heading"], reply["notes"] = profile.heading, [*profile.notes]
            if request["by"] == "instruction":
                without = () if len(profile.devices) > 1 else ("device",)
                reply["columns"] = heads_of(PROFILE_COLUMNS, without)
                whole = profile.total_s
                rows = [SharedRow(row, row.total_s / whole if whole else 0.0) for row in profile.rows[:_SHOWN]]
                reply["rows"], reply["count"] = [_instruction(row, without) for row in rows], len(profile.rows)
            else:
                groups = profile.groups(request["by"])
                reply["columns"] = heads_of(PROFILE_GROUP_COLUMNS)
                reply["columns"][0]["title"] = request["by"]
                reply["rows"], reply["count"] = [_group(group) for group in groups[:_SHOWN]], len(groups)
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        return reply

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[ProfileRequest]:
        """Yields the requests for the instructions of a profiled variant; also for all groups if `is_whole`."""
        if isinstance(variant.profile, Profile):
            for by in ("instruction", *get_args(GroupedBy)) if is_whole else ("instruction",):
                yield ProfileRequest(type="profile", id=0, variant=variant.number, number=variant.profile_count, by=by)

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """Returns the kernels with the longest measured times."""
        if isinstance(variant.profile, Profile):
            slowest = variant.profile.groups("kernel")[:_EXCERPT]
            lines = [
                f"{100 * group.share:5.1f} %  {format_seconds(group.total_s):>8}  {group.name}" for group in slowest
            ]
            yield Excerpt(f"Profile: {variant.profile.heading}", "\n".join(lines))


def _instruction(row: SharedRow, without: tuple[str, ...]) -> ProfileTableRow:
    return ProfileTableRow(
        instruction=row.row.name if row.row.opcode else "",
        share=row.share,
        source=source_line(row.row.origin.frames),
        cells=cells_of(PROFILE_COLUMNS, row, without),
    )


def _group(group: ProfileGroup) -> ProfileTableRow:
    slowest = next((row for row in group.rows if row.opcode), None)
    cells = cells_of(PROFILE_GROUP_COLUMNS, group)
    line = source_line(group.frames)
    if line is not None:  # a notebook cell has another name than its file
        cells[0]["value"] = f"{line['file']}:{line['line']}"
    return ProfileTableRow(instruction=slowest.name if slowest else "", share=group.share, source=None, cells=cells)
