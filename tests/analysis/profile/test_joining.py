"""Profiles joined to instructions: real accelerators, this CPU, and written ones, with sums of the trace."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.profiler import ProfileData

from inspector.analysis.cost.attribution import Part
from inspector.analysis.cost.roofline import roofline
from inspector.analysis.profile.dependents import elapsed_until_read_ps
from inspector.analysis.profile.device_events import NO_PROGRAM, device_events
from inspector.analysis.profile.joining import join, rest
from inspector.analysis.profile.profile import Profile
from inspector.analysis.profile.rows import ProfileRow
from inspector.compilation.cost import costs
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.module import Module
from inspector.hlo.reading.single_instructions import singles
from inspector.hlo.source import Frame, Origin
from inspector.profiles.programs import recorded_programs
from inspector.profiles.xspace import XSpace
from tests import xspaces

UNKNOWN = Unavailable("not counted")


def points_of(module: Module) -> dict[str, Any]:
    counted = costs(module, singles(module), UNKNOWN)
    return {point.name: point for point in roofline(module, counted, UNKNOWN).points}


def profiles(space: XSpace, **keywords: Any) -> dict[str, Profile]:
    """The profile of each program that ran."""
    events = device_events([("", space)])
    found = {}
    for program in recorded_programs(space):
        if (events.program == program.id).any():
            module = Module.from_proto(program.hlo_proto)
            found[module.name] = join(events, module, program.id, points_of(module), **keywords)
    return found


@pytest.mark.parametrize("name_of_file", xspaces.NAMES)
def test_every_kernel_of_an_accelerator_joins_and_sums_are_the_traces(name_of_file: str) -> None:
    data = xspaces.recorded(name_of_file)
    space = XSpace.from_bytes(data)
    named, others = collections.defaultdict[tuple[str, str], float](float), 0.0
    for plane in xspaces.message(data).planes:  # reading statistics through ProfileData makes jaxlib 0.12 abort
        names = {key: each.name for key, each in plane.stat_metadata.items()}
        for event in (event for line in plane.lines for event in line.events if plane.name.startswith("/device:GPU")):
            operations = [stat for stat in event.stats if names[stat.metadata_id] == "hlo_op"]
            seconds = event.duration_ps * 1e-12
            if not operations:
                others += seconds
            for stat in operations:
                name = names[stat.ref_value] if stat.ref_value else stat.str_value
                named[plane.name.removeprefix("/device:"), name] += seconds
    planes = [p for p in ProfileData.from_serialized_xspace(data).planes if p.name.startswith("/device:GPU")]
    durations = [event.duration_ns for plane in planes for line in plane.lines for event in line.events]
    assert sum(durations) * 1e-9 == pytest.approx(sum(named.values()) + others)
    rows = [row for profile in profiles(space).values() for row in profile.rows]
    assert {(row.device, row.name) for row in rows} == set(named)
    assert all(row.opcode and row.computation for row in rows), "every kernel with hlo_op joins"
    for row in rows:
        assert row.total_s == pytest.approx(named[row.device, row.name], rel=1e-12)
    left = rest(device_events([("", space)]), [program.id for program in recorded_programs(space)])
    assert sum(row.total_s for row in left) == pytest.approx(others)
    assert sum(row.total_s for row in rows) == pytest.approx(sum(named.values()))


def test_copies_of_the_runtime_are_rows_with_their_names() -> None:
    space = XSpace.from_bytes(xspaces.recorded("mi300x_conv3d_8gpu"))
    events = device_events([("", space)])
    left = rest(events, [15])
    assert (left[0].name, left[0].opcode, left[0].device) == ("__amd_rocclr_copyBuffer.kd", "", "GPU:0")
    assert left[0].calls == 35
    (profile,) = profiles(space, with_rest=True).values()
    assert profile.other_s == pytest.approx(sum(row.total_s for row in left))
    assert profile.by("opcode").set_index("name").loc["no instruction", "total_s"] == pytest.approx(profile.other_s)
    assert any("belongs to no instruction" in note for note in profile.notes)
    assert profile.executions == 5, "although the profile begins within the first one on GPU:0"


def test_an_attention_block_on_an_accelerator() -> None:
    (profile,) = profiles(XSpace.from_bytes(xspaces.recorded("mi300x_fused_attention"))).values()
    assert (profile.program, profile.devices, profile.executions) == ("jit_loss_fn", ("GPU:0",), 5)
    table = profile.table()
    assert table["name"][0] == "te_fused_attn_backward_ffi.18"
    assert table["share"].sum() == pytest.approx(1)
    assert (table["calls"].sum(), table["opcode"].isna().sum()) == (150, 0)
    assert table["run_s"][0] * 5 == pytest.approx(table["total_s"][0], rel=0.1)
    assert set(profile.by("phase")["name"].dropna()) >= {"forward", "backward"}
    for by in ("line", "scope", "phase", "opcode", "kernel"):
        sums = profile.by(by)
        assert sums["total_s"].sum() == pytest.approx(profile.total_s)
        assert sums["total_s"].is_monotonic_decreasing
    assert pickle.loads(pickle.dumps(profile)) == profile
    assert "most in te_fused_attn_backward_ffi.18 (19 %)" in repr(profile)
    assert "te_fused_attn" in profile._repr_html_()
    assert profile.plot().get_size_inches()[1] > 2
    with pytest.raises(ParameterError, match="expected one of line, scope"):
        profile.by("name")  # type: ignore[arg-type]


def thunks(data: bytes) -> list[tuple[str, float, float, float]]:
    """Name, start and end of the event, and its mark `end: NAME`, in seconds, of each thunk, by protobuf's own reading."""
    started, ended, order = {}, {}, []
    for plane in xspaces.message(data).planes:
        names = {key: each.name for key, each in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                stats = {names[stat.metadata_id]: stat for stat in event.stats}
                start = line.timestamp_ns * 1e-9 + event.offset_ps * 1e-12
                name = plane.event_metadata[event.metadata_id].name
                if "hlo_op" in stats:
                    key = stats["_p"].uint64_value or stats["_p"].int64_value
                    started[key] = name, start, start + event.duration_ps * 1e-12
                    order.append(key)
                elif name.startswith("end: "):
                    ended[stats["_c"].uint64_value or stats["_c"].int64_value] = start
    return [(*started[k], max(started[k][2], ended.get(k, 0.0))) for k in order]


@pytest.fixture(scope="module")
def on_cpu() -> tuple[bytes, Profile]:
    data = xspaces.on_cpu(repeat=3)
    (profile,) = profiles(XSpace.from_bytes(data)).values()
    return data, profile


def test_a_cpus_kernels_take_the_time_until_their_work_ends(on_cpu: tuple[bytes, Profile]) -> None:
    data, profile = on_cpu
    least, most = collections.Counter[str](), collections.Counter[str]()
    for name, start, returned, mark in thunks(data):
        least[name] += returned - start  # type: ignore[assignment]
        most[name] += mark - start  # type: ignore[assignment]
    rows = {row.name: row for row in profile.rows}
    assert set(rows) == set(least)
    for name, row in rows.items():
        if row.opcode != "while":
            assert least[name] - 1e-9 <= row.total_s <= most[name] + 1e-9


def branches(x: jax.Array, w: jax.Array) -> jax.Array:
    for _ in range(6):
        x = jnp.tanh(jnp.sort(x, -1) @ w) + jnp.sin(x) @ w.T
    return jax.nn.softmax(x, -1)


@pytest.mark.parametrize("fun", [xspaces.looped, branches])
def test_no_kernel_ends_after_the_start_of_a_kernel_that_reads_it(fun: Callable[..., Any]) -> None:
    inputs = xspaces.arrays(256)
    for _ in range(4):
        space = XSpace.from_bytes(xspaces.on_cpu(repeat=3, fun=fun, inputs=inputs))
        events = device_events([("", space)])
        program = next(each for each in recorded_programs(space) if f"jit_{fun.__name__}" in each.name)
        module = Module.from_proto(program.hlo_proto)
        kernels = {name: module.instruction(name) for name in events.texts if name in module.columns.names}
        kernels = {name: kernel for name, kernel in kernels.items() if kernel.opcode != "while"}
        until_read = elapsed_until_read_ps(events, kernels)
        assert (until_read <= events.elapsed_ps).all()
        assert (events.elapsed_ps - until_read).sum() < 0.05 * until_read.sum(), ()
        spans = collections.defaultdict[str, list[tuple[int, int]]](list)
        for event in np.argsort(events.start_ps).tolist():
            start = int(events.start_ps[event])
            spans[events.texts[events.name[event]]].append((start, start + int(until_read[event])))
        for name, kernel in kernels.items():
            for user in kernel.users:
                if len(spans[name]) == len(spans[user.name]):
                    for (_, end), (start, _) in zip(spans[name], spans[user.name], strict=True):
                        assert end <= start, (name, user.name)


def test_a_loop_counts_its_body_once(on_cpu: tuple[bytes, Profile]) -> None:
    data, profile = on_cpu
    loop = next(row for row in profile.rows if row.opcode == "while")
    whole = [(start, end) for name, start, _, end in thunks(data) if name == loop.name]
    others = [each for each in thunks(data) if each[0] != loop.name]
    returned, marked = ([(each[1], each[at]) for each in others] for at in (2, 3))

    def free(spans: list[tuple[float, float]]) -> float:
        """Time of the loop in which none of them ran."""
        covered = (_union_s([(max(s, a), min(e, b)) for s, e in spans if s < b and e > a]) for a, b in whole)
        return sum(b - a for a, b in whole) - sum(covered)

    assert free(marked) - 1e-8 <= loop.total_s <= free(returned) + 1e-8
    assert free(returned) < 0.99 * sum(b - a for a, b in whole), "so a loop that counted its body would be found"
    assert loop.calls == 3
    in_loop = [row for row in profile.rows if row.computation != loop.computation]
    assert in_loop
    assert all(row.calls % 21 == 0 for row in in_loop), "seven iterations in each of three executions"
    assert all(row.mean_s == pytest.approx(row.total_s / row.calls) for row in in_loop)
    assert any("step" in (row.scope or "") for row in in_loop)


def _union_s(intervals: list[tuple[float, float]]) -> float:
    total, last = 0.0, -1.0
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def test_executions_are_told_apart(on_cpu: tuple[bytes, Profile]) -> None:
    _, profile = on_cpu
    assert profile.executions == 3
    for row in profile.rows:
        assert not isinstance(row.runs_s, Unavailable)
        assert len(row.runs_s) == 3
        assert sum(row.runs_s) == pytest.approx(row.total_s)
        assert sorted(row.runs_s)[1] == row.run_s


# ------------------------------------------------------------------ written profiles

HLO = """HloModule jit_g, is_scheduled=true

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %v = f32[8] get-tuple-element(%p), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %sine = f32[8] sine(%v)
  ROOT %t = (s32[], f32[8]) tuple(%next, %sine)
}

%cond (q: (s32[], f32[8])) -> pred[] {
  %q = (s32[], f32[8]) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %n = s32[] constant(4)
  ROOT %less = pred[] compare(%j, %n), direction=LT
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], f32[8]) tuple(%zero, %x)
  %while.1 = (s32[], f32[8]) while(%start), condition=%cond, body=%body
  %out = f32[8] get-tuple-element(%while.1), index=1
  ROOT %cosine = f32[8] cosine(%out)
}
"""


@pytest.fixture(scope="module")
def module() -> Module:
    from inspector._jax.modules.hlo import hlo_to_proto

    return Module.from_proto(hlo_to_proto(HLO))


def test_a_tpus_events_are_named_after_instructions(module: Module) -> None:
    space = xspaces.message()
    plane = xspaces.Plane(space, "/device:TPU:3")
    modules, steps, ops = plane.line("XLA Modules"), plane.line("Steps"), plane.line("XLA Ops")
    for start in (0, 10_000):
        plane.event(modules, "jit_g(77)", start, 1000)
        plane.event(steps, "1", start, 1000)
        loop = plane.kind("%while.1 = (s32[], f32[8]{0:T(128)}) while(...)", "while.1")
        ops.events.add(metadata_id=loop, offset_ps=start + 100, duration_ps=600)
        for turn in range(4):
            plane.event(ops, "%sine = f32[8]{0} sine(%v)", start + 150 + 100 * turn, 50)
        plane.event(ops, "%cosine = f32[8]{0} cosine(%out)", start + 800, 100 + start // 1000)
    plane.event(ops, "%elsewhere = f32[8] add(a, b)", 5000, 40)  # outside of every program
    events = device_events([("", XSpace.from_bytes(space.SerializeToString()))])
    assert events.devices == ("TPU:3",)
    assert sorted(set(events.program.tolist())) == [NO_PROGRAM, 77]
    profile = join(events, module, 77, points_of(module))
    found = {row.name: (row.opcode, row.calls, round(row.total_s * 1e12)) for row in profile.rows}
    assert found == {"while.1": ("while", 2, 800), "sine": ("sine", 8, 400), "cosine": ("cosine", 2, 210)}
    assert round(profile.total_s * 1e12) == 2 * 600 + 210, "the loop's events contain those of its body"
    assert profile.executions == 2
    (other,) = rest(events, [77])
    assert (other.name, other.calls) == ("elsewhere", 1)


def test_launches_on_the_host_and_derived_lines_do_not_count(module: Module) -> None:
    space = xspaces.message()
    device, host = xspaces.Plane(space, "/device:GPU:0"), xspaces.Plane(space, "/host:CPU")
    stream, second = device.line("Stream #1(Kernel)"), device.line("Stream #2(MemcpyD2D)")
    device.event(device.line("XLA Ops"), "cosine", 0, 500, hlo_op="cosine", program_id=5)
    device.event(stream, "cosine_kernel", 0, 500, hlo_op="cosine", program_id=5)
    device.event(stream, "reduce_kernel", 600, 100, hlo_op="cosine", program_id=5)
    device.event(stream, "gone_kernel", 800, 30, hlo_op="gone", program_id=5)
    device.event(second, "MemcpyD2D", 100, 70)
    host.event(host.line("python"), "cuLaunchKernel", 0, 9999, hlo_op="cosine", program_id=5, correlation_id=1)
    events = device_events([("", XSpace.from_bytes(space.SerializeToString()))])
    profile = join(events, module, 5, points_of(module), with_rest=True, executions=1)
    found = {row.name: (row.opcode, row.calls, round(row.total_s * 1e12)) for row in profile.rows}
    assert found == {"cosine": ("cosine", 2, 600), "MemcpyD2D": ("", 1, 70), "gone": ("", 1, 30)}
    assert round(profile.busy_s[0] * 1e12) == 630
    assert any("several streams at once" in note for note in profile.notes)


def test_unequal_executions_are_unknown_and_not_guessed(module: Module) -> None:
    space = xspaces.message()
    plane = xspaces.Plane(space, "/device:GPU:0")
    line = plane.line("Stream #1")
    for n in range(3):
        plane.event(line, "k", n * 100, 10, hlo_op="cosine", program_id=5)
    events = device_events([("", XSpace.from_bytes(space.SerializeToString()))])
    profile = join(events, module, 5, {}, executions=2)
    assert isinstance(profile.rows[0].run_s, Unavailable)
    assert "cannot be assigned to executions" in profile.table()["unknown"][0]
    assert join(events, module, 5, {}, executions=3).rows[0].run_s == pytest.approx(10e-12)


def test_hosts_have_their_own_devices(module: Module) -> None:
    space = xspaces.message()
    plane = xspaces.Plane(space, "/device:GPU:0")
    plane.event(plane.line("Stream #1"), "k", 0, 10, hlo_op="cosine", program_id=5)
    read = XSpace.from_bytes(space.SerializeToString())
    profile = join(device_events([("a/", read), ("b/", read)]), module, 5, {})
    assert profile.devices == ("a/GPU:0", "b/GPU:0")
    assert [row.calls for row in profile.rows] == [1, 1]


def test_a_profile_without_events(module: Module) -> None:
    space = xspaces.message()
    xspaces.Plane(space, "/device:GPU:0").line("Stream #1")
    events = device_events([("", XSpace.from_bytes(space.SerializeToString()))])
    profile = join(events, module, 5, {})
    assert (len(events), profile.rows, profile.total_s) == (0, (), 0)
    assert profile.table().empty
    assert profile.by("line").empty
    assert repr(profile).startswith("<Profile of jit_g")
    assert rest(events, []) == ()


def test_a_thunk_lasts_until_its_mark_on_any_thread(module: Module) -> None:
    space = xspaces.message()
    host = xspaces.Plane(space, "/host:CPU")
    caller, pool = host.line("caller"), host.line("pool", timestamp_ns=0)
    facts: dict[str, Any] = {"program_id": 5, "run_id": 9, "device_ordinal": 0}
    host.event(caller, "cosine", 100, 10, hlo_op="cosine", _p=41, **facts)  # returns before its work ends
    host.event(caller, "sine", 110, 70, hlo_op="sine", _p=42, **facts)
    host.event(pool, "end: cosine", 600, 1, _c=41)
    host.event(caller, "end: sine", 175, 1, _c=42)  # within its event
    host.event(pool, "StartRegion", 900, 0, _c=41)  # another event of the same work is no mark
    profile = join(device_events([("", XSpace.from_bytes(space.SerializeToString()))]), module, 5, {})
    assert {row.name: round(row.total_s * 1e12) for row in profile.rows} == {"cosine": 500, "sine": 70}
    assert round(profile.busy_s[0] * 1e12) == 500
    assert any("1.14 times the elapsed time" in note and "several threads" in note for note in profile.notes)


@pytest.mark.parametrize(("begun", "left", "expected"), [(120, 0, 200), (120, 640, 200), (90, 0, 590), (120, 590, 590)])
def test_a_thunk_ends_when_its_last_task_goes_on_with_other_thunks(
    module: Module, begun: int, left: int, expected: int
) -> None:
    space = xspaces.message()
    host = xspaces.Plane(space, "/host:CPU")
    caller, pool = host.line("caller"), host.line("pool")
    facts: dict[str, Any] = {"program_id": 5, "run_id": 9, "device_ordinal": 0}
    host.event(caller, "cosine", 100, 10, hlo_op="cosine", _p=41, **facts)
    host.event(pool, "ThreadpoolListener::StartRegion", begun, 0)
    host.event(pool, "sine", 300, 350, hlo_op="sine", _p=42, **facts)
    if left:
        host.event(pool, "ThreadpoolListener::StopRegion", left, 0)
    host.event(pool, "end: cosine", 690, 1, _c=41)
    if left == 640:  # of the next task
        host.event(pool, "ThreadpoolListener::StartRegion", 650, 0)
    profile = join(device_events([("", XSpace.from_bytes(space.SerializeToString()))]), module, 5, {})
    measured = {row.name: round(row.total_s * 1e12) for row in profile.rows}
    assert measured == {"cosine": expected if left != 640 else 590, "sine": 350}


def test_a_kernel_ends_when_another_reads_it_on_each_device_and_in_each_iteration() -> None:
    from inspector._jax.modules.hlo import hlo_to_proto

    text = """HloModule jit_g, is_scheduled=true

ENTRY %main (x: s32[]) -> pred[] {
  %x = s32[] parameter(0)
  %next = s32[] add(%x, %x)
  %same = s32[] bitcast(%next)
  ROOT %less = pred[] compare(%same, %x), direction=LT
}
"""
    module = Module.from_proto(hlo_to_proto(text))
    space = xspaces.message()
    host = xspaces.Plane(space, "/host:CPU")
    caller, pool = host.line("caller"), host.line("pool")
    for device in (0, 1):
        facts: dict[str, Any] = {"program_id": 5, "run_id": 9, "device_ordinal": device}
        for iteration in (0, 1):
            at, key = 1000 * iteration + 100 * device, 10 * device + iteration
            host.event(caller, "add", at, 10, hlo_op="next", _p=key, **facts)
            host.event(pool, "end: add", at + 900, 1, _c=key)
            host.event(caller, "compare", at + 50, 20, hlo_op="less", _p=100 + key, **facts)
    profile = join(device_events([("", XSpace.from_bytes(space.SerializeToString()))]), module, 5, {})
    measured = {(row.name, row.device): round(row.total_s * 1e12) for row in profile.rows}
    assert measured == {(name, f"CPU:{n}"): t for n in (0, 1) for name, t in (("next", 100), ("less", 40))}


def test_a_kernel_named_like_an_instruction_is_none(module: Module) -> None:
    space = xspaces.message()
    plane = xspaces.Plane(space, "/device:GPU:0")
    line = plane.line("Stream #1")
    plane.event(line, "cosine", 0, 10, program_id=5)
    plane.event(line, "cosine", 10, 30, hlo_op="cosine", program_id=5)
    profile = join(device_events([("", XSpace.from_bytes(space.SerializeToString()))]), module, 5, {})
    assert [(row.name, row.opcode, round(row.total_s * 1e12)) for row in profile.rows] == [
        ("cosine", "cosine", 30), ("cosine", "", 10),
    ]  # fmt: skip


def test_a_fusions_time_is_split_as_its_estimated_time() -> None:
    def part(file: str, phase: str, share: float) -> Part:
        return Part("i", Origin("jit(f)/mul", (Frame(file, 1),)), phase, 1 - share, 0.0, share)

    runs = Unavailable("unknown")
    parts = (part("a.py", "forward", 0.75), part("b.py", "backward", 0.25))
    row = ProfileRow("fusion", "fusion", "main", "GPU:0", 2, 8.0, 4.0, 4.0, runs, runs, parts)
    other = ProfileRow("copy", "", "", "GPU:0", 1, 2.0, 2.0, 2.0, runs, runs)
    profile = Profile("f", ("GPU:0",), (row, other), runs, runs, (10.0,))
    lines = [(group.name, group.total_s, group.share, group.kernels) for group in profile.groups("line")]
    assert lines == [("a.py:1", 6.0, 0.6, 1), ("b.py:1", 2.0, 0.2, 1), (None, 2.0, 0.2, 1)]
    assert {group.name: group.total_s for group in profile.groups("phase")} == {
        "forward": 6.0,
        "backward": 2.0,
        None: 2.0,
    }
    assert profile.groups("line")[0].frames == (Frame("a.py", 1),)


def test_a_kernel_that_is_faster_than_its_estimate_is_named() -> None:
    space = XSpace.from_bytes(xspaces.recorded("mi300x_fused_attention"))
    (program,) = (p for p in recorded_programs(space) if p.name.startswith("jit_loss_fn"))
    module, events = Module.from_proto(program.hlo_proto), device_events([("", space)])
    points = points_of(module)
    slowest = join(events, module, program.id, points).rows[0]
    assert not isinstance(slowest.run_s, Unavailable)

    def notes(estimate_s: float) -> list[str]:
        estimated = points | {slowest.name: dataclasses.replace(points[slowest.name], least_s=estimate_s)}
        profile = join(events, module, program.id, estimated)
        return [note for note in profile.notes if "ran faster than the roofline estimates" in note]

    assert notes(0.5 * slowest.run_s) == []
    (note,) = notes(2 * slowest.run_s)
    assert note.startswith(f"1 kernel ran faster than the roofline estimates. {slowest.name}: measured ")
