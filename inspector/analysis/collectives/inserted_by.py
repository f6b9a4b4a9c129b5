"""On whose behalf a collective is there: the user's, JAX's autodiff's, the partitioner's or the compiler's."""

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
"""In the op_name of every operation where a user calls collectives of partitions."""

INSERTED_BY_RULE = (
    "user: the op_name ends in a collective of jax.lax (psum, all_gather, ppermute, ...). autodiff: such a one in the"
    " backward pass, which JAX wrote when it transposed the forward one; one in a custom_vjp's backward rule has the"
    " same marks and counts here too, and those of forward-mode tangents, which have none, count as the user's."
    " partitioner: XLA marked it so (is_spmd_generated), or it joins partitions on behalf of another operation."
    " compiler: it joins replicas on behalf of another operation. A collective without an op_name is the partitioner's if"
    " it joins partitions for an operation of a program without shard_map; else Unavailable. user + autodiff: XLA made"
    " one of both."
)
"""How `Collective.inserted_by` is decided, for a reader."""


def inserted_by(
    found: Operation, op_name: str, joins_partitions: bool, phases: Phases, relative: str = ""
) -> str | Unavailable:
    """Who wrote a collective, by `INSERTED_BY_RULE`.

    Args:
      found: the collective.
      op_name: its own, or that of what holds it; "" where there is none.
      joins_partitions: whether its groups hold partitions of a program that has several.
      phases: of its module.
      relative: the op_name of the operation that it is there for, where its own is lost (`analysis/collectives/origins.py`); "" if unknown.
    """
    asked = [name for name in merged_names(op_name) if primitive(name) in _PRIMITIVES]
    if asked:
        by = {"autodiff" if phases.of(found.instruction, name) == ("backward",) else "user" for name in asked}
        return " + ".join(sorted(by, reverse=True))
    if any(i.frontend_attributes.get("is_spmd_generated") == "true" for i in (found.operation, found.holder)):
        return "partitioner"
    if not op_name:
        if not relative or not joins_partitions:
            return Unavailable("the instruction has no op_name, so its origin is unknown")
        if any(_is_of_user(origin.op_name) for origin in found.instruction.module.known_origins):
            return Unavailable(
                "the instruction has no op_name, and the program has collectives of its own in a shard_map"
            )
        return "partitioner"
    return "partitioner" if joins_partitions else "compiler"


def _is_of_user(op_name: str) -> bool:
    """Reports whether an operation is where users call collectives of partitions, or is one."""
    return any(mark in op_name for mark in _MANUAL) or any(primitive(n) in _PRIMITIVES for n in merged_names(op_name))


def primitive(op_name: str) -> str:
    """`jit(f)/shard_map/psum` -> `psum`; parameters in brackets and an ending of asynchronous forms dropped."""
    last = op_name.rpartition("/")[2].partition("[")[0].rstrip(")")
    return last.removesuffix("_start").removesuffix("_done")
