"""Instructions of real programs followed to the compiled program: what is in it is not called gone, what is named is in it."""

from __future__ import annotations

import functools
import re

import pytest

import inspector
from inspector.analysis.passes.correspondence import Certainty
from inspector.analysis.passes.follow import Following
from inspector.errors import CompilationError, Unavailable
from inspector.hlo.module import Module
from inspector.hlo.source import merged_names
from inspector.stages.passes import CompilerPasses
from tests.absent import needs_gpu, needs_tpu
from tests.analysis.passes.test_step_descriptions import entry, recorded
from tests.followed_programs import PROGRAMS, Program
from tests.sharded_programs import sharded_program

TARGETS = ["cpu", pytest.param("gpu:h100:1", marks=needs_gpu), pytest.param("tpu:v5e:1x1", marks=needs_tpu)]
SHARDED = ["cpu:8", pytest.param("gpu:h100:8", marks=needs_gpu), pytest.param("tpu:v5e:2x4", marks=needs_tpu)]
QUICK = ("gradient of attention", "gradient of a strided convolution", "condition", "Fourier transform")


@functools.lru_cache(maxsize=2)
def compiled(name: str, target: str) -> tuple[CompilerPasses, Module]:
    return compile_(PROGRAMS[name], target)


def compile_(program: Program, target: str) -> tuple[CompilerPasses, Module]:
    fun, arguments = program
    try:
        found = inspector.lower(fun, *arguments, target=target).compile(target=target, products=("passes",))
    except CompilationError as e:
        if "No FFI handler" in str(e):
            pytest.skip("a library is missing that this needs")
        raise
    assert not isinstance(found.passes, Unavailable)
    return found.passes, found.module()


def check_followed(passes: CompilerPasses, optimized: Module) -> None:
    """Follows every instruction before all passes, and holds the answers against the optimized HLO."""
    last = passes.history.snapshots.places(passes[-1].after_index).keys()
    names = {i.name for i in optimized.instructions()}
    operations = {name for i in optimized.instructions() if i.opcode != "parameter" for name in merged_names(i.op_name)}
    for each in passes.module(0, before=True).instructions():
        if each.name not in passes.history.snapshots.places(passes[0].before_index):
            continue  # an element of a tuple, which newer snapshots have no name for
        found = passes.follow(each.name)
        assert set(found.last) <= last
        for name in _told(found):
            assert name in names, found
        if each.op_name and each.opcode != "parameter" and each.op_name in operations:
            assert not found.fate.startswith("gone"), found
            assert found.last or found.certainty is Certainty.LOST, found


def _told(found: Following) -> list[str]:
    """The first instruction that an answer names in the compiled program."""
    return re.findall(r"^in the compiled program as ([^ ,]+)", found.fate)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", QUICK)
def test_instructions_of_the_compiled_program_are_not_gone(name: str, target: str) -> None:
    check_followed(*compiled(name, target))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in QUICK])
def test_instructions_of_random_programs_are_not_gone(name: str, target: str) -> None:
    check_followed(*compiled(name, target))


@pytest.mark.slow
@pytest.mark.parametrize("target", SHARDED)
@pytest.mark.parametrize("seed", range(200, 206))
def test_instructions_of_sharded_programs_are_not_gone(seed: int, target: str) -> None:
    check_followed(*compile_(sharded_program(seed), target))


@pytest.mark.parametrize("target", TARGETS)
def test_each_product_of_a_gradient_becomes_one_of_the_compiled_program(target: str) -> None:
    """Algsimp turns the transpose of a product into a product of the operands in the other order."""
    passes, optimized = compiled("gradient of attention", target)
    products = [i for i in passes.module(0, before=True).instructions() if i.opcode == "dot"]
    followed = {each.name: passes.follow(each.name) for each in products}
    assert len(products) == 6
    assert all(found.last for found in followed.values()), followed
    assert all("by op_name" not in found.fate for found in followed.values()), followed
    assert len({found.last for found in followed.values()}) > 4
    assert {name for found in followed.values() for name in found.last} <= {i.name for i in optimized.instructions()}


@pytest.mark.parametrize("target", TARGETS)
def test_both_branches_of_a_condition_end_in_the_compiled_program(target: str) -> None:
    """GPUs compute both and select: copies of what the branches do, which the pass leaves behind for another to remove."""
    passes, _ = compiled("condition", target)
    for each in passes.module(0, before=True).instructions():
        if each.opcode in ("sine", "cosine", "multiply"):
            found = passes.follow(each.name)
            assert found.last, found
            assert found.certainty in (Certainty.KEPT, Certainty.ALTERED, Certainty.EQUAL, Certainty.PLACE), found


# ------------------------------------------------------------------ planted

TRANSPOSED = entry(
    '%dot = f32[8,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot"}',
    'ROOT %transpose = f32[4,8]{1,0} transpose(%dot), dimensions={1,0}, metadata={op_name="jit(f)/transpose"}',
)
SWAPPED = entry(
    'ROOT %dot.1 = f32[4,8]{1,0} dot(%b, %a), lhs_contracting_dims={0}, rhs_contracting_dims={1}, metadata={op_name="jit(f)/transpose"}',
)  # fmt: skip


def test_a_transposed_product_is_the_product_of_the_other_order() -> None:
    passes = CompilerPasses.of(recorded(TRANSPOSED, SWAPPED))
    found = passes.follow("dot")
    assert found.last == ("dot.1",)
    assert found.certainty is Certainty.OPERANDS
    assert str(passes.change(0)) == "Rewrote 2 (2 dot → dot)"
    assert passes.follow("dot.1").first in (("dot", "transpose"), ("transpose", "dot"))


BEFORE = entry(
    '%sin = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}',
    '%shift = f32[8]{0} negate(%sin), metadata={op_name="jit(f)/sin"}',
    '%end = f32[8]{0} exponential(%shift), metadata={op_name="jit(f)/exp"}',
    "ROOT %tuple = (f32[8]{0}) tuple(%end)",
)
WITHOUT = entry(
    '%end = f32[8]{0} exponential(%x), metadata={op_name="jit(f)/exp"}', "ROOT %tuple = (f32[8]{0}) tuple(%end)"
)
AGAIN = entry(
    '%new = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}',
    '%end = f32[8]{0} exponential(%new), metadata={op_name="jit(f)/exp"}',
    "ROOT %tuple = (f32[8]{0}) tuple(%end)",
)


def test_without_a_matching_step_the_op_name_is_followed_with_a_note() -> None:
    passes = CompilerPasses.of(recorded(BEFORE, WITHOUT, AGAIN))
    found = passes.follow("sin")
    assert (found.last, found.certainty) == (("new",), Certainty.NAMED)
    assert found.fate == "in the compiled program as new, matched by op_name: no steps are known after pass 0 pass-0"
    other = passes.follow("shift")
    assert (other.last, other.certainty) == ((), Certainty.LOST)
    assert "the compiled program computes jit(f)/sin in new" in other.fate
    assert CompilerPasses.of(recorded(BEFORE, WITHOUT)).follow("sin").fate.startswith("gone since pass 0")


def test_a_removed_instruction_is_not_confused_with_its_equals() -> None:
    twins = entry(
        '%a = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}',
        '%dead = f32[8]{0} sine(%a), metadata={op_name="jit(f)/sin"}',
        'ROOT %end = f32[8]{0} exponential(%a), metadata={op_name="jit(f)/exp"}',
    )
    without = "\n".join(line for line in twins.split("\n") if "%dead" not in line)
    passes = CompilerPasses.of(recorded(twins, without))
    assert passes.follow("a").last == ("a",)
    found = passes.follow("dead")
    assert (found.last, found.certainty) == ((), Certainty.LOST)
    assert found.fate == "removed by pass 0 pass-0, dead: it was unused; the compiled program computes jit(f)/sin in a"


def branches(entry_lines: str, *, with_branches: bool) -> str:
    inside = """
%one (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %sin = f32[8]{0} sine(%p), metadata={op_name="jit(f)/sin"}
}

%two (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  ROOT %cos = f32[8]{0} cosine(%q), metadata={op_name="jit(f)/cos"}
}
"""
    head, _, rest = entry(*entry_lines.strip().split("\n")).partition("ENTRY")
    return f"{head}{inside.lstrip() if with_branches else ''}\nENTRY{rest}"


CONDITION = "%c = pred[] constant(true)\nROOT %cond = f32[8]{0} conditional(%c, %x, %x), true_computation=%one, false_computation=%two"
SELECTED = """%c = pred[] constant(true)
%sin.1 = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}
%cos.1 = f32[8]{0} cosine(%x), metadata={op_name="jit(f)/cos"}
ROOT %select = f32[8]{0} select(%c, %sin.1, %cos.1)"""


def test_a_copy_out_of_a_branch_is_followed() -> None:
    stages = [branches(CONDITION, with_branches=True), branches(SELECTED, with_branches=True)]
    passes = CompilerPasses.of(recorded(*stages, branches(SELECTED, with_branches=False)))
    snapshots = passes.history.snapshots
    assert set(snapshots.orphans(passes[0].before_index, passes[0].after_index)) == {"one", "two"}
    assert snapshots.orphans(passes[1].before_index, passes[1].after_index) == ()
    for name in ("sin", "cos"):
        found = passes.follow(name)
        assert (found.last, found.certainty) == ((f"{name}.1",), Certainty.EQUAL), found
        assert [touch.word for touch in found.touches] == ["given", "moved"]
