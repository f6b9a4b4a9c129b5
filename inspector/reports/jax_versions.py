"""Installations of other versions of JAX, built by uv and kept in this user's cache: one folder a version and platform."""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from inspector import files, packages, subprocesses
from inspector.errors import MissingPackageError, TargetError
from inspector.units import format_bytes

# What inspector itself needs to compile; what it draws with stays out.
_NEEDED = ("numpy>=2.0", "protobuf>=5.29", "capstone>=5.0.3")
_PLATFORMS = {
    "cpu": ("jax=={}",),
    "tpu": ("jax[tpu]=={}",),
    "gpu": ("jax[cuda12-local]=={}", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-nvdisasm"),
}
_PYTHONS = ("3.15", "3.14", "3.13", "3.12", "3.11")
_LIMIT_S = 1800
_SAID = 600


def folder_of(version: str, platform: str) -> Path:
    """Where a version for a platform ("cpu", "gpu", "tpu") is kept, be it there or not.

    Raises:
      TargetError: this user has no folder for caches.
    """
    caches = files.cache_folder()
    if caches is None:
        raise TargetError(f"JAX {version} has nowhere to be installed: this user has no home. Set XDG_CACHE_HOME.")
    return caches / "jax" / f"{version}-{platform}"


def installed(version: str, platform: str) -> Path | None:
    """The Python of one that was built; None for none.

    Raises:
      RefusedError: others could have written it.
    """
    folder = folder_of(version, platform)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        return None
    files.check_own_folder(folder)
    return python


def install(version: str, platform: str, tell: Callable[[str], object]) -> Path:
    """The Python of one; built where there is none.

    Args:
      version: of JAX.
      platform: what it compiles for.
      tell: hears what is being done.

    Raises:
      MissingPackageError: uv is not there.
      TargetError: it cannot be built, such as without a network.
    """
    found = installed(version, platform)
    if found is not None:
        return found
    folder, uv = folder_of(version, platform), _uv(version)
    tell(f"installing JAX {version} into {folder}")
    files.make_own_folder(folder.parent)
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        said = _build(uv, version, platform, partial)
        if said:
            raise TargetError(
                f"JAX {version} cannot be installed into {folder}, which needs a network, and a Python that it supports:"
                f" uv said: {said}"
            )
        partial.rename(folder)
    except OSError as e:
        if installed(version, platform) is None:  # else another process was faster
            raise TargetError(f"JAX {version} cannot be installed into {folder}: {e}.") from e
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    python = installed(version, platform)
    assert python is not None, "just made"
    return python


@functools.cache
def size_of(folder: Path) -> str:
    """The bytes that one takes on disk, in words."""
    every = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
    return format_bytes(sum(path.stat().st_size for path in every))


def _build(uv: Sequence[str], version: str, platform: str, folder: Path) -> str:
    """Why none of the Pythons would do, as uv says; "" where one did."""
    wanted = [form.format(version) for form in _PLATFORMS[platform]]
    refusals = []
    for python in _pythons():
        made = _run([*uv, "venv", "--quiet", "--clear", *python, str(folder)])
        said = made or _run([*uv, "pip", "install", "--quiet", "--python", str(folder), *wanted, *_NEEDED])
        if not said:
            return ""
        refusals.append(f"with Python {python[-1]}: {said}")
    return "; ".join(refusals)


def _pythons() -> Iterator[list[str]]:
    """Arguments for uv: this Python's version first, what is on this machine before what uv would download."""
    versions = [*dict.fromkeys([f"{sys.version_info.major}.{sys.version_info.minor}", *_PYTHONS])]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in versions:
        yield ["--no-python-downloads", "--python", version]
        for found in sorted(pyenv.glob(f"{version}.*/bin/python{version}"))[-1:]:
            yield ["--python", str(found)]
    for version in versions:
        yield ["--python", version]


def _run(command: Sequence[str]) -> str:
    """What a command said when it failed, "" when it did not."""
    try:
        # Not in the current folder: uv would take the settings of a project there.
        child = subprocess.run(
            command, env=subprocesses.environ(), cwd=Path.home(), capture_output=True, text=True, timeout=_LIMIT_S,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"nothing within {_LIMIT_S} s"
    return "" if child.returncode == 0 else (child.stderr.strip() or f"exit status {child.returncode}")[-_SAID:]


def _uv(version: str) -> list[str]:
    if packages.folders("uv"):
        return subprocesses.python("import uv.__main__ as m; m._run()")
    found = shutil.which("uv", path=subprocesses.environ().get("PATH", os.defpath))
    if found is None:
        raise MissingPackageError(
            f"JAX {version} is installed by uv into a folder of its own, and uv is not there. Install it with: pip install"
            " uv"
        )
    return [found]
