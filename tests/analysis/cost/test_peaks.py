"""Published peaks of a target's device, which is a part of a chip where that has several."""

from __future__ import annotations

import dataclasses

import pytest

from inspector import platforms
from inspector.analysis.cost.peaks import _shared, peak_of
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.platforms import Chip, Peak

KNOWN = [chip for chip in platforms.chips() if chip.peak is not None and chip.topologies.devices_per_chip > 1]


@pytest.mark.parametrize("chip", KNOWN, ids=lambda chip: chip.name)
def test_the_devices_of_a_chip_sum_to_it(chip: Chip) -> None:
    devices, whole = chip.topologies.devices_per_chip, chip.peak
    assert whole is not None
    peak = peak_of(Target.parse("attached"), [f"{chip.device_kind} 0"])
    assert isinstance(peak, Peak)
    for field in ("memory_bytes_per_s", "memory_bytes", "vmem_bytes", "interconnect_bytes_per_s"):
        one, all_ = getattr(peak, field), getattr(whole, field)
        assert one == all_ if isinstance(all_, Unavailable) else one * devices == pytest.approx(all_)
    assert {name: value * devices for name, value in peak.flops_per_s.items()} == pytest.approx(whole.flops_per_s)
    assert peak.note == f"one of the {devices} devices of a chip"


def test_a_chip_that_is_one_device_is_whole() -> None:
    chip = next(each for each in platforms.chips() if each.peak is not None and each.topologies.devices_per_chip == 1)
    assert peak_of(Target.parse("attached"), [f"{chip.device_kind} 0"]) is chip.peak


def test_bytes_of_several_devices_are_whole_numbers() -> None:
    chip = KNOWN[0]
    assert chip.peak is not None
    peak = _shared(dataclasses.replace(chip.peak, memory_bytes=7, vmem_bytes=Unavailable("none")), 2)
    assert peak.memory_bytes == 3
    assert isinstance(peak.memory_bytes, int)
    assert peak.vmem_bytes == Unavailable("none")
