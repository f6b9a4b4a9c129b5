"""Shares one compile among several processes: selects the process that compiles, and makes their cache keys match.

JAX sends an executable from the process that compiled it to the others under its cache key. On CPUs, a key includes the number of the
process, so the others never find it: each waits, and fails in the end. `share_compiles` replaces the process number by the
properties of the processor.
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
from inspector.support.notebook import short

if TYPE_CHECKING:
    from inspector._jax.caches.cache_key import CompileArguments

_SHARE, _TIMEOUT = "jax_share_binary_between_hosts", "jax_share_binary_between_hosts_timeout_ms"
_FEATURES = ("flags", "Features")  # names in /proc/cpuinfo, on x86 and on Arm


@contextlib.contextmanager
def share_compiles(timeout_s: float = 300) -> Iterator[None]:
    """Makes one process compile and the others load, while the `with` block runs in all of them.

    For programs over the devices of several processes, after `jax.distributed.initialize`. The process of the
    program's first device compiles and sends the executable; the others run no XLA passes. Each process must request the
    same compiles. A process with a hit in its persistent cache sends nothing, and a process with a miss then waits in
    vain. So give all processes the same cache directory, or none.

    Args:
      timeout_s: how long a process waits for an executable before its compile fails, in seconds.

    Raises:
      ParameterError: `timeout_s` is not a positive number.
    """
    timeout: Any = timeout_s  # the user may pass any type
    if not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ParameterError(f"timeout_s must be a number of seconds above 0, got {short(timeout)}.")
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
    """Returns the process that compiles for the others, or why each compiles for itself."""
    if len({device.process_index for device in arguments.devices}) == 1:
        return Unavailable("the program runs in one process")
    if not config.share_binary_between_hosts.value:
        return Unavailable(f"{_SHARE} is False, so each process compiles", "compile in inspector.share_compiles()")
    if distributed.global_state.client is None:
        return Unavailable("the processes are not connected", "call jax.distributed.initialize()")
    if arguments.host_callbacks and not cache_state.caches_callbacks():
        return Unavailable("this version of JAX does not share programs with host callbacks, such as jax.debug.print")
    if reason := cache_state.why_unasked(arguments.backend):
        return Unavailable(f"JAX shares executables by cache key, and the program has none: {reason}")
    return int(min(arguments.devices, key=lambda device: device.id).process_index)


def source(sending: int | Unavailable, key: str) -> Literal["compiler", "process", "memory"]:
    """Returns the origin of the executable for a cache miss.

    Args:
      sending: the result of `sender`.
      key: key of the compile.
    """
    if isinstance(sending, Unavailable):
        return "compiler"
    sent: Any = compiler._compile_and_share_module
    if key in sent.modules_cache:
        return "memory"
    return "compiler" if sending == cache_state.process_id() else "process"


def keys_agree(arguments: CompileArguments) -> bool:
    """Reports whether processes have the same key for the same program, if they have the same processors."""
    return arguments.backend.platform != "cpu" or cache_key._hash_accelerator_config is _hash_processors


def timeout_s() -> float:
    """Returns how long a process waits for an executable, in seconds."""
    return float(config.share_binary_between_hosts_timeout_ms.value) / 1000


_stock = cache_key._hash_accelerator_config


def _hash_processors(hash_obj: Any, accelerators: Any) -> None:
    """Replaces JAX's own function: hashes CPUs by their properties, without the process that they belong to."""
    if any(device.platform != "cpu" for device in accelerators.flat):
        _stock(hash_obj, accelerators)
        return
    cache_key._hash_devices(hash_obj, accelerators)
    hash_obj.update(_processor().encode())


def _processor() -> str:
    """Returns the instruction set features of this machine: code of a different processor could crash the process."""
    described = Path("/proc/cpuinfo")
    features = ""
    if described.exists():
        lines = (line.partition(":") for line in described.read_text(encoding="utf-8", errors="replace").splitlines())
        features = next((value.strip() for name, _, value in lines if name.strip() in _FEATURES), "")
    return f"{platform.machine()} {features or platform.processor()}"
