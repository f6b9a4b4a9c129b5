"""Finds the installed libtpu, the TPU compiler, and caches data extracted from it on disk.

libtpu is not loaded: it is read as a file, like jaxlib's library (`library.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from inspector._jax.libraries.library import cached_of
from inspector.errors import MissingPackageError
from inspector.platforms import TPU
from inspector.support import packages
from inspector.support.install_commands import install_command, sentence

EXTRA = "jax-inspector[tpu]"
"""The requirement that installs libtpu."""

SMALL_SLICE = f"{TPU.usual_chip}:2x2"
"""A small topology, for compiles that query libtpu's own settings."""


def libtpu_library() -> Path:
    """Returns the path of libtpu.so, as JAX finds it: from `TPU_LIBRARY_PATH`, else in the package.

    Raises:
      MissingPackageError: it is not installed.
    """
    named = os.environ.get("TPU_LIBRARY_PATH")  # JAX also sets it, when it loads the library of the package
    library = Path(named) if named else _packaged()
    if library is not None and library.is_file():
        return library
    if named:
        raise MissingPackageError(f"TPU_LIBRARY_PATH is {named!r}, where libtpu is not installed. Correct or unset it.")
    raise MissingPackageError(
        f"libtpu, the TPU compiler, is not installed. It contains the options of TPUs. {sentence(install_command(EXTRA))}"
    )


def load_variables() -> dict[str, str]:
    """Returns the environment variables with which libtpu loads alongside other processes and on a machine without a TPU."""
    return {
        "TPU_SKIP_MDS_QUERY": "1",  # otherwise it queries a metadata server that exists only on TPU machines
        # Otherwise each process leaves logs in the temporary directory.
        "TPU_LOG_DIR": os.environ.get("TPU_LOG_DIR", "disabled"),
        # Warnings and errors: without the first variable, libtpu logs to files only.
        "TPU_STDERR_LOG_LEVEL": "1",
        "TPU_MIN_LOG_LEVEL": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # the lock protects TPU hardware, which is not used
    }


def libtpu_version() -> str:
    """Returns the installed package's version, "" if libtpu is missing or does not come from a package."""
    try:
        return packages.version("libtpu") if libtpu_library() == _packaged() else ""
    except MissingPackageError:
        return ""


def _packaged() -> Path | None:
    return next((folder / "libtpu.so" for folder in packages.folders("libtpu")), None)


def cached_libtpu(name: str, make: Callable[[Path], bytes]) -> bytes:
    """Returns the result of `make(libtpu's library)`, from the cache if the cached data is intact; see `library.cached_of`.

    Raises:
      MissingPackageError: libtpu is not installed.
    """
    return cached_of(libtpu_library(), f"libtpu-{name}", libtpu_version(), make)
