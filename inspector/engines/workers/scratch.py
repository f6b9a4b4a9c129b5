"""Directories for what workers write, and the deletion of those that nobody lives for.

Whoever makes one holds a lock in it, which a forked worker inherits and the system releases with the
last of them, however they end. So a directory whose lock is free is nobody's, also when the notebook kernel, its
fork server and their workers were all killed at once, and whoever starts next deletes it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from inspector._jax.compiling.dump import free_bytes

# Where the system has no such locks, each process deletes its own, and what a crash leaves stays.
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None

_MEMORY = Path("/dev/shm")
_NAMES = "inspector-[0-9]*-????????"
_LOOK_S = 0.05

ROOM_BYTES = 32 << 20
"""Free space that a directory should have at least."""

_LOCK = ".inspector-lock"  # tells a directory of ours from a user's of such a name


class Scratch:
    """One directory, held. Not for several threads."""

    def __init__(self, parent: int, room_bytes: int = 0) -> None:
        """Makes it, in memory where the system has such a place with enough room.

        Args:
          parent: the pid of the process that it serves; part of the name.
          room_bytes: free space that it should have; 0 for `ROOM_BYTES`.

        Raises:
          OSError: it cannot be made.
        """
        self._descriptor = -1
        while self._descriptor < 0:  # taken for an orphan and deleted before it was held: rare, and made again
            self.path = tempfile.mkdtemp(prefix=_prefix(parent), dir=_place(room_bytes or ROOM_BYTES))
            with contextlib.suppress(FileNotFoundError):
                self._descriptor = _held(f"{self.path}/{_LOCK}")

    def release(self) -> None:
        """Holds it no longer; processes forked meanwhile still do."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def delete(self) -> None:
        """Deletes it, with what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()


def delete_orphans() -> list[Path]:
    """Deletes the directories, of whatever notebook kernel, that no process holds. Returns those that stay."""
    if fcntl is None:
        return []
    left = []
    for place in {_MEMORY, Path(tempfile.gettempdir())}:
        for path in place.glob(_NAMES):
            try:
                _delete_unless_held(path)
            except OSError:  # held, another user's, or deleted by another right now
                left.append(path)
    return left


def delete_orphans_of(parent: int, limit_s: float) -> None:
    """Deletes orphans until none is left of a process that ends: it closes its locks one after the other.

    Args:
      parent: its pid.
      limit_s: when to leave what is held still.
    """
    until = time.monotonic() + limit_s
    while any(p.name.startswith(_prefix(parent)) for p in delete_orphans()) and time.monotonic() < until:
        time.sleep(_LOOK_S)


def _delete_unless_held(path: Path) -> None:
    try:
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        path.rmdir()  # the maker ended before it held it; fails for what holds anything else
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _held(lock: str) -> int:
    """A descriptor that holds a new lock. Raises FileNotFoundError when its directory was deleted meanwhile."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        Path(lock).stat()
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _prefix(parent: int) -> str:
    return f"inspector-{parent}-"


def has_room(path: str | Path, room_bytes: int) -> bool:
    """Reports whether a file system has some free space; True where that cannot be told."""
    free = free_bytes(path)
    return free is None or free >= room_bytes


def _place(room_bytes: int) -> str:
    """Memory where it has room, else the temporary folder, else whichever has more."""
    temporary = tempfile.gettempdir()
    if not os.access(_MEMORY, os.W_OK):
        return temporary
    if has_room(_MEMORY, room_bytes):
        return str(_MEMORY)
    return temporary if (free_bytes(temporary) or 0) >= (free_bytes(_MEMORY) or 0) else str(_MEMORY)
