"""Rows are found by group and id, whether ids lie close together or far apart."""

from __future__ import annotations

import numpy as np
import pytest

from inspector.hlo.reading.row_index import RowsById


@pytest.mark.parametrize("factor", [1, 1 << 32, -(1 << 60)])
@pytest.mark.parametrize("seed", range(4))
def test_rows_by_group(seed: int, factor: int) -> None:
    source = np.random.default_rng(seed)
    counts = source.integers(0, 9, 5)
    first = np.append(0, np.cumsum(counts))
    groups, ids = np.repeat(np.arange(5), counts), source.integers(-2, 7, counts.sum()) * factor
    of_groups, wanted = source.integers(0, 5, 60), source.integers(-3, 8, 60) * factor
    rows = {pair: row for row, pair in enumerate(zip(groups.tolist(), ids.tolist(), strict=True))}
    expected = [rows.get(pair, -1) for pair in zip(of_groups.tolist(), wanted.tolist(), strict=True)]
    found = RowsById(first, ids)
    assert found.of(of_groups, wanted).tolist() == expected
    assert -1 in expected
    assert max(expected) >= 0
    assert (found._sorted is None) == (factor == 1)


def test_no_rows() -> None:
    none = np.array([], np.int64)
    assert RowsById(np.array([0, 0]), none).of(np.array([0]), np.array([3])).tolist() == [-1]
    assert RowsById(np.array([0, 1]), np.array([5])).of(none, none).tolist() == []
