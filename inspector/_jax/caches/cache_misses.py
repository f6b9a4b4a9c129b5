"""Determines the reason for a trace from JAX's cache of traces, at the moment of the cache miss.

JAX's explanation of a trace is text, names the closest call by the order of the text, and leaves out shardings and static
values. This module compares the keys in JAX's cache instead. The key of the miss is in local variables of JAX's functions on
the stack. `compile_misses.py` does the same for compiles; `cache_miss_events.py` installs the listeners.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Literal

from jax._src import config, core
from jax._src.interpreters import partial_eval

Event = Literal["trace", "compile"]
Cause = Literal[
    "first call", "defined again", "cache cleared", "arguments", "structure", "context", "placement", "transformation",
    "unknown",
]  # fmt: skip
What = Literal[
    "shape", "dtype", "weak type", "sharding", "memory kind", "committed", "device", "layout", "type", "static value",
    "structure", "setting",
]  # fmt: skip
Role = Literal["call", "derivative", "backward pass"]
"""The relation of a compiled program to the user's function; a call may be batched."""
Change = tuple[What, str, str, str]
"""Property, argument, new value, old value: the fields of `stages.retraces.Changed`."""

BEGINS = "TRACING CACHE MISS at "


@dataclasses.dataclass(frozen=True, slots=True)
class Miss:
    """A trace or compile that was not in JAX's caches; the fields are those of `retraces.Retrace`."""

    fun_name: str
    defined_at: str
    called_at: str
    cause: Cause
    changes: tuple[Change, ...]
    explanation: str
    event: Event


def trace(frame: FrameType, text: str) -> Miss:
    """Determines the reason for a trace.

    Args:
      frame: the frame of JAX's `explain`, which is about to log.
      text: its message.
    """
    known = frame.f_locals
    fun, debug = known["fun"], known["debug_info"]
    now = _TraceKey(config.trace_context(), known["in_avals"], debug)
    cause, changes = _closest(now, [_TraceKey(key[0], *key[1][:2]) for key in known["keys"]])
    if not known["keys"]:
        cause = _cause_of_unknown_function(fun, debug.func_src_info, text)
    called_at = text.partition("\n")[0].removeprefix(BEGINS).removesuffix(":")
    miss = Miss(debug.func_name, defined_at(debug), called_at, cause, changes, text, "trace")
    _functions.begin(fun, debug.func_src_info, _FreshTrace(miss, _array_types(known["in_avals"])))
    return miss


def begin_watch() -> None:
    """Records the functions that JAX has traces of, to distinguish a cleared cache from a first call.

    Forgets the traces of earlier watches: the next compile of their functions is an event of this watch.
    """
    _functions.fresh.clear()
    for reference, *key in partial_eval.trace_to_jaxpr.cache_keys():
        fun = reference()
        if fun is not None:
            _functions.add(fun, key[1][1].func_src_info)


def trace_ended() -> None:
    """Records the functions whose traces began in this thread; not called if a trace raised an error."""
    _functions.end()


def trace_of_compile(source: str, types: Sequence[Any], role: Role) -> tuple[bool, Miss] | None:
    """Returns the trace in this watch that a compile belongs to, and whether it is the first compile of the trace.

    Further compiles belong to the trace only if they and the first are derivatives, each role and number of arguments once.
    Returns None for all other compiles: JAX already had their trace.

    Args:
      source: the function, as JAX's `func_src_info`.
      types: the argument types of the compiled program.
      role: the relation of the compiled program to the function.
    """
    traces = _functions.fresh.get(source, [])
    same = [each for each in traces if not each.compiled and each.types.issuperset(types)]
    fresh = next(iter([*same, *traces[-1:]]), None)
    if fresh is None:
        return None
    program = role, len(types)
    is_first = not fresh.compiled
    are_derivatives = all(each != "call" for each, _ in (*fresh.compiled, program))
    if not is_first and (not are_derivatives or program in fresh.compiled):
        return None
    fresh.compiled.add(program)
    return is_first, fresh.miss


def traced_types(source: str) -> list[frozenset[Any]]:
    """Returns the argument types of each trace that JAX has of a function, given as JAX's `func_src_info`."""
    keys = [key[1][:2] for _, *key in partial_eval.trace_to_jaxpr.cache_keys()]
    return [_array_types(arguments) for arguments, debug in keys if debug.func_src_info == source]


def _array_types(arguments: Any) -> frozenset[Any]:
    return frozenset(each for each in arguments.vals if isinstance(each, core.ShapedArray))


@dataclasses.dataclass(frozen=True, slots=True)
class _FreshTrace:
    """A trace in this watch, and the programs that XLA compiled of it: role and number of arguments."""

    miss: Miss
    types: frozenset[Any]
    compiled: set[tuple[Role, int]] = dataclasses.field(default_factory=set)


class _Functions:
    """The traced functions, as far as they are known, their sources, and their traces in this watch by source."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}
        self._sources: set[object] = set()
        self.fresh: dict[str, list[_FreshTrace]] = {}
        self._begun = threading.local()

    def begin(self, fun: Any, source: str, trace: _FreshTrace) -> None:
        self.fresh.setdefault(source, []).append(trace)
        self._begun.list = [*getattr(self._begun, "list", ()), (weakref.ref(fun), source)]

    def end(self) -> None:
        begun, self._begun.list = getattr(self._begun, "list", ()), []
        for reference, source in begun:
            fun = reference()
            if fun is not None:
                self.add(fun, source)

    def add(self, fun: Any, source: str) -> None:
        self._references[id(fun)] = weakref.ref(fun)
        self._sources.add(_source(fun, source))

    def has(self, fun: Any) -> bool:
        reference = self._references.get(id(fun))
        return reference is not None and reference() is fun

    def has_source(self, fun: Any, source: str) -> bool:
        return _source(fun, source) in self._sources


_functions = _Functions()


def _source(fun: Any, source: str) -> object:
    """Returns a value that is equal for two function objects of one definition, and different for two lambdas on one line."""
    code = getattr(fun, "__code__", None)
    return source if code is None else (code.co_filename, code.co_name, hash(tuple(code.co_positions())))


def _cause_of_unknown_function(fun: Any, source: str, text: str) -> Cause:
    if _functions.has(fun):
        return "cache cleared"
    is_again = _functions.has_source(fun, source) or "seen another function defined on the same line" in text
    return "defined again" if is_again else "first call"


@dataclasses.dataclass(frozen=True, slots=True)
class _TraceKey:
    context: tuple[Any, ...]
    arguments: Any
    debug: Any


def _closest(now: _TraceKey, keys: Sequence[_TraceKey]) -> tuple[Cause, tuple[Change, ...]]:
    """Compares a key with the key that differs in the fewest properties.

    JAX's cache has no order, so among several such keys the one whose differences come first as text is taken.
    """
    best: tuple[int, str, Cause, tuple[Change, ...]] | None = None
    for before in keys:
        settings, count = _settings(now.context, before.context)
        structure = [*_structure(now.arguments, before.arguments), *_statics(now.arguments, before.arguments)]
        types, properties = (
            type_changes(now.debug.arg_names, now.arguments.vals, before.arguments.vals) if not structure else ([], 0)
        )
        count += len(structure) * _STRUCTURE_WEIGHT + properties
        cause: Cause = (
            "context" if settings or now.context != before.context else "structure" if structure else "arguments"
        )
        if not count:
            cause = "unknown"
        changes = (*settings, *structure, *types)
        if best is None or (count, str(changes)) < best[:2]:
            best = count, str(changes), cause, changes
    return ("first call", ()) if best is None else best[2:]


_STRUCTURE_WEIGHT = (
    4  # a different structure is further away than a different shape, dtype and weak type of one argument
)


def _settings(now: tuple[Any, ...], before: tuple[Any, ...]) -> tuple[list[Change], int]:
    if now == before:
        return [], 0
    _, count, text = partial_eval.diff_tracing_ctx(now, before)  # type: ignore[misc]  # None for equal ones only
    matches = [_SETTING.match(line) for line in text.split("\n")]
    return [("setting", match[1], match[2], match[3]) for match in matches if match], count


def _structure(now: Any, before: Any) -> Iterator[Change]:
    difference = partial_eval.diff_trees(now.tree, before.tree)
    for line in difference[-1].split("\n") if difference else ():
        match = _PATHS.match(line)
        if not match:
            continue
        where, *values = match.groups()[:3]
        statics = [_STATIC.search(text) for text in values]
        if statics[0] and statics[1]:
            yield "static value", _place(where), statics[0][1], statics[1][1]
        else:
            yield "structure", _place(where), _CLASS.sub(r"\1", values[0]), _CLASS.sub(r"\1", values[1])


def _statics(now: Any, before: Any) -> Iterator[Change]:
    """Yields the static values that differ, for JAX 0.12, which stores them outside the pytree."""
    ours, theirs = _static_values(now), _static_values(before)
    for where in ours.keys() & theirs.keys():
        if ours[where] != theirs[where]:
            yield "static value", where, repr(ours[where].val), repr(theirs[where].val)


def _static_values(arguments: Any) -> dict[str, Any]:
    if not hasattr(arguments, "elts"):
        return {}
    args, named = arguments.elts
    places = {f"args[{i}]": each for i, each in enumerate(getattr(args, "elts", ()))}
    places |= dict(zip(getattr(named, "keys", ()), getattr(named, "_vals", ()), strict=False))
    return {where: each for where, each in places.items() if type(each).__name__ == "FTStatic"}


_SETTING = re.compile(r"  \* (.+?) differs: now (.+) and before (.+)$")
_PATHS = re.compile(r"  \* at input path (.+?), now (.+) and before (.+), so (.+)$")
_CLASS = re.compile(r"<class '(?:[\w<>]+\.)*(\w+)'>")
"""A class as Python writes it, with its name: `dict` in `<class 'dict'> with 2 children`."""
_STATIC = re.compile(r"pytree metadata Static\(val=(.+)\)$")


def _place(path: str) -> str:
    """Converts a path: `[0][1]['w']` to `args[1]['w']`, `[1]['n']` to `n`."""
    path = re.sub(r"^\[0\](\[\d+\])", r"args\1", path)
    return re.sub(r"^\[1\]\['(\w+)'\]", r"\1", path)


def type_changes(names: Sequence[str], now: Sequence[Any], before: Sequence[Any]) -> tuple[list[Change], int]:
    """Returns the arguments whose types differ, and the total number of properties that differ."""
    changed: list[Change] = []
    count = 0
    for name, ours, theirs in zip(names, now, before, strict=False):
        if ours == theirs:
            continue
        are_arrays = isinstance(ours, core.ShapedArray) and isinstance(theirs, core.ShapedArray)
        whats = [what for what, read in _PROPERTIES.items() if read(ours) != read(theirs)] if are_arrays else []
        count += max(1, len(whats))
        what = whats[0] if whats else "type"
        texts = _type_text(ours, whats), _type_text(theirs, whats)
        if texts[0] == texts[1] and what == "sharding":
            texts = f"{texts[0]} {_mesh_text(ours)}", f"{texts[1]} {_mesh_text(theirs)}"
        changed.append((what, name, *texts))
    return changed, count


def _spec(array: Any) -> object:
    """Returns the mesh and the axes of each dimension, without trailing None, so that unsharded arrays of different ranks are equal."""
    sharding = getattr(array, "sharding", None)
    axes = [*(getattr(sharding, "spec", None) or ())]
    while axes and axes[-1] is None:
        axes.pop()
    return getattr(sharding, "mesh", None), tuple(axes)


_PROPERTIES: Mapping[What, Callable[[Any], object]] = {
    "dtype": lambda a: a.dtype,
    "shape": lambda a: a.shape,
    "weak type": lambda a: a.weak_type,
    "sharding": _spec,
    "memory kind": lambda a: getattr(a, "memory_space", None),
}
"""Properties in order of importance: the first that differs names the change."""


def _type_text(array: Any, whats: Sequence[What]) -> str:
    text = str(array.str_short(True))
    return f"{text}{{weak_type={array.weak_type}}}" if "weak type" in whats else text


def _mesh_text(array: Any) -> str:
    mesh = array.sharding.mesh
    if mesh.empty:
        return "on no mesh"
    kinds = ", ".join(
        f"{name}={size} {kind.name}" for (name, size), kind in zip(mesh.shape.items(), mesh.axis_types, strict=True)
    )
    return f"on mesh ({kinds})"


def defined_at(debug: Any) -> str:
    """Returns the file and line of a function; "" if JAX does not record them."""
    file, line = debug.func_filename, debug.func_lineno
    return f"{file}:{line}" if file and line else file or ""
