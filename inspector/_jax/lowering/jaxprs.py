"""Jaxprs as text, with the equation of every line; and the mesh that they name.

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

# One printing at a time: `core.pp_eqn` is swapped while a jaxpr prints, because its own source map
# holds tracebacks, which equations of one Python line share, and we need the equation itself.
_printing = threading.Lock()
# Stands for the line breaks that a parameter's text brings along: to the printer, such a text is one line.
_BREAK = "\ufdd0"
_WIDTH = 100


def print_jaxpr(jaxpr: Any) -> tuple[str, list[tuple[Any, ...]]]:
    """A jaxpr's text and, for each line, its equations: a short inner jaxpr stands on its caller's line."""
    source_map: list[list[tuple[int, int, Any]]] = []
    with _own_printing():
        doc = core.pp_toplevel_jaxpr(open_jaxpr(jaxpr))
    text = doc.format(width=_WIDTH, use_color=False, source_map=source_map)
    equations = [_distinct(s for _, _, s in line if hasattr(s, "primitive")) for line in source_map]
    lines = zip(text.split("\n"), equations, strict=True)
    return text.replace(_BREAK, "\n"), [here for line, here in lines for _ in range(1 + line.count(_BREAK))]


@contextlib.contextmanager
def _own_printing() -> Iterator[None]:
    """While it is open, documents of this thread know the equation of each line, and each of their texts is on one line."""
    with _printing:
        original, here = (core.pp_eqn, pp.text), threading.get_ident()

        def text(content: str, *more: Any, **named: Any) -> Any:
            mine = threading.get_ident() == here
            return original[1](content.replace("\n", _BREAK) if mine else content, *more, **named)

        def equation(eqn: Any, context: Any, settings: Any) -> Any:
            print_one = _print_equation if threading.get_ident() == here else original[0]
            return print_one(eqn, context, settings)

        core.pp_eqn, pp.text = equation, text  # type: ignore[assignment]
        try:
            yield
        finally:
            core.pp_eqn, pp.text = original


def _distinct(found: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({id(eqn): eqn for eqn in found}.values())


def _print_equation(eqn: Any, context: Any, settings: Any) -> Any:
    rule = core.pp_eqn_rules.get(eqn.primitive, core._pp_eqn) if settings.custom_pp_eqn_rules else core._pp_eqn
    return pp.source_map(rule(eqn, context, settings), eqn)


def open_jaxpr(jaxpr: Any) -> Any:
    """The `Jaxpr` inside a `ClosedJaxpr`, which JAX 0.11 merged into one."""
    return getattr(jaxpr, "jaxpr", jaxpr)


Place = tuple[str, tuple[tuple[str, int, str], ...]]
"""Where an equation stands: `op_name` as the lowering writes it below the program's own name, and (file, line, function) of
user frames."""


def equation_places(jaxpr: Any) -> dict[int, list[Place]]:
    """The places of each equation, by `id`.

    An equation of an inner jaxpr has one place for each way to it, and the frames of the equation
    that calls it when it has none of its own.
    """
    places: dict[int, list[Place]] = {}
    _add_places(open_jaxpr(jaxpr), source_info_util.new_name_stack(), (), places, 0)
    return places


def _add_places(jaxpr: Any, outer: Any, outer_frames: Any, places: dict[int, list[Place]], depth: int) -> None:
    for eqn in jaxpr.eqns:
        found = places.setdefault(id(eqn), [])
        if len(found) >= _PLACES:
            continue
        stack = outer + eqn.source_info.name_stack
        frames = frames_of(eqn) or outer_frames
        found += [(name, frames) for name in _op_names(stack, eqn)]
        if depth < _DEPTH:
            for scope, inner in inner_jaxprs(eqn):
                _add_places(inner, _below(stack, eqn, scope), frames, places, depth + 1)


def frames_of(eqn: Any) -> tuple[tuple[str, int, str], ...]:
    """(file, line, function) of an equation's own user frames, innermost first."""
    frames = source_info_util.user_frames(eqn.source_info.traceback)
    return tuple((frame.file_name, frame.start_line, frame.function_name) for frame in frames)


def _op_names(stack: Any, eqn: Any) -> list[str]:
    """As the lowered operations are named: a call by its function, a scan also by the loop that it becomes."""
    kind = str(eqn.primitive.name)
    if kind in _JITTED:
        return [str(stack.extend(f"jit({eqn.params['name']})"))]
    names = (kind, *_LOOP) if kind == "scan" else (kind,)
    return [f"{stack}/{name}" if str(stack) else name for name in names]


def _below(stack: Any, eqn: Any, scope: str) -> Any:
    """The name stack inside of an equation, as lowering builds it.

    Only a jitted function's name goes inside of an open transformation: `jvp(jit(g))/sin`, but
    `jvp()/cond/branch_0_fun/sin`.
    """
    if eqn.primitive.name in _JITTED:
        return stack.extend(scope)
    return source_info_util.new_name_stack("/".join(filter(None, (str(stack), scope))))


def inner_jaxprs(eqn: Any) -> Iterator[tuple[str, Any]]:
    """An equation's jaxprs, each with the scope that its lowering adds."""
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
# What lowering calls a scan's body changed when JAX 0.11 merged ClosedJaxpr and Jaxpr.
_SCAN_BODY = "while/body/closed_call" if hasattr(core, "ClosedJaxpr") else "while/body/eval_jaxpr"
# What it adds around the body: counting, and slices of what is scanned over and of what is stacked.
_TAKE, _PUT = "while/body/jit(dynamic_index_in_dim)", "while/body/jit(dynamic_update_index_in_dim)"
_LOOP = (
    "while", "while/cond/lt", "while/body/add", "while/body/sub", _SCAN_BODY, _TAKE, f"{_TAKE}/dynamic_slice",
    f"{_TAKE}/squeeze", _PUT, f"{_PUT}/dynamic_update_slice", f"{_PUT}/broadcast_in_dim",
)  # fmt: skip


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


def collective_axes(jaxpr: Any) -> tuple[tuple[str, str, int, tuple[str, ...]], ...]:
    """The axes that collectives name, with the primitive and the innermost user's file and line of each."""
    found: dict[tuple[str, str, int, tuple[str, ...]], None] = {}
    for eqn in equations(jaxpr):
        if "axes" not in eqn.params and "axis_name" not in eqn.params:
            continue
        frame = next(iter(source_info_util.user_frames(eqn.source_info.traceback)), None)
        if frame is None:
            continue
        found[str(eqn.primitive.name), frame.file_name, frame.start_line, axes_named(eqn)] = None
    return tuple(found)


def axes_named(eqn: Any) -> tuple[str, ...]:
    """The axes that a collective names, in the user's order."""
    named = eqn.params.get("axes", eqn.params.get("axis_name"))
    several = named if isinstance(named, (tuple, list)) else (named,)
    return tuple(str(axis) for axis in several if not isinstance(axis, int))
