"""Platforms: all facts in which they differ, in one file per platform.

Code of a platform that needs JAX is in its module of `inspector/_jax/compiling` (`Platform.plugin`).
"""

from __future__ import annotations

from collections.abc import Iterator

from inspector.platforms.chip import CacheLevel, Chip, Peak, Rate
from inspector.platforms.cpu import CPU
from inspector.platforms.cuda import CUDA
from inspector.platforms.platform import Platform
from inspector.platforms.rocm import ROCM
from inspector.platforms.tpu import TPU

__all__ = [
    "CPU",
    "CUDA",
    "KINDS",
    "NAMES",
    "PLATFORMS",
    "ROCM",
    "TPU",
    "CacheLevel",
    "Chip",
    "Peak",
    "Platform",
    "Rate",
    "attached",
    "chips",
    "chips_of_kind",
    "named",
    "of_target",
]

PLATFORMS: tuple[Platform, ...] = (
    CPU,
    TPU,
    CUDA,
    ROCM,
)

KINDS = tuple(sorted({platform.kind for platform in PLATFORMS}))
"""The first parts of targets. Each flag of XLA is for one of these compilers, or for all."""

NAMES = tuple(platform.name for platform in PLATFORMS)
"""The platforms' names, as users write them."""


def named(name: str) -> Platform:
    """Returns the platform with a name of ours or of JAX's; an empty `Platform` for a name that is not listed here."""
    known = next((p for p in PLATFORMS if name in (p.name, p.lowering)), None)
    return known or Platform(name=name, kind=name, lowering=name, words=name)


def attached(kind: str, version: str) -> Platform:
    """Returns the platform of the attached devices.

    Args:
      kind: JAX's name of their platform, such as "gpu".
      version: the `platform_version` of their client, which contains the name that JAX lowers for.
    """
    of_kind = [platform for platform in PLATFORMS if platform.kind == kind]
    return next((p for p in of_kind if p.lowering in version.lower()), of_kind[0] if of_kind else named(kind))


def of_vendor(kind: str, vendor: str) -> Platform:
    """Returns the platform of a kind by the vendor of its devices, in any case; the first of this kind for another vendor."""
    of_kind = [platform for platform in PLATFORMS if platform.kind == kind]
    theirs = (p for p in of_kind if p.vendor and p.vendor in vendor.lower())
    return next(theirs, of_kind[0] if of_kind else named(kind))


def of_target(kind: str, chip: str) -> Platform:
    """Returns the platform of a target, from its kind and its chip; the chip is "" if the target has none."""
    of_kind = [platform for platform in PLATFORMS if platform.kind == kind]
    return next((p for p in of_kind if not chip or p.chip(chip) is not None), named(kind))


def chips_of_kind(kind: str) -> dict[str, Chip]:
    """Returns the chips that a target of a kind can name, by name."""
    return {chip.name: chip for platform in PLATFORMS if platform.kind == kind for chip in platform.chips}


def chips() -> Iterator[Chip]:
    """Yields all chips that can be compiled for."""
    for platform in PLATFORMS:
        yield from platform.chips
