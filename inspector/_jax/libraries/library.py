"""The shared library of the installed jaxlib, and a cache on disk for what is found in such libraries.

What a library holds does not change while it is installed, and finding it costs seconds, so it
is kept in the user's cache directory under the library's version, length and time.
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
    """The path of jaxlib's shared library. Nothing of jaxlib is imported.

    Raises:
      MissingPackageError: jaxlib is not installed.
    """
    for folder in packages.folders("jaxlib"):
        for name in ("libjax_common.so", "libjax_common.dylib", "jax_common.dll"):
            library = folder / name
            if library.exists():
                return library
    raise MissingPackageError(
        "The package jaxlib is not installed (no libjax_common in it was found); it holds the protobuf"
        f" schema of HLO. {sentence(install_command('jax'))}"
    )


def cached(name: str, make: Callable[[Path], bytes]) -> bytes:
    """What `make(jaxlib's library)` returned; see `cached_of`.

    Raises:
      MissingPackageError: jaxlib is not installed.
    """
    return cached_of(installed_library(), name, packages.version("jaxlib"), make)


def cached_of(library: Path, name: str, version: str, make: Callable[[Path], bytes]) -> bytes:
    """What `make(library)` returned, from the cache when that is whole.

    Args:
      library: of jaxlib, or of a plugin.
      name: what is kept, with its format's version when that has changed, such as "descriptors".
      version: the library's.
      make: called when there is no such cache; what it raises is not kept.
    """
    stat = library.stat()
    folder = files.cache_folder()
    if folder is None:
        return make(library)
    cache = folder / f"{name}-{version}-{stat.st_size}-{stat.st_mtime_ns}.bin"
    found = _read(cache)
    if found is None:
        found = make(library)
        _write(cache, found)
    return found


def _read(cache: Path) -> bytes | None:
    """The cached bytes, or None when there are none, others could have written them or their digest does not match."""
    try:
        files.check_own_folder(cache.parent)
        data = files.read(cache, _MAX_BYTES, own=True)
    except OSError:
        return None
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


def _write(cache: Path, content: bytes) -> None:
    """Writes the cache in one step; a folder that cannot be written only costs the next search."""
    try:
        files.make_own_folder(cache.parent)
        with files.writing(cache, mode=0o600, durable=False) as file:
            file.write(hashlib.sha256(content).digest() + content)
    except OSError:
        return
