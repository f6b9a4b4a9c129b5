"""HLO opcodes that several packages use."""

from __future__ import annotations

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
"""Opcodes of collectives, without the suffixes of their asynchronous forms."""
