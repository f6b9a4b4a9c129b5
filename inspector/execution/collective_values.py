"""`Observed`: the operands and results of a program's collectives on every device, recorded while it ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt

from inspector.errors import ParameterError, Unavailable
from inspector.support.notebook import short
from inspector.support.tables import Kind, Tabular, make_table
from inspector.support.units import format_list

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = npt.NDArray[Any]

_KINDS: Mapping[str, Kind] = {
    "name": "text",
    "primitive": "text",
    "axes": "object",
    "source_file": "text",
    "source_line": "int",
    "execution": "int",
    "device": "int",
    "coordinates": "object",
    "before": "object",
    "after": "object",
    "unknown": "reasons",
}

COLUMNS = tuple(_KINDS)
"""Columns of `Observed.table()`."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observation:
    """The recorded values of one collective. The first axis of arrays is the device, the second the execution.

    Attributes:
      name: name of its instruction in `Lowered.collectives()`; Unavailable for primitives without one, such as an axis index.
      primitive: JAX's primitive, such as `psum`.
      axes: the axes that it names, in the user's order.
      groups: its `axis_index_groups`; () if it has none.
      source_file, source_line: the innermost Python line.
      coordinates: for each device, its position along each mesh axis visible to the collective, by name.
      logical_ids: logical ids of these devices; Unavailable if one value stands for several devices.
      devices: device ids in the function's mesh; Unavailable if one value stands for several devices.
      executions: number of executions on each device.
      before: its operands, [devices, executions, *shape]; none for an axis index.
      after: its result, likewise; Unavailable if the values were not recorded.
    """

    name: str | Unavailable
    primitive: str
    axes: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    source_file: str | Unavailable
    source_line: int | Unavailable
    coordinates: tuple[Mapping[str, int], ...]
    logical_ids: tuple[int, ...] | Unavailable
    devices: tuple[int, ...] | Unavailable
    executions: tuple[int, ...]
    before: tuple[Array, ...]
    after: Array | Unavailable

    @property
    def recorded_executions(self) -> int:
        """Number of recorded executions, the first ones. If a device ran fewer, the rest is zeros."""
        return 0 if isinstance(self.after, Unavailable) else int(self.after.shape[1])

    def __repr__(self) -> str:
        where = "" if isinstance(self.source_line, Unavailable) else f" in line {self.source_line}"
        most = max(self.executions, default=0)
        if isinstance(self.after, Unavailable):
            text = f"not recorded: {self.after.reason}"
        elif not most:
            text = "never ran"
        else:
            note = "" if self.recorded_executions == most else f", first {self.recorded_executions} recorded"
            text = f"{len(self.coordinates)} devices, ran {most} time{'s' if most > 1 else ''}{note}"
        return f"<{self.primitive} over {', '.join(self.axes)}{where}: {text}>"


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observed(Tabular):
    """The recorded collectives of a function, in the order of its jaxpr.

    Attributes:
      items: one observation per collective call in the function.
      device_kind: JAX's name of the device that it ran on.
    """

    items: tuple[Observation, ...]
    device_kind: str

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.items)

    def __getitem__(self, key: str | int) -> Observation:
        """Returns an observation by position, or by the name of its instruction before optimization.

        Raises:
          ParameterError: there is none. The message lists all.
        """
        if isinstance(key, str):
            matches = [one for one in self.items if one.name == key.removeprefix("%")]
        else:
            matches = list(self.items[key : key + 1 or None])
        if not matches:
            names = [str(one.name) for one in self.items if not isinstance(one.name, Unavailable)]
            raise ParameterError(
                f"No collective {short(key)} was observed. Observed collectives ({len(self)}): {format_list(names)}."
            )
        return matches[0]

    def __repr__(self) -> str:
        return f"<Observed on {self.device_kind}: {format_list([repr(one)[1:-1] for one in self.items], most=4)}>"

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per collective, execution and device.

        `before` and `after` are the arrays on that device; `before` is a tuple for several operands and () for an axis index.
        A collective whose values were not recorded has one row, with the reason in the column `unknown`.
        """
        return make_table(_KINDS, [row for one in self.items for row in _rows(one)])


def _rows(one: Observation) -> Iterator[Sequence[object]]:
    facts = (one.name, one.primitive, one.axes, one.source_file, one.source_line)
    if isinstance(one.after, Unavailable):
        yield (*facts, None, None, None, one.after, one.after)
        return
    for execution in range(one.recorded_executions):
        for position, coordinates in enumerate(one.coordinates):
            if execution >= one.executions[position]:
                continue
            before = tuple(operand[position, execution] for operand in one.before)
            device = one.devices if isinstance(one.devices, Unavailable) else one.devices[position]
            shown = before[0] if len(before) == 1 else before
            yield (*facts, execution, device, coordinates, shown, one.after[position, execution])
