"""`CompileRequest` and `RunRequest`: requests to an engine, and `RunReply`. Values that are sent between processes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.records.registry import RECORDS
from inspector.compilation.target import MAX_CPU_DEVICES, Target
from inspector.errors import OptionError, ParameterError
from inspector.support.notebook import short

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram


PRODUCTS = frozenset(RECORDS)
"""Optional products of a compile. A compile that records them takes longer."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CompileRequest:
    """A program with the options and the target of its compile.

    Attributes:
      program: the program to compile.
      options: the user's options, on top of those in `program.options`; given in any form that `Options.of` takes.
      target: the target or its text. A number of virtual CPU devices in the options
        (`xla_force_host_platform_device_count`) is applied to "cpu" and "attached".
      products: requested names of `PRODUCTS`.
    """

    program: Program
    options: Options
    target: Target
    products: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.program, Program):
            raise ParameterError(
                f"Expected a Program, got {short(self.program)}. `inspector.lower(fun, *args).program` is one."
            )
        object.__setattr__(self, "options", Options.of(self.options))
        object.__setattr__(self, "products", products_of(self.products))
        target = Target.parse(self.target)
        object.__setattr__(self, "target", _with_device_count(target, self.build_options, self.program.platform))

    def __repr__(self) -> str:
        products = f", with {', '.join(sorted(self.products))}" if self.products else ""
        return f"<CompileRequest {self.program.name} for {self.target}, {self.options}{products}>"

    @property
    def build_options(self) -> Options:
        """All options of the compiler: the program's implied options with the user's on top."""
        return self.program.options.merge(self.options)

    @property
    def digest(self) -> str:
        """SHA-256 over module, devices, options, target and products, in hex."""
        return self.digest_with(self.program.digest)

    def digest_with(self, module_digest: str) -> str:
        """Returns `digest` with another digest that identifies the module."""
        text = f"{module_digest}\n{self.build_options.to_json()}\n{self.target}"
        text += f"\n{self.program.device_ids}" if self.program.device_ids else ""
        text += "".join(f"\n{product}" for product in sorted(self.products))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RunRequest:
    """An executable, its inputs and the number of executions.

    Attributes:
      compiled: the program to run, with its `executable` bytes or an executable that the engine has loaded.
      inputs: one array for each program parameter, in parameter order. Under partitions, the global
        array. Under replicas, with a leading axis of `num_replicas` if `per_replica`, otherwise the value
        for every replica.
      per_replica: one boolean for each input.
      repeat: measured executions, at least 1.
      warmup: executions before the measured ones.
      profiled: whether the measured executions run under JAX's profiler. As many run without it, half before and half after.
      with_outputs: whether the reply has the outputs, which take time to transfer.
    """

    compiled: CompiledProgram
    inputs: tuple[np.ndarray, ...]
    per_replica: tuple[bool, ...]
    repeat: int = 10
    warmup: int = 2
    profiled: bool = False
    with_outputs: bool = True


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RunReply:
    """The outputs and measurements of a run.

    Attributes:
      outputs: one array for each result, or none if the request did not ask for them. Global under partitions; with a leading axis of `num_replicas`
        under replicas (more than one).
      durations_s: one wall-clock duration for each execution, from the call until the outputs are ready, with the inputs
        already on the device.
      device_kind: JAX's name of the device that ran the program.
      warnings: warnings of the compiler and the runtime.
      xspace: the profile as a serialized `XSpace`; b"" if none was requested.
      plain_durations_s: durations without the profiler, if one was requested.
      first_s: duration of the first execution in seconds, before the measured ones; None without any before.
      dispatch_s: the part of each duration until the call returned, in seconds; the device may still work then.
      printed: the beginning of what host callbacks printed in all executions.
    """

    outputs: tuple[np.ndarray, ...]
    durations_s: tuple[float, ...]
    device_kind: str
    warnings: tuple[str, ...] = ()
    xspace: bytes = dataclasses.field(default=b"", repr=False)
    plain_durations_s: tuple[float, ...] = ()
    first_s: float | None = None
    dispatch_s: tuple[float, ...] = ()
    printed: str = ""


DEVICE_COUNT_FLAG = "xla_force_host_platform_device_count"
"""XLA reads this flag once, when a process starts its CPU client. inspector selects the process by it."""


def products_of(products: Collection[str]) -> frozenset[str]:
    """Reads one name or several names of products.

    Raises:
      OptionError: not names in `PRODUCTS`.
    """
    names: Any = {products} if isinstance(products, str) else products
    unknown = [name for name in names if name not in sorted(PRODUCTS)] if isinstance(names, Collection) else [names]
    if unknown:
        raise OptionError(
            f"Unknown product {', '.join(sorted(map(repr, unknown)))}. Expected names among"
            f" {', '.join(sorted(PRODUCTS))}, such as products=('passes',)."
        )
    return frozenset(names)


def _with_device_count(target: Target, options: Options, platform: str) -> Target:
    """Returns the target with the number of virtual devices in the options.

    Raises:
      OptionError: not a number, conflicts with the target, or the program is not for the CPU.
    """
    count = options.flags.get(DEVICE_COUNT_FLAG)
    if count is None:
        return target
    if type(count) is not int or not 1 <= count <= MAX_CPU_DEVICES:
        raise OptionError(f"{DEVICE_COUNT_FLAG} must be an int from 1 to {MAX_CPU_DEVICES}, got {short(count)}.")
    if platform != "cpu":
        raise OptionError(
            f"{DEVICE_COUNT_FLAG}={count} creates virtual CPU devices, but the program was lowered for {platform}."
            " Lower it for the CPU (platform='cpu'), or remove the flag."
        )
    if target.kind == "cpu" and target.device_count not in (1, count):
        raise OptionError(
            f"{DEVICE_COUNT_FLAG}={count} conflicts with the number of devices of the target {target}. Remove one of them."
        )
    return Target(f"cpu:{count}").by(target.jax)
