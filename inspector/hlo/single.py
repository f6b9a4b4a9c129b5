"""Instructions as modules of their own, for XLA's cost analysis, which tells only a module's total.

A module holds one instruction, its operands as parameters and whatever it calls. Names, metadata and
layouts are left out: they cost nothing, and without them the same operation a thousand times is one
module. Made for `engines/counting.py`; put together again by `compilation/cost.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

from inspector.hlo.backend_config import product_dimensions
from inspector.hlo.module import Computation, Instruction, Module

FLOW = frozenset({"while", "call", "conditional", "async-start"})
"""Instructions that cost what the computations that they call cost, and nothing themselves."""

FREE = frozenset({"parameter", "constant", "async-update", "async-done"})
"""Instructions that cost nothing; alone in a module, XLA refuses some of them."""

_UNCOUNTED_FIELDS = (
    "name", "metadata", "frontend_attributes", "sharding", "backend_config", "control_predecessor_ids",
    "original_value", "statistics_viz",
)  # fmt: skip

# Libraries' calls that are one operation (xla/service/gpu/cublas_cudnn.h); XLA's own count for GPUs reads them so too.
_CUDNN_CONVOLUTION = "__cudnn$conv"
_CUBLAS_PRODUCTS = ("__cublas$gemm", "__cublas$lt$matmul")


@dataclasses.dataclass(frozen=True, slots=True)
class Single:
    """A module of one instruction.

    Attributes:
      names: the instructions of the whole module that are this one, but for names.
      module: a serialized `xla.HloModuleProto`.
    """

    names: tuple[str, ...]
    module: bytes


def singles(module: Module) -> tuple[Single, ...]:
    """Every instruction of a module that has a cost of its own, equal ones together."""
    plain = _Plain(module)
    names: dict[bytes, list[str]] = {}
    first: dict[bytes, Instruction] = {}
    for instruction in module.instructions():
        if instruction.opcode not in FLOW and instruction.opcode not in FREE:
            key = plain.key(instruction)
            names.setdefault(key, []).append(instruction.name)
            first.setdefault(key, instruction)
    return tuple(Single(tuple(names[key]), plain.single(instruction)) for key, instruction in first.items())


class _Plain:
    """A module's instructions without what they do not cost."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._type = type(module.proto)
        self._instruction_type = type(module.proto.computations[0].instructions[0])
        self._fields = [n for n in _UNCOUNTED_FIELDS if n in self._instruction_type.DESCRIPTOR.fields_by_name]
        self._bodies: dict[int, bytes] = {}

    def key(self, instruction: Instruction) -> bytes:
        """Equal for two instructions whose modules are equal."""
        operands = tuple(dict.fromkeys(instruction.proto.operand_ids))
        proto = self._instruction(instruction.proto, {number: i for i, number in enumerate(operands)})
        by_id = instruction.computation.instruction_by_id
        shapes = [_plain_shape(by_id(number).proto.shape).SerializeToString() for number in operands]
        return _digest(proto.SerializeToString(deterministic=True), *shapes, *self._called(instruction.proto))

    def single(self, instruction: Instruction) -> bytes:
        """The serialized module of one instruction."""
        module = self._type(name="single", entry_computation_name="main")
        numbers = _Numbers()
        called = self._add_called(module, instruction.proto, numbers)
        entry = module.computations.add(name="main", id=numbers.computation())
        operands: dict[int, int] = {}
        for number in dict.fromkeys(instruction.proto.operand_ids):
            operand = instruction.computation.instruction_by_id(number).proto
            parameter = entry.instructions.add(
                name=f"p{len(operands)}", opcode="parameter", parameter_number=len(operands), id=numbers.instruction()
            )
            parameter.shape.CopyFrom(_plain_shape(operand.shape))
            entry.program_shape.parameters.add().CopyFrom(parameter.shape)
            entry.program_shape.parameter_names.append(parameter.name)
            operands[number] = parameter.id
        root = self._instruction(instruction.proto, operands)
        root.name, root.id = "root", numbers.instruction()
        root.called_computation_ids.extend(called)
        entry.instructions.append(root)
        entry.root_id, module.entry_computation_id = root.id, entry.id
        entry.program_shape.result.CopyFrom(root.shape)
        module.host_program_shape.CopyFrom(entry.program_shape)
        return bytes(module.SerializeToString())

    def _instruction(self, proto: Any, operands: dict[int, int]) -> Any:
        """A copy with other operand ids, without name, id and called computations."""
        copy = self._instruction_type()
        copy.CopyFrom(proto)
        for field in self._fields:
            copy.ClearField(field)
        copy.shape.CopyFrom(_plain_shape(proto.shape))
        del copy.operand_ids[:], copy.called_computation_ids[:]
        copy.operand_ids.extend(operands[number] for number in proto.operand_ids)
        copy.id = 0
        if proto.custom_call_target.startswith(_CUDNN_CONVOLUTION):
            _as_operation(copy, "convolution")
        if proto.custom_call_target.startswith(_CUBLAS_PRODUCTS) and (dimensions := product_dimensions(proto)):
            _as_operation(copy, "dot")
            for name, numbers in dimensions.items():
                getattr(copy.dot_dimension_numbers, name).extend(numbers)
        return copy

    def _called(self, proto: Any) -> Iterator[bytes]:
        for number in proto.called_computation_ids:
            if number not in self._bodies:
                self._bodies[number] = self._body(self._module.computation_by_id(number))
            yield self._bodies[number]

    def _body(self, computation: Computation) -> bytes:
        """A digest of a computation, equal for equal ones."""
        position = {proto.id: i for i, proto in enumerate(computation.proto.instructions)}
        parts: list[bytes] = [position[computation.proto.root_id].to_bytes(8, "little")]
        for proto in computation.proto.instructions:
            parts.append(self._instruction(proto, position).SerializeToString(deterministic=True))
            parts.extend(self._called(proto))
        return _digest(*parts)

    def _add_called(self, module: Any, proto: Any, numbers: _Numbers) -> list[int]:
        """Adds what an instruction calls, callees first; the new ids of the computations."""
        return [
            self._add(module, self._module.computation_by_id(number), numbers)
            for number in proto.called_computation_ids
        ]

    def _add(self, module: Any, computation: Computation, numbers: _Numbers) -> int:
        known = numbers.computations.get(computation.id)
        if known is not None:
            return known
        called = [self._add_called(module, proto, numbers) for proto in computation.proto.instructions]
        ids = {proto.id: numbers.instruction() for proto in computation.proto.instructions}
        number = numbers.computations[computation.id] = numbers.computation()
        added = module.computations.add(name=f"c{number}", id=number, root_id=ids[computation.proto.root_id])
        added.program_shape.CopyFrom(_plain_program(computation.proto.program_shape))
        for proto, callees in zip(computation.proto.instructions, called, strict=True):
            copy = self._instruction(proto, ids)
            copy.id = ids[proto.id]
            copy.name = f"i{copy.id}"
            copy.called_computation_ids.extend(callees)
            added.instructions.append(copy)
        added.is_fusion_computation = computation.proto.is_fusion_computation
        return number


def _as_operation(call: Any, opcode: str) -> None:
    """Turns a call to a library into the operation that it was; its result may have a scratch buffer beside."""
    call.opcode = opcode
    call.ClearField("custom_call_target")
    if call.shape.tuple_shapes:
        result = type(call.shape)()
        result.CopyFrom(call.shape.tuple_shapes[0])
        call.shape.CopyFrom(result)
    del call.operand_ids[2:]


class _Numbers:
    """New ids: small ones, because XLA keeps tables as long as the largest."""

    def __init__(self) -> None:
        self.computations: dict[int, int] = {}
        self._computation = self._instruction = 0

    def computation(self) -> int:
        self._computation += 1
        return self._computation

    def instruction(self) -> int:
        self._instruction += 1
        return self._instruction


def _plain_shape(shape: Any) -> Any:
    """The shape with its layout's order of dimensions and nothing else of it: no tiles, no memory space."""
    if not shape.tuple_shapes and not (shape.HasField("layout") and (shape.layout.tiles or shape.layout.memory_space)):
        return shape
    copy = type(shape)()
    copy.CopyFrom(shape)
    for array in _arrays(copy):
        if array.HasField("layout"):
            for field in ("tiles", "memory_space", "tail_padding_alignment_in_elements"):
                array.layout.ClearField(field)
    return copy


def _arrays(shape: Any) -> Iterator[Any]:
    if shape.tuple_shapes:
        for element in shape.tuple_shapes:
            yield from _arrays(element)
    else:
        yield shape


def _plain_program(program: Any) -> Any:
    copy = type(program)()
    copy.CopyFrom(program)
    for shape in (*copy.parameters, copy.result):
        shape.CopyFrom(_plain_shape(shape))
    return copy


def _digest(*parts: bytes) -> bytes:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "little"))
        sha.update(part)
    return sha.digest()
