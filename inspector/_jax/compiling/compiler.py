"""Compiles StableHLO with a client of this process and reads everything that the executable reports.

Exchanges bytes, text, numbers and dicts; the only exception is the live `Runnable`,
which never leaves the process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jaxlib import _hlo, _jax, xla_client  # type: ignore[attr-defined]
from jaxlib.cpu import _lapack

from inspector import platforms
from inspector._jax.compiling import compile_options as _options
from inspector._jax.compiling.attached_devices import installed_versions
from inspector._jax.compiling.dump import Dump
from inspector._jax.compiling.execution import Runnable, make_runnable
from inspector._jax.compiling.final_hlo import FLAGS as FINAL_HLO
from inspector._jax.compiling.final_hlo import (
    FinalHlo,
    can_watch,
    dumps_elsewhere,
    split_hlo_proto,
    with_sorted_configurations,
)
from inspector._jax.compiling.report import Costing, Early, EarlyReport, Report, as_reported, named_cost, read_report
from inspector._jax.lowering.callbacks import HostCallbacks, raw_callbacks
from inspector._jax.lowering.signature import parse_module, read_signature
from inspector._jax.values import Facts
from inspector.errors import ExecutionError, InspectorError, OptionError, TargetError, Unavailable
from inspector.support import deferred

_log = logging.getLogger(__name__)

# A dump of jaxlib 0.12 names a tuple element `%t#1`, where the executable's text has a separate instruction.
_ELEMENT_OF_TUPLE = "#"


@dataclasses.dataclass(frozen=True, slots=True)
class Watch:
    """Receivers of the files that XLA dumps during a compile.

    Attributes:
      directory: path of the dump directory, which is created for the compile and deleted afterwards.
      take: receives the early report, if XLA can be watched (`final_hlo.can_watch`): called at most
        once, on another thread, before `Compiler.compile` returns.
      counted: receives its operation counts after that, under the same conditions.
      see: receives every file of the dump, under the same conditions; None if the files are not needed.
      flags: flags that make XLA dump the files for `see`, in addition to those for `take`.
      lost: receives the reason why the dump is incomplete, before `Compiler.compile` returns; not called for a complete dump.
    """

    directory: str
    take: Callable[[EarlyReport], None] | None = None
    counted: Callable[[Facts | Unavailable], None] | None = None
    see: Callable[[Path], None] | None = None
    flags: Facts = dataclasses.field(default_factory=dict)
    lost: Callable[[str], None] | None = None


class Compiler:
    """XLA's compiler for one platform in this process. Thread-safe, as XLA's clients are."""

    can_run = True

    def __init__(self, platform: str | None = None, device_count: int | None = None) -> None:
        """Starts the platform's client unless it is already running.

        Args:
          platform: JAX's name, for example "cpu", "gpu" or "tpu", or None for JAX's default.
          device_count: number of its devices to use, None for all.

        Raises:
          TargetError: this process has no such platform, or fewer devices.
        """
        try:
            devices = jax.local_devices(backend=platform)
        except RuntimeError as e:
            raise TargetError(_no_device(platform, e)) from e
        if device_count is not None and device_count > len(devices):
            raise TargetError(
                f"This process has {len(devices)} {devices[0].platform.upper()} device(s), but {device_count} were requested."
                f" Call jax.config.update('jax_num_cpu_devices', {device_count}) before JAX starts, or remove the"
                " engine, so that a worker process with that many devices starts. (A program with callbacks is always compiled"
                " in this process.)"
            )
        self._take_devices(devices[:device_count])

    def _take_devices(self, devices: Sequence[Any]) -> None:
        self.devices = devices
        self._backend = devices[0].client
        self.platform = platforms.attached(devices[0].platform, str(self._backend.platform_version)).name
        self.device_kind: str = devices[0].device_kind

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the compiler: `jax`, `jaxlib`, `platform_version`."""
        return {
            **installed_versions(),
            "platform_version": str(self._backend.platform_version),
        }

    def compile(
        self,
        module: bytes,
        build_options: Facts,
        *,
        platform: str,
        callbacks: HostCallbacks | None = None,
        progress: Callable[[str], None] = lambda _: None,
        watch: Watch | None = None,
        costing: Costing = as_reported,
    ) -> tuple[Runnable | None, Report]:
        """Compiles a module.

        Args:
          module: StableHLO as MLIR bytecode.
          build_options: fields of `Options`, None for unset ones.
          platform: the platform that the module was lowered for.
          callbacks: host callbacks of the program; kept alive as long as the executable.
          progress: called at the start of "compiling" and "reading".
          watch: receivers of the files that XLA dumps.
          costing: computes the operation counts.

        Raises:
          ModuleError: the module is not StableHLO.
          OptionError: jaxlib or XLA rejects the options.
          TargetError: too few devices, or a module for another platform.
          CompilationError: XLA rejects the program.

        Returns:
          The runnable program (None for devices that are not attached) and the report on it.
        """
        self.check_platform(platform)
        self._prepare_custom_calls(module)
        assignment = self._assign(build_options)
        started = time.perf_counter()
        parsed = parse_module(module)
        signature = read_signature(parsed)
        detailed_logging = compiler.use_detailed_logging(parsed)
        compiling, compiling_cpu = time.perf_counter(), time.process_time()
        progress("compiling")
        early = Early()
        try:
            with self._watched(watch, build_options, assignment, detailed_logging, early, costing) as options:
                raw = self._compile_module(parsed, assignment, options, raw_callbacks(callbacks))
                reading, reading_cpu = (
                    time.perf_counter(),
                    time.process_time(),
                )  # leaving the context reads the rest of the dump
        except InspectorError:
            raise
        except Exception as e:
            raise _options.map_compile_error(e, build_options) from e
        progress("reading")
        runnable = make_runnable(raw, signature, assignment, callbacks) if self.can_run else None
        devices = _device_texts(assignment)
        report = read_report(raw, self.versions, bool(raw_callbacks(callbacks)), devices, early, costing)
        timings = {
            "parse_s": compiling - started,
            "compile_s": reading - compiling,
            "compile_cpu_s": reading_cpu - compiling_cpu,
            "read_s": time.perf_counter() - reading,
        }
        return runnable, deferred.replace(report, timings=timings)

    def _assign(self, build_options: Mapping[str, Any]) -> np.ndarray:
        """Returns the devices of a program, [num_replicas, num_partitions]."""
        return _options.device_assignment(build_options, self.devices)

    def _compile_module(
        self, parsed: Any, assignment: np.ndarray, options: xla_client.CompileOptions, host_callbacks: Sequence[Any]
    ) -> Any:
        """Returns jaxlib's executable."""
        extra = {"host_callbacks": list(host_callbacks)} if host_callbacks else {}
        return self._backend.compile_and_load(
            parsed, executable_devices=_device_list(assignment), compile_options=options, **extra
        )

    def load(self, serialized: bytes, module: bytes, build_options: Facts, versions: Mapping[str, str]) -> Runnable:
        """Loads a live executable from `Report.executable`.

        Args:
          serialized: the executable's bytes. They must be trusted: XLA does not check them.
          module: the StableHLO that it was compiled from.
          build_options: the options that it was compiled with.
          versions: the versions that compiled it; executables of another jaxlib are rejected.

        Raises:
          ExecutionError: the bytes come from another version, or XLA cannot load them.
        """
        ours = self.versions
        if versions.get("jaxlib") != ours["jaxlib"]:
            raise ExecutionError(
                f"The executable was compiled by jaxlib {versions.get('jaxlib')}, and this is jaxlib {ours['jaxlib']};"
                " executables are specific to one version. Compile the program again with this version."
            )
        self._prepare_custom_calls(module)
        assignment = self._assign(build_options)
        parsed = parse_module(module)
        options = self._options(build_options, assignment, detailed_logging=False)
        try:
            raw = self._backend.deserialize_executable(serialized, _device_list(assignment), options)
        except Exception as e:
            raise ExecutionError(f"XLA cannot load the executable ({len(serialized)} bytes): {e}") from e
        return make_runnable(raw, read_signature(parsed), assignment)

    @contextlib.contextmanager
    def _watched(
        self,
        watch: Watch | None,
        build_options: Mapping[str, Any],
        assignment: Any,
        detailed_logging: bool,
        early: Early,
        costing: Costing,
    ) -> Iterator[xla_client.CompileOptions]:
        """Yields the compile options, while `watch` receives the dump and `early` the early results."""
        options = self._options(build_options, assignment, detailed_logging)
        flags = dict(build_options.get("flags") or {})
        build = options.executable_build_options  # bound to a name: its debug_options do not keep it alive
        if watch is None or not self._can_watch(watch, flags, build.debug_options):
            yield options
            return
        see = [watch.see] if watch.see is not None else []
        final = None
        if watch.take is not None:
            flags |= FINAL_HLO
            devices = _device_texts(assignment)
            final = FinalHlo(lambda text, proto: self._tell_early(text, proto, devices, watch, early, costing))
            see.append(final.see)
        flags |= {**watch.flags, "xla_dump_to": watch.directory}
        dump: Dump | None = None
        with contextlib.ExitStack() as stack:
            try:
                dump = Dump(
                    watch.directory,
                    see,
                    must_watch=watch.see is None,
                    is_awaited=lambda: final is not None and not final.taken,
                )
                stack.enter_context(dump)
            except OSError as e:  # no space for a dump, or no inotify
                if watch.see is not None:  # the caller needs the dump itself
                    raise
                _log.warning("Compiler passes cannot be watched, so there will be no preview before the result: %s", e)
            else:
                options = self._options({**build_options, "flags": flags}, assignment, detailed_logging)
            yield options
        if dump is not None and dump.lost:  # the early report may be cut off
            early.report = early.cost = None
            if watch.lost is not None:
                watch.lost(dump.lost)

    def _can_watch(self, watch: Watch, flags: Mapping[str, Any], debug_options: Any) -> bool:
        """Reports whether XLA can dump for `watch`. Raises OptionError if the dump is required and XLA already writes another one."""
        if watch.see is None:
            return can_watch(flags, debug_options)
        if dumps_elsewhere(flags, debug_options):
            raise OptionError(
                "A compile that records dumped files (products=...) needs its own dump directory, but this one"
                f" already dumps elsewhere: {dumps_elsewhere(flags, debug_options)}. Remove the products, or the"
                " flags that begin with xla_dump_ (they may be in XLA_FLAGS)."
            )
        return True

    def _tell_early(
        self, dumped: str, proto: bytes, devices: tuple[str, ...], watch: Watch, early: Early, costing: Costing
    ) -> None:
        """Passes on the final HLO first, then XLA's operation counts, which require XLA to read the HLO again."""
        hlo_proto, buffer_assignment = split_hlo_proto(proto)
        module = functools.cache(lambda: _hlo.HloModule.from_serialized_hlo_module_proto(hlo_proto))
        early.report = EarlyReport(self._early_text(dumped, module), hlo_proto, buffer_assignment, devices)
        if watch.take is not None:
            watch.take(early.report)
        reported = named_cost(lambda: _jax.hlo_module_cost_analysis(self._backend, module()))
        early.cost = costing(hlo_proto, reported)
        if watch.counted is not None:
            watch.counted(early.cost)

    def _early_text(self, dumped: str, module: Callable[[], Any]) -> str:
        """Returns the text that the executable will have."""
        on_cpu = self.platform == "cpu"
        if on_cpu and _ELEMENT_OF_TUPLE not in dumped:
            return with_sorted_configurations(dumped)
        own_header, newline, body = str(module().to_string()).partition("\n")
        header = dumped.partition("\n")[0] or own_header  # has more fields than the proto
        text: str = header + newline + (with_sorted_configurations(body) if on_cpu else body)
        return text

    def _options(
        self, build_options: Mapping[str, Any], assignment: Any, detailed_logging: bool
    ) -> xla_client.CompileOptions:
        return _options.make_compile_options(
            build_options, assignment, detailed_logging=detailed_logging, backend=self._backend
        )

    def _prepare_custom_calls(self, module: bytes) -> None:
        """Initializes LAPACK's functions for a module that calls one.

        JAX does this while lowering. A process that only compiles must do it itself: the function pointers are null until
        then, and running such a program would be a segmentation fault. The functions come from SciPy, which takes longer to
        import than a small program takes to compile, so other modules skip it.
        """
        if self.platform == "cpu" and any(prefix in module for prefix in _lapack_prefixes()):
            _lapack.initialize()

    def check_platform(self, platform: str) -> None:
        """Rejects a program that was lowered for another platform.

        Raises:
          TargetError: the platforms differ.
        """
        if platforms.named(platform).name != self.platform:
            raise TargetError(
                f"The program was lowered for {platform}, but the attached device is a {self.platform}"
                f" ({self.device_kind}). Lower it again for this target."
            )


def _device_list(assignment: Any) -> Any:
    return xla_client.DeviceList(tuple(assignment.flat))


@functools.cache
def _lapack_prefixes() -> frozenset[bytes]:
    """Returns the prefixes of the names of LAPACK's custom calls, currently only "lapack_"."""
    return frozenset(f"{name.partition('_')[0]}_".encode() for name in _lapack.registrations())


def _device_texts(assignment: np.ndarray) -> tuple[str, ...]:
    """Returns each device's kind and id, and its position in a TPU slice: (x, y, z) and, if a chip has several cores, the core."""
    with_core = any(getattr(device, "core_on_chip", 0) for device in assignment.flat)
    return tuple(f"{device.device_kind} {device.id}{_place(device, with_core)}" for device in assignment.flat)


def _place(device: Any, with_core: bool) -> str:
    if device.platform != "tpu":
        return ""
    return f" at ({', '.join(map(str, device.coords))})" + (f" core {device.core_on_chip}" if with_core else "")


def _no_device(platform: str | None, error: RuntimeError) -> str:
    """Returns a message that no device of a platform is attached, with targets that need none."""
    message = f"This process has no {platform or 'JAX'} device ({str(error).rstrip('.')})."
    known = [p for p in platforms.PLATFORMS if p.chips and platform in (p.kind, p.name, p.lowering)]
    if not known:
        return message
    one = f"{known[0].kind}:{known[0].usual_chip}"
    return (
        f"{message} To compile without one, name the chip: use the target {one!r}, or {known[0].example!r} for several."
    )
