"""What chips can do at most: the roofs of `analysis/cost/roofline.py`. The figures are the platforms'."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from inspector import platforms
from inspector.compilation.placement import device_kind
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.platforms.chip import MIB, Peak


def peak_of(target: Target, devices: Sequence[str] = ()) -> Peak | Unavailable:
    """What one of a target's JAX devices can do at most, where its maker publishes it.

    Args:
      target: "attached" goes by its devices.
      devices: as in `Compiled.devices`.
    """
    if target.kind == "cpu" or (not target.chip and kind_of(devices) == "cpu"):
        return Unavailable(
            "no maker publishes what a share of this CPU can do", "give the roofline peak=inspector.measured_peak()"
        )
    chip = platforms.chips_of_kind(target.kind)[target.chip] if target.chip else _chip_of(kind_of(devices))
    if chip is None or chip.peak is None:
        what = f"the {chip.name}" if chip else ", ".join(devices[:1]) or str(target)
        return Unavailable(f"inspector knows no published figures of {what}", "give the roofline a Peak of your own")
    return _shared(chip.peak, chip.topologies.devices_per_chip)


def kind_of(devices: Sequence[str]) -> str:
    """JAX's name of the first of `Compiled.devices`; "" for none."""
    return device_kind(devices[0]) if devices else ""


def _chip_of(kind: str) -> platforms.Chip | None:
    """The chip that JAX calls so, or the first whose name goes on from there; None for one that is not known."""
    known = list(platforms.chips())
    exact = (chip for chip in known if kind in (chip.device_kind, *chip.other_kinds))
    longer = (chip for chip in known if kind and chip.device_kind.startswith(f"{kind} "))
    return next(exact, None) or next(longer, None)


def _shared(peak: Peak, devices: int) -> Peak:
    """The part of one device, where a chip has several."""
    if devices == 1:
        return peak

    def part(value: float | Unavailable) -> float | Unavailable:
        return value if isinstance(value, Unavailable) else value / devices

    def whole(value: int | Unavailable) -> int | Unavailable:
        return value if isinstance(value, Unavailable) else value // devices

    return dataclasses.replace(
        peak,
        flops_per_s={name: value / devices for name, value in peak.flops_per_s.items()},
        memory_bytes_per_s=peak.memory_bytes_per_s / devices,
        memory_bytes=whole(peak.memory_bytes),
        vmem_bytes=whole(peak.vmem_bytes),
        interconnect_bytes_per_s=part(peak.interconnect_bytes_per_s),
        note=f"one of the {devices} devices of a chip",
    )


_SIZE = 1024
_COPIED = 32 * MIB


def measured_peak(clock: Callable[[], float] = time.perf_counter) -> Peak:
    """What this machine's CPU does now, measured with NumPy: a matrix product and a copy. Takes a second.

    Not a maker's figure, and not XLA's code: the best of a few tries on a machine that may be busy.

    Args:
      clock: seconds; for tests.
    """
    a = np.ones((_SIZE, _SIZE), np.float32)
    product_s = min(_seconds(clock, lambda: a @ a) for _ in range(5))
    source, copy = np.ones(_COPIED // 4, np.float32), np.empty(_COPIED // 4, np.float32)
    copy_s = min(_seconds(clock, lambda: np.copyto(copy, source)) for _ in range(5))
    unknown = Unavailable("not measured")
    return Peak(
        "cpu",
        {"f32": 2 * _SIZE**3 / product_s},
        2 * _COPIED / copy_s,
        unknown,
        Unavailable("a CPU has none"),
        unknown,
        "measured on this machine with NumPy",
    )


def _seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    started = clock()
    work()
    return clock() - started
