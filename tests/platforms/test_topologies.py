"""The existing topologies and their notation."""

from __future__ import annotations

import pytest

from inspector.errors import TargetError
from inspector.platforms import TPU
from inspector.platforms.topologies import Hosts, Slices, sizes

PODS = [chip.topologies for chip in TPU.chips]


@pytest.mark.parametrize("slices", PODS)
def test_neighbors_are_legal_and_include_the_topology_itself(slices: Slices) -> None:
    wanted = (2,) * slices.rank
    neighbors = slices.neighbors(wanted)
    assert wanted in neighbors
    assert len(neighbors) == 4
    assert all(slices.is_legal(topology) for topology in neighbors)


def test_slices() -> None:
    flat, tall = Slices(2, 256, 16), Slices(3, 9216, 24, devices_per_chip=2)
    assert [flat.read("", "tpu:v5e", text) for text in ("", "1", "8", "2x4", "16x16")] == [
        (1, 1), (1, 1), (2, 4), (2, 4), (16, 16),
    ]  # fmt: skip
    assert tall.read("", "tpu:tpu7x", "2x2") == (2, 2, 1)
    assert (tall.device_count((2, 2, 1)), flat.device_count((2, 4))) == (8, 8)
    assert (tall.with_devices(9, (1, 1, 1)), flat.with_devices(257, (1, 1))) == ((2, 2, 2), None)
    assert flat.write((2, 4)) == "2x4"
    for text in ("1x2", "3x4", "16x18", "17", "0", "x", "2x2x2"):
        with pytest.raises(TargetError, match="'tpu:v5e:"):
            flat.read(f"tpu:v5e:{text}", "tpu:v5e", text)


def test_hosts() -> None:
    single, double = Hosts(max_gpus=16), Hosts(max_gpus=16, devices_per_chip=2)
    assert [single.read("", "gpu:h100", text) for text in ("", "8", "2x8")] == [(1, 1), (1, 8), (2, 8)]
    assert [single.write(topology) for topology in ((1, 8), (2, 8), (2, 1))] == ["8", "2x8", "2x1"]
    assert (single.device_count((2, 8)), double.device_count((2, 8))) == (16, 32)
    assert [single.with_devices(count, (1, 8)) for count in (1, 8, 9, 16, 17)] == [
        (1, 1), (1, 8), (2, 8), (2, 8), None,
    ]  # fmt: skip
    assert [double.with_devices(count, (1, 1)) for count in (1, 2, 3)] == [(1, 1), (1, 1), (1, 2)]
    for text in ("17", "2x9", "1x1x1", "0", "eight"):
        with pytest.raises(TargetError, match=r"expected the number of GPUs in one host.*at most 16 GPUs"):
            single.read(f"gpu:h100:{text}", "gpu:h100", text)


def test_sizes() -> None:
    assert [sizes(text) for text in ("2x4", "8", "02")] == [(2, 4), (8,), (2,)]
    assert [sizes(text) for text in ("", "x", "2x", "-1", "0x2", "²", "1234567890")] == [None] * 7
