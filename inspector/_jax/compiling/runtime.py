"""jaxlib's runtime classes under their own names, with types and with the checks that XLA leaves out.

`Client`, `Executable`, `LoadedExecutable`, `ExecuteResults`, `Token`, `ShardedToken` and
`CompiledMemoryStats` wrap jaxlib's classes of the same names: they have the same methods and properties
on every supported jaxlib. `raw` is jaxlib's own object, for anything that is not wrapped. The objects cannot leave
their process. docs/runtime.md lists them, and the members that jaxlib has removed.

XLA itself does not check the following. On jaxlib 0.10.2, too few arguments for several devices crash the process; a wrong
dtype of the right number of bytes is read as the other type; `execute` of a program over several devices
returns the first device's part; options for a different number of devices are accepted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jaxlib import _hlo, xla_client  # type: ignore[attr-defined]

from inspector._jax.compiling import execution
from inspector._jax.compiling.argument_checks import check_arguments, parameter_shapes
from inspector._jax.compiling.execute_results import ExecuteResults as ExecuteResults
from inspector._jax.compiling.execute_results import ShardedToken as ShardedToken
from inspector._jax.compiling.execute_results import Token as Token
from inspector._jax.compiling.execute_results import mapped
from inspector._jax.compiling.memory_stats import CompiledMemoryStats as CompiledMemoryStats
from inspector._jax.compiling.memory_stats import memory_stats
from inspector._jax.lowering.signature import parse_module
from inspector.errors import CompilationError, ExecutionError, OptionError, TargetError, Unavailable
from inspector.support.units import format_list

T = TypeVar("T")

_NOT_PARTITIONED = Unavailable("the program is not partitioned, so XLA reports no shardings")


class Executable:
    """A compiled program that is not loaded on any device. Returned by `Client.compile`."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def hlo_modules(self) -> list[_hlo.HloModule]:
        """Returns the optimized HLO, one module per program of the executable."""
        with mapped("hlo_modules"):
            return list(self.raw.hlo_modules())

    def get_output_memory_kinds(self) -> list[list[str]] | Unavailable:
        """Returns the memory kind of each output, one list per module."""
        return _or_unavailable(self.raw.get_output_memory_kinds)

    def get_output_shardings(self) -> list[xla_client.OpSharding] | Unavailable:
        """Returns the sharding of each output over the devices."""
        return _or_unavailable(self.raw.get_output_shardings, _NOT_PARTITIONED)

    def get_parameter_shardings(self) -> list[xla_client.OpSharding] | Unavailable:
        """Returns the sharding of each parameter over the devices."""
        return _or_unavailable(self.raw.get_parameter_shardings, _NOT_PARTITIONED)

    def get_parameter_layouts(self) -> list[Any] | Unavailable:
        """Returns each parameter's layout in memory, jaxlib's `PjRtLayout`."""
        return _or_unavailable(self.raw.get_parameter_layouts)

    def get_output_layouts(self) -> list[Any] | Unavailable:
        """Returns each output's layout in memory, jaxlib's `PjRtLayout`."""
        return _or_unavailable(self.raw.get_output_layouts)

    def get_compiled_memory_stats(self) -> CompiledMemoryStats | Unavailable:
        """Returns XLA's memory statistics."""
        return _or_unavailable(lambda: memory_stats(self.raw.get_compiled_memory_stats()))

    def serialize(self) -> bytes | Unavailable:
        """Returns the executable as bytes for exactly this jaxlib, without a digest: see `inspector.save_executable`."""
        return _or_unavailable(lambda: bytes(self.raw.serialize()))

    def cost_analysis(self) -> dict[str, float] | Unavailable:
        """Returns XLA's counts under XLA's names: `flops`, `bytes accessed`, ..."""
        return _or_unavailable(lambda: dict(self.raw.cost_analysis()))


class LoadedExecutable(Executable):
    """An executable loaded on its devices. Returned by `Compiled.runtime_executable`, `load_executable` or a `Client`.

    Attributes:
      raw: jaxlib's object, whose methods do not check their arguments.
    """

    def __init__(self, raw: Any, keepalive: object = None) -> None:
        """Wraps jaxlib's object; keeps `keepalive` alive as long as this object."""
        super().__init__(raw)
        self._keepalive = keepalive

    @classmethod
    def of(cls, executable: execution.Runnable) -> LoadedExecutable:
        """Wraps an executable that a client of inspector compiled or loaded."""
        return cls(executable._raw, executable)

    @functools.cached_property
    def _parameters(self) -> tuple[Any, ...] | Unavailable:
        return parameter_shapes(self.raw)  # reads the whole HLO, so it is deferred

    @property
    def client(self) -> Client:
        """The client that the executable belongs to."""
        return Client(self.raw.client)

    def __repr__(self) -> str:
        return f"<LoadedExecutable on {format_list([str(device) for device in self.local_devices()])}>"

    @property
    def traceback(self) -> Any | Unavailable:
        """The place of the compilation: jaxlib's `Traceback`, whose text is the stack."""
        return _or_unavailable(
            lambda: self.raw.traceback, Unavailable("jaxlib recorded no traceback of the compilation")
        )

    @property
    def fingerprint(self) -> bytes | Unavailable:
        """XLA's fingerprint, which is the same for equal executables."""
        return _or_unavailable(lambda: self.raw.fingerprint, Unavailable("the backend has no fingerprints"))

    def get_executable_version(self) -> bytes | Unavailable:
        """Returns the version that a runtime must have to load the bytes; since jaxlib 0.12."""
        if not hasattr(self.raw, "get_executable_version"):
            return Unavailable("this jaxlib does not report the version of an executable", "Update to jaxlib 0.12.")
        return _or_unavailable(lambda: bytes(self.raw.get_executable_version()))

    def local_devices(self) -> list[jax.Device]:
        """Returns the devices of this process that it runs on, in the order of shards."""
        return list(self.raw.local_devices())

    def size_of_generated_code_in_bytes(self) -> int | Unavailable:
        """Returns the size of the machine code in bytes; 0 on the CPU, where the code is in host memory."""
        return _or_unavailable(self.raw.size_of_generated_code_in_bytes)

    def get_hlo_text(self) -> str | Unavailable:
        """Returns the optimized HLO as text, as JAX's `as_text()` shows it."""
        return _or_unavailable(self.raw.get_hlo_text)

    def keep_alive(self, value: object) -> None:
        """Keeps `value` alive as long as the executable."""
        self.raw.keep_alive(value)

    def execute(self, arguments: Sequence[jax.Array]) -> list[jax.Array]:
        """Runs the program on its only device.

        Args:
          arguments: one array per parameter, in parameter order, on the executable's device. Donated arrays
            are deleted afterwards.

        Raises:
          ExecutionError: the program has several devices or does not accept the arguments, or XLA reports an error.
        """
        self._check_one_device("execute")
        self._check(arguments)
        with mapped("execute"):
            return list(self.raw.execute(list(arguments)))

    def execute_with_token(self, arguments: Sequence[jax.Array]) -> tuple[list[jax.Array], Token]:
        """Runs like `execute`, and also returns a token that is ready when the execution has ended.

        Raises:
          ExecutionError: as `execute`.
        """
        self._check_one_device("execute_with_token")
        self._check(arguments)
        with mapped("execute_with_token"):
            outputs, token = self.raw.execute_with_token(list(arguments))
        return list(outputs), Token(token)

    def execute_sharded(self, arguments: Sequence[jax.Array], with_tokens: bool = False) -> ExecuteResults:
        """Runs the program on all its devices.

        Args:
          arguments: one array per parameter, in parameter order, each with one shard per device, in the order
            of `local_devices`. Donated arrays are deleted afterwards.
          with_tokens: whether `consume_token` will be called on the results.

        Raises:
          ExecutionError: the program does not accept the arguments, or XLA reports an error.
        """
        self._check(arguments)
        with mapped("execute_sharded"):
            results = self.raw.execute_sharded(list(arguments), with_tokens=with_tokens)
        return ExecuteResults(results, len(self.raw.local_devices()))

    def _check_one_device(self, method: str) -> None:
        count = len(self.raw.local_devices())
        if count != 1:
            raise ExecutionError(
                f"{method} is for one device, and this program runs on {count}: XLA would return only the first"
                " device's part of the outputs. Use execute_sharded."
            )

    def _check(self, arguments: Sequence[jax.Array]) -> None:
        check_arguments(arguments, self._parameters, list(self.raw.local_devices()))


class Client:
    """A platform's compiler and devices in this process. Returned by `LoadedExecutable.client`.

    Compiling with it lacks the protection of a worker: options that crash XLA end this process.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    @classmethod
    def of(cls, device: jax.Device) -> Client:
        """Returns the client of a device."""
        return cls(device.client)

    @property
    def platform(self) -> str:
        return str(self.raw.platform)

    @property
    def platform_version(self) -> str:
        return str(self.raw.platform_version)

    @property
    def runtime_type(self) -> str:
        return str(self.raw.runtime_type)

    def devices(self) -> list[jax.Device]:
        """Returns all devices of the platform, including those of other processes."""
        return list(self.raw.devices())

    def local_devices(self) -> list[jax.Device]:
        """Returns the devices of this process."""
        return list(self.raw.local_devices())

    def live_executables(self) -> list[LoadedExecutable]:
        """Returns all loaded executables, including JAX's own."""
        return [LoadedExecutable(raw) for raw in self.raw.live_executables()]

    def compile(
        self,
        computation: bytes | str,
        executable_devices: Sequence[jax.Device],
        compile_options: xla_client.CompileOptions | None = None,
    ) -> Executable:
        """Compiles without loading.

        Args:
          computation: StableHLO as text or bytecode (`Program.module`).
          executable_devices: as many as replicas times partitions.
          compile_options: as `inspector.get_compile_options` returns them; None for jaxlib's defaults.

        Raises:
          ModuleError: the computation is not StableHLO.
          OptionError: options for another number of devices.
          CompilationError: XLA rejects the program. On the CPU of jaxlib 0.10.2 this always happens: use `compile_and_load`.
        """
        devices, options = _place(executable_devices, compile_options)
        module = parse_module(_as_bytes(computation))
        try:
            return Executable(self.raw.compile(module, devices, options))
        except Exception as e:
            hint = " This jaxlib cannot compile without loading; use compile_and_load." if "NOT_FOUND" in str(e) else ""
            raise CompilationError(f"XLA could not compile the module: {e}{hint}") from e

    def compile_and_load(
        self,
        computation: bytes | str,
        executable_devices: Sequence[jax.Device],
        compile_options: xla_client.CompileOptions | None = None,
        host_callbacks: Sequence[Any] = (),
    ) -> LoadedExecutable:
        """Compiles and loads.

        Args:
          computation: StableHLO as text or bytecode (`Program.module`).
          executable_devices: as many as replicas times partitions.
          compile_options: as `inspector.get_compile_options` returns them; None for jaxlib's defaults.
          host_callbacks: JAX's callback objects, in the module's order.

        Raises:
          ModuleError: the computation is not StableHLO.
          OptionError: options for another number of devices.
          CompilationError: XLA rejects the program.
        """
        devices, options = _place(executable_devices, compile_options)
        module = parse_module(_as_bytes(computation))
        extra = {"host_callbacks": list(host_callbacks)} if host_callbacks else {}
        try:
            raw = self.raw.compile_and_load(module, devices, options, **extra)
        except Exception as e:
            raise CompilationError(f"XLA could not compile the module: {e}") from e
        return LoadedExecutable(raw, tuple(host_callbacks))

    def serialize_executable(self, executable: LoadedExecutable) -> bytes | Unavailable:
        """Returns the executable as bytes for exactly this jaxlib, without a digest: see `inspector.save_executable`."""
        return _or_unavailable(lambda: bytes(self.raw.serialize_executable(executable.raw)))

    def deserialize_executable(
        self,
        serialized: bytes,
        executable_devices: Sequence[jax.Device],
        compile_options: xla_client.CompileOptions | None = None,
        host_callbacks: Sequence[Any] = (),
    ) -> LoadedExecutable:
        """Loads bytes from `serialize_executable` of the same jaxlib.

        XLA trusts the bytes: a flipped byte may be in machine code. `inspector.load_executable` first checks a digest
        and the version.

        Args:
          serialized: the bytes.
          executable_devices: as many as it was compiled for.
          compile_options: the options that it was compiled with; None for those in the bytes.
          host_callbacks: JAX's callback objects, in the module's order.

        Raises:
          ExecutionError: XLA cannot load the bytes.
        """
        devices = xla_client.DeviceList(tuple(executable_devices))
        try:
            raw = self.raw.deserialize_executable(serialized, devices, compile_options, list(host_callbacks))
        except Exception as e:
            raise ExecutionError(f"XLA cannot load the executable ({len(serialized)} bytes): {e}") from e
        return LoadedExecutable(raw, tuple(host_callbacks))


def _or_unavailable(get: Callable[[], T | None], nothing: Unavailable | None = None) -> T | Unavailable:
    """Returns jaxlib's value, or why there is none."""
    try:
        value = get()
    except Exception as e:
        return Unavailable(f"the backend does not report it: {e}")
    if value is not None:
        return value
    return Unavailable("the backend does not report it") if nothing is None else nothing


def _as_bytes(computation: bytes | str) -> bytes:
    return computation.encode() if isinstance(computation, str) else computation


def _place(
    devices: Sequence[jax.Device], options: xla_client.CompileOptions | None
) -> tuple[xla_client.DeviceList, xla_client.CompileOptions]:
    """Returns the devices as jaxlib's list, and a copy of the options that assigns these devices if the options do not."""
    base = xla_client.CompileOptions() if options is None else options
    copied = xla_client.CompileOptions.ParseFromString(base.SerializeAsString())
    replicas, partitions = copied.num_replicas, copied.num_partitions
    if not devices:
        raise TargetError("executable_devices is empty; give at least one, such as client.local_devices()[:1].")
    if replicas * partitions != len(devices):
        raise OptionError(
            f"The options are for {replicas} replicas of {partitions} partitions, but executable_devices has"
            f" {len(devices)} devices. XLA does not check this. Make the numbers equal."
        )
    if copied.device_assignment is None:
        ids = np.array([device.id for device in devices]).reshape(replicas, partitions)
        copied.device_assignment = xla_client.DeviceAssignment.create(ids)
    return xla_client.DeviceList(tuple(devices)), copied
