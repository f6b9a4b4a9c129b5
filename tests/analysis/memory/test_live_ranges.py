"""Steps of what lives, and how values are called."""

from __future__ import annotations

import random

import pytest

from inspector.analysis.memory.live_ranges import Curve, Life, steps


def live_at(curve: Curve, position: int) -> int:
    """Bytes at a position, read off steps."""
    return next((live for place, live in reversed(curve) if place <= position), 0)


@pytest.mark.parametrize("seed", range(30))
def test_each_position_has_the_maximum_and_the_remaining_bytes(seed: int) -> None:
    source = random.Random(seed)
    events = sorted((source.randrange(12), source.randrange(1, 50)) for _ in range(source.randrange(1, 20)))
    events = [(position, source.randrange(1, 50)) for position, _ in events]
    found, left = steps(tuple(events)), 0
    for position in range(13):
        here = [live for place, live in events if place == position]
        assert live_at(found, position) == max(here, default=left)
        left = here[-1] if here else left
    assert [position for position, _ in found] == sorted({position for position, _ in found})
    assert live_at(found, 10**6) == left


def test_a_step_that_frees_is_seen_at_the_next_position() -> None:
    assert steps(((2, 8), (2, 3), (5, 7))) == ((2, 8), (3, 3), (5, 7), (6, 7))
    assert steps(((0, 4), (1, 0))) == ((0, 4), (1, 0), (2, 0))
    assert steps(()) == ()


@pytest.mark.parametrize(("index", "value"), [((), "while.6"), ((0,), "while.6{0}"), ((2, 1), "while.6{2,1}")])
def test_a_leaf_of_a_value_is_called_as_xla_does(index: tuple[int, ...], value: str) -> None:
    assert Life("while.6", index, 8, 0, 1, "RAM", "temporary", 0, 0).value == value
