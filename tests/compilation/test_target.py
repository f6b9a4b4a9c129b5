"""`Target`: what users write, and what it says when they cannot have it."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.compilation.target import MAX_CPU_DEVICES, Target
from inspector.errors import TargetError


@given(st.integers(1, MAX_CPU_DEVICES))
def test_text_and_target_are_the_same(count: int) -> None:
    target = Target.parse(f"cpu:{count}")
    assert target == Target("cpu", count) == Target.parse(str(target)) == pickle.loads(pickle.dumps(target))


def test_forms() -> None:
    assert Target.parse("attached") == Target("attached")
    assert Target.parse(" cpu ") == Target("cpu", 1)
    assert str(Target("cpu", 1)) == "cpu"
    target = Target("cpu", 3)
    assert Target.parse(target) is target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu:0", f"1 to {MAX_CPU_DEVICES}, such as 'cpu:8'"),
        (f"cpu:{MAX_CPU_DEVICES + 1}", "number of virtual devices"),
        ("cpu:", "number of virtual devices"),
        ("cpu:-1", "number of virtual devices"),
        ("cpu:²", "number of virtual devices"),
        ("cpu:8:2", "number of virtual devices"),
        ("attached:2", "Unknown target 'attached:2'"),
        ("tpu:v5e:2x4", "is not available: this version compiles for 'attached'"),
        ("gpu", "use 'attached'"),
        ("CPU", "Unknown target 'CPU'"),
        ("", "Unknown target ''"),
    ],
)
def test_what_is_no_target_says_what_is(text: str, words: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(text)
    assert words in str(caught.value)


def test_a_number_is_no_target() -> None:
    with pytest.raises(TargetError, match="A target is a text such as 'attached' or 'cpu:8', got 8"):
        Target.parse(8)  # type: ignore[arg-type]
