"""Profiles against protobuf's own reading and against `jax.profiler.ProfileData`, and files that are none."""

from __future__ import annotations

import contextlib
import gzip
import itertools
from typing import Any

import numpy as np
import pytest
from jax.profiler import ProfileData

from inspector.errors import ModuleError, ProfileError
from inspector.hlo.module import Module
from inspector.profiles import xspace
from inspector.profiles.programs import recorded_programs
from inspector.profiles.stats import READ_STATS
from inspector.profiles.xspace import READ_FIELDS, XSpace
from inspector.toolchain.schema import installed_schema
from tests import xspaces

PROFILES = [*xspaces.NAMES, "cpu"]


@pytest.fixture(scope="module")
def cpu() -> bytes:
    return xspaces.on_cpu()


@pytest.fixture(params=PROFILES)
def data(request: pytest.FixtureRequest, cpu: bytes) -> bytes:
    return cpu if request.param == "cpu" else xspaces.recorded(request.param)


def test_events_are_those_of_profile_data(data: bytes) -> None:
    space, theirs = XSpace.from_bytes(data), ProfileData.from_serialized_xspace(data)
    planes = list(theirs.planes)
    assert [plane.name for plane in space.planes] == [plane.name for plane in planes]
    checked = 0
    for ours, plane in zip(space.planes, planes, strict=True):
        names = ours.names()
        lines = list(plane.lines)
        assert list(ours.lines) == [line.name for line in lines]
        for number, line in enumerate(lines):
            rows = np.flatnonzero(ours.line == number)
            events = list(line.events)
            assert [names[row] for row in rows] == [event.name for event in events]
            starts = space.origin_ns + ours.start_ps[rows] / 1000
            np.testing.assert_allclose(starts, [event.start_ns for event in events], rtol=0, atol=1)
            np.testing.assert_allclose(
                ours.duration_ps[rows] / 1000, [event.duration_ns for event in events], rtol=0, atol=1
            )
            checked += len(events)
    assert checked > 100


def test_statistics_are_those_of_protobuf(data: bytes) -> None:
    checked = 0
    for ours, plane in zip(XSpace.from_bytes(data).planes, xspaces.message(data).planes, strict=True):
        names = {key: each.name for key, each in plane.stat_metadata.items()}
        for row, event in enumerate(itertools.chain.from_iterable(line.events for line in plane.lines)):
            expected: dict[str, Any] = {}
            for stat in event.stats:
                name = names[stat.metadata_id]
                which = stat.WhichOneof("value")
                value = names[stat.ref_value] if which == "ref_value" else getattr(stat, which)
                if name in READ_STATS:
                    expected.setdefault(name, value)
            found: dict[str, Any] = {}
            for name, column in ours.event_stats.items():
                if column.codes[row] >= 0:
                    found[name] = column.texts[column.codes[row]]
                elif column.has_number[row]:
                    found[name] = int(column.numbers[row])
            assert found == expected
            checked += len(found)
        assert {kind.id: kind.name for kind in ours.kinds} == {k: each.name for k, each in plane.event_metadata.items()}
    assert checked > 100


def test_programs_have_their_modules_and_buffers(data: bytes) -> None:
    space = XSpace.from_bytes(data)
    programs = recorded_programs(space)
    ids = {n for plane in space.planes if "program_id" in plane.event_stats for n in _numbers(plane, "program_id")}
    assert ids
    assert ids <= {program.id for program in programs}
    for program in programs:
        module = Module.from_proto(program.hlo_proto)
        assert module.name == program.name
        proto = installed_schema().message("xla.HloProto").FromString(program.hlo_proto)
        assert proto.buffer_assignment.buffer_allocations  # type: ignore[attr-defined]


def _numbers(plane: Any, name: str) -> set[int]:
    numbers, known = plane.event_stats[name].integers()
    return set(numbers[known].tolist())


@pytest.mark.parametrize("message", READ_FIELDS)
def test_field_numbers_are_those_of_jaxlib(message: str) -> None:
    fields = installed_schema().message(f"tensorflow.profiler.{message}").DESCRIPTOR.fields_by_name
    assert READ_FIELDS[message] == {name: fields[name].number for name in READ_FIELDS[message]}


def test_unusual_events() -> None:
    space = xspaces.message()
    space.hostnames.append("a")
    space.warnings.append("dropped 3 events")
    plane = xspaces.Plane(space, "/device:GPU:0")
    late, early = plane.line("late", 1_700_000_000_000_000_002), plane.line("early", 1_700_000_000_000_000_000)
    plane.event(late, "a", 5, 7, program_id=-3, hlo_op="x", run_id="12")
    plane.event(early, "b", 300, 1 << 40, program_id=(1 << 64) - 1, hlo_op="y", by_ref=False)
    early.events.add(metadata_id=99, offset_ps=-1, duration_ps=0)  # without a description, before its line
    many = plane.event(early, "c", 2, 1)
    for _ in range(100):
        plane.stat(many, "other", 1.5)
    plane.stat(many, "run_id", 4)
    plane.stat(many, "run_id", 5)
    plane.line("empty")
    read = XSpace.from_bytes(space.SerializeToString())
    ours = read.planes[0]
    assert (read.hostnames, read.warnings, read.origin_ns) == (("a",), ("dropped 3 events",), 1_700_000_000_000_000_000)
    assert ours.lines == ("late", "early", "empty")
    assert ours.names() == ["a", "b", "", "c"]
    assert ours.start_ps.tolist() == [2005, 300, -1, 2]
    assert ours.duration_ps.tolist() == [7, 1 << 40, 0, 1]
    numbers, known = ours.event_stats["program_id"].integers()
    assert (numbers[known].tolist(), known.tolist()) == ([-3, -1], [True, True, False, False])
    numbers, known = ours.event_stats["run_id"].integers()
    assert (numbers[known].tolist(), known.tolist()) == ([12, 4], [True, False, False, True])
    operation = ours.event_stats["hlo_op"]
    assert [operation.texts[code] for code in operation.codes[:2]] == ["x", "y"]
    assert "other" not in ours.event_stats


def test_an_event_of_very_many_fields_is_refused() -> None:
    space = xspaces.message()
    plane = xspaces.Plane(space, "/host:CPU")
    event = plane.event(plane.line("t"), "a", 0, 1)
    for _ in range(200):
        plane.stat(event, "other", 1)
    with pytest.raises(ProfileError, match="damaged"):
        XSpace.from_bytes(space.SerializeToString())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", r"is empty \(0 bytes\).*stop_trace"),
        (gzip.compress(b"{}", mtime=0), "gzip.*xplane.pb"),
        (b'{"traceEvents": []}', "JSON.*xplane.pb"),
        (b"HloModule f\n\nENTRY main {}", "are not an XSpace"),
        (bytes(1000), "are not an XSpace"),
        (b"\xff" * 100, "are not an XSpace"),
        (b"\x12\x05abcde", "are not an XSpace"),  # errors only, no planes
    ],
)
def test_foreign_files_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(ProfileError, match=f"(?s)^'x.pb'.*{words}") as caught:
        XSpace.from_bytes(data, "'x.pb'")
    assert isinstance(caught.value, ModuleError)


def test_a_module_is_no_profile(cpu: bytes) -> None:
    program = recorded_programs(XSpace.from_bytes(cpu))[0]
    with pytest.raises(ProfileError):
        XSpace.from_bytes(program.hlo_proto)


def test_a_huge_profile_is_refused(cpu: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xspace, "MOST_BYTES", 1000)
    with pytest.raises(ProfileError, match=r"at most 1,000 are read. Record fewer steps"):
        XSpace.from_bytes(cpu)


def test_damaged_profiles_are_refused_or_read(cpu: bytes) -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for length in range(0, len(cpu), len(cpu) // 150):
        try:
            XSpace.from_bytes(cpu[:length])
        except ProfileError:
            refused += 1
    assert refused > 140  # the others end after a plane
    for _ in range(150):
        damaged = bytearray(cpu)
        for place in rng.integers(0, len(cpu), 3).tolist():
            damaged[place] = int(rng.integers(256))
        with contextlib.suppress(ProfileError):  # any other error fails the test
            recorded_programs(XSpace.from_bytes(bytes(damaged)))
