"""Columns written and read again are the same; what is not theirs is refused, whatever was changed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from inspector.errors import ModuleError
from inspector.hlo.module import Module
from inspector.hlo.reading.columns import Columns
from inspector.hlo.reading.saved_columns import NAMES, entries, read
from tests.hlo.reading.test_columns import FILES, TEXT, load, rewritten, unpacked
from tests.modules import module_of, proto_of


def kept_of(columns: Columns) -> dict[str, bytes]:
    kept = entries(columns)
    assert kept is not None
    return kept


def regular(file: Path) -> bytes:
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return bytes(proto_of(Module.from_proto(data)).SerializeToString())


@pytest.mark.parametrize("file", FILES[:6], ids=lambda file: file.name)
def test_saved_columns_equal_the_original(file: Path) -> None:
    data = regular(file)
    expected = Columns(data)
    kept = kept_of(expected)
    assert {*kept} == {*NAMES}
    found = read(data, kept)
    assert found.names == expected.names
    for name in ("ids", "codes", "first", "in_computation", "roots", "positions"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    for name in ("operands", "predecessors", "called", "users"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert np.array_equal(mine.offsets, theirs.offsets)
        assert np.array_equal(mine.rows, theirs.rows)
    for name in ("opcodes", "shapes", "metadata"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert mine.values == theirs.values
        assert np.array_equal(mine.codes, theirs.codes)
    assert found.module == expected.module
    assert (found.computations, found.computation_names) == (expected.computations, expected.computation_names)
    for row in range(0, len(found), max(1, len(found) // 50)):
        assert found.instruction(row) == expected.instruction(row)


def test_columns_of_a_module_with_another_encoding_are_not_saved() -> None:
    proto = proto_of(module_of(TEXT))
    wrapped = b"\x0a" + _size(proto.SerializeToString()) + proto.SerializeToString()
    assert entries(Columns(wrapped)) is None
    assert entries(Columns(rewritten(proto, unpacked))) is None


def _size(data: bytes) -> bytes:
    return bytes([len(data) & 0x7F | 0x80, len(data) >> 7])


def test_columns_of_another_module_are_refused() -> None:
    one, other = (regular(file) for file in FILES[:2])
    for data, foreign in ((one, other), (other, one)):
        with pytest.raises(ModuleError, match="do not match the module"):
            read(data[: len(data) // 2], kept_of(Columns(foreign)))


@pytest.mark.parametrize("name", NAMES)
def test_a_part_that_is_missing_or_cut_off_is_refused(name: str) -> None:
    data = bytes(proto_of(load(FILES[0])).SerializeToString())
    kept = kept_of(Columns(data))
    with pytest.raises(ModuleError, match="do not match the module"):
        read(data, {part: value for part, value in kept.items() if part != name})
    if kept[name]:
        with pytest.raises(ModuleError, match="do not match the module"):
            read(data, kept | {name: kept[name][:-4]})


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("module", "computations", "contents", "ids")])
@pytest.mark.parametrize("value", [-1, 1 << 30])
def test_a_number_that_leads_outside_is_refused(name: str, value: int) -> None:
    data = bytes(proto_of(load(FILES[0])).SerializeToString())
    kept = kept_of(Columns(data))
    numbers = np.frombuffer(kept[name], "<i4").copy()
    if not len(numbers):
        pytest.skip("the module has none")
    for place in (0, len(numbers) // 2, len(numbers) - 1):
        changed = numbers.copy()
        changed[place] = value
        with pytest.raises(ModuleError, match="do not match the module"):
            read(data, kept | {name: changed.tobytes()})
