"""`TargetLinks`: the links of a target's devices, for estimates of collectives."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from inspector import platforms
from inspector.analysis.collectives.exchanges.links import HOP_S, speed_of_one_link
from inspector.analysis.collectives.exchanges.switch import Switch
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.platforms import Chip, Peak
from inspector.platforms.topologies import Slices

Network: TypeAlias = Torus | Switch

_ASSUMED_SLICE = "on a slice of assumed shape"
_ASSUMED_LAYOUT = "on links of unknown layout"


@dataclasses.dataclass(frozen=True, slots=True)
class TargetLinks:
    """The links of a target.

    Attributes:
      network: the slice or the host; Unavailable if nothing is known about the chip.
      linked_devices: number of consecutive devices that the links connect; 0 for all.
      source: publication of the speed.
      doubt: the assumed part; "" if there is none.
    """

    network: Network | Unavailable
    linked_devices: int = 0
    source: str = ""
    doubt: str = ""


def links_of(peak: Peak | Unavailable, target: Target | None, device_count: int) -> TargetLinks:
    """Returns the links of a target's devices.

    Args:
      peak: figures of one device, whose speed counts.
      target: the target; None if unknown. Without a topology, as for attached TPUs, the smallest slice is assumed.
      device_count: number of devices of the program.
    """
    if isinstance(peak, Unavailable):
        return TargetLinks(peak)
    chip, both = _chip(peak, target), peak.interconnect_bytes_per_s
    linked, source = peak.linked_devices, peak.links_source
    if chip is not None and isinstance(chip.topologies, Slices):
        slices = chip.topologies
        has_shape = target is not None and target.chip and slices.device_count(target.topology) >= device_count
        shape = target.topology if target is not None and has_shape else slices.smallest(device_count)
        if shape is not None:
            whole = both if isinstance(both, Unavailable) else both * slices.devices_per_chip
            speed = speed_of_one_link(whole, slices.rank)
            torus = Torus(shape, slices.wraps(shape), speed, HOP_S, slices.devices_per_chip)
            return TargetLinks(torus, 0, source, "" if has_shape else _ASSUMED_SLICE)
    one_way = both if isinstance(both, Unavailable) else both / 2
    is_layout_known = chip is not None and not isinstance(chip.topologies, Slices)
    switch = Switch(max(device_count, 1), one_way, HOP_S, peak.switches_reduce)
    return TargetLinks(switch, linked, source, "" if is_layout_known else _ASSUMED_LAYOUT)


def _chip(peak: Peak, target: Target | None) -> Chip | None:
    if target is not None and target.chip:
        return platforms.chips_of_kind(target.kind).get(target.chip)
    return next((chip for chip in platforms.chips() if chip.name == peak.chip), None)
