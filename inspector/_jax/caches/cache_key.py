"""The key under which JAX would look for a compile in its persistent cache, and what the key is made of.

JAX itself makes the key, from what it would itself hand to its compiler. The parts, with JAX's own names,
are heard in the debug messages that it writes meanwhile; those are told apart by their templates and read
from their arguments.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax._src import cache_key, compilation_cache, compiler, config
from jax._src.interpreters import mlir, pxla
from jaxlib import _jax, version
from jaxlib.mlir import ir

from inspector.errors import ParameterError, Unavailable

_LOGGER = "jax._src.cache_key"
_INGREDIENT = "get_cache_key hash of serialized %s"
_FLAG, _FLAG_LEFT_OUT = "Including XLA flag in cache key", "Not including XLA flag in cache key"
_PARTITIONING = "CustomSPMDPartitioning"  # its call holds the address of a Python function

# One key at a time: a logger's level is the process's.
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class CompileArguments:
    """What a `jax.stages.Lowered` hands to JAX's compiler.

    Attributes:
      name: the module's.
      module: StableHLO, an `ir.Module`.
      devices: JAX devices, in the order of the program.
      options: jaxlib's `CompileOptions`.
      backend: jaxlib's client, or one that only compiles.
      host_callbacks: the program calls into this process.
      detailed_logging: XLA is told to log more, as JAX does for modules of some size.
      compiled: the `Lowered` has an executable already, and its `compile()` without options returns it.
    """

    name: str
    module: Any
    devices: tuple[Any, ...]
    options: Any
    backend: Any
    host_callbacks: bool
    detailed_logging: bool
    compiled: bool


@dataclasses.dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key and its parts.

    Attributes:
      text: the key.
      digests: JAX's name of a part to the SHA-256 of its bytes, in the order of hashing.
      flags: of XLA_FLAGS, LIBTPU_INIT_ARGS and the command line, sorted, that are in the key.
      flags_left_out: the same of those that JAX leaves out.
      compile_options: a serialized `xla.CompileOptionsProto` as hashed: without dump options.
    """

    text: str
    digests: tuple[tuple[str, str], ...]
    flags: tuple[str, ...]
    flags_left_out: tuple[str, ...]
    compile_options: bytes | Unavailable


def compile_arguments(lowered: jax.stages.Lowered, compiler_options: Mapping[str, Any]) -> CompileArguments:
    """What `lowered.compile(compiler_options)` would hand to JAX's compiler.

    Raises:
      ParameterError: it is lowered for no devices, so that there is nothing to compile for.
    """
    lowering: Any = lowered._lowering
    given, held = lowering.compile_args, vars(lowering)
    devices = held["_device_list"]
    if devices is None:
        raise ParameterError(
            f"{held['_name']} is lowered for an abstract mesh, without devices, so JAX cannot compile it as it is."
            " Lower it with arguments or shardings on real devices."
        )
    module, state = lowering.stablehlo(), given.get("shape_poly_state")
    if state is not None and state.uses_dim_vars:
        module = mlir.refine_polymorphic_shapes(module)
    allowed = pxla.get_prop_to_input_output(
        tuple(pxla.maybe_concretize_mesh(s, devices) for s in given["in_shardings"]),
        tuple(pxla.maybe_concretize_mesh(s, devices) for s in given["out_shardings"]),
        len(given["ordered_effects"]),
    )
    options = dict(held["_compiler_options_kvs"]) | dict(compiler_options)
    return CompileArguments(
        name=ir.StringAttr(module.operation.attributes["sym_name"]).value,
        module=module,
        devices=tuple(devices),
        options=pxla.create_compile_options(
            module, given["tuple_args"], allowed[0], allowed[1], given["backend"], _array(devices), options
        ),
        backend=given["backend"],
        host_callbacks=bool(given["host_callbacks"]),
        detailed_logging=compiler.use_detailed_logging(module),
        compiled=held["_executable"] is not None and not compiler_options,
    )


def key_facts(arguments: CompileArguments) -> KeyFacts | Unavailable:
    """The key, or why JAX makes none."""
    devices, backend = _array(arguments.devices), arguments.backend
    with _lock, _Messages() as heard:
        try:
            text = compilation_cache.get_cache_key(
                arguments.module, devices, arguments.options, backend, _left_out_of_computation()
            )
        except jax.errors.JaxRuntimeError as e:
            return Unavailable(f"JAX cannot make a key, and compiles without its cache: {e}")
    digests = dict(heard.digests)
    is_gpu = backend.platform == "gpu"
    return KeyFacts(
        text=text,
        digests=tuple(digests.items()),
        flags=tuple(sorted(heard.flags)),
        flags_left_out=tuple(sorted(heard.flags_left_out)),
        compile_options=_hashed(
            digests.get("compile_options"), cache_key._hash_serialized_compile_options, arguments.options, is_gpu
        ),
    )


def holds_address(arguments: CompileArguments) -> bool:
    """Whether an address of this process is in the module, and in its key: no other process has the same."""
    if config.remove_custom_partitioning_ptr_from_cache_key.value:
        return False
    found = []

    def look(operation: Any) -> Any:
        if "call_target_name" in operation.attributes:
            found.append(ir.StringAttr(operation.attributes["call_target_name"]).value == _PARTITIONING)
        return ir.WalkResult.ADVANCE

    arguments.module.operation.walk(look)
    return any(found)


def dump_directory(arguments: CompileArguments) -> str:
    """Where XLA would write dumps of the compile, "" when nowhere."""
    given = dict(arguments.options.env_option_overrides).get("xla_dump_to")
    return str(given or arguments.options.executable_build_options.debug_options.xla_dump_to)


def only_compiles(arguments: CompileArguments) -> bool:
    """Whether the devices are absent, so that no executable can be loaded for them."""
    return isinstance(arguments.backend, _jax.CompileOnlyPyClient)


def jaxlib_version() -> str:
    """As it is in the key."""
    return str(version.__version__)


def custom_hook() -> str:
    """What a program has put into the key through JAX's hook."""
    return str(cache_key.custom_hook())


def keeps_source_lines() -> bool:
    """Whether source lines count for the key."""
    return bool(config.compilation_cache_include_metadata_in_key.value)


class _Messages(logging.Filter):
    """Hears what JAX says of a key that this thread has it make, and lets pass what would have been seen anyway."""

    def __init__(self) -> None:
        super().__init__()
        self.digests: list[tuple[str, str]] = []
        self.flags: set[str] = set()
        self.flags_left_out: set[str] = set()
        self._thread = threading.get_ident()
        self._logger = logging.getLogger(_LOGGER)

    def __enter__(self) -> _Messages:
        self._level, self._effective = self._logger.level, self._logger.getEffectiveLevel()
        self._logger.setLevel(logging.DEBUG)
        self._logger.addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeFilter(self)
        self._logger.setLevel(self._level)

    def filter(self, record: logging.LogRecord) -> bool:
        if threading.get_ident() == self._thread and isinstance(record.args, tuple):
            self._hear(str(record.msg), record.args)
        return record.levelno >= self._effective

    def _hear(self, template: str, arguments: tuple[object, ...]) -> None:
        if template.startswith(_INGREDIENT) and len(arguments) == 2:
            self.digests.append((str(arguments[0]), str(arguments[1])))
        elif template.startswith(_FLAG) and arguments:
            self.flags.add(str(arguments[0]))
        elif template.startswith(_FLAG_LEFT_OUT) and arguments:
            self.flags_left_out.add(str(arguments[0]))


class _Bytes:
    """Stands for a hash object, to see what goes in."""

    def __init__(self) -> None:
        self.data = b""

    def update(self, data: bytes) -> None:
        self.data += data


def _hashed(digest: str | None, hash_part: Any, *arguments: Any) -> bytes | Unavailable:
    """The bytes of a part, checked against the digest that JAX itself told."""
    seen = _Bytes()
    hash_part(seen, *arguments)
    if hashlib.sha256(seen.data).hexdigest() != digest:
        return Unavailable("JAX hashes it in a way that inspector does not know")
    return seen.data


def _left_out_of_computation() -> Any:
    """What JAX leaves out of the module: an enum until JAX 0.11, then whether the address of a partitioner."""
    left_out = bool(config.remove_custom_partitioning_ptr_from_cache_key.value)
    choices = getattr(cache_key, "IgnoreCallbacks", None)
    if choices is None:
        return left_out
    return choices.CUSTOM_PARTITIONING if left_out else choices.NO


def _array(devices: Any) -> np.ndarray:
    """One object a device, as JAX makes it; NumPy would take a list of devices for something else."""
    array = np.empty(len(devices), dtype=object)
    array[:] = list(devices)
    return array
