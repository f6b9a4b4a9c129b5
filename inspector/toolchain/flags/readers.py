"""Who reads a flag: which compilers, and which flags only once, when a process starts."""

from __future__ import annotations

from inspector.platforms import KINDS, PLATFORMS, TPU
from inspector.toolchain.flags.types import is_flag_of_libtpu

TARGETS = KINDS
"""Whose compiler a flag can be for."""

READ_AT_START = frozenset({"xla_cpu_max_isa"})
"""Flags that XLA reads when a process starts its CPU client; those of a compile it accepts and ignores."""


def flag_targets(name: str) -> tuple[str, ...]:
    """Those of `TARGETS` whose compiler a flag is for, as far as its name and origin tell."""
    if is_flag_of_libtpu(name):
        return (TPU.kind,)
    return next(((p.kind,) for p in PLATFORMS if name.startswith(p.flag_prefix)), TARGETS)
