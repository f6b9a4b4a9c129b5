"""The collectives of a module: devices, mesh axes, bytes and origin of each.

The table has one row per operation. A `-start`/`-done` pair counts as one operation, wherever the operation itself is
written (`analysis/collectives/operations.py`). If the compiler recorded no source line,
`analysis/collectives/origins.py` looks for one. This module only reads HLO modules. `analysis/collectives/members.py`
describes each member's data before and after; `analysis/collectives/mesh_plot.py` draws the groups.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from inspector.analysis.collectives.axes import Axes, with_size_one
from inspector.analysis.collectives.collective import Collective, over
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS, CollectiveRow
from inspector.analysis.collectives.inserted_by import inserted_by, primitive
from inspector.analysis.collectives.members import members
from inspector.analysis.collectives.operations import Operation, operations
from inspector.analysis.collectives.origins import Sources
from inspector.analysis.collectives.participation import Participation, Participations, listed
from inspector.analysis.collectives.sliced_results import kept_blocks
from inspector.analysis.collectives.totals import TOTAL_COLUMNS, totals_of
from inspector.analysis.cost.phases import Phases
from inspector.compilation.program import NamedAxes
from inspector.compilation.target import Target
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.backend_config import collective_algorithm
from inspector.hlo.devices.group_mode import GroupMode
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.execution_counts import executions
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.source import Frame, Origin, merged_names
from inspector.support.notebook import short, with_hint
from inspector.support.tables import Tabular
from inspector.support.units import format_list

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from inspector.analysis.collectives.exchanges.exchange import Exchange
    from inspector.analysis.collectives.exchanges.link_loads import LinkLoads, Network
    from inspector.analysis.collectives.exchanges.links import Links
    from inspector.analysis.collectives.pricing.price import Price


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Collectives(Tabular):
    """The collectives of one module, in the order of its proto.

    Attributes:
      items: the collectives.
      mesh: the mesh or axis environment whose axes the groups were matched with.
      num_replicas: number of replicas of the program.
      num_partitions: number of partitions of the program.
      devices: JAX's device ids by logical id; () if unknown.
    """

    items: tuple[Collective, ...]
    mesh: Mesh | None
    num_replicas: int
    num_partitions: int
    devices: tuple[int, ...] = ()

    def __repr__(self) -> str:
        kinds = collections.Counter(f"{one.opcode}{over(one.axes)}" for one in self.items)
        text = format_list([f"{count} {kind}" for kind, count in kinds.items()]) or "none"
        text = f"<Collectives{f' on the {self.mesh}' if self.mesh else ''}: {text}>"
        return with_hint(text, ".table(), .plot(0), .members(0)") if self.items else text

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Collective]:
        return iter(self.items)

    @overload
    def __getitem__(self, key: str | int) -> Collective: ...
    @overload
    def __getitem__(self, key: slice) -> Collectives: ...
    def __getitem__(self, key: str | int | slice) -> Collective | Collectives:
        """Returns one collective by position or by name, or several by slice.

        Its names are those of its instruction, start and done, and of its kernel in the roofline if no other collective
        has that kernel.

        Raises:
          KeyError, IndexError: there is no such collective. The message lists all of them.
        """
        if isinstance(key, slice):
            return dataclasses.replace(self, items=self.items[key])
        names = [collective.name for collective in self.items]
        if isinstance(key, str):
            name = key.removeprefix("%")
            for collective in self.items:
                if name in (collective.name, collective.done):
                    return collective
            inside = [collective for collective in self.items if collective.kernel == name]
            if len(inside) == 1:
                return inside[0]
            if inside:
                several = [collective.name for collective in inside]
                raise KeyError(f"The kernel {short(key)} has {len(inside)} collectives. Choose one of {several}.")
            raise KeyError(f"No collective {short(key)}. The collectives are {names}.")
        try:
            return self.items[key]
        except IndexError:
            raise IndexError(f"No collective {key}. The {len(names)} collectives are {names}.") from None

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per collective. Unknown values are missing; the column `unknown` has the reasons.

        Bytes are per device and execution. `executions` is the number of runs in one execution of the program.
        `source_file` and `source_line` are the innermost line of the user's own code; `library_line` is the library line
        that it led to. `replica_groups` lists up to 262,144 ids per collective, and up to a million in all distinct
        groups; larger ones are missing.
        """
        groups = listed(collective.who for collective in self.items)
        return COLLECTIVE_COLUMNS.data_frame(map(CollectiveRow, self.items, groups))

    def totals(self) -> pd.DataFrame:
        """Returns the totals of one execution of the program by axes and opcode, most bytes first.

        Columns:
          axes: such as "data, model", or the reason why no axes fit.
          opcode: of the collectives.
          collectives: number of instructions.
          executions: number of runs of all of them together.
          operand_bytes, result_bytes: per device, for all executions.
          unknown: the numbers that are only lower bounds, and why.
        """
        return TOTAL_COLUMNS.data_frame(totals_of(self.items))

    def members(self, key: str | int) -> pd.DataFrame:
        """Returns a table with one row per group member of a collective: see `analysis/collectives/members.py`.

        Args:
          key: name or position of the collective.
        """
        return members(self[key], self.mesh, self.num_replicas, self.num_partitions, self.devices)

    def exchange(
        self, key: str | int, algorithm: str = "ring", *, group: int = 0, links: Links | None = None
    ) -> Exchange:
        """Returns the steps of a textbook algorithm for one group of a collective.

        Runtimes do not document which algorithm they use. Every algorithm ends with the result that the collective is
        defined to have.

        Args:
          key: name or position of the collective.
          algorithm: "ring", "bidirectional ring", "halving and doubling", "tree", "double binary tree" or "direct".
          group: index of the group; ignored for a collective-permute, in which all ids take part.
          links: links between the members; a ring of unknown speed by default.

        Raises:
          ParameterError: no such algorithm or group.
          ModuleError: the members are unknown, or no textbook has this algorithm for the collective.
        """
        from inspector.analysis.collectives.exchanges.exchange import exchange
        from inspector.analysis.collectives.exchanges.links import Links

        return exchange(self[key], algorithm, group, links or Links())

    def link_loads(
        self, key: str | int, network: Network, algorithm: str = "ring", *, devices: Sequence[int] | None = None
    ) -> LinkLoads:
        """Returns the load of each link of a slice or a host while all groups of a collective run at once.

        Args:
          key: name or position of the collective.
          network: such as `Torus.published("tpu:v5e:4x4")` or `Switch.published("gpu:h100:8")`.
          algorithm: as for `exchange`.
          devices: physical id for each logical id; by default the program's own devices, if the network has them.

        Raises:
          ParameterError: no such algorithm, or the network lacks some of the ids.
          ModuleError: the members are unknown, or no textbook has this algorithm for the collective.
        """
        from inspector.analysis.collectives.exchanges.link_loads import link_loads

        return link_loads(self[key], algorithm, network, self.devices_on(network) if devices is None else devices)

    def price(self, key: str | int, target: str | Target) -> Price:
        """Returns the estimated time of a collective on the links of a target, as the roofline and the schedule count it.

        The algorithm is the one that libtpu recorded in the program, if it was compiled for a TPU; otherwise a textbook's.

        Args:
          key: name or position of the collective.
          target: such as "tpu:v5e:4x4" or "gpu:h100:8".

        Raises:
          TargetError: there is no such target.
        """
        from inspector.analysis.collectives.pricing.price import Pricing
        from inspector.analysis.collectives.pricing.target_links import links_of
        from inspector.analysis.cost.peaks import peak_of

        on = Target(target)
        links = links_of(peak_of(on), on, max(self.num_replicas * self.num_partitions, on.device_count or 1))
        return Pricing(self.devices, links).price(self[key])

    def devices_on(self, network: Network) -> tuple[int, ...] | None:
        """Returns the program's device ids by logical id; None if the network lacks some of them or they are unknown."""
        return self.devices if self.devices and max(self.devices) < network.device_count else None

    def plot(self, key: str | int) -> Figure:
        """Draws the groups of a collective on the mesh: see `analysis/collectives/mesh_plot.py`.

        Args:
          key: name or position of the collective.

        Raises:
          ModuleError: the program has no mesh, the mesh does not contain the groups, or it has too many devices.
        """
        from inspector.analysis.collectives.mesh_plot import plot_groups

        collective = self[key]
        if self.mesh is None:
            raise ModuleError(f"Cannot draw the groups of {collective.name}: the program has no mesh.")
        if isinstance(collective.participants, Unavailable):
            raise ModuleError(f"Cannot draw the groups of {collective.name}: {collective.participants.reason}")
        by_replica = self.mesh.kind == "replica"
        groups = dict.fromkeys(  # each group occurs once for every id of the other kind
            tuple(d // self.num_partitions if by_replica else d % self.num_partitions for d in group)
            for group in collective.participants
        )
        pairs = collective.opcode == "collective-permute"
        return plot_groups(self.mesh, list(groups), pairs=pairs, title=f"{collective.opcode}{over(collective.axes)}")


def collectives(
    module: Module,
    mesh: Mesh | None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    *,
    named_axes: Sequence[NamedAxes] = (),
    devices: Sequence[int] | None = None,
) -> Collectives:
    """Returns the collectives of a module.

    Args:
      module: HLO before or after optimization.
      mesh: the program's mesh or axis environment, whose axes the groups are matched with; None if there is none.
      num_replicas: number of replicas of the program, which the module does not record.
      num_partitions: number of partitions of the program, which the module does not record.
      named_axes: axis names in the user's collectives, needed for axes of size 1.
      devices: device ids by logical id; None or () if unknown.

    Raises:
      ModuleError: the module is damaged.
    """
    program = _Program(module, mesh, num_replicas, num_partitions, named_axes)
    return Collectives(tuple(program.collectives()), mesh, num_replicas, num_partitions, tuple(devices or ()))


class _Program:
    """A module, with facts about its program that it does not record."""

    def __init__(
        self,
        module: Module,
        mesh: Mesh | None,
        num_replicas: int,
        num_partitions: int,
        named_axes: Sequence[NamedAxes],
    ) -> None:
        self.module = module
        self._mesh = mesh
        self._named: dict[tuple[str, str, int], list[Axes]] = {}
        for named in named_axes:
            self._named.setdefault((named.primitive, named.file, named.line), []).append(named.axes)
        self.num_partitions = num_partitions
        self._participations = Participations(mesh, num_replicas, num_partitions)
        self._contexts: dict[str, tuple[str, ...]] = {}
        self._executions = executions(module)
        self._phases = Phases(module)
        self._sources = Sources(module)

    def collectives(self) -> Iterator[Collective]:
        for found in operations(self.module):
            yield self._collective(found)

    def _collective(self, found: Operation) -> Collective:
        operation, computation = found.operation, found.instruction.computation
        who, source = self._participations.of(operation), self._sources.of(found)
        own_name = next(filter(None, (i.op_name for i in (found.instruction, operation, found.holder))), "")
        joins_partitions = self.num_partitions > 1 and who.mode is not GroupMode.CROSS_REPLICA
        return Collective(
            name=found.instruction.name,
            opcode=found.opcode,
            computation=computation.name,
            context=self._context(computation),
            done=found.done.name if found.done is not None else "",
            who=who,
            axes=self._axes(who, Origin(own_name, source.frames)),
            operand_shapes=found.operand_shapes,
            result_shapes=found.result_shapes,
            dimensions=found.dimensions,
            reduction=operation.to_apply.root.opcode if operation.to_apply else "",
            channel_id=operation.channel_id,
            origin=Origin(own_name or source.op_name, source.frames),
            inserted_by=inserted_by(found, own_name, joins_partitions, self._phases, source.op_name),
            executions=self._executions.get(computation.name, Unavailable(f"nothing calls {computation.name}")),
            phases=self._phases.of(found.instruction, source.op_name or own_name),
            source_from=source.via,
            source_name=source.instruction,
            blocks=kept_blocks(found.parts, self.num_partitions) if found.parts else (),
            chosen=collective_algorithm(operation),
            kernel=found.kernel,
        )

    def _axes(self, who: Participation, origin: Origin) -> Axes | Unavailable:
        if isinstance(who.axes, Unavailable) or self._mesh is None:
            return who.axes
        frame = origin.innermost or Frame("", 0)  # as the jaxpr names it
        primitives = dict.fromkeys(primitive(name) for name in merged_names(origin.op_name))
        named = [axes for p in primitives for axes in self._named.get((p, frame.file, frame.line), ())]
        return with_size_one(who.axes, self._mesh, who.shape[1], named)

    def _context(self, computation: Computation) -> tuple[str, ...]:
        """Returns the roles of the callers from the entry down. Of several callers, the first counts."""
        if computation.name not in self._contexts:
            callers = self.module.callers.get(computation.name, ())
            if not callers:
                self._contexts[computation.name] = ("entry" if computation.is_entry else "not called",)
            else:
                role = _role(callers[0], computation)
                self._contexts[computation.name] = (*self._context(callers[0].computation), role)
        return self._contexts[computation.name]


def _role(caller: Instruction, computation: Computation) -> str:
    called = [c.name for c in caller.called_computations]
    index = called.index(computation.name)
    if caller.opcode == "while":
        return ("while-body", "while-condition")[index]
    if caller.opcode == "conditional":
        return f"branch {index}"
    return caller.opcode
