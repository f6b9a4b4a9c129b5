"""`Module`, `Computation`, `Instruction`: a read-only view of an HLO module.

Built from the bytes of an `xla.HloModuleProto` or `xla.HloProto`, which are read once into columns
(`hlo/reading/columns.py`). The objects here are views of rows and are created on demand, because a module has hundreds of
thousands of instructions and most code needs few of them. Code that needs all instructions uses the columns. Independent of
compilers and JAX; used by `analysis/`.
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
    PARAMETER_NUMBER,
    TUPLE_INDEX,
    USE_GLOBAL_DEVICE_IDS,
)
from inspector.hlo.reading.instruction_kinds import Alike, alike
from inspector.hlo.shape import Shape
from inspector.hlo.source import NOWHERE, Frame, Origin
from inspector.support.notebook import short
from inspector.toolchain.schema import Schema


class Module:
    """An HLO module.

    Attributes:
      name: the module's name.
      columns: all instructions, as columns.
      computations: all computations in the proto's order, callees before callers.
      proto: the `xla.HloModuleProto` without its computations, for fields that have no attribute here.
    """

    def __init__(self, columns: Columns) -> None:
        """Creates the views. Use `from_proto` instead."""
        self.columns = columns
        self.proto = columns.module
        self.name: str = self.proto.name
        self.computations = tuple(Computation(number, self) for number in range(len(columns.computations)))
        self._computations_by_id = {computation.id: computation for computation in self.computations}
        self._instructions: dict[int, Instruction] = {}
        self._stacks = Stacks(self.proto.stack_frame_index)

    @classmethod
    def from_proto(cls, data: bytes, schema: Schema | None = None) -> Module:
        """Reads a `Module` from serialized bytes. Arguments and errors are those of `Columns`."""
        return cls(Columns(data, schema))

    @property
    def entry(self) -> Computation:
        """The computation in which execution begins."""
        return self._computations_by_id[self.proto.entry_computation_id]

    @functools.cached_property
    def _computations_by_name(self) -> dict[str, Computation]:
        return {computation.name: computation for computation in self.computations}

    @functools.cached_property
    def rows_by_name(self) -> dict[str, int]:
        """The row of each instruction in the columns, by its name."""
        return {name: row for row, name in enumerate(self.columns.names)}

    def computation(self, name: str) -> Computation:
        """Returns a computation by name, with or without `%`.

        Raises:
          ModuleError: the module has none with this name.
        """
        try:
            return self._computations_by_name[name.removeprefix("%")]
        except KeyError:
            raise ModuleError(f"Module {self.name} has no computation {short(name)}.") from None

    def instruction(self, name: str) -> Instruction:
        """Returns an instruction by name (unique in a module), with or without `%`.

        Raises:
          ModuleError: the module has none with this name.
        """
        try:
            return self.at(self.rows_by_name[name.removeprefix("%")])
        except KeyError:
            raise ModuleError(f"Module {self.name} has no instruction {short(name)}.") from None

    def at(self, row: int) -> Instruction:
        """Returns the instruction of a row of the columns. Returns the same object every time."""
        known = self._instructions.get(row)
        return known if known is not None else self._instructions.setdefault(row, Instruction(row, self))

    def instructions(self) -> Iterator[Instruction]:
        """Yields all instructions of all computations, in the proto's order."""
        return map(self.at, range(len(self.columns)))

    def calls_to(self, targets: tuple[str, ...]) -> list[int]:
        """Returns the rows of custom calls whose target begins with one of the given prefixes."""
        rows = self.columns.rows_of("custom-call".__eq__)
        return [row for row in rows if self.at(row).custom_call_target.startswith(targets)]

    @functools.cached_property
    def callers(self) -> dict[str, tuple[Instruction, ...]]:
        """The instructions that call each computation, by the computation's name, in the proto's order.

        Raises:
          ModuleError: an instruction calls a missing computation, because the proto is damaged.
        """
        callers: dict[str, list[Instruction]] = {}
        called = self.columns.called
        for number, row in zip(called.rows.tolist(), called.from_rows.tolist(), strict=True):
            callers.setdefault(self.computations[number].name, []).append(self.at(row))
        return {name: tuple(instructions) for name, instructions in callers.items()}

    @functools.cached_property
    def known_origins(self) -> tuple[Origin, ...]:
        """Origins of instructions, by the codes of `Columns.metadata`. Equal origins are the same object."""
        known: dict[tuple[str, int, str, int], Origin] = {}
        origins = []
        for metadata in self.columns.messages("xla.OpMetadata", self.columns.metadata.values):
            key = (metadata.op_name, metadata.stack_frame_id, metadata.source_file, metadata.source_line)
            if key not in known:
                known[key] = self.origin_of(metadata) if any(key) else NOWHERE
            origins.append(known[key])
        return tuple(origins)

    def origins(self) -> dict[str, Origin]:
        """Returns the origins of instructions by name. Instructions of unknown origin are omitted.

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
        """Builds an `Origin` from an `xla.OpMetadata` of this module."""
        frames = self._stacks.frames(metadata.stack_frame_id)
        if not frames and metadata.source_file:
            frames = (Frame(metadata.source_file, metadata.source_line),)
        return Origin(metadata.op_name, frames)

    @functools.cached_property
    def alike(self) -> Alike:
        """The module's instructions grouped into kinds of equal instructions."""
        return alike(self.columns)

    def kind_attributes(self, without: Collection[int]) -> list[bytes]:
        """Returns `Instruction.attributes` of the first instruction of each kind."""
        attributes = self.alike.attributes(without)
        if FRONTEND_ATTRIBUTES not in without:  # a map, serialized in arbitrary order
            noted = self.columns.coded(FRONTEND_ATTRIBUTES)
            for kind, row in enumerate(self.alike.first.tolist()):
                if noted.at(row):
                    attributes[kind] = self.at(row).attributes(without)
        return attributes

    @functools.cached_property
    def known_shapes(self) -> tuple[Shape, ...]:
        """Shapes of results, by the codes of `Columns.shapes`."""
        return tuple(map(Shape.from_proto, self.columns.messages("xla.ShapeProto", self.columns.shapes.values)))

    def __repr__(self) -> str:
        return f"Module({self.name!r}, {len(self.computations)} computations)"


class Computation:
    """A computation of a module.

    Attributes:
      number: position in the module.
      name: name without `%`, unique in the module.
      id: the proto's id.
      module: the module that contains it.
    """

    __slots__ = ("id", "module", "name", "number")

    def __init__(self, number: int, module: Module) -> None:
        self.number = number
        self.module = module
        self.name: str = module.columns.computation_names[number]
        self.id: int = module.columns.computation_ids[number]

    @property
    def proto(self) -> Any:
        """The `xla.HloComputationProto` without its instructions, for fields that have no attribute here."""
        return self.module.columns.computation(self.number)

    @property
    def rows(self) -> range:
        """Rows of its instructions in the columns."""
        first, last = self.module.columns.first[self.number : self.number + 2].tolist()
        return range(first, last)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Its instructions in the proto's order: operands before users."""
        return tuple(map(self.module.at, self.rows))

    @property
    def calling(self) -> tuple[Instruction, ...]:
        """Its instructions that call computations, in the proto's order."""
        return tuple(map(self.module.at, self.module.columns.calling[self.number]))

    @property
    def schedule(self) -> tuple[Instruction, ...]:
        """Its instructions in XLA's schedule, or in the proto's order if the module is not scheduled."""
        scheduled = self.module.proto.schedule.sequences
        if self.id not in scheduled:
            return self.instructions
        rows = self.module.columns.rows_with(self.number, scheduled[self.id].instruction_ids)
        return tuple(map(self.module.at, rows))

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        return self.module.at(int(self.module.columns.roots[self.number]))

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Its parameters, by parameter number."""
        return tuple(map(self.module.at, self.module.columns.parameters[self.number]))

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
      row: row in the module's columns.
      module: the module that contains it.
      opcode: HLO opcode, such as `all-gather-start`.
    """

    __slots__ = ("module", "opcode", "row")

    def __init__(self, row: int, module: Module) -> None:
        self.row = row
        self.module = module
        self.opcode: str = module.columns.opcode_texts[row]

    @property
    def name(self) -> str:
        """Name without `%`, unique in the module."""
        return self.module.columns.names[self.row]

    @property
    def computation(self) -> Computation:
        """The computation that contains it."""
        return self.module.computations[int(self.module.columns.in_computation[self.row])]

    @property
    def proto(self) -> Any:
        """The `xla.HloInstructionProto`, decoded at each access, for fields that have no attribute here."""
        return self.module.columns.instruction(self.row)

    def attributes(self, without: Collection[int]) -> bytes:
        """Serializes its proto without the fields of the given numbers. Equal for equal instructions of any module."""
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
        """Shape of the result. Equal shapes of a module are the same object."""
        return self.module.known_shapes[self.shape_number]

    @property
    def shape_number(self) -> int:
        """Number of its shape in the module, equal for equal shapes."""
        return self.module.columns.shapes.codes.item(self.row)

    @property
    def operands(self) -> tuple[Instruction, ...]:
        """The instructions whose results it takes."""
        return tuple(map(self.module.at, self.module.columns.operands.of(self.row)))

    def operand(self, number: int) -> Instruction:
        """Returns one operand. A tuple may have thousands."""
        return self.module.at(self.module.columns.operands.of(self.row)[number])

    def positions_of(self, operand: Instruction) -> list[int]:
        """Returns the numbers of the operands that are a given instruction."""
        rows = self.module.columns.operands.of(self.row)
        return [number for number, row in enumerate(rows) if row == operand.row]

    @property
    def users(self) -> tuple[Instruction, ...]:
        """The instructions that take its result, without duplicates, in the proto's order."""
        return tuple(map(self.module.at, self.module.columns.users.of(self.row)))

    @property
    def called_computations(self) -> tuple[Computation, ...]:
        """The body and condition of a while, the branches of a conditional, or else the computations that it calls."""
        return tuple(map(self.module.computations.__getitem__, self.module.columns.callees.get(self.row, ())))

    @property
    def to_apply(self) -> Computation | None:
        """The computation that a reduction, call or map applies; None for other opcodes."""
        called = () if self.opcode in _CALLING_OTHERWISE else self.called_computations
        return called[0] if called else None

    @property
    def is_root(self) -> bool:
        return self.row == int(self.module.columns.roots[self.computation.number])

    @property
    def op_name(self) -> str:
        """JAX's name stack, ending in the primitive; "" if unknown."""
        return self.origin.op_name

    @property
    def origin(self) -> Origin:
        """Name stack and Python frames; both empty if unknown."""
        code = self.module.columns.metadata.codes[self.row]
        return self.module.known_origins[code] if code >= 0 else NOWHERE

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Python call stack, innermost frame first; empty if unknown."""
        return self.origin.frames

    @property
    def channel_id(self) -> int | None:
        """Channel id; None if it has none (XLA's ids are positive)."""
        channel_id = self.module.columns.integer(CHANNEL_ID, self.row)
        return channel_id if channel_id > 0 else None

    @property
    def use_global_device_ids(self) -> bool:
        return bool(self.module.columns.integer(USE_GLOBAL_DEVICE_IDS, self.row))

    @property
    def replica_groups(self) -> ReplicaGroups:
        """Replica groups as written; `{}` (all devices) if it has none."""
        columns = self.module.columns
        listed = columns.coded(COLLECTIVE_DEVICE_LIST).at(self.row)
        is_listed = listed and not any(columns.coded(other).at(self.row) for other in OTHER_DEVICE_LISTS)
        alike = alike_groups(listed) if is_listed else None
        return from_instruction_proto(self.proto) if alike is None else alike

    @property
    def group_mode(self) -> GroupMode:
        """The meaning of the ids in `replica_groups` and `source_target_pairs`."""
        return group_mode(self.opcode, self.channel_id, self.use_global_device_ids)

    @property
    def source_target_pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of a collective-permute, or of a `send` or `recv` between devices; () for others.

        Raises:
          ModuleError: there are too many pairs.
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
        """Parameter number; None for other instructions."""
        return self.module.columns.integer(PARAMETER_NUMBER, self.row) if self.opcode == "parameter" else None

    @property
    def tuple_index(self) -> int:
        """Number of the element that a `get-tuple-element` takes; 0 for other instructions."""
        return self.module.columns.integer(TUPLE_INDEX, self.row)

    @property
    def sharding(self) -> str:
        """Sharding as HLO text; "" if it has none."""
        return sharding_text(self.proto.sharding) if self.proto.HasField("sharding") else ""

    @property
    def backend_config(self) -> bytes:
        """Raw backend config, which is JSON text on most backends; b"" if it has none."""
        return bytes(self.module.columns.coded(BACKEND_CONFIG).at(self.row))

    @property
    def frontend_attributes(self) -> dict[str, str]:
        noted = self.module.columns.coded(FRONTEND_ATTRIBUTES).at(self.row)
        return dict(self.module.columns.message("xla.FrontendAttributes", noted).map) if noted else {}

    @property
    def fusion_kind(self) -> str:
        """Kind of a fusion, such as `kLoop` or `kInput`; "" for other instructions."""
        return str(self.proto.fusion_kind) if self.opcode == "fusion" else ""

    @property
    def custom_call_target(self) -> str:
        return str(self.proto.custom_call_target) if self.opcode == "custom-call" else ""

    def __repr__(self) -> str:
        return f"Instruction({self.name!r}, {self.opcode!r})"


_CALLING_OTHERWISE = frozenset({"while", "conditional", "fusion", "async-start", "async-update", "async-done"})
