"""The platforms: everything that differs between them, said once, one file a platform.

What needs JAX for a platform is in its module of `inspector/_jax` (`Platform.plugin`).
"""

from __future__ import annotations

from collections.abc import Iterator

from inspector.platforms.chip import Chip, Peak
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
    "Chip",
    "Peak",
    "Platform",
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
"""What targets begin with, and whose compiler a flag can be for."""

NAMES = tuple(platform.name for platform in PLATFORMS)
"""What users call them."""


def named(name: str) -> Platform:
    """The platform that users or JAX call so; one of which nothing is known where JAX has a platform that is none of these."""
    found = next((p for p in PLATFORMS if name in (p.name, p.lowering)), None)
    return found or Platform(name=name, kind=name, lowering=name, words=name)


def attached(kind: str, version: str) -> Platform:
    """The platform of devices that are here.

    Args:
      kind: JAX's name of their platform, such as "gpu".
      version: what their client says of itself, which has the name that lowering goes by.
    """
    of_kind = [platform for platform in PLATFORMS if platform.kind == kind]
    return next((p for p in of_kind if p.lowering in version.lower()), of_kind[0] if of_kind else named(kind))


def of_target(kind: str, chip: str) -> Platform:
    """The platform of a target, by what it begins with and its chip, "" where it has none."""
    of_kind = [platform for platform in PLATFORMS if platform.kind == kind]
    return next((p for p in of_kind if not chip or p.chip(chip) is not None), named(kind))


def chips_of_kind(kind: str) -> dict[str, Chip]:
    """The chips that a target of that kind can name."""
    return {chip.name: chip for platform in PLATFORMS if platform.kind == kind for chip in platform.chips}


def chips() -> Iterator[Chip]:
    """All that can be compiled for."""
    for platform in PLATFORMS:
        yield from platform.chips
