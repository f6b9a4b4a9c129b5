"""`Program`: a lowered module for a compiler, with its arguments and results.

The part of a `Lowered` that is sent between processes. Created by `lowering/`, contained in `CompileRequest`
and `Compiled`. Consists of bytes, text and numbers only.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from inspector import platforms
from inspector.compilation.options.options import Options
from inspector.compilation.what_if import WhatIf
from inspector.errors import ModuleError, OptionError, Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.support.cross_process import TRAVELS, Portable
from inspector.support.units import format_array, format_bytes, format_list


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Argument:
    """One array leaf of the arguments, in flattening order.

    Attributes:
      path: the argument in the user's notation, such as `params['w'][0]`.
      shape: shape in one call; per replica under an axis environment, global under a mesh.
      dtype: NumPy's name (`float32`, `bfloat16`), or `key<fry>` for random keys.
      parameter: the program's parameter number, or None if the lowering dropped the argument.
      donated: True if the caller donates the buffer.
      weak_type: True for the type of a Python scalar, which yields to other types in promotion.
      sharding: JAX's text of the sharding, or "" if unspecified.
      memory_kind: JAX's name of the memory that the array is in, such as "pinned_host", from the StableHLO; "" if unspecified.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    parameter: int | None
    donated: bool = False
    weak_type: bool = False
    sharding: str = ""
    memory_kind: str = ""

    def __str__(self) -> str:
        return f"{self.path or '_'}: {format_array(self.dtype, self.shape)}"

    def __repr__(self) -> str:
        dropped = ", not used by the program" if self.parameter is None else ""
        return f"<Argument {self}{', donated' if self.donated else ''}{_placed(self.sharding)}{dropped}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Result:
    """One array leaf of the outputs, in flattening order. `path` is `""` for a single output; `memory_kind` as in `Argument`."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    sharding: str = ""
    memory_kind: str = ""

    def __str__(self) -> str:
        return f"result{self.path}: {format_array(self.dtype, self.shape)}"

    def __repr__(self) -> str:
        return f"<Result {self}{_placed(self.sharding)}>"


def _placed(sharding: str) -> str:
    return f", {sharding}" if sharding else ""


class Binding(Protocol):
    """Converts the arguments of a call to the arrays of a program, and the program's arrays to the call's result."""

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the values of `Program.arguments`, in order.

        Raises:
          ExecutionError: the arguments do not match the program.
        """
        ...

    def result(self, outputs: Sequence[Any]) -> Any:
        """Returns the function's result for the program's outputs; Unavailable if it is unknown."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class NamedAxes:
    """The mesh axes that a collective of the user's function names.

    Attributes:
      primitive: JAX's primitive, such as `psum`.
      file, line: the innermost Python line of the collective.
      axes: names of the axes, in the user's order.
    """

    primitive: str
    file: str
    line: int
    axes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Program(Portable):
    """A lowered module with the information that its callers need.

    Attributes:
      name: the module's name.
      module: StableHLO as MLIR bytecode, with source locations; b"" for a program that was opened without it.
      arguments: the array arguments.
      results: the array results.
      options: build options that the lowering implies (number of replicas and partitions,
        partitioner, sharding propagation); a user's options come on top.
      mesh: the axis environment or the JAX mesh, or None if there is neither.
      platform: platform that the module was lowered for, such as "cpu", "tpu" or "gpu"; JAX's "cuda" becomes "gpu".
      host_callbacks: True if the program calls back into this process, so that no other process can run it.
      named_axes: axes named by the function's collectives, if the mesh has axes of size 1, which do not show in replica
        groups; otherwise ().
      device_ids: JAX's ids of the devices that the function names, one for each partition, in their order; None if it names
        none, as with an `AbstractMesh` or an axis environment. Targets that have these devices compile for them.
      is_optimized: True for a module that a compiler has optimized; XLA cannot compile most of them again.
      no_stablehlo: the reason why the program has no StableHLO, so that it cannot be compiled; None if it has.
      no_hlo: the reason why XLA cannot convert its StableHLO to HLO, so that it is shown as text only; None if it can.
      hlo_digest: SHA-256 of its HLO in hex, which identifies a program without StableHLO; otherwise "".
      callbacks: the host callbacks, for an engine in this process.
      binding: converts the arguments of a call to the program's arrays, or None.
      changed: lowers the function again for the same platform with changes of the call, or None. Callbacks, binding and this
        function stay in the process and are not compared.
    """

    name: str
    module: bytes
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    options: Options
    mesh: Mesh | None
    platform: str
    host_callbacks: bool = False
    named_axes: tuple[NamedAxes, ...] = ()
    device_ids: tuple[int, ...] | None = None
    is_optimized: bool = dataclasses.field(default=False, compare=False, repr=False, metadata=TRAVELS)
    no_stablehlo: Unavailable | None = None
    no_hlo: Unavailable | None = None
    hlo_digest: str = ""
    callbacks: object = dataclasses.field(default=None, compare=False, repr=False)
    binding: Binding | None = dataclasses.field(default=None, compare=False, repr=False)
    changed: Callable[[WhatIf], Program] | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "platform", platforms.named(self.platform).name)
        if (
            self.options.flags or self.options.extra_proto
        ):  # flags in a file would bypass the checks of a variant's flags
            raise OptionError(
                f"A lowering implies fields of the build options only, got {self.options}. Pass flags to the compile instead."
            )

    @property
    def signature(self) -> str:
        """The name and the arguments for messages: `jit_f(x: float32[8])`."""
        return f"{self.name}({format_list([str(argument) for argument in self.arguments])})"

    def __repr__(self) -> str:
        mesh = f", {self.mesh}" if self.mesh else ""
        size = f"{format_bytes(len(self.module))} of StableHLO" if self.no_stablehlo is None else "without StableHLO"
        return f"<Program {self.signature} for {self.platform}{mesh}, {size}>"

    @property
    def device_count(self) -> int:
        """Devices that one execution needs: replicas times partitions."""
        return (self.options.num_replicas or 1) * (self.options.num_partitions or 1)

    @property
    def not_compilable(self) -> Unavailable | None:
        """The reason why the program cannot be compiled; None if it can."""
        return self.no_stablehlo if self.no_stablehlo is not None else self.no_hlo

    def check_compilable(self) -> None:
        """Checks that the program can be compiled.

        Raises:
          ModuleError: it has no StableHLO or no HLO; with the reason and the remedy.
        """
        reason = self.not_compilable
        if reason is not None:
            remedy = f" {reason.remedy[:1].upper()}{reason.remedy[1:].rstrip('.')}." if reason.remedy else ""
            raise ModuleError(f"{self.name} cannot be compiled: {reason.reason.rstrip('.')}.{remedy}")

    @property
    def digest(self) -> str:
        """SHA-256 of the module's bytes, in hex; that of its HLO if it has no StableHLO."""
        return self.hlo_digest or hashlib.sha256(self.module).hexdigest()
