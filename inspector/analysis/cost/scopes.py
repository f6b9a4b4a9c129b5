"""Readable scopes from JAX's name stacks: `jit(step)/transpose(jvp(attention))/dot_general` is attention, backward.

Only the names of scopes and functions in a stack come from the user. The rest are transformations, from which
`hlo/source.py` reads the phase of a differentiated program, and JAX's names for parts of its control flow.
"""

from __future__ import annotations

import dataclasses
import re

from inspector.hlo.source import merged_names, phases
from inspector.support.name_stacks import RECOMPUTED, cut, names_of

_OF_JAX = frozenset({
    "while", "body", "cond", "closed_call", "core_call", "checkpoint", "remat", "remat2", RECOMPUTED,
    "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin", "eval_jaxpr", "pjit", "shard_map", "main",
})  # fmt: skip
_BRANCH = re.compile(r"^branch_\d+_fun$")


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """The scope of an operation.

    Attributes:
      path: names of the enclosing scopes and functions, outermost first, without the compiled function.
      phase: phase of a differentiated program (`hlo.source.PHASES`), joined by " + " if several; "" if unknown.
    """

    path: tuple[str, ...] = ()
    phase: str = ""


def scope_of(op_name: str) -> Scope:
    """Returns the scope from JAX's name stack; for operations that XLA merged, that of the first."""
    stack = [*cut(next(merged_names(op_name)))]
    inner = stack[1:-1] if stack and stack[0].startswith(("jit(", "pjit(", "pmap(")) else stack[:-1]
    path = tuple(name for part in inner for name in names_of(part) if not _is_of_jax(name))
    return Scope(path, " + ".join(phases(op_name)))


def operation_of(op_name: str) -> str:
    """Returns JAX's name of the operation itself, such as `dot_general`; "" for an argument's name, or if unknown."""
    return [*cut(next(merged_names(op_name)))][-1] if "/" in op_name else ""


def _is_of_jax(name: str) -> bool:
    return name in _OF_JAX or bool(_BRANCH.match(name))


_PLACES = re.compile(r"\['([^']*)'\]|\[\"([^\"]*)\"\]|\[([^\]]*)\]|\.?(\w+)")


def argument_path(name: str) -> tuple[str, ...]:
    """Splits an argument's name into its steps: params, layers, 0 and w for `params['layers'][0]['w']`."""
    return tuple(next(filter(None, step), "") for step in _PLACES.findall(name))


def names_above(name: str) -> tuple[str, ...]:
    """Returns an argument's name preceded by its prefixes, outermost first: `params`, `params['w']`."""
    return tuple(name[: step.end()] for step in _PLACES.finditer(name))
