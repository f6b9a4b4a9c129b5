"""Installations of other versions of JAX, built by uv in this user's cache: one folder for each version and platform.

VERSION-PLATFORM/               the environment, renamed to this when it is complete
VERSION-PLATFORM/inspector-installation.json    digests of its files, checked before it is used
VERSION-PLATFORM.requirements   its packages with versions and hashes; another installation gets the same
.VERSION-PLATFORM.XXXX/         an incomplete one; its process holds the `.lock` beside it, and without a lock it is deleted

An installation is stopped when its process ends, and when its job is canceled.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from inspector.errors import CancelledError, MissingPackageError, TargetError
from inspector.support import files, subprocesses
from inspector.support.install_commands import find_uv, install_command, sentence
from inspector.support.units import format_bytes

# The packages that inspector needs to compile, without those for display.
_NEEDED = ("numpy>=2.0", "protobuf>=5.29", "capstone>=5.0.3")
_PLATFORMS = {
    "cpu": ("jax=={}",),
    "tpu": ("jax[tpu]=={}",),
    "gpu": ("jax[cuda12-local]=={}", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-nvdisasm"),
}
_PYTHONS = ("3.15", "3.14", "3.13", "3.12", "3.11")
_LIMIT_S = 1800
_LOOK_S = 0.1
_SAID = 600
_MANIFEST = "inspector-installation.json"
_RUNTIME_FILES = ("__pycache__", _MANIFEST)  # written after the installation

# Runs uv, and ends it with all its child processes when this process closes the pipe or ends. Otherwise, uv would continue.
_INSTALLER = """
import ctypes, json, os, shutil, signal, subprocess, threading
command, partial = json.loads(sys.stdin.buffer.readline())

def die_with_installer():
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (OSError, AttributeError):
        pass

if os.name == "nt":
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
else:
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_installer
    )

def watch():
    while os.read(0, 1):
        pass
    stopping.set()
    if os.name == "nt":
        child.kill()
    else:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    child.wait()
    shutil.rmtree(partial, ignore_errors=True)
    try:
        os.unlink(partial + ".lock")
    except OSError:
        pass
    os._exit(1)

stopping = threading.Event()
watching = threading.Thread(target=watch, daemon=True)
watching.start()
status = child.wait()
if stopping.is_set():
    watching.join()
os._exit(status if status >= 0 else 1)
"""

_is_wanted: contextvars.ContextVar[Callable[[], bool]] = contextvars.ContextVar("is_wanted", default=lambda: True)


# What uv reports if the index has no such version, for any Python.
_NO_VERSION = re.compile(r"there is no version of\s+jax(\[[^]]*\])?==")


@contextlib.contextmanager
def wanted_while(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Stops installations in the block, by this thread, when `is_wanted` turns False."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def folder_of(version: str, platform: str) -> Path:
    """Returns the folder of a version for a platform ("cpu", "gpu", "tpu"), whether it exists or not.

    Raises:
      TargetError: this user has no folder for caches.
    """
    caches = files.cache_folder()
    if caches is None:
        raise TargetError(f"JAX {version} cannot be installed: this user has no home folder. Set XDG_CACHE_HOME.")
    return caches / "jax" / f"{version}-{platform}"


def installed(version: str, platform: str) -> Path | None:
    """Returns the Python of an installation that exists and is unchanged; otherwise None.

    Raises:
      RefusedError: other users can write to the installation.
    """
    folder = folder_of(version, platform)
    python = _python(folder)
    if not python.exists():
        return None
    files.check_own_folder(folder)
    return python if _is_as_installed(folder, _changed_s(folder)) else None


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _changed_s(folder: Path) -> float:
    """Returns the time at which the manifest was written; 0 without one. A new installation is checked again."""
    with contextlib.suppress(OSError):
        return (folder / _MANIFEST).stat().st_mtime
    return 0.0


@functools.cache
def _is_as_installed(folder: Path, _: float) -> bool:
    """Reports whether all files match the digests in the manifest. Once per process: takes a second for a gigabyte."""
    try:
        digests = json.loads(files.read(folder / _MANIFEST, _MOST_MANIFEST_BYTES, own=True))
        return bool(digests == _digests(folder))
    except (OSError, ValueError):
        return False


_MOST_MANIFEST_BYTES = 64 << 20


def _digests(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file, and the target of each link, by path below the folder."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part in _RUNTIME_FILES for part in name.parts):
            continue
        if path.is_symlink():
            digests[name.as_posix()] = f"-> {path.readlink()}"
        elif path.is_file():
            with path.open("rb") as file:
                digests[name.as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def install(version: str, platform: str, tell: Callable[[str], object]) -> Path:
    """Returns the Python of an installation, and builds it if it does not exist.

    Args:
        version: version of JAX.
        platform: platform that it compiles for.
        tell: receives the current stage.

    Raises:
        MissingPackageError: uv is not installed.
        TargetError: the installation failed, for example without a network.
        CancelledError: the request was canceled (`wanted_while`).
    """
    python = installed(version, platform)
    if python is not None:
        return python
    folder, uv = folder_of(version, platform), _uv(version)
    tell(f"installing JAX {version} into {folder}")
    files.make_own_folder(folder.parent)
    _sweep(folder.parent)
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    with files.locked_file(_lock_of(partial)):
        return _installed(uv, version, platform, folder, partial)


def _installed(uv: Sequence[str], version: str, platform: str, folder: Path, partial: Path) -> Path:
    try:
        message = _build(uv, version, platform, partial, folder.with_name(f"{folder.name}.requirements"))
        if _NO_VERSION.search(message):
            raise TargetError(
                f"JAX {version} does not exist: the package index has no such version. Its versions are listed at"
                " https://pypi.org/project/jax/#history."
            )
        if message:
            raise TargetError(
                f"JAX {version} cannot be installed into {folder}. This needs a network, and a Python version that it supports."
                f" uv reported: {message}"
            )
        files.write_text(partial / _MANIFEST, json.dumps(_digests(partial)))
        if folder.exists() and installed(version, platform) is None:  # damaged, or not locked
            shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as e:
        if installed(version, platform) is None:  # otherwise, another process was faster
            raise TargetError(f"JAX {version} cannot be installed into {folder}: {e}.") from e
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    python = installed(version, platform)
    if python is None:
        raise TargetError(
            f"JAX {version} was installed into {folder}, but its files have changed. The disk may be full."
        )
    return python


def _lock_of(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.lock")


def _sweep(parent: Path) -> None:
    """Deletes incomplete installations of killed processes."""
    for partial in parent.glob(".*-*.????????????????"):
        lock = _lock_of(partial)
        with contextlib.suppress(OSError), files.locked_file(lock):  # fails if its process holds the lock
            shutil.rmtree(partial, ignore_errors=True)
    for lock in parent.glob(".*-*.????????????????.lock"):
        with contextlib.suppress(OSError), files.locked_file(lock):
            pass  # deletes the lock


@functools.cache
def size_of(folder: Path) -> str:
    """Returns the size of an installation on disk, as text."""
    every = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
    return format_bytes(sum(path.stat().st_size for path in every))


def _build(uv: Sequence[str], version: str, platform: str, folder: Path, requirements: Path) -> str:
    """Builds an environment. Returns uv's reasons if no version of Python works, otherwise "".

    Args:
      uv: the command.
      version: version of JAX.
      platform: platform that it compiles for.
      folder: folder of the new environment.
      requirements: file of packages with hashes: used if it exists and works, otherwise written.
    """
    refusals = []
    for python in _pythons():
        message = _run([*uv, "venv", "--quiet", "--clear", *python, str(folder)], folder)
        if not message and requirements.exists() and not _install_packages(uv, folder, requirements):
            return ""
        resolved = folder / "requirements.txt"
        message = (
            message or _resolve(uv, version, platform, folder, resolved) or _install_packages(uv, folder, resolved)
        )
        if not message:
            files.write_text(requirements, resolved.read_text())
            return ""
        refusals.append(f"with Python {python[-1]}: {message}")
        if _NO_VERSION.search(message):
            break  # another Python would not find it either
    return "; ".join(refusals)


def _resolve(uv: Sequence[str], version: str, platform: str, folder: Path, resolved: Path) -> str:
    """Selects versions of all packages and writes them with the hashes of their files in the index."""
    wanted = [form.format(version) for form in _PLATFORMS[platform]]
    source = folder / "requirements.in"
    source.write_text("\n".join([*wanted, *_NEEDED]) + "\n")
    options = ["--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--only-binary", ":all:"]
    return _run(
        [
            *uv,
            "pip",
            "compile",
            *options,
            "--python",
            str(_python(folder)),
            "--output-file",
            str(resolved),
            str(source),
        ],
        folder,
    )


def _install_packages(uv: Sequence[str], folder: Path, requirements: Path) -> str:
    """Installs exactly these files. Wheels only, so that no code of a package runs."""
    options = ["--quiet", "--require-hashes", "--only-binary", ":all:", "--python", str(folder)]
    return _run([*uv, "pip", "install", *options, "--requirements", str(requirements)], folder)


def _pythons() -> Iterator[list[str]]:
    """Yields arguments for uv: this Python's version first, and Pythons on this machine before those that uv downloads."""
    versions = [*dict.fromkeys([f"{sys.version_info.major}.{sys.version_info.minor}", *_PYTHONS])]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in versions:
        yield ["--no-python-downloads", "--python", version]
        for python in sorted(pyenv.glob(f"{version}.*/bin/python{version}"))[-1:]:
            yield ["--python", str(python)]
    for version in versions:
        yield ["--python", version]


def _run(command: Sequence[str], partial: Path) -> str:
    """Runs a command. Returns its error message, or "" if it succeeds.

    Args:
        command: the command of uv.
        partial: folder that the command creates, which is deleted if the command is stopped.

    Raises:
        CancelledError: the request was canceled, and the command was stopped.
    """
    is_wanted, until = _is_wanted.get(), time.monotonic() + _LIMIT_S
    with tempfile.TemporaryFile() as output:
        # Not in the current folder, where uv would read the settings of a project. In a new session, because Ctrl-C is for this process.
        child = subprocess.Popen(
            subprocesses.python(_INSTALLER), env=subprocesses.environ(),
            cwd=Path.home(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=output, start_new_session=True,
        )  # fmt: skip
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps([[*command], str(partial)]).encode() + b"\n")
            child.stdin.flush()
            while True:
                try:
                    status = child.wait(_LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    if not is_wanted():
                        raise CancelledError("The installation was canceled.") from None
                    if time.monotonic() > until:
                        return f"it did not finish within {_LIMIT_S} s"
        finally:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()  # ends what still runs
            child.wait()
        output.seek(0)
        text = output.read().decode(errors="replace").strip()
    return "" if status == 0 else (text or f"exit status {status}")[-_SAID:]


def _uv(version: str) -> list[str]:
    uv = find_uv()
    if uv is None:
        raise MissingPackageError(
            f"JAX {version} is installed by uv into a separate folder, but uv was not found in the variable UV, on PATH or"
            f" in this Python's environment. {sentence(install_command('uv'))}"
        )
    return [uv]
