from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.mutation import contexts, runners
from tests.mutation.__main__ import MOST_S, drawn, is_noticed, what_runs
from tests.mutation.operators import Fault, faults, with_fault
from tests.mutation.runners import ROOT, Runners

SOURCE = '''
"""A docstring of 1 line."""

LIMIT: int = 3


def first(values: list[int]) -> int | None:
    """Text with 2 numbers."""
    for value in values:
        if value < 0 and value != -5:
            continue
        values.remove(value)
        return value + 1
    raise ValueError(f"none of {len(values)} < 0")
'''


def test_each_fault_changes_one_thing_and_parses() -> None:
    found = [(fault.line, fault.what) for fault in faults("a.py", SOURCE)]
    assert (10, "value < 0 -> value <= 0") in found
    assert (10, "value < 0 and value != -5 -> value < 0 or value != -5") in found
    assert (11, "continue -> break") in found
    assert (12, "values.remove(value) -> pass") in found
    assert (13, "return value + 1 -> return None") in found
    assert (13, "value + 1 -> value - 1") in found
    sources = [with_fault(SOURCE, fault) for fault in faults("a.py", SOURCE)]
    assert len(set(sources)) == len(sources)
    for source in sources:
        assert ast.dump(ast.parse(source)) != ast.dump(ast.parse(SOURCE))


def test_words_are_left_alone() -> None:
    assert {fault.line for fault in faults("a.py", SOURCE)}.isdisjoint({2, 4, 8, 14})


def test_changes_without_effect_are_not_faults() -> None:
    source = "Read = bytes | None\nflags = FIRST | SECOND\n_log.warning(1 + 1)\nif isinstance(x, np.ndarray | Kept):\n    return None\n"
    assert [(fault.line, fault.what) for fault in faults("a.py", f"def f():\n{textwrap.indent(source, '    ')}")] == [
        (3, "FIRST | SECOND -> FIRST & SECOND"),
        (5, "if isinstance(x, np.ndarray | Kept): ... -> if not isinstance(x, np.ndarray | Kept): ..."),
    ]


def test_a_truth_becomes_its_contrary_and_a_strict_zip_stays() -> None:
    source = "def f(a: int, b: int) -> bool:\n    if not list(zip(a, b, strict=True)):\n        return False\n    return bool(a)\n"
    assert [(fault.line, fault.what) for fault in faults("a.py", source)] == [
        (2, "if not list(zip(a, b, strict=True)): ... -> if not not list(zip(a, b, strict=True)): ..."),
        (2, "not list(zip(a, b, strict=True)) -> list(zip(a, b, strict=True))"),
        (3, "False -> True"),
        (4, "return bool(a) -> return not bool(a)"),
    ]


def test_the_size_of_a_limit_is_not_a_fault() -> None:
    source = "_MOST_LINES = 60\nCLOSE_LIMIT_S = 1 + 1\n_WAIT_S = 3\n_TAG = 8\nmost_lines = 2\n"
    assert [(fault.line, fault.what) for fault in faults("a.py", source)] == [(4, "8 -> 9"), (5, "2 -> 3")]


def test_the_seed_selects_the_faults() -> None:
    assert drawn("execution", 5, 0) == drawn("execution", 5, 0)
    assert drawn("execution", 5, 0) != drawn("execution", 5, 1)


def test_a_fault_runs_the_tests_of_its_line_with_those_of_the_module_first() -> None:
    seconds = {"tests/a/test_a.py::test_x": 0.1, "tests/hlo/test_x.py::test_x": 2.0, "tests/hlo/test_x.py::test_y": 1.0}
    seconds |= {"tests/hlo/test_shape.py::test_x": 3.0, "tests/hlo/test_z.py::test_long": float(MOST_S)}
    fault = Fault("inspector/hlo/shape.py", 7, "", 0)
    known = Runners(
        {fault.file: {"7": [*seconds, "tests/hlo/test_shape.py::test_that_fails_without_a_fault"]}}, seconds, ""
    )
    own = ["tests/hlo/test_shape.py::test_x", "tests/hlo/test_x.py::test_y", "tests/hlo/test_x.py::test_x"]
    assert what_runs(fault, known) == (own, "not (slow or browser or libraries)")


def test_an_import_time_line_runs_the_tests_of_its_function_or_module() -> None:
    file = "inspector/support/varints.py"
    source = (ROOT / file).read_text().splitlines()
    first = next(number for number, line in enumerate(source, 1) if line.startswith("def "))
    known = Runners({file: {str(first + 3): ["a"], str(first + 4): ["b"]}}, {"a": 0.2, "b": 0.1}, "")
    assert known.of(file, first) == ["b", "a"]
    assert known.of(file, first + 3) == ["a"]
    assert known.of(file, 1) == ["b", "a"]
    imported = Runners({file: {str(first): ["importing"], str(first + 3): ["a"]}}, {"a": 0.2, "importing": 0.1}, "")
    assert imported.of(file, first) == ["importing", "a"]
    assert imported.of(file, first + 3) == ["a"]


def test_untested_lines_are_assigned_to_tests_that_import_the_module() -> None:
    assert runners.by_name("inspector/hlo/shape.py") == ["tests/hlo/test_shape.py"]
    assert runners.by_name("inspector/engines/workers/worker_main.py") == [
        f"tests/engines/workers/test_{name}.py"
        for name in ("worker_main", "worker_engine", "worker_lane", "worker_memory")
    ]
    assert runners.by_name("inspector/hlo/reading/single_instructions.py") == [
        "tests/analysis/profile/test_joining.py",
        "tests/compilation/kernels/test_kernel_costs.py",
        "tests/compilation/test_cost.py",
        "tests/compilation/test_library_costs.py",
        "tests/hlo/reading/test_columns.py",
    ]
    assert runners.by_name("inspector/engines/no_such.py") == ["tests/engines"]
    assert what_runs(Fault("inspector/hlo/shape.py", 1, "", 0), Runners({}, {}, "")) == (
        ["tests/hlo/test_shape.py"],
        "not (browser or libraries)",
    )


SUITE = """
import pytest
import measured

@pytest.fixture(scope="module")
def shared():
    return measured.twice(1)

@pytest.mark.parametrize("n", [1, 2])
def test_by_fixture(shared, n): assert shared == 2

def test_itself(): assert measured.once(1) == 1

def test_that_fails(): assert measured.once(1) == 2
"""


@pytest.mark.slow
def test_lines_run_by_fixtures_belong_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "measured.py").write_text("def once(x):\n    return x\n\ndef twice(x):\n    return 2 * x\n")
    for name in ("test_a", "test_b"):
        (tmp_path / f"{name}.py").write_text(SUITE if name == "test_a" else SUITE[: SUITE.index("def test_that_fails")])
    (tmp_path / "coveragerc").write_text(f"[run]\ndata_file = {tmp_path / 'data'}\nsource = .\n")
    report, plugin = tmp_path / "report.json", ("-p", contexts.__name__)
    command = [sys.executable, "-m", "coverage", "run", "--rcfile=coveragerc", "-m", "pytest", "-q", *plugin]
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, contexts.REPORT: str(report)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=False)
    lines = runners.lines_run(tmp_path / "data", tmp_path)["measured.py"]
    assert lines["5"] == ["test_a.py", "test_b.py"]
    assert set(lines["2"]) == {"test_a.py::test_itself", "test_a.py::test_that_fails", "test_b.py::test_itself"}
    passed = {"test_a.py::test_by_fixture", "test_a.py::test_itself"}
    assert json.loads(report.read_text()).keys() == passed | {t.replace("_a.", "_b.") for t in passed} | {"test_b.py"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said"), [("1 -> 2", "FAILED test_a.py::test_same"), ("value * 1 -> value // 1", None)]
)
def test_a_fault_is_noticed_where_a_test_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, said: str | None
) -> None:
    source = "def same(value):\n    return value * 1\n"
    (tmp_path / "a.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = slow\n")
    (tmp_path / "test_a.py").write_text("import a\n\ndef test_same():\n    assert a.same(3) == 3\n")
    (fault,) = (fault for fault in faults("a.py", source) if fault.what == what)
    monkeypatch.setattr("tests.mutation.forks.LOADED", [])
    found = is_noticed(fault, tmp_path, ["test_a.py"])
    assert found is None if said is None else str(found).startswith(said)
    assert (tmp_path / "a.py").read_text() == source
