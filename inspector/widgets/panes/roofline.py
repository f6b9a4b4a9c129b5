"""The Roofline pane: each kernel of a variant under the roofs of its chip, and the kernels grouped by a property."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypedDict, get_args

from inspector.analysis.cost.peaks import measured_peak
from inspector.analysis.cost.roofline import Roofline as Roofs
from inspector.analysis.cost.roofline_groups import Group, GroupedBy
from inspector.analysis.cost.roofline_point import Point
from inspector.compilation.compiled import CompiledProgram
from inspector.errors import Partial, Unavailable
from inspector.platforms import Peak
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import line_costs_under
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.panes.framework.counted import CountedPane
from inspector.widgets.panes.framework.pane import Context, Entry, PackedMessage
from inspector.widgets.panes.line_costs import LineCostsRequest, failed, message_of
from inspector.widgets.variants import Variant

# More than a user reads or distinguishes in a picture.
_SHOWN = 400
_NAMED = 12  # listed kernels that overlap with an exchange


class RooflineRequest(TypedDict):
    """Requests the roofline of a variant. `id` numbers the request; late replies are dropped.

    Attributes:
      by: rows of the table: kernels, or kernels grouped by a property.
      is_measured: whether to measure the roofs of this machine's CPU if none are published.
    """

    type: Literal["roofline"]
    id: int
    variant: int
    by: Literal["kernel", "scope", "line", "phase", "opcode", "roof"]
    is_measured: bool


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


class RooflineRow(TypedDict):
    """A kernel, a group of kernels, or all kernels; values are None where `unknown` has the reason.

    Attributes:
      name: the kernel's instruction, or the property that the kernels share; None if unknown.
      instruction: instruction of the kernel, of the slowest one in a group; the module's name for the whole program.
      kernels: number of kernels.
      bound_by: the roof that limits it; "" for groups.
      exposed_s: estimated part of the time on the links that overlaps with no kernel, from times at the roof; None if unknown.
      beside: some kernels that run during an exchange.
      filled: largest share of a TPU's matrix unit that its products fill; None without products, or if unknown.
      share: share of the time of all kernels.
      unknown: unknown or partly known values, with the reason; "" if all are known.
    """

    name: str | None
    instruction: str
    opcode: str
    kernels: int
    flops: float | None
    main_memory_bytes: float | None
    link_bytes: float
    intensity: float | None
    bound_by: str
    least_s: float | None
    exposed_s: float | None
    beside: list[str]
    filled: float | None
    share: float | None
    source: messages.SourceLine | None
    unknown: str


class Roofline(TypedDict):
    """The reply to `RooflineRequest` number `id`, or an error.

    Attributes:
      peak: the roofs; None, with the `reason`.
      can_measure: whether this machine's CPU can be measured instead.
      points: the slowest kernels, for the picture and the table of kernels.
      rows: rows of a table of groups, the slowest first.
      count: total number of rows in the table, including those that are not sent.
    """

    type: Literal["roofline"]
    id: int
    variant: int
    peak: RooflinePeak | None
    reason: str
    can_measure: bool
    total: RooflineRow | None
    points: list[RooflineRow]
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
        self._has_line_costs: set[int] = set()

    def reply(self, request: RooflineRequest | LineCostsRequest) -> Roofline | PackedMessage:
        """Returns the roofline, or the costs of the lines of the texts."""
        return self._roofline(request) if request["type"] == "roofline" else self._line_costs(request)

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[RooflineRequest | LineCostsRequest]:
        """Yields the requests for the kernels and the costs of lines; also for all groups if `is_whole`."""
        for by in ("kernel", *get_args(GroupedBy)) if is_whole else ("kernel",):
            yield RooflineRequest(type="roofline", id=0, variant=variant.number, by=by, is_measured=False)
        if variant.number not in self._has_line_costs:
            yield LineCostsRequest(type="line_costs", variant=variant.number, is_measured=False)

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Stores the variant's buffers for the memory at the peak, and updates the costs of lines if they were requested."""
        with self.context.lock:
            if self.context.holds(variant):
                self._recorded[variant.number] = compiled
        if variant.number in self._has_line_costs:
            self.answer(LineCostsRequest(type="line_costs", variant=variant.number, is_measured=False))
        return ()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's buffers as well."""
        self._recorded.pop(variant.number, None)
        self._has_line_costs.discard(variant.number)
        return super().forget(variant)

    def _line_costs(self, request: LineCostsRequest) -> PackedMessage:
        try:
            variant = self.context.variant(request["variant"])
            assert variant.lowered is not None, "a compiled variant was lowered"
            self._has_line_costs.add(variant.number)
            lowered, recorded = variant.lowered, self._recorded.get(variant.number)
            roofs = self._roofs(variant, request["is_measured"] or self._measured is not None)
            compiled = variant.compiled_now if recorded is None else as_compiled(recorded)
            costs = line_costs_under(lowered, roofs, variant.compiled_now, compiled.timeline())
            return message_of(variant.number, costs, can_measure=_can_measure(roofs, variant))
        except Exception as error:  # the panes show any error
            return failed(request["variant"], error)

    def _roofline(self, request: RooflineRequest) -> Roofline:
        reply = Roofline(
            type="roofline", id=request["id"], variant=request["variant"], peak=None, reason="", can_measure=False,
            total=None, points=[], rows=[], count=0, error=None,
        )  # fmt: skip
        try:
            variant = self.context.variant(request["variant"])
            roofs = self._roofs(variant, request["is_measured"])
            reply["peak"] = _peak(roofs)
            if isinstance(roofs.peak, Unavailable):
                reply["reason"] = roofs.peak.reason
                reply["can_measure"] = _can_measure(roofs, variant)
            spent = _spent(roofs.points)
            reply["total"] = _row_of(roofs.total, spent)
            reply["points"] = [_row_of(point, spent) for point in roofs.points[:_SHOWN]]
            reply["count"] = len(roofs.points)
            if request["by"] != "kernel":
                groups = roofs.groups(request["by"])
                reply["rows"] = [_row_of_group(group) for group in groups[:_SHOWN]]
                reply["count"] = len(groups)
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        return reply

    def _roofs(self, variant: Variant, is_measured: bool) -> Roofs:
        published = self.once(variant, "published", variant.compiled_now.roofline)
        if not is_measured or not _can_measure(published, variant):
            return published
        self._measured = self._measured or measured_peak()
        return self.once(variant, "measured", lambda: variant.compiled_now.roofline(self._measured))


def _can_measure(roofs: Roofs, variant: Variant) -> bool:
    return isinstance(roofs.peak, Unavailable) and variant.compiled_now.program.platform == "cpu"


def _peak(roofs: Roofs) -> RooflinePeak | None:
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


def _spent(points: Sequence[Point]) -> float:
    return sum(float(p.least_s) for p in points if not isinstance(p.least_s, Unavailable))


def _row_of(point: Point, spent: float) -> RooflineRow:
    least = _known(point.least_s)
    unknown = [
        f"{what}: {value.reason}"
        for what, value in (("flops", point.flops), ("bytes", point.main_memory_bytes), ("time", point.least_s))
        if isinstance(value, (Unavailable, Partial))
    ]
    return RooflineRow(
        name=point.name,
        instruction=point.name,
        opcode=point.opcode,
        kernels=1,
        flops=_known(point.flops),
        main_memory_bytes=_known(point.main_memory_bytes),
        link_bytes=point.link_bytes,
        intensity=_known(point.intensity),
        bound_by="" if isinstance(point.bound_by, Unavailable) else point.bound_by,
        least_s=least,
        exposed_s=_known(point.exposed_s),
        beside=[*point.beside[:_NAMED]],
        filled=_known(point.filled),
        share=least / spent if least is not None and spent else None,
        source=source_line(point.origin.frames),
        unknown="; ".join(unknown),
    )


def _row_of_group(group: Group) -> RooflineRow:
    slowest = group.points[0]
    opcodes = {point.opcode for point in group.points}
    doubts = [value.reason for value in (group.least_s, group.flops) if isinstance(value, (Unavailable, Partial))]
    line = source_line(group.frames)
    source = None if line is None else messages.SourceLine(file=line["file"], line=line["line"], library="")
    return RooflineRow(
        name=f"{source['file']}:{source['line']}" if source else group.name,
        instruction=slowest.name,
        opcode=slowest.opcode if len(opcodes) == 1 else "",
        kernels=len(group.points),
        flops=_known(group.flops),
        main_memory_bytes=_known(group.main_memory_bytes),
        link_bytes=group.link_bytes,
        intensity=_known(group.intensity),
        bound_by="",
        least_s=_known(group.least_s),
        exposed_s=_known(group.exposed_s),
        beside=[],
        filled=_known(group.filled),
        share=_known(group.share),
        source=source,
        unknown=doubts[0] if doubts else "",
    )


def _known(value: float | Unavailable) -> float | None:
    return None if isinstance(value, Unavailable) else float(value)
