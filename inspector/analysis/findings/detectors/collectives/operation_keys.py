"""Finds operations of the optimized HLO by the names and lines that they had before optimization."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from inspector.analysis.findings.at_line import Lines, is_same_line, lines_of
from inspector.hlo.module import Instruction
from inspector.hlo.source import Origin, merged_names

Key: TypeAlias = tuple[str, Lines]
"""The last part of an operation's name and its innermost lines. Names before optimization begin at their function."""

_CALLS = {
    "all_gather": "all_gather", "all_to_all": "all_to_all", "pmax": "pmax", "pmin": "pmin", "ppermute": "ppermute", "psum": "psum",
    "psum_scatter": "psum_scatter", "reduce_scatter": "psum_scatter",
}  # fmt: skip


def function_of(op_name: str) -> str:
    """Returns the function of `jax.lax` that a collective comes from; "" for those of the partitioner."""
    return _CALLS.get(next(merged_names(op_name)).rpartition("/")[2].removesuffix("_invariant"), "")


def keys(origin: Origin) -> list[Key]:
    """Returns the keys of the operations that became an instruction; [] if their lines are unknown."""
    lines = lines_of(origin.frames[:2])
    return [(name.rpartition("/")[2], lines) for name in merged_names(origin.op_name)] if lines else []


def keys_in(instruction: Instruction) -> list[Key]:
    """Returns the keys of an operation, and of those in a function that it calls, which get the lines of the call."""
    own = keys(instruction.origin)
    called = instruction.called_computations[0].instructions if instruction.opcode == "call" and own else ()
    return [*own, *((each.op_name.rpartition("/")[2], own[0][1]) for each in called)]


def is_beside(origin: Origin, wanted: Collection[Key]) -> bool:
    """Reports whether a collective has the name and lines of an operation, or those lines and the name of an argument (JAX 0.12)."""
    is_argument = "/" not in origin.op_name
    return any(
        (is_argument or name == other) and is_same_line(lines, others)
        for name, lines in keys(origin)
        for other, others in wanted
    )
