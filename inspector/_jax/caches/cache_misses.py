"""Determines the reason for a trace or a compile from JAX's caches, at the moment of the cache miss.

JAX's explanation of a trace is text, names the closest call by the order of the text, and leaves out shardings and static
values. This module compares the keys in JAX's caches instead: `trace_to_jaxpr` has those of traces, `_cached_lowering_to_hlo` and
`_cached_compilation` those of lowerings and compiles. The keys of the miss are local variables of JAX's
functions on the stack. `cache_miss_events.py` installs the listeners.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Literal

from jax._src import config, core, named_sharding, source_info_util
from jax._src.interpreters import partial_eval, pxla
from jax.sharding import NamedSharding, SingleDeviceSharding

from inspector._jax.lowering.stages import Traced
from inspector.platforms import PLATFORMS

Event = Literal["trace", "compile"]
Cause = Literal[
    "first call", "defined again", "cache cleared", "arguments", "structure", "context", "placement", "unknown"
]
What = Literal[
    "shape", "dtype", "weak type", "sharding", "memory kind", "committed", "device", "layout", "type", "static value",
    "structure", "setting",
]  # fmt: skip
Change = tuple[What, str, str, str]
"""Property, argument, new value, old value: the fields of `stages.retraces.Changed`."""

BEGINS = "TRACING CACHE MISS at "


@dataclasses.dataclass(frozen=True, slots=True)
class Miss:
    """A trace or compile that was not in JAX's caches; the fields are those of `stages.retraces.Retrace`."""

    fun_name: str
    defined_at: str
    called_at: str
    cause: Cause
    changes: tuple[Change, ...]
    explanation: str
    event: Event


# ------------------------------------------------------------------ traces


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
    _functions.begin(fun, debug.func_src_info)
    called_at = text.partition("\n")[0].removeprefix(BEGINS).removesuffix(":")
    return Miss(debug.func_name, _defined_at(debug), called_at, cause, changes, text, "trace")


def remember_functions() -> None:
    """Records the functions that JAX has traces of, to distinguish a cleared cache from a first call."""
    for reference, *key in partial_eval.trace_to_jaxpr.cache_keys():
        fun = reference()
        if fun is not None:
            _functions.add(fun, key[1][1].func_src_info)


def trace_ended() -> None:
    """Records the functions whose traces began in this thread; not called if a trace raised an error."""
    _functions.end()


class _Functions:
    """The traced functions, as far as they are known, and their sources."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}
        self._sources: set[object] = set()
        self._new: set[str] = set()
        self._begun = threading.local()

    def begin(self, fun: Any, source: str) -> None:
        self._new.add(source)
        self._begun.list = [*getattr(self._begun, "list", ()), (weakref.ref(fun), source)]

    def end(self) -> None:
        begun, self._begun.list = getattr(self._begun, "list", ()), []
        for reference, source in begun:
            fun = reference()
            if fun is not None:
                self.add(fun, source)

    def is_new(self, source: str) -> bool:
        """Reports, once, whether a function of this source was traced since its last compile."""
        is_new = source in self._new
        self._new.discard(source)
        return is_new

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
        types, properties = _types(now, before) if not structure else ([], 0)
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
            yield "structure", _place(where), values[0], values[1]


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
_STATIC = re.compile(r"pytree metadata Static\(val=(.+)\)$")


def _place(path: str) -> str:
    """Converts a path: `[0][1]['w']` to `args[1]['w']`, `[1]['n']` to `n`."""
    path = re.sub(r"^\[0\](\[\d+\])", r"args\1", path)
    return re.sub(r"^\[1\]\['(\w+)'\]", r"\1", path)


def _types(now: _TraceKey, before: _TraceKey) -> tuple[list[Change], int]:
    """Returns the arguments whose types differ, and the total number of properties that differ."""
    changed: list[Change] = []
    count = 0
    for name, ours, theirs in zip(now.debug.arg_names, now.arguments.vals, before.arguments.vals, strict=False):
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


def _defined_at(debug: Any) -> str:
    file, line = debug.func_filename, debug.func_lineno
    return f"{file}:{line}" if file and line else file or ""


# ------------------------------------------------------------------ compiles


def compile_again(frame: FrameType | None) -> Miss | None:
    """Determines the reason for a compile of a trace that XLA compiled before; returns None for the trace's first compile.

    Args:
      frame: frame of a listener for JAX's event of a finished compile, on the thread that compiled.
    """
    variables: dict[str, Mapping[str, Any]] = {}
    while frame is not None and len(variables) < 2:
        if frame.f_globals is vars(pxla) and frame.f_code.co_name in ("from_hlo", "_cached_compilation"):
            variables[frame.f_code.co_name] = frame.f_locals
        frame = frame.f_back
    if len(variables) < 2:
        return None
    now = variables["from_hlo"]
    info = now["all_args_info"]
    debug = getattr(info, "debug_info", None)
    if debug is None or not source_info_util.is_user_filename(debug.func_filename or "<unknown>"):
        return None
    if _functions.is_new(debug.func_src_info):
        return None
    names = _kept_names(now)
    earlier = [*_other_devices(variables["_cached_compilation"]), *_other_lowerings(now, debug, names)]
    changes = min(earlier, key=len, default=None)
    return None if changes is None else _compile_miss(debug, changes)


def compile_between(first: Traced, second: Traced) -> Miss | None:
    """Compares the compiles for two calls that share one JAX trace; returns None if they are the same.

    Nothing is compiled: both calls are lowered, and the lowerings are looked up as in a call.
    """
    one, two = _lowering(first), _lowering(second)
    before, now = one.compile_args, two.compile_args
    # The devices are an attribute of the instance only, so no probe of the class can find them; the tests cover them.
    devices = tuple(vars(two)["_device_list"] or ()), tuple(vars(one)["_device_list"] or ())
    if one._hlo is two._hlo and devices[0] == devices[1]:
        return None
    debug = now["all_args_info"].debug_info
    changes = tuple(_placements(_kept_names(now), now["in_shardings"], before["in_shardings"]))
    if not changes and devices[0] != devices[1]:
        changes = (("device", "", _devices(devices[0]), _devices(devices[1])),)
    return _compile_miss(debug, changes)


def _lowering(traced: Traced) -> Any:
    """Lowers for the default platform, else for the first that works: a kernel may support only one, and the key names no platform."""
    try:
        return traced.lower()._lowering
    except (NotImplementedError, ValueError) as error:
        for platform in PLATFORMS:
            with contextlib.suppress(NotImplementedError, ValueError):
                return traced.lower(lowering_platforms=(platform.lowering,))._lowering
        raise error


def _kept_names(compile_args: Mapping[str, Any]) -> list[str]:
    """Returns the names of the arguments that the program takes; unused arguments are dropped."""
    names = compile_args["all_args_info"].debug_info.arg_names
    return [names[i] if i < len(names) else f"args[{i}]" for i in sorted(compile_args["kept_var_idx"])]


def _compile_miss(debug: Any, changes: tuple[Change, ...]) -> Miss:
    cause: Cause = "unknown" if not changes else "context" if changes[0][0] == "setting" else "placement"
    text = "; ".join(
        f"{what}{f' of {where}' if where else ''}: now {now}, before {before}" for what, where, now, before in changes
    )
    explanation = f"XLA compiles an existing trace again. {text or 'The difference is not recorded.'}"
    return Miss(debug.func_name, _defined_at(debug), "", cause, changes, explanation, "compile")


def _other_lowerings(now: Mapping[str, Any], debug: Any, names: Sequence[str]) -> Iterator[tuple[Change, ...]]:
    """Yields the differences from each earlier lowering of the same trace for other shardings."""
    shardings, avals = tuple(now["in_shardings"]), tuple(now["global_in_avals"])
    wanted = pxla.SemanticallyEqualShardings(shardings, avals)
    lowered: dict[int, tuple[Any, list[Any]]] = {}  # by trace; the value keeps the trace alive
    for reference, _, key, _ in pxla._cached_lowering_to_hlo.cache_keys():
        placed = next((each for each in key if isinstance(each, pxla.SemanticallyEqualShardings)), None)
        jaxpr = reference()
        if placed is None or jaxpr is None or key[3] != avals or _source_info(jaxpr) != debug.func_src_info:
            continue
        lowered.setdefault(id(jaxpr), (jaxpr, []))[1].append(placed)
    for _, placements in lowered.values():
        if wanted in placements:  # skips other closures of the same source, which were not compiled for these shardings
            yield from (tuple(_placements(names, shardings, each.shardings)) for each in placements if each != wanted)


def _other_devices(compiled: Mapping[str, Any]) -> Iterator[tuple[Change, ...]]:
    """Yields the difference from each earlier compile of the same lowering, for other devices or with other options."""
    devices, options = tuple(compiled["da"]), compiled["compiler_options_kvs"]
    for reference, _, key, _ in pxla._cached_compilation.cache_keys():
        if reference() is not compiled["computation"]:
            continue
        lists = [each for each in key if type(each).__name__ == "DeviceList"]
        before = tuple(lists[0]) if lists else devices
        if before != devices:
            yield (("device", "", _devices(devices), _devices(before)),)
        elif options not in key:
            yield (("setting", "", f"compiler options {dict(options)}", "other compiler options"),)


def _source_info(jaxpr: Any) -> str:
    return str(getattr(jaxpr, "jaxpr", jaxpr).debug_info.func_src_info)  # a ClosedJaxpr before JAX 0.11


def _placements(names: Sequence[str], now: Sequence[Any], before: Sequence[Any]) -> Iterator[Change]:
    """Yields the arguments whose placement differs."""
    for index, (ours, theirs) in enumerate(zip(now, before, strict=False)):
        change = _placement(ours, theirs)
        if change is not None:
            what, new, old = change
            yield what, names[index] if index < len(names) else f"args[{index}]", new, old


def _placement(now: Any, before: Any) -> tuple[What, str, str] | None:
    if now == before:
        return None
    free = named_sharding.UnspecifiedValue
    if isinstance(now, free) or isinstance(before, free):
        return "committed", _sharding_text(now), _sharding_text(before)
    if (
        isinstance(now, SingleDeviceSharding)
        and isinstance(before, SingleDeviceSharding)
        and now.device_set != before.device_set
    ):
        return "device", _sharding_text(now), _sharding_text(before)
    if now.memory_kind != before.memory_kind:
        return "memory kind", str(now.memory_kind), str(before.memory_kind)
    texts = _sharding_text(now), _sharding_text(before)
    if texts[0] == texts[1]:
        return "device", _devices(_ordered(now)), _devices(_ordered(before))
    return "sharding", *texts


def _sharding_text(sharding: Any) -> str:
    if isinstance(sharding, named_sharding.UnspecifiedValue):
        return "not committed to a device"
    if isinstance(sharding, SingleDeviceSharding):
        return _devices(tuple(sharding.device_set))
    if isinstance(sharding, NamedSharding):
        axes = ", ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
        return f"{sharding.spec} on mesh ({axes})"
    return str(sharding)


def _ordered(sharding: Any) -> tuple[Any, ...]:
    return tuple(getattr(sharding, "_device_assignment", ()))


def _devices(devices: Sequence[Any]) -> str:
    ids = ", ".join(str(device.id) for device in devices[:_MOST_DEVICES])
    more = f", … ({len(devices)} devices)" if len(devices) > _MOST_DEVICES else ""
    return f"{devices[0].platform}:{ids}{more}" if devices else "no device"


_MOST_DEVICES = 8
