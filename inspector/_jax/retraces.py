"""Why JAX traced and compiled a function again: what differed from the closest call before.

JAX explains it in a warning (`jax_explain_cache_misses`), and only there. It is heard while somebody watches, and
shown to nobody who did not ask for it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import inspect
import logging
import pathlib
import re
import sysconfig
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import jax
from jax._src.interpreters import partial_eval

from inspector.tables import Kind, Tabular, make_table

if TYPE_CHECKING:
    import pandas as pd

_FLAG = "jax_explain_cache_misses"
_BEGINS = "TRACING CACHE MISS at "

Cause = Literal["first call", "defined again", "arguments", "structure", "context", "unknown"]
What = Literal["shape", "dtype", "weak type", "sharding", "type", "static value", "structure", "setting"]


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """What a call has other than the closest one before.

    Attributes:
      what: differs.
      where: the argument, as JAX names it, such as `params['w']`, or its place, such as `args[1]`; the setting's name.
      now, before: its type, static value, structure or setting in both, in JAX's words.
    """

    what: What
    where: str
    now: str
    before: str


@dataclasses.dataclass(frozen=True, slots=True)
class Retrace:
    """A call for which JAX had no trace, and so no executable.

    Attributes:
      fun_name: the function's.
      defined_at: its file and line; "" where JAX does not say.
      called_at: the line of the call; where JAX names one of an installed library, the user's that called it.
      cause: "first call"; "defined again": a new function object of the same line, such as a lambda in a loop;
        "arguments": other types; "structure": another pytree or static value; "context": other settings of JAX;
        "unknown": JAX does not say, as JAX 0.12 does not of static values.
      changes: what differs, by argument; () of a first call.
      explanation: JAX's own words.
    """

    fun_name: str
    defined_at: str
    called_at: str
    cause: Cause
    changes: tuple[Changed, ...]
    explanation: str

    def __str__(self) -> str:
        said = "; ".join(f"{c.what} of {c.where}: {c.now}, before {c.before}" for c in self.changes)
        return f"{self.fun_name} at {self.called_at}: {said or self.cause}"


class Retraces(Tabular):
    """The retraces of a `with` block, in order; grows while it runs."""

    def __init__(self, found: Sequence[Retrace]) -> None:
        """Takes the list that grows."""
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Retrace]:
        return iter(tuple(self._found))

    def __getitem__(self, index: int) -> Retrace:
        return self._found[index]

    def table(self) -> pd.DataFrame:
        """One row a change, one of a retrace without any.

        Columns: `function, called_at, cause, what, where, now, before, defined_at`.
        """
        rows: list[tuple[object, ...]] = []
        for each in self:
            changes: list[tuple[str | None, ...]] = [(c.what, c.where, c.now, c.before) for c in each.changes]
            rows += (
                (each.fun_name, each.called_at, each.cause, *change, each.defined_at)
                for change in changes or [(None, None, None, None)]
            )
        return make_table(_COLUMNS, rows)

    def __repr__(self) -> str:
        again = sum(each.cause != "first call" for each in self)
        lines = "".join(f"\n  {each}" for each in self if each.cause != "first call")
        return f"<Retraces: {len(self) - again} first calls, {again} again{lines}>"


_COLUMNS: Mapping[str, Kind] = {
    "function": "text", "called_at": "text", "cause": "text", "what": "text", "where": "text", "now": "text",
    "before": "text", "defined_at": "text",
}  # fmt: skip


@contextlib.contextmanager
def watch_retraces() -> Iterator[Retraces]:
    """Lists what JAX traces anew in this process, of all threads, while the `with` block runs, and why.

    Functions of JAX itself are left out, as in JAX's own explanations.
    """
    found: list[Retrace] = []
    _ear.add(found)
    try:
        yield Retraces(found)
    finally:
        _ear.remove(found)


class RetraceWatch:
    """Lists what JAX traces anew in this process between `start` and `stop`, which may be called again and again.

    Attributes:
      found: the latest 10,000, also when it is off.
    """

    def __init__(self) -> None:
        """Is off."""
        self._kept: collections.deque[Retrace] = collections.deque(maxlen=_MOST)
        self._heard: weakref.WeakMethod[Callable[[], None]] | None = None
        self.found = Retraces(self._kept)

    @property
    def is_on(self) -> bool:
        """Whether it listens."""
        return self._heard is not None

    def start(self, heard: Callable[[], None]) -> None:
        """Listens.

        Args:
          heard: a method, of which this keeps no reference; called after each retrace, on the thread that traces.
        """
        if not self.is_on:
            _ear.add(self)
        self._heard = weakref.WeakMethod(heard)

    def stop(self) -> None:
        """Listens no longer; what was found stays."""
        if self.is_on:
            _ear.remove(self)
        self._heard = None

    def append(self, retrace: Retrace) -> None:
        """Called by what hears JAX."""
        self._kept.append(retrace)
        heard = self._heard and self._heard()
        if heard:
            heard()


_MOST = 10_000


class _Watcher(Protocol):
    """Who wants to hear of retraces."""

    def append(self, retrace: Retrace, /) -> None: ...


class _Ear:
    """Hears JAX's explanations while anyone watches; one for the process, as the flag is.

    It stands in for the logger that JAX explains to, which a level, `logging.disable` or a configuration may have made
    deaf to them.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._watchers: list[_Watcher] = []
        self._was_on = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def add(self, watcher: _Watcher) -> None:
        with self._lock:
            self._watchers.append(watcher)
            if len(self._watchers) == 1:
                self._was_on = bool(jax.config.values[_FLAG])
                jax.config.update(_FLAG, True)
                partial_eval.logger = self  # type: ignore[assignment]  # what JAX asks of it, it has

    def remove(self, watcher: _Watcher) -> None:
        with self._lock:
            self._watchers = [each for each in self._watchers if each is not watcher]
            if not self._watchers:
                partial_eval.logger = self._logger
                jax.config.update(_FLAG, self._was_on)

    def log(self, level: int, message: object, *args: object, **rest: Any) -> None:
        """Takes an explanation, and lets it pass where the user asked JAX for it."""
        text = str(message)
        is_explanation = text.startswith(_BEGINS)
        if is_explanation:
            retrace = _read(text)
            with self._lock:
                watchers = tuple(self._watchers)
            for watcher in watchers:
                watcher.append(retrace)
        if self._was_on or not is_explanation:
            self._logger.log(level, message, *args, **rest)


def _read(message: str) -> Retrace:
    first, *rest = message.split("\n")
    text = "\n".join(rest)
    function = re.search(r"^  (?:for |  )(.+?)(?: id=\d+)?(?: defined at (.+))?$", text, re.MULTILINE)
    changes = tuple(filter(None, map(_change, rest)))
    return Retrace(
        fun_name=function[1] if function else "",
        defined_at=(function[2] or "") if function else "",
        called_at=_users(re.sub(r"^(.*?):$", r"\1", first.removeprefix(_BEGINS))),
        cause=_cause(text),
        changes=changes,
        explanation=message,
    )


def _users(place: str) -> str:
    """The innermost line on the stack that no library has, in place of a library's, as `equinox.filter_jit`'s is."""
    frame = inspect.currentframe() if _is_librarys(place) else None
    while frame and _is_librarys(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else place


def _is_librarys(file: str) -> bool:
    is_installed = bool(_PACKAGES.intersection(pathlib.PurePath(file).parts))
    return is_installed or file.startswith(_NOT_USERS)


_PACKAGES = {"site-packages", "dist-packages"}
_NOT_USERS = (sysconfig.get_path("stdlib"), str(pathlib.Path(__file__).parent.parent), "<frozen ")


def _cause(text: str) -> Cause:
    if "never seen function" in text:
        return "defined again" if "seen another function defined on the same line" in text else "first call"
    for words, cause in _CAUSES.items():
        if words in text:
            return cause
    return "unknown"


_CAUSES: Mapping[str, Cause] = {
    "different input types": "arguments",
    "different input pytree": "structure",
    "Tracing context doesn't match": "context",
}
_TYPES = re.compile(r"  \* at (.+?), now (.+) and before (.+?)(?:https://\S+)?$")
_PATHS = re.compile(r"  \* at input path (.+?), now (.+) and before (.+), so (.+)$")
_SETTING = re.compile(r"  \* (.+?) differs: now (.+) and before (.+)$")
_STATIC = re.compile(r"pytree metadata Static\(val=(.+)\)$")
_ARRAY = re.compile(r"(\w+)\[([^\]]*)\](\(.*\))?(?:\{weak_type=(\w+)\})?$")


def _change(line: str) -> Changed | None:
    if found := _PATHS.match(line):
        where, now, before, _ = found.groups()
        values = [_STATIC.search(text) for text in (now, before)]
        if values[0] and values[1]:
            return Changed("static value", _place(where), values[0][1], values[1][1])
        return Changed("structure", _place(where), now, before)
    if found := _SETTING.match(line):
        return Changed("setting", *found.groups())
    if found := _TYPES.match(line):
        where, now, before = found.groups()
        return Changed(_what(now, before), where, now, before)
    return None


def _place(path: str) -> str:
    """`[0][1]['w']` is `args[1]['w']`, `[1]['n']` is `n`."""
    path = re.sub(r"^\[0\](\[\d+\])", r"args\1", path)
    return re.sub(r"^\[1\]\['(\w+)'\]", r"\1", path)


def _what(now: str, before: str) -> What:
    ours, theirs = _ARRAY.match(now), _ARRAY.match(before)
    if not ours or not theirs:
        return "type"
    for group, what in _PARTS.items():
        if ours[group] != theirs[group]:
            return what
    return "type"


_PARTS: Mapping[int, What] = {1: "dtype", 2: "shape", 4: "weak type", 3: "sharding"}


_ear = _Ear(partial_eval.logger)
