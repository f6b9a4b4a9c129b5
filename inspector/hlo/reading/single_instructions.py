"""Builds single-instruction modules for XLA's cost analysis, which reports only a module's total.

Such a module contains one instruction, its operands as parameters and its called computations. Names, metadata and layouts
are omitted: they do not affect costs, and without them, a thousand equal operations become one module. Used by
`engines/workers/counting.py`; `compilation/cost.py` combines the results.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inspector.hlo.backend_config import product_dimensions
from inspector.hlo.module import Instruction, Module
from inspector.hlo.reading.field_numbers import (
    BACKEND_CONFIG,
    CALLED_COMPUTATION_IDS,
    CONTROL_PREDECESSOR_IDS,
    DIMENSIONS,
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
from inspector.hlo.reading.fusion_summaries import Brief, Briefs
from inspector.hlo.reading.instruction_kinds import alike
from inspector.hlo.shape import Shape
from inspector.support.varints import write_varint
from inspector.toolchain.schema import set_fields

FLOW = frozenset({"while", "call", "conditional", "async-start"})
"""Opcodes whose cost is that of the computations that they call."""

FREE = frozenset({"parameter", "constant", "async-update", "async-done"})
"""Opcodes without cost. XLA rejects single-instruction modules of some of them."""

_ELSEWHERE = FLOW | FREE

# Fields of xla.HloInstructionProto that do not affect costs.
_UNCOUNTED = (METADATA, CONTROL_PREDECESSOR_IDS, SHARDING, FRONTEND_ATTRIBUTES, STATISTICS_VIZ, ORIGINAL_VALUE)
_INSTRUCTIONS = 2  # of xla.HloComputationProto

# Library calls that are a single operation (xla/service/gpu/cublas_cudnn.h). XLA's cost analysis for GPUs treats them this way too.
_CUDNN_CONVOLUTION = "__cudnn$conv"
_CUBLAS_PRODUCTS = ("__cublas$gemm", "__cublas$lt$matmul")
_KERNELS = ("tpu_custom_call",)
_AS_OPERATIONS = (*_CUBLAS_PRODUCTS, _CUDNN_CONVOLUTION)


@dataclasses.dataclass(frozen=True, slots=True)
class Single:
    """A single-instruction module.

    Attributes:
      kinds: the kinds of instructions with the same cost as this one, by their numbers in `Module.alike`.
      module: the serialized `xla.HloModuleProto`.
      briefs: summaries by kind, for fusions that the module contains in part only.
    """

    kinds: tuple[int, ...]
    module: bytes
    briefs: Mapping[int, Brief] = dataclasses.field(default_factory=dict)


def singles(module: Module) -> tuple[Single, ...]:
    """Returns modules for all instructions of a module with a cost; instructions of equal cost share one."""
    columns, first = module.columns, module.alike.first
    plain = _Plain(module)
    # The dimensions of library products and the bodies of Pallas kernels are in the backend config.
    without = _UNCOUNTED if plain.calls or plain.kernels else (*_UNCOUNTED, BACKEND_CONFIG)
    counted = alike(columns, without, plain.shape_numbers, module.alike)
    kinds: dict[int, list[int]] = {}
    for kind, (row, which) in enumerate(zip(first.tolist(), counted.kinds[first].tolist(), strict=True)):
        if module.at(row).opcode not in _ELSEWHERE:
            kinds.setdefault(which, []).append(kind)
    fusions = Briefs(module, counted, plain.are_scalars)
    written: dict[bytes, list[int]] = {}
    briefs: dict[int, Brief] = {}
    for same in kinds.values():
        row = int(first[same[0]])
        brief = plain.brief(row, fusions) if module.at(row).opcode == "fusion" else None
        if brief is not None:
            briefs |= dict.fromkeys(same, brief)
        written.setdefault(plain.single(row, brief), []).extend(same)
    return tuple(
        Single(tuple(same), data, {kind: briefs[kind] for kind in same if kind in briefs})
        for data, same in written.items()
    )


class _Plain:
    """Serializes a module's instructions as modules, without fields that do not affect costs.

    Fields are written one by one, because message objects would be ten times slower for the tens of thousands of instructions
    in fusions.

    Attributes:
      calls: rows of library calls for products or convolutions.
      kernels: rows of calls of Pallas kernels.
      are_scalars: for each shape in the columns, whether it is a scalar.
    """

    def __init__(self, module: Module) -> None:
        columns, first = module.columns, module.alike.first.tolist()
        self._module = module
        self._columns = columns
        self.calls = frozenset(module.calls_to(_AS_OPERATIONS))
        self.kernels = frozenset(module.calls_to(_KERNELS))
        self._operands: tuple[list[int], list[int]] = columns.operands.offsets.tolist(), columns.operands.rows.tolist()
        self._calling = frozenset(columns.called.having.tolist())
        self._special = self._calling | self.calls | self.kernels
        shapes = module.known_shapes
        self.are_scalars = np.array([not (shape.dimensions or shape.tuple_shapes) for shape in shapes], bool)
        self._shapes = [
            data if _is_plain(shape) else _plain_shape(columns.message("xla.ShapeProto", data))
            for data, shape in zip(columns.shapes.values, shapes, strict=True)
        ]
        self._codes: list[int] = columns.shapes.codes.tolist()
        self._kinds: list[int] = module.alike.kinds.tolist()
        self._numbers: list[int] = columns.integers(PARAMETER_NUMBER).tolist()
        attributes = module.alike.attributes((SHAPE, *_UNCOUNTED, BACKEND_CONFIG))
        self._attributes = [
            data + _shaped(SHAPE, self._shape(row)) for data, row in zip(attributes, first, strict=True)
        ]

    @property
    def shape_numbers(self) -> npt.NDArray[np.int64]:
        """A number for each shape in the columns, equal for shapes that are equal without tiles and memory spaces."""
        number = {data: n for n, data in enumerate(dict.fromkeys(self._shapes))}
        return np.array([number[data] for data in self._shapes], np.int64)

    def brief(self, row: int, fusions: Briefs) -> Brief | None:
        """Returns the summary of a fusion; None if all of it is included."""
        called = self._columns.callees.get(row, ())
        return fusions.of(called[0], len(self._taken(row))) if len(called) == 1 else None

    def single(self, row: int, brief: Brief | None = None) -> bytes:
        """Returns the serialized module of one instruction, or of the summary of a fusion."""
        numbers = {computation: number for number, computation in enumerate(self._reached(row), 1)}
        computations, last = [], 0
        for computation in numbers:
            if brief is not None and computation == self._columns.callees[row][0]:
                summary, last = self._summarized(computation, numbers, last, brief)
                computations.append(summary)
                continue
            computations.append(self._computation(computation, numbers, last))
            last += len(self._module.computations[computation].rows)
        entry = len(numbers) + 1
        takes = self._taken(row)
        taken = takes if brief is None else [takes[number] for number in brief.inputs.values()]
        operands = {other: last + n for n, other in enumerate(dict.fromkeys(taken), 1)}
        parameters = [_parameter(number, self._shape(other), n) for n, (other, number) in enumerate(operands.items())]
        last += len(operands) + 1
        root = self._instruction(row, last, [operands[other] for other in taken], numbers)
        program = self._program([*operands], row)
        body = b"".join(_bytes(_INSTRUCTIONS, each) for each in (*parameters, root))
        computations.append(_text(1, "main") + body + _bytes(4, program) + _number(5, entry) + _number(6, last))
        return b"".join([
            _text(1, "single"), _text(2, "main"), *(_bytes(3, each) for each in computations), _bytes(4, program),
            _number(6, entry),
        ])  # fmt: skip

    def _program(self, parameters: Sequence[int], result: int) -> bytes:
        """Serializes the program shape of a computation with parameters and a result of the shapes of these rows."""
        return b"".join(
            [_shaped(1, self._shape(row)) for row in parameters]
            + [_shaped(2, self._shape(result))]
            + [_text(3, f"p{n}") for n in range(len(parameters))]
        )

    def _shape(self, row: int) -> bytes:
        return self._shapes[self._codes[row]]

    def _instruction(self, row: int, number: int, taking: Sequence[int], numbers: Mapping[int, int]) -> bytes:
        """Serializes an instruction.

        Args:
          row: the row of the instruction.
          number: its position in the new module, from 1, which becomes its name, so that equal ones have equal bytes.
          taking: the numbers of its operands.
          numbers: the numbers of computations.
        """
        if row in self.calls:
            written = _as_operation(self._module.at(row), self._attributes[self._kinds[row]], taking)
        else:
            written = self._attributes[self._kinds[row]] + _packed(OPERAND_IDS, tuple(taking))
        if row in self.kernels:
            written += _bytes(BACKEND_CONFIG, self._module.at(row).backend_config)
        if row in self._calling:
            written += _packed(CALLED_COMPUTATION_IDS, tuple(numbers[each] for each in self._columns.callees[row]))
        return _named(number) + written

    def _taken(self, row: int) -> list[int]:
        offsets, rows = self._operands
        return rows[offsets[row] : offsets[row + 1]]

    def _reached(self, row: int) -> list[int]:
        """Returns the computations that an instruction calls, directly or not, callees before callers."""
        reached, waiting = set[int](), [*self._columns.callees.get(row, ())]
        while waiting:
            computation = waiting.pop()
            if computation not in reached:
                reached.add(computation)
                waiting += (
                    c.number for i in self._module.computations[computation].calling for c in i.called_computations
                )
        return sorted(reached)

    def _computation(self, computation: int, numbers: Mapping[int, int], last: int) -> bytes:
        """Serializes a computation, with instructions numbered after `last`."""
        body, number = self._module.computations[computation], numbers[computation]
        rows, root = body.rows, body.root.row
        before, opcodes = rows.start - 1 - last, self._columns.opcode_texts
        takes = {self._numbers[row]: row for row in rows if opcodes[row] == "parameter"}
        attributes, kinds, (offsets, operands) = self._attributes, self._kinds, self._operands
        written: list[bytes] = []
        for row in rows:
            taking = tuple([other - before for other in operands[offsets[row] : offsets[row + 1]]])
            if row in self._special:
                data = self._instruction(row, row - before, taking, numbers)
            else:  # the fast path for most instructions
                data = _named(row - before) + attributes[kinds[row]] + _packed(OPERAND_IDS, taking)
            written += _head(_INSTRUCTIONS, len(data)), data
        return b"".join([
            _text(1, f"c{number}"), *written, _bytes(4, self._program([takes[n] for n in sorted(takes)], root)),
            _number(5, number), _number(6, root - before), _number(7, int(body.proto.is_fusion_computation)),
        ])  # fmt: skip

    def _summarized(self, computation: int, numbers: Mapping[int, int], last: int, brief: Brief) -> tuple[bytes, int]:
        """Serializes the summary of a computation. Returns it and the number of its last instruction.

        Omitted operands are replaced by an iota or a constant, which do not affect costs.
        """
        number, places, stand_ins = numbers[computation], dict[int, int](), dict[bytes, int]()
        inputs = {row: place for place, row in enumerate(brief.inputs)}
        written: list[bytes] = []
        for row in brief.rows:
            taking = []
            for other in self._taken(row):
                shape = self._shape(other)
                place = places.get(other) or stand_ins.get(shape)
                if place is None:
                    place = stand_ins[shape] = last = last + 1
                    stand_in = _CONSTANT if self.are_scalars[self._codes[other]] else _IOTA
                    written.append(_named(place) + stand_in + _shaped(SHAPE, shape))
                taking.append(place)
            places[row] = last = last + 1
            if row in inputs:
                written.append(_parameter(last, self._shape(row), inputs[row]))
            else:
                written.append(self._instruction(row, last, taking, numbers))
        root = self._module.computations[computation].root.row
        return b"".join([
            _text(1, f"c{number}"), *(_bytes(_INSTRUCTIONS, each) for each in written),
            _bytes(4, self._program([*inputs], root)), _number(5, number), _number(6, places[root]), _number(7, 1),
        ]), last  # fmt: skip


_varint = functools.lru_cache(1 << 12)(write_varint)  # lengths and ids repeat


@functools.lru_cache(1 << 12)
def _head(number: int, length: int) -> bytes:
    return write_varint(number << 3 | 2) + write_varint(length)


def _bytes(number: int, data: bytes) -> bytes:
    return _head(number, len(data)) + data


@functools.lru_cache(1 << 12)
def _text(number: int, text: str) -> bytes:
    return _bytes(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


@functools.lru_cache(1 << 12)
def _packed(number: int, values: tuple[int, ...]) -> bytes:
    return _bytes(number, b"".join(map(_varint, values))) if values else b""


_PARAMETER, _CONSTANT = _text(OPCODE, "parameter"), _text(OPCODE, "constant")
_IOTA = _text(OPCODE, "iota") + _packed(DIMENSIONS, (0,))


@functools.lru_cache(1 << 12)
def _named(number: int) -> bytes:
    """Serializes the name and id of an instruction."""
    return _text(NAME, f"i{number}") + _number(ID, number)


@functools.lru_cache(1 << 12)
def _shaped(number: int, shape: bytes) -> bytes:
    """Serializes a shape field. Cached, because few shapes repeat often."""
    return _bytes(number, shape)


@functools.lru_cache(1 << 12)
def _parameter(number: int, shape: bytes, place: int) -> bytes:
    """Serializes a parameter."""
    return _named(number) + _PARAMETER + _bytes(SHAPE, shape) + _number(PARAMETER_NUMBER, place)


def _as_operation(call: Instruction, attributes: bytes, operands: Sequence[int]) -> bytes:
    """Converts a library call to the original operation, and serializes it with its shape and operands.

    The result of the call may include a scratch buffer, which is dropped.

    Args:
      call: the call.
      attributes: its serialized attributes and shape.
      operands: the numbers of its operands.
    """
    plain = call.module.columns.message("xla.HloInstructionProto", attributes)
    dimensions = product_dimensions(call)
    is_product = plain.custom_call_target.startswith(_CUBLAS_PRODUCTS)
    if not is_product or dimensions:
        plain.opcode = "dot" if is_product else "convolution"
        plain.ClearField("custom_call_target")
        for name, numbers in dimensions.items() if is_product else ():
            getattr(plain.dot_dimension_numbers, name).extend(numbers)
        if plain.shape.tuple_shapes:
            plain.shape.CopyFrom(type(plain.shape).FromString(plain.shape.tuple_shapes[0].SerializeToString()))
        operands = operands[:2]
    plain.operand_ids.extend(operands)
    return bytes(plain.SerializeToString())


def _is_plain(shape: Shape) -> bool:
    """Reports whether layouts contain only an order of dimensions."""
    return not any(leaf.layout and (leaf.layout.tiles or leaf.layout.memory_space) for leaf in shape.leaves)


def _plain_shape(shape: Any) -> bytes:
    """Serializes a shape with layouts reduced to the order of dimensions, without tiles and memory spaces."""
    for array in _arrays(shape):
        if array.HasField("layout"):
            for field in ("tiles", "memory_space", "tail_padding_alignment_in_elements"):
                array.layout.ClearField(field)
    return bytes(shape.SerializeToString())


def _arrays(shape: Any) -> Iterator[Any]:
    elements = set_fields(shape).get("tuple_shapes", ())
    for element in elements:
        yield from _arrays(element)
    if not elements:
        yield shape
