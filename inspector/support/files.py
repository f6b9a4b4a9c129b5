"""Reads and writes files and folders that other users may have created, after checks of kind, size, owner and permissions.

A failed check raises `RefusedError` with the reason. It is an `OSError`, so code that handles unreadable files also
handles rejected ones.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import importlib.util
import io
import os
import re
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

AnyPath = str | os.PathLike[str]

_LOCK_LIMIT_S = 10.0
_UPDATE_LIMIT_S = 60.0
_MAX_NAME = 200  # of the 255 bytes that file systems allow

PARTIAL_LIFE_S = 3600.0
"""Partial files older than this, in seconds, were left by a killed process."""

# Accounts and locks of Unix systems; not available everywhere.
_accounts: Any = importlib.import_module("pwd") if importlib.util.find_spec("pwd") else None
_locks: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
_groups: Any = importlib.import_module("grp") if importlib.util.find_spec("grp") else None


class RefusedError(OSError):
    """An existing file or folder that must not be used."""


def cache_folder() -> Path | None:
    """Returns the folder of this user's inspector caches, without creating it; None for a user without a home."""
    try:
        if sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        elif sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME", ""))
            if not base.is_absolute():  # its specification requires ignoring relative paths
                base = Path.home() / ".cache"
    except RuntimeError:  # no HOME, and the user has no account
        return None
    return base / "inspector" if base.is_absolute() else None


@contextlib.contextmanager
def named(path: AnyPath) -> Iterator[None]:
    """Adds the file's name to OSErrors of the block. Python adds it if opening fails, but not if the disk is full."""
    try:
        yield
    except OSError as e:
        if e.filename is None:
            e.filename = os.fspath(path)
        raise


def open_regular(path: AnyPath, *, own: bool = False) -> BinaryIO:
    """Opens a regular file for reading, without blocking: a pipe would wait for a writer, and a device may never end.

    Args:
      path: the file.
      own: whether to reject links, and files that another user owns or can write.

    Raises:
      RefusedError: the path is not such a file.
      OSError: it cannot be opened.
    """
    flags = ["O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", *(["O_NOFOLLOW"] if own else [])]
    if own and Path(path).is_symlink():
        raise RefusedError(f"{os.fspath(path)!r} is a link")
    descriptor = os.open(path, os.O_RDONLY | sum(getattr(os, flag, 0) for flag in flags))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise RefusedError(f"{os.fspath(path)!r} is {_kind(status.st_mode)}, not a regular file")
        if own and (why := _why_not_own(status)):
            raise RefusedError(f"{os.fspath(path)!r} {why}")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read(path: AnyPath, limit_bytes: int, *, own: bool = False) -> bytes:
    """Returns the bytes of a file.

    Args:
      path: the file.
      limit_bytes: the maximum size, in bytes.
      own: see `open_regular`.

    Raises:
      RefusedError: not a regular file, too long, or, with `own`, not this user's own.
      OSError: it cannot be read.
    """
    with open_regular(path, own=own) as file:
        # The size is checked first, so that a long file is not read; but the file may grow meanwhile.
        data = file.read(limit_bytes + 1) if os.fstat(file.fileno()).st_size <= limit_bytes else None
    if data is None or len(data) > limit_bytes:
        raise RefusedError(f"{os.fspath(path)!r} has more than {limit_bytes} bytes")
    return data


def open_shared(path: AnyPath) -> BinaryIO:
    """Opens a regular file for reading and appending. Creates it if necessary.

    Raises:
      RefusedError: the path is not a regular file.
      OSError: it cannot be opened or created.
    """
    flags = sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | flags, 0o666)
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RefusedError(f"{os.fspath(path)!r} is {_kind(mode)}, not a regular file")
    return os.fdopen(descriptor, "r+b")


@contextlib.contextmanager
def writing(path: AnyPath, *, mode: int | None = None, durable: bool = True) -> Iterator[BinaryIO]:
    """Writes a file completely or not at all, even if the process is killed or the disk is full.

    The bytes go to a new file in the same folder, which replaces the old one when the block ends without an error. Readers
    see either the old file or the new one. Links are followed. A device or a pipe cannot be replaced, and receives the
    bytes when the block ends.

    Args:
      path: the file.
      mode: mode of the file before the umask, such as 0o600 for this user only. None keeps the mode of an existing file,
        and uses the default of a new one (0o666 before the umask).
      durable: whether to wait until the bytes are on the disk, so that a power failure loses neither version. Not needed
        for caches, whose readers verify the data.

    Raises:
      OSError: the folder does not exist, or the file cannot be written. The old file is then unchanged.
    """
    target = _resolved(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder. Give the name of a file in it", os.fspath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "The folder to write into does not exist", str(Path(path).parent))
    old_mode: int | None = None
    if target.exists():
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            with _writing_through(target) as file:
                yield file
            return
        if not os.access(target, os.W_OK):
            raise PermissionError(
                errno.EACCES, "This file is read-only. Change its mode or give another name", str(path)
            )
        if mode is None:
            old_mode = mode = stat.S_IMODE(status.st_mode)
    # Not `tempfile`, whose files are readable by their owner only.
    partial = target.with_name(f".{target.name[:_MAX_NAME]}.{secrets.token_hex(8)}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(partial, flags, 0o666 if mode is None else mode)
        with named(path), os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        if old_mode is not None:  # the umask must not change it
            with contextlib.suppress(OSError):
                partial.chmod(old_mode)
        partial.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(target.parent)
        _sweep_partials(target)


def _resolved(path: AnyPath) -> Path:
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as e:
        raise FileNotFoundError(
            errno.ENOENT,
            "The current folder was deleted. Change to another one or give an absolute path",
            os.fspath(path),
        ) from e


def write_text(path: AnyPath, text: str) -> None:
    """Writes UTF-8 text with `writing`.

    Raises:
      OSError: see `writing`.
    """
    with writing(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def _writing_through(target: Path) -> Iterator[BinaryIO]:
    """Collects the bytes for a device or a pipe."""
    collected = io.BytesIO()
    yield collected
    with named(target), target.open("wb") as file:
        file.write(collected.getbuffer())


def _sync_folder(folder: Path) -> None:
    """Flushes a rename to the disk, on systems that can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep_partials(target: Path) -> None:
    """Deletes partial files of killed writers of the same file."""
    name = re.compile(rf"\.{re.escape(target.name[:_MAX_NAME])}\.[0-9a-f]{{16}}")
    with contextlib.suppress(OSError):
        for entry in os.scandir(target.parent):
            if name.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > PARTIAL_LIFE_S:
                        os.unlink(entry)  # noqa: PTH108  an entry, not a path


@contextlib.contextmanager
def locked(file: BinaryIO) -> Iterator[None]:
    """Locks a file for the block. Waits for other lock holders, but proceeds without the lock after 10 s."""
    _try_lock(file.fileno(), _LOCK_LIMIT_S)
    try:
        yield
    finally:
        _unlock(file.fileno())


@contextlib.contextmanager
def updating(path: AnyPath) -> Iterator[None]:
    """Locks a file for reading it, changing it and replacing it with `writing`, against other processes and threads.

    The lock is on the folder, because the file itself is replaced, and a lock file next to it would remain. The lock ends
    with the process that holds it. If the file system cannot lock folders, a file in the temporary folder is locked.

    Args:
      path: the file; its folder must exist.

    Raises:
      OSError: another process has held the lock for a minute, or the folder does not exist.
    """
    target = _resolved(path)
    with contextlib.ExitStack() as stack:
        for is_folder in (True, False):
            if _locks is None:
                break
            descriptor = os.open(target.parent, os.O_RDONLY) if is_folder else _open_lock(target)
            stack.callback(os.close, descriptor)
            state = _try_lock(descriptor, _UPDATE_LIMIT_S)
            if state == "busy":
                raise TimeoutError(
                    errno.ETIMEDOUT,
                    f"Another process has been updating this file for {_UPDATE_LIMIT_S:.0f} s. End it (or continue it, if it"
                    " is stopped) and try again",
                    os.fspath(path),
                )
            if state == "held":
                stack.callback(_unlock, descriptor)
                break
        yield


@contextlib.contextmanager
def locked_file(path: AnyPath) -> Iterator[None]:
    """Creates a lock file, locks it for the block and then deletes it. The lock ends with this process.

    Raises:
      BlockingIOError: another process holds it.
      OSError: it cannot be created.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if _try_lock(descriptor, 0.0) == "busy":
            raise BlockingIOError(errno.EWOULDBLOCK, "Another process holds this lock", os.fspath(path))
        try:
            yield
        finally:
            Path(path).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _open_lock(target: Path) -> int:
    """Opens this user's lock file for a path in the temporary folder."""
    user = getattr(os, "getuid", lambda: "")()
    name = f"inspector-{user}-{hashlib.sha256(os.fsencode(target)).hexdigest()[:16]}.lock"
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.open(Path(tempfile.gettempdir()) / name, flags, 0o600)


def _try_lock(descriptor: int, limit_s: float) -> Literal["held", "busy", "impossible"]:
    """Waits up to `limit_s` for an exclusive lock."""
    if _locks is None:
        return "impossible"
    until = time.monotonic() + limit_s
    while True:
        try:
            _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
            return "held"
        except BlockingIOError:
            if time.monotonic() > until:
                return "busy"
            time.sleep(0.005)
        except OSError:  # a file system without locks
            return "impossible"


def _unlock(descriptor: int) -> None:
    if _locks is not None:
        with contextlib.suppress(OSError):
            _locks.flock(descriptor, _locks.LOCK_UN)


def make_own_folder(folder: AnyPath) -> Path:
    """Returns a folder that only this user can write. Creates it and its parents if necessary.

    Raises:
      RefusedError: see `check_own_folder`.
      OSError: it cannot be created.
    """
    path = Path(folder)
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        with contextlib.suppress(FileExistsError):  # another process created it
            missing.mkdir(mode=0o700)
    check_own_folder(path)
    return path


def check_own_folder(folder: AnyPath) -> None:
    """Checks that no other user except root can add or replace files in a folder.

    Raises:
      RefusedError: another user owns the folder, or others can write to it or to a folder above it.
      OSError: the folder does not exist.
    """
    if _accounts is None:
        return
    path = Path(folder).absolute()
    resolved = path.resolve(strict=True)
    status = resolved.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise RefusedError(f"{str(path)!r} is {_kind(status.st_mode)}, not a folder")
    if why := _why_not_own(status):
        raise RefusedError(f"the folder {str(path)!r} {why}")
    for above in dict.fromkeys((path, *path.parents, *resolved.parents)):
        if why := _why_not_safe(above.lstat()):
            raise RefusedError(f"the folder {str(path)!r} is inside {str(above)!r}, which {why}")


def entries(folder: AnyPath) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the regular files of this user in a folder with their status. Links are not followed."""
    for path in Path(folder).iterdir():
        with contextlib.suppress(OSError):  # deleted meanwhile
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and not _why_not_own(status):
                yield path, status


def _why_not_own(status: os.stat_result) -> str:
    """Returns why a file or folder is not this user's own; "" if it is."""
    if _accounts is None:
        return ""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, not to this user ({os.geteuid()})"
    return _why_writable(status)


def _why_not_safe(status: os.stat_result) -> str:
    """Returns why others could replace the contents of a parent folder; "" if they cannot.

    Folders of root are safe. In a sticky folder, users can replace only their own files.
    """
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to user {status.st_uid}"
    return "" if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX else _why_writable(status)


def _why_writable(status: os.stat_result) -> str:
    """Returns why others can write to a file or folder; "" if they cannot."""
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_private(status.st_gid)):
        return f"can be written by others (mode {mode:04o})"
    return ""


def _is_private(group: int) -> bool:
    """Reports whether a group contains only this user. Many systems let such a group write by default."""
    try:
        user, entry = _accounts.getpwuid(os.geteuid()), _groups.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}


def _kind(mode: int) -> str:
    kinds = {
        "a folder": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK, "a link": stat.S_ISLNK,
        "a file": stat.S_ISREG,
    }  # fmt: skip
    return next((name for name, test in kinds.items() if test(mode)), "a device")
