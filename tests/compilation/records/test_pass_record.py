"""Snapshots and times of passes, joined."""

from __future__ import annotations

import dataclasses

import pytest

from inspector.analysis.passes.follow import History
from inspector.analysis.passes.snapshots import steps
from inspector.compilation.records.dump_names import START, SnapshotName
from inspector.compilation.records.packed import pack, unpack
from inspector.compilation.records.pass_metadata import timed_passes
from inspector.compilation.records.pass_record import Snapshot, TimedPass, record_passes
from inspector.compilation.records.passes import Passes, _Header
from inspector.compilation.records.phases import Span, own_durations, phases
from inspector.compilation.records.texts import Texts
from inspector.errors import ModuleError, Unavailable
from inspector.toolchain.schema import fallback_schema

TEXTS = Texts.of(["zero", "one", "two", "three"])
WHY_NOT = Unavailable("nobody timed", "time them")


def snapshot(order: int, pipeline: str, after: str, text: int, before: str = "x") -> Snapshot:
    return Snapshot(SnapshotName(0, "m", order, pipeline, after, before), text)


def told(passes: Passes) -> list[tuple[str, str, bool, str, str]]:
    return [(p.pipeline, p.name, p.changed, p.before, p.after) for p in passes]


SNAPSHOTS = [
    snapshot(3, "outer", "inner_pipe", 2),
    snapshot(0, "outer", "pipeline-start", 0),
    snapshot(1, "inner_pipe", "pipeline-start", 0),
    snapshot(2, "inner_pipe", "simplify", 2),
    snapshot(4, "last", "pipeline-start", 3),
]
TIMED = [
    TimedPass("outer", "first", 0.0, 1.0),
    TimedPass("inner pipe", "check", 2.0, 2.5),
    TimedPass("inner pipe", "simplify", 2.5, 3.5),
    TimedPass("outer", "inner pipe", 1.5, 4.0),
    TimedPass("outer", "dce", 4.0, 4.25),
    TimedPass("last", "pipeline-start", 5.0, 5.5),
    TimedPass("last", "cleanup", 6.0, 6.5),
]


def test_every_timed_pass_is_listed_with_its_changes_and_end() -> None:
    passes = record_passes(TEXTS, 0, SNAPSHOTS, TIMED)
    assert told(passes) == [
        ("outer", "first", False, "zero", "zero"),
        ("inner pipe", "check", False, "zero", "zero"),
        ("inner pipe", "simplify", True, "zero", "two"),
        ("outer", "inner pipe", True, "zero", "two"),  # a pipeline that is a pass: from its first to its last
        ("outer", "dce", False, "two", "two"),
        ("last", "between pipelines", True, "two", "three"),
        ("last", "cleanup", False, "three", "three"),
    ]
    assert [p.index for p in passes] == list(range(7))
    assert [p.duration_s for p in passes if p.name != "between pipelines"] == [1.0, 0.5, 1.0, 1.0, 0.25, 0.5]
    assert passes.note == ""


def test_without_times_only_passes_with_snapshots_are_known() -> None:
    passes = record_passes(TEXTS, 0, SNAPSHOTS, WHY_NOT)
    assert told(passes) == [
        ("inner_pipe", "simplify", True, "zero", "two"),
        ("outer", "inner_pipe", True, "zero", "two"),
        ("last", "between pipelines", True, "two", "three"),
    ]
    assert {p.duration_s for p in passes[:-1]} == {WHY_NOT}
    assert passes.note == "Passes that changed nothing are not listed."


def test_a_step_within_a_pass_has_its_own_entry() -> None:
    snapshots = [
        snapshot(0, "p", "pipeline-start", 0),
        snapshot(1, "copy-insertion", "adding copies", 1, before=""),
        snapshot(2, "copy-insertion", "removing copies", 0, before=""),
        snapshot(3, "p", "copy-insertion", 0),
    ]
    timed = [TimedPass("p", "dce", 0.0, 1.0), TimedPass("p", "copy-insertion", 1.0, 2.0)]
    passes = record_passes(TEXTS, None, snapshots, timed)
    assert told(passes) == [
        ("p", "dce", False, "zero", "zero"),
        ("copy-insertion", "adding copies", True, "zero", "one"),
        ("copy-insertion", "removing copies", True, "one", "zero"),
        ("p", "copy-insertion", False, "zero", "zero"),
    ]
    assert "within a pass" in str(passes[1].duration_s)
    assert [p.name for p in passes if p.is_part] == ["adding copies", "removing copies"]
    assert passes[-1].inner == 2
    assert steps(passes) == ()


# What XLA writes of a partitioner that ends with a cleanup, of which the partitioner's own changes come first and last.
PARTITIONED = [
    snapshot(0, "outer", "pipeline-start", 0, before="propagate"),
    snapshot(1, "outer", "propagate", 1, before="partition"),
    snapshot(2, "cleanup", "pipeline-start", 2, before="dce"),
    snapshot(3, "cleanup", "dce", 3, before="pipeline-end"),
    snapshot(4, "outer", "partition", 4, before="simplify"),
    snapshot(5, "simplify", "pipeline-start", 4, before="fold"),
    snapshot(6, "simplify", "fold", 5, before="pipeline-end"),
    snapshot(7, "outer", "simplify", 5, before="pipeline-end"),
]
PARTITIONED_TIMES = [
    TimedPass("outer", "pipeline-start", 0.0, 0.0),
    TimedPass("outer", "propagate", 0.0, 1.0),
    TimedPass("outer", "partition", 1.0, 4.0),
    TimedPass("cleanup", "pipeline-start", 2.0, 2.0),
    TimedPass("cleanup", "cse", 2.0, 2.5),
    TimedPass("cleanup", "dce", 2.5, 4.0),  # ends with the partitioner, as clocks are coarse
    TimedPass("outer", "simplify", 4.0, 5.0),
    TimedPass("simplify", "pipeline-start", 4.0, 4.0),
    TimedPass("simplify", "fold", 4.0, 5.0),
]
SIX = Texts.of([f"text {n}" for n in range(6)])


@pytest.mark.parametrize("timed", [PARTITIONED_TIMES, WHY_NOT], ids=["timed", "untimed"])
def test_changes_before_the_start_of_a_pipeline_belong_to_their_pass(timed: list[TimedPass] | Unavailable) -> None:
    passes = record_passes(SIX, 0, PARTITIONED, timed)
    assert [(p.name, p.before_index, p.after_index) for p in passes if p.changed] == [
        ("propagate", 0, 1), ("dce", 2, 3), ("partition", 1, 4), ("fold", 4, 5), ("simplify", 4, 5),
    ]  # fmt: skip
    assert [(p.name, p.inner) for p in passes if p.inner] == [
        ("partition", 2 if timed is not WHY_NOT else 1),
        ("simplify", 1),
    ]
    assert [step.name for step in steps(passes)] == ["propagate", "partition", "fold"]
    inside = next(p.index for p in passes if p.name == "dce")
    assert History(passes).text_at(History(passes).place_after(inside)) == 4
    again = Passes.from_bytes(passes.to_bytes())
    assert again == passes
    assert steps(again) == steps(passes)


def test_a_recording_of_an_earlier_version_is_read_without_gaps() -> None:
    """They took the partitioner's own change before its cleanup for one between two pipelines."""
    passes = record_passes(SIX, 0, PARTITIONED, PARTITIONED_TIMES)
    header, blobs = unpack(passes.to_bytes(), _Header)
    rows = (
        ("outer", "propagate", 0.5, 0, 1), ("cleanup", START, 0.5, 1, 2), ("cleanup", "dce", 0.5, 2, 3),
        ("outer", "partition", 0.5, 2, 4), ("simplify", "fold", 0.5, 4, 5), ("outer", "simplify", 0.5, 4, 5),
    )  # fmt: skip
    old = Passes.from_bytes(pack(dataclasses.replace(header, rows=rows, inner=None, parts=()), blobs))
    assert [step.name for step in steps(old)] == ["propagate", START, "partition", "fold"]


@pytest.mark.parametrize("inner", [-1, 1])
def test_a_pass_that_holds_more_passes_than_there_are_is_refused(inner: int) -> None:
    passes = record_passes(TEXTS, 0, SNAPSHOTS, TIMED)
    damaged = dataclasses.replace(passes, entries=(dataclasses.replace(passes[0], inner=inner), *passes[1:]))
    with pytest.raises(ModuleError, match=f"pass 0 has {inner} passes within it"):
        Passes.from_bytes(damaged.to_bytes())


def test_a_change_between_two_pipelines_is_labeled() -> None:
    texts = Texts.of(["HloModule m\n\nENTRY", "HloModule m, is_scheduled=true\n\nENTRY", "HloModule m, x=1\n\nENTRY"])
    snapshots = [
        snapshot(0, "p", "pipeline-start", 0),
        snapshot(1, "q", "pipeline-start", 1),
        snapshot(2, "r", "pipeline-start", 2),
    ]
    passes = record_passes(texts, 0, snapshots, WHY_NOT)
    assert [(p.pipeline, p.name) for p in passes] == [("q", "scheduling"), ("r", "between pipelines")]


def test_the_optimized_hlo_comes_last_where_the_compiler_went_on() -> None:
    passes = record_passes(SIX, 0, PARTITIONED[:2], PARTITIONED_TIMES, final=5)
    assert told(passes)[-1] == ("unrecorded pipelines", "later passes", True, "text 1", "text 5")
    assert steps(passes)[-1] == passes[-1]
    assert "does not record later passes" in str(passes[-1].duration_s)


def test_a_pass_that_runs_again_is_matched_in_order() -> None:
    snapshots = [snapshot(0, "p", "dce", 1), snapshot(1, "p", "dce", 2)]
    timed = [TimedPass("p", "dce", float(n), n + 0.5 + n / 100) for n in range(3)]
    passes = record_passes(TEXTS, 0, snapshots, timed)
    assert [(p.before, p.after) for p in passes] == [("zero", "one"), ("one", "two"), ("two", "two")]


def test_the_value_survives_bytes() -> None:
    for timed in (TIMED, WHY_NOT):
        passes = record_passes(TEXTS, 0, SNAPSHOTS, timed, Span(-1.0, 9.0, 8.0, "tpu"))
        assert len(passes.phases) == (3 if timed is TIMED else 1)
        assert Passes.from_bytes(passes.to_bytes()) == passes
    empty = record_passes(Texts(), None, [], WHY_NOT)
    assert (len(empty), Passes.from_bytes(empty.to_bytes())) == (0, empty)


def test_a_table_has_one_row_a_pass() -> None:
    table = record_passes(TEXTS, 0, SNAPSHOTS, TIMED).table()
    assert list(table.columns) == [
        *("index", "pipeline", "name", "changed", "duration_s"),
        *("instructions", "fusions", "written_bytes", "collectives", "unknown"),
    ]
    assert list(table["name"][table["changed"].fillna(False)]) == ["simplify", "inner pipe", "between pipelines"]


def test_durations_add_up_to_the_whole_compile() -> None:
    """Ten seconds: 1 before the first pass, 4.25 in passes, 3.75 between them and the HLO's end, 1 of code generation."""
    passes = record_passes(TEXTS, 0, SNAPSHOTS, TIMED, Span(-1.0, 9.0, 8.0, "tpu"))
    assert [phase.duration_s for phase in passes.phases] == [1.0, 3.75, 1.0]
    assert passes.phases[-1].name == "code generation: LLO, serialization"
    table = passes.table()
    assert table["duration_s"].sum() == 10.0
    assert table["index"].isna().sum() == 3
    assert str(table["duration_s"].dtype) == "Float64"
    assert "which XLA does not time" in table["unknown"][5]
    untimed = record_passes(TEXTS, 0, SNAPSHOTS, WHY_NOT, Span(0.0, 10.0, None, "cpu"))
    assert untimed.table()["duration_s"].sum() == 10.0


def test_a_pass_of_the_back_end_does_not_move_code_generation_before_it() -> None:
    timed = [TimedPass("p", "a", 1.0, 2.0), TimedPass("llo", "late", 7.0, 8.0)]
    assert [p.duration_s for p in phases(timed, Span(0.0, 10.0, 3.0, "tpu"))] == [1.0, 1.0, 6.0]
    assert [p.duration_s for p in phases(timed, Span(0.0, 10.0, None, "tpu"))] == [1.0, 5.0, 2.0]


def test_a_moment_belongs_to_the_innermost_pass() -> None:
    nested = [
        TimedPass("outer", "pipeline", 0.0, 10.0), TimedPass("pipeline", "inner pipeline", 1.0, 9.0),
        TimedPass("inner pipeline", "a", 1.0, 4.0), TimedPass("inner pipeline", "b", 4.0, 8.0),
    ]  # fmt: skip
    assert own_durations(nested) == [2.0, 1.0, 3.0, 4.0]
    assert own_durations(nested[::-1]) == [4.0, 3.0, 1.0, 2.0]
    assert own_durations([]) == []


METADATA = """
canonical_module_id: 1
pass_metadata {
  pass_id: 1 pass_name: "algsimp" pipeline_name: "Before X64 rewriter" module_changed: true
  start_timestamp_usec: 1000000 end_timestamp_usec: 1500000
}
pass_metadata { pass_id: 2 pass_name: "dce" pipeline_name: "b" start_timestamp_usec: 2000000 end_timestamp_usec: 2000001 }
a_field_of_tomorrow: 3
"""


def test_xlas_own_times_are_read() -> None:
    first, second = timed_passes(METADATA, fallback_schema())
    assert first == TimedPass("Before X64 rewriter", "algsimp", 1.0, 1.5)
    assert second.name == "dce"
    assert round(second.end_s - second.start_s, 9) == 1e-6


@pytest.mark.parametrize("place", ["before_index", "after_index"])
@pytest.mark.parametrize("index", [-1, len(TEXTS)])
def test_a_pass_without_its_text_is_refused(place: str, index: int) -> None:
    passes = record_passes(TEXTS, 0, SNAPSHOTS, TIMED)
    damaged = dataclasses.replace(passes, entries=(dataclasses.replace(passes[0], **{place: index}), *passes[1:]))
    with pytest.raises(ModuleError, match=rf"pass 0 has the texts .*{index}.* of 4"):
        Passes.from_bytes(damaged.to_bytes())


def test_the_first_and_the_last_text_are_texts() -> None:
    passes = record_passes(TEXTS, 0, SNAPSHOTS, TIMED)
    ends = dataclasses.replace(passes[0], changed=True, before_index=0, after_index=len(TEXTS) - 1)
    (found,) = Passes.from_bytes(dataclasses.replace(passes, entries=(ends,)).to_bytes())
    assert (found.before, found.after, found.changed) == ("zero", "three", True)
