"""Names of passes: those found in the code hold most of those seen in a compile."""

from __future__ import annotations

from inspector._jax import pass_names


def test_most_passes_that_run_are_constants_of_the_library() -> None:
    run, constant = pass_names.observed_names(), pass_names.constant_names()
    assert isinstance(run, frozenset)
    assert isinstance(constant, frozenset)
    assert {"algsimp", "dce", "cse", "fusion", "simplification"} <= run
    assert {"algsimp", "dce", "cse", "fusion"} <= constant
    assert len(run & constant) > 0.75 * len(run)
