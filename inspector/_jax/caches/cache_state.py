"""The state of JAX's persistent compilation cache in this process: whether it is used, where it is, and the contents of an entry.

Reads JAX's private state without changing it. JAX decides at its first compile whether it uses its cache and where it is.
Calling JAX's own functions would trigger that decision.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from jax._src import compilation_cache, compiler, config, distributed, lru_cache, path

from inspector.errors import Unavailable
from inspector.support.install_commands import install_command

# Copied from a list inside a JAX function.
_PLATFORMS = ("tpu", "gpu", "cpu", "neuron")
_RESET = "jax.experimental.compilation_cache.compilation_cache.reset_cache()"
_DISABLED = "jax_enable_compilation_cache is False"
_NO_DIRECTORY = "there is no cache directory; set jax_compilation_cache_dir"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A cache entry.

    Attributes:
      path: path of the file.
      stored_bytes: compressed size on disk, in bytes.
      compile_s: compile time recorded when it was written, in whole seconds, rounded down.
    """

    path: str
    stored_bytes: int
    compile_s: int


def why_unused(backend: Any = None) -> str:
    """Returns why JAX's next compile would not look in the cache, whatever it contains; "" if it would.

    Args:
      backend: jaxlib's client; None for any client with which JAX uses the cache.
    """
    if reason := why_unasked(backend):
        return reason
    if backend is not None and backend.runtime_type in compilation_cache._UNSUPPORTED_RUNTIMES:
        return f"JAX does not use its cache with the runtime {backend.runtime_type}"
    if compilation_cache._cache is not None:
        return ""
    if compilation_cache._cache_initialized:
        return f"JAX could not open its cache at an earlier compile, and does not try again; call {_RESET}"
    if not config.enable_compilation_cache.value:
        return _DISABLED
    return _why_not_opened(config.compilation_cache_dir.value)


def why_unasked(backend: Any = None) -> str:
    """Returns why JAX's next compile would not even make a key, and therefore share nothing; "" if it would.

    Args:
      backend: as for `why_unused`.
    """
    enabled = bool(config.enable_compilation_cache.value)
    if not compilation_cache._cache_checked:
        return _why_unsupported(backend) if enabled else _DISABLED
    if compilation_cache._cache_used:
        return ""
    decided = f"JAX decided at its first compile not to use a cache, and does not reconsider; call {_RESET}"
    return decided if enabled else _DISABLED


def directory() -> str | Unavailable:
    """Returns the cache directory that JAX has opened, or would open at its next compile."""
    opened = compilation_cache._cache
    folder = config.compilation_cache_dir.value if opened is None else str(opened._path)
    return folder or Unavailable(_NO_DIRECTORY.partition(";")[0], "set jax_compilation_cache_dir")


def ignored_directory() -> str:
    """Returns a message if `jax_compilation_cache_dir` has no effect because JAX has opened another directory; else ""."""
    wanted, used = config.compilation_cache_dir.value, directory()
    if compilation_cache._cache is None or wanted == used:
        return ""
    return f"jax_compilation_cache_dir is {wanted!r}, but JAX has opened {used}. To change it, call {_RESET}"


def entry_path(key: str) -> Any:
    """Returns the path of a key's entry, which need not exist: a `pathlib.Path` or an `etils.epath.Path`; None without a cache."""
    folder = directory()
    return None if isinstance(folder, Unavailable) else path.Path(folder) / f"{key}{lru_cache._CACHE_SUFFIX}"


def has_entry(key: str) -> bool:
    """Reports whether a key has an entry, readable or not."""
    file = entry_path(key)
    try:
        return file is not None and bool(file.exists())
    except OSError:  # called while JAX compiles, which then continues without its cache
        return False


def read_entry(key: str) -> Entry | Unavailable:
    """Returns the entry of a key, decompressed as JAX would, but not loaded."""
    file = entry_path(key)
    if not has_entry(key):
        return Unavailable("the cache has no entry for that key")
    try:
        stored = file.read_bytes()
        _, compile_s = compilation_cache.extract_executable_and_time(compilation_cache.decompress_executable(stored))
    except Exception as e:  # errors of zlib, zstd or the file system
        return Unavailable(
            f"the entry cannot be read ({type(e).__name__}: {e}); JAX warns, compiles, and never replaces an entry",
            f"delete {file}",
        )
    return Entry(str(file), len(stored), compile_s)


def compiles_to_compare(key: str) -> bool:
    """Reports whether JAX compiles despite an entry, to compare both (jax_compilation_cache_check_contents)."""
    opened = compilation_cache._cache
    if opened is None:
        return bool(config.compilation_cache_check_contents.value)
    return isinstance(opened, compilation_cache.VerificationCache) and key not in vars(opened)["_verified_keys"]


def why_unwritten(host_callbacks: bool) -> tuple[str, ...]:
    """Returns why JAX would never write the result of its next compile."""
    reasons = []
    if process_id() != 0:
        reasons.append(f"only process 0 writes, and this is process {process_id()}")
    if host_callbacks and not caches_callbacks():
        reasons.append("this version of JAX does not write programs with host callbacks, such as jax.debug.print")
    if config.compilation_cache_max_size.value == 0:
        reasons.append("jax_compilation_cache_max_size is 0")
    return tuple(reasons)


def thresholds() -> tuple[str, ...]:
    """Returns the conditions under which JAX writes a compile to its cache."""
    seconds = config.persistent_cache_min_compile_time_secs.value
    least, most = config.persistent_cache_min_entry_size_bytes.value, config.compilation_cache_max_size.value
    conditions = []
    if seconds > 0:
        conditions.append(f"the compile takes {seconds:g} s or more (jax_persistent_cache_min_compile_time_secs)")
    if least > 0:
        conditions.append(f"the entry has {least} bytes or more (jax_persistent_cache_min_entry_size_bytes)")
    if most > 0:
        conditions.append(f"the entry has {most} bytes or less (jax_compilation_cache_max_size)")
    return tuple(conditions)


def caches_callbacks() -> bool:
    """Reports whether this JAX writes and shares programs with host callbacks, as since 0.12."""
    return "host_callbacks" not in inspect.signature(compiler._cache_write).parameters


def process_id() -> int:
    """Returns the number of this process in `jax.distributed`; 0 without it."""
    return int(distributed.global_state.process_id)


def profile_guided() -> bool:
    """Reports whether JAX may have several keys for a program, depending on profiles."""
    automatic = config.enable_pgle.value and config.pgle_profiling_runs.value > 0
    return bool(automatic or config.compilation_cache_expect_pgle.value)


def _why_unsupported(backend: Any) -> str:
    if backend is None:
        return ""
    if backend.platform not in _PLATFORMS:
        return f"JAX uses its cache for {', '.join(_PLATFORMS)}, not for {backend.platform}"
    if not getattr(backend, "supports_executable_serialization", True):
        return f"the backend {backend.platform} cannot serialize executables"
    return ""


def _why_not_opened(folder: str | None) -> str:
    """Returns why JAX would fail to open a directory, "" if no reason is known."""
    if not folder:
        return _NO_DIRECTORY
    if config.compilation_cache_max_size.value != -1 and lru_cache.filelock is None:
        return (
            f"jax_compilation_cache_max_size needs the package filelock; install it with: {install_command('filelock')}"
        )
    if "://" in folder:
        return (
            ""
            if path.epath_installed
            else f"{folder} needs the package etils; install it with: {install_command('etils[epath]')}"
        )
    taken = next((p for p in (path.Path(folder), *path.Path(folder).parents) if p.exists()), None)
    return f"{taken} is not a directory" if taken is not None and not taken.is_dir() else ""
