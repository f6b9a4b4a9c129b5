"""Settings of this process, and of a scope within it.

    inspector.settings.update(cache=False)                   for the process
    with inspector.settings.scope(cache_directory="/tmp/c"): for what is submitted in here, by this thread

Environment variables give the first values: `INSPECTOR_CACHE` ("off" or "on") and
`INSPECTOR_CACHE_DIR`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import difflib
import os
from collections.abc import Callable, Iterator
from typing import Any

from inspector.errors import check_bool
from inspector.support import files


def _cache_directory() -> str:
    if folder := os.environ.get("INSPECTOR_CACHE_DIR"):
        return folder
    caches = files.cache_folder()
    return str(caches / "compiled") if caches else ""


def _cache() -> bool:
    return os.environ.get("INSPECTOR_CACHE", "on").lower() not in ("off", "0", "false")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What can be set.

    Attributes:
      cache: whether compiled programs are remembered, in memory and on disk.
      cache_directory: where on disk; "" for memory only.
      cache_memory_bytes: the most that this process remembers; a program of more than a sixteenth of it is left to the disk,
        where that has it.
      cache_disk_bytes: the most that stays in the directory; the least recently used goes first.
      dump_directory: the folder below which options that are typed in an Explorer may name files, such as
        `xla_dump_to`; "" for none. Python may name any.
      time_limit_s: a compile or run in a worker process that takes longer is stopped (`TimeLimitError`); None for
        no limit.
    """

    cache: bool = dataclasses.field(default_factory=_cache)
    cache_directory: str = dataclasses.field(default_factory=_cache_directory)
    cache_memory_bytes: int = 256 << 20
    cache_disk_bytes: int = 2 << 30
    dump_directory: str = ""
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("cache_memory_bytes", "cache_disk_bytes"):
            value = getattr(self, name)
            if not _is_number(value, int) or value < 0:
                raise ValueError(f"{name} must be a number of bytes, 0 or more, got {value!r}.")
        object.__setattr__(self, "cache", check_bool("cache", self.cache, ValueError))
        for name in ("cache_directory", "dump_directory"):
            value = getattr(self, name)
            if not isinstance(value, (str, os.PathLike)):
                raise ValueError(f"{name} must be a path, or '' for none, got {value!r}.")
            object.__setattr__(self, name, os.fspath(value))
        check_time_limit(self.time_limit_s)


def check_time_limit(limit_s: object, name: str = "time_limit_s") -> None:
    """Refuses what is no time limit; `name` is what the user calls it.

    Raises:
      ValueError: neither a number of seconds above 0 nor None.
    """
    if limit_s is not None and not (
        isinstance(limit_s, (int, float)) and not isinstance(limit_s, bool) and limit_s > 0
    ):
        raise ValueError(f"{name} must be a number of seconds above 0, or None, got {limit_s!r}.")


def _is_number(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


_process = Settings()
_scope: contextvars.ContextVar[Settings | None] = contextvars.ContextVar("inspector_settings", default=None)


def current() -> Settings:
    """The settings that hold here: the innermost scope's, else the process's."""
    return _scope.get() or _process


def update(**changes: Any) -> None:
    """Changes settings for the process; scopes that are open keep theirs.

    Args:
      changes: fields of `Settings`.

    Raises:
      TypeError: no such setting.
      ValueError: a value that the setting cannot have.
    """
    global _process
    _process = _changed(_process, changes)


def _changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    known = [field.name for field in dataclasses.fields(Settings)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise TypeError(f"There is no setting {unknown[0]}.{meant} There are {', '.join(known)}.")
    return dataclasses.replace(settings, **changes)


def here() -> Callable[[], object]:
    """Makes the scope that holds here hold in another thread, where it is called first."""
    chosen = _scope.get()
    return lambda: _scope.set(chosen)


@contextlib.contextmanager
def scope(**changes: Any) -> Iterator[Settings]:
    """Changes settings for the block.

    Args:
      changes: fields of `Settings`.

    Raises:
      TypeError: no such setting.
      ValueError: a value that the setting cannot have.
    """
    token = _scope.set(_changed(current(), changes))
    try:
        yield current()
    finally:
        _scope.reset(token)
