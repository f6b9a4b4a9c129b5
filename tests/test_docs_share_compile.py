"""docs/examples/share_compile.py: who compiles, who loads, who writes; with two real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "share_compile.py"
LIMIT_S = 180  # the example ends by itself before
RESULT = float(np.tanh(np.full((8, 64), 1.0) @ np.full((64, 8), 1.0)).sum())


def run(*arguments: str, cache: Path | str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the output of the two processes. No process remains, also after a failure."""
    command = [sys.executable, str(EXAMPLE), *arguments, *(["--cache", str(cache)] if cache else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert [each["process"] for each in found] == [0, 1], output + errors
    return found[0], found[1]


def entries(folder: Path) -> list[Path]:
    return list(folder.glob("*-cache"))


@pytest.mark.slow
def test_process_0_compiles_and_process_1_only_loads() -> None:
    zero, one = run()
    assert (zero["source"], zero["sent"], one["source"], one["sent"]) == ("compiler", True, "process", False)
    assert (zero["foretold"], one["foretold"]) == ("compiler", "process")
    assert zero["passes"] > 10
    assert one["passes"] == 0  # XLA itself: no pass was run
    assert zero["key"] == one["key"]
    assert zero["result"] == one["result"] == pytest.approx(RESULT)
    assert zero["notices"] == one["notices"] == []


@pytest.mark.slow
def test_alone_both_compile_and_only_process_0_writes(tmp_path: Path) -> None:
    zero, one = run("--how", "alone", cache=tmp_path / "{process}")
    assert (zero["source"], one["source"]) == (zero["foretold"], one["foretold"]) == ("compiler", "compiler")
    assert zero["passes"] == one["passes"] > 10
    assert zero["key"] != one["key"]
    assert (zero["written"], one["written"]) == (True, False)
    assert one["reason"] == "Not writing persistent cache entry since process_id != 0"
    assert len(entries(tmp_path / "0")) == 1
    assert not entries(tmp_path / "1")
    assert "jax_share_binary_between_hosts is False" in one["sharing"]


@pytest.mark.slow
def test_the_next_start_loads_from_one_cache(tmp_path: Path) -> None:
    first, second = run(cache=tmp_path), run(cache=tmp_path)
    assert first[0]["source"] == "compiler"
    assert first[1]["source"] in ("process", "cache")  # cache: it was late, and process 0 had written already
    assert first[1]["passes"] == 0
    assert [each["written"] for each in first] == [True, False]
    for each in second:
        assert each["source"] == each["foretold"] == "cache"
        assert each["passes"] == 0
        assert each["result"] == pytest.approx(RESULT)
        assert any(
            notice.startswith("a process with a hit sends no executable: processes that miss wait 60 s")
            for notice in each["notices"]
        )
    assert len(entries(tmp_path)) == 1


@pytest.mark.slow
def test_jax_s_own_sharing_never_agrees_on_a_key_on_cpus() -> None:
    zero, one = run("--how", "jax", "--timeout", "3")
    assert (zero["source"], zero["sent"]) == ("compiler", True)
    assert "DEADLINE_EXCEEDED" in one["error"]
    assert zero["key"] not in one["error"]
    for each in (zero, one):
        (notice,) = each["notices"]
        assert notice.startswith(
            "on CPUs each process has its own key, so the others never receive the executable: they wait 3 s"
        )
