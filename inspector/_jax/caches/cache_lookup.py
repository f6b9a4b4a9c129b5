"""What JAX's persistent cache has for the compile of a `jax.stages.Lowered`, all in one value."""

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
    """What a compile would hand to JAX's compiler, and what its cache makes of that.

    Attributes:
      name: the module's.
      platform, platform_version: of the client that would compile.
      client_device_count: devices that it has.
      device_kinds: of the program's devices, in their order.
      detailed_logging: XLA is told to log more, as JAX does for modules of some size.
      compiled: the stage has an executable already, and its `compile()` without options returns it.
      dump_directory: where XLA would write dumps, "" when nowhere.
      key: the key, or why JAX makes none.
      unused: why nothing would be looked up, "" when something would.
      unwritten: why nothing would be written.
      only_compiles: the devices are absent, so that no executable can be loaded for them.
      holds_address: an address of this process is in the module, and in its key: no other process has the same.
      sender: the process that compiles for the others, or why each compiles for itself.
      keys_agree: processes have the same key for the same program, as far as the processors allow.
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
    """What `lowered.compile(compiler_options)` would find. Compiles nothing, and leaves the cache as it is.

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
