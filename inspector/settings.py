"""Settings of the process, and of a scope within it.

    inspector.settings.update(cache=False)                   for the process
    with inspector.settings.scope(cache_directory="/tmp/c"): for requests that this thread submits in the block

Environment variables set the initial values: `INSPECTOR_CACHE` ("off" or "on") and `INSPECTOR_CACHE_DIR`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import difflib
import os
from collections.abc import Callable, Iterator
from typing import Any

from inspector.errors import ParameterError, check_bool
from inspector.support import files
from inspector.support.notebook import short


def _cache_directory() -> str:
    if folder := os.environ.get("INSPECTOR_CACHE_DIR"):
        return folder
    caches = files.cache_folder()
    return str(caches / "compiled") if caches else ""


def _cache() -> bool:
    return os.environ.get("INSPECTOR_CACHE", "on").lower() not in ("off", "0", "false")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """All settings.

    Attributes:
      cache: whether compiled programs are cached, in memory and on disk.
      cache_directory: the folder of the disk cache; "" to cache in memory only.
      cache_memory_bytes: the limit of the memory cache, in bytes. A program that takes more than a sixteenth of it is not kept
        in memory if the disk cache has it.
      cache_disk_bytes: the limit of the disk cache, in bytes; the least recently used programs are deleted first.
      dump_directory: the folder that must contain the files named by options typed in an Explorer, such as
        `xla_dump_to`; "" if such options may name no files. Options set in Python may name any file.
      time_limit_s: the time limit of a compile or run in a worker process, in seconds. A longer one is stopped
        (`TimeLimitError`). None for no limit.
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
                raise ValueError(f"{name} must be a number of bytes, 0 or more, got {short(value)}.")
        object.__setattr__(self, "cache", check_bool("cache", self.cache, ValueError))
        for name in ("cache_directory", "dump_directory"):
            value = getattr(self, name)
            if not isinstance(value, (str, os.PathLike)):
                raise ValueError(f"{name} must be a path, or '' for none, got {short(value)}.")
            object.__setattr__(self, name, os.fspath(value))
        check_time_limit(self.time_limit_s)


def check_time_limit(limit_s: object, name: str = "time_limit_s") -> None:
    """Checks a time limit.

    Args:
      limit_s: the value, in seconds.
      name: the parameter's name, for the message.

    Raises:
      ParameterError: the limit is neither a number above 0 nor None.
    """
    if limit_s is not None and not (
        isinstance(limit_s, (int, float)) and not isinstance(limit_s, bool) and limit_s > 0
    ):
        raise ParameterError(f"{name} must be a number of seconds above 0, or None, got {short(limit_s)}.")


def _is_number(value: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


_process = Settings()
_scope: contextvars.ContextVar[Settings | None] = contextvars.ContextVar("inspector_settings", default=None)


def current() -> Settings:
    """Returns the settings in effect: those of the innermost scope, or else those of the process."""
    return _scope.get() or _process


def update(**changes: Any) -> None:
    """Changes settings of the process. Open scopes keep theirs.

    Args:
      changes: fields of `Settings`.

    Raises:
      TypeError: an unknown setting.
      ValueError: an invalid value.
    """
    global _process
    _process = _changed(_process, changes)


def _changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    known = [field.name for field in dataclasses.fields(Settings)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise TypeError(f"Unknown setting {unknown[0]}.{meant} Settings: {', '.join(known)}.")
    return dataclasses.replace(settings, **changes)


def here() -> Callable[[], object]:
    """Returns a function that puts the current scope into effect in the thread that calls it."""
    chosen = _scope.get()
    return lambda: _scope.set(chosen)


@contextlib.contextmanager
def scope(**changes: Any) -> Iterator[Settings]:
    """Changes settings for the block.

    Args:
      changes: fields of `Settings`.

    Raises:
      TypeError: an unknown setting.
      ValueError: an invalid value.
    """
    token = _scope.set(_changed(current(), changes))
    try:
        yield current()
    finally:
        _scope.reset(token)
