"""Options that leave passes out, and what XLA makes of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.compilation.options import pass_switches
from inspector.compilation.options.options import Options
from inspector.compilation.options.pass_names import takes_places
from inspector.compilation.records.passes import Pass, Passes
from inspector.compilation.records.texts import Texts
from inspector.errors import ParameterError, Unavailable
from inspector.stages.passes import CompilerPasses

TEXTS = Texts.of([f"HloModule f.{i}" for i in range(6)])
NAMES = ("algsimp", "dce", "algsimp", "layout-assignment", "fusion")
PASSES = Passes(
    (
        *(Pass(i, "p", name, True, 0.1, i, i + 1, TEXTS) for i, name in enumerate(NAMES)),
        Pass(5, "p", "pipeline-start", True, Unavailable("none"), 5, 4, TEXTS),
    )
)
FLAG = pass_switches.FLAG


def flag(options: Options | Unavailable) -> str:
    assert isinstance(options, Options)
    return str(options.flags[FLAG])


@pytest.fixture(params=[False, True])
def places(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(pass_switches, "takes_places", lambda: request.param)
    return bool(request.param)


def test_one_run_is_omitted_where_xla_distinguishes_runs(places: bool) -> None:
    assert flag(pass_switches.without(PASSES, 2)) == ("algsimp:1" if places else "algsimp")
    assert flag(pass_switches.without(PASSES, 4)) == "fusion"


def test_options_of_the_compile_are_preserved() -> None:
    given = Options(flags={FLAG: "cse", "xla_cpu_enable_fast_math": True})
    found = pass_switches.without(PASSES, 4, given)
    assert flag(found) == "cse,fusion"
    assert isinstance(found, Options)
    assert found.flags["xla_cpu_enable_fast_math"] is True


def test_later_passes_are_disabled_except_those_that_the_backend_needs(places: bool) -> None:
    assert flag(pass_switches.until(PASSES, 0)) == ("algsimp:1,fusion" if places else "fusion")
    left_out, kept = pass_switches.later_passes(PASSES, 0)
    assert {"dce", "layout-assignment"} <= set(kept)
    assert "fusion" in left_out
    assert isinstance(pass_switches.until(PASSES, 4), Unavailable)


def test_an_entry_that_is_not_a_pass_is_unavailable() -> None:
    found = pass_switches.without(PASSES, 5)
    assert isinstance(found, Unavailable)
    assert "between two pipelines" in found.reason


def program(w: jax.Array, x: jax.Array) -> jax.Array:
    folded = jnp.exp(x).T.reshape(-1).reshape(16, 8).T + 0.0
    return (jnp.tanh(x @ w) * 2.0 / 4.0) @ w.T + folded


@pytest.mark.parametrize("which", ["without", "until"])
def test_xla_disables_the_passes(which: str) -> None:
    w, x = jax.ShapeDtypeStruct((16, 16), jnp.float32), jax.ShapeDtypeStruct((8, 16), jnp.float32)
    lowered = inspector.lower(program, w, x)
    passes = lowered.compile(target="cpu", products=("passes",)).passes
    assert isinstance(passes, CompilerPasses)
    fusion = next(step for step in passes.steps if step.name == "fusion")
    first = passes.steps[0]
    options = passes.without(fusion) if which == "without" else passes.until(first)
    assert isinstance(options, Options)
    again = lowered.compile(options, target="cpu", products=("passes",)).passes
    assert isinstance(again, CompilerPasses)
    left_out = {name.partition(":")[0] for name in str(options.flags[FLAG]).split(",")}
    assert "fusion" in left_out
    ran_before = {p.name for p in passes.steps if p.index <= first.index} if which == "until" else set()
    assert not {p.name for p in again.steps} & (left_out - ran_before)


@pytest.mark.skipif(not takes_places(), reason="this XLA leaves out all runs of a pass or none")
def test_the_run_that_is_meant_is_the_one_that_is_left_out() -> None:
    w, x = jax.ShapeDtypeStruct((16, 16), jnp.float32), jax.ShapeDtypeStruct((8, 16), jnp.float32)
    lowered = inspector.lower(program, w, x)
    passes = lowered.compile(target="cpu", products=("passes",)).passes
    assert isinstance(passes, CompilerPasses)
    names = [p.name for p in passes]
    chosen = next(p for p in passes.steps if names.count(p.name) > 1)
    again = lowered.compile(passes.without(chosen), target="cpu", products=("passes",)).passes
    assert isinstance(again, CompilerPasses)
    number = [p for p in passes if p.name == chosen.name].index(chosen)
    others = [p for p in again if p.name == chosen.name]
    assert not others[number].changed
    assert any(p.changed for p in others), "a later run does what this one would have done"


def test_no_such_pass() -> None:
    with pytest.raises(ParameterError, match="No pass 9"):
        CompilerPasses.of(PASSES).without(9)
