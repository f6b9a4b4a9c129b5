"""Saves the columns of a module as bytes, next to the module itself, and restores them.

Saved data are not trusted: all indices are checked before use.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.reading.byte_arrays import ByteRanges, Numbers, Octets
from inspector.hlo.reading.columns import Columns
from inspector.hlo.reading.instruction_messages import LINKS, Lists, Parts
from inspector.hlo.reading.message_fields import Fields
from inspector.hlo.reading.message_offsets import Outline

_IDS, _PLACES = np.dtype("<i8"), np.dtype("<i4")  # protobuf has at most 2 GB in a message
_LISTS = ("rows", "begins", "lengths")
NAMES = (
    "module", "computations", "computation_lengths", "contents", "content_lengths", "first", "ids", "codes", "begins",
    "lengths", "name_begins", "name_lengths", *(f"{part}_{number}" for number in LINKS for part in _LISTS),
)  # fmt: skip
"""Names of the entries, which are texts and little-endian integers."""


def entries(columns: Columns) -> dict[str, bytes] | None:
    """Returns columns as bytes, by all of `NAMES`; None if the module is not serialized in XLA's form."""
    outline, parts = columns.outline, columns.parts
    if outline.data is not columns.data or parts.messages is not outline.instructions:
        return None
    contents = parts.contents
    numbers: dict[str, npt.NDArray[np.int64]] = {
        "computation_lengths": np.array([*map(len, outline.computations)]),
        "content_lengths": contents.ends - contents.starts,
        "first": outline.first,
        "codes": parts.codes,
        "begins": parts.messages.begins,
        "lengths": parts.messages.lengths,
        "name_begins": parts.names.begins,
        "name_lengths": parts.names.lengths,
    }
    for number, lists in parts.links.items():
        each = (lists.rows, lists.spans.begins, lists.spans.lengths)
        numbers |= {f"{part}_{number}": values for part, values in zip(_LISTS, each, strict=True)}
    return {
        "module": outline.module,
        "computations": b"".join(outline.computations),
        "contents": contents.octets.data[: contents.octets.size],
        "ids": parts.ids.astype(_IDS).tobytes(),
        **{name: values.astype(_PLACES).tobytes() for name, values in numbers.items()},
    }


def read(data: bytes, blobs: Mapping[str, bytes]) -> Columns:
    """Restores the columns of a module from its `entries`.

    Raises:
      ModuleError: the entries belong to another module, or are damaged.
    """
    try:
        return _read(data, blobs)
    except (ModuleError, KeyError, ValueError, IndexError) as e:
        raise ModuleError(f"The saved columns do not match the module of {len(data)} bytes: {e}.") from e


def _read(data: bytes, blobs: Mapping[str, bytes]) -> Columns:
    def numbers(name: str) -> Numbers:
        return np.frombuffer(blobs[name], _PLACES).astype(np.int64)

    ids = np.frombuffer(blobs["ids"], _IDS).astype(np.int64)
    computations = _cut(blobs["computations"], numbers("computation_lengths"))
    first, codes = numbers("first"), numbers("codes")
    messages = ByteRanges(numbers("begins"), numbers("lengths"))
    names = ByteRanges(numbers("name_begins"), numbers("name_lengths"))
    contents = Fields(_cut(blobs["contents"], numbers("content_lengths")))
    _check(len(first) == len(computations) + 1 and first[0] == 0 and first[-1] == len(ids), "computations")
    _check((np.diff(first) >= 0).all(), "computations")
    _check(len(codes) == len(ids) and _within(codes, len(contents)), "contents")
    _check(len(messages.begins) == len(messages.lengths) == len(ids), "instructions")
    _check((messages.begins[1:] >= messages.ends[:-1]).all(), "instructions")
    _check_spans(messages, ByteRanges(np.zeros(1, np.int64), np.array([len(data)])), "instructions")
    _check(len(names.begins) == len(names.lengths) == len(ids), "names")
    _check_spans(names, messages, "names")
    links = {}
    for number in LINKS:
        rows, begins, lengths = (numbers(f"{part}_{number}") for part in _LISTS)
        _check(len(rows) == len(begins) == len(lengths) and _within(rows, len(ids)), "links")
        _check((np.diff(rows) > 0).all() and (lengths > 0).all(), "links")
        _check_spans(ByteRanges(begins, lengths), messages[rows], "links")
        links[number] = Lists(rows, ByteRanges(begins, lengths))
    outline = Outline.of(data, blobs["module"], computations, first, messages)
    end = int(messages.ends.max(initial=0))
    parts = Parts(Octets([data], end), messages, names, ids, links, codes, contents)
    return Columns(data, known=(outline, parts))


def _cut(data: bytes, lengths: Numbers) -> list[bytes]:
    ends = np.cumsum(lengths)
    _check((lengths >= 0).all() and int(ends[-1] if len(ends) else 0) == len(data), "lengths")
    return [data[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]


def _within(numbers: Numbers, count: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < count)


def _check_spans(spans: ByteRanges, outer: ByteRanges, what: str) -> None:
    _check(
        (spans.lengths >= 0).all() and (spans.begins >= outer.begins).all() and (spans.ends <= outer.ends).all(), what
    )


def _check(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise ValueError(f"its {what} differ")
