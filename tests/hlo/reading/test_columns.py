"""Columns of real modules against the protos that they were read from, and of modules written in other ways."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.errors import ModuleError
from inspector.hlo.execution_counts import places
from inspector.hlo.module import Module
from inspector.hlo.reading.columns import Columns
from inspector.hlo.reading.field_numbers import CHANNEL_ID, OPERAND_IDS, PARAMETER_NUMBER
from inspector.hlo.reading.instruction_kinds import alike
from inspector.hlo.reading.message_fields import MOST_FIELDS
from inspector.hlo.reading.single_instructions import singles
from inspector.support.varints import write_varint
from tests.modules import changed, module_of, proto_of

DATA = Path(__file__).parents[1] / "data"
FILES = sorted([*DATA.glob("*.pb"), *(DATA / "heaps").glob("*.hlo.pb.gz")], key=lambda file: file.name)


def load(file: Path) -> Module:
    return Module.from_proto(gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes())


def protos(proto: Any) -> Iterator[tuple[int, Any]]:
    for number, computation in enumerate(proto.computations):
        for instruction in computation.instructions:
            yield number, instruction


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_columns_equal_the_proto(file: Path) -> None:
    module = load(file)
    columns, proto = module.columns, proto_of(module)
    listed = list(protos(proto))
    assert columns.names == [i.name for _, i in listed]
    assert columns.ids.tolist() == [i.id for _, i in listed]
    assert [columns.metadata.at(row) for row in range(len(columns))] == [
        i.metadata.SerializeToString() for _, i in listed
    ]
    assert columns.integers(PARAMETER_NUMBER).tolist() == [i.parameter_number for _, i in listed]
    assert columns.integers(CHANNEL_ID).tolist() == [i.channel_id for _, i in listed]
    assert columns.in_computation.tolist() == [number for number, _ in listed]
    assert [columns.opcodes.values[code] for code in columns.opcodes.codes] == [i.opcode for _, i in listed]
    assert [columns.shapes.at(row) for row in range(len(columns))] == [i.shape.SerializeToString() for _, i in listed]
    row_of = {(number, i.id): row for row, (number, i) in enumerate(listed)}
    operands = [[row_of[number, each] for each in i.operand_ids] for number, i in listed]
    assert [columns.operands.of(row) for row in range(len(columns))] == operands
    numbers = {computation.id: number for number, computation in enumerate(proto.computations)}
    called = [[numbers[each] for each in i.called_computation_ids] for _, i in listed]
    assert [columns.called.of(row) for row in range(len(columns))] == called
    assert columns.called.having.tolist() == [row for row, each in enumerate(called) if each]
    users = [[row for row, taken in enumerate(operands) if each in taken] for each in range(min(len(listed), 300))]
    assert [columns.users.of(row) for row in range(len(users))] == users
    assert columns.roots.tolist() == [row_of[n, c.root_id] for n, c in enumerate(proto.computations)]
    for row in range(0, len(columns), max(1, len(columns) // 200)):
        assert columns.instruction(row) == listed[row][1]
    for number, computation in enumerate(proto.computations):
        computation.ClearField("instructions")
        assert columns.computation(number) == computation
    proto.ClearField("computations")
    assert columns.module == proto


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_equal_instructions_have_equal_attributes_operands_and_bodies(file: Path) -> None:
    module = load(file)
    naming = {"name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids"}
    bodies: dict[str, Any] = {}
    keys = []
    for computation in module.computations:
        here = []
        position = {instruction: n for n, instruction in enumerate(computation.instructions)}
        for instruction in computation.instructions:
            proto = instruction.proto
            for name in naming:
                proto.ClearField(name)
            operands = instruction.operands
            here.append(
                (
                    proto.SerializeToString(),
                    tuple(operand.proto.shape.SerializeToString() for operand in operands),
                    tuple(operands.index(operand) for operand in operands),
                    tuple(bodies[called.name] for called in instruction.called_computations),
                )
            )
        wiring = tuple(tuple(position[o] for o in i.operands) for i in computation.instructions)
        # As numbers: nested keys of large modules take minutes to compare.
        body = tuple(map(_number, here)), wiring, position[computation.root]
        bodies[computation.name] = _number(body)
        keys += here
    kinds = module.alike.kinds.tolist()
    assert len(set(zip(map(_number, keys), kinds, strict=True))) == len(set(kinds)) == len(set(map(_number, keys)))
    first = {kind: row for row, kind in reversed(list(enumerate(kinds)))}
    assert module.alike.first.tolist() == [first[kind] for kind in range(len(first))]
    assert module.alike.counts.tolist() == [kinds.count(kind) for kind in range(len(first))]


_numbers: dict[Any, int] = {}


def _number(key: Any) -> int:
    return _numbers.setdefault(key, len(_numbers))


TEXT = """HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
maximum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  z = f32[] constant(0)
  twice = f32[4] add(x, x)
  both = f32[4] add(x, y)
  again = f32[4] add(y, x)
  one = f32[] reduce(both, z), dimensions={0}, to_apply=sum
  two = f32[] reduce(again, z), dimensions={0}, to_apply=sum
  three = f32[] reduce(again, z), dimensions={0}, to_apply=maximum
  ROOT t = (f32[], f32[], f32[], f32[4]) tuple(one, two, three, twice)
}
"""


def kind_of(module: Module, name: str) -> int:
    return int(module.alike.kinds[module.instruction(name).row])


def test_operands_compare_by_identity_and_bodies_by_content() -> None:
    module = module_of(TEXT)
    assert kind_of(module, "both") == kind_of(module, "again") != kind_of(module, "twice")
    assert kind_of(module, "one") == kind_of(module, "two") != kind_of(module, "three")
    assert kind_of(module, "x") != kind_of(module, "y")  # another number of parameter


def test_equal_instruction_contents_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(TEXT)
    assert len(module.columns.contents) < len(module.columns)
    monkeypatch.setattr("inspector.hlo.reading.instruction_messages.Fields", lambda messages: pytest.fail("read again"))
    assert len(module.kind_attributes(())) == len(module.alike.first)
    assert singles(module)


CALLS = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  one = f32[4] custom-call(x), custom_call_target="__cublas$gemm"
  two = f32[4] custom-call(one), custom_call_target="mine"
  three = f32[4] custom-call(two), custom_call_target="__cublas$lt$matmul"
  ROOT y = f32[4] negate(three)
}
"""


def test_rows_by_opcode_and_by_called_computation() -> None:
    module = module_of(CALLS)
    rows = {name: module.instruction(name).row for name in ("x", "one", "two", "three", "y")}
    assert module.columns.rows_of({"parameter", "negate"}.__contains__) == [rows["x"], rows["y"]]
    assert module.columns.rows_of("while".__eq__) == []
    assert module.calls_to(("__cublas$",)) == [rows["one"], rows["three"]]
    assert module.calls_to(("mine", "__cublas$gemm")) == [rows["one"], rows["two"]]


def test_fields_and_shapes_can_be_left_out() -> None:
    proto = proto_of(module_of(TEXT))
    entry = proto.computations[-1]
    both, again = (next(i for i in entry.instructions if i.name == name) for name in ("both", "again"))
    again.channel_id = 7
    again.shape.layout.memory_space = 1
    module = changed(proto)
    assert kind_of(module, "both") != kind_of(module, "again")
    rows = [module.instruction(i.name).row for i in (both, again)]
    same = [0] * len(module.columns.shapes.values)
    for without, shapes, equal in [((), None, False), ((CHANNEL_ID,), None, False), ((CHANNEL_ID,), same, True)]:
        numbers = None if shapes is None else np.array(shapes)
        one, other = alike(module.columns, without, numbers).kinds[rows]
        assert bool(one == other) == equal


def test_computations_that_call_each_other_are_refused() -> None:
    proto = proto_of(module_of(TEXT))
    inner = next(c for c in proto.computations if c.id != proto.entry_computation_id)
    for target, said in ((inner.id, "calls itself"), (999, "refers to computation 999, which it does not have")):
        inner.instructions[-1].called_computation_ids[:] = [target]
        with pytest.raises(ModuleError, match=said):
            alike(Columns(proto.SerializeToString()))
        with pytest.raises(ModuleError, match=said):
            places(changed(proto))


def rewritten(proto: Any, change: Any) -> bytes:
    """The module with each instruction's bytes changed."""
    data = b""
    for computation in proto.computations:
        body = b"".join(_bytes(2, change(i.SerializeToString(), i)) for i in computation.instructions)
        computation.ClearField("instructions")
        data += _bytes(3, computation.SerializeToString() + body)
    proto.ClearField("computations")
    return bytes(proto.SerializeToString() + data)


def _bytes(number: int, data: bytes) -> bytes:
    return write_varint(number << 3 | 2) + write_varint(len(data)) + data


def unpacked(data: bytes, instruction: Any) -> bytes:
    copy = type(instruction).FromString(data)
    copy.ClearField("operand_ids")
    one_by_one = (write_varint(OPERAND_IDS << 3) + write_varint(each) for each in instruction.operand_ids)
    return bytes(copy.SerializeToString() + b"".join(one_by_one))


def in_two_lists(data: bytes, instruction: Any) -> bytes:
    copy = type(instruction).FromString(data)
    copy.ClearField("operand_ids")
    return bytes(
        copy.SerializeToString() + b"".join(_bytes(OPERAND_IDS, write_varint(i)) for i in instruction.operand_ids)
    )


def named_twice(data: bytes, instruction: Any) -> bytes:
    return _bytes(1, b"old") + data + _bytes(1, instruction.name.encode())


def backwards(data: bytes, instruction: Any) -> bytes:
    fields = [type(instruction)() for _ in instruction.ListFields()]
    for one, (field, value) in zip(fields, instruction.ListFields(), strict=True):
        if field.is_repeated:
            getattr(one, field.name).extend(value)
        elif field.message_type is not None:
            getattr(one, field.name).CopyFrom(value)
        else:
            setattr(one, field.name, value)
    return b"".join(one.SerializeToString() for one in reversed(fields))


@pytest.mark.parametrize("change", [unpacked, in_two_lists, named_twice, backwards])
def test_other_ways_to_write_a_module(change: Any) -> None:
    expected = module_of(TEXT)
    found = Module.from_proto(rewritten(proto_of(expected), change))
    assert found.columns.names == expected.columns.names
    for one, other in zip(found.instructions(), expected.instructions(), strict=True):
        assert [o.name for o in one.operands] == [o.name for o in other.operands]
        assert (one.opcode, one.shape, one.id, one.proto) == (other.opcode, other.shape, other.id, other.proto)


def scattered(computation: Any) -> bytes:
    """Writes a computation with its other fields between its instructions."""
    instructions = [_bytes(2, i.SerializeToString()) for i in computation.instructions]
    computation.ClearField("instructions")
    return instructions[0] + computation.SerializeToString() + b"".join(instructions[1:])


def long_sizes(computation: Any) -> bytes:
    """Sizes in a byte more than they need."""
    data = b""
    for instruction in computation.instructions:
        written = instruction.SerializeToString()
        size = bytearray(write_varint(len(written)))
        size[-1] |= 0x80
        data += b"\x12" + bytes(size) + b"\0" + written
    computation.ClearField("instructions")
    return bytes(computation.SerializeToString() + data)


@pytest.mark.parametrize("write", [scattered, long_sizes])
@pytest.mark.parametrize("wrapped", ["", "whole", "in parts"])
def test_other_ways_to_write_computations(write: Any, wrapped: str) -> None:
    expected = module_of(TEXT)
    proto = proto_of(expected)
    bodies = [_bytes(3, write(computation)) for computation in proto.computations]
    proto.ClearField("computations")
    parts = [proto.SerializeToString(), *bodies]
    data = b"".join(_bytes(1, part) for part in parts) if wrapped == "in parts" else b"".join(parts)
    found = Module.from_proto(_bytes(1, data) if wrapped == "whole" else data)
    assert [c.name for c in found.computations] == [c.name for c in expected.computations]
    assert [c.proto for c in found.computations] == [c.proto for c in expected.computations]
    assert [i.proto for i in found.instructions()] == [i.proto for i in expected.instructions()]
    assert found.entry.root.name == expected.entry.root.name


def test_an_instruction_with_very_many_groups() -> None:
    proto = proto_of(module_of(TEXT))
    instruction = next(i for i in proto.computations[-1].instructions if i.name == "twice")
    for n in range(3 * MOST_FIELDS):
        instruction.replica_groups.add(replica_ids=[2 * n, 2 * n + 1])
    instruction.channel_id = 9
    instruction.backend_config = b"noted"
    module = changed(proto)
    found = module.instruction(instruction.name)
    assert (found.channel_id, found.backend_config, [o.name for o in found.operands]) == (9, b"noted", ["x", "x"])
    assert len(found.proto.replica_groups) == 3 * MOST_FIELDS
    assert found.replica_groups.expand().tolist()[-1] == [6 * MOST_FIELDS - 2, 6 * MOST_FIELDS - 1]


def test_a_name_with_a_zero_byte() -> None:
    proto = proto_of(module_of(TEXT))
    proto.computations[-1].instructions[0].name = "x\0y"
    names = [i.name for computation in proto.computations for i in computation.instructions]
    assert changed(proto).columns.names == names


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (write_varint(1 << 3) + b"\x05", "name, id or operands"),  # a number for a name
        (write_varint(35 << 3 | 2) + b"\x01x", "name, id or operands"),  # a text for an id
        (_bytes(36, b"\x80"), "does not end"),
        (_bytes(3, b"abc")[:-1], "ends after it"),
        (_bytes(36, b"abc")[:-1], "ends after it"),
        (write_varint(5 << 3 | 3), "an unknown type"),
        (write_varint(90 << 3 | 3), "an unknown type"),
    ],
)
def test_a_damaged_instruction_is_refused(written: bytes, said: str) -> None:
    data = rewritten(proto_of(module_of(TEXT)), lambda data, instruction: written)
    with pytest.raises(ModuleError, match=said):
        _ = Columns(data).operands


def test_absent_fields_are_empty() -> None:
    proto = proto_of(module_of(TEXT))
    instruction = proto.computations[-1].instructions[0]
    for field in ("opcode", "shape", "name", "id"):
        instruction.ClearField(field)
    module = changed(proto)
    found = module.at(module.entry.rows.start)
    assert (found.name, found.opcode, found.id, found.backend_config, found.op_name) == ("", "", 0, b"", "")
    assert found.shape.element_type == "primitive_type_invalid"


def test_equal_ids_in_different_computations_are_different_instructions() -> None:
    proto = proto_of(module_of(TEXT))
    for computation in proto.computations:
        new = {i.id: n for n, i in enumerate(computation.instructions)}
        for i in computation.instructions:
            i.operand_ids[:] = [new[each] for each in i.operand_ids]
            i.id = new[i.id]
        computation.root_id = new[computation.root_id]
    module, expected = changed(proto), module_of(TEXT)
    for one, other in itertools.zip_longest(module.instructions(), expected.instructions()):
        assert [o.name for o in one.operands] == [o.name for o in other.operands]
        assert [o.name for o in one.users] == [o.name for o in other.users]
        assert one.is_root == other.is_root
