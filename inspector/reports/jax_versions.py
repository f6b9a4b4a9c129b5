"""Installations of other versions of JAX, built by uv and kept in this user's cache: one folder a version and platform.

VERSION-PLATFORM/               the environment, renamed to this when it is complete
VERSION-PLATFORM/inspector-installation.json    digests of its files, checked before it is used
VERSION-PLATFORM.requirements   its packages with versions and hashes; another installation gets the same
.VERSION-PLATFORM.XXXX/         one under way; `.lock` beside it is held by its process, and without that it is deleted

An installation ends with its process, and when its job is canceled.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import json
import os
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

# What inspector itself needs to compile; what it draws with stays out.
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
_RUNTIME_FILES = ("__pycache__", _MANIFEST)  # made after the installation

# Runs uv, and ends it with everything that it started when this process closes the pipe, is killed or ends: uv would go on.
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


@contextlib.contextmanager
def wanted_while(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Installations in the block, by this thread, are stopped when `is_wanted` turns False."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


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
    """The Python of one that was built and is as it was built; None for none.

    Raises:
      RefusedError: others could have written it.
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
    """When the manifest was written; 0 without one. A new installation is checked again."""
    with contextlib.suppress(OSError):
        return (folder / _MANIFEST).stat().st_mtime
    return 0.0


@functools.cache
def _is_as_installed(folder: Path, _: float) -> bool:
    """Reports whether all files have the digests of the manifest; once a process, which takes a second for a gigabyte."""
    try:
        said = json.loads(files.read(folder / _MANIFEST, _MOST_MANIFEST_BYTES, own=True))
        return bool(said == _digests(folder))
    except (OSError, ValueError):
        return False


_MOST_MANIFEST_BYTES = 64 << 20


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file, and where links lead, by path below the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part in _RUNTIME_FILES for part in name.parts):
            continue
        if path.is_symlink():
            found[name.as_posix()] = f"-> {path.readlink()}"
        elif path.is_file():
            with path.open("rb") as file:
                found[name.as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def install(version: str, platform: str, tell: Callable[[str], object]) -> Path:
    """The Python of one; built where there is none.

    Args:
      version: of JAX.
      platform: what it compiles for.
      tell: hears what is being done.

    Raises:
      MissingPackageError: uv is not there.
      TargetError: it cannot be built, such as without a network.
      CancelledError: the request was canceled (`wanted_while`).
    """
    found = installed(version, platform)
    if found is not None:
        return found
    folder, uv = folder_of(version, platform), _uv(version)
    tell(f"installing JAX {version} into {folder}")
    files.make_own_folder(folder.parent)
    _sweep(folder.parent)
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    with files.locked_file(_lock_of(partial)):
        return _installed(uv, version, platform, folder, partial)


def _installed(uv: Sequence[str], version: str, platform: str, folder: Path, partial: Path) -> Path:
    try:
        said = _build(uv, version, platform, partial, folder.with_name(f"{folder.name}.requirements"))
        if said:
            raise TargetError(
                f"JAX {version} cannot be installed into {folder}, which needs a network, and a Python that it supports:"
                f" uv said: {said}"
            )
        files.write_text(partial / _MANIFEST, json.dumps(_digests(partial)))
        if folder.exists() and installed(version, platform) is None:  # damaged, or not locked
            shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as e:
        if installed(version, platform) is None:  # else another process was faster
            raise TargetError(f"JAX {version} cannot be installed into {folder}: {e}.") from e
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    python = installed(version, platform)
    if python is None:
        raise TargetError(
            f"JAX {version} was installed into {folder} and is not as it was written: the disk may be full."
        )
    return python


def _lock_of(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.lock")


def _sweep(parent: Path) -> None:
    """Deletes what killed processes left of installations under way."""
    for partial in parent.glob(".*-*.????????????????"):
        lock = _lock_of(partial)
        with contextlib.suppress(OSError), files.locked_file(lock):  # fails for one that its process holds
            shutil.rmtree(partial, ignore_errors=True)
    for lock in parent.glob(".*-*.????????????????.lock"):
        with contextlib.suppress(OSError), files.locked_file(lock):
            pass  # deleted behind it


@functools.cache
def size_of(folder: Path) -> str:
    """The bytes that one takes on disk, in words."""
    every = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
    return format_bytes(sum(path.stat().st_size for path in every))


def _build(uv: Sequence[str], version: str, platform: str, folder: Path, requirements: Path) -> str:
    """Why none of the Pythons would do, as uv says; "" where one did.

    Args:
      uv: the command.
      version: of JAX.
      platform: what it compiles for.
      folder: the environment that is made.
      requirements: the file of packages with hashes: used where it is there and suits, else written.
    """
    refusals = []
    for python in _pythons():
        said = _run([*uv, "venv", "--quiet", "--clear", *python, str(folder)], folder)
        if not said and requirements.exists() and not _install_packages(uv, folder, requirements):
            return ""
        resolved = folder / "requirements.txt"
        said = said or _resolve(uv, version, platform, folder, resolved) or _install_packages(uv, folder, resolved)
        if not said:
            files.write_text(requirements, resolved.read_text())
            return ""
        refusals.append(f"with Python {python[-1]}: {said}")
    return "; ".join(refusals)


def _resolve(uv: Sequence[str], version: str, platform: str, folder: Path, resolved: Path) -> str:
    """Chooses versions of all packages and writes them with the hashes that the index has of their files."""
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
    """Installs exactly these files; wheels only, so that no package's own code runs."""
    options = ["--quiet", "--require-hashes", "--only-binary", ":all:", "--python", str(folder)]
    return _run([*uv, "pip", "install", *options, "--requirements", str(requirements)], folder)


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


def _run(command: Sequence[str], partial: Path) -> str:
    """Returns the message of a failed command, "" of one that succeeded.

    Args:
      command: of uv.
      partial: the folder that it makes, deleted when it is stopped.

    Raises:
      CancelledError: the request was canceled, and the command was ended.
    """
    is_wanted, until = _is_wanted.get(), time.monotonic() + _LIMIT_S
    with tempfile.TemporaryFile() as said:
        # Not in the current folder: uv would take the settings of a project there. In a session of its own: Ctrl-C is ours.
        child = subprocess.Popen(
            subprocesses.python(_INSTALLER), env=subprocesses.environ(),
            cwd=Path.home(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
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
                        return f"nothing within {_LIMIT_S} s"
        finally:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()  # ends what still runs
            child.wait()
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    return "" if status == 0 else (text or f"exit status {status}")[-_SAID:]


def _uv(version: str) -> list[str]:
    found = find_uv()
    if found is None:
        raise MissingPackageError(
            f"JAX {version} is installed by uv into a separate folder, and uv was not found in the variable UV, on PATH or"
            f" in this Python's environment. {sentence(install_command('uv'))}"
        )
    return [found]
