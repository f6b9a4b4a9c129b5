"""JAX's persistent compilation cache as it stands in this process: used or not, where, and what an entry holds.

Looks without touching. JAX decides at its first compile whether it uses its cache, and where that is, and
asking JAX itself would make it decide now.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from jax._src import compilation_cache, compiler, config, distributed, lru_cache, path

from inspector.errors import Unavailable
from inspector.support.install_commands import install_command

# A list within a function of JAX's.
_PLATFORMS = ("tpu", "gpu", "cpu", "neuron")
_RESET = "jax.experimental.compilation_cache.compilation_cache.reset_cache()"
_DISABLED = "jax_enable_compilation_cache is False"
_NO_DIRECTORY = "there is no cache directory; set jax_compilation_cache_dir"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What the cache holds under a key.

    Attributes:
      path: the file.
      stored_bytes: compressed, on disk.
      compile_s: the compile's time when it was written, in whole seconds, rounded down.
    """

    path: str
    stored_bytes: int
    compile_s: int


def why_unused(backend: Any = None) -> str:
    """Why JAX's next compile would find nothing in the cache, whatever is there; "" when it would look.

    Args:
      backend: jaxlib's client; None for any that JAX uses the cache with.
    """
    if reason := why_unasked(backend):
        return reason
    if backend is not None and backend.runtime_type in compilation_cache._UNSUPPORTED_RUNTIMES:
        return f"JAX uses no cache with the runtime {backend.runtime_type}"
    if compilation_cache._cache is not None:
        return ""
    if compilation_cache._cache_initialized:
        return f"JAX could not open its cache at an earlier compile, and tries no more; call {_RESET}"
    if not config.enable_compilation_cache.value:
        return _DISABLED
    return _why_not_opened(config.compilation_cache_dir.value)


def why_unasked(backend: Any = None) -> str:
    """Why JAX's next compile would not even make a key, and share nothing; "" when it would.

    Args:
      backend: as for `why_unused`.
    """
    enabled = bool(config.enable_compilation_cache.value)
    if not compilation_cache._cache_checked:
        return _why_unsupported(backend) if enabled else _DISABLED
    if compilation_cache._cache_used:
        return ""
    decided = f"JAX found at its first compile that it uses no cache, and keeps to it; call {_RESET}"
    return decided if enabled else _DISABLED


def directory() -> str | Unavailable:
    """Where the cache is: opened by JAX, or to be opened at its next compile."""
    opened = compilation_cache._cache
    found = config.compilation_cache_dir.value if opened is None else str(opened._path)
    return found or Unavailable(_NO_DIRECTORY.partition(";")[0], "set jax_compilation_cache_dir")


def ignored_directory() -> str:
    """What `jax_compilation_cache_dir` says when JAX has opened another directory, and why it does not count."""
    wanted, used = config.compilation_cache_dir.value, directory()
    if compilation_cache._cache is None or wanted == used:
        return ""
    return f"jax_compilation_cache_dir is {wanted!r}, but JAX has opened {used}, and stays there until {_RESET}"


def entry_path(key: str) -> Any:
    """The file of a key's entry, there or not: a `pathlib.Path`, or an `etils.epath.Path`; None without a cache."""
    folder = directory()
    return None if isinstance(folder, Unavailable) else path.Path(folder) / f"{key}{lru_cache._CACHE_SUFFIX}"


def has_entry(key: str) -> bool:
    """Whether there is an entry of a key, readable or not."""
    file = entry_path(key)
    try:
        return file is not None and bool(file.exists())
    except OSError:  # asked while JAX compiles, which goes on without its cache
        return False


def read_entry(key: str) -> Entry | Unavailable:
    """The entry of a key, unpacked as JAX would, but not loaded."""
    file = entry_path(key)
    if not has_entry(key):
        return Unavailable("the cache has no entry of that key")
    try:
        stored = file.read_bytes()
        _, compile_s = compilation_cache.extract_executable_and_time(compilation_cache.decompress_executable(stored))
    except Exception as e:  # zlib's, zstd's or the file system's
        return Unavailable(
            f"the entry cannot be read ({type(e).__name__}: {e}); JAX warns, compiles, and never replaces an entry",
            f"delete {file}",
        )
    return Entry(str(file), len(stored), compile_s)


def compiles_to_compare(key: str) -> bool:
    """Whether JAX compiles in spite of an entry, to compare them (jax_compilation_cache_check_contents)."""
    opened = compilation_cache._cache
    if opened is None:
        return bool(config.compilation_cache_check_contents.value)
    return isinstance(opened, compilation_cache.VerificationCache) and key not in vars(opened)["_verified_keys"]


def why_unwritten(host_callbacks: bool) -> tuple[str, ...]:
    """Why JAX would in no case write what it compiles now."""
    reasons = []
    if process_id() != 0:
        reasons.append(f"only process 0 writes, and this is process {process_id()}")
    if host_callbacks and not caches_callbacks():
        reasons.append("this JAX writes no program with host callbacks, such as jax.debug.print")
    if config.compilation_cache_max_size.value == 0:
        reasons.append("jax_compilation_cache_max_size is 0")
    return tuple(reasons)


def thresholds() -> tuple[str, ...]:
    """What JAX asks of a compile before it writes it."""
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
    """Whether this JAX writes and shares programs with host callbacks, as it does since 0.12."""
    return "host_callbacks" not in inspect.signature(compiler._cache_write).parameters


def process_id() -> int:
    """The number of this process among those of `jax.distributed`; 0 without."""
    return int(distributed.global_state.process_id)


def profile_guided() -> bool:
    """Whether JAX keeps several keys for a program, by what has been profiled."""
    automatic = config.enable_pgle.value and config.pgle_profiling_runs.value > 0
    return bool(automatic or config.compilation_cache_expect_pgle.value)


def _why_unsupported(backend: Any) -> str:
    if backend is None:
        return ""
    if backend.platform not in _PLATFORMS:
        return f"JAX uses its cache for {', '.join(_PLATFORMS)}, not for {backend.platform}"
    if not getattr(backend, "supports_executable_serialization", True):
        return f"the back-end {backend.platform} cannot serialize executables"
    return ""


def _why_not_opened(folder: str | None) -> str:
    """Why JAX would fail to open a directory, "" when nothing speaks against it."""
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
