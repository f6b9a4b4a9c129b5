"""Edits of a program: what the proof of a finding changes in its StableHLO, its flags or its trace. Frozen values.

Detectors propose them, `stages/edited_program.py` applies them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from inspector.compilation.program import Argument
from inspector.compilation.what_if import WhatIf
from inspector.hlo.source import Frame

Stack = tuple[tuple[str, int], ...]
"""A call stack: the file and the line of each frame, innermost first."""


def stacks_of(frames: Iterable[Sequence[Frame]]) -> tuple[Stack, ...]:
    """Returns different call stacks; () if one of them is unknown, so that all operations with the names are meant."""
    stacks = dict.fromkeys(tuple((frame.file, frame.line) for frame in each) for each in frames)
    return () if () in stacks else tuple(stacks)


@dataclasses.dataclass(frozen=True, slots=True)
class Donate:
    """Donates arguments.

    Attributes:
      pairs: for each, the number of the parameter and the number of the result that reuses its buffer.
    """

    pairs: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SplitParameter:
    """Splits a parameter over one more axis of the mesh.

    Attributes:
      parameter: its number.
      dimension: the dimension to split.
      axis: the mesh axis.
    """

    parameter: int
    dimension: int
    axis: str


@dataclasses.dataclass(frozen=True, slots=True)
class SplitVersions:
    """Splits the new versions of a parameter like it: results, and constrained values between the parameter and them.

    Attributes:
      parameter: its number. It is split already.
      results: the positions of the new versions.
      dimension: the dimension to split.
      axis: the mesh axis.
    """

    parameter: int
    results: tuple[int, ...]
    dimension: int
    axis: str


@dataclasses.dataclass(frozen=True, slots=True)
class TakeParts:
    """Splits parameters of which each device takes its part in a `shard_map`, and removes these slices.

    Attributes:
      parameters: their numbers.
      dimensions: the dimension of each.
      axes: the mesh axes that split the dimension of each, outermost first.
    """

    parameters: tuple[int, ...]
    dimensions: tuple[int, ...]
    axes: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class KeepResult:
    """Returns a result in the sharding that it has, although the changes could lead to another one.

    Attributes:
      result: its position.
      axes: the mesh axes that split each dimension.
    """

    result: int
    axes: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MoveAxis:
    """Splits another dimension of a parameter over an axis of the mesh.

    Attributes:
      parameter: its number.
      dimension: the dimension that the axis splits afterwards.
      axis: the mesh axis.
    """

    parameter: int
    dimension: int
    axis: str


@dataclasses.dataclass(frozen=True, slots=True)
class GatherFirst:
    """Gathers a split parameter over axes of the mesh once, before the program uses it.

    Attributes:
      parameter: its number.
      axes: the mesh axes.
    """

    parameter: int
    axes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DropConstraints:
    """Removes sharding constraints of values.

    Attributes:
      stacks: their call stacks.
      shapes: their element types and dimensions, such as ("f32", "64", "256"): a line can have several constraints.
    """

    stacks: tuple[Stack, ...]
    shapes: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class StepConstraints:
    """Changes a sharding in steps.

    Attributes:
      stacks: the call stacks of the constraints to the last sharding.
      axes: the mesh axes that split each dimension in the last sharding.
      steps: the shardings in between, in order.
    """

    stacks: tuple[Stack, ...]
    axes: tuple[tuple[str, ...], ...]
    steps: tuple[tuple[tuple[str, ...], ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DropPermutes:
    """Removes `ppermute`s.

    Attributes:
      stacks: their call stacks.
    """

    stacks: tuple[Stack, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class HoistCollectives:
    """Moves collectives of loop-invariant values in front of their loops.

    Attributes:
      op_names: JAX's names of the collectives.
    """

    op_names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DeferCollectives:
    """Moves all-reduces out of loops that only accumulate or stack their results.

    Attributes:
      op_names: JAX's names of the all-reduces.
    """

    op_names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CombineCollectives:
    """Combines collectives of one kind that do not depend on each other.

    Attributes:
      op_names: JAX's names of the collectives.
      groups: their groups of devices; () for any.
      stacks: their call stacks; () for all with the names.
    """

    op_names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SumSquares:
    """Computes variances over devices from sums of squares, which do not depend on the mean.

    Attributes:
      op_names: JAX's names of the all-reduces of the squared differences.
      stacks: their call stacks; () for all with the names.
    """

    op_names: tuple[str, ...]
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ReplaceRings:
    """Replaces rings of `ppermute`s by one collective each.

    Attributes:
      op_names: JAX's names of the `ppermute`s.
      call: the function of `jax.lax` that does the same.
      is_chunked: whether each step sends a chunk of an array.
      stacks: the call stacks of the `ppermute`s; () for all with the names.
    """

    op_names: tuple[str, ...]
    call: str
    is_chunked: bool = False
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class KeepOwnParts:
    """Removes `all_gather`s and `psum`s after which each device keeps only its own part, and the slices. The operations in between run on that part.

    Attributes:
      op_names: JAX's names of the collectives.
      shapes: the dimensions of their results.
      stacks: their call stacks; () for all with the names.
      scattered: the dimension of the parts and their number for a `psum`, which becomes a `psum_scatter`, and for an `all_gather` along another
        dimension, which becomes an `all_to_all`; () otherwise.
    """

    op_names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    stacks: tuple[Stack, ...] = ()
    scattered: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ReduceParts:
    """Removes `all_gather`s whose results are only reduced along the gathered dimension. Each device reduces its part, and an all-reduce follows.

    Attributes:
      op_names: JAX's names of the collectives.
      shapes: the dimensions of their results.
      stacks: their call stacks; () for all with the names.
    """

    op_names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class InterleaveColumns:
    """Gives fused matrices an order of columns in which each device has its columns of every matrix.

    Attributes:
      op_names: JAX's full names of the operations that cut the matrices out of their products, and put the gradients together.
      width: the number of columns of all matrices.
      count: the number of matrices.
      devices: the number of devices over which the columns are split.
      parameters: the numbers of all parameters with such columns; () if they are not known, or if results have such columns.
      stacks: the call stacks of the operations.
    """

    op_names: tuple[str, ...]
    width: int
    count: int
    devices: int
    parameters: tuple[int, ...] = ()
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class NarrowCollectives:
    """Sends collectives in a narrower type, and returns it from products whose parts the partitioner adds up.

    Attributes:
      op_names: JAX's names of the collectives and products.
      element_type: the narrower type, in HLO's notation.
      stacks: their call stacks; () for all with the names.
    """

    op_names: tuple[str, ...]
    element_type: str
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class NarrowProducts:
    """Removes the conversions of operands to a wider type from matrix products; the result's type stays.

    Attributes:
      op_names: JAX's names of the products.
      element_type: the narrower type, in HLO's notation, to which operands that are not converted are rounded.
      stacks: the call stacks of the products; () for all with the names.
    """

    op_names: tuple[str, ...]
    element_type: str
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultPrecision:
    """Computes matrix products in the default precision.

    Attributes:
      op_names: JAX's names of the products.
      stacks: the call stacks of the products; () for all with the names.
    """

    op_names: tuple[str, ...]
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ContractSums:
    """Computes sums of elementwise products of two arrays, or of squares of their differences, as matrix products.

    Attributes:
      op_names: JAX's names of the sums.
      stacks: the call stacks of the sums; () for all with the names.
    """

    op_names: tuple[str, ...]
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SortToTopK:
    """Replaces a sort by `top_k`.

    Attributes:
      op_name: JAX's name of the sort.
      k: number of values that are used.
      is_last: True if they are the last ones, False if they are the first ones.
      has_barrier: whether an optimization barrier keeps slices of its results from being merged with it.
    """

    op_name: str
    k: int
    is_last: bool
    has_barrier: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateSlices:
    """Updates slices of arrays instead of writing the arrays as a whole, and donates the arrays.

    Attributes:
      op_names: JAX's names of the operations that write them.
      pairs: the parameters to donate, as in `Donate`.
    """

    op_names: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DropCallbacks:
    """Removes callbacks that return nothing, such as `jax.debug.print`.

    Attributes:
      op_names: JAX's names of the callbacks.
      stacks: the call stacks of the callbacks; () for all with the names.
    """

    op_names: tuple[str, ...]
    stacks: tuple[Stack, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LiftConstants:
    """Makes large constants further parameters of the program.

    Attributes:
      least_bytes: the smallest constant that is lifted, in bytes.
    """

    least_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class StoreTransposed:
    """Takes a parameter with its dimensions in another order.

    Attributes:
      parameter: its number.
      order: the present dimensions in the new order.
    """

    parameter: int
    order: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class StoreNarrow:
    """Stores parameters, or elements that a loop carries, in a narrower float type.

    Attributes:
      parameters: their numbers.
      element_type: the narrower type, in HLO's notation.
      loop: JAX's name of the loop; "" for parameters.
      shape: the element type and the dimensions of the elements, such as ("f32", "64", "256").
      results: the positions of the results that are new versions of the parameters, which stay narrow.
      is_read: whether the elements are those that the loop only reads.
    """

    parameters: tuple[int, ...]
    element_type: str
    loop: str = ""
    shape: tuple[str, ...] = ()
    results: tuple[int, ...] = ()
    is_read: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DropParameters:
    """Removes parameters that the program does not use.

    Attributes:
      parameters: their numbers.
    """

    parameters: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DropResults:
    """Leaves out results.

    Attributes:
      results: their positions.
    """

    results: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SingleFloats:
    """Computes in 32-bit floats instead of 64-bit ones, and returns them."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlaceDevices:
    """Runs the partitions of the program on its devices in another order.

    Attributes:
      device_ids: JAX's id of the device of each partition.
    """

    device_ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SetFlags:
    """Compiles with further flags.

    Attributes:
      flags: pairs of a flag and its value.
    """

    flags: tuple[tuple[str, str | int | bool], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TraceAgain:
    """Traces and lowers the function again with changes of its call.

    Attributes:
      what_if: the changes.
      work: assumed work of the changed program relative to the original; below 1 if a dimension is shorter.
    """

    what_if: WhatIf
    work: float = 1.0

    @property
    def resizes(self) -> bool:
        """True if arguments have other shapes, so that the results cannot be compared."""
        return bool(self.what_if.batch or self.what_if.lengths)


def resized(arguments: Iterable[Argument], present: int, wanted: int) -> tuple[TraceAgain, ...] | None:
    """Returns the edit that changes the length of all dimensions of arguments that have it; None if none has."""
    arrays = [(each.path, each.shape) for each in arguments]
    if all(present not in shape for _, shape in arrays):
        return None
    return (TraceAgain(WhatIf.of(shape={present: wanted}, arrays=arrays), work=min(1.0, wanted / present)),)


Edit = (
    Donate
    | SplitParameter
    | SplitVersions
    | TakeParts
    | KeepResult
    | MoveAxis
    | GatherFirst
    | DropConstraints
    | StepConstraints
    | DropPermutes
    | HoistCollectives
    | DeferCollectives
    | CombineCollectives
    | SumSquares
    | ReplaceRings
    | KeepOwnParts
    | ReduceParts
    | InterleaveColumns
    | NarrowCollectives
    | NarrowProducts
    | DefaultPrecision
    | ContractSums
    | SortToTopK
    | UpdateSlices
    | DropCallbacks
    | LiftConstants
    | StoreTransposed
    | StoreNarrow
    | DropParameters
    | DropResults
    | SingleFloats
    | PlaceDevices
    | SetFlags
    | TraceAgain
)
