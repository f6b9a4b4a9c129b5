"""Finds the shared library of the installed jaxlib, and caches data extracted from such libraries on disk.

The contents of a library do not change while it is installed, and extracting data takes seconds. So the results
are stored in the user's cache directory under the library's version, length and modification time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from inspector.errors import MissingPackageError
from inspector.support import files, packages
from inspector.support.install_commands import install_command, sentence

_DIGEST_BYTES = hashlib.sha256().digest_size
_MAX_BYTES = 256 << 20


def installed_library() -> Path:
    """Returns the path of jaxlib's shared library. Imports nothing of jaxlib.

    Raises:
      MissingPackageError: jaxlib is not installed.
    """
    for folder in packages.folders("jaxlib"):
        for name in ("libjax_common.so", "libjax_common.dylib", "jax_common.dll"):
            library = folder / name
            if library.exists():
                return library
    raise MissingPackageError(
        "The package jaxlib is not installed (libjax_common was not found). It contains the protobuf"
        f" schema of HLO. {sentence(install_command('jax'))}"
    )


def cached(name: str, make: Callable[[Path], bytes]) -> bytes:
    """Returns the result of `make(jaxlib's library)`, cached as in `cached_of`.

    Raises:
      MissingPackageError: jaxlib is not installed.
    """
    return cached_of(installed_library(), name, packages.version("jaxlib"), make)


def cached_of(library: Path, name: str, version: str, make: Callable[[Path], bytes]) -> bytes:
    """Returns the result of `make(library)`, from the cache if the cached data is intact.

    Args:
      library: library of jaxlib or of a plugin.
      name: name of the cached data, with a format version if the format has changed, for example "descriptors".
      version: the library's version.
      make: called if nothing is cached; an exception is not cached.
    """
    stat = library.stat()
    folder = files.cache_folder()
    if folder is None:
        return make(library)
    cache = folder / f"{name}-{version}-{stat.st_size}-{stat.st_mtime_ns}.bin"
    data = _read(cache)
    if data is None:
        data = make(library)
        _write(cache, data)
    return data


def _read(cache: Path) -> bytes | None:
    """Returns the cached bytes, or None if there are none, another user could have written them or their digest does not match."""
    try:
        files.check_own_folder(cache.parent)
        data = files.read(cache, _MAX_BYTES, own=True)
    except OSError:
        return None
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


def _write(cache: Path, content: bytes) -> None:
    """Writes the cache in one step; does nothing if the folder is not writable."""
    try:
        files.make_own_folder(cache.parent)
        with files.writing(cache, mode=0o600, durable=False) as file:
            file.write(hashlib.sha256(content).digest() + content)
    except OSError:
        return
