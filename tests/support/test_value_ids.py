"""Numbers for equal values, against a dictionary."""

from __future__ import annotations

import random

import numpy as np
import pytest

from inspector.support.value_ids import numbered


def test_values_are_numbered_as_they_come() -> None:
    codes, first = numbered(np.array([7, 3, 7, 9, 3]))
    assert (codes.tolist(), first.tolist()) == ([0, 1, 0, 2, 1], [0, 1, 3])
    assert [len(each) for each in numbered(np.array([], np.int64))] == [0, 0]


@pytest.mark.parametrize("values", [3, 50, 5000])
@pytest.mark.parametrize("odds", [None, 0, 1])
def test_colliding_values_are_distinguished(values: int, odds: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if odds is not None:  # as if all tries were in vain: then they are sorted
        monkeypatch.setattr("inspector.support.value_ids._ODDS", np.ones(odds, np.uint64))
    source = random.Random(values)
    some = [source.choice([source.randrange(values), -source.randrange(values)]) for _ in range(4000)]
    codes, first = numbered(np.array(some))
    known: dict[int, int] = {}
    assert codes.tolist() == [known.setdefault(value, len(known)) for value in some]
    assert [some[place] for place in first.tolist()] == [*known]
    assert [some.index(value) for value in known] == first.tolist()
