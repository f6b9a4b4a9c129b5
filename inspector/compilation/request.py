"""`CompileRequest` and `RunRequest`: what an engine is asked for. Values that cross processes."""

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

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram


PRODUCTS = frozenset(RECORDS)
"""What a compile can be asked for besides its ordinary results; it takes longer then."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CompileRequest:
    """A program, how to compile it and for what.

    Attributes:
      program: what is compiled.
      options: the user's options; those that `program.options` implies lie below them.
      target: for what; its text will do, as options do in every form that `Options.of` takes. A number of virtual CPU devices among the options
        (`xla_force_host_platform_device_count`) is taken over into "cpu" and "attached".
      products: those of `PRODUCTS` that are wanted besides.
    """

    program: Program
    options: Options
    target: Target
    products: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.program, Program):
            raise ParameterError(
                f"Expected a Program, got {self.program!r}. `inspector.lower(fun, *args).program` is one."
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
        """The program's implied options with the user's on top: what the compiler gets."""
        return self.program.options.merge(self.options)

    @property
    def digest(self) -> str:
        """SHA-256 over module, devices, options, target and products, in hex."""
        return self.digest_with(self.program.digest)

    def digest_with(self, module_digest: str) -> str:
        """`digest`, where another digest tells the modules apart."""
        text = f"{module_digest}\n{self.build_options.to_json()}\n{self.target}"
        text += f"\n{self.program.device_ids}" if self.program.device_ids else ""
        text += "".join(f"\n{product}" for product in sorted(self.products))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RunRequest:
    """An executable, its inputs and how often to run it.

    Attributes:
      compiled: what is run; its `executable` bytes, or a live one that the engine still holds.
      inputs: one array a program parameter, in parameter order. Under partitions, the global
        array. Under replicas, a leading axis of `num_replicas` when `per_replica`, else the value
        that every replica gets.
      per_replica: one boolean an input.
      repeat: measured executions, at least 1.
      warmup: executions before them, not measured.
    """

    compiled: CompiledProgram
    inputs: tuple[np.ndarray, ...]
    per_replica: tuple[bool, ...]
    repeat: int = 10
    warmup: int = 2


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RunReply:
    """What an engine measured.

    Attributes:
      outputs: one array a result. Global under partitions; with a leading axis of `num_replicas`
        under replicas (more than one).
      durations_s: one wall-clock duration an execution, call to outputs ready, inputs already on
        the device.
      device_kind: the device that ran, as JAX names it.
      warnings: what the compiler or runtime said.
    """

    outputs: tuple[np.ndarray, ...]
    durations_s: tuple[float, ...]
    device_kind: str
    warnings: tuple[str, ...] = ()


DEVICE_COUNT_FLAG = "xla_force_host_platform_device_count"
"""XLA reads it once, when a process starts its CPU client; here it chooses the process."""


def products_of(given: Collection[str]) -> frozenset[str]:
    """One name or several.

    Raises:
      OptionError: not names in `PRODUCTS`.
    """
    names: Any = {given} if isinstance(given, str) else given
    unknown = [name for name in names if name not in sorted(PRODUCTS)] if isinstance(names, Collection) else [names]
    if unknown:
        raise OptionError(
            f"There is no product {', '.join(sorted(map(repr, unknown)))}; expected names among"
            f" {', '.join(sorted(PRODUCTS))}, such as products=('passes',)."
        )
    return frozenset(names)


def _with_device_count(target: Target, options: Options, platform: str) -> Target:
    """The target with the number of virtual devices that the options ask for.

    Raises:
      OptionError: no such number, another one than the target's, or not a program for the CPU.
    """
    count = options.flags.get(DEVICE_COUNT_FLAG)
    if count is None:
        return target
    if type(count) is not int or not 1 <= count <= MAX_CPU_DEVICES:
        raise OptionError(f"{DEVICE_COUNT_FLAG} must be an int from 1 to {MAX_CPU_DEVICES}, got {count!r}.")
    if platform != "cpu":
        raise OptionError(
            f"{DEVICE_COUNT_FLAG}={count} makes virtual CPU devices, but the program was lowered for {platform}."
            " Lower it for the CPU (platform='cpu'), or leave the flag out."
        )
    if target.kind == "cpu" and target.device_count not in (1, count):
        raise OptionError(
            f"{DEVICE_COUNT_FLAG}={count} asks for another number of devices than the target {target}. Leave one out."
        )
    return Target(f"cpu:{count}").by(target.jax)
