"""Names of HLO's operations that several rooms ask for."""

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
"""Collectives, but for the endings of their asynchronous forms."""
