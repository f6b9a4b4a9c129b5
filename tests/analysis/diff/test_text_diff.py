"""Differences of texts and of modules."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inspector
from inspector.analysis.diff.text_diff import InstructionChanges, instruction_changes, instruction_multiset, line_hunks
from inspector.engines.inline import InlineEngine
from inspector.hlo.module import Module
from tests.modules import changed, proto_of

texts = st.lists(
    st.sampled_from(["a", "b", "c", "", "  %x = f32[] add(a, b)", "unique"]) | st.text(max_size=3), max_size=30
)


@st.composite
def edited(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A text and the same after a few edits, which random pairs hardly ever are."""
    before = draw(texts)
    after = list(before)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(after)))
        after[at : at + draw(st.integers(0, 3))] = draw(st.lists(st.sampled_from(["a", "new", "x y"]), max_size=3))
    return before, after


def apply(before: Sequence[str], after: Sequence[str], hunks: Any) -> list[str]:
    result, position = [], 0
    for a0, a1, b0, b1 in hunks:
        result += before[position:a0]
        result += after[b0:b1]
        position = a1
    return result + list(before[position:])


@settings(max_examples=300)
@given(edited() | st.tuples(texts, texts))
def test_hunks_turn_the_first_text_into_the_second(pair: tuple[list[str], list[str]]) -> None:
    before, after = pair
    hunks = line_hunks(before, after)
    assert apply(before, after, hunks) == after
    back = [(b0, b1, a0, a1) for a0, a1, b0, b1 in hunks]
    assert apply(after, before, back) == before
    assert (not hunks) == (before == after)


@given(edited() | st.tuples(texts, texts))
def test_hunks_are_ordered_separate_and_never_empty(pair: tuple[list[str], list[str]]) -> None:
    a_end = b_end = -1
    for a0, a1, b0, b1 in line_hunks(*pair):
        assert a0 <= a1
        assert b0 <= b1
        assert (a0, b0) != (a1, b1)
        # At least one equal line between two hunks, or they would be one.
        assert a0 > a_end
        assert b0 > b_end
        assert a0 - a_end == b0 - b_end
        a_end, b_end = a1, b1


def test_small_changes_to_a_long_text_are_small_hunks() -> None:
    before = ["same" if i % 3 else f"line {i}" for i in range(20_000)]
    after = list(before)
    after[12_345] = "changed"
    after.insert(500, "inserted")
    assert line_hunks(before, after) == ((500, 500, 500, 501), (12_345, 12_346, 12_346, 12_347))


def test_a_large_gap_without_anchors_is_one_hunk_rather_than_a_wait() -> None:
    before, after = ["x", "y"] * 2000, ["y", "y", "x"] * 1500
    hunks = line_hunks(before, after)
    assert apply(before, after, hunks) == after
    assert len(hunks) <= 2


# --------------------------------------------------------------------------- modules


def compile_(fun: Callable[..., Any], *args: Any, **flags: Any) -> Module:
    return inspector.lower(fun, *args).compile(flags, engine=InlineEngine()).module()


def changes(before: Module, after: Module) -> InstructionChanges:
    return instruction_changes(instruction_multiset(before), instruction_multiset(after))


def net(x: Any, w: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        return jnp.tanh(carry @ w), carry.sum()

    y, sums = jax.lax.scan(body, x, None, length=3)
    return jax.lax.cond(y.sum() > 0, lambda v: v * 2, lambda v: v - 1, y), sums


X = np.ones((4, 4), np.float32)


@pytest.fixture(scope="module")
def compiled() -> Module:
    return compile_(net, X, X)


def copy_of(module: Module) -> Any:
    return proto_of(module)


def renumbered(module: Module, seed: int) -> Module:
    """Every id and name replaced by a random one: the same program."""
    proto = copy_of(module)
    generator = random.Random(seed)
    new = lambda ids: dict(zip(ids, generator.sample(range(1, 10**6), len(ids)), strict=True))  # noqa: E731
    computations = new([c.id for c in proto.computations])
    proto.entry_computation_id = computations[proto.entry_computation_id]
    proto.name = "other"
    for computation in proto.computations:
        instructions = new([i.id for i in computation.instructions])
        computation.id = computations[computation.id]
        computation.name = f"c.{computation.id}"
        computation.root_id = instructions[computation.root_id]
        for i in computation.instructions:
            i.id = instructions[i.id]
            i.name = f"i.{i.id}.{computation.id}"
            i.metadata.Clear()
            for field, numbers in (
                ("operand_ids", instructions),
                ("control_predecessor_ids", instructions),
                ("called_computation_ids", computations),
            ):
                values = [numbers[v] for v in getattr(i, field)]
                i.ClearField(field)
                getattr(i, field).extend(values)
    return changed(proto)


@pytest.mark.parametrize("seed", range(5))
def test_names_and_numbers_are_not_differences(compiled: Module, seed: int) -> None:
    found = changes(compiled, renumbered(compiled, seed))
    total = sum(1 for _ in compiled.instructions())
    assert found.same
    assert found.common == total
    assert str(found) == f"the same {total:,} instructions"


def test_lowered_again_elsewhere_is_the_same(compiled: Module) -> None:
    def renamed_net(a: Any, b: Any) -> Any:
        return net(a, b)

    assert changes(compiled, compile_(renamed_net, X, X)).same


def test_a_disabled_pass_is_a_difference(compiled: Module) -> None:
    other = compile_(net, X, X, xla_disable_hlo_passes="fusion,cpu-instruction-fusion")
    found = changes(compiled, other)
    assert not found.same
    assert found.common > 0
    count = lambda module: sum(1 for _ in module.instructions())  # noqa: E731
    assert found.common + found.only_before.total() == count(compiled)
    assert found.common + found.only_after.total() == count(other)
    assert "only in" in str(found)


@pytest.mark.parametrize(
    "change",
    [
        lambda i: setattr(i, "opcode", "cosine") if i.opcode == "tanh" else None,
        lambda i: i.literal.f32s.__setitem__(0, 3.5) if i.opcode == "constant" and len(i.literal.f32s) else None,
        lambda i: setattr(i, "comparison_direction", "LE") if i.opcode == "compare" else None,
        lambda i: i.operand_ids.reverse() if i.opcode in ("subtract", "compare", "dot") else None,
    ],
)
def test_another_computation_is_a_difference(compiled: Module, change: Callable[[Any], None]) -> None:
    proto = copy_of(compiled)
    before = proto.SerializeToString(deterministic=True)
    for computation in proto.computations:
        for instruction in computation.instructions:
            change(instruction)
    assert proto.SerializeToString(deterministic=True) != before
    assert not changes(compiled, changed(proto)).same


def test_words() -> None:
    from collections import Counter

    found = InstructionChanges(Counter({"add": 1200, "dot": 3}), Counter("abcdef"), common=7)
    assert str(found) == (
        "1,203 only in the baseline (1,200 add, 3 dot); 6 only in the variant (1 a, 1 b, 1 c, 1 d, 2 other); 7 in both"
    )
