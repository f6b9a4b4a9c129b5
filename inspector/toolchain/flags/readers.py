"""Who reads a flag: which compilers, and which flags only once, when a process starts."""

from __future__ import annotations

from inspector.toolchain.flags.types import is_flag_of_libtpu

TARGETS = ("cpu", "gpu", "tpu")

READ_AT_START = frozenset({"xla_cpu_max_isa"})
"""Flags that XLA reads when a process starts its CPU client; those of a compile it accepts and ignores."""

# How the names of flags begin that one compiler reads.
_PREFIXES = {"xla_cpu_": "cpu", "xla_gpu_": "gpu", "xla_tpu_": "tpu"}


def flag_targets(name: str) -> tuple[str, ...]:
    """Those of `TARGETS` whose compiler a flag is for, as far as its name and origin tell."""
    if is_flag_of_libtpu(name):
        return ("tpu",)
    return next(((target,) for prefix, target in _PREFIXES.items() if name.startswith(prefix)), TARGETS)
