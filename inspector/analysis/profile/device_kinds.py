"""The platform and the kind of the devices in a profile, from the statistics of their planes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector import platforms
from inspector.errors import Unavailable
from inspector.platforms.chip import Chip
from inspector.profiles.xspace import XSpace

_PLANE = re.compile(r"^/device:(GPU|TPU):\d+")
_NEAR = 0.1  # vendors round the size of a memory; the profiler reports the part that programs can use


def platform_of(space: XSpace) -> str:
    """Returns inspector's name of the platform of a profile's devices."""
    for plane in space.planes:
        match = _PLANE.match(plane.name)
        if match and len(plane):
            return platforms.of_vendor(match[1].lower(), str(plane.stats.get("device_vendor", ""))).name
    return "cpu"


def device_kind(space: XSpace) -> str | Unavailable:
    """Returns JAX's kind of the devices in a profile, such as "AMD Instinct MI300X"; "cpu" if only CPUs ran."""
    platform = platform_of(space)
    if platform == "cpu":
        return "cpu"
    plane = next(plane for plane in space.planes if _PLANE.match(plane.name) and len(plane))
    named = str(plane.stats.get("device_type_string", ""))
    kinds = [chip for chip in platforms.named(platform).chips if named and _is_named(chip, named)]
    chips = kinds or [chip for chip in platforms.named(platform).chips if _fits(chip, plane.stats)]
    if len(chips) == 1:
        return chips[0].device_kind
    found = ", ".join(chip.name for chip in chips) or "none that is known"
    return Unavailable(
        f"the profile does not name its chip, and its figures fit {found}",
        "pass the chip's inspector.Peak to the roofline",
    )


def _is_named(chip: Chip, name: str) -> bool:
    return name.lower() in {each.lower() for each in (chip.name, chip.device_kind, *chip.aliases, *chip.other_kinds)}


def _fits(chip: Chip, stats: Mapping[str, object]) -> bool:
    """Reports whether a chip has the memory that a plane's statistics report."""
    memory = stats.get("memory_size")
    if chip.peak is None or isinstance(chip.peak.memory_bytes, Unavailable) or not isinstance(memory, int):
        return False
    return abs(memory / chip.peak.memory_bytes - 1) < _NEAR
