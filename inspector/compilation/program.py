"""`Program`: what is handed to a compiler, and what is known about its ends.

The part of a `Lowered` that crosses processes. Made by `lowering/`, carried by `CompileRequest`
and `Compiled`. Bytes, text and numbers only.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from inspector import platforms
from inspector.compilation.options.options import Options
from inspector.errors import OptionError
from inspector.hlo.devices.mesh import Mesh
from inspector.support.cross_process import Portable
from inspector.support.units import format_array, format_bytes, format_list


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Argument:
    """One array leaf of the arguments, in flattening order.

    Attributes:
      path: how the user would write it, such as `params['w'][0]`.
      shape: what one call takes; of one replica under an axis environment, global under a mesh.
      dtype: NumPy's name (`float32`, `bfloat16`), or `key<fry>` for random keys.
      parameter: the program's parameter number, or None when the lowering dropped the argument.
      donated: the caller gives the buffer away.
      weak_type: a Python scalar's type, which gives way in promotion.
      sharding: JAX's text of it, or "" when unspecified.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    parameter: int | None
    donated: bool = False
    weak_type: bool = False
    sharding: str = ""

    def __str__(self) -> str:
        return f"{self.path or '_'}: {format_array(self.dtype, self.shape)}"

    def __repr__(self) -> str:
        dropped = ", not used by the program" if self.parameter is None else ""
        return f"<Argument {self}{', donated' if self.donated else ''}{_placed(self.sharding)}{dropped}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Result:
    """One array leaf of the outputs, in flattening order. `path` is `""` for a single output."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    sharding: str = ""

    def __str__(self) -> str:
        return f"result{self.path}: {format_array(self.dtype, self.shape)}"

    def __repr__(self) -> str:
        return f"<Result {self}{_placed(self.sharding)}>"


def _placed(sharding: str) -> str:
    return f", {sharding}" if sharding else ""


class Binding(Protocol):
    """How the arguments of a call become the arrays of a program, and its arrays the call's result."""

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The values of `Program.arguments`, in order.

        Raises:
          ExecutionError: the program is not for these arguments.
        """
        ...

    def result(self, outputs: Sequence[Any]) -> Any:
        """What the function returns, of the program's results; Unavailable where that is not known."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class NamedAxes:
    """The mesh axes that a collective of the user's function names.

    Attributes:
      primitive: JAX's, such as `psum`.
      file, line: the innermost Python line that it comes from.
      axes: the names, in the user's order.
    """

    primitive: str
    file: str
    line: int
    axes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Program(Portable):
    """A lowered module with what its callers must know.

    Attributes:
      name: the module's name.
      module: StableHLO as MLIR bytecode, with source locations.
      arguments: the array arguments.
      results: the array results.
      options: build options that the lowering implies (number of replicas and partitions,
        partitioner, sharding propagation); a user's options come on top.
      mesh: the axis environment or the JAX mesh, or None when there is neither.
      platform: what the module was lowered for, such as "cpu", "tpu" or "gpu"; JAX's own name, "cuda", is taken for "gpu".
      host_callbacks: the program calls back into this very process, so no other can run it.
      named_axes: where the mesh has axes of size 1, which leave no trace in groups: what the function's collectives
        name; else ().
      device_ids: JAX's ids of the devices that the function names, one a partition, in their order; None where it names
        none, as with an `AbstractMesh` or an axis environment. Targets that have these devices compile for them.
      callbacks: what it then calls, for whoever compiles it here.
      binding: how the arguments of a call become its arrays, or None. These two never leave the process
        and are never compared.
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
    callbacks: object = dataclasses.field(default=None, compare=False, repr=False)
    binding: Binding | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "platform", platforms.named(self.platform).name)
        if (
            self.options.flags or self.options.extra_proto
        ):  # a file that carries flags past the checks of those of a variant
            raise OptionError(
                f"A lowering implies fields of the build options only, got {self.options}. Give flags when you compile."
            )

    @property
    def signature(self) -> str:
        """Its name and what it takes, for people: `jit_f(x: float32[8])`."""
        return f"{self.name}({format_list([str(argument) for argument in self.arguments])})"

    def __repr__(self) -> str:
        mesh = f", {self.mesh}" if self.mesh else ""
        return f"<Program {self.signature} for {self.platform}{mesh}, {format_bytes(len(self.module))} of StableHLO>"

    @property
    def device_count(self) -> int:
        """Devices that one execution takes: replicas times partitions."""
        return (self.options.num_replicas or 1) * (self.options.num_partitions or 1)

    @property
    def digest(self) -> str:
        """SHA-256 of the module's bytes, in hex."""
        return hashlib.sha256(self.module).hexdigest()
