from __future__ import annotations

import ast
import textwrap

from tests.mutation.__main__ import ROOT, drawn, what_runs
from tests.mutation.operators import Fault, faults, with_fault

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


def test_what_changes_nothing_or_only_a_type_is_no_fault() -> None:
    source = "Read = bytes | None\nflags = FIRST | SECOND\n_log.warning(1 + 1)\nif isinstance(x, np.ndarray | Kept):\n    return None\n"
    assert [(fault.line, fault.what) for fault in faults("a.py", f"def f():\n{textwrap.indent(source, '    ')}")] == [
        (3, "FIRST | SECOND -> FIRST & SECOND"),
        (5, "if isinstance(x, np.ndarray | Kept): ... -> if not isinstance(x, np.ndarray | Kept): ..."),
    ]


def test_the_seed_says_which() -> None:
    assert drawn("execution", 5, 0) == drawn("execution", 5, 0)
    assert drawn("execution", 5, 0) != drawn("execution", 5, 1)


def test_a_fault_is_met_by_what_runs_its_line() -> None:
    (fault, *_) = drawn("execution", 1, 0)
    known = {fault.file: {str(fault.line): ["tests/hlo/test_shape.py::test_x"]}}
    assert what_runs(fault, known) == ["tests/hlo/test_shape.py::test_x"]
    assert all((ROOT / test).exists() for test in what_runs(fault, {}))


def test_without_a_map_those_that_import_the_module_run_and_its_own_or_the_rooms() -> None:
    found = what_runs(Fault("inspector/hlo/single.py", 1, "", 0), {})
    assert found == ["tests/compilation/test_cost.py", "tests/hlo"]
    named = what_runs(Fault("inspector/hlo/shape.py", 1, "", 0), {})
    assert named[0] == "tests/hlo/test_shape.py"
