"""Names of arguments and results: `params['w'][0]` is below `params` and has the keys `w` and `0`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.compilation.program import Argument

_KEY = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")


def argument_root(path: str) -> str:
    """Returns the name of the function's parameter."""
    return re.split(r"[\[.]", path, maxsplit=1)[0]


def donation_code(arguments: Sequence[Argument], root: str) -> str:
    """Returns the call of `jax.jit` that donates one more parameter of the function."""
    names = dict.fromkeys([*(argument_root(a.path) for a in arguments if a.donated), root])
    return f"jax.jit(fun, donate_argnames=({', '.join(map(repr, names))}{',' * (len(names) == 1)}))"


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
