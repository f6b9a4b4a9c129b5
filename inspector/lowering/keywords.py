"""Checks the keyword arguments of `explore` and `lower`, which also take those of the user's function.

Keywords that `explore` and `lower` do not have are passed to the function. If the function does not take one either, the
error names the nearest option.
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
from inspector.support.notebook import short


class KeywordError(ParameterError, TypeError):
    """Unknown keyword argument. Also a TypeError, as in Python."""


def function_keywords(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, keywords: Mapping[str, Any], caller: Any
) -> dict[str, Any]:
    """Returns all keyword arguments of a function.

    Args:
      fun: the function, or a program that is lowered already and takes no keywords.
      args: its positional arguments.
      kwargs: the keyword arguments in the caller's `kwargs`.
      keywords: keyword arguments for which the caller has no parameter.
      caller: `lower` or `explore`.

    Raises:
      ParameterError: `fun` cannot be lowered at all.
      KeywordError: the function does not take a keyword, a keyword is given twice, or a required argument of the
        function is missing because the caller has an option with the same name.
    """
    own = options_of(caller)
    named = dict(kwargs or {})
    twice = [name for name in keywords if name in named]
    if twice:
        raise KeywordError(f"{twice[0]} is given twice: as a keyword and in kwargs. Pass it once.")
    for name in keywords:
        if not _takes(fun, name):
            if not callable(fun):
                check_opened(jitted_calls.innermost(fun))
            raise KeywordError(_unknown(fun, name, own, caller.__name__))
    named |= keywords
    lacking = [name for name in _lacking(fun, args, named) if name in own]
    if lacking:
        raise KeywordError(
            f"{fun_name(fun)} needs {lacking[0]}, and {caller.__name__} has an option of that name, which takes the"
            f" keyword. Pass the function's argument in kwargs={{{lacking[0]!r}: ...}}, or by position."
        )
    return named


def check_options(keywords: Mapping[str, Any], caller: Callable[..., Any]) -> None:
    """Checks keyword arguments that only a function of inspector takes.

    Raises:
      KeywordError: an unknown option.
    """
    own = options_of(caller)
    for name in keywords:
        if name not in own:
            raise KeywordError(
                f"{caller.__name__} has no option {short(name)}.{nearest(name, own)} Options: {', '.join(own)}."
            )


def options_of(caller: Callable[..., Any]) -> list[str]:
    """Returns the keyword-only parameters of a function of inspector."""
    return [p.name for p in inspect.signature(caller).parameters.values() if p.kind is p.KEYWORD_ONLY]


def nearest(name: str, known: Collection[str]) -> str:
    """Returns a sentence that suggests the nearest name; "" if none is near."""
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f" Did you mean {near[0]}?" if near else ""


def _unknown(fun: Any, name: str, own: Sequence[str], caller: str) -> str:
    taker = f"{fun_name(fun)} takes" if callable(fun) else f"A {type(fun).__name__} takes"
    return (
        f"{taker} no keyword {name!r}, and {caller} has no such option.{nearest(name, own)} Options of {caller}:"
        f" {', '.join(own)}."
    )


def _takes(fun: Any, name: str) -> bool:
    """Reports whether a function, or one that it wraps, takes a keyword; True if its signature is not available."""
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
    """Returns the required parameters that a call omits."""
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
