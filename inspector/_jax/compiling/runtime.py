"""jaxlib's runtime classes under their own names, with types, and with the checks that XLA leaves out.

`Client`, `Executable`, `LoadedExecutable`, `ExecuteResults`, `Token`, `ShardedToken` and
`CompiledMemoryStats` are faces of jaxlib's classes of the same names: the same methods and properties,
whatever jaxlib is installed. `raw` is jaxlib's object itself, for what has no face here. They live in one
process. docs/runtime.md lists them, and what jaxlib no longer has.

What XLA does unchecked: too few arguments for several devices end the process on jaxlib 0.10.2; a wrong
dtype of the right number of bytes is read as the other type; `execute` of a program over several devices
returns the first device's part; options for another number of devices than given are accepted.
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

_NOT_PARTITIONED = Unavailable("the program is not partitioned, so XLA tells no shardings")


class Executable:
    """What a compiler made, not loaded on any device. From `Client.compile`."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def hlo_modules(self) -> list[_hlo.HloModule]:
        """The optimized HLO, one module a program of the executable."""
        with mapped("hlo_modules"):
            return list(self.raw.hlo_modules())

    def get_output_memory_kinds(self) -> list[list[str]] | Unavailable:
        """The memory that each output lies in, a list a module."""
        return _told(self.raw.get_output_memory_kinds)

    def get_output_shardings(self) -> list[xla_client.OpSharding] | Unavailable:
        """How each output is cut over the devices."""
        return _told(self.raw.get_output_shardings, _NOT_PARTITIONED)

    def get_parameter_shardings(self) -> list[xla_client.OpSharding] | Unavailable:
        """How each parameter is cut over the devices."""
        return _told(self.raw.get_parameter_shardings, _NOT_PARTITIONED)

    def get_parameter_layouts(self) -> list[Any] | Unavailable:
        """Each parameter's layout in memory, jaxlib's `PjRtLayout`."""
        return _told(self.raw.get_parameter_layouts)

    def get_output_layouts(self) -> list[Any] | Unavailable:
        """Each output's layout in memory, jaxlib's `PjRtLayout`."""
        return _told(self.raw.get_output_layouts)

    def get_compiled_memory_stats(self) -> CompiledMemoryStats | Unavailable:
        """XLA's count of the memory."""
        return _told(lambda: memory_stats(self.raw.get_compiled_memory_stats()))

    def serialize(self) -> bytes | Unavailable:
        """The executable as bytes for this very jaxlib, with no digest: see `inspector.save_executable`."""
        return _told(lambda: bytes(self.raw.serialize()))

    def cost_analysis(self) -> dict[str, float] | Unavailable:
        """XLA's counts by XLA's names: `flops`, `bytes accessed`, ..."""
        return _told(lambda: dict(self.raw.cost_analysis()))


class LoadedExecutable(Executable):
    """An executable on its devices. From `Compiled.runtime_executable`, `load_executable` or a `Client`.

    Attributes:
      raw: jaxlib's object, whose methods check nothing.
    """

    def __init__(self, raw: Any, keepalive: object = None) -> None:
        """A face of jaxlib's object; `keepalive` is held as long as this lives."""
        super().__init__(raw)
        self._keepalive = keepalive

    @classmethod
    def of(cls, executable: execution.Runnable) -> LoadedExecutable:
        """The face of what a client of inspector's compiled or loaded."""
        return cls(executable._raw, executable)

    @functools.cached_property
    def _parameters(self) -> tuple[Any, ...] | Unavailable:
        return parameter_shapes(self.raw)  # reads the whole HLO, so not before it is needed

    @property
    def client(self) -> Client:
        """Whose executable it is."""
        return Client(self.raw.client)

    def __repr__(self) -> str:
        return f"<LoadedExecutable on {format_list([str(device) for device in self.local_devices()])}>"

    @property
    def traceback(self) -> Any | Unavailable:
        """Where it was compiled: jaxlib's `Traceback`, whose text is the stack."""
        return _told(lambda: self.raw.traceback, Unavailable("jaxlib kept no traceback of the compilation"))

    @property
    def fingerprint(self) -> bytes | Unavailable:
        """What XLA calls equal executables by."""
        return _told(lambda: self.raw.fingerprint, Unavailable("the back-end has no fingerprints"))

    def get_executable_version(self) -> bytes | Unavailable:
        """What a runtime must be to load the bytes; since jaxlib 0.12."""
        if not hasattr(self.raw, "get_executable_version"):
            return Unavailable("this jaxlib does not tell the version of an executable", "jaxlib 0.12 does")
        return _told(lambda: bytes(self.raw.get_executable_version()))

    def local_devices(self) -> list[jax.Device]:
        """The devices of this process that it runs on, in the order of shards."""
        return list(self.raw.local_devices())

    def size_of_generated_code_in_bytes(self) -> int | Unavailable:
        """Machine code; 0 on the CPU, where it lies in host memory."""
        return _told(self.raw.size_of_generated_code_in_bytes)

    def get_hlo_text(self) -> str | Unavailable:
        """The optimized HLO as text, what JAX's `as_text()` shows."""
        return _told(self.raw.get_hlo_text)

    def keep_alive(self, value: object) -> None:
        """Holds `value` as long as the executable lives."""
        self.raw.keep_alive(value)

    def execute(self, arguments: Sequence[jax.Array]) -> list[jax.Array]:
        """Runs on the one device.

        Args:
          arguments: an array a parameter, in parameter order, on the executable's device. Donated ones
            are gone afterwards.

        Raises:
          ExecutionError: several devices; arguments that the program does not take; XLA's own error.
        """
        self._check_one_device("execute")
        self._check(arguments)
        with mapped("execute"):
            return list(self.raw.execute(list(arguments)))

    def execute_with_token(self, arguments: Sequence[jax.Array]) -> tuple[list[jax.Array], Token]:
        """As `execute`, with a token that is ready when the execution has ended.

        Raises:
          ExecutionError: as `execute`.
        """
        self._check_one_device("execute_with_token")
        self._check(arguments)
        with mapped("execute_with_token"):
            outputs, token = self.raw.execute_with_token(list(arguments))
        return list(outputs), Token(token)

    def execute_sharded(self, arguments: Sequence[jax.Array], with_tokens: bool = False) -> ExecuteResults:
        """Runs on all its devices.

        Args:
          arguments: an array a parameter, in parameter order, each with one shard a device, in the order
            of `local_devices`. Donated ones are gone afterwards.
          with_tokens: whether `consume_token` will be asked for.

        Raises:
          ExecutionError: arguments that the program does not take, or XLA's own error.
        """
        self._check(arguments)
        with mapped("execute_sharded"):
            results = self.raw.execute_sharded(list(arguments), with_tokens=with_tokens)
        return ExecuteResults(results, len(self.raw.local_devices()))

    def _check_one_device(self, method: str) -> None:
        count = len(self.raw.local_devices())
        if count != 1:
            raise ExecutionError(
                f"{method} is for one device, and this program runs on {count}: XLA would give the first"
                " device's part of the outputs. Use execute_sharded."
            )

    def _check(self, arguments: Sequence[jax.Array]) -> None:
        check_arguments(arguments, self._parameters, list(self.raw.local_devices()))


class Client:
    """A platform's compiler and devices in this process. From `LoadedExecutable.client`.

    Compiling here has none of a worker's protection: options that abort XLA end the process.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    @classmethod
    def of(cls, device: jax.Device) -> Client:
        """The client of a device."""
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
        """All devices of the platform, those of other processes too."""
        return list(self.raw.devices())

    def local_devices(self) -> list[jax.Device]:
        """The devices of this process."""
        return list(self.raw.local_devices())

    def live_executables(self) -> list[LoadedExecutable]:
        """All executables that are loaded, JAX's own too."""
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
          compile_options: as `inspector.get_compile_options` gives them; None for jaxlib's own.

        Raises:
          ModuleError: not StableHLO.
          OptionError: options for another number of devices.
          CompilationError: XLA refused. On the CPU of jaxlib 0.10.2 it always does: use `compile_and_load`.
        """
        devices, options = _place(executable_devices, compile_options)
        module = parse_module(_as_bytes(computation))
        try:
            return Executable(self.raw.compile(module, devices, options))
        except Exception as e:
            hint = (
                " This jaxlib has no compiler that does not load; use compile_and_load."
                if "NOT_FOUND" in str(e)
                else ""
            )
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
          compile_options: as `inspector.get_compile_options` gives them; None for jaxlib's own.
          host_callbacks: JAX's callback objects, in the module's order.

        Raises:
          ModuleError: not StableHLO.
          OptionError: options for another number of devices.
          CompilationError: XLA refused.
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
        """The executable as bytes for this very jaxlib, with no digest: see `inspector.save_executable`."""
        return _told(lambda: bytes(self.raw.serialize_executable(executable.raw)))

    def deserialize_executable(
        self,
        serialized: bytes,
        executable_devices: Sequence[jax.Device],
        compile_options: xla_client.CompileOptions | None = None,
        host_callbacks: Sequence[Any] = (),
    ) -> LoadedExecutable:
        """Loads bytes that `serialize_executable` of the same jaxlib gave.

        XLA trusts them: a flipped byte may be machine code. `inspector.load_executable` checks a digest
        and the version first.

        Args:
          serialized: the bytes.
          executable_devices: as many as it was compiled for.
          compile_options: those it was compiled with; None for those in the bytes.
          host_callbacks: JAX's callback objects, in the module's order.

        Raises:
          ExecutionError: XLA cannot load them.
        """
        devices = xla_client.DeviceList(tuple(executable_devices))
        try:
            raw = self.raw.deserialize_executable(serialized, devices, compile_options, list(host_callbacks))
        except Exception as e:
            raise ExecutionError(f"XLA cannot load the executable ({len(serialized)} bytes): {e}") from e
        return LoadedExecutable(raw, tuple(host_callbacks))


def _told(ask: Callable[[], T | None], nothing: Unavailable | None = None) -> T | Unavailable:
    """What jaxlib answers, or why there is no answer."""
    try:
        answer = ask()
    except Exception as e:
        return Unavailable(f"the back-end does not tell: {e}")
    if answer is not None:
        return answer
    return Unavailable("the back-end does not tell") if nothing is None else nothing


def _as_bytes(computation: bytes | str) -> bytes:
    return computation.encode() if isinstance(computation, str) else computation


def _place(
    devices: Sequence[jax.Device], options: xla_client.CompileOptions | None
) -> tuple[xla_client.DeviceList, xla_client.CompileOptions]:
    """The devices as jaxlib lists them, and a copy of the options that assigns them where they do not."""
    given = xla_client.CompileOptions() if options is None else options
    copied = xla_client.CompileOptions.ParseFromString(given.SerializeAsString())
    replicas, partitions = copied.num_replicas, copied.num_partitions
    if not devices:
        raise TargetError("executable_devices is empty; give at least one, such as client.local_devices()[:1].")
    if replicas * partitions != len(devices):
        raise OptionError(
            f"The options are for {replicas} replicas of {partitions} partitions, and executable_devices has"
            f" {len(devices)} devices. XLA does not check this. Make the numbers equal."
        )
    if copied.device_assignment is None:
        ids = np.array([device.id for device in devices]).reshape(replicas, partitions)
        copied.device_assignment = xla_client.DeviceAssignment.create(ids)
    return xla_client.DeviceList(tuple(devices)), copied
