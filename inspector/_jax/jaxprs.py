"""Jaxprs as text, with the equation of every line; and the mesh that they name.

Private JAX: `core.pp_eqn`, `core.pp_toplevel_jaxpr`, `core.pp_eqn_rules` (printing),
`source_info_util.user_frames` (locations).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from jax._src import core, source_info_util
from jax._src import pretty_printer as pp

# One printing at a time: `core.pp_eqn` is swapped while a jaxpr prints, because its own source map
# holds tracebacks, which equations of one Python line share, and we need the equation itself.
_printing = threading.Lock()


def print_jaxpr(jaxpr: Any, width: int = 100) -> tuple[str, list[Any]]:
    """A jaxpr's text and, for each line, the equation that it belongs to or None."""
    source_map: list[list[tuple[int, int, Any]]] = []
    with _printing:
        original = core.pp_eqn
        core.pp_eqn = _print_equation
        try:
            doc = core.pp_toplevel_jaxpr(open_jaxpr(jaxpr))
        finally:
            core.pp_eqn = original
    text = doc.format(width=width, use_color=False, source_map=source_map)
    equations = [next((s for _, _, s in line if hasattr(s, "primitive")), None) for line in source_map]
    return text, equations


def _print_equation(eqn: Any, context: Any, settings: Any) -> Any:
    rule = core.pp_eqn_rules.get(eqn.primitive, core._pp_eqn) if settings.custom_pp_eqn_rules else core._pp_eqn
    return pp.source_map(rule(eqn, context, settings), eqn)


def open_jaxpr(jaxpr: Any) -> Any:
    """The `Jaxpr` inside a `ClosedJaxpr`, which JAX 0.11 merged into one."""
    return getattr(jaxpr, "jaxpr", jaxpr)


Place = tuple[str, tuple[tuple[str, int, str], ...]]


def equation_places(jaxpr: Any, name: str) -> dict[int, list[Place]]:
    """Where each equation stands, by `id`: `op_name` as the lowering writes it, and user frames.

    An equation of an inner jaxpr has one place for each way to it, and the frames of the equation
    that calls it when it has none of its own.

    Args:
      jaxpr: the whole jaxpr.
      name: the outermost scope, such as `jit(f)`.
    """
    places: dict[int, list[Place]] = {}
    _add_places(open_jaxpr(jaxpr), source_info_util.new_name_stack(*([name] if name else [])), (), places, 0)
    return places


def _add_places(jaxpr: Any, outer: Any, outer_frames: Any, places: dict[int, list[Place]], depth: int) -> None:
    for eqn in jaxpr.eqns:
        found = places.setdefault(id(eqn), [])
        if len(found) >= _PLACES:
            continue
        stack = outer + eqn.source_info.name_stack
        own = tuple(
            (f.file_name, f.start_line, f.function_name)
            for f in source_info_util.user_frames(eqn.source_info.traceback)
        )
        frames = own or outer_frames
        found.append((f"{stack}/{eqn.primitive.name}" if str(stack) else eqn.primitive.name, frames))
        if depth < _DEPTH:
            for scope, inner in _inner_jaxprs(eqn):
                _add_places(inner, stack.extend(scope) if scope else stack, frames, places, depth + 1)


def _inner_jaxprs(eqn: Any) -> Iterator[tuple[str, Any]]:
    """An equation's jaxprs, each with the scope that its lowering adds."""
    for parameter, value in eqn.params.items():
        many = isinstance(value, tuple)
        for index, jaxpr in enumerate(value if many else (value,)):
            if hasattr(open_jaxpr(jaxpr), "eqns"):
                yield _scope(eqn, parameter, index), open_jaxpr(jaxpr)


def _scope(eqn: Any, parameter: str, index: int) -> str:
    kind = eqn.primitive.name
    if kind in ("jit", "pjit"):
        return f"jit({eqn.params['name']})"
    if kind == "scan":
        return "while/body"
    if kind == "while":
        return "while/cond" if parameter.startswith("cond") else "while/body"
    if kind == "cond":
        return f"cond/branch_{index}_fun"
    return {"custom_jvp_call": "custom_jvp_call", "checkpoint": "checkpoint", "remat2": "checkpoint"}.get(kind, "")


# Bounds for functions that call one another many times over; the first places stand for the rest.
_PLACES = 32
_DEPTH = 64


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation, those of inner jaxprs included, each jaxpr once."""
    seen: set[int] = set()
    stack = [open_jaxpr(jaxpr)]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for eqn in current.eqns:
            yield eqn
            stack.extend(open_jaxpr(j) for j in core.jaxprs_in_params(eqn.params))


def mesh_of(jaxpr: Any) -> Any:
    """The mesh of the first `shard_map`, or None."""
    for eqn in equations(jaxpr):
        if eqn.primitive.name == "shard_map":
            return eqn.params["mesh"]
    return None
