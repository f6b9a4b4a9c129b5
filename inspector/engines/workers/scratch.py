"""Scratch directories of workers, and the deletion of orphaned ones.

The process that makes a directory holds a lock in it. Forked workers inherit the lock, and the system releases it with
the last of these processes, however they end. So a directory whose lock is free is an orphan, even if the notebook
kernel, its fork server and their workers were all killed at once. The next process that starts deletes it.
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

# On systems without such locks, each process deletes its own directories, and those of crashed processes stay.
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None

_MEMORY = Path("/dev/shm")
_NAMES = "inspector-[0-9]*-????????"
_LOOK_S = 0.05

ROOM_BYTES = 32 << 20
"""Free space that a directory should have at least."""

_LOCK = ".inspector-lock"  # marks inspector's directories: a user's may have a similar name


class Scratch:
    """A locked directory. Not thread-safe."""

    def __init__(self, parent: int, room_bytes: int = 0) -> None:
        """Creates the directory, in memory where the system has such a place with enough space.

        Args:
          parent: pid of the process that uses it; part of the name.
          room_bytes: free space that it needs; 0 for `ROOM_BYTES`.

        Raises:
          OSError: the directory cannot be created.
        """
        self._descriptor = -1
        while self._descriptor < 0:  # it may be deleted as an orphan before it is locked: rare, try again
            self.path = tempfile.mkdtemp(prefix=_prefix(parent), dir=_place(room_bytes or ROOM_BYTES))
            with contextlib.suppress(FileNotFoundError):
                self._descriptor = _lock_descriptor(f"{self.path}/{_LOCK}")

    def release(self) -> None:
        """Releases the lock. Processes forked meanwhile still hold it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def delete(self) -> None:
        """Deletes the directory and its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()


def delete_orphans() -> list[Path]:
    """Deletes the directories of any notebook kernel that no process holds. Returns the others."""
    if fcntl is None:
        return []
    left = []
    for place in {_MEMORY, Path(tempfile.gettempdir())}:
        for path in place.glob(_NAMES):
            try:
                _delete_unless_held(path)
            except OSError:  # locked, another user's, or being deleted by another process
                left.append(path)
    return left


def delete_orphans_of(parent: int, limit_s: float) -> None:
    """Deletes orphans until a process that is ending leaves none. It releases its locks in sequence.

    Args:
      parent: its pid.
      limit_s: time limit in seconds, after which directories that are still locked stay.
    """
    until = time.monotonic() + limit_s
    while any(p.name.startswith(_prefix(parent)) for p in delete_orphans()) and time.monotonic() < until:
        time.sleep(_LOOK_S)


def _delete_unless_held(path: Path) -> None:
    try:
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        path.rmdir()  # its process ended before it took the lock; fails unless the directory is empty
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _lock_descriptor(lock: str) -> int:
    """Returns a descriptor that holds a new lock. Raises FileNotFoundError when its directory was deleted meanwhile."""
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
    """Reports whether a file system has enough free space; True where that is unknown."""
    free = free_bytes(path)
    return free is None or free >= room_bytes


def _place(room_bytes: int) -> str:
    """Returns the memory file system if it has enough space, else the temporary folder, else the one with more space."""
    temporary = tempfile.gettempdir()
    if not os.access(_MEMORY, os.W_OK):
        return temporary
    if has_room(_MEMORY, room_bytes):
        return str(_MEMORY)
    return temporary if (free_bytes(temporary) or 0) >= (free_bytes(_MEMORY) or 0) else str(_MEMORY)
