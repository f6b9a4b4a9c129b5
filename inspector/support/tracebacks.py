"""Removes inspector's frames from tracebacks, so that users see their own frames and the message.

Set JAX_TRACEBACK_FILTERING=off to see all frames, as for JAX's own frames.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, TracebackType
from typing import ParamSpec, TypeVar

from inspector.errors import InspectorError

P = ParamSpec("P")
T = TypeVar("T")

_OURS = str(Path(__file__).resolve().parent.parent) + os.sep

_MARK = "_without_own_frames"
_CALLERS: set[CodeType] = set()


def without_own_frames(fun: Callable[P, T]) -> Callable[P, T]:
    """Makes a public function raise errors without the frames of this package.

    This affects inspector's own error classes and errors in user code that inspector runs. Any other error is a bug of
    inspector and keeps all frames.
    """

    @functools.wraps(fun)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            if not _shows_all():
                for each in _chain(error):
                    if _is_users(error) or _runs_users_code(each.__traceback__):
                        each.__traceback__ = _filtered(each.__traceback__)
                        vars(each)[_MARK] = True
            raise  # a bare raise adds no frame of this function

    return wrapper


def calls_users_code(fun: Callable[P, T]) -> Callable[P, T]:
    """Marks a function that calls a user function, so that an error of the call itself counts as the user's.

    An example is a wrong number of arguments.
    """
    _CALLERS.add(fun.__code__)
    return fun


def _shows_all() -> bool:
    jax = sys.modules.get("jax")
    return getattr(getattr(jax, "config", None), "jax_traceback_filtering", None) == "off"


def _is_users(error: BaseException) -> bool:
    """Reports whether an error is one of inspector's classes or was filtered already by an inner function."""
    return isinstance(error, InspectorError) or hasattr(error, _MARK)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and its causes and contexts, as far as Python prints them."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _runs_users_code(trace: TracebackType | None) -> bool:
    """Reports whether a frame below our first one belongs to the user or calls a user function."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(trace)]
    files = [code.co_filename for code in codes]
    first = next((i for i, file in enumerate(files) if _is_ours(file)), len(files))
    if first < len(files) and codes[-1] in _CALLERS:
        return True
    return any(not _is_ours(file) and not file.startswith((*_libraries(), "<frozen")) for file in files[first:])


def _filtered(trace: TracebackType | None) -> TracebackType | None:
    result: TracebackType | None = None
    for frame, line in reversed(list(traceback.walk_tb(trace))):
        if not _is_ours(frame.f_code.co_filename):
            result = TracebackType(result, frame, frame.f_lasti, line)
    return result


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Returns the folders of the standard library and of installed packages.

    Evaluated at first use, because Python in a browser may have none.
    """
    return tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or file == contextlib.__file__  # contextlib's frames belong to our context managers
