"""`Observed`: what every device put into the collectives of a program and got out of them, when it ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt

from inspector.errors import ParameterError, Unavailable
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
    """One collective of the user's function, as it ran. Arrays have an axis of devices first, then one of executions.

    Attributes:
      name: of its instruction in `Lowered.collectives()`; Unavailable for what needs none there, such as an index.
      primitive: JAX's, such as `psum`.
      axes: that it names, in the user's order.
      groups: its `axis_index_groups`; () where it has none.
      source_file, source_line: the innermost Python line.
      coordinates: of each device, its place along each axis of the mesh that the collective can see, by name.
      logical_ids: of these devices; Unavailable where one value stands for several devices.
      devices: their own ids, as the function's mesh has them; Unavailable likewise.
      executions: how often it ran on each device.
      before: its operands, [devices, executions, *shape]; none for the index of an axis.
      after: its result, likewise; Unavailable where the values were not kept.
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
    def kept(self) -> int:
        """The first executions, whose values are here; where a device has fewer, the rest is zeros."""
        return 0 if isinstance(self.after, Unavailable) else int(self.after.shape[1])

    def __repr__(self) -> str:
        where = "" if isinstance(self.source_line, Unavailable) else f" in line {self.source_line}"
        most = max(self.executions, default=0)
        if isinstance(self.after, Unavailable):
            said = f"not kept: {self.after.reason}"
        elif not most:
            said = "never ran"
        else:
            kept = "" if self.kept == most else f", the first {self.kept} kept"
            said = f"{len(self.coordinates)} devices, ran {most} time{'s' if most > 1 else ''}{kept}"
        return f"<{self.primitive} over {', '.join(self.axes)}{where}: {said}>"


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Observed(Tabular):
    """The collectives of a function, as they ran, in the order of its jaxpr.

    Attributes:
      items: one for each place that the function calls one from.
      device_kind: what it ran on, as JAX names it.
    """

    items: tuple[Observation, ...]
    device_kind: str

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.items)

    def __getitem__(self, key: str | int) -> Observation:
        """One by its position, or by the name of its instruction before optimization.

        Raises:
          ParameterError: there is none; with those that there are.
        """
        if isinstance(key, str):
            found = [one for one in self.items if one.name == key.removeprefix("%")]
        else:
            found = list(self.items[key : key + 1 or None])
        if not found:
            names = [str(one.name) for one in self.items if not isinstance(one.name, Unavailable)]
            raise ParameterError(f"No collective {key!r} was observed: there are {len(self)}, {format_list(names)}.")
        return found[0]

    def __repr__(self) -> str:
        return f"<Observed on {self.device_kind}: {format_list([repr(one)[1:-1] for one in self.items], most=4)}>"

    def table(self) -> pd.DataFrame:
        """One row a collective, execution and device.

        `before` and `after` are its arrays there: of several operands a tuple, of an index (). What was not kept has one
        row, and the column `unknown` says why.
        """
        return make_table(_KINDS, [row for one in self.items for row in _rows(one)])


def _rows(one: Observation) -> Iterator[Sequence[object]]:
    said = (one.name, one.primitive, one.axes, one.source_file, one.source_line)
    if isinstance(one.after, Unavailable):
        yield (*said, None, None, None, one.after, one.after)
        return
    for execution in range(one.kept):
        for position, coordinates in enumerate(one.coordinates):
            if execution >= one.executions[position]:
                continue
            before = tuple(operand[position, execution] for operand in one.before)
            device = one.devices if isinstance(one.devices, Unavailable) else one.devices[position]
            shown = before[0] if len(before) == 1 else before
            yield (*said, execution, device, coordinates, shown, one.after[position, execution])
