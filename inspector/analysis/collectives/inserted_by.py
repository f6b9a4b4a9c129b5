"""The author of a collective: the user, JAX's autodiff, the partitioner or the compiler."""

from __future__ import annotations

from inspector.analysis.collectives.operations import Operation
from inspector.analysis.cost.phases import Phases
from inspector.errors import Unavailable
from inspector.hlo.source import merged_names

# jax.lax.parallel's primitives, as the last word of an op_name. Their asynchronous forms end in _start, _done.
_PRIMITIVES = frozenset(
    {
        *("psum", "psum2", "psum_invariant", "pmax", "pmin", "preduced"),
        *("unreduced_psum", "unreduced_pmax", "unreduced_pmin", "unreduced_reduce_scatter"),
        *("all_gather", "all_gather_invariant", "all_gather_reduced", "reduce_scatter", "psum_scatter"),
        *("all_to_all", "ragged_all_to_all", "ppermute", "pgather", "pbroadcast", "pbroadcast_dynamic"),
    }
)

_MANUAL = ("shard_map", "shmap_body")
"""Marks in the op_name of every operation in code where users call collectives over partitions."""

INSERTED_BY_RULE = (
    "user: the op_name ends in a collective of jax.lax (psum, all_gather, ppermute, ...). autodiff: the same in the"
    " backward pass, which JAX creates by transposing the forward pass. Collectives in the backward rule of a custom_vjp"
    " have the same marks and count as autodiff; those of forward-mode tangents have no mark and count as user."
    " partitioner: XLA marked it (is_spmd_generated), or it joins partitions for another operation."
    " compiler: it joins replicas for another operation. A collective without an op_name counts as partitioner if"
    " it joins partitions for an operation of a program without shard_map; otherwise its author is unknown."
    " user + autodiff: XLA merged collectives of both."
)
"""Explains to users how `Collective.inserted_by` is decided."""


def inserted_by(
    collective: Operation, op_name: str, joins_partitions: bool, phases: Phases, relative: str = ""
) -> str | Unavailable:
    """Returns the author of a collective, following `INSERTED_BY_RULE`.

    Args:
      collective: the collective.
      op_name: its own op_name, or that of the instruction that contains it; "" if there is none.
      joins_partitions: whether its groups join partitions of a program that has several.
      phases: phases of its module.
      relative: op_name of the operation that needs the collective, for use if its own is lost
        (`analysis/collectives/origins.py`); "" if unknown.
    """
    written = [name for name in merged_names(op_name) if primitive(name) in _PRIMITIVES]
    if written:
        by = {"autodiff" if phases.of(collective.instruction, name) == ("backward",) else "user" for name in written}
        return " + ".join(sorted(by, reverse=True))
    if any(i.frontend_attributes.get("is_spmd_generated") == "true" for i in (collective.operation, collective.holder)):
        return "partitioner"
    if not op_name:
        if not relative or not joins_partitions:
            return Unavailable("the instruction has no op_name, so its origin is unknown")
        if any(_is_users(origin.op_name) for origin in collective.instruction.module.known_origins):
            return Unavailable("the instruction has no op_name, and the program also calls collectives in a shard_map")
        return "partitioner"
    return "partitioner" if joins_partitions else "compiler"


def is_manual(op_name: str) -> bool:
    """Reports whether an operation is in a shard_map, where users call collectives over partitions."""
    return any(mark in op_name for mark in _MANUAL)


def _is_users(op_name: str) -> bool:
    """Reports whether an operation is in a shard_map, or is a collective of `jax.lax`."""
    return is_manual(op_name) or any(primitive(n) in _PRIMITIVES for n in merged_names(op_name))


def primitive(op_name: str) -> str:
    """Returns the primitive of an op_name: `psum` for `jit(f)/shard_map/psum`.

    Drops parameters in brackets and the suffixes of asynchronous forms.
    """
    last = op_name.rpartition("/")[2].partition("[")[0].rstrip(")")
    return last.removesuffix("_start").removesuffix("_done")
