"""`Donations`: which arguments share a buffer with an output, and why the others do not.

A donated argument lets XLA write an output into its buffer. JAX and XLA do so only for an output with the same type, the same
part on each device and the same kind of memory: https://docs.jax.dev/en/latest/buffer_donation.html.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector.analysis.sharding.program_shardings import shardings
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.memory import HOST, space_name
from inspector.compilation.program import Argument, Result
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.shape import Shape
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import with_hint
from inspector.support.tables import Tabular
from inspector.support.units import counted, format_bytes, format_list

if TYPE_CHECKING:
    import pandas as pd

_NAMED = 3  # outputs that a reason lists


@dataclasses.dataclass(frozen=True, slots=True)
class Donation:
    """One argument.

    Attributes:
      argument: the argument.
      byte_size: bytes of one device's part; 0 if the program does not use it.
      memory: the memory space that it is in, such as "HBM"; with JAX's memory kind for host memory that the compiler does not
        separate, "RAM (pinned_host)" on the CPU; "" if the program does not use it.
      output: path of the output that reuses its buffer; None if no output does.
      reason: the reason why no output reuses a donated argument; "" for the others.
      candidate: path of an output that could reuse its buffer if it were donated; None if there is none.
    """

    argument: Argument
    byte_size: int
    memory: str
    output: str | None
    reason: str
    candidate: str | None

    @property
    def is_unused(self) -> bool:
        """True for a donated argument that no output reuses."""
        return self.argument.donated and self.output is None

    @property
    def status(self) -> str:
        """The use of the buffer, in a few words."""
        if self.output is not None:
            return f"reused by {self.output}"
        return "donated, not reused" if self.argument.donated else "not donated"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Donations(Tabular):
    """The arguments of a program, donated ones that no output reuses first, then by size."""

    items: tuple[Donation, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Donation]:
        return iter(self.items)

    @property
    def unused(self) -> tuple[Donation, ...]:
        """The donated arguments that no output reuses."""
        return tuple(each for each in self.items if each.is_unused)

    @property
    def candidates(self) -> tuple[Donation, ...]:
        """The arguments that are not donated although an output could reuse them."""
        return tuple(each for each in self.items if each.candidate is not None)

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per argument.

        Columns:
          argument: path of the argument.
          array: its type and shape.
          argument_bytes: bytes of one device's part.
          memory: the memory space that it is in.
          donated: True if the caller donates it.
          output: path of the output that reuses its buffer.
          reason: the reason why no output reuses a donated argument.
          candidate: path of an output that could reuse it if it were donated.
        """
        return DONATION_COLUMNS.data_frame(self.items)

    def __repr__(self) -> str:
        donated = sum(each.argument.donated for each in self.items)
        unused, candidates = self.unused, self.candidates
        text = f"{donated} of {counted(len(self.items), 'argument')} donated"
        if unused:
            size = format_bytes(sum(each.byte_size for each in unused))
            text += (
                f", {len(unused)} of them not reused ({size}): {format_list([str(u.argument) for u in unused], _NAMED)}"
            )
        if candidates:
            text += f"; {format_bytes(sum(each.byte_size for each in candidates))} more could be"
        return with_hint(f"<Donations: {text}>", ".table(), .unused, .candidates")


DONATION_COLUMNS: TableDescription[Donation] = TableDescription(
    TableColumn("argument", "text", lambda d: d.argument.path or "_", "argument", "Path of the argument", views=("data_frame", "pane")),
    TableColumn("donated", "bool", lambda d: d.argument.donated),
    TableColumn("output", "text", lambda d: d.output),
    TableColumn("status", "text", lambda d: d.status, "buffer", "Use of the argument's buffer", views=("pane",)),
    TableColumn("reason", "text", lambda d: d.reason or None),
    TableColumn("candidate", "text", lambda d: d.candidate),
    TableColumn(
        "remark", "text", lambda d: d.reason or (f"{d.candidate} could reuse it if it were donated" if d.candidate else None),
        "why", "Reason why no output reuses it", views=("pane",),
    ),
    TableColumn(
        "argument_bytes", "int", lambda d: d.byte_size, "per device", "Bytes of the part on one device", "bytes",
        ("data_frame", "pane"),
    ),
    TableColumn("array", "text", lambda d: str(d.argument).rpartition(": ")[2], "array", "Type and shape of the whole array", views=("data_frame", "pane")),
    TableColumn("memory", "text", lambda d: d.memory or None, "memory", "Memory space of the argument", views=("data_frame", "pane")),
    first=("argument", "array", "argument_bytes", "memory"),
)  # fmt: skip


def donations(compiled: CompiledProgram) -> Donations:
    """Returns the donations of a compiled program.

    Raises:
      ModuleError: its optimized HLO cannot be read.
    """
    ends = _Ends(compiled)
    rows = [ends.donation(argument) for argument in compiled.program.arguments]
    return Donations(tuple(sorted(rows, key=lambda row: (not row.is_unused, -row.byte_size))))


def reused_parameters(module: Module) -> dict[int, int]:
    """Returns the number of the output that reuses each parameter's buffer, by the parameter's number."""
    is_tupled = len(module.entry.parameters) == 1 and module.entry.parameters[0].shape.is_tuple
    return {
        int(e.parameter_shape_index[0] if is_tupled and e.parameter_shape_index else e.parameter_number): int(
            e.output_shape_index[0] if e.output_shape_index else 0
        )
        for e in module.proto.input_output_alias.entries
    }


class _Ends:
    """The arguments and results of a program, with the shapes of one device's parts."""

    def __init__(self, compiled: CompiledProgram) -> None:
        module = compiled.module()
        self._platform = compiled.program.platform
        self._arguments, self._results = compiled.program.arguments, compiled.program.results
        parameters = [parameter.shape for parameter in module.entry.parameters]
        is_tupled = len(parameters) == 1 and parameters[0].is_tuple
        self._parameters: Sequence[Shape] = parameters[0].tuple_shapes if is_tupled else parameters
        root = module.entry.root.shape
        self._outputs: Sequence[Shape] = root.tuple_shapes if root.is_tuple else [root]
        self._alike: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for number, output in enumerate(self._outputs):
            self._alike.setdefault((output.element_type, output.dimensions), []).append(number)
        self._reused = reused_parameters(module)
        self._taken = {output: parameter for parameter, output in self._reused.items()}
        self._split: Mapping[tuple[str, int | None], str] = {
            (each.kind, each.number): "unknown" if isinstance(each.sharding, Unavailable) else each.sharding.split_text
            for each in shardings(compiled)
        }

    def donation(self, argument: Argument) -> Donation:
        shape = self._shape(argument)
        if shape is None:
            reason = "the program does not use it" if argument.donated else ""
            return Donation(argument, 0, "", None, reason, None)
        assert argument.parameter is not None, "it has a shape"
        output = self._reused.get(argument.parameter)
        common = argument, shape.byte_size, self._memory(shape, argument.memory_kind)
        if output is not None:
            return Donation(*common, self._name(output), "", None)
        if argument.donated:
            return Donation(*common, None, self._reason(argument, shape), None)
        free = [n for n in self._equal(shape) if n not in self._taken]
        candidate = next((n for n in free if self._output_memory(n) == common[2]), None)
        return Donation(*common, None, "", None if candidate is None else self._name(candidate))

    def _shape(self, argument: Argument) -> Shape | None:
        number = argument.parameter
        return self._parameters[number] if number is not None and number < len(self._parameters) else None

    def _equal(self, shape: Shape) -> list[int]:
        """Returns the numbers of outputs whose part on a device has the same type and shape."""
        return self._alike.get((shape.element_type, shape.dimensions), [])

    def _reason(self, argument: Argument, shape: Shape) -> str:
        """Returns the first condition of a reuse that no output meets."""
        if not (equal := self._equal(shape)):
            return self._nearest(argument, shape)
        memory = self._memory(shape, argument.memory_kind)
        if not (near := [n for n in equal if self._output_memory(n) == memory]):
            others = " or ".join(dict.fromkeys(map(self._output_memory, equal)))
            return f"{self._names(equal)} of its shape {_is(equal)} in {others}, the argument in {memory}"
        if all(n in self._taken for n in near):
            return f"{self._names(near)} of its shape already {'reuses another argument' if len(near) == 1 else 'reuse other arguments'}"
        free = [n for n in near if n not in self._taken]
        own = self._split.get(("argument", argument.parameter))
        if own is not None and all(self._split.get(("result", n)) != own for n in free):
            return f"{self._names(free)} of its shape {_is(free)} {_divided(self._split.get(('result', free[0])))}, the argument is {_divided(own)}"
        layouts = {self._outputs[n].layout for n in free}
        if shape.layout is not None and shape.layout not in layouts:
            return f"{self._names(free)} of its shape {_is(free)} stored in another order of dimensions"
        return f"XLA did not assign its buffer to {self._names(free)}, which has its shape"

    def _nearest(self, argument: Argument, shape: Shape) -> str:
        """Returns the reason if no output has the same part: by sharding, by type, by shape."""
        whole = [n for n, result in self._whole() if (result.shape, result.dtype) == (argument.shape, argument.dtype)]
        if whole:
            split = self._split.get(("result", whole[0]))
            return f"{self._names(whole)} {_is(whole)} {_divided(split)}, the argument is {_divided(self._split.get(('argument', argument.parameter)))}"
        if alike := [n for n, result in self._whole() if result.shape == argument.shape]:
            return f"{self._names(alike)} of its shape {_is(alike)} {self._outputs[alike[0]].element_type}, the argument is {shape.element_type}"
        size = math.prod(argument.shape)
        if alike := [
            n for n, result in self._whole() if math.prod(result.shape) == size and result.dtype == argument.dtype
        ]:
            return f"no output has its shape; {self._names(alike)} of its size {'has' if len(alike) == 1 else 'have'} another one"
        return "no output has its shape and type"

    def _whole(self) -> Iterator[tuple[int, Result]]:
        """Yields the results with their numbers; none if they do not correspond to the outputs."""
        if len(self._results) == len(self._outputs):
            yield from enumerate(self._results)

    def _name(self, number: int) -> str:
        results: Any = self._results
        return f"result{results[number].path}" if len(results) == len(self._outputs) else f"output {number}"

    def _names(self, numbers: Sequence[int]) -> str:
        return format_list([self._name(n) for n in numbers], _NAMED)

    def _output_memory(self, number: int) -> str:
        kind = self._results[number].memory_kind if len(self._results) == len(self._outputs) else ""
        return self._memory(self._outputs[number], kind)

    def _memory(self, shape: Shape, kind: str) -> str:
        """Returns the name of a memory. A CPU program has one space, in which only JAX separates host memory."""
        number = shape.layout.memory_space if shape.layout else 0
        name = space_name(self._platform, number)
        return f"{name} ({kind})" if kind.endswith(f"_{HOST}") and number == 0 else name


def _is(numbers: Sequence[int]) -> str:
    return "is" if len(numbers) == 1 else "are"


def _divided(split: str | None) -> str:
    if split is None or split == "unknown":
        return "split in an unknown way"
    if not split.strip("(-, )"):
        return "whole on every device"
    return f"split as {split}"
