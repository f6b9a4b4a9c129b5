"""The collectives of a module: who takes part, over which axes, with how many bytes, and on whose behalf.

One row an operation: a `-start`/`-done` pair is one, wherever the operation itself is written
(`analysis/operations.py`). Reads modules only; who holds what before and after is in
`analysis/members.py`, the drawing in `analysis/mesh_plot.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, overload

from inspector.analysis.axes import Axes
from inspector.analysis.operations import operations
from inspector.analysis.participation import Groups, Participations
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.group_mode import GroupMode
from inspector.hlo.mesh import Mesh
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.replica_groups import ReplicaGroups
from inspector.hlo.shape import Shape
from inspector.hlo.source import Origin

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# jax.lax.parallel's primitives, as the last word of an op_name. Their asynchronous forms end in _start, _done.
_PRIMITIVES = frozenset(
    {
        *("psum", "psum2", "psum_invariant", "pmax", "pmin", "preduced"),
        *("unreduced_psum", "unreduced_pmax", "unreduced_pmin", "unreduced_reduce_scatter"),
        *("all_gather", "all_gather_invariant", "all_gather_reduced", "reduce_scatter", "psum_scatter"),
        *("all_to_all", "ragged_all_to_all", "ppermute", "pgather", "pbroadcast", "pbroadcast_dynamic"),
    }
)

INSERTED_BY_RULE = (
    "user: the op_name ends in a collective of jax.lax (psum, all_gather, ppermute, ...). partitioner: XLA marked"
    " it so (is_spmd_generated), or it joins partitions on behalf of another operation. compiler: it joins replicas"
    " on behalf of another operation. Unavailable: no op_name."
)
"""How `Collective.inserted_by` is decided, for a reader."""


@dataclasses.dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation.

    Attributes:
      name: the instruction; of a pair, the `-start`.
      opcode: one of `operations.OPCODES`.
      computation: the computation that the instruction stands in.
      context: how execution gets there: ("entry", "while-body", "branch 1"); begins with "not called"
        where it never does.
      done: the instruction that ends it, such as a `-done`; "" when the operation is not asynchronous.
      groups: the ids as written, `{}` (all) written out; (source, target) pairs for collective-permute.
      form: the groups in the form that the module has; None for collective-permute.
      mode: what the ids are.
      participants: the same groups or pairs as devices, `replica * num_partitions + partition`, for every
        replica and partition that has them. Unavailable when they name ids that the program does not have.
      axes: names of the mesh axes that the groups mean, slowest-varying first.
      operand_shapes: one an operand.
      result_shapes: one an array of the result.
      dimensions: gathered, scattered or split dimension; () where the opcode has none.
      reduction: opcode that combines two values (`add`, `maximum`), "" where the opcode combines none.
      channel_id: None when it has none.
      origin: Python source and name stack.
      inserted_by: "user", "partitioner" or "compiler": see `INSERTED_BY_RULE`.
    """

    name: str
    opcode: str
    computation: str
    context: tuple[str, ...]
    done: str
    groups: Groups
    form: ReplicaGroups | None
    mode: GroupMode
    participants: Groups | Unavailable
    axes: Axes | Unavailable
    operand_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    dimensions: tuple[int, ...]
    reduction: str
    channel_id: int | None
    origin: Origin
    inserted_by: str | Unavailable

    @property
    def operand_bytes(self) -> int:
        """Bytes that one device puts in."""
        return sum(shape.byte_size for shape in self.operand_shapes)

    @property
    def result_bytes(self) -> int:
        """Bytes that one device gets out."""
        return sum(shape.byte_size for shape in self.result_shapes)


@dataclasses.dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of one module, in the order of its proto.

    Attributes:
      items: one each.
      mesh: the mesh or axis environment they were matched with.
      num_replicas: of the program.
      num_partitions: of the program.
    """

    items: tuple[Collective, ...]
    mesh: Mesh | None
    num_replicas: int
    num_partitions: int

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Collective]:
        return iter(self.items)

    @overload
    def __getitem__(self, key: str | int) -> Collective: ...
    @overload
    def __getitem__(self, key: slice) -> Collectives: ...
    def __getitem__(self, key: str | int | slice) -> Collective | Collectives:
        """One by its position, or by the name of its instruction (start or done); several by a slice.

        Raises:
          KeyError, IndexError: there is none; with those that there are.
        """
        if isinstance(key, slice):
            return dataclasses.replace(self, items=self.items[key])
        names = [collective.name for collective in self.items]
        if isinstance(key, str):
            for collective in self.items:
                if key.removeprefix("%") in (collective.name, collective.done):
                    return collective
            raise KeyError(f"No collective {key!r}: there are {names}.")
        try:
            return self.items[key]
        except IndexError:
            raise IndexError(f"No collective {key}: there are {len(names)}, {names}.") from None

    def table(self) -> pd.DataFrame:
        """One row a collective; unknown values are `Unavailable`, with the reason."""
        import pandas as pd

        rows = [_row(collective) for collective in self.items]
        return pd.DataFrame(rows, columns=list(COLUMNS), dtype=None if rows else object)

    def members(self, key: str | int) -> pd.DataFrame:
        """One row a group member of a collective, by its name or position: see `analysis/members.py`."""
        from inspector.analysis.members import members

        return members(self[key], self.mesh, self.num_replicas, self.num_partitions)

    def plot(self, key: str | int) -> Figure:
        """The groups of a collective, by its name or position, drawn on the mesh: see `analysis/mesh_plot.py`.

        Raises:
          ModuleError: there is no mesh to draw on, or it does not hold the groups.
        """
        from inspector.analysis.mesh_plot import plot_groups

        collective = self[key]
        if self.mesh is None:
            raise ModuleError(f"Cannot draw the groups of {collective.name}: the program has no mesh.")
        if isinstance(collective.participants, Unavailable):
            raise ModuleError(f"Cannot draw the groups of {collective.name}: {collective.participants.reason}")
        axes = "" if isinstance(collective.axes, Unavailable) else f" over {', '.join(collective.axes) or 'no axis'}"
        by_replica = self.mesh.kind == "replica"
        groups = dict.fromkeys(  # each is there once for every id of the other kind
            tuple(d // self.num_partitions if by_replica else d % self.num_partitions for d in group)
            for group in collective.participants
        )
        pairs = collective.opcode == "collective-permute"
        return plot_groups(self.mesh, list(groups), pairs=pairs, title=f"{collective.opcode}{axes}")


COLUMNS = (
    "name",
    "opcode",
    "computation",
    "axes",
    "replica_groups",
    "group_mode",
    "operand_shapes",
    "result_shapes",
    "operand_bytes",
    "source_file",
    "source_line",
    "inserted_by",
    "result_bytes",
    "context",
    "dimensions",
    "reduction",
    "channel_id",
    "done",
    "op_name",
)
"""Columns of `Collectives.table()`; scripts rely on the first twelve."""


def collectives(module: Module, mesh: Mesh | None, num_replicas: int = 1, num_partitions: int = 1) -> Collectives:
    """Finds the collectives of a module.

    Args:
      module: before or after optimization.
      mesh: the program's mesh or axis environment, for the axes; None when there is none.
      num_replicas: of the program; a module does not say.
      num_partitions: of the program; a module does not say.

    Raises:
      ModuleError: a damaged module.
    """
    program = _Program(module, mesh, num_replicas, num_partitions)
    return Collectives(tuple(program.collectives()), mesh, num_replicas, num_partitions)


class _Program:
    """A module with what it does not say itself."""

    def __init__(self, module: Module, mesh: Mesh | None, num_replicas: int, num_partitions: int) -> None:
        self.module = module
        self.num_partitions = num_partitions
        self._participations = Participations(mesh, num_replicas, num_partitions)
        self._contexts: dict[str, tuple[str, ...]] = {}

    def collectives(self) -> Iterator[Collective]:
        for found in operations(self.module):
            yield self._collective(found.instruction, found.operation, found.done)

    def _collective(self, instruction: Instruction, operation: Instruction, done: Instruction | None) -> Collective:
        who = self._participations.of(operation)
        origin = instruction.origin if instruction.op_name else operation.origin
        return Collective(
            name=instruction.name,
            opcode=operation.opcode.removesuffix("-start"),
            computation=instruction.computation.name,
            context=self._context(instruction.computation),
            done=done.name if done is not None else "",
            groups=who.groups,
            form=who.form,
            mode=who.mode,
            participants=who.participants,
            axes=who.axes,
            operand_shapes=tuple(operand.shape for operand in instruction.operands),
            result_shapes=_result(instruction, done).leaves,
            dimensions=operation.dimensions,
            reduction=operation.to_apply.root.opcode if operation.to_apply else "",
            channel_id=operation.channel_id,
            origin=origin,
            inserted_by=self._inserted_by(operation, origin, who.mode),
        )

    def _context(self, computation: Computation) -> tuple[str, ...]:
        """Roles of the callers from the entry down; of several callers, the first one's."""
        if computation.name not in self._contexts:
            callers = self.module.callers.get(computation.name, ())
            if not callers:
                self._contexts[computation.name] = ("entry" if computation.is_entry else "not called",)
            else:
                role = _role(callers[0], computation)
                self._contexts[computation.name] = (*self._context(callers[0].computation), role)
        return self._contexts[computation.name]

    def _inserted_by(self, operation: Instruction, origin: Origin, mode: GroupMode) -> str | Unavailable:
        if _primitive(origin.op_name) in _PRIMITIVES:
            return "user"
        if operation.frontend_attributes.get("is_spmd_generated") == "true":
            return "partitioner"
        if not origin.op_name:
            return Unavailable("the instruction has no op_name, so nothing says where it comes from")
        return "partitioner" if self.num_partitions > 1 and mode is not GroupMode.CROSS_REPLICA else "compiler"


def _result(instruction: Instruction, done: Instruction | None) -> Shape:
    """The operation's result, without what a start carries along."""
    if done is not None and instruction.opcode.endswith("-start"):
        return done.shape
    if instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start":
        return instruction.shape.tuple_shapes[1]
    return instruction.shape


def _role(caller: Instruction, computation: Computation) -> str:
    called = [c.name for c in caller.called_computations]
    index = called.index(computation.name)
    if caller.opcode == "while":
        return ("while-body", "while-condition")[index]
    if caller.opcode == "conditional":
        return f"branch {index}"
    return caller.opcode


def _primitive(op_name: str) -> str:
    """`jit(f)/shard_map/psum` -> `psum`; parameters in brackets and an ending of asynchronous forms dropped.

    XLA joins the names of collectives that it combined, `jit(f)/(jvp()/psum:transpose(jvp())/psum)`: the last counts.
    """
    last = op_name.rpartition("/")[2].partition("[")[0].rstrip(")")
    return last.removesuffix("_start").removesuffix("_done")


def _row(collective: Collective) -> dict[str, object]:
    frame = collective.origin.frames[0] if collective.origin.frames else None
    unknown = Unavailable("the compiler recorded no source line for it")
    return {
        "name": collective.name,
        "opcode": collective.opcode,
        "computation": collective.computation,
        "axes": collective.axes,
        "replica_groups": [list(group) for group in collective.groups],
        "group_mode": str(collective.mode),
        "operand_shapes": [str(shape.without_layout()) for shape in collective.operand_shapes],
        "result_shapes": [str(shape.without_layout()) for shape in collective.result_shapes],
        "operand_bytes": collective.operand_bytes,
        "source_file": frame.file if frame else unknown,
        "source_line": frame.line if frame else unknown,
        "inserted_by": collective.inserted_by,
        "result_bytes": collective.result_bytes,
        "context": " > ".join(collective.context),
        "dimensions": list(collective.dimensions),
        "reduction": collective.reduction,
        "channel_id": collective.channel_id if collective.channel_id is not None else Unavailable("it has none"),
        "done": collective.done,
        "op_name": collective.origin.op_name,
    }
