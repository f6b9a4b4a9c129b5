"""Instructions followed through all passes: planted modules, and compiles in which their fate is known."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.passes.correspondence import Certainty
from inspector.analysis.passes.follow import MOST_FOLLOWED, Following, History
from inspector.analysis.passes.snapshots import steps
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.texts import Texts
from inspector.errors import ParameterError, Unavailable
from inspector.stages.passes import CompilerPasses
from tests.analysis.passes.test_step_descriptions import BODY, entry, recorded

START = entry(
    '%mul = f32[8]{0} multiply(%x, %x), metadata={op_name="jit(f)/mul"}',
    '%add = f32[8]{0} add(%mul, %x), metadata={op_name="jit(f)/add"}',
    '%dead = f32[8]{0} sine(%x), metadata={op_name="jit(f)/sin"}',
    '%twin = f32[8]{0} multiply(%x, %x), metadata={op_name="jit(f)/mul"}',
    '%both = f32[8]{0} subtract(%add, %twin), metadata={op_name="jit(f)/sub"}',
    'ROOT %neg = f32[8]{0} negate(%both), metadata={op_name="jit(f)/neg"}',
)
WITHOUT_DEAD = "\n".join(line for line in START.split("\n") if "%dead" not in line)
MERGED = "\n".join(line for line in WITHOUT_DEAD.split("\n") if "%twin =" not in line).replace("%twin", "%mul")
FUSED = MERGED.replace("ENTRY", f"{BODY}ENTRY").replace("%add = f32[8]{0} add(%mul, %x)", "%fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused").replace("%add,", "%fusion,")  # fmt: skip
STORY = recorded(START, WITHOUT_DEAD, MERGED, FUSED)


@pytest.fixture(scope="module")
def planted() -> CompilerPasses:
    return CompilerPasses.of(STORY)


def story(following: Following) -> list[tuple[int | None, str]]:
    return [(touch.index, touch.word) for touch in following.touches]


def test_an_instruction_is_followed_from_the_start_into_its_fusion(planted: CompilerPasses) -> None:
    found = planted.follow("add")
    assert story(found) == [(None, "given"), (2, "fused")]
    assert found.touches[-1].certainty is Certainty.EQUAL
    assert (found.first, found.last) == (("add",), ("fusion",))
    assert found.fate == "in the compiled program as fusion"


def test_a_duplicate_ends_in_its_twin_and_goes_on_as_that(planted: CompilerPasses) -> None:
    found = planted.follow("twin")
    assert story(found) == [(None, "given"), (1, "merged")]
    assert found.last == ("mul",)
    assert found.certainty is Certainty.PLACE


def test_dead_code_has_a_last_pass_with_the_reason(planted: CompilerPasses) -> None:
    found = planted.follow("%dead")
    assert story(found) == [(None, "given"), (0, "removed")]
    assert found.last == ()
    assert found.fate == "gone since pass 0 pass-0: removed dead: it was unused"


def test_a_fusion_is_traced_back_to_all_that_it_is_made_of(planted: CompilerPasses) -> None:
    found = planted.follow("fusion")
    assert found.first == ("add",) or set(found.first) == {"add", "mul"}
    assert story(found)[-1] == (2, "fused")


def test_an_operation_of_jax_is_followed_with_all_its_instructions(planted: CompilerPasses) -> None:
    found = planted.follow(op_name="jit(f)/mul")
    assert set(found.first) == {"mul", "twin"}
    assert found.last == ("mul",)
    assert list(found.table().columns) == ["index", "pipeline", "name", "word", "text", "before", "after", "certainty"]
    assert "merged" in str(found)


def test_invalid_questions_are_refused(planted: CompilerPasses) -> None:
    with pytest.raises(ParameterError, match=r"has an instruction 'fusoin'. Did you mean fusion"):
        planted.follow("fusoin")
    with pytest.raises(ParameterError, match="needs one of instruction, op_name and line"):
        planted.follow()
    with pytest.raises(ParameterError, match=r"such as 'model.py:12'"):
        planted.follow(line="model.py")
    with pytest.raises(ParameterError, match="No instruction of the module before all passes comes from"):
        planted.follow(op_name="jit(f)/nothing")
    with pytest.raises(ParameterError, match="after pass 2 has no instruction 'twin'"):
        planted.follow("twin", at=2)
    with pytest.raises(ParameterError, match="Expected an index from 0 to 2"):
        planted.change(7)
    with pytest.raises(ParameterError, match="No passes were recorded"):
        History(Passes(()))


def test_pipelines_that_summarize_their_passes_are_not_steps() -> None:
    texts = Texts.of([START, WITHOUT_DEAD, MERGED])
    entries = (
        Pass(0, "inner", "dce", True, 0.1, 0, 1, texts), Pass(1, "inner", "cse", True, 0.1, 1, 2, texts),
        Pass(2, "outer", "inner", True, 0.2, 0, 2, texts, 2), Pass(3, "outer", "idle", False, 0.2, 2, 2, texts),
    )  # fmt: skip
    assert [step.index for step in steps(Passes(entries))] == [0, 1]
    assert str(CompilerPasses.of(Passes(entries)).change(2)) == "Merged 1 into 1; removed 1"


def test_any_two_passes_are_compared(planted: CompilerPasses) -> None:
    assert str(planted.between(None)) == "Fused 1 into 1; merged 1 into 1; removed 1"
    assert str(planted.between(0, 1)) == "Merged 1 into 1"
    assert str(planted.between(2, 2)) == "Nothing changed"


def test_only_the_first_of_many_instructions_are_followed() -> None:
    lines = [f'%a.{i} = f32[8]{{0}} sine(%x), metadata={{op_name="jit(f)/sin"}}' for i in range(MOST_FOLLOWED + 6)]
    before = entry(*lines, "ROOT %neg = f32[8]{0} negate(%a.0)")
    after = entry(*lines[:1], "ROOT %neg = f32[8]{0} negate(%a.0)")
    found = CompilerPasses.of(recorded(before, after)).follow(op_name="jit(f)/sin")
    assert found.note == f"Only the first {MOST_FOLLOWED} of {MOST_FOLLOWED + 6} instructions are followed."
    assert found.last == ("a.0",)


# ------------------------------------------------------------------ real compiles


def program(w: jax.Array, x: jax.Array) -> tuple[jax.Array, ...]:
    hidden = x @ w
    scaled = (jnp.tanh(hidden) + 1.0) * 2.0
    twin = jnp.exp(scaled) + jnp.exp(scaled)
    there = x.astype(jnp.float16).astype(jnp.float16)
    folded = (jnp.arange(4.0) * 2.0).sum()
    return twin, x.T @ hidden, there, folded


@functools.cache
def compiled() -> CompilerPasses:
    w, x = jax.ShapeDtypeStruct((32, 16), jnp.float32), jax.ShapeDtypeStruct((8, 32), jnp.float32)
    found = inspector.lower(program, w, x).compile(target="cpu", products=("passes",)).passes
    assert not isinstance(found, Unavailable)
    return found


def the(op_name: str) -> Following:
    return compiled().follow(op_name=op_name)


def test_elementwise_operations_end_in_a_loop_fusion() -> None:
    found = the("jit(program)/tanh")
    assert found.touches[-1].word in ("fused", "rewired", "rewrote", "renamed")
    assert any(touch.word == "fused" for touch in found.touches)
    assert "fusion" in found.fate


def test_a_product_of_matrices_lives_to_the_end() -> None:
    """As a dot, or in a fusion of the library that computes it."""
    found = compiled().follow(line=f"{__file__}:{program.__code__.co_firstlineno + 1}")
    assert found.last
    texts = compiled().between(None).after
    assert all(f"%{name} =" in texts for name in found.last)


def test_a_transpose_is_folded_into_the_product_that_uses_it() -> None:
    found = the("jit(program)/transpose")
    assert found.last == () or "dot" in found.fate or "fusion" in found.fate


def test_every_instruction_of_the_end_has_a_beginning_or_a_maker() -> None:
    passes = compiled()
    names = list(passes.history.snapshots.places(passes[-1].after_index))
    for name in names:
        found = passes.follow(name)
        assert found.last == (name,) or name in found.last
        assert found.touches[0].word == "given" or not found.first


def test_every_instruction_of_the_start_has_an_end() -> None:
    passes = compiled()
    history = passes.history
    for name in history.snapshots.places(history.text_at(0)):
        found = history.follow([name], 0, name)
        assert found.last or found.fate.startswith("gone since pass")
        assert not found.last or set(found.last) <= history.snapshots.places(passes[-1].after_index).keys()


def test_python_frames_are_those_of_the_proto() -> None:
    w, x = jax.ShapeDtypeStruct((32, 16), jnp.float32), jax.ShapeDtypeStruct((8, 32), jnp.float32)
    lowered = inspector.lower(program, w, x)
    stacks = {tuple((f.file, f.line) for f in origin.frames) for origin in lowered.module().origins().values()}
    read = {tuple((f.file, f.line) for f in frames) for frames in compiled().history.frames().values()}
    deep = {stack[:1] for stack in stacks if stack and stack[0][0] == __file__}
    assert deep
    assert deep <= {stack[:1] for stack in read}


def test_an_operation_that_only_a_tuple_element_still_names_is_not_certainly_gone() -> None:
    def layers(weights: Any, x: Any) -> Any:
        body = jax.checkpoint(lambda h, w: (jax.nn.silu(h @ w) + h, None))
        return jax.lax.scan(body, x, weights)[0]

    gradient = jax.grad(lambda *args: (layers(*args) ** 2).sum(), (0, 1))
    arguments = jax.ShapeDtypeStruct((3, 64, 64), jnp.float32), jax.ShapeDtypeStruct((16, 64), jnp.float32)
    compiled = inspector.lower(gradient, *arguments).compile(target="cpu", products=("passes",))
    named = {instruction.op_name for instruction in compiled.module().instructions()}
    barriers = [i for i in compiled.passes.module(0, before=True).instructions() if i.opcode == "opt-barrier"]
    assert barriers
    for barrier in barriers:
        if barrier.op_name in named:
            assert not compiled.passes.follow(barrier.name).fate.startswith("gone")
