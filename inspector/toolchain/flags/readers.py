"""The compilers that read a flag, and the flags that are read only when a process starts."""

from __future__ import annotations

from inspector.platforms import KINDS, PLATFORMS, TPU
from inspector.toolchain.flags.types import is_flag_of_libtpu

TARGETS = KINDS
"""The compilers for which a flag can be."""

READ_AT_START = frozenset({"xla_cpu_max_isa"})
"""Flags that XLA reads only when a process starts its CPU client. In compile options, it accepts and ignores them."""


def flag_targets(name: str) -> tuple[str, ...]:
    """Returns the members of `TARGETS` whose compiler reads a flag, judging by its name and origin."""
    if is_flag_of_libtpu(name):
        return (TPU.kind,)
    return next(((p.kind,) for p in PLATFORMS if name.startswith(p.flag_prefix)), TARGETS)
