"""`Collective`: one collective operation of a module, and its axes in words."""

from __future__ import annotations

import dataclasses

from inspector.analysis.collectives.axes import Axes
from inspector.analysis.collectives.operations import bytes_put_in
from inspector.analysis.collectives.participation import Groups, Participation
from inspector.errors import Unavailable
from inspector.hlo.devices.group_mode import GroupMode
from inspector.hlo.devices.replica_groups import ReplicaGroups
from inspector.hlo.shape import Shape
from inspector.hlo.source import Origin
from inspector.support.units import format_bytes


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Collective:
    """One collective operation.

    Attributes:
      name: the instruction; of a pair, the `-start`.
      opcode: one of `operations.OPCODES`.
      computation: the computation that the instruction stands in.
      context: how execution gets there: ("entry", "while-body", "branch 1"); begins with "not called"
        where it never does.
      done: the instruction that ends it, such as a `-done`; "" when the operation is not asynchronous.
      who: who takes part.
      axes: names of the mesh axes that the groups mean, slowest-varying first.
      operand_shapes: one an operand.
      result_shapes: one an array of the result.
      dimensions: gathered, scattered or split dimension; () where the opcode has none.
      reduction: opcode that combines two values (`add`, `maximum`), "" where the opcode combines none.
      channel_id: None when it has none.
      origin: name stack and Python source, its own or those of the instruction that `source_from` names.
      inserted_by: "user", "autodiff", "partitioner" or "compiler": see `analysis/collectives/inserted_by.py`.
      executions: how often it runs in one execution of the module, from the trip counts of the loops around it.
      phases: the parts of a differentiated program that it belongs to (`hlo/source.py`); () where nothing tells.
      source_from: the instruction that `origin` is from: "itself", "fusion.3, which holds it", "its user
        dot.4", "its operand dot.4". Unavailable when the compiler lost it.
      source_name: the name of that instruction; "" when lost.
      blocks: of a reduce-scatter that a compiler wrote as an all-reduce: the number of the block that each partition keeps;
        () for any other, whose members' positions in the group say so.
    """

    name: str
    opcode: str
    computation: str
    context: tuple[str, ...]
    done: str
    who: Participation
    axes: Axes | Unavailable
    operand_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    dimensions: tuple[int, ...]
    reduction: str
    channel_id: int | None
    origin: Origin
    inserted_by: str | Unavailable
    executions: int | Unavailable
    phases: tuple[str, ...]
    source_from: str | Unavailable
    source_name: str = ""
    blocks: tuple[int, ...] | Unavailable = ()

    def __repr__(self) -> str:
        said_by = "" if isinstance(self.inserted_by, Unavailable) else f", {self.inserted_by}"
        sizes = f"{format_bytes(self.operand_bytes)} in, {format_bytes(self.result_bytes)} out"
        often = "" if self.executions == 1 else ", run an unknown number of times"
        if not isinstance(self.executions, Unavailable) and self.executions != 1:
            often = f", {self.executions} times"
        return f"<{self.opcode} {self.name}{over(self.axes)}: {sizes}{often}{said_by}>"

    @property
    def groups(self) -> Groups:
        """The ids as written, `{}` (all) written out; (source, target) pairs for collective-permute.

        Of a million ids they take a tenth of a second and a hundred megabytes, once they are asked for.
        """
        return self.who.groups

    @property
    def form(self) -> ReplicaGroups | None:
        """The groups in the form that the module has; None for collective-permute."""
        return None if self.who.is_pairs else self.who.written

    @property
    def mode(self) -> GroupMode:
        """What the ids are."""
        return self.who.mode

    @property
    def participants(self) -> Groups | Unavailable:
        """The same groups or pairs as devices, `replica * num_partitions + partition`.

        For every replica and partition that has them. Unavailable when they name ids that the program does not have.
        """
        return self.who.participants

    @property
    def operand_bytes(self) -> int:
        """Bytes that one device puts in, each time that it runs."""
        return bytes_put_in(self.opcode, self.operand_shapes)

    @property
    def result_bytes(self) -> int:
        """Bytes that one device gets out, each time that it runs."""
        return sum(shape.byte_size for shape in self.result_shapes)


def axes_text(axes: Axes | Unavailable) -> str:
    """Axes as text: "data, model"; "no axis" where every device is alone, and why where none fit."""
    return axes.reason if isinstance(axes, Unavailable) else ", ".join(axes) or "no axis"


def over(axes: Axes | Unavailable) -> str:
    """The same behind an opcode: " over data, model"; "" where they are unknown."""
    return "" if isinstance(axes, Unavailable) else f" over {', '.join(axes) or 'no axis'}"
