"""The file of ratios is written and read, and regressions between commits are reported."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks import compare, ratios, record
from benchmarks.measuring import Figure, lines
from benchmarks.ratios import Line
from tests.conftest import ROOT

OLD = Line("aaaa111111", "0.10.2", "2026-11-22", 2, 0.5, "toggle", "tf2", "preview, wall", "the bare compile", 0.25)


def at(value: float, **changes: object) -> Line:
    return dataclasses.replace(OLD, **{"commit": "bbbb222222", "value": value, **changes})  # type: ignore[arg-type]


needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout of git")


def told(*lines: Line) -> str:
    return "\n".join(compare.compared(lines, "aaaa111111", "bbbb222222"))


# ------------------------------------------------------------------ figures


@pytest.mark.parametrize("value", [0.0, -0.1, float("nan"), float("inf")])
def test_a_figure_is_a_ratio(value: float) -> None:
    with pytest.raises(ValueError, match=r"tf2, columns over the bare table: got .*, expected a ratio above 0"):
        Figure("tf2", "columns", "the bare table", value)


def test_a_figure_is_printed_with_its_reference_and_target() -> None:
    missed, plain = Figure("tf2", "columns", "the bare table", 0.5, 0.25), Figure("tf2", "written", "bare", 1.2345678)
    assert lines([missed, plain]) == "  columns over the bare table: 0.5 (aim 0.25: missed)\n  written over bare: 1.235"


# ------------------------------------------------------------------ the file


def test_lines_are_added_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "ratios.csv"
    assert ratios.read(path) == []
    odd = at(0.123456, figure="columns, of “all”", jax="0.12.0.1")
    ratios.add([OLD], path)
    ratios.add([odd, odd], path)
    assert ratios.read(path) == [OLD, *[dataclasses.replace(odd, value=0.1235)] * 2]
    assert path.read_text(encoding="utf-8").splitlines()[0] == ",".join(ratios.FIELDS)


def test_rows_measured_with_local_changes_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ratios.csv"
    stale, other = at(1.0, commit="bbbb222222+"), at(2.0, commit="bbbb222222+", benchmark="memory")
    ratios.add([OLD, stale, other], path)
    fresh = at(3.0, commit="bbbb222222+")
    ratios.add([fresh, at(4.0)], path)
    assert ratios.read(path) == [OLD, other, fresh, at(4.0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("commit,value\n", "expected the columns commit, jax"),
        ("{head}<<<<<<< HEAD\n", "line 2: got 1 cells, expected 10: <<<<<<< HEAD"),
        ("{head}a,0.10.2,2026-11-22,2,0.5,toggle,tf2,all,bare,fast\n", "line 2: could not convert string to float"),
        ("{head}a,0.10.2,2026-11-22,2,0.5,toggle,tf2,all,bare,0\n", "line 2: tf2, all over bare: got 0.0"),
        ("{head}a,0.10.2,2026-11-22,two,0.5,toggle,tf2,all,bare,1\n", "line 2: invalid literal for int"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "ratios.csv"
    path.write_text(text.format(head=",".join(ratios.FIELDS) + "\n"))
    with pytest.raises(ValueError, match=re.escape(said)):
        ratios.read(path)


def test_the_file_of_the_project_can_be_read() -> None:
    assert {line.benchmark for line in ratios.read(ratios.PATH)} <= set(record.BENCHMARKS)


# ------------------------------------------------------------------ comparing


def test_regressions_come_first_with_the_worst_on_top() -> None:
    other, better = {"figure": "all results, wall"}, {"figure": "seen before, wall"}
    lines = [OLD, dataclasses.replace(OLD, **other), dataclasses.replace(OLD, **better)]
    said = told(*lines, at(0.5), at(0.25 * 1.3, **other), at(0.1, **better)).splitlines()
    assert said == [
        "aaaa111111 -> bbbb222222",
        "JAX 0.10.2: load 0.5 to 0.5 -> 0.5 to 0.5",
        "  3 figures: 2 became 1.3 times worse, 1 better",
        "  2.00 times worse: toggle, tf2: preview, wall over the bare compile: 0.25 -> 0.5",
        "  1.30 times worse: toggle, tf2: all results, wall over the bare compile: 0.25 -> 0.325",
        "  2.50 times better: toggle, tf2: seen before, wall over the bare compile: 0.25 -> 0.1",
    ]


def test_differences_within_the_noise_are_not_reported() -> None:
    assert told(OLD, at(0.25 * 1.29)).endswith("1 figures: 0 became 1.3 times worse, 0 better")


def test_versions_of_jax_are_compared_with_themselves() -> None:
    newer = dataclasses.replace(OLD, jax="0.12.0.1", value=1.0)
    said = told(OLD, newer, at(0.25), at(2.0, jax="0.12.0.1"))
    assert said.count("times worse:") == 1
    assert said.index("JAX 0.12.0.1") < said.index("2.00 times worse")


def test_the_median_of_several_runs_counts() -> None:
    assert "0 became" in told(OLD, at(9.0), at(0.25), at(0.26))
    assert "1 became" in told(OLD, at(9.0), at(0.25), at(0.5))


def test_missing_measurements_are_reported() -> None:
    gone = dataclasses.replace(OLD, figure="all results, wall")
    assert told(OLD, gone, at(0.25)).endswith(
        "not measured at bbbb222222: toggle, tf2: all results, wall over the bare compile"
    )
    assert told(OLD, gone, at(0.25, benchmark="memory")).endswith("not measured at bbbb222222: toggle, 2 figures")
    assert "JAX 0.10.2: load 0.5 to 0.5 -> (not measured)" in told(OLD)


@pytest.mark.parametrize(
    ("asked", "pair"),
    [([], ("b2", "c3")), (["a1"], ("a1", "c3")), (["a1", "b2"], ("a1", "b2")), (["c3", "a1"], ("c3", "a1"))],
)
def test_which_commits_are_compared(asked: list[str], pair: tuple[str, str]) -> None:
    assert compare.chosen(asked, ["a1", "b2", "c3"]) == pair


@pytest.mark.parametrize(
    ("asked", "recorded", "said"),
    [
        ([], ["a1"], "Expected two commits, got a1; recorded are a1."),
        ([], [], "Expected two commits, got none; recorded are none."),
        (["a1"], ["b2", "a1"], "Expected two commits, got a1, a1"),
        (["a1", "b2", "c3"], ["a1", "b2", "c3"], "Expected two commits, got a1, b2, c3"),
        (["nowhere"], ["a1", "b2"], "nowhere is none of those recorded: a1, b2."),
        (["a"], ["a1", "a2"], "a is a1, a2 of those recorded"),
    ],
)
def test_commits_that_cannot_be_compared(asked: list[str], recorded: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        compare.chosen(asked, recorded)


def test_a_commit_with_changes_is_another_one() -> None:
    assert compare.chosen(["a1", "a1+"], ["a1", "a1+"]) == ("a1", "a1+")


@needs_git
def test_git_s_own_names_are_known() -> None:
    head = record._git("rev-parse", "--short=10", "HEAD")
    assert compare.chosen(["HEAD"], [head, "bbbb222222"]) == (head, "bbbb222222")


def test_the_command_prints_regressions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ratios.csv"
    ratios.add([OLD, at(0.5)], path)
    compare.main(["aaaa", "--file", str(path)])
    assert "2.00 times worse: toggle, tf2" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="nowhere is none of those recorded"):
        compare.main(["nowhere", "--file", str(path)])


# ------------------------------------------------------------------ recording


def test_figures_are_recorded_for_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ratios.csv"
    found = {"toggle": [Figure("tf2", "preview, wall", "the bare compile", 0.25)]}

    def measured(name: str) -> list[Figure]:
        if name not in found:
            raise FileNotFoundError("no browser")
        return found[name]

    monkeypatch.setattr(record, "_measured", measured)
    monkeypatch.setattr(ratios, "PATH", path)
    monkeypatch.setattr(record, "_commit", lambda: "aaaa111111")
    with pytest.raises(SystemExit, match="not measured: first_picture"):
        record.main(["first_picture", "toggle"])
    (line,) = ratios.read(path)
    assert (line.commit, *line.key, line.value) == (
        "aaaa111111",
        "toggle",
        "tf2",
        "preview, wall",
        "the bare compile",
        0.25,
    )
    assert "first_picture: not measured: FileNotFoundError: no browser" in capsys.readouterr().out


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        record.main(["speed"])
    assert "unknown: speed; there are replica_groups, analysis" in capsys.readouterr().err


def test_a_benchmark_runs_in_a_separate_process() -> None:
    found = record._measured("replica_groups")
    assert {figure.workload for figure in found} == {"65536 devices"}
    assert all(figure.over == "sorting the ids" for figure in found)


@pytest.mark.parametrize("name", record.BENCHMARKS)
def test_every_benchmark_offers_its_figures(name: str) -> None:
    module = pytest.importorskip(f"benchmarks.{name}")
    assert module.figures.__annotations__["return"] == "list[Figure]"


@needs_git
def test_the_commit_is_marked_where_something_was_changed() -> None:
    assert re.fullmatch(r"[0-9a-f]{10}\+?", record._commit())
