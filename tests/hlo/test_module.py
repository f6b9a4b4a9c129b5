"""Modules of both JAX versions against what the oracle's parser reads in their text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.errors import ModuleError
from inspector.hlo.module import Instruction, Module
from inspector.hlo.source import Frame
from inspector.toolchain.schema import installed_schema
from tests.groups import to_lists
from tests.modules import changed, proto_of

DATA = Path(__file__).parent / "data"
CASES = sorted(file.name.removesuffix(".pb") for file in DATA.glob("*.pb"))


def load(case: str) -> Module:
    return Module.from_proto((DATA / f"{case}.pb").read_bytes())


def expected(case: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for computation, instructions in json.loads((DATA / f"{case}.json").read_text())["comps"].items():
        for instruction in instructions:
            yield computation, instruction


def sugared_opcode(instruction: Instruction) -> str:
    """The text of jaxlib for the generic asynchronous opcodes."""
    if not instruction.opcode.startswith("async-"):
        return instruction.opcode
    inner = instruction
    while not inner.called_computations:
        inner = inner.operands[0]
    return inner.called_computations[0].root.opcode + instruction.opcode.removeprefix("async")


def test_there_are_cases_of_both_versions() -> None:
    assert {case[-4:] for case in CASES} == {"0.10", "0.12"}


@pytest.mark.parametrize("case", CASES)
def test_instructions(case: str) -> None:
    module = load(case)
    names = set()
    for computation, parsed in expected(case):
        names.add(parsed["name"])
        instruction = module.instruction(parsed["name"])
        assert instruction.computation.name == computation
        assert sugared_opcode(instruction) == parsed["opcode"]
        assert instruction.is_root == parsed["root"]
        assert str(instruction.shape.without_layout()).replace(" ", "") == parsed["shape"]
        if parsed["opcode"] not in ("constant", "parameter", "iota"):
            assert [operand.name for operand in instruction.operands] == parsed["operands"]
        if parsed["opcode"] == "parameter":
            assert instruction.parameter_number == int(parsed["operands"])
            assert instruction.computation.parameters[int(parsed["operands"])] is instruction
        if parsed.get("replica_groups") and not instruction.opcode.startswith("async-"):
            assert to_lists(instruction.replica_groups) == parsed["replica_groups"]
        if "source_target_pairs" in parsed:
            assert [list(pair) for pair in instruction.source_target_pairs] == parsed["source_target_pairs"]
    hidden = {i.name for i in module.instructions() if i.computation.execution_thread or is_wrapped(i)}
    assert names == {i.name for i in module.instructions()} - hidden


def is_wrapped(instruction: Instruction) -> bool:
    callers = instruction.computation.module.callers.get(instruction.computation.name, ())
    return any(caller.opcode.startswith("async-") for caller in callers)


@pytest.mark.parametrize("case", CASES)
def test_entry(case: str) -> None:
    module = load(case)
    assert module.entry.name == json.loads((DATA / f"{case}.json").read_text())["entry"]
    assert module.entry.is_entry
    assert sum(computation.is_entry for computation in module.computations) == 1


@pytest.mark.parametrize("version", ["0.10", "0.12"])
def test_origins_point_at_the_lines_that_made_them(version: str) -> None:
    module = load(f"shard_map.{version}")
    origins = module.origins()
    line = json.loads((DATA / f"shard_map.{version}.json").read_text())["ppermute_line"]
    for instruction in module.instructions():
        if instruction.opcode == "collective-permute":
            origin = origins[instruction.name]
            assert origin == instruction.origin
            assert origin.op_name == instruction.op_name == "jit(every_collective)/shard_map/ppermute"
            assert origin.frames[0] == Frame("tests/hlo/make_data.py", line, "every_collective")
            assert [f.function for f in origin.frames] == ["every_collective", "save_compiled", "main", "<module>"]
            break
    else:
        pytest.fail("no collective-permute in the module")
    unknown = {i.name for i in module.instructions()} - set(origins)
    assert all(module.instruction(name).origin.op_name == "" for name in unknown)


def test_old_metadata_without_a_stack() -> None:
    module = load("plain.0.10")
    copy = proto_of(module)
    instruction = copy.computations[0].instructions[0]
    instruction.metadata.stack_frame_id = 0
    instruction.metadata.source_file, instruction.metadata.source_line = "f.py", 7
    origins = Module.from_proto(copy.SerializeToString()).origins()
    assert origins[instruction.name].frames == (Frame("f.py", 7),)


def test_ids_of_0_name_nothing() -> None:
    """Ids count from 1: 0 is no stack, no location, no name, and never the last one."""
    module = load("plain.0.12")
    proto = proto_of(module)
    index = proto.stack_frame_index
    assert index.stack_frames
    metadata = type(proto.computations[0].instructions[0].metadata)(op_name="f/add")
    assert module.origin_of(metadata).frames == ()
    metadata.stack_frame_id = len(index.stack_frames) + 1
    assert module.origin_of(metadata).frames == ()
    alone = index.stack_frames.add(file_location_id=0, parent_frame_id=0)
    assert changed(proto).origin_of(metadata).frames == ()
    index.file_locations.add(file_name_id=1, function_name_id=0, line=3)
    alone.file_location_id = len(index.file_locations)
    assert changed(proto).origin_of(metadata).frames == (Frame(index.file_names[0], 3, ""),)


def test_calls() -> None:
    module = load("shard_map.0.12")
    (loop,) = (i for i in module.entry.instructions if i.opcode == "while")
    body, condition = loop.called_computations
    assert condition.root.shape.element_type == "pred"
    assert any(i.opcode == "all-reduce" for i in body.instructions)
    assert module.callers[body.name] == (loop,)
    assert loop.to_apply is None
    reduction = next(i for i in body.instructions if i.opcode == "all-reduce")
    assert reduction.to_apply is not None
    assert reduction.to_apply.root.opcode == "add"
    assert b"known_trip_count" in loop.backend_config


def test_a_partitioned_module_marks_collectives_of_the_partitioner() -> None:
    module = load("partitioned.0.12")
    made = [i for i in module.instructions() if i.frontend_attributes.get("is_spmd_generated") == "true"]
    assert {i.opcode for i in made} == {"all-reduce", "all-gather"}


def test_hlo_proto_is_accepted() -> None:
    data = (DATA / "plain.0.12.pb").read_bytes()
    wrapper = installed_schema().message("xla.HloProto")()
    wrapper.hlo_module.ParseFromString(data)  # type: ignore[attr-defined]
    assert Module.from_proto(wrapper.SerializeToString()).name == load("plain.0.12").name


@pytest.mark.parametrize("data", [b"", b"HloModule m", b"\x00" * 20, b"\x0a\x03abc"], ids=repr)
def test_other_bytes(data: bytes) -> None:
    with pytest.raises(ModuleError, match=rf"Cannot read {len(data)} bytes as an HLO module: expected a serialized"):
        Module.from_proto(data)


def test_truncated_bytes() -> None:
    data = (DATA / "plain.0.12.pb").read_bytes()
    for length in range(1, len(data) - 1, 97):
        with pytest.raises(ModuleError):
            Module.from_proto(data[:length])


def test_names_that_are_not_there() -> None:
    module = load("plain.0.12")
    with pytest.raises(ModuleError, match="has no instruction 'nope'"):
        module.instruction("nope")
    with pytest.raises(ModuleError, match="has no computation 'nope'"):
        module.computation("nope")
    assert module.instruction("%tuple.1") is module.entry.root


def test_damaged_references() -> None:
    module = load("plain.0.12")
    copy = proto_of(module)
    entry = next(c for c in copy.computations if c.id == copy.entry_computation_id)
    entry.instructions[-1].operand_ids[0] = 999
    with pytest.raises(ModuleError, match="refers to instruction 999, which it does not have"):
        _ = Module.from_proto(copy.SerializeToString()).entry.instructions[-1].operands


@pytest.mark.slow
def test_large_modules_are_fast() -> None:
    """About 220,000 instructions: read, walked with shapes and origins. Measured 0.6 s on two shared cores."""
    big = proto_of(load("shard_map.0.12"))
    entry = next(c for c in big.computations if c.id == big.entry_computation_id)
    originals = list(entry.instructions)
    for copy in range(220_000 // len(originals)):
        for original in originals:
            instruction = entry.instructions.add()
            instruction.CopyFrom(original)
            instruction.name = f"{original.name}.copy{copy}"
    data = big.SerializeToString()
    start = time.process_time()
    module = Module.from_proto(data)
    origins = module.origins()
    byte_count = sum(instruction.shape.byte_size for instruction in module.instructions())
    seconds = time.process_time() - start
    assert len(origins) > 150_000
    assert byte_count > 1_000_000
    assert seconds < 4
