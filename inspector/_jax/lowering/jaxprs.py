"""Prints jaxprs as text with the equations of every line, and finds the mesh that they name.

Private JAX: `core.pp_eqn`, `core.pp_toplevel_jaxpr`, `core.pp_eqn_rules`, `pretty_printer.text`
(printing), `source_info_util.user_frames` (locations).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from jax._src import core, source_info_util
from jax._src import pretty_printer as pp

# One thread prints at a time: `core.pp_eqn` is replaced while a jaxpr prints. JAX's own source map
# has tracebacks, which equations of one Python line share, but we need the equation itself.
_printing = threading.Lock()
# Replaces line breaks in a parameter's text: to the printer, such a text is one line.
_BREAK = "\ufdd0"
_WIDTH = 100


def print_jaxpr(jaxpr: Any) -> tuple[str, list[tuple[Any, ...]]]:
    """Returns a jaxpr's text and the equations of each line; a short inner jaxpr is on its caller's line."""
    source_map: list[list[tuple[int, int, Any]]] = []
    with _own_printing():
        doc = core.pp_toplevel_jaxpr(open_jaxpr(jaxpr))
    text = doc.format(width=_WIDTH, use_color=False, source_map=source_map)
    equations = [_distinct(s for _, _, s in line if hasattr(s, "primitive")) for line in source_map]
    lines = zip(text.split("\n"), equations, strict=True)
    return text.replace(_BREAK, "\n"), [here for line, here in lines for _ in range(1 + line.count(_BREAK))]


@contextlib.contextmanager
def _own_printing() -> Iterator[None]:
    """Makes JAX's printer record the equation of each line, and print each text on one line, in this thread only."""
    with _printing:
        original, here = (core.pp_eqn, pp.text), threading.get_ident()

        def text(content: str, *more: Any, **named: Any) -> Any:
            is_own = threading.get_ident() == here
            return original[1](content.replace("\n", _BREAK) if is_own else content, *more, **named)

        def equation(eqn: Any, context: Any, settings: Any) -> Any:
            print_one = _print_equation if threading.get_ident() == here else original[0]
            return print_one(eqn, context, settings)

        core.pp_eqn, pp.text = equation, text  # type: ignore[assignment]
        try:
            yield
        finally:
            core.pp_eqn, pp.text = original


def _distinct(eqns: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({id(eqn): eqn for eqn in eqns}.values())


def _print_equation(eqn: Any, context: Any, settings: Any) -> Any:
    rule = core.pp_eqn_rules.get(eqn.primitive, core._pp_eqn) if settings.custom_pp_eqn_rules else core._pp_eqn
    return pp.source_map(rule(eqn, context, settings), eqn)


def open_jaxpr(jaxpr: Any) -> Any:
    """Returns the `Jaxpr` inside a `ClosedJaxpr`; JAX 0.11 merged both classes into one."""
    return getattr(jaxpr, "jaxpr", jaxpr)


Place = tuple[str, tuple[tuple[str, int, str], ...]]
"""Location of an equation: `op_name` as the lowering writes it, without the program's own name, and (file, line, function) of
user frames."""


def equation_places(jaxpr: Any) -> dict[int, list[Place]]:
    """Returns the places of each equation, by `id`.

    An equation of an inner jaxpr has one place for each call path to it. If it has no user frames, it gets those of
    the equation that calls it.
    """
    places: dict[int, list[Place]] = {}
    _add_places(open_jaxpr(jaxpr), source_info_util.new_name_stack(), (), places, 0)
    return places


def _add_places(jaxpr: Any, outer: Any, outer_frames: Any, places: dict[int, list[Place]], depth: int) -> None:
    for eqn in jaxpr.eqns:
        known = places.setdefault(id(eqn), [])
        if len(known) >= _PLACES:
            continue
        stack = outer + eqn.source_info.name_stack
        frames = frames_of(eqn) or outer_frames
        known += [(name, frames) for name in _op_names(stack, eqn)]
        if depth < _DEPTH:
            for scope, inner in inner_jaxprs(eqn):
                _add_places(inner, _below(stack, eqn, scope), frames, places, depth + 1)


def frames_of(eqn: Any) -> tuple[tuple[str, int, str], ...]:
    """Returns (file, line, function) of an equation's own user frames, innermost first."""
    frames = source_info_util.user_frames(eqn.source_info.traceback)
    return tuple((frame.file_name, frame.start_line, frame.function_name) for frame in frames)


def _op_names(stack: Any, eqn: Any) -> list[str]:
    """Returns the names of the lowered operations: a call is named after its function, a scan also after the loop that it becomes."""
    kind = str(eqn.primitive.name)
    if kind in _JITTED:
        return [str(stack.extend(f"jit({eqn.params['name']})"))]
    names = (kind, *_LOOP) if kind == "scan" else (kind,)
    return [f"{stack}/{name}" if str(stack) else name for name in names]


def _below(stack: Any, eqn: Any, scope: str) -> Any:
    """Returns the name stack inside an equation, as lowering builds it.

    Only a jitted function's name goes inside an open transformation: `jvp(jit(g))/sin`, but
    `jvp()/cond/branch_0_fun/sin`.
    """
    if eqn.primitive.name in _JITTED:
        return stack.extend(scope)
    return source_info_util.new_name_stack("/".join(filter(None, (str(stack), scope))))


def inner_jaxprs(eqn: Any) -> Iterator[tuple[str, Any]]:
    """Yields an equation's jaxprs, each with the scope that its lowering adds."""
    for parameter, value in eqn.params.items():
        many = isinstance(value, tuple)
        for index, jaxpr in enumerate(value if many else (value,)):
            if hasattr(open_jaxpr(jaxpr), "eqns"):
                yield _scope(eqn, parameter, index), open_jaxpr(jaxpr)


def _scope(eqn: Any, parameter: str, index: int) -> str:
    kind = eqn.primitive.name
    if kind in _JITTED:
        return f"jit({eqn.params['name']})"
    if kind == "scan":
        return _SCAN_BODY
    if kind == "while":
        return "while/cond" if parameter.startswith("cond") else "while/body"
    if kind == "cond":
        return f"cond/branch_{index}_fun"
    return {"checkpoint": "checkpoint", "remat2": "checkpoint"}.get(kind, "")


_JITTED = ("jit", "pjit")
# JAX 0.11, which merged ClosedJaxpr and Jaxpr, changed the lowered name of a scan's body.
_SCAN_BODY = "while/body/closed_call" if hasattr(core, "ClosedJaxpr") else "while/body/eval_jaxpr"
# Names that lowering adds around the body: the counter, and slices of scanned inputs and stacked outputs.
_TAKE, _PUT = "while/body/jit(dynamic_index_in_dim)", "while/body/jit(dynamic_update_index_in_dim)"
_LOOP = (
    "while", "while/cond/lt", "while/body/add", "while/body/sub", _SCAN_BODY, _TAKE, f"{_TAKE}/dynamic_slice",
    f"{_TAKE}/squeeze", _PUT, f"{_PUT}/dynamic_update_slice", f"{_PUT}/broadcast_in_dim",
)  # fmt: skip


# Limits for functions that call one another many times; the first places represent the rest.
_PLACES = 32
_DEPTH = 64


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yields every equation, including those of inner jaxprs, each jaxpr once."""
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
    """Returns the mesh of the first `shard_map`, or None."""
    for eqn in equations(jaxpr):
        if eqn.primitive.name == "shard_map":
            return eqn.params["mesh"]
    return None


def collective_axes(jaxpr: Any) -> tuple[tuple[str, str, int, tuple[str, ...]], ...]:
    """Returns the axes that each collective names, with its primitive and the file and line of the innermost user frame."""
    collectives: dict[tuple[str, str, int, tuple[str, ...]], None] = {}
    for eqn in equations(jaxpr):
        if "axes" not in eqn.params and "axis_name" not in eqn.params:
            continue
        frame = next(iter(source_info_util.user_frames(eqn.source_info.traceback)), None)
        if frame is None:
            continue
        collectives[str(eqn.primitive.name), frame.file_name, frame.start_line, axes_named(eqn)] = None
    return tuple(collectives)


def axes_named(eqn: Any) -> tuple[str, ...]:
    """Returns the axes that a collective names, in the user's order."""
    named = eqn.params.get("axes", eqn.params.get("axis_name"))
    several = named if isinstance(named, (tuple, list)) else (named,)
    return tuple(str(axis) for axis in several if not isinstance(axis, int))
