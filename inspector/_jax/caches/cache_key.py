"""Computes the key under which JAX would look up a compile in its persistent cache, and the parts of the key.

JAX itself makes the key, from the arguments that it would pass to its compiler. The parts and their names come
from the debug messages that JAX writes meanwhile. Messages are identified by their templates, and values are read
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
_PART = "get_cache_key hash of serialized %s"
_FLAG, _FLAG_LEFT_OUT = "Including XLA flag in cache key", "Not including XLA flag in cache key"
_PARTITIONING = "CustomSPMDPartitioning"  # a call of this name contains the address of a Python function

# One key at a time: the level of a logger is shared by the whole process.
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class CompileArguments:
    """The arguments that a `jax.stages.Lowered` passes to JAX's compiler.

    Attributes:
      name: the module's name.
      module: StableHLO, an `ir.Module`.
      devices: JAX devices, in the order of the program.
      options: jaxlib's `CompileOptions`.
      backend: jaxlib's client, or a compile-only client.
      host_callbacks: whether the program calls into this process.
      detailed_logging: whether XLA logs more, as JAX requests for large modules.
      compiled: whether the `Lowered` has an executable already, which its `compile()` without options returns.
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
      digests: pairs of JAX's name of a part and the SHA-256 of its bytes, in the order of hashing.
      flags: the flags of XLA_FLAGS, LIBTPU_INIT_ARGS and the command line that are in the key, sorted.
      flags_left_out: the flags that JAX leaves out of the key, sorted.
      compile_options: a serialized `xla.CompileOptionsProto` as hashed: without dump options.
    """

    text: str
    digests: tuple[tuple[str, str], ...]
    flags: tuple[str, ...]
    flags_left_out: tuple[str, ...]
    compile_options: bytes | Unavailable


def compile_arguments(lowered: jax.stages.Lowered, compiler_options: Mapping[str, Any]) -> CompileArguments:
    """Returns the arguments that `lowered.compile(compiler_options)` would pass to JAX's compiler.

    Raises:
      ParameterError: it is lowered for no devices, so that there is nothing to compile for.
    """
    lowering: Any = lowered._lowering
    compile_args, private = lowering.compile_args, vars(lowering)
    devices = private["_device_list"]
    if devices is None:
        raise ParameterError(
            f"{private['_name']} is lowered for an abstract mesh without devices, so JAX cannot compile it."
            " Lower it with arguments or shardings on real devices."
        )
    module, state = lowering.stablehlo(), compile_args.get("shape_poly_state")
    if state is not None and state.uses_dim_vars:
        module = mlir.refine_polymorphic_shapes(module)
    allowed = pxla.get_prop_to_input_output(
        tuple(pxla.maybe_concretize_mesh(s, devices) for s in compile_args["in_shardings"]),
        tuple(pxla.maybe_concretize_mesh(s, devices) for s in compile_args["out_shardings"]),
        len(compile_args["ordered_effects"]),
    )
    options = dict(private["_compiler_options_kvs"]) | dict(compiler_options)
    return CompileArguments(
        name=ir.StringAttr(module.operation.attributes["sym_name"]).value,
        module=module,
        devices=tuple(devices),
        options=pxla.create_compile_options(
            module,
            compile_args["tuple_args"],
            allowed[0],
            allowed[1],
            compile_args["backend"],
            _array(devices),
            options,
        ),
        backend=compile_args["backend"],
        host_callbacks=bool(compile_args["host_callbacks"]),
        detailed_logging=compiler.use_detailed_logging(module),
        compiled=private["_executable"] is not None and not compiler_options,
    )


def key_facts(arguments: CompileArguments) -> KeyFacts | Unavailable:
    """Returns the key, or why JAX makes none."""
    devices, backend = _array(arguments.devices), arguments.backend
    with _lock, _Messages() as messages:
        try:
            text = compilation_cache.get_cache_key(
                arguments.module, devices, arguments.options, backend, _left_out_of_computation()
            )
        except jax.errors.JaxRuntimeError as e:
            return Unavailable(f"JAX cannot create a cache key and compiles without its cache: {e}")
    digests = dict(messages.digests)
    is_gpu = backend.platform == "gpu"
    return KeyFacts(
        text=text,
        digests=tuple(digests.items()),
        flags=tuple(sorted(messages.flags)),
        flags_left_out=tuple(sorted(messages.flags_left_out)),
        compile_options=_hashed(
            digests.get("compile_options"), cache_key._hash_serialized_compile_options, arguments.options, is_gpu
        ),
    )


def holds_address(arguments: CompileArguments) -> bool:
    """Reports whether the module and its key contain an address of this process, so that no other process has the same key."""
    if config.remove_custom_partitioning_ptr_from_cache_key.value:
        return False
    matches = []

    def look(operation: Any) -> Any:
        if "call_target_name" in operation.attributes:
            matches.append(ir.StringAttr(operation.attributes["call_target_name"]).value == _PARTITIONING)
        return ir.WalkResult.ADVANCE

    arguments.module.operation.walk(look)
    return any(matches)


def dump_directory(arguments: CompileArguments) -> str:
    """Returns the directory where XLA would write dumps of the compile, "" for none."""
    directory = dict(arguments.options.env_option_overrides).get("xla_dump_to")
    return str(directory or arguments.options.executable_build_options.debug_options.xla_dump_to)


def only_compiles(arguments: CompileArguments) -> bool:
    """Reports whether the devices are not attached, so that no executable can be loaded for them."""
    return isinstance(arguments.backend, _jax.CompileOnlyPyClient)


def jaxlib_version() -> str:
    """Returns the version of jaxlib as it is in the key."""
    return str(version.__version__)


def custom_hook() -> str:
    """Returns the text that a program has added to the key through JAX's hook."""
    return str(cache_key.custom_hook())


def keeps_source_lines() -> bool:
    """Reports whether source lines are part of the key."""
    return bool(config.compilation_cache_include_metadata_in_key.value)


class _Messages(logging.Filter):
    """Collects JAX's debug messages about a key made in this thread; passes on only messages that would be visible anyway."""

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
            self._collect(str(record.msg), record.args)
        return record.levelno >= self._effective

    def _collect(self, template: str, arguments: tuple[object, ...]) -> None:
        if template.startswith(_PART) and len(arguments) == 2:
            self.digests.append((str(arguments[0]), str(arguments[1])))
        elif template.startswith(_FLAG) and arguments:
            self.flags.add(str(arguments[0]))
        elif template.startswith(_FLAG_LEFT_OUT) and arguments:
            self.flags_left_out.add(str(arguments[0]))


class _Bytes:
    """A stand-in for a hash object that records its input."""

    def __init__(self) -> None:
        self.data = b""

    def update(self, data: bytes) -> None:
        self.data += data


def _hashed(digest: str | None, hash_part: Any, *arguments: Any) -> bytes | Unavailable:
    """Returns the bytes of a part, checked against the digest that JAX itself reported."""
    recorded = _Bytes()
    hash_part(recorded, *arguments)
    if hashlib.sha256(recorded.data).hexdigest() != digest:
        return Unavailable("this version of JAX hashes the compile options in a way that inspector does not support")
    return recorded.data


def _left_out_of_computation() -> Any:
    """Returns JAX's setting for ignored parts of the module: an enum until JAX 0.11, then whether a partitioner's address is ignored."""
    left_out = bool(config.remove_custom_partitioning_ptr_from_cache_key.value)
    choices = getattr(cache_key, "IgnoreCallbacks", None)
    if choices is None:
        return left_out
    return choices.CUSTOM_PARTITIONING if left_out else choices.NO


def _array(devices: Any) -> np.ndarray:
    """Returns an object array of devices, as JAX makes it; NumPy itself would convert a list of devices differently."""
    array = np.empty(len(devices), dtype=object)
    array[:] = list(devices)
    return array
