"""When passes ran, told by JAX's profiler."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from inspector._jax.compiling.pass_times import PassTimes
from inspector.errors import Unavailable


def compile_(name: str) -> None:
    def fun(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ x).sum()

    fun.__name__ = name
    jax.jit(fun).lower(jax.ShapeDtypeStruct((8, 8), jnp.float32)).compile()


def test_passes_of_one_module_are_recorded_with_their_pipelines() -> None:
    with PassTimes() as times:
        compile_("timed")
        compile_("other")
    passes, others = times.passes("jit_timed"), times.passes("jit_other")
    assert not isinstance(passes, Unavailable)
    assert not isinstance(others, Unavailable)
    assert [p[0] for p in passes] == [p[0] for p in others]
    assert passes[0][1] == others[0][1]
    assert max(p[3] for p in passes) <= min(p[2] for p in others)
    by_name = {name: (pipeline, start, end) for pipeline, name, start, end in passes}
    assert by_name["fusion"][0] == "HLO passes after layout assignment"
    # The pass that is a pipeline lasts from before its first to after its last.
    _, start, end = by_name["simplification"]
    inner = [p for p in passes if p[0] == "simplification"]
    assert len(inner) > 10
    assert start <= min(p[2] for p in inner) < max(p[3] for p in inner) <= end
    assert not any(name.endswith(")") or name == "RunInvariantCheckers" for name in by_name)


def test_a_module_that_was_not_compiled_has_none() -> None:
    with PassTimes() as times:
        compile_("timed")
    assert "no pass of 'jit_f'" in str(times.passes("jit_f"))


def test_a_profile_of_the_user_goes_on() -> None:
    with PassTimes() as theirs:
        with PassTimes() as ours:
            compile_("timed")
        assert "JAX's profiler" in str(ours.passes("jit_timed"))
    assert not isinstance(theirs.passes("jit_timed"), Unavailable)
