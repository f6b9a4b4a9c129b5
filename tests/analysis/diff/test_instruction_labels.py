"""Instruction labels, compared with protos without the irrelevant fields."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest

from inspector.analysis.diff.instruction_labels import labels
from inspector.hlo.module import Instruction, Module
from tests.analysis.edited import randomly_edited
from tests.analysis.planted import BASE
from tests.modules import changed, module_of, proto_of

NAMING = ("name", "id", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids", "channel_id",
          "statistics_viz", "original_value")  # fmt: skip
NOTING = ("backend_config", "frontend_attributes")
RECORDED = sorted((Path(__file__).parents[2] / "hlo" / "data").glob("*.pb"))


def said(instruction: Instruction) -> Any:
    plain = type(instruction.proto).FromString(instruction.proto.SerializeToString())
    for name in (*NAMING, *NOTING, "shape"):
        if name in plain.DESCRIPTOR.fields_by_name:
            plain.ClearField(name)
    return plain.SerializeToString(deterministic=True), (instruction.channel_id is not None)


def noted(instruction: Instruction) -> Hashable:
    return instruction.backend_config, frozenset(instruction.frontend_attributes.items())


LEVELS: tuple[Callable[[Instruction], Hashable], ...] = (
    lambda i: (said(i), i.shape),
    lambda i: (i.opcode, i.shape.without_layout()),
    said,
    lambda i: i.opcode,
)


def classes(instructions: Sequence[Instruction], key: Callable[[Instruction], Hashable]) -> list[int]:
    """The same number for the same key, from 0 in the order in which they come."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(key(instruction), len(known)) for instruction in instructions]


def renumbered(numbers: Sequence[int]) -> list[int]:
    known: dict[int, int] = {}
    return [known.setdefault(number, len(known)) for number in numbers]


def check(before: Module, after: Module) -> None:
    both = [module.at(row) for module in (before, after) for row in range(len(module.columns))]
    ours, theirs = labels(before, after)
    assert ours.levels[0] == ours.exact
    assert theirs.levels[0] == theirs.exact
    for level, key in enumerate(LEVELS):
        assert renumbered([*ours.levels[level], *theirs.levels[level]]) == classes(both, key), level
    assert renumbered([*ours.notes, *theirs.notes]) == classes(both, noted)


def with_notes(module: Module) -> Module:
    """With notes of all kinds, and other names, channels and layouts here and there."""
    proto = proto_of(module)
    for number, i in enumerate(i for c in proto.computations for i in c.instructions):
        i.name = f"other.{number}"
        i.metadata.op_name = f"jit(f)/{number}"
        if number % 3 == 0:
            i.backend_config = (b"", b"a", b"b")[number % 7 % 3]
        if number % 4 == 0:
            i.frontend_attributes.map["k"] = str(number % 5)
        if number % 8 == 0:
            i.frontend_attributes.map["j"] = "1"
        if number % 5 == 0 and i.channel_id:
            i.channel_id = 77
        if number % 6 == 0 and i.shape.HasField("layout") and len(i.shape.layout.minor_to_major) == 2:
            i.shape.layout.minor_to_major.reverse()
    return changed(proto)


@pytest.mark.parametrize("seed", range(4))
def test_labels_are_equal_for_equal_relevant_properties(seed: int) -> None:
    base = module_of(BASE)
    check(base, randomly_edited(with_notes(base), seed, 5))
    check(with_notes(base), base)


@pytest.mark.parametrize(
    "path", [path for path in RECORDED if path.stat().st_size < 200_000], ids=lambda path: path.name
)
def test_labels_of_recorded_modules(path: Path) -> None:
    module = Module.from_proto(path.read_bytes())
    check(module, with_notes(module))


def test_every_level_distinguishes_more_than_the_next() -> None:
    ours, _ = labels(module_of(BASE), with_notes(module_of(BASE)))
    counts = [len(collections.Counter(level)) for level in ours.levels]
    assert counts[0] > counts[1] > counts[3]
    assert counts[0] > counts[2] > counts[3]
