"""A process that executes collectives, shared by the tests that predict what they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Execute = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def execute() -> Iterator[Execute]:
    """`execute(do=..., ...)`: a request to `executor.py`, which see."""
    here = Path(__file__).resolve().parent
    environment = {**os.environ, "PYTHONPATH": str(here.parents[1])}
    process = subprocess.Popen(
        [sys.executable, str(here / "executor.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(**request: Any) -> dict[str, Any]:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the executor ended with status {process.wait(10)} at {request}"
        reply: dict[str, Any] = json.loads(line)
        assert "error" not in reply, f"{request}: {reply['error']}"
        return reply

    yield ask
    process.stdin.close()
    process.wait(30)
    process.stdout.close()
