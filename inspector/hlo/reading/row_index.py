"""Looks up rows by group and id. XLA's ids are nearly consecutive, so they index a table directly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from inspector.hlo.reading.byte_arrays import Numbers

_MOST_PLACES = 8  # table entries per row


class RowsById:
    """Index of rows by group and id. Groups are consecutive. For equal ids in a group, the last row counts."""

    def __init__(self, first: Numbers, ids: Numbers) -> None:
        """Builds the index.

        Args:
          first: the first row of each group, followed by the number of rows.
          ids: the id of each row.
        """
        groups = np.repeat(np.arange(len(first) - 1), np.diff(first))
        some = np.flatnonzero(np.diff(first))
        self._least = np.zeros(len(first) - 1, np.int64)
        widths = np.zeros(len(first) - 1, np.int64)
        if len(some):
            self._least[some] = np.minimum.reduceat(ids, first[some])
            widths[some] = np.maximum.reduceat(ids, first[some]) - self._least[some] + 1
        self._sorted: _Sorted | None = None
        if (widths < 0).any() or widths.sum(dtype=float) > _MOST_PLACES * len(ids):
            self._sorted = _Sorted(groups, ids)
            return
        self._begins = np.append(0, np.cumsum(widths))
        self._rows = np.full(self._begins[-1] + 1, -1)  # the last entry is for missing ids
        self._rows[self._begins[groups] + (ids - self._least[groups])] = np.arange(len(ids))

    def of(self, groups: npt.NDArray[Any], ids: Numbers) -> Numbers:
        """Returns the rows with the given groups and ids; -1 if there is none."""
        if self._sorted is not None:
            return self._sorted.of(groups, ids)
        places = ids - self._least[groups]
        begins, ends = self._begins[groups], self._begins[groups + 1]
        there = (places >= 0) & (places < ends - begins)
        rows: Numbers = self._rows[np.where(there, begins + places, -1)]
        return rows


class _Sorted:
    """Index of sparse ids, by binary search."""

    def __init__(self, groups: Numbers, ids: Numbers) -> None:
        self._known, codes = np.unique(ids, return_inverse=True)
        keys = groups * len(self._known) + codes
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def of(self, groups: npt.NDArray[Any], ids: Numbers) -> Numbers:
        place = np.searchsorted(self._known, ids).clip(max=len(self._known) - 1)
        keys = groups.astype(np.int64) * len(self._known) + place
        rows = np.searchsorted(self._keys, keys, side="right") - 1
        there = (self._known[place] == ids) & (rows >= 0) & (self._keys[rows] == keys)
        return np.where(there, self._order[rows], -1)
