"""`Headline`: memory, time, most expensive part and unused donations of a compiled program in one sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from inspector.analysis.cost.scopes import scope_of
from inspector.analysis.memory.donations import Donations
from inspector.compilation.memory import Memory
from inspector.errors import Partial, Unavailable
from inspector.hlo.source import Frame, line_text, own_frame
from inspector.support.notebook import described
from inspector.support.units import counted, format_bytes, format_seconds

if TYPE_CHECKING:
    from inspector.analysis.cost.roofline import Roofline
    from inspector.analysis.profile.profile import Profile

Subject = Literal["memory", "time", "place", "communication", "donations"]
"""The subjects of a headline's parts; "place" is the scope or line that takes most of the time."""

_LEAST_SHARE = 0.01
"""Smallest share of the peak, or of the time, that is mentioned."""


@dataclasses.dataclass(frozen=True, slots=True)
class HeadlinePart:
    """One fact of a headline.

    Attributes:
      subject: its subject.
      text: the fact.
      details: its source, and what is unknown about it.
      instruction: the instruction that shows it best; "" if there is none.
      frame: the line that it is about; None if it is not about a line.
    """

    subject: Subject
    text: str
    details: str = ""
    instruction: str = ""
    frame: Frame | None = None


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Headline:
    """The most important facts about a compiled program. `str` joins them to one line."""

    parts: tuple[HeadlinePart, ...]

    def __iter__(self) -> Iterator[HeadlinePart]:
        return iter(self.parts)

    def __str__(self) -> str:
        return " · ".join(part.text for part in self.parts)

    def __repr__(self) -> str:
        return f"<Headline: {self}>"

    def _repr_html_(self) -> str:
        return described(repr(self), {part.subject: part.details for part in self.parts if part.details})


def headline(
    memory: Memory | Unavailable,
    roofline: Roofline,
    donations: Donations,
    device_count: int,
    profile: Profile | Unavailable,
) -> Headline:
    """Returns the headline of a program.

    Args:
      memory: the memory of one device.
      roofline: its estimated times.
      donations: its arguments.
      device_count: number of devices that run it.
      profile: measured times, which replace the estimated ones; Unavailable if it was not profiled.
    """
    parts = (
        _memory(memory, device_count),
        *(_estimated(roofline) if isinstance(profile, Unavailable) else _measured(profile)),
        _donations(donations),
    )
    return Headline(tuple(part for part in parts if part is not None))


def _memory(memory: Memory | Unavailable, device_count: int) -> HeadlinePart | None:
    if isinstance(memory, Unavailable) or not memory.peak_bytes:
        return None
    amounts = {
        "arguments": memory.argument_bytes,
        "outputs": memory.output_bytes - memory.alias_bytes,
        "constants": 0 if isinstance(memory.constant_bytes, Unavailable) else memory.constant_bytes,
        "temporaries": memory.temp_bytes,
    }
    peak = memory.peak_bytes
    shown = {name: size for name, size in amounts.items() if size >= _LEAST_SHARE * peak}
    word = f"{peak.word} " if isinstance(peak, Partial) else ""
    text = f"{word}{format_bytes(float(peak))} peak" + (" per device" if device_count > 1 else "")
    if len(shown) > 1:
        sizes = {name: format_bytes(size) for name, size in shown.items()}
        unit = format_bytes(float(peak)).rpartition(" ")[2]
        if all(size.endswith(f" {unit}") for size in sizes.values()):  # an omitted unit is that of the peak
            sizes = {name: size.removesuffix(f" {unit}") for name, size in sizes.items()}
        text += ": " + " + ".join(f"{size} {name}" for name, size in sizes.items())
    else:
        text += "".join(f", all {name}" for name in shown)
    unknown = f" {peak.reason}." if isinstance(peak, Partial) else ""
    return HeadlinePart("memory", text, f"{memory.main}, by {memory.source}.{unknown}")


def _estimated(roofline: Roofline) -> Iterator[HeadlinePart]:
    total = roofline.total
    if isinstance(total.least_s, Unavailable) or isinstance(roofline.peak, Unavailable):
        return
    seconds = float(total.least_s)
    bound = "" if isinstance(total.bound_by, Unavailable) or not seconds else f", bound by {total.bound_by}"
    unknown = f" {total.least_s.reason}." if isinstance(total.least_s, Partial) else ""
    source = f"Estimated from the roofs of {roofline.peak.chip} ({roofline.peak.source}).{unknown}"
    slowest = roofline.points[0].name if roofline.points else ""
    yield HeadlinePart("time", f"about {format_seconds(seconds)}{bound}", source, slowest)
    yield from _place(
        _Group.estimated(roofline, "scope"), _Group.estimated(roofline, "line"), "of the estimated times of all kernels"
    )
    exposed = 0.0 if isinstance(total.exposed_s, Unavailable) else float(total.exposed_s)
    if seconds and exposed > _LEAST_SHARE * seconds:
        details = "Estimated time on the links that no kernel hides."
        yield HeadlinePart("communication", f"{100 * exposed / seconds:.0f} % waits for other devices", details)


def _measured(profile: Profile) -> Iterator[HeadlinePart]:
    if isinstance(profile.wall, Unavailable):
        busy, runs = max(profile.busy_s, default=0.0), profile.executions
        if not isinstance(runs, Unavailable) and runs and busy:
            yield HeadlinePart("time", f"{format_seconds(busy / runs)} measured", f"{profile.heading}.")
    else:
        yield HeadlinePart("time", f"{format_seconds(profile.wall.median_s)} measured", f"{profile.heading}.")
    yield from _place(_Group.measured(profile, "scope"), _Group.measured(profile, "line"), "of the measured time")


class _Group(NamedTuple):
    """Kernels of a scope or line, with their share of the time and the slowest instruction."""

    name: str
    share: float
    slowest: str
    frames: tuple[Frame, ...]

    @classmethod
    def estimated(cls, roofline: Roofline, by: Literal["scope", "line"]) -> list[_Group]:
        return [
            cls(group.name or "", float(group.share), group.points[0].name, group.frames)
            for group in roofline.groups(by)
            if not isinstance(group.share, Unavailable)
        ]

    @classmethod
    def measured(cls, profile: Profile, by: Literal["scope", "line"]) -> list[_Group]:
        return [cls(g.name or "", g.share, g.rows[0].name, g.frames) for g in profile.groups(by)]


def _place(scopes: Sequence[_Group], lines: Sequence[_Group], whole: str) -> Iterator[HeadlinePart]:
    """Yields the scope that takes most of the time, or the line if most of the time has no scope.

    Scopes are summed by their innermost name, because the layers of a model have equal ones.
    """
    shares, slowest = dict[str, float](), dict[str, str]()
    for group in scopes:
        innermost = next(reversed(scope_of(f"{group.name}/op").path), "")
        shares[innermost] = shares.get(innermost, 0.0) + group.share
        slowest.setdefault(innermost, group.slowest)
    scope = max(shares, key=lambda each: shares[each], default="")
    if scope and shares[scope] >= _LEAST_SHARE:
        text = f"{100 * shares[scope]:.0f} % in {scope}"
        yield HeadlinePart("place", text, f"The scope's share {whole}.", slowest[scope])
        return
    line = max(lines, key=lambda group: group.share, default=None)
    frame = own_frame(line.frames) if line else None
    if line is not None and frame is not None and line.share >= _LEAST_SHARE:
        text = f"{100 * line.share:.0f} % at {line_text(line.frames, is_short=True)}"
        yield HeadlinePart("place", text, f"The line's share {whole}.", line.slowest, frame)


def _donations(donations: Donations) -> HeadlinePart | None:
    unused = donations.unused
    if not unused:
        return None
    size = sum(each.byte_size for each in unused)
    text = f"{counted(len(unused), 'donated array')} not reused" + (f" ({format_bytes(size)})" if size else "")
    details = "; ".join(f"{each.argument}: {each.reason}" for each in unused[:5])
    return HeadlinePart("donations", text, f"{details}.")
