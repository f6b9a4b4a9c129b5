"""`Module`, `Computation`, `Instruction`: a read-only view of an HLO module.

Made from the bytes of an `xla.HloModuleProto` or `xla.HloProto`. The views wrap the decoded protos
and convert on access, because a module has hundreds of thousands of instructions of which a
reader looks at few. Knows no compiler and no JAX; read by `analysis/`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from inspector.errors import ModuleError
from inspector.hlo.decoding import decoded
from inspector.hlo.group_mode import GroupMode, group_mode
from inspector.hlo.replica_groups import ReplicaGroups, check_count, parse_pairs
from inspector.hlo.replica_groups_proto import from_instruction_proto
from inspector.hlo.shape import Shape
from inspector.hlo.sharding import sharding_text
from inspector.hlo.source import Frame, Origin
from inspector.hlo.stacks import Stacks
from inspector.toolchain.schema import Schema


class Module:
    """An HLO module.

    Attributes:
      name: the module's name.
      computations: in the proto's order, callees before callers.
      proto: the `xla.HloModuleProto` itself, for what has no name here.
    """

    def __init__(self, proto: Any) -> None:
        """Wraps a decoded `xla.HloModuleProto`; users call `from_proto`."""
        self.proto = proto
        self.name: str = proto.name
        self.computations = tuple(Computation(computation, self) for computation in proto.computations)
        self._computations_by_id = {computation.id: computation for computation in self.computations}
        self._shapes: dict[bytes, Shape] = {}
        self._stacks = Stacks(proto.stack_frame_index)

    @classmethod
    def from_proto(cls, data: bytes, schema: Schema | None = None) -> Module:
        """A `Module` from serialized bytes; arguments and errors as for `decoded`."""
        return cls(decoded(data, schema))

    @property
    def entry(self) -> Computation:
        """The computation where execution begins."""
        return self._computations_by_id[self.proto.entry_computation_id]

    @functools.cached_property
    def _computations_by_name(self) -> dict[str, Computation]:
        return {computation.name: computation for computation in self.computations}

    @functools.cached_property
    def _instructions_by_name(self) -> dict[str, Instruction]:
        return {instruction.name: instruction for instruction in self.instructions()}

    def computation(self, name: str) -> Computation:
        """The computation of that name, with or without `%`.

        Raises:
          ModuleError: there is none.
        """
        try:
            return self._computations_by_name[name.removeprefix("%")]
        except KeyError:
            raise ModuleError(f"Module {self.name} has no computation {name!r}.") from None

    def computation_by_id(self, computation_id: int) -> Computation:
        """The computation with that id.

        Raises:
          ModuleError: there is none: the proto is damaged.
        """
        try:
            return self._computations_by_id[computation_id]
        except KeyError:
            raise ModuleError(f"Module {self.name} refers to a computation {computation_id} that it lacks.") from None

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name (unique in a module), with or without `%`.

        Raises:
          ModuleError: there is none.
        """
        try:
            return self._instructions_by_name[name.removeprefix("%")]
        except KeyError:
            raise ModuleError(f"Module {self.name} has no instruction {name!r}.") from None

    def instructions(self) -> Iterator[Instruction]:
        """All instructions of all computations, in the proto's order."""
        for computation in self.computations:
            yield from computation.instructions

    @functools.cached_property
    def callers(self) -> dict[str, tuple[Instruction, ...]]:
        """Computation name to the instructions that call it, in the proto's order."""
        callers: dict[str, list[Instruction]] = {}
        for computation in self.computations:
            for instruction in computation.instructions:
                for computation_id in instruction.proto.called_computation_ids:
                    callers.setdefault(self.computation_by_id(computation_id).name, []).append(instruction)
        return {name: tuple(instructions) for name, instructions in callers.items()}

    def origins(self) -> dict[str, Origin]:
        """Instruction name to where it comes from; instructions without metadata are left out.

        Equal origins are the same object, so a large module costs little memory.
        """
        known: dict[tuple[str, int, str, int], Origin] = {}
        origins: dict[str, Origin] = {}
        for computation in self.proto.computations:
            for instruction in computation.instructions:
                metadata = instruction.metadata
                key = (metadata.op_name, metadata.stack_frame_id, metadata.source_file, metadata.source_line)
                if key == ("", 0, "", 0):
                    continue
                if key not in known:
                    known[key] = self.origin_of(metadata)
                origins[instruction.name] = known[key]
        return origins

    def origin_of(self, metadata: Any) -> Origin:
        """An `Origin` from an `xla.OpMetadata` of this module."""
        frames = self._stacks.frames(metadata.stack_frame_id)
        if not frames and metadata.source_file:
            frames = (Frame(metadata.source_file, metadata.source_line),)
        return Origin(metadata.op_name, frames)

    def shape(self, proto: Any) -> Shape:
        """A `Shape` from an `xla.ShapeProto` of this module; equal ones are the same object."""
        key = proto.SerializeToString()
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape.from_proto(proto)
        return shape

    def __repr__(self) -> str:
        return f"Module({self.name!r}, {len(self.computations)} computations)"


class Computation:
    """A computation of a module.

    Attributes:
      name: unique in the module, without `%`.
      id: the proto's id.
      module: where it belongs.
      proto: the `xla.HloComputationProto`.
    """

    __slots__ = ("_by_id", "_instructions", "id", "module", "name", "proto")

    def __init__(self, proto: Any, module: Module) -> None:
        self.proto = proto
        self.module = module
        self.name: str = proto.name
        self.id: int = proto.id
        self._instructions: tuple[Instruction, ...] | None = None
        self._by_id: dict[int, Instruction] | None = None

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """In the proto's order: operands before users."""
        if self._instructions is None:
            self._instructions = tuple(Instruction(proto, self) for proto in self.proto.instructions)
        return self._instructions

    @property
    def schedule(self) -> tuple[Instruction, ...]:
        """In the order in which they run, as XLA scheduled them; in the proto's order where it did not."""
        scheduled = self.module.proto.schedule.sequences
        if self.id not in scheduled:
            return self.instructions
        return tuple(self.instruction_by_id(number) for number in scheduled[self.id].instruction_ids)

    def instruction_by_id(self, instruction_id: int) -> Instruction:
        """The instruction with that id.

        Raises:
          ModuleError: there is none: the proto is damaged.
        """
        if self._by_id is None:
            self._by_id = {instruction.proto.id: instruction for instruction in self.instructions}
        try:
            return self._by_id[instruction_id]
        except KeyError:
            raise ModuleError(
                f"Computation {self.name} refers to an instruction {instruction_id} that it lacks."
            ) from None

    @property
    def root(self) -> Instruction:
        """The instruction whose value is the computation's."""
        return self.instruction_by_id(self.proto.root_id)

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
      name: unique in the module, without `%`.
      opcode: HLO's, such as `all-gather-start`.
      computation: where it belongs.
      proto: the `xla.HloInstructionProto`, for what has no name here.
    """

    __slots__ = ("computation", "name", "opcode", "proto")

    def __init__(self, proto: Any, computation: Computation) -> None:
        self.proto = proto
        self.computation = computation
        self.name: str = proto.name
        self.opcode: str = proto.opcode

    @property
    def shape(self) -> Shape:
        """Of the result."""
        return self.computation.module.shape(self.proto.shape)

    @property
    def operands(self) -> tuple[Instruction, ...]:
        by_id = self.computation.instruction_by_id
        return tuple(by_id(operand_id) for operand_id in self.proto.operand_ids)

    @property
    def called_computations(self) -> tuple[Computation, ...]:
        """Of a while: body, condition. Of a conditional: the branches. Else what it applies or calls."""
        by_id = self.computation.module.computation_by_id
        return tuple(by_id(computation_id) for computation_id in self.proto.called_computation_ids)

    @property
    def to_apply(self) -> Computation | None:
        """The computation of a reduction, call or map; None for opcodes that apply none."""
        if self.opcode in _CALLING_OTHERWISE or not self.proto.called_computation_ids:
            return None
        return self.called_computations[0]

    @property
    def is_root(self) -> bool:
        return bool(self.proto.id == self.computation.proto.root_id)

    @property
    def op_name(self) -> str:
        """JAX's name stack, ending in the primitive; "" when unknown."""
        return str(self.proto.metadata.op_name)

    @property
    def origin(self) -> Origin:
        """Name stack and Python frames; both empty when unknown."""
        return self.computation.module.origin_of(self.proto.metadata)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Python call stack, innermost first; empty when unknown."""
        return self.origin.frames

    @property
    def channel_id(self) -> int | None:
        """None when it has none (XLA's ids are positive)."""
        channel_id = int(self.proto.channel_id)
        return channel_id if channel_id > 0 else None

    @property
    def use_global_device_ids(self) -> bool:
        return bool(self.proto.use_global_device_ids)

    @property
    def replica_groups(self) -> ReplicaGroups:
        """As written; `{}` (all) where it says nothing."""
        return from_instruction_proto(self.proto)

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
        return bytes(self.proto.backend_config)

    @property
    def frontend_attributes(self) -> dict[str, str]:
        return dict(self.proto.frontend_attributes.map)

    @property
    def fusion_kind(self) -> str:
        """`kLoop`, `kInput`, ...; "" unless it is a fusion."""
        return str(self.proto.fusion_kind)

    @property
    def custom_call_target(self) -> str:
        return str(self.proto.custom_call_target)

    def __repr__(self) -> str:
        return f"Instruction({self.name!r}, {self.opcode!r})"


_CALLING_OTHERWISE = frozenset({"while", "conditional", "fusion", "async-start", "async-update", "async-done"})
