"""The Roofline pane: each kernel of a variant under the roofs of its chip, and the kernels grouped by a property.

From the same roofline it answers the requests for the costs of lines and for the headline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypedDict, get_args

from inspector.analysis.cost.measured_peak import can_store_peak, measured_peak, stored_peak
from inspector.analysis.cost.roofline import Roofline
from inspector.analysis.cost.roofline_columns import GROUP_COLUMNS, KERNEL_COLUMNS, NOT_MEASURED, KernelRow
from inspector.analysis.cost.roofline_groups import Group, GroupedBy
from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.cost.scope_costs import scope_costs
from inspector.analysis.headline import headline as headline_of
from inspector.compilation.compiled import CompiledProgram
from inspector.errors import Partial, Unavailable
from inspector.platforms import Peak
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import line_costs_under
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.described_tables import cells_of, heads_of
from inspector.widgets.panes.framework.counted import CountedPane
from inspector.widgets.panes.framework.pane import Context, Entry, PackedMessage
from inspector.widgets.panes.roofline_parts import headline
from inspector.widgets.panes.roofline_parts.line_costs import LineCostsRequest, failed, message_of
from inspector.widgets.variants import Variant

# More than a user reads or distinguishes in a picture.
_SHOWN = 400
_NAMED = 12  # listed kernels that overlap with an exchange


class RooflineRequest(TypedDict):
    """Requests the roofline of a variant. `id` numbers the request; late replies are dropped.

    Attributes:
      by: rows of the table: kernels, or kernels grouped by a property.
      is_measured: whether to measure the roofs of this machine's CPU if none are published.
      profile: the variant's `VariantMessage.profile`, so that a new profile is a new request.
    """

    type: Literal["roofline"]
    id: int
    variant: int
    by: Literal["kernel", "scope", "line", "phase", "opcode", "roof"]
    is_measured: bool
    profile: int


class RooflinePeak(TypedDict):
    """The roofs of a chip.

    Attributes:
      flops_per_s: arithmetic roof of the precision that most matrix products use, `name`; None, with the `reason`.
      memory_bytes_per_s: bandwidth of the main memory.
    """

    chip: str
    source: str
    name: str
    flops_per_s: float | None
    memory_bytes_per_s: float
    reason: str


class RooflinePoint(TypedDict):
    """A kernel of the picture, or all kernels; values are None where `unknown` has the reason.

    Attributes:
      name: the kernel's instruction; the module's name for the whole program.
      bound_by: the roof that limits it; "" if unknown.
      exposed_s: estimated part of the time on the links that overlaps with no kernel, from times at the roof; None if unknown.
      filled: largest share of a TPU's matrix unit that its products fill; None without products, or if unknown.
      flops: of all executions in one run of the program.
      measured_s: measured time in one execution on one device; None if it was not profiled.
      share: share of the time of all kernels.
      unknown: unknown or partly known values, with the reason; "" if all are known.
    """

    name: str
    opcode: str
    link_bytes: float
    flops: float | None
    measured_s: float | None
    intensity: float | None
    bound_by: str
    least_s: float | None
    exposed_s: float | None
    filled: float | None
    share: float | None
    unknown: str


class RooflineRow(TypedDict):
    """A row of the table: a kernel, or a group of kernels.

    Attributes:
      instruction: instruction of the kernel, of the slowest one in a group.
      bound_by: the roof that limits a kernel; "" for groups.
      beside: some kernels that run during an exchange.
      share: share of the time of all kernels.
    """

    instruction: str
    bound_by: str
    beside: list[str]
    share: float | None
    source: messages.SourceLine | None
    cells: list[messages.TableCell]


class RooflineMessage(TypedDict):
    """The reply to `RooflineRequest` number `id`, or an error.

    Attributes:
      peak: the roofs; None, with the `reason`.
      can_measure: whether this machine's CPU can be measured instead.
      points: the slowest kernels, for the picture.
      columns, rows: the table, the slowest first.
      count: total number of rows in the table, including those that are not sent.
    """

    type: Literal["roofline"]
    id: int
    variant: int
    peak: RooflinePeak | None
    reason: str
    can_measure: bool
    total: RooflinePoint | None
    points: list[RooflinePoint]
    columns: list[messages.TableHead]
    rows: list[RooflineRow]
    count: int
    error: messages.Error | None


class RooflinePane(CountedPane):
    """Sends the roofline of each variant and the costs of its lines."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is measured yet."""
        super().__init__(name, context)
        self._measured: Peak | None = None
        self._recorded: dict[int, CompiledProgram] = {}
        self._with_line_costs: dict[int, int] = {}
        """The number of the profile in the costs of lines that were requested, by variant; 0 for none."""

    def reply(self, request: RooflineRequest | LineCostsRequest | headline.HeadlineRequest) -> Entry:
        """Returns the roofline, the costs of the lines of the texts, or the headline."""
        if request["type"] == "roofline":
            return self._roofline(request)
        return self._line_costs(request) if request["type"] == "line_costs" else self._headline(request)

    def recordable(
        self, variant: Variant, *, is_whole: bool
    ) -> Iterator[RooflineRequest | LineCostsRequest | headline.HeadlineRequest]:
        """Yields the requests for the headline, the kernels and the costs of lines; also for all groups if `is_whole`."""
        yield headline.HeadlineRequest(
            type="headline", variant=variant.number, is_measured=False, profile=variant.profile_count
        )
        for by in ("kernel", *get_args(GroupedBy)) if is_whole else ("kernel",):
            yield RooflineRequest(
                type="roofline", id=0, variant=variant.number, by=by, is_measured=False, profile=variant.profile_count
            )
        if self._with_line_costs.get(variant.number) != variant.profile_count:
            yield _request(variant)

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Stores the variant's buffers for the memory at the peak, and updates the costs of lines if they were requested."""
        with self.context.lock:
            if self.context.holds(variant):
                self._recorded[variant.number] = compiled
        if variant.number in self._with_line_costs:
            self.answer(_request(variant))
        return ()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's buffers as well."""
        self._recorded.pop(variant.number, None)
        self._with_line_costs.pop(variant.number, None)
        return super().forget(variant)

    def _headline(self, request: headline.HeadlineRequest) -> headline.HeadlineMessage:
        try:
            variant = self.context.variant(request["variant"])
            profile, count = variant.profile, variant.profile_count
            roofs = self._roofs(variant, request["is_measured"])
            compiled = variant.compiled_now
            found = headline_of(compiled.memory, roofs, compiled.donations(), compiled.program.device_count, profile)
            can_measure = _can_measure(roofs, variant) and can_store_peak()
            return headline.message_of(variant.number, count, found, can_measure=can_measure)
        except Exception as error:  # the Explorer shows any error
            return headline.failed(request["variant"], request["profile"], error)

    def _line_costs(self, request: LineCostsRequest) -> PackedMessage:
        try:
            variant = self.context.variant(request["variant"])
            assert variant.lowered is not None, "a compiled variant was lowered"
            profile, count = variant.profile, variant.profile_count
            self._with_line_costs[variant.number] = count
            lowered, recorded = variant.lowered, self._recorded.get(variant.number)
            roofs = self._roofs(variant, request["is_measured"])
            compiled = variant.compiled_now if recorded is None else as_compiled(recorded)
            costs = line_costs_under(lowered, roofs, variant.compiled_now, compiled.timeline(), profile)
            scopes = scope_costs(variant.compiled_now.module(), costs, roofs)
            return message_of(variant.number, count, costs, scopes, can_measure=_can_measure(roofs, variant))
        except Exception as error:  # the panes show any error
            return failed(request["variant"], request["profile"], error)

    def _roofline(self, request: RooflineRequest) -> RooflineMessage:
        reply = RooflineMessage(
            type="roofline", id=request["id"], variant=request["variant"], peak=None, reason="", can_measure=False,
            total=None, points=[], columns=[], rows=[], count=0, error=None,
        )  # fmt: skip
        try:
            variant = self.context.variant(request["variant"])
            roofs = self._roofs(variant, request["is_measured"])
            reply["peak"] = _peak(roofs)
            if isinstance(roofs.peak, Unavailable):
                reply["reason"] = roofs.peak.reason
                reply["can_measure"] = _can_measure(roofs, variant)
            reply["total"] = _point(KernelRow(roofs.total, roofs.spent_s))
            times = {} if isinstance(variant.profile, Unavailable) else variant.profile.execution_times
            kernels = [KernelRow(p, roofs.spent_s, times.get(p.name, NOT_MEASURED)) for p in roofs.points]
            reply["points"] = [_point(row) for row in kernels[:_SHOWN]]
            if request["by"] == "kernel":
                reply["count"] = len(kernels)
                without = (*_unused([row.point for row in kernels]), *(() if times else ("measured_s",)))
                reply["columns"] = heads_of(KERNEL_COLUMNS, without)
                reply["rows"] = [_kernel(row, without) for row in kernels[:_SHOWN]]
            else:
                groups = roofs.groups(request["by"])
                reply["count"] = len(groups)
                without = _unused(groups)
                reply["columns"] = heads_of(GROUP_COLUMNS, without)
                reply["columns"][0]["title"] = request["by"]
                reply["rows"] = [_group(group, without) for group in groups[:_SHOWN]]
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        return reply

    def _roofs(self, variant: Variant, is_measured: bool) -> Roofline:
        published = self.once(variant, "published", variant.compiled_now.roofline)
        if not _can_measure(published, variant):
            return published
        self._measured = self._measured or (measured_peak() if is_measured else stored_peak())
        if self._measured is None:
            return published
        return self.once(variant, "measured", lambda: variant.compiled_now.roofline(self._measured))


def _request(variant: Variant) -> LineCostsRequest:
    return LineCostsRequest(type="line_costs", variant=variant.number, is_measured=False, profile=variant.profile_count)


def _can_measure(roofs: Roofline, variant: Variant) -> bool:
    return isinstance(roofs.peak, Unavailable) and variant.compiled_now.program.platform == "cpu"


def _peak(roofs: Roofline) -> RooflinePeak | None:
    peak, flat = roofs.peak, roofs.flops_per_s
    if isinstance(peak, Unavailable):
        return None
    return RooflinePeak(
        chip=peak.chip,
        source=peak.source,
        name=str(roofs.peak_name),
        flops_per_s=None if isinstance(flat, Unavailable) else flat,
        memory_bytes_per_s=peak.memory_bytes_per_s,
        reason=flat.reason if isinstance(flat, Unavailable) else "",
    )


def _unused(rows: Sequence[Point] | Sequence[Group]) -> tuple[str, ...]:
    """Returns the columns that are empty for all rows, because the program has no collectives or no products on a TPU."""
    has_links = any(row.link_bytes > 0 for row in rows)
    has_unit = any(not isinstance(row.filled, Unavailable) for row in rows)
    return (*(() if has_links else ("link_bytes", "exposed_s")), *(() if has_unit else ("filled",)))


def _point(row: KernelRow) -> RooflinePoint:
    point = row.point
    unknown = [
        f"{what}: {value.reason}"
        for what, value in (("flops", point.flops), ("bytes", point.main_memory_bytes), ("time", point.least_s))
        if isinstance(value, (Unavailable, Partial))
    ]
    return RooflinePoint(
        name=point.name,
        opcode=point.opcode,
        link_bytes=point.link_bytes,
        flops=_known(point.flops),
        measured_s=_known(row.measured_s),
        intensity=_known(point.intensity),
        bound_by=_bound(point),
        least_s=_known(point.least_s),
        exposed_s=_known(point.exposed_s),
        filled=_known(point.filled),
        share=row.share,
        unknown="; ".join(unknown),
    )


def _kernel(row: KernelRow, without: Sequence[str]) -> RooflineRow:
    point = row.point
    return RooflineRow(
        instruction=point.name,
        bound_by=_bound(point),
        beside=[*point.beside[:_NAMED]],
        share=row.share,
        source=source_line(point.origin.frames),
        cells=cells_of(KERNEL_COLUMNS, row, without),
    )


def _bound(point: Point) -> str:
    return "" if isinstance(point.bound_by, Unavailable) else point.bound_by


def _group(group: Group, without: Sequence[str]) -> RooflineRow:
    cells = cells_of(GROUP_COLUMNS, group, without)
    line = source_line(group.frames)
    if line is not None:  # a notebook cell has another name than its file
        cells[0]["value"] = f"{line['file']}:{line['line']}"
    return RooflineRow(
        instruction=group.points[0].name,
        bound_by="",
        beside=[],
        share=_known(group.share),
        source=None,
        cells=cells,
    )


def _known(value: float | Unavailable) -> float | None:
    return None if isinstance(value, Unavailable) else float(value)
