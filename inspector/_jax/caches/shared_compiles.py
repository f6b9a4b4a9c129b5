"""One compile for several processes: who compiles, and keys that let them find each other.

JAX sends what one process compiled to the others under its cache key. On CPUs a key holds the number of the
process, so that none finds what another sent: each waits, and fails in the end. `share_compiles` gives them
keys that differ where their processors do.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jax._src import cache_key, compiler, config, distributed

from inspector._jax.caches import cache_state
from inspector.errors import ParameterError, Unavailable

if TYPE_CHECKING:
    from inspector._jax.caches.cache_key import CompileArguments

_SHARE, _TIMEOUT = "jax_share_binary_between_hosts", "jax_share_binary_between_hosts_timeout_ms"
_FEATURES = ("flags", "Features")  # of a processor in /proc/cpuinfo: of x86 and of Arm


@contextlib.contextmanager
def share_compiles(timeout_s: float = 300) -> Iterator[None]:
    """Lets one process compile and the others load, while the `with` block runs in all of them.

    For programs over the devices of several processes, after `jax.distributed.initialize`. The process of the
    program's first device compiles and sends the executable; the others run no pass of XLA. Each must ask for the
    same compiles. A process that hits its persistent cache sends nothing, and one that misses then waits in
    vain, so give all processes one cache directory, or none.

    Args:
      timeout_s: how long a process waits for an executable before its compile fails.

    Raises:
      ParameterError: `timeout_s` is no number of seconds above 0.
    """
    given: Any = timeout_s  # a user's, whatever the annotation says
    if not isinstance(given, (int, float)) or not given > 0:
        raise ParameterError(f"timeout_s must be a number of seconds above 0, got {given!r}.")
    before = {name: config.config.values[name] for name in (_SHARE, _TIMEOUT)}
    stock = cache_key._hash_accelerator_config
    cache_key._hash_accelerator_config = _hash_processors if stock is not _hash_processors else stock
    try:
        config.update(_SHARE, True)
        config.update(_TIMEOUT, max(1, round(timeout_s * 1000)))
        yield
    finally:
        cache_key._hash_accelerator_config = stock
        for name, value in before.items():
            config.update(name, value)


def sender(arguments: CompileArguments) -> int | Unavailable:
    """The process that compiles for the others, or why each compiles for itself."""
    if len({device.process_index for device in arguments.devices}) == 1:
        return Unavailable("the program runs in one process")
    if not config.share_binary_between_hosts.value:
        return Unavailable(f"{_SHARE} is False, so each process compiles", "compile in inspector.share_compiles()")
    if distributed.global_state.client is None:
        return Unavailable("the processes cannot talk to each other", "call jax.distributed.initialize()")
    if arguments.host_callbacks and not cache_state.caches_callbacks():
        return Unavailable("this JAX shares no program with host callbacks, such as jax.debug.print")
    if reason := cache_state.why_unasked(arguments.backend):
        return Unavailable(f"JAX shares under the keys of its cache, and has none: {reason}")
    return int(min(arguments.devices, key=lambda device: device.id).process_index)


def source(sending: int | Unavailable, key: str) -> Literal["compiler", "process", "memory"]:
    """Where the executable of a miss comes from.

    Args:
      sending: what `sender` gave.
      key: of the compile.
    """
    if isinstance(sending, Unavailable):
        return "compiler"
    sent: Any = compiler._compile_and_share_module
    if key in sent.modules_cache:
        return "memory"
    return "compiler" if sending == cache_state.process_id() else "process"


def keys_agree(arguments: CompileArguments) -> bool:
    """Whether processes have the same key for the same program, as far as the processors allow."""
    return arguments.backend.platform != "cpu" or cache_key._hash_accelerator_config is _hash_processors


def timeout_s() -> float:
    """How long a process waits for an executable."""
    return float(config.share_binary_between_hosts_timeout_ms.value) / 1000


_stock = cache_key._hash_accelerator_config


def _hash_processors(hash_obj: Any, accelerators: Any) -> None:
    """Stands for JAX's own: CPUs by what they are, without the process that they belong to."""
    if any(device.platform != "cpu" for device in accelerators.flat):
        _stock(hash_obj, accelerators)
        return
    cache_key._hash_devices(hash_obj, accelerators)
    hash_obj.update(_processor().encode())


def _processor() -> str:
    """The instructions of this machine: code of another one could end the process."""
    described = Path("/proc/cpuinfo")
    features = ""
    if described.exists():
        lines = (line.partition(":") for line in described.read_text(encoding="utf-8", errors="replace").splitlines())
        features = next((value.strip() for name, _, value in lines if name.strip() in _FEATURES), "")
    return f"{platform.machine()} {features or platform.processor()}"
