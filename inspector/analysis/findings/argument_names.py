"""Names of arguments and results: `params['w'][0]` is below `params` and has the keys `w` and `0`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.compilation.program import Argument
from inspector.hlo.module import Instruction

_KEY = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")
_NNX = re.compile(r"_states_\d+__\d+_")  # the states of an argument, as Flax's `nnx.jit` gives them to JAX
_EQUINOX = ("dynamic_donate", "dynamic_nodonate")  # arguments of the function that `equinox.filter_jit` gives to JAX
_VARIADIC = re.compile(r"args\[(\d+)\]")


def argument_root(path: str) -> str:
    """Returns the name of the function's parameter."""
    return re.split(r"[\[.]", path, maxsplit=1)[0]


def donation_code(arguments: Sequence[Argument], paths: Sequence[str], parameters: Sequence[Instruction]) -> str:
    """Returns the call that donates the parameters of more arguments, and those that are donated already.

    JAX refuses the name of `*args`, whose arrays have the paths `args[0]`, `args[1]` and so on. `equinox.filter_jit` donates
    all arguments, or all except the first.

    Args:
      arguments: arguments of the function.
      paths: paths of those to donate.
      parameters: parameters of the HLO before optimization, whose names show who called `jax.jit`.
    """
    donated = [*(a.path for a in arguments if a.donated), *paths]
    if any(each.name.startswith(_EQUINOX) for each in parameters):
        is_first = bool(arguments) and argument_root(arguments[0].path) in map(argument_root, donated)
        return f'equinox.filter_jit(fun, donate="{"all" if is_first else "all-except-first"}")'
    names = dict.fromkeys(argument_root(path) for path in donated if not _VARIADIC.match(path))
    numbers = sorted({int(found[1]) for path in donated if (found := _VARIADIC.match(path))})
    parts = [
        f"{keyword}=({', '.join(map(repr, values))}{',' * (len(values) == 1)})"
        for keyword, values in (("donate_argnums", numbers), ("donate_argnames", [*names]))
        if values
    ]
    jit = "nnx.jit" if any(map(_NNX.search, (each.name for each in parameters))) else "jax.jit"
    return f"{jit}(fun, {', '.join(parts)})"


def path_keys(path: str) -> tuple[str, ...]:
    """Returns the keys below the function's parameter, or of a result."""
    return tuple(a or b or c for a, b, c in _KEY.findall(path))


def common_path(paths: Sequence[str]) -> str:
    """Returns the common beginning of the paths of results, in whole keys."""
    parts = [[m.group() for m in _KEY.finditer(path)] for path in paths]
    common = []
    for each in zip(*parts, strict=False):
        if len(set(each)) > 1:
            break
        common.append(each[0])
    return "".join(common)
