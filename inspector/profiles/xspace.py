"""`XSpace`: the contents of a profile as columns of events.

Field numbers are those of `tsl/profiler/protobuf/xplane.proto`, which have not changed since 2020; a test compares them with
the installed jaxlib's. Times are integers in picoseconds from `XSpace.origin_ns`, because times since 1970 in picoseconds do
not fit into 64 bits.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError, ProfileError
from inspector.hlo.reading.byte_arrays import ByteRanges, Numbers, Octets
from inspector.hlo.reading.message_fields import TAIL, Fields
from inspector.profiles.stats import StatColumn, stat_columns
from inspector.profiles.wire import FIXED64, LENGTH, VARINT, events_of, fields, signed, text

MOST_BYTES = (1 << 31) - (1 << 20)
"""The largest profile that is read: positions are 32-bit integers."""

READ_FIELDS: Mapping[str, Mapping[str, int]] = {
    "XSpace": {"planes": 1, "errors": 2, "warnings": 3, "hostnames": 4},
    "XPlane": {"id": 1, "name": 2, "lines": 3, "event_metadata": 4, "stat_metadata": 5, "stats": 6},
    "XLine": {"id": 1, "name": 2, "timestamp_ns": 3, "events": 4, "display_name": 11},
    "XEvent": {"metadata_id": 1, "offset_ps": 2, "duration_ps": 3, "stats": 4, "num_occurrences": 5},
    "XStat": {
        "metadata_id": 1, "double_value": 2, "uint64_value": 3, "int64_value": 4, "str_value": 5, "bytes_value": 6,
        "ref_value": 7,
    },
    "XEventMetadata": {"id": 1, "name": 2, "display_name": 4, "stats": 5},
    "XStatMetadata": {"id": 1, "name": 2},
}  # fmt: skip
"""Numbers of the fields that are read, by message."""

Value = int | float | str | bytes


@dataclasses.dataclass(frozen=True, slots=True)
class EventKind:
    """An `XEventMetadata`: the description that events share.

    Attributes:
      id: its number in the plane; in the plane `/host:metadata`, the id of a program.
      name: name of the events.
      display_name: short name; "" if there is none.
      stats: statistics by name. Bytes are left out; see `XPlane.contents`.
    """

    id: int
    name: str
    display_name: str
    stats: Mapping[str, Value]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class XPlane:
    """A plane of a profile: a device, or the threads of a host.

    Attributes:
      name: name, such as `/device:GPU:0`.
      lines: names of its lines: streams or threads.
      kinds: descriptions of its events.
      stats: statistics of the plane by name.
      line: the index of each event's line, `[events]`.
      kind: the index of each event's description; -1 if it is missing.
      start_ps: start of each event in picoseconds from `XSpace.origin_ns`.
      duration_ps: duration of each event in picoseconds; 0 for an event that has none.
      event_stats: statistics of events by name, those in `stats.READ_STATS`.
      contents: the bytes of each description's statistics that are bytes, by index of the description and name.
    """

    name: str
    lines: tuple[str, ...]
    kinds: tuple[EventKind, ...]
    stats: Mapping[str, Value]
    line: Numbers
    kind: Numbers
    start_ps: Numbers
    duration_ps: Numbers
    event_stats: Mapping[str, StatColumn]
    contents: Mapping[tuple[int, str], bytes]

    def __len__(self) -> int:
        """Number of events."""
        return len(self.line)

    def names(self) -> list[str]:
        """Returns the name of each event; "" if its description is missing."""
        texts = [*(kind.name for kind in self.kinds), ""]
        return [texts[kind] for kind in self.kind.tolist()]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class XSpace:
    """A profile.

    Attributes:
      planes: its planes.
      hostnames: names of the hosts.
      errors, warnings: messages of the profiler.
      origin_ns: time of `start_ps` 0, in nanoseconds since 1970, or since the start of the profile.
    """

    planes: tuple[XPlane, ...]
    hostnames: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    origin_ns: int = 0

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the profile") -> XSpace:
        """Reads a serialized `XSpace`.

        Args:
          data: the contents of a `.xplane.pb` file.
          name: its name in errors.

        Raises:
          ProfileError: the bytes are not a profile, damaged, or too many.
        """
        _check_size(data, name)
        try:
            outer = list(fields(data, 0, len(data)))
            planes = [(begin, end) for number, kind, begin, end in outer if (number, kind) == (1, LENGTH)]
            drafts = [_Draft(data, begin, end) for begin, end in planes]
        except (ValueError, IndexError) as e:
            raise _not_a_profile(data, name) from e
        if not any(draft.name for draft in drafts):
            raise _not_a_profile(data, name)
        origin_ns = min((line.timestamp_ns for draft in drafts for line in draft.lines if line.timestamp_ns), default=0)
        octets = Octets([data])
        try:
            read = tuple(draft.read(octets, origin_ns) for draft in drafts)
        except ModuleError as e:
            raise ProfileError(f"{name} is damaged: an event cannot be read. Record or copy the profile again.") from e
        texts = {
            n: tuple(text(data, b, e) for number, kind, b, e in outer if (number, kind) == (n, LENGTH))
            for n in (2, 3, 4)
        }
        return cls(read, texts[4], texts[2], texts[3], origin_ns)

    def plane(self, name: str) -> XPlane | None:
        """Returns the first plane of a name; None if there is none."""
        return next((plane for plane in self.planes if plane.name == name), None)


def _check_size(data: bytes, name: str) -> None:
    if not data:
        raise ProfileError(
            f"{name} is empty (0 bytes). The process that recorded it may have ended before jax.profiler.stop_trace()."
            " Record the profile again."
        )
    if len(data) > MOST_BYTES:
        raise ProfileError(
            f"{name} has {len(data):,} bytes; at most {MOST_BYTES:,} are read. Record fewer steps, or set"
            " ProfileOptions.python_tracer_level = 0 and host_tracer_level = 1."
        )


def _not_a_profile(data: bytes, name: str) -> ProfileError:
    if data[:2] == b"\x1f\x8b":
        found = "It is compressed with gzip: trace.json.gz is for trace viewers. Expected the .xplane.pb file beside it"
    elif data[:1] in (b"{", b"["):
        found = "It is JSON, such as a trace for a trace viewer. Expected the .xplane.pb file of the same profile"
    else:
        found = f"Its {len(data):,} bytes are not an XSpace with planes, or are cut off. Expected a file that jax.profiler wrote"
    return ProfileError(
        f"{name} is not a profile that can be read. {found}. Record the profile again with jax.profiler.trace(folder)."
    )


@dataclasses.dataclass(slots=True)
class _Line:
    name: str = ""
    timestamp_ns: int = 0
    count: int = 0


class _Draft:
    """A plane whose events are not read yet."""

    def __init__(self, data: bytes, begin: int, end: int) -> None:
        """Finds the parts of a plane. Raises ValueError if the range contains none."""
        self.name = ""
        self.lines: list[_Line] = []
        self._data = data
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._stat_names: dict[int, str] = {}
        kinds, stats = list[tuple[int, int]](), list[tuple[int, int]]()
        for number, kind, at, until in fields(data, begin, end):
            if (number, kind) == (2, LENGTH):
                self.name = text(data, at, until)
            elif (number, kind) == (3, LENGTH):
                self.lines.append(self._line(at, until))
            elif (number, kind) == (4, LENGTH):
                kinds.append((at, until))
            elif (number, kind) == (5, LENGTH):
                self._add_stat_name(at, until)
            elif (number, kind) == (6, LENGTH):
                stats.append((at, until))
        self._contents: dict[tuple[int, str], bytes] = {}
        self.kinds = [self._kind(index, at, until) for index, (at, until) in enumerate(kinds)]
        self.stats = dict(self._stat(at, until) for at, until in stats)

    def read(self, octets: Octets, origin_ns: int) -> XPlane:
        """Reads the events."""
        events = Fields.at(octets, _ranges(self._begins, self._ends))
        if len(events.field(TAIL).rows):
            raise ModuleError("an event has too many fields")
        line = np.repeat(np.arange(len(self.lines)), [each.count for each in self.lines])
        starts = np.array(
            [(each.timestamp_ns - origin_ns) * 1000 if each.timestamp_ns else 0 for each in self.lines], np.int64
        )
        stats = events.field(4)
        if (stats.lengths < 0).any():
            raise ModuleError("a statistic is an integer")
        ranges = ByteRanges(stats.values, stats.lengths.astype(np.int64))
        indices = {kind.id: index for index, kind in enumerate(self.kinds)}
        return XPlane(
            name=self.name,
            lines=tuple(each.name for each in self.lines),
            kinds=tuple(self.kinds),
            stats=self.stats,
            line=line,
            kind=_looked_up(events.integers(1), indices),
            start_ps=events.integers(2) + (starts[line] if len(line) else 0),
            duration_ps=events.integers(3),
            event_stats=stat_columns(octets, ranges, stats.rows, self._stat_names, len(events)),
            contents=self._contents,
        )

    def _line(self, at: int, until: int) -> _Line:
        line, before = _Line(), len(self._begins)
        display = ""
        for number, kind, begin, end in events_of(self._data, at, until, self._begins, self._ends):
            if (number, kind) == (2, LENGTH):
                line.name = text(self._data, begin, end)
            elif (number, kind) == (11, LENGTH):
                display = text(self._data, begin, end)
            elif (number, kind) == (3, VARINT):
                line.timestamp_ns = signed(begin)
        line.name = line.name or display
        line.count = len(self._begins) - before
        return line

    def _add_stat_name(self, at: int, until: int) -> None:
        key, name = 0, ""
        for number, kind, begin, end in fields(self._data, at, until):
            if (number, kind) == (1, VARINT):
                key = signed(begin)
            elif (number, kind) == (2, LENGTH):
                names = [(b, e) for n, k, b, e in fields(self._data, begin, end) if (n, k) == (2, LENGTH)]
                name = text(self._data, *names[-1]) if names else ""
        self._stat_names[key] = name

    def _kind(self, index: int, at: int, until: int) -> EventKind:
        key, name, display, stats = 0, "", "", list[tuple[int, int]]()
        for number, kind, begin, end in fields(self._data, at, until):
            if (number, kind) == (1, VARINT):
                key = signed(begin)
            elif (number, kind) == (2, LENGTH):
                for inner, wire, b, e in fields(self._data, begin, end):
                    if (inner, wire) == (2, LENGTH):
                        name = text(self._data, b, e)
                    elif (inner, wire) == (4, LENGTH):
                        display = text(self._data, b, e)
                    elif (inner, wire) == (5, LENGTH):
                        stats.append((b, e))
        values = dict(self._stat(b, e) for b, e in stats)
        for stat, value in values.items():
            if isinstance(value, bytes):
                self._contents[index, stat] = value
        return EventKind(
            key, name, display, {stat: value for stat, value in values.items() if not isinstance(value, bytes)}
        )

    def _stat(self, at: int, until: int) -> tuple[str, Value]:
        key = 0
        value: Value = 0
        for number, kind, begin, end in fields(self._data, at, until):
            if (number, kind) == (1, VARINT):
                key = signed(begin)
            elif (number, kind) == (2, FIXED64):
                value = struct.unpack("<d", self._data[begin:end])[0]
            elif kind == VARINT and number in (3, 4):
                value = signed(begin) if number == 4 else begin
            elif (number, kind) == (5, LENGTH):
                value = text(self._data, begin, end)
            elif (number, kind) == (6, LENGTH):
                value = self._data[begin:end]
            elif (number, kind) == (7, VARINT):
                value = self._stat_names.get(begin, "")
        return self._stat_names.get(key, str(key)), value


def _ranges(begins: list[int], ends: list[int]) -> ByteRanges:
    starts = np.array(begins, np.int64)
    return ByteRanges(starts, np.array(ends, np.int64) - starts)


def _looked_up(ids: Numbers, indices: Mapping[int, int]) -> npt.NDArray[np.int64]:
    """Returns the index of each id; -1 for an unknown one."""
    distinct, codes = np.unique(ids, return_inverse=True)
    found = np.array([indices.get(each, -1) for each in distinct.tolist()], np.int64)
    return found[codes] if len(found) else np.zeros(0, np.int64)
