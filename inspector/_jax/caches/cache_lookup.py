"""Looks up the compile of a `jax.stages.Lowered` in JAX's persistent cache, and returns everything in one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax

from inspector._jax.caches import cache_key, cache_state, shared_compiles
from inspector._jax.caches.cache_key import KeyFacts
from inspector._jax.values import UserValue
from inspector.errors import Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Lookup:
    """The arguments that a compile would pass to JAX's compiler, and the state of JAX's cache for them.

    Attributes:
      name: the module's name.
      platform, platform_version: of the client that would compile.
      client_device_count: number of devices of that client.
      device_kinds: kinds of the program's devices, in order.
      detailed_logging: whether XLA logs more, as JAX requests for large modules.
      compiled: whether the stage has an executable already, which its `compile()` without options returns.
      dump_directory: directory where XLA would write dumps, "" for none.
      key: the key, or why JAX makes none.
      unused: why JAX would not look in the cache, "" if it would.
      unwritten: why JAX would not write to the cache.
      only_compiles: whether the devices are not attached, so that no executable can be loaded for them.
      holds_address: whether the module and its key contain an address of this process, so that no other process has the same key.
      sender: the process that compiles for the others, or why each compiles for itself.
      keys_agree: whether processes have the same key for the same program, if they have the same processors.
    """

    name: str
    platform: str
    platform_version: str
    client_device_count: int
    device_kinds: tuple[str, ...]
    detailed_logging: bool
    compiled: bool
    dump_directory: str
    key: KeyFacts | Unavailable
    unused: str
    unwritten: tuple[str, ...]
    only_compiles: bool
    holds_address: bool
    sender: int | Unavailable
    keys_agree: bool


def look_up(lowered: jax.stages.Lowered, compiler_options: Mapping[str, UserValue]) -> Lookup:
    """Looks up what `lowered.compile(compiler_options)` would find. Compiles nothing, and does not change the cache.

    Raises:
      ParameterError: it is lowered for no devices, so that there is nothing to compile for.
    """
    arguments = cache_key.compile_arguments(lowered, compiler_options)
    backend = arguments.backend
    return Lookup(
        name=arguments.name,
        platform=str(backend.platform),
        platform_version=str(backend.platform_version),
        client_device_count=int(backend.device_count()),
        device_kinds=tuple(str(device.device_kind) for device in arguments.devices),
        detailed_logging=arguments.detailed_logging,
        compiled=arguments.compiled,
        dump_directory=cache_key.dump_directory(arguments),
        key=cache_key.key_facts(arguments),
        unused=cache_state.why_unused(backend),
        unwritten=cache_state.why_unwritten(arguments.host_callbacks),
        only_compiles=cache_key.only_compiles(arguments),
        holds_address=cache_key.holds_address(arguments),
        sender=shared_compiles.sender(arguments),
        keys_agree=shared_compiles.keys_agree(arguments),
    )
