"""Findings of a watch: functions that JAX traced and compiled again and again, and how to avoid it.

A few traces of a function are normal, for example one for a last, smaller batch. Listed are functions of which each call is new,
arguments that are numbers in some calls and arrays in others, and arguments with many different shapes or values.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

from inspector.analysis.findings.finding import BY_HAND, Finding
from inspector.hlo.shape import NUMPY_TYPES
from inspector.hlo.source import Frame, place_of
from inspector.stages.retrace_events import Changed, Retrace
from inspector.support.units import counted, format_list

KINDS: Mapping[str, str] = {
    "jit-in-loop": "functions that are defined and jitted again for each call",
    "weak-type": "arguments that are numbers in some calls and arrays in others",
    "retraced": "functions that are traced again for one argument after the other",
}
"""The kinds of findings of a watch, with what each finds."""

_MANY = 3  # traces after the first one
_NAMED = 3  # values in a title
_LONGEST = 60  # characters of a value
_SOURCE = "the time that JAX reported for its traces and compiles"
_REMEDIES = {
    "shape": "{where} = jnp.pad({where}, ...)  # to a few sizes, such as the next power of two, or drop the last, smaller batch",
    "static value": "jax.jit({name})  # without {where} in static_argnums or static_argnames, if no shape depends on it",
    "structure": "# pass {where} with the same structure in each call, for example arrays instead of None",
    "dtype": "{where} = {where}.astype(dtype)  # the same in each call",
    "sharding": "{where} = jax.device_put({where}, sharding)  # the same in each call",
    "committed": "{where} = jax.device_put({where}, sharding)  # in each call or in none",
    "device": "{where} = jax.device_put({where}, device)  # the same in each call",
    "setting": "# the same setting {where} in all calls",
}
_STATIC_REMEDY = (
    "# pass an array, such as jnp.asarray(value), if no shape depends on it, or the same value in each call"
)
_MARKS = "([{, )]}"
_ANY_REMEDY = "# {where}: the same in each call"


def retrace_findings(retraces: Iterable[Retrace], spent_s: Mapping[str, float]) -> list[Finding]:
    """Returns the findings of a watch, those that took most time first.

    Args:
      retraces: what was watched.
      spent_s: seconds of all traces and compiles, by name of the function.
    """
    functions: dict[tuple[str, str], list[Retrace]] = {}
    for each in retraces:
        functions.setdefault((each.fun_name, each.defined_at), []).append(each)
    found = [finding for calls in functions.values() for finding in _of_function(calls, spent_s)]
    return sorted(found, key=lambda each: -each.compile_s)


def _of_function(calls: list[Retrace], spent_s: Mapping[str, float]) -> Iterator[Finding]:
    """Yields the findings of one function."""
    again = [each for each in calls if each.cause != "first call"]
    new = [each for each in again if each.cause == "defined again"]
    name = calls[0].fun_name
    if len(new) >= _MANY:
        title = (
            f"`{name}` is a new function in each of {len(new) + 1} calls, so JAX traces and compiles it each time: it is defined"
            " and jitted in a loop or in a function that is called again."
        )
        yield _finding(
            "jit-in-loop",
            title,
            f"{_code(name)} = jax.jit({_code(name)})  # once, outside of the loop",
            new,
            calls,
            spent_s,
        )
    weak = [each for each in again if each.changes and all(change.what == "weak type" for change in each.changes)]
    if weak:
        names = {change.where for each in weak for change in each.changes}
        kinds = ("are Python numbers", "arrays") if len(names) > 1 else ("is a Python number", "an array")
        where = _names(change.where for each in weak for change in each.changes)
        title = (
            f"{where} of `{name}` {kinds[0]} in some calls and {kinds[1]} in others: JAX traces and compiles the function"
            " for both."
        )
        dtypes = {change.where or "x": _dtype(change) for each in weak for change in each.changes}
        lines = [f"{bare} = jnp.asarray({bare}, jnp.{dtype})" for bare, dtype in dtypes.items()]
        remedy = "\n".join([f"{lines[0]}  # in all calls, instead of the number", *lines[1:]])
        yield _finding("weak-type", title, remedy, weak, calls, spent_s)
    rest = [each for each in again if each not in new and each not in weak and each.changes]
    by_change: dict[tuple[str, str], list[Retrace]] = {}
    for each in rest:
        by_change.setdefault((each.changes[0].what, each.changes[0].where), []).append(each)
    for (what, where), group in by_change.items():
        if len(group) >= _MANY:
            pairs = ((each.changes[0].before, each.changes[0].now) for each in group)
            values = _differing([*dict.fromkeys(value for pair in pairs for value in pair)])
            shown = format_list(values, _NAMED)
            traced = "traced and compiled" if group[0].event == "trace" else "compiled"
            title = (
                f"`{name}` was {traced} {counted(len(group), 'more time')}, because the {what} of"
                f" {f'`{where}`' if where else 'the call'} changed: {shown}."
            )
            is_named = what != "static value" or not where.startswith("args[")
            remedy = (_REMEDIES.get(what, _ANY_REMEDY) if is_named else _STATIC_REMEDY).format(
                where=where or "x", name=_code(name)
            )
            yield _finding("retraced", title, remedy, group, calls, spent_s)


def _finding(
    kind: str, title: str, remedy: str, again: list[Retrace], calls: Collection[Retrace], spent_s: Mapping[str, float]
) -> Finding:
    """Returns a finding whose gain is the part of a function's time that its further traces took."""
    name = again[0].fun_name
    seconds = spent_s.get(name, 0.0) * len(again) / len(calls)
    whole = sum(spent_s.values())
    place = place_of(again[-1].called_at)
    frames = () if place is None else (Frame(place[0], place[1], name),)
    return Finding(
        kind, title, (), frames, remedy, 0.0, 0, 0.0, 0.0, _SOURCE, edits=BY_HAND, compile_s=seconds,
        compile_share=min(1.0, seconds / whole) if whole else 0.0, is_watched=True,
    )  # fmt: skip


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names) if name) or "An argument"


def _differing(values: list[str]) -> list[str]:
    """Returns values, or the words in which they differ if they are long, such as the whole static arguments of Equinox."""
    if max(map(len, values)) <= _LONGEST:
        return values
    before = _common_start(values)
    after = _common_start([value[len(before) :][::-1] for value in values])[::-1]
    first = 1 + max((before.rfind(mark) for mark in _MARKS), default=-1)
    last = min((at for mark in _MARKS if (at := after.find(mark)) >= 0), default=len(after))
    words = [value[first : len(value) - len(after) + last] for value in values]
    return [word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..." for word in words]


def _common_start(values: list[str]) -> str:
    return "".join(each[0] for each in itertools.takewhile(lambda each: len({*each}) == 1, zip(*values, strict=False)))


def _code(name: str) -> str:
    """Returns a function's name in code; a lambda has none."""
    return name if name.isidentifier() else "f"


def _dtype(change: Changed) -> str:
    """Returns NumPy's name of the dtype in the text of a type, such as "float32" in `f32[]{weak_type=False}`."""
    short = change.now.partition("[")[0]
    return NUMPY_TYPES.get(short, short)
