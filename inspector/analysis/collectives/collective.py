"""`Collective`: one collective operation of a module, and text for its axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.analysis.collectives.axes import Axes
from inspector.analysis.collectives.operations import bytes_put_in
from inspector.analysis.collectives.participation import Groups, Participation
from inspector.errors import Unavailable
from inspector.hlo.backend_config import CollectiveAlgorithm
from inspector.hlo.devices.group_mode import GroupMode
from inspector.hlo.devices.replica_groups import ReplicaGroups
from inspector.hlo.shape import Shape
from inspector.hlo.source import Origin
from inspector.support.units import format_bytes

NOT_RECORDED = Unavailable("the compiler did not record its algorithm")


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Collective:
    """One collective operation.

    Attributes:
      name: name of the instruction; the `-start` of a pair.
      opcode: one of `operations.OPCODES`.
      computation: name of the computation that contains the instruction.
      context: path of execution to that computation, such as ("entry", "while-body", "branch 1"); begins with
        "not called" if nothing calls it.
      done: name of the instruction that ends it, such as a `-done`; "" if the operation is not asynchronous.
      who: the participating devices.
      axes: names of the mesh axes that the groups stand for, slowest-varying first.
      operand_shapes: one shape per operand.
      result_shapes: one shape per array of the result.
      dimensions: gathered, scattered or split dimension; () if the opcode has none.
      reduction: opcode that combines two values (`add`, `maximum`); "" if the opcode combines none.
      channel_id: the channel; None if it has none.
      origin: name stack and Python source, its own or those of the instruction that `source_from` names.
      inserted_by: "user", "autodiff", "partitioner" or "compiler": see `analysis/collectives/inserted_by.py`.
      executions: number of runs in one execution of the module, from the trip counts of the enclosing loops.
      phases: parts of a differentiated program that it belongs to (`hlo/source.py`); () if unknown.
      source_from: the instruction that `origin` comes from: "itself", "fusion.3, which contains it", "its user
        dot.4", "its operand dot.4". Unavailable if the compiler lost it.
      source_name: name of that instruction; "" if lost.
      blocks: for a reduce-scatter that the compiler wrote as an all-reduce, the number of the block that each partition
        keeps; () for all others, where a member keeps the block of its position in the group.
      chosen: the algorithm that the compiler chose; only TPU compilers record it.
      kernel: name of its kernel, a row of `Compiled.roofline()`: the fusion that contains it, or its instruction.
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
    chosen: CollectiveAlgorithm | Unavailable = NOT_RECORDED
    kernel: str = ""

    def __repr__(self) -> str:
        by = "" if isinstance(self.inserted_by, Unavailable) else f", {self.inserted_by}"
        sizes = f"{format_bytes(self.operand_bytes)} in, {format_bytes(self.result_bytes)} out"
        often = "" if self.executions == 1 else ", run an unknown number of times"
        if not isinstance(self.executions, Unavailable) and self.executions != 1:
            often = f", {self.executions} times"
        return f"<{self.opcode} {self.name}{over(self.axes)}: {sizes}{often}{by}>"

    @property
    def groups(self) -> Groups:
        """The ids as the module has them, with `{}` (all) expanded; (source, target) pairs for collective-permute.

        Computed at first use: a million ids take about 0.1 s and 100 MB.
        """
        return self.who.groups

    @property
    def form(self) -> ReplicaGroups | None:
        """The groups in the form in which the module stores them; None for collective-permute."""
        return None if self.who.is_pairs else self.who.written

    @property
    def mode(self) -> GroupMode:
        """The meaning of the ids: replicas, partitions or flattened ids."""
        return self.who.mode

    @property
    def participants(self) -> Groups | Unavailable:
        """The groups or pairs as device numbers, `replica * num_partitions + partition`.

        Includes the groups of every replica and partition. Unavailable if they contain ids that the program does not have.
        """
        return self.who.participants

    @property
    def operand_bytes(self) -> int:
        """Input bytes per device and execution."""
        return bytes_put_in(self.opcode, self.operand_shapes)

    @property
    def result_bytes(self) -> int:
        """Output bytes per device and execution."""
        return sum(shape.byte_size for shape in self.result_shapes)


def axes_text(axes: Axes | Unavailable) -> str:
    """Formats axes as "data, model"; "no axis" if every device is alone, and the reason if no axes fit."""
    return axes.reason if isinstance(axes, Unavailable) else ", ".join(axes) or "no axis"


def with_other_names(name: str, others: Sequence[str]) -> str:
    """Formats a name with other names of the same collective: "fusion.3 (all-reduce.11)"; alone if there are none."""
    different = [other for other in others if other != name]
    return f"{name} ({', '.join(different)})" if different else name


def over(axes: Axes | Unavailable) -> str:
    """Formats axes to follow an opcode: " over data, model"; "" if they are unknown."""
    return "" if isinstance(axes, Unavailable) else f" over {', '.join(axes) or 'no axis'}"
