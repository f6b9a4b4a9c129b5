"""libtpu, the TPU's compiler: where it is installed, and a cache on disk for what is found in it.

Nothing of it is loaded: it is read as a file, as jaxlib's library is (`library.py`).
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
"""The requirement that brings it."""

SMALL_SLICE = f"{TPU.usual_chip}:2x2"
"""A topology to ask it about itself with."""


def libtpu_library() -> Path:
    """The path of libtpu.so, as JAX finds it: in `TPU_LIBRARY_PATH`, else in the package.

    Raises:
      MissingPackageError: there is none.
    """
    named = os.environ.get("TPU_LIBRARY_PATH")  # JAX sets it too, when it loads the package's
    library = Path(named) if named else _packaged()
    if library is not None and library.is_file():
        return library
    if named:
        raise MissingPackageError(
            f"TPU_LIBRARY_PATH names {named!r}, where libtpu is not installed. Correct or unset it."
        )
    raise MissingPackageError(
        f"libtpu, the TPU's compiler, is not installed; it holds the TPU's options. {sentence(install_command(EXTRA))}"
    )


def load_variables() -> dict[str, str]:
    """The environment in which libtpu loads beside other processes, and on a machine without a TPU."""
    return {
        "TPU_SKIP_MDS_QUERY": "1",  # or it asks a metadata server that is only there on a TPU machine
        # Or each process leaves logs in the temporary directory.
        "TPU_LOG_DIR": os.environ.get("TPU_LOG_DIR", "disabled"),
        # Warnings and worse: without the first libtpu logs to files alone.
        "TPU_STDERR_LOG_LEVEL": "1",
        "TPU_MIN_LOG_LEVEL": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # the lock guards TPU hardware, and none is touched
    }


def libtpu_version() -> str:
    """The installed package's version, "" for a libtpu that is no package, or none."""
    try:
        return packages.version("libtpu") if libtpu_library() == _packaged() else ""
    except MissingPackageError:
        return ""


def _packaged() -> Path | None:
    return next((folder / "libtpu.so" for folder in packages.folders("libtpu")), None)


def cached_libtpu(name: str, make: Callable[[Path], bytes]) -> bytes:
    """What `make(libtpu's library)` returned, from the cache when that is whole; see `library.cached_of`.

    Raises:
      MissingPackageError: libtpu is not installed.
    """
    return cached_of(libtpu_library(), f"libtpu-{name}", libtpu_version(), make)
