"""The text that the benchmark types in an Explorer adds a variant."""

from __future__ import annotations

import pytest

from tests.widgets.fakes import FakeWork, ask_to_add

first_picture = pytest.importorskip("benchmarks.first_picture")


def test_each_round_adds_another_variant() -> None:
    work = FakeWork()
    explorer = work.explorer()
    for index in range(2):
        ask_to_add(explorer, flag=first_picture.typed(index))
    work.finish_all()
    assert [variant.state for variant in explorer.wait(10).variants] == ["done"] * 3
    assert len({str(variant.options) for variant in explorer.variants}) == 3
    explorer.close()
