"""Names of passes: those found in the code hold most of those seen in a compile."""

from __future__ import annotations

from inspector._jax.libraries import pass_names
from inspector.toolchain import libtpu
from tests.absent import needs_tpu


def test_most_passes_that_run_are_constants_of_the_library() -> None:
    run, constant = pass_names.observed_names(), pass_names.constant_names()
    assert isinstance(run, frozenset)
    assert isinstance(constant, frozenset)
    assert {"algsimp", "dce", "cse", "fusion", "simplification", "hlo normalization"} <= run
    assert {"algsimp", "dce", "cse", "fusion"} <= constant
    assert len(run & constant) > 0.65 * len(run)  # the rest are pipelines, most of them


@needs_tpu
def test_most_passes_that_libtpu_runs_are_constants_of_it() -> None:
    run, constant = libtpu.passes_run(), libtpu.pass_names()
    assert isinstance(run, frozenset)
    assert isinstance(constant, frozenset)
    assert {"algsimp", "dce", "simplification-1", "tpu_fusion", "async-collective-fusion"} <= run
    assert {"algsimp", "dce", "async-collective-fusion"} <= constant
    assert len(run & constant) > 0.75 * len(run)
    assert len(constant) < 10_000  # of the many constants of other things most are left out
