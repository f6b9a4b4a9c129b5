"""The files of one profiling session: `<folder>/plugins/profile/<session>/<host>.xplane.pb`, one for each host."""

from __future__ import annotations

import os
from pathlib import Path

from inspector.errors import ProfileError
from inspector.profiles.xspace import MOST_BYTES
from inspector.support import files

SUFFIX = ".xplane.pb"
_PATTERNS = ("*" + SUFFIX, "*/*" + SUFFIX, "profile/*/*" + SUFFIX, "plugins/profile/*/*" + SUFFIX)
_EXPECTED = (
    "Expected a .xplane.pb file, or a folder that jax.profiler.start_trace(folder) or jax.profiler.trace(folder) wrote, with"
    f" plugins/profile/*/*{SUFFIX} in it"
)


def is_profile(path: str | os.PathLike[str]) -> bool:
    """Reports whether a path names a profile: a folder, or a file with the suffix of profiles."""
    return Path(path).is_dir() or os.fspath(path).endswith(SUFFIX)


def session_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Returns the files of the newest session in a folder, by name; or the file itself.

    Args:
      path: a `.xplane.pb` file, the folder of a session, or a folder that contains sessions.

    Raises:
      FileNotFoundError: no such file or folder.
      ProfileError: the folder contains no profile.
    """
    place = Path(path)
    if not place.is_dir():
        if not place.exists():
            raise FileNotFoundError(2, "No such file or folder", os.fspath(path))
        return (place,)
    for pattern in _PATTERNS:
        by_session: dict[Path, list[Path]] = {}
        for file in place.glob(pattern):
            by_session.setdefault(file.parent, []).append(file)
        if by_session:
            newest = max(
                by_session,
                key=lambda folder: (max(file.stat().st_mtime_ns for file in by_session[folder]), folder.name),
            )
            return tuple(sorted(by_session[newest]))
    raise ProfileError(f"The folder {os.fspath(path)!r} contains no profile. {_EXPECTED}.")


def read_file(path: Path) -> bytes:
    """Returns the bytes of a profile.

    Raises:
      ProfileError: it is larger than profiles that can be read, or not a regular file.
      OSError: it cannot be read.
    """
    try:
        return files.read(path, MOST_BYTES)
    except files.RefusedError as e:
        raise ProfileError(f"{os.fspath(path)!r} cannot be read as a profile: {e} {_EXPECTED}.") from e
    except MemoryError as e:
        raise ProfileError(f"{os.fspath(path)!r} does not fit into memory. Record fewer steps.") from e


def host_of(path: Path) -> str:
    """Returns the name of the host that wrote a file."""
    return path.name.removesuffix(SUFFIX)
