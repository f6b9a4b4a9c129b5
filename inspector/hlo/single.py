"""Instructions as modules of their own, for XLA's cost analysis, which tells only a module's total.

A module holds one instruction, its operands as parameters and whatever it calls. Names, metadata and
layouts are left out: they cost nothing, and without them the same operation a thousand times is one
module. Made for `engines/counting.py`; put together again by `compilation/cost.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inspector.hlo.alike import alike
from inspector.hlo.backend_config import product_dimensions
from inspector.hlo.columns import (
    BACKEND_CONFIG,
    CALLED_COMPUTATION_IDS,
    CONTROL_PREDECESSOR_IDS,
    FRONTEND_ATTRIBUTES,
    ID,
    METADATA,
    NAME,
    OPCODE,
    OPERAND_IDS,
    ORIGINAL_VALUE,
    PARAMETER_NUMBER,
    SHAPE,
    SHARDING,
    STATISTICS_VIZ,
)
from inspector.hlo.module import Computation, Instruction, Module
from inspector.varints import write_varint

FLOW = frozenset({"while", "call", "conditional", "async-start"})
"""Instructions that cost what the computations that they call cost, and nothing themselves."""

FREE = frozenset({"parameter", "constant", "async-update", "async-done"})
"""Instructions that cost nothing; alone in a module, XLA refuses some of them."""

_ELSEWHERE = FLOW | FREE

# Of xla.HloInstructionProto, what costs nothing, and what is numbered or written anew.
_UNCOUNTED = (METADATA, CONTROL_PREDECESSOR_IDS, SHARDING, FRONTEND_ATTRIBUTES, STATISTICS_VIZ, ORIGINAL_VALUE)
_RENUMBERED = (NAME, SHAPE, ID, OPERAND_IDS, CALLED_COMPUTATION_IDS)
_INSTRUCTIONS = 2  # of xla.HloComputationProto

# Libraries' calls that are one operation (xla/service/gpu/cublas_cudnn.h); XLA's own count for GPUs reads them so too.
_CUDNN_CONVOLUTION = "__cudnn$conv"
_CUBLAS_PRODUCTS = ("__cublas$gemm", "__cublas$lt$matmul")
_AS_OPERATIONS = (*_CUBLAS_PRODUCTS, _CUDNN_CONVOLUTION)


@dataclasses.dataclass(frozen=True, slots=True)
class Single:
    """A module of one instruction.

    Attributes:
      kinds: the instructions that are this one, but for what costs nothing, by their numbers in `Module.alike`.
      module: a serialized `xla.HloModuleProto`.
    """

    kinds: tuple[int, ...]
    module: bytes


def singles(module: Module) -> tuple[Single, ...]:
    """Every instruction of a module that has a cost of its own, equal ones together."""
    columns, first = module.columns, module.alike.first
    plain = _Plain(module)
    # What libraries multiply stands in the back end's configuration.
    without = _UNCOUNTED if plain.calls else (*_UNCOUNTED, BACKEND_CONFIG)
    counted = alike(columns, without, plain.shape_numbers, module.alike)
    kinds: dict[int, list[int]] = {}
    for kind, (row, which) in enumerate(zip(first.tolist(), counted.kinds[first].tolist(), strict=True)):
        if module.at(row).opcode not in _ELSEWHERE:
            kinds.setdefault(which, []).append(kind)
    written: dict[bytes, list[int]] = {}
    for same in kinds.values():
        written.setdefault(plain.single(int(first[same[0]])), []).extend(same)
    return tuple(Single(tuple(same), data) for data, same in written.items())


class _Plain:
    """A module's instructions without what they do not cost, written as modules.

    Written field by field: as objects the tens of thousands of instructions in fusions take ten times as long.

    Attributes:
      calls: the rows that call libraries for a product or a convolution.
    """

    def __init__(self, module: Module) -> None:
        columns = module.columns
        self._module = module
        self._columns = columns
        self.calls = _calls(module)
        self._attributes = columns.fields.without((*_RENUMBERED, *_UNCOUNTED, BACKEND_CONFIG))
        self._operands: tuple[list[int], list[int]] = columns.operands.offsets.tolist(), columns.operands.rows.tolist()
        self._calling = set(columns.called.having.tolist())
        messages = [columns.message("xla.ShapeProto", data) for data in columns.shapes.values]
        self._codes: list[int] = columns.shapes.codes.tolist()
        self._shapes: list[bytes] = [_plain_shape(message).SerializeToString() for message in messages]

    @property
    def shape_numbers(self) -> npt.NDArray[np.int64]:
        """For each of the columns' shapes a number, equal for those that are plainly the same."""
        number = {data: n for n, data in enumerate(dict.fromkeys(self._shapes))}
        return np.array([number[data] for data in self._shapes], np.int64)

    def single(self, row: int) -> bytes:
        """The serialized module of one instruction."""
        numbers = _Numbers()
        computations = self._called(row, numbers)
        entry = numbers.computation()
        operands = {other: numbers.instruction() for other in dict.fromkeys(self._taken(row))}
        parameters = [
            _text(NAME, f"p{n}") + _text(OPCODE, "parameter") + _bytes(SHAPE, self._shape(other))
            + _number(PARAMETER_NUMBER, n) + _number(ID, number)
            for n, (other, number) in enumerate(operands.items())
        ]  # fmt: skip
        root, shape = self._instruction(row, "root", numbers.instruction(), operands, numbers), self._shape(row)
        program = b"".join(
            [_bytes(1, self._shape(other)) for other in operands]
            + [_bytes(2, shape)]
            + [_text(3, f"p{n}") for n in range(len(operands))]
        )
        body = b"".join(_bytes(_INSTRUCTIONS, each) for each in (*parameters, root))
        main = _text(1, "main") + body + _bytes(4, program) + _number(5, entry) + _number(6, numbers.last)
        computations.append(main)
        return b"".join([
            _text(1, "single"), _text(2, "main"), *(_bytes(3, each) for each in computations), _bytes(4, program),
            _number(6, entry),
        ])  # fmt: skip

    def _shape(self, row: int) -> bytes:
        return self._shapes[self._codes[row]]

    def _instruction(self, row: int, name: str, number: int, operands: Mapping[int, int], numbers: _Numbers) -> bytes:
        """A serialized instruction with other ids."""
        taking = [operands[other] for other in self._taken(row)]
        attributes, shape = self._attributes[row], self._shape(row)
        if row in self.calls:
            plain = self._columns.message("xla.HloInstructionProto", attributes)
            attributes, shape, taking = _as_operation(self._module.at(row), plain, taking)
        parts = [_text(NAME, name), attributes, _bytes(SHAPE, shape), _number(ID, number), _packed(OPERAND_IDS, taking)]
        if row in self._calling:
            calling = [numbers.computations[computation] for computation in self._columns.called.of(row)]
            parts.append(_packed(CALLED_COMPUTATION_IDS, calling))
        return b"".join(parts)

    def _taken(self, row: int) -> list[int]:
        offsets, rows = self._operands
        return rows[offsets[row] : offsets[row + 1]]

    def _called(self, row: int, numbers: _Numbers) -> list[bytes]:
        """The computations that an instruction leads to, serialized; in the module's order, callees before callers."""
        reached, waiting = set[int](), self._columns.called.of(row)
        while waiting:
            computation = waiting.pop()
            if computation not in reached:
                reached.add(computation)
                waiting += (
                    c.number for i in self._module.computations[computation].calling for c in i.called_computations
                )
        for computation in sorted(reached):
            numbers.computations[computation] = numbers.computation()
        return [self._computation(self._module.computations[number], numbers) for number in sorted(reached)]

    def _computation(self, computation: Computation, numbers: _Numbers) -> bytes:
        proto, number = computation.proto, numbers.computations[computation.number]
        ids = {row: numbers.instruction() for row in computation.rows}
        return b"".join([
            _text(1, f"c{number}"),
            *(_bytes(_INSTRUCTIONS, self._instruction(row, f"i{ids[row]}", ids[row], ids, numbers)) for row in ids),
            _bytes(4, _plain_program(proto.program_shape).SerializeToString()), _number(5, number),
            _number(6, ids[computation.root.row]), _number(7, int(proto.is_fusion_computation)),
        ])  # fmt: skip


def _calls(module: Module) -> frozenset[int]:
    """The rows that call libraries for a product or a convolution."""
    opcodes = module.columns.opcodes
    if "custom-call" not in opcodes.values:
        return frozenset()
    rows = np.flatnonzero(opcodes.codes == opcodes.values.index("custom-call")).tolist()
    return frozenset(row for row in rows if module.at(row).custom_call_target.startswith(_AS_OPERATIONS))


_varint = functools.lru_cache(1 << 12)(write_varint)  # lengths and ids come again


def _bytes(number: int, data: bytes) -> bytes:
    return b"%b%b%b" % (_varint(number << 3 | 2), _varint(len(data)), data)


def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _packed(number: int, values: Sequence[int]) -> bytes:
    return _bytes(number, b"".join(map(_varint, values))) if values else b""


def _as_operation(call: Instruction, plain: Any, operands: list[int]) -> tuple[bytes, bytes, list[int]]:
    """A call to a library as the operation that it was: its attributes, its shape and its operands.

    Its result may have a scratch buffer beside.

    Args:
      call: of the module.
      plain: its proto with its attributes only; changed.
      operands: its own.
    """
    dimensions, shape = product_dimensions(call), _plain_shape(call.shape_proto)
    is_product = plain.custom_call_target.startswith(_CUBLAS_PRODUCTS)
    if not is_product or dimensions:
        plain.opcode = "dot" if is_product else "convolution"
        plain.ClearField("custom_call_target")
        for name, numbers in dimensions.items() if is_product else ():
            getattr(plain.dot_dimension_numbers, name).extend(numbers)
        shape, operands = shape.tuple_shapes[0] if shape.tuple_shapes else shape, operands[:2]
    return plain.SerializeToString(), shape.SerializeToString(), operands


class _Numbers:
    """New ids: small ones, because XLA keeps tables as long as the largest.

    Attributes:
      computations: of those that are in the new module, by their numbers in the old one.
      last: the instruction's that was numbered last.
    """

    def __init__(self) -> None:
        self.computations: dict[int, int] = {}
        self._computation = self.last = 0

    def computation(self) -> int:
        self._computation += 1
        return self._computation

    def instruction(self) -> int:
        self.last += 1
        return self.last


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
