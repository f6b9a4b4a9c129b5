"""Determines the reason for a compile of a trace that JAX already had, at the moment of the cache miss.

Compares the keys in JAX's caches: `_cached_lowering_to_hlo` has those of lowerings and `_cached_compilation` those of compiles.
The key of the miss is in local variables of JAX's functions on the stack.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from jax._src import core, pjit, source_info_util
from jax._src.interpreters import ad, pxla

from inspector._jax.caches import cache_misses
from inspector._jax.caches.cache_misses import Cause, Change, Miss, Role
from inspector._jax.caches.placements import device_text, placements
from inspector._jax.lowering.stages import Traced
from inspector.platforms import PLATFORMS


def compile_again(frame: FrameType | None) -> Miss | None:
    """Determines the reason for a compile of a trace that JAX already had.

    Returns None for the first compile of a trace in this watch, and for functions of JAX itself.

    Args:
      frame: frame of a listener for JAX's event of a finished compile, on the thread that compiled.
    """
    variables, is_backward = _variables(frame)
    program = _Program.read(variables["from_hlo"], variables.get("pjit", {}).get("jaxpr"), is_backward)
    debug = program.debug
    if debug is None:
        return None
    trace = cache_misses.trace_of_compile(debug.func_src_info, program.types, program.role)
    if trace is not None:
        is_first, miss = trace
        text = "XLA compiles another derivative of a new trace, such as its backward pass."
        return None if is_first else dataclasses.replace(miss, event="compile", called_at="", explanation=text)
    earlier = [*_other_devices(variables["_cached_compilation"]), *_other_placements(program)]
    if earlier:
        return _miss(debug, min(earlier, key=len))
    was_compiled = _was_compiled(variables["_cached_compilation"]["computation"])
    return _miss(debug, ()) if was_compiled else _other_program(program)


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
    names = _kept_names(now)
    types, _ = cache_misses.type_changes(names, now["global_in_avals"], before["global_in_avals"])
    changes = tuple(types or placements(names, now["in_shardings"], before["in_shardings"]))
    if not changes and devices[0] != devices[1]:
        changes = (("device", "", device_text(devices[0]), device_text(devices[1])),)
    return _miss(now["all_args_info"].debug_info, changes, "arguments" if types else None)


def _lowering(traced: Traced) -> Any:
    """Lowers for the default platform, else for the first that works: a kernel may support only one, and the key names no platform."""
    try:
        return traced.lower()._lowering
    except (NotImplementedError, ValueError) as error:
        for platform in PLATFORMS:
            with contextlib.suppress(NotImplementedError, ValueError):
                return traced.lower(lowering_platforms=(platform.lowering,))._lowering
        raise error


def _variables(frame: FrameType | None) -> tuple[Mapping[str, Mapping[str, Any]], bool]:
    """Returns the local variables of JAX's functions on the stack, by function, and whether JAX runs a backward pass.

    "pjit" is missing for an explicit `compile()`.

    Raises:
      LookupError: a function is not on the stack.
    """
    variables: dict[str, Mapping[str, Any]] = {}
    is_backward = False
    while frame is not None:
        name, module = frame.f_code.co_name, frame.f_globals
        if module is vars(pxla) and name in ("from_hlo", "_cached_compilation"):
            variables.setdefault(name, frame.f_locals)
        elif module is vars(pjit) and "pjit" not in variables and "jaxpr" in frame.f_locals:
            variables["pjit"] = frame.f_locals
        elif module is vars(ad) and name.startswith("backward_pass"):
            is_backward = True
        frame = frame.f_back
    for name in ("_cached_compilation", "from_hlo"):
        if name not in variables:
            raise LookupError(f"JAX's function {name} is not on the stack")
    return variables, is_backward


@dataclasses.dataclass(frozen=True, slots=True)
class _Program:
    """A program that XLA compiles.

    Attributes:
      debug: JAX's record of the user's function, or None for a function of JAX itself.
      names, types, shardings: its arguments; unused ones are dropped, and the names of a derivative's are positions.
      role: its relation to the function.
    """

    debug: Any
    names: Sequence[str]
    types: tuple[Any, ...]
    shardings: tuple[Any, ...]
    role: Role

    @classmethod
    def read(cls, variables: Mapping[str, Any], jaxpr: Any, is_backward: bool) -> _Program:
        """Reads the local variables of `from_hlo`."""
        debug = variables["all_args_info"].debug_info
        types, shardings = tuple(variables["global_in_avals"]), tuple(variables["in_shardings"])
        user = _users_debug(debug, jaxpr)
        role: Role = "call" if not _is_derivative(debug) else "backward pass" if is_backward else "derivative"
        return cls(user, _kept_names(variables), types, shardings, role)

    @property
    def is_derivative(self) -> bool:
        """True if the program is not a call of the function, batched or not."""
        return self.role != "call"


def _is_derivative(debug: Any) -> bool:
    return debug.arg_names is None  # JAX names the arguments of calls only


def _users_debug(debug: Any, jaxpr: Any) -> Any:
    """Returns JAX's record of the user's function that a program runs; None if the program is of JAX itself.

    For a program of JAX with one operation, such as a `lax.scan` that is called outside of `jax.jit`, this is the
    function of the operation.
    """
    if _is_users(debug):
        return debug
    pending = [] if jaxpr is None else [_open(jaxpr)]
    while pending:
        each = pending.pop(0)
        if _is_users(each.debug_info):
            return each.debug_info
        if len(each.eqns) == 1:
            pending += map(_open, core.jaxprs_in_params(each.eqns[0].params))
    return None if debug.func_filename else debug


def _is_users(debug: Any) -> bool:
    return bool(debug.func_filename) and source_info_util.is_user_filename(debug.func_filename)


def _open(jaxpr: Any) -> Any:
    return getattr(jaxpr, "jaxpr", jaxpr)  # a ClosedJaxpr before JAX 0.11


def _kept_names(compile_args: Mapping[str, Any]) -> list[str]:
    """Returns the names of the arguments that the program takes; unused arguments are dropped, and derivatives have no names."""
    names = compile_args["all_args_info"].debug_info.arg_names or ()
    return [names[i] if i < len(names) else f"args[{i}]" for i in sorted(compile_args["kept_var_idx"])]


def _miss(debug: Any, changes: tuple[Change, ...], cause: Cause | None = None, reason: str = "") -> Miss:
    if cause is None:
        cause = "unknown" if not changes else "context" if changes[0][0] == "setting" else "placement"
    text = "; ".join(
        f"{what}{f' of {where}' if where else ''}: now {now}, before {before}" for what, where, now, before in changes
    )
    explanation = f"XLA compiles a trace that JAX already has. {reason or text or 'The difference is not recorded.'}"
    return Miss(debug.func_name, cache_misses.defined_at(debug), "", cause, changes, explanation, "compile")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _EarlierLowering:
    """A lowering of the function in JAX's cache."""

    jaxpr: Any
    types: tuple[Any, ...]
    placed: Any
    is_derivative: bool


def _lowerings(program: _Program) -> Iterator[_EarlierLowering]:
    """Yields the lowerings of the program's function, including the program's own."""
    for reference, _, key, _ in pxla._cached_lowering_to_hlo.cache_keys():
        placed = next((each for each in key if isinstance(each, pxla.SemanticallyEqualShardings)), None)
        jaxpr = reference()
        if placed is None or jaxpr is None:
            continue
        debug = _open(jaxpr).debug_info
        user = _users_debug(debug, jaxpr)
        if user is not None and user.func_src_info == program.debug.func_src_info:
            yield _EarlierLowering(jaxpr, tuple(key[3]), placed, _is_derivative(debug))


def _other_placements(program: _Program) -> Iterator[tuple[Change, ...]]:
    """Yields the differences from each earlier lowering of the same trace for other shardings."""
    wanted = pxla.SemanticallyEqualShardings(program.shardings, program.types)
    lowered: dict[int, list[_EarlierLowering]] = {}  # by trace
    for each in _lowerings(program):
        if each.types == program.types and each.is_derivative == program.is_derivative:
            lowered.setdefault(id(each.jaxpr), []).append(each)
    for lowerings in lowered.values():
        placed = [each.placed for each in lowerings]
        if wanted in placed:  # skips other closures of the same source, which were not compiled for these shardings
            yield from (
                tuple(placements(program.names, program.shardings, each.shardings)) for each in placed if each != wanted
            )


def _other_devices(compiled: Mapping[str, Any]) -> Iterator[tuple[Change, ...]]:
    """Yields the difference from each earlier compile of the same lowering, for other devices or with other options."""
    devices, options = tuple(compiled["da"]), compiled["compiler_options_kvs"]
    for reference, _, key, _ in pxla._cached_compilation.cache_keys():
        if reference() is not compiled["computation"]:
            continue
        lists = [each for each in key if type(each).__name__ == "DeviceList"]
        before = tuple(lists[0]) if lists else devices
        if before != devices:
            yield (("device", "", device_text(devices), device_text(before)),)
        elif options not in key:
            yield (("setting", "", f"compiler options {dict(options)}", "other compiler options"),)


def _was_compiled(computation: Any) -> bool:
    return any(reference() is computation for reference, *_ in pxla._cached_compilation.cache_keys())


def _other_program(program: _Program) -> Miss:
    """Determines the reason for the first compile of a lowering that differs in more than shardings.

    The function is called in or outside of a transformation, or for other types; or JAX only traced it before.
    """
    lowerings = [*_lowerings(program)]
    alike = [each for each in lowerings if _is_alike(each, program)]  # the program's own, and those of other closures
    is_plain = _is_plain(program, program)
    skipped = alike if is_plain else alike[:1]
    others = [each for each in lowerings if each not in skipped]
    if not others:
        if is_plain:
            return _miss(program.debug, (), "first call", "XLA has not compiled it before.")
        return _miss(
            program.debug, (), "unknown", "JAX's caches have no earlier compile of the function to compare with."
        )
    best = min(others, key=lambda each: _distance(program, each))
    changes: tuple[Change, ...] = ()
    if len(best.types) == len(program.types):
        changes = tuple(cache_misses.type_changes(program.names, program.types, best.types)[0])
    if is_plain and changes and _is_plain(program, best):
        return _miss(program.debug, changes, "arguments")
    text = "The function is transformed, for example by vmap or grad, or called by scan; or it was before."
    return _miss(program.debug, changes, "transformation", "" if changes else text)


def _is_alike(lowering: _EarlierLowering, program: _Program) -> bool:
    wanted = pxla.SemanticallyEqualShardings(program.shardings, program.types)
    has_same_types = lowering.types == program.types and lowering.is_derivative == program.is_derivative
    return has_same_types and bool(lowering.placed == wanted)


def _distance(program: _Program, other: _EarlierLowering) -> tuple[bool, bool, int]:
    _, count = cache_misses.type_changes(program.names, program.types, other.types)
    return other.is_derivative != program.is_derivative, len(other.types) != len(program.types), count


def _is_plain(program: _Program, lowering: _Program | _EarlierLowering) -> bool:
    """Returns true for a call outside of transformations, whose arguments have the types of a trace."""
    traced = cache_misses.traced_types(program.debug.func_src_info)
    return not lowering.is_derivative and any(types.issuperset(lowering.types) for types in traced)
