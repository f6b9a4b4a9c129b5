"""Keywords of a call that takes a function with its arguments: which are the function's, and which a mistake.

What `explore` and `lower` do not know goes to the function. A name that it does not take either was meant for
them, and is told with the nearest of theirs.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from inspector._jax.lowering import jitted_calls
from inspector.errors import ParameterError
from inspector.lowering.assemble import fun_name
from inspector.lowering.existing_stages import check_opened


class KeywordError(ParameterError, TypeError):
    """A keyword that nobody takes: TypeError too, as Python raises it."""


def function_keywords(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, keywords: Mapping[str, Any], caller: Any
) -> dict[str, Any]:
    """All keyword arguments of a function.

    Args:
      fun: the function, or what is lowered already and takes none.
      args: its positional arguments.
      kwargs: given as such.
      keywords: what the caller has no parameter for.
      caller: `lower` or `explore`, whose parameters count.

    Raises:
      ParameterError: what cannot be lowered at all.
      KeywordError: a name that the function does not take, or that is given twice; or one of its own that it lacks
        because the caller has a parameter of that name.
    """
    own = options_of(caller)
    named = dict(kwargs or {})
    twice = [name for name in keywords if name in named]
    if twice:
        raise KeywordError(f"{twice[0]} is given twice, by itself and in kwargs. Give it once.")
    for name in keywords:
        if not _takes(fun, name):
            if not callable(fun):
                check_opened(jitted_calls.innermost(fun))
            raise KeywordError(_unknown(fun, name, own, caller.__name__))
    named |= keywords
    lacking = [name for name in _lacking(fun, args, named) if name in own]
    if lacking:
        raise KeywordError(
            f"{fun_name(fun)} needs {lacking[0]}, and {caller.__name__} has an option of that name, so it keeps what it is"
            f" given by it. Give the function's in kwargs={{{lacking[0]!r}: ...}}, or by position."
        )
    return named


def check_options(given: Mapping[str, Any], caller: Callable[..., Any]) -> None:
    """Checks what is meant for a function of ours alone.

    Raises:
      KeywordError: a name that it does not have.
    """
    own = options_of(caller)
    for name in given:
        if name not in own:
            raise KeywordError(
                f"{caller.__name__} has no option {name!r}.{nearest(name, own)} It has: {', '.join(own)}."
            )


def options_of(caller: Callable[..., Any]) -> list[str]:
    """The keywords that a function of ours knows itself."""
    return [p.name for p in inspect.signature(caller).parameters.values() if p.kind is p.KEYWORD_ONLY]


def nearest(name: str, known: Collection[str]) -> str:
    """The name that was meant, as a sentence; "" when none is near."""
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f" Did you mean {near[0]}?" if near else ""


def _unknown(fun: Any, name: str, own: Sequence[str], caller: str) -> str:
    who = f"{fun_name(fun)} takes" if callable(fun) else f"A {type(fun).__name__} takes"
    return (
        f"{who} no keyword {name!r}, and {caller} has no such option.{nearest(name, own)} Options of {caller}:"
        f" {', '.join(own)}."
    )


def _takes(fun: Any, name: str) -> bool:
    """Whether a function, or one that it wraps, takes a keyword; True where nobody can tell."""
    if not callable(fun):
        return False
    for follow in (True, False):
        try:
            parameters = inspect.signature(fun, follow_wrapped=follow).parameters
        except (TypeError, ValueError):
            return True
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return True
        if name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY:
            return True
    return False


def _lacking(fun: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[str]:
    """Parameters without a default that a call leaves out."""
    try:
        signature = inspect.signature(fun)
        bound = signature.bind_partial(*args, **named).arguments
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, p in signature.parameters.items()
        if p.default is p.empty and p.kind not in variadic and name not in bound
    ]
