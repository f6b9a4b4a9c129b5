"""Peak performance of chips: the roofs of `analysis/cost/roofline.py`. The figures come from `inspector/platforms`.

A CPU has none that are published: `analysis/cost/measured_peak.py` measures them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector import platforms
from inspector.compilation.placement import device_kind
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.platforms import Peak, Rate


def peak_of(target: Target, devices: Sequence[str] = ()) -> Peak | Unavailable:
    """Returns the published peak performance of one of a target's JAX devices.

    Args:
      target: the target; the chip of "attached" is read from `devices`.
      devices: as in `Compiled.devices`.
    """
    if target.kind == "cpu" or (not target.chip and kind_of(devices) == "cpu"):
        return Unavailable(
            "peak figures for the part of this CPU that XLA uses are not published",
            "pass peak=inspector.measured_peak() to the roofline",
        )
    chip = platforms.chips_of_kind(target.kind)[target.chip] if target.chip else _chip_of(kind_of(devices))
    if chip is None or chip.peak is None:
        name = f"the {chip.name}" if chip else kind_of(devices) or str(target)
        return Unavailable(f"inspector has no published figures for {name}", "pass your own Peak to the roofline")
    return _shared(chip.peak, chip.topologies.devices_per_chip)


def kind_of(devices: Sequence[str]) -> str:
    """Returns JAX's device kind of the first of `Compiled.devices`; "" if there are none."""
    return device_kind(devices[0]) if devices else ""


def _chip_of(kind: str) -> platforms.Chip | None:
    """Returns the chip with JAX's device kind, or the first whose kind starts with it; None if there is none."""
    known = list(platforms.chips())
    exact = (chip for chip in known if kind in (chip.device_kind, *chip.other_kinds))
    longer = (chip for chip in known if kind and chip.device_kind.startswith(f"{kind} "))
    return next(exact, None) or next(longer, None)


def _shared(peak: Peak, devices: int) -> Peak:
    """Returns the share of one device of a chip that has several."""
    if devices == 1:
        return peak

    def part(value: float | Unavailable) -> float | Unavailable:
        return value if isinstance(value, Unavailable) else value / devices

    def whole(value: int | Unavailable) -> int | Unavailable:
        return value if isinstance(value, Unavailable) else value // devices

    def share(rate: Rate | Unavailable) -> Rate | Unavailable:
        return rate if isinstance(rate, Unavailable) else Rate(rate.per_s / devices, f"1/{devices} of {rate.source}")

    return dataclasses.replace(
        peak,
        flops_per_s={name: value / devices for name, value in peak.flops_per_s.items()},
        memory_bytes_per_s=peak.memory_bytes_per_s / devices,
        memory_bytes=whole(peak.memory_bytes),
        vmem_bytes=whole(peak.vmem_bytes),
        interconnect_bytes_per_s=part(peak.interconnect_bytes_per_s),
        note=f"one of the {devices} devices of a chip",
        vector=share(peak.vector),
        transcendental=share(peak.transcendental),
        vmem=share(peak.vmem),
        host=share(peak.host),
        transforms=share(peak.transforms),
        strided=share(peak.strided),
    )
