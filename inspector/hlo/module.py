"""`Module`, `Computation`, `Instruction`: a read-only view of an HLO module.

Made from the bytes of an `xla.HloModuleProto` or `xla.HloProto`, which are read once into columns
(`hlo/reading/columns.py`). The objects here are views of rows, made when they are asked for, because a module has
hundreds of thousands of instructions of which a reader looks at few; what asks about all of them takes the
columns. Knows no compiler and no JAX; read by `analysis/`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import Any

from inspector.errors import ModuleError
from inspector.hlo.call_stacks import Stacks
from inspector.hlo.devices.group_mode import GroupMode, group_mode
from inspector.hlo.devices.replica_groups import ReplicaGroups, check_count, parse_pairs
from inspector.hlo.devices.replica_groups_proto import alike_groups, from_instruction_proto
from inspector.hlo.devices.sharding import sharding_text
from inspector.hlo.reading.columns import Columns
from inspector.hlo.reading.field_numbers import (
    BACKEND_CONFIG,
    CHANNEL_ID,
    COLLECTIVE_DEVICE_LIST,
    FRONTEND_ATTRIBUTES,
    OTHER_DEVICE_LISTS,
    USE_GLOBAL_DEVICE_IDS,
)
from inspector.hlo.reading.instruction_kinds import Alike, alike
from inspector.hlo.shape import Shape
from inspector.hlo.source import NOWHERE, Frame, Origin
from inspector.toolchain.schema import Schema


class Module:
    """An HLO module.

    Attributes:
      name: the module's name.
      columns: all instructions at once.
      computations: in the proto's order, callees before callers.
      proto: the `xla.HloModuleProto` without its computations, for what has no name here.
    """

    def __init__(self, columns: Columns) -> None:
        """Makes the views; users call `from_proto`."""
        self.columns = columns
        self.proto = columns.module
        self.name: str = self.proto.name
        self.computations = tuple(Computation(number, self) for number in range(len(columns.computations)))
        self._computations_by_id = {computation.id: computation for computation in self.computations}
        self._instructions: dict[int, Instruction] = {}
        self._stacks = Stacks(self.proto.stack_frame_index)

    @classmethod
    def from_proto(cls, data: bytes, schema: Schema | None = None) -> Module:
        """A `Module` from serialized bytes; arguments and errors as for `Columns`."""
        return cls(Columns(data, schema))

    @property
    def entry(self) -> Computation:
        """The computation where execution begins."""
        return self._computations_by_id[self.proto.entry_computation_id]

    @functools.cached_property
    def _computations_by_name(self) -> dict[str, Computation]:
        return {computation.name: computation for computation in self.computations}

    @functools.cached_property
    def _rows_by_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.columns.names)}

    def computation(self, name: str) -> Computation:
        """The computation of that name, with or without `%`.

        Raises:
          ModuleError: there is none.
        """
        try:
            return self._computations_by_name[name.removeprefix("%")]
        except KeyError:
            raise ModuleError(f"Module {self.name} has no computation {name!r}.") from None

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name (unique in a module), with or without `%`.

        Raises:
          ModuleError: there is none.
        """
        try:
            return self.at(self._rows_by_name[name.removeprefix("%")])
        except KeyError:
            raise ModuleError(f"Module {self.name} has no instruction {name!r}.") from None

    def at(self, row: int) -> Instruction:
        """The instruction of a row of the columns, always the same object."""
        found = self._instructions.get(row)
        return found if found is not None else self._instructions.setdefault(row, Instruction(row, self))

    def instructions(self) -> Iterator[Instruction]:
        """All instructions of all computations, in the proto's order."""
        return map(self.at, range(len(self.columns)))

    def calls_to(self, targets: tuple[str, ...]) -> list[int]:
        """The rows of custom calls whose target begins with one of those."""
        rows = self.columns.rows_of("custom-call".__eq__)
        return [row for row in rows if self.at(row).custom_call_target.startswith(targets)]

    @functools.cached_property
    def callers(self) -> dict[str, tuple[Instruction, ...]]:
        """Computation name to the instructions that call it, in the proto's order.

        Raises:
          ModuleError: one calls a computation that there is not: the proto is damaged.
        """
        callers: dict[str, list[Instruction]] = {}
        called = self.columns.called
        for number, row in zip(called.rows.tolist(), called.from_rows.tolist(), strict=True):
            callers.setdefault(self.computations[number].name, []).append(self.at(row))
        return {name: tuple(instructions) for name, instructions in callers.items()}

    @functools.cached_property
    def known_origins(self) -> tuple[Origin, ...]:
        """Where instructions come from, by the codes of `Columns.metadata`; equal ones are the same object."""
        known: dict[tuple[str, int, str, int], Origin] = {}
        origins = []
        for metadata in self.columns.messages("xla.OpMetadata", self.columns.metadata.values):
            key = (metadata.op_name, metadata.stack_frame_id, metadata.source_file, metadata.source_line)
            if key not in known:
                known[key] = self.origin_of(metadata) if any(key) else NOWHERE
            origins.append(known[key])
        return tuple(origins)

    def origins(self) -> dict[str, Origin]:
        """Instruction name to where it comes from; instructions of which nothing tells are left out.

        Equal origins are the same object, so a large module costs little memory.
        """
        known, names = self.known_origins, self.columns.names
        codes = self.columns.metadata.codes.tolist()
        return {
            name: known[code]
            for name, code in zip(names, codes, strict=True)
            if code >= 0 and known[code] is not NOWHERE
        }

    def origin_of(self, metadata: Any) -> Origin:
        """An `Origin` from an `xla.OpMetadata` of this module."""
        frames = self._stacks.frames(metadata.stack_frame_id)
        if not frames and metadata.source_file:
            frames = (Frame(metadata.source_file, metadata.source_line),)
        return Origin(metadata.op_name, frames)

    @functools.cached_property
    def alike(self) -> Alike:
        """The kinds of its instructions."""
        return alike(self.columns)

    def kind_attributes(self, without: Collection[int]) -> list[bytes]:
        """`Instruction.attributes` of the first of each kind."""
        found = self.alike.attributes(without)
        if FRONTEND_ATTRIBUTES not in without:  # whose order is anybody's
            noted = self.columns.coded(FRONTEND_ATTRIBUTES)
            for kind, row in enumerate(self.alike.first.tolist()):
                if noted.at(row):
                    found[kind] = self.at(row).attributes(without)
        return found

    @functools.cached_property
    def known_shapes(self) -> tuple[Shape, ...]:
        """The shapes of results, by the codes of `Columns.shapes`."""
        return tuple(map(Shape.from_proto, self.columns.messages("xla.ShapeProto", self.columns.shapes.values)))

    def __repr__(self) -> str:
        return f"Module({self.name!r}, {len(self.computations)} computations)"


class Computation:
    """A computation of a module.

    Attributes:
      number: its place in the module.
      name: unique in the module, without `%`.
      id: the proto's id.
      module: where it belongs.
    """

    __slots__ = ("id", "module", "name", "number")

    def __init__(self, number: int, module: Module) -> None:
        self.number = number
        self.module = module
        self.name: str = module.columns.computation_names[number]
        self.id: int = module.columns.computation_ids[number]

    @property
    def proto(self) -> Any:
        """The `xla.HloComputationProto` without its instructions, for what has no name here."""
        return self.module.columns.computation(self.number)

    @property
    def rows(self) -> range:
        """Of its instructions, in the columns."""
        first, last = self.module.columns.first[self.number : self.number + 2].tolist()
        return range(first, last)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """In the proto's order: operands before users."""
        return tuple(map(self.module.at, self.rows))

    @property
    def calling(self) -> tuple[Instruction, ...]:
        """Its instructions that call others, in the proto's order."""
        return tuple(map(self.module.at, self.module.columns.calling[self.number]))

    @property
    def schedule(self) -> tuple[Instruction, ...]:
        """In the order in which they run, as XLA scheduled them; in the proto's order where it did not."""
        scheduled = self.module.proto.schedule.sequences
        if self.id not in scheduled:
            return self.instructions
        rows = self.module.columns.rows_with(self.number, scheduled[self.id].instruction_ids)
        return tuple(map(self.module.at, rows))

    @property
    def root(self) -> Instruction:
        """The instruction whose value is the computation's."""
        return self.module.at(int(self.module.columns.roots[self.number]))

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """By parameter number."""
        found = [instruction for instruction in self.instructions if instruction.opcode == "parameter"]
        return tuple(sorted(found, key=lambda instruction: instruction.proto.parameter_number))

    @property
    def is_entry(self) -> bool:
        return self.id == int(self.module.proto.entry_computation_id)

    @property
    def execution_thread(self) -> str:
        return str(self.proto.execution_thread)

    def __repr__(self) -> str:
        return f"Computation({self.name!r})"


class Instruction:
    """An instruction of a computation.

    Attributes:
      row: its row in the module's columns.
      module: where it belongs.
    """

    __slots__ = ("module", "row")

    def __init__(self, row: int, module: Module) -> None:
        self.row = row
        self.module = module

    @property
    def name(self) -> str:
        """Unique in the module, without `%`."""
        return self.module.columns.names[self.row]

    @property
    def opcode(self) -> str:
        """HLO's, such as `all-gather-start`."""
        return self.module.columns.opcode_texts[self.row]

    @property
    def computation(self) -> Computation:
        """Where it belongs."""
        return self.module.computations[int(self.module.columns.in_computation[self.row])]

    @property
    def proto(self) -> Any:
        """The `xla.HloInstructionProto`, decoded anew, for what has no name here."""
        return self.module.columns.instruction(self.row)

    def attributes(self, without: Collection[int]) -> bytes:
        """Its proto without some fields, by their numbers, equal for equal ones of any module."""
        proto = self.proto
        for field in proto.DESCRIPTOR.fields:
            if field.number in without:
                proto.ClearField(field.name)
        return bytes(proto.SerializeToString(deterministic=True))

    @property
    def id(self) -> int:
        """The proto's id, unique in the computation."""
        return int(self.module.columns.ids[self.row])

    @property
    def shape(self) -> Shape:
        """Of the result; equal ones of a module are the same object."""
        return self.module.known_shapes[int(self.module.columns.shapes.codes[self.row])]

    @property
    def operands(self) -> tuple[Instruction, ...]:
        """What it takes."""
        return tuple(map(self.module.at, self.module.columns.operands.of(self.row)))

    @property
    def users(self) -> tuple[Instruction, ...]:
        """The instructions that take its result, each once, in the proto's order."""
        return tuple(map(self.module.at, self.module.columns.users.of(self.row)))

    @property
    def called_computations(self) -> tuple[Computation, ...]:
        """Of a while: body, condition. Of a conditional: the branches. Else what it applies or calls."""
        return tuple(map(self.module.computations.__getitem__, self.module.columns.callees.get(self.row, ())))

    @property
    def to_apply(self) -> Computation | None:
        """The computation of a reduction, call or map; None for opcodes that apply none."""
        called = () if self.opcode in _CALLING_OTHERWISE else self.called_computations
        return called[0] if called else None

    @property
    def is_root(self) -> bool:
        return self.row == int(self.module.columns.roots[self.computation.number])

    @property
    def op_name(self) -> str:
        """JAX's name stack, ending in the primitive; "" when unknown."""
        return self.origin.op_name

    @property
    def origin(self) -> Origin:
        """Name stack and Python frames; both empty when unknown."""
        code = self.module.columns.metadata.codes[self.row]
        return self.module.known_origins[code] if code >= 0 else NOWHERE

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Python call stack, innermost first; empty when unknown."""
        return self.origin.frames

    @property
    def channel_id(self) -> int | None:
        """None when it has none (XLA's ids are positive)."""
        channel_id = self.module.columns.integer(CHANNEL_ID, self.row)
        return channel_id if channel_id > 0 else None

    @property
    def use_global_device_ids(self) -> bool:
        return bool(self.module.columns.integer(USE_GLOBAL_DEVICE_IDS, self.row))

    @property
    def replica_groups(self) -> ReplicaGroups:
        """As written; `{}` (all) where it says nothing."""
        columns = self.module.columns
        listed = columns.coded(COLLECTIVE_DEVICE_LIST).at(self.row)
        is_listed = listed and not any(columns.coded(other).at(self.row) for other in OTHER_DEVICE_LISTS)
        alike = alike_groups(listed) if is_listed else None
        return from_instruction_proto(self.proto) if alike is None else alike

    @property
    def group_mode(self) -> GroupMode:
        """What the ids in `replica_groups` and `source_target_pairs` are."""
        return group_mode(self.opcode, self.channel_id, self.use_global_device_ids)

    @property
    def source_target_pairs(self) -> tuple[tuple[int, int], ...]:
        """Of a collective-permute, and of a `send` or `recv` among devices; () for others.

        Raises:
          ModuleError: too many.
        """
        if self.opcode in ("send", "recv"):
            pairs = self.frontend_attributes.get("_xla_send_recv_source_target_pairs")
            return parse_pairs(pairs) if pairs is not None else ()
        check_count(2 * len(self.proto.source_target_pairs))
        return tuple((pair.source, pair.target) for pair in self.proto.source_target_pairs)

    @property
    def dimensions(self) -> tuple[int, ...]:
        return tuple(self.proto.dimensions)

    @property
    def parameter_number(self) -> int | None:
        """None unless it is a parameter."""
        return int(self.proto.parameter_number) if self.opcode == "parameter" else None

    @property
    def sharding(self) -> str:
        """HLO text, "" when it has none."""
        return sharding_text(self.proto.sharding) if self.proto.HasField("sharding") else ""

    @property
    def backend_config(self) -> bytes:
        """What the backend noted, raw: JSON text on most backends; b"" when nothing."""
        return bytes(self.module.columns.coded(BACKEND_CONFIG).at(self.row))

    @property
    def frontend_attributes(self) -> dict[str, str]:
        noted = self.module.columns.coded(FRONTEND_ATTRIBUTES).at(self.row)
        return dict(self.module.columns.message("xla.FrontendAttributes", noted).map) if noted else {}

    @property
    def fusion_kind(self) -> str:
        """`kLoop`, `kInput`, ...; "" unless it is a fusion."""
        return str(self.proto.fusion_kind) if self.opcode == "fusion" else ""

    @property
    def custom_call_target(self) -> str:
        return str(self.proto.custom_call_target) if self.opcode == "custom-call" else ""

    def __repr__(self) -> str:
        return f"Instruction({self.name!r}, {self.opcode!r})"


_CALLING_OTHERWISE = frozenset({"while", "conditional", "fusion", "async-start", "async-update", "async-done"})
