"""`StatColumn`: one statistic of many events, as a column."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.reading.byte_arrays import ByteRanges, Numbers, Octets
from inspector.hlo.reading.message_fields import Fields

READ_STATS = frozenset({
    "hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "kernel_details", "memcpy_details", "correlation_id",
    "_p", "_pt", "_c", "_ct",
})  # fmt: skip
"""Names of the statistics of events that are read. `_p` and `_c` connect the start of asynchronous work with its end."""

_ID_TAG = 1 << 3  # of the field metadata_id, an integer, which XLA writes first
_NUMBERS, _TEXTS, _REF = (3, 4), (5, 6), 7


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StatColumn:
    """A statistic of the events of a plane.

    Attributes:
      codes: the index of each event's text, `[events]`; -1 for an event without a text.
      texts: distinct texts.
      numbers: the number of each event; 0 for an event without a number.
      has_number: whether each event has a number.
    """

    codes: Numbers
    texts: tuple[str, ...]
    numbers: Numbers
    has_number: npt.NDArray[np.bool_]

    @property
    def has_value(self) -> npt.NDArray[np.bool_]:
        """True for each event that has the statistic."""
        found: npt.NDArray[np.bool_] = self.has_number | (self.codes >= 0)
        return found

    def integers(self) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Returns the number of each event, and whether it has one. Texts that are integers count as numbers."""
        parsed = [_integer(text) for text in self.texts]
        known = np.array([number is not None for number in parsed] + [False])
        values = np.array([number or 0 for number in parsed] + [0], np.int64)
        return np.where(self.has_number, self.numbers, values[self.codes]), self.has_number | known[self.codes]


def stat_columns(
    octets: Octets, ranges: ByteRanges, rows: npt.NDArray[np.int32], names: Mapping[int, str], count: int
) -> dict[str, StatColumn]:
    """Returns the statistics in `READ_STATS` by name. Of repeated statistics of an event, the first counts.

    Args:
      octets: the profile.
      ranges: the byte range of each `XStat`.
      rows: the event of each statistic.
      names: names of the plane's statistics by id.
      count: number of events.

    Raises:
      ModuleError: a statistic is damaged.
    """
    wanted = {key: name for key, name in names.items() if name in READ_STATS}
    if not wanted or not len(rows):
        return {}
    # Most statistics are not needed. Those that begin with their id are selected without parsing them.
    begins_with_id = (ranges.lengths > 0) & octets.begins_with(ranges.begins, bytes([_ID_TAG]))
    ids = np.full(len(rows), -1)
    ids[begins_with_id] = octets.varints(ranges.begins[begins_with_id] + 1)[0]
    is_wanted = np.isin(ids, np.array([*wanted], np.int64)) | ~begins_with_id
    chosen = np.flatnonzero(is_wanted)
    parsed = Fields.at(octets, ranges[chosen])
    ids, rows = parsed.integers(1), rows[chosen]
    return {name: _column(parsed, np.flatnonzero(ids == key), rows, names, count) for key, name in wanted.items()}


def _column(
    parsed: Fields, chosen: Numbers, rows: npt.NDArray[np.int32], names: Mapping[int, str], count: int
) -> StatColumn:
    """Returns the column of the statistics `chosen` among the parsed ones; `rows` has the event of each."""
    is_chosen = np.zeros(len(parsed), bool)
    is_chosen[chosen] = True
    codes, numbers = np.full(count, -1), np.zeros(count, np.int64)
    has_number = np.zeros(count, bool)
    texts: dict[str, int] = {}
    for number in (*_NUMBERS, _REF):
        field = parsed.field(number)
        if (field.lengths >= 0).any():
            raise ModuleError(f"field {number} of a statistic is not an integer")
        which = np.flatnonzero(is_chosen[field.rows])[::-1]  # the first of repeated ones is assigned last
        events, values = rows[field.rows[which]], field.values[which]
        if number == _REF:
            distinct, which_text = np.unique(values, return_inverse=True)
            known = [texts.setdefault(names.get(each, ""), len(texts)) for each in distinct.tolist()]
            codes[events] = np.array(known, np.int64)[which_text] if known else 0
        else:
            numbers[events], has_number[events] = values, True
    for number in _TEXTS:
        field = parsed.field(number)
        if (field.lengths < 0).any():
            raise ModuleError(f"field {number} of a statistic is an integer")
        which = np.flatnonzero(is_chosen[field.rows])[::-1]
        contents = parsed.octets.slices(ByteRanges(field.values[which], field.lengths[which].astype(np.int64)))
        decoded = {content: content.decode(errors="replace") for content in dict.fromkeys(contents)}
        of_text = {content: texts.setdefault(each, len(texts)) for content, each in decoded.items()}
        codes[rows[field.rows[which]]] = np.fromiter(map(of_text.__getitem__, contents), np.int64, len(contents))
    return StatColumn(codes, tuple(texts), numbers, has_number)


def _integer(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None
