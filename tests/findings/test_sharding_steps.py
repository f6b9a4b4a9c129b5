"""Steps from one sharding to another."""

from __future__ import annotations

import pytest

from inspector.analysis.findings.detectors.sharding.sharding_steps import Axes, received_part, sharding_steps

SIZES = {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("had", "needed", "between"),
    [
        ((("a",), ()), ((), ("b",)), ((("a",), ("b",)),)),
        ((("a",), ("b",), ("c",)), ((), (), ("c", "b", "a")), ((("a",), (), ("c", "b")),)),
        ((("a", "b"), ()), ((), ("b", "a")), ((("a",), ("b",)),)),
        ((("a",), ()), ((), ("a",)), ()),  # one all-to-all
        ((("a",), ()), ((), ()), ()),  # one gather
        ((("a", "b"), ()), (("b",), ("a",)), ()),  # the axes would change their order
        ((("a",),), ((), ()), ()),
    ],
)
def test_steps(had: Axes, needed: Axes, between: tuple[Axes, ...]) -> None:
    assert sharding_steps(had, needed) == between


def test_received_parts_of_an_array() -> None:
    split: Axes = ((("a",), ())), ((("a",), ("b",))), (((), ("b",)))  # a slice, and a gather of half of an array
    assert received_part(split, SIZES) == pytest.approx(1 / 2 - 1 / 4)
    moved: Axes = ((("a",), ())), (((), ("a",)))
    assert received_part(moved, SIZES) == pytest.approx(1 / 4)  # half of the part stays
