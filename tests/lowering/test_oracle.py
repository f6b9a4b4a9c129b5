"""`xla_computation` against the recorded behavior of JAX 0.4.30, the last that had it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import inspector

ORACLE = Path(__file__).parents[1] / "data" / "oracle"
sys.path.insert(0, str(ORACLE))

import cases  # noqa: E402 - recorded scripts, not a package
import compare  # noqa: E402
import run_cases  # noqa: E402

GOLDEN = json.loads((ORACLE / "golden.json").read_text())["cases"]
# jax.pmap is a shard_map over devices today, so it cannot run inside of a program for replicas.
IMPOSSIBLE = "pmap_nested_psum_under_env"


def test_every_recorded_case_is_run() -> None:
    assert set(cases.CASES) == set(GOLDEN)
    assert len(GOLDEN) == 108


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in GOLDEN if n != IMPOSSIBLE])
def test_case_is_as_recorded(name: str) -> None:
    got = run_cases.run_one(inspector.xla_computation, cases.CASES[name], keep_text=False)
    levels, reason = compare.judge(GOLDEN[name], got)
    assert all(levels.values()), f"{reason}\n{got.get('traceback', '')}"


def test_nested_pmap_is_refused_with_a_remedy() -> None:
    case = cases.CASES[IMPOSSIBLE].build()
    with pytest.raises(
        inspector.InspectorError, match=r"calls jax.pmap, which JAX cannot lower.*name its axis in axis_env"
    ):
        inspector.xla_computation(case["fun"], axis_env=[("i", 2)])(*case["args"])
