"""The beginning of the user's program on a stack, and the meaning of operation names."""

from __future__ import annotations

import pytest

from inspector.hlo.source import Frame, Origin, Root, merged_names, phases

LIBRARY = Frame("numpy.py", 15, "sin")
ROOT = Root("jit(f)", "user.py", (10, 20), frozenset({("cell.py", 3)}))


def inside(line: int) -> Frame:
    return Frame("user.py", line, "f")


@pytest.mark.parametrize(
    ("frames", "kept"),
    [
        pytest.param((), 0, id="unknown"),
        pytest.param((inside(12),), 1, id="the function alone"),
        pytest.param((inside(12), Frame("cell.py", 3), Frame("cell.py", 4)), 1, id="its callers go"),
        pytest.param((LIBRARY, inside(12), LIBRARY, LIBRARY), 2, id="whoever they are"),
        pytest.param((LIBRARY, inside(12), LIBRARY, inside(15), LIBRARY), 4, id="the outermost call of several"),
        pytest.param((inside(10), LIBRARY), 1, id="first line"),
        pytest.param((inside(20), LIBRARY), 1, id="last line"),
        pytest.param((inside(9), LIBRARY), 2, id="above the function"),
        pytest.param((inside(21), LIBRARY), 2, id="below the function"),
        pytest.param((LIBRARY, Frame("cell.py", 3), Frame("cell.py", 4)), 1, id="a caller without the function"),
        pytest.param((Frame("cell.py", 3), LIBRARY), 0, id="a caller alone"),
        pytest.param((LIBRARY, Frame("cell.py", 4)), 2, id="another line of the caller's file"),
    ],
)
def test_frames_end_at_the_function(frames: tuple[Frame, ...], kept: int) -> None:
    assert ROOT.trim([Origin("jit(f)/sin", frames)]) == (Origin("jit(f)/sin", frames[:kept]),)


def test_origins_that_become_equal_are_one_and_the_scope_alone_is_none() -> None:
    outer = [Origin(name, (inside(12), caller)) for name in ("jit(f)/sin", "jit(f)") for caller in (LIBRARY, inside(9))]
    assert ROOT.trim(outer) == (Origin("jit(f)/sin", (inside(12),)),)
    nameless = Origin("", (inside(12),))
    assert ROOT.trim([nameless]) == Root().trim([nameless]) == (nameless,)


@pytest.mark.parametrize(
    ("op_name", "names"),
    [
        ("", [""]),
        ("f/a", ["f/a"]),
        ("f/a;g/b", ["f/a", "g/b"]),
        ("f/(a:b)", ["f/a", "f/b"]),
        ("(a:b)", ["a", "b"]),
        ("f/(a:b);g", ["f/a", "f/b", "g"]),
        ("f/(jit(x:y):b[c:d]:e)", ["f/jit(x:y)", "f/b[c:d]", "f/e"]),
        ("f/(a)", ["f/(a)"]),
        ("f/(a:b", ["f/(a:b"]),
        ("f(a:b)", ["f(a:b)"]),
    ],
)
def test_names_that_xla_merged(op_name: str, names: list[str]) -> None:
    assert list(merged_names(op_name)) == names


@pytest.mark.parametrize(
    ("op_name", "found"),
    [
        ("", ()),
        ("jit(f)/add", ("rest",)),
        ("jit(f)/jvp(g)/sin", ("forward",)),
        ("jit(f)/transpose(jvp(g))/mul", ("backward",)),
        ("jit(f)/transpose(jvp(g))/rematted_computation/sin", ("recomputed",)),
        ("jit(f)/add;jit(f)/transpose(jvp(g))/mul;jit(f)/jvp(g)/sin", ("forward", "backward", "rest")),
    ],
)
def test_phases(op_name: str, found: tuple[str, ...]) -> None:
    assert phases(op_name) == found
