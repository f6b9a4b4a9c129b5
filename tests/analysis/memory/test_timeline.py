"""Replayed heaps against XLA's own totals and live ranges."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.memory import timeline as module
from inspector.analysis.memory.live_ranges import Space, steps
from inspector.analysis.memory.timeline import Timeline, buffer_table, space_table, timeline
from inspector.compilation.target import Target
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.buffer_assignment import Allocation, BufferAssignment, HeapEvent, Slot
from tests.absent import needs_tpu

HEAPS = Path(__file__).parents[2] / "hlo" / "data" / "heaps"
NAMES = sorted(path.name.removesuffix(".json") for path in HEAPS.glob("*.json"))
PLATFORMS = {"cpu": "cpu", "h100": "gpu", "v5e": "tpu"}


def recorded(name: str) -> tuple[Timeline, dict[str, Any]]:
    data = gzip.decompress((HEAPS / f"{name}.hlo.pb.gz").read_bytes())
    return timeline(data, PLATFORMS[name.split("_")[0]]), json.loads((HEAPS / f"{name}.json").read_text())


@pytest.mark.parametrize("heap", NAMES)
def test_simultaneous_buffers_fit_the_heap(heap: str) -> None:
    use, _ = recorded(heap)
    for name, space in use.spaces.items():
        assert space.live_bytes <= space.temp_bytes
        largest = max(
            (life.byte_size for life in use.lives if life.kind == "temporary" and life.space == name), default=0
        )
        assert space.live_bytes >= largest


def test_cpu_temporaries_are_xlas_to_a_thousandth_of_a_percent() -> None:
    use, facts = recorded("cpu_tf2.0.12")
    ram = use.spaces["RAM"]
    assert ram.temp_bytes == facts["stats"]["temp_size_in_bytes"]
    assert ram.live_bytes == pytest.approx(facts["stats"]["temp_size_in_bytes"], rel=1e-5)


def test_gpu_peak_is_xlas() -> None:
    use, facts = recorded("h100_tf2.0.12")
    hbm, stats = use.spaces["HBM"], facts["stats"]
    assert hbm.temp_bytes == stats["temp_size_in_bytes"]
    held = hbm.argument_bytes + hbm.output_bytes - hbm.alias_bytes + hbm.constant_bytes
    assert held + hbm.live_bytes == stats["peak_memory_in_bytes"]
    assert hbm.allocated_bytes == stats["total_allocation_bytes"]


@pytest.mark.parametrize("name", ["v5e_big.0.12", "v5e_scan.0.12"])
def test_tpu_hbm_is_xlas(name: str) -> None:
    use, facts = recorded(name)
    hbm = use.spaces["HBM"]
    assert isinstance(hbm.thread_local_bytes, int)
    assert hbm.allocated_bytes + hbm.thread_local_bytes == facts["stats"]["total_allocation_bytes"]


def test_a_tpus_memory_spaces_have_names() -> None:
    use, _ = recorded("v5e_scan.0.12")
    assert set(use.spaces) == {"HBM", "VMEM", "SMEM", "space 6"}
    assert use.spaces["VMEM"].live_bytes == use.spaces["VMEM"].temp_bytes == 2 * 512 * 512 * 4 + 512


@pytest.mark.parametrize("name", NAMES)
def test_lives_lie_within_xlas_live_ranges(name: str) -> None:
    use, facts = recorded(name)
    checked = 0
    for life in use.lives:
        key = f"{life.instruction}{{{','.join(map(str, life.shape_index))}}}"
        if life.kind == "temporary" and key in facts["ranges"] and "while" not in key and "arg_tuple" not in key:
            start, end = facts["ranges"][key]
            assert life.start == start
            assert life.end <= max(end, start) + 1  # one that a loop takes over is freed inside of it
            checked += 1
    assert checked >= 2


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_allocation_is_named_by_the_largest_that_lies_in_it(name: str) -> None:
    """A smaller earlier buffer at the same place is neither part of an output nor is the rest padding."""
    use, _ = recorded(name)
    assignment = BufferAssignment.from_proto(gzip.decompress((HEAPS / f"{name}.hlo.pb.gz").read_bytes()))
    for life in use.lives:
        if life.kind != "temporary":
            (allocation,) = (a for a in assignment.allocations if a.index == life.allocation)
            sizes = {slot.instruction: slot.byte_size for slot in allocation.slots}
            assert sizes[life.instruction] == max(sizes.values())
            assert life.byte_size == allocation.byte_size
            assert 0 <= life.padding_bytes <= allocation.byte_size


def test_at_no_moment_do_two_lie_in_the_same_place() -> None:
    use, _ = recorded("h100_tf2.0.12")
    temporaries = [life for life in use.lives if life.kind == "temporary"]
    for one in temporaries:
        for other in temporaries:
            at_once = one.start < other.start <= one.end
            apart = one.offset + one.byte_size <= other.offset or other.offset + other.byte_size <= one.offset
            assert apart or not at_once or one.offset == other.offset, (one, other)


def test_tables_and_figure() -> None:
    use, _ = recorded("v5e_mlp.0.10")
    table = buffer_table(use)
    assert list(table.columns) == [
        "instruction", "shape_index", "bytes", "start", "end", "space", "kind", "allocation", "offset",
        "parameter", "padding_bytes", "scope", "source_file", "source_line", "phase",
        "library_line",
    ]  # fmt: skip
    assert table["bytes"].is_monotonic_decreasing
    assert set(table["kind"]) >= {"argument", "output", "temporary"}
    whole = table[table["kind"] != "temporary"]
    assert set(whole["start"]) == {0}
    assert set(whole["end"]) == {len(use.schedule) - 1}
    spaces = space_table(use)
    assert spaces.set_index("space").loc["VMEM", "allocated_bytes"] == 1004544
    titles = [axes.get_title(loc="left") for axes in use.plot().axes]
    assert titles == ["VMEM: peak 978 KiB of live temporaries at fusion.29, 981 KiB allocated"]
    assert repr(use).startswith("<Timeline of ")


def test_capacities_are_the_published_ones() -> None:
    data = gzip.decompress((HEAPS / "v5e_scan.0.12.hlo.pb.gz").read_bytes())
    use = timeline(data, "tpu", peak_of(Target.parse("tpu:v5e:1x1")))
    assert (use.spaces["HBM"].capacity_bytes, use.spaces["VMEM"].capacity_bytes) == (16 << 30, 128 << 20)
    assert use.spaces["SMEM"].capacity_bytes == Unavailable("its capacity is not published")
    assert "VMEM of 128 MiB: peak 2 MiB" in use.plot().axes[0].get_title(loc="left")
    unnamed, _ = recorded("v5e_scan.0.12")
    assert isinstance(unnamed.spaces["HBM"].capacity_bytes, Unavailable)


def test_a_curve_is_drawn_at_its_maximum_and_continues_with_the_rest() -> None:
    """A position holds the most that lived there, its successor what was left; a step ends where the next begins."""
    curve = ((0, 0), (0, 100), (1, 150), (1, 50), (3, 20), (3, 0))
    space = Space(live_bytes=150, temp_bytes=200, peak_instruction="b")
    use = Timeline((), {"HBM": space}, ("a", "b", "c", "d", "e"), {"HBM": steps(curve)}, {})
    (axes,) = use.plot().axes
    (path,) = axes.collections[0].get_paths()
    drawn = {(int(x), int(y)) for x, y in path.vertices}
    corners = [(0, 100), (1, 100), (1, 150), (2, 150), (2, 50), (3, 50), (3, 20), (4, 20), (4, 0)]
    assert drawn == {*corners, *((x, 0) for x, _ in corners)}


def test_heaps_of_one_memory_are_summed() -> None:
    one, other = ((0, 0), (1, 10), (4, 0)), ((0, 0), (1, 5), (2, 7), (2, 0))
    assert module._together((), one) == one
    summed = module._together(one, other)
    assert summed == ((0, 0), (0, 0), (1, 10), (1, 15), (2, 17), (2, 10), (4, 0))


def test_a_result_in_the_place_of_its_operand_takes_no_more() -> None:
    slots = (Slot(1, "copy", (), 0, 100), Slot(2, "scatter", (), 0, 100), Slot(3, "apart", (), 96, 50))
    heap = Allocation(7, 146, 1, "temporary", slots)
    trace = tuple(
        HeapEvent(kind, buffer)
        for kind, buffer in (("alloc", 1), ("alloc", 2), ("free", 1), ("alloc", 3), ("free", 2), ("free", 3))
    )  # type: ignore[arg-type]
    assignment = BufferAssignment((heap,), (trace,), ("copy", "scatter", "apart"), {})
    replay = module._Replay(assignment, trace, "tpu")
    assert [live for _, live in replay.curve] == [0, 100, 100, 100, 146, 50, 0]
    assert [(life.instruction, life.start, life.end) for life in replay.lives] == [
        ("copy", 0, 1), ("scatter", 1, 2), ("apart", 2, 2),
    ]  # fmt: skip


def test_events_of_buffers_without_a_place_change_nothing() -> None:
    slots = (Slot(1, "a", (), 0, 100), Slot(2, "b", (), 100, 50))
    trace = tuple(
        HeapEvent(kind, buffer)
        for kind, buffer in (("alloc", 9), ("alloc", 1), ("free", 9), ("alloc", 2), ("free", 1), ("free", 2))
    )  # type: ignore[arg-type]
    assignment = BufferAssignment((Allocation(7, 150, 1, "temporary", slots),), (trace,), ("a", "b"), {})
    replay = module._Replay(assignment, trace, "tpu")
    assert [live for _, live in replay.curve] == [0, 100, 150, 50, 0]
    assert [life.instruction for life in replay.lives] == ["a", "b"]


def test_buffers_at_the_peak_agree_with_the_curve() -> None:
    for name in ("v5e_mlp.0.10", "h100_tf2.0.12"):
        use, _ = recorded(name)
        for space, numbers in use.spaces.items():
            here = use.alive(space)
            assert [life.byte_size for life in here] == sorted((life.byte_size for life in here), reverse=True)
            temporaries = [life for life in here if life.kind == "temporary"]
            places = {
                (life.allocation, at) for life in temporaries for at in (life.offset, life.offset + life.byte_size)
            }
            covered = 0
            for allocation in {place for place, _ in places}:
                edges = sorted(at for place, at in places if place == allocation)
                covered += sum(
                    end - start
                    for start, end in itertools.pairwise(edges)
                    if any(
                        life.allocation == allocation and life.offset <= start and end <= life.offset + life.byte_size
                        for life in temporaries
                    )
                )
            assert covered == numbers.live_bytes
            kinds = {life.kind for life in use.lives if life.space == space}
            assert {life.kind for life in here} | {"temporary", "thread-local"} >= kinds
    assert use.schedule[use.peak_position("HBM")] == use.spaces["HBM"].peak_instruction
    with pytest.raises(ParameterError, match=r"Unknown memory space 'disk'. This program has "):
        use.alive("disk")


def test_tiles_are_padded_and_arguments_are_numbered() -> None:
    use, _ = recorded("v5e_mlp.0.10")
    arguments = [life for life in use.lives if life.kind in ("argument", "donated")]
    assert sorted(life.parameter for life in arguments if life.parameter is not None) == list(range(len(arguments)))
    assert {life.parameter for life in use.lives if life not in arguments} == {None}
    padded = [life for life in use.lives if life.padding_bytes]
    assert padded
    assert all(0 < life.padding_bytes < life.byte_size for life in padded)
    assert not any(life.padding_bytes for life in recorded("cpu_tf2.0.12")[0].lives if life.kind == "temporary")


def test_a_result_in_the_place_of_its_operand_is_alive_once() -> None:
    def factor(x: Any) -> Any:
        return jnp.linalg.cholesky(x @ x.T + jnp.eye(64))

    compiled = inspector.lower(factor, np.eye(64, dtype=np.float32)).compile(products=("buffers",))
    use = compiled.timeline()
    assert isinstance(use, Timeline)
    space = use.spaces["RAM"]
    at = use.peak_position("RAM")
    pair = [life for life in use.lives if life.kind == "temporary" and life.start <= at <= life.end]
    assert sum(life.byte_size for life in pair) > space.live_bytes  # two in one place
    alive = [life for life in use.alive("RAM") if life.kind == "temporary"]
    assert sum(life.byte_size for life in alive) == space.live_bytes
    assert "cholesky" in alive[0].instruction


@pytest.mark.parametrize("name", NAMES)
def test_live_buffers_sum_to_the_live_bytes(name: str) -> None:
    use, _ = recorded(name)
    for space in use.spaces:
        alive = [life for life in use.alive(space) if life.kind == "temporary"]
        assert sum(life.byte_size for life in alive) == use.spaces[space].live_bytes


@pytest.mark.parametrize("target", ["cpu", pytest.param("tpu:v5e:1x1", marks=needs_tpu)])
def test_live_buffers_are_at_most_the_peak_memory(target: str) -> None:
    argument = jax.ShapeDtypeStruct((32, 512), jnp.float32)
    lowered = inspector.lower(lambda x: jax.lax.top_k(x, 5), argument, target=target)
    compiled = lowered.compile(target=target, products=("buffers",))
    use = compiled.timeline()
    main = compiled.memory.main
    assert any(life.kind == "thread-local" for life in use.lives), "the reducer's scalars"
    assert sum(life.byte_size for life in use.alive(main)) <= compiled.memory.peak_bytes
