"""Two notebooks at once: two kernels that compile at the same moment, each right, and nothing left of either."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from inspector.engines.workers.fork_server import ForkServer
from tests.absent import needs_tpu
from tests.conftest import ROOT
from tests.engines.workers.test_worker_engine import wait_gone

pytestmark = pytest.mark.skipif(not ForkServer.supported(), reason="reads /proc, and forks")

# A line with the number of a round in, a line with what was compiled out.
KERNEL = """
import json, os, sys
import jax, jax.numpy as jnp
from inspector import lower
from inspector.errors import InspectorError
from tests.engines.workers.test_worker_engine import all_pids, product

target, platform = sys.argv[1:]
print(os.getpid(), flush=True)
for line in sys.stdin:
    exponent = int(line)
    lowered = lower(lambda x: product(x) ** exponent, jax.ShapeDtypeStruct((8, 8), jnp.float32), platform=platform)
    try:
        compiled = lowered.compile(target=target)
        answer = {"flops": compiled.cost.flops, "hlo": compiled.hlo}
    except InspectorError as e:
        answer = {"error": str(e)}
    print(json.dumps({**answer, "pids": all_pids(os.getpid())}), flush=True)
"""


class Kernel:
    def __init__(self, target: str, platform: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KERNEL), target, platform],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())

    def send(self, exponent: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{exponent}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", pytest.param("tpu:v5e:2x2", marks=needs_tpu)])
def test_two_kernels_at_once(target: str) -> None:
    both = [Kernel(target, target.partition(":")[0]) for _ in range(2)]
    pids: list[set[int]] = [set(), set()]
    try:
        for exponent in (2, 3):
            for kernel in both:
                kernel.send(exponent)
            answers = [kernel.answer() for kernel in both]
            for mine, answer in zip(pids, answers, strict=True):
                mine |= set(answer.pop("pids"))
            assert "error" not in answers[0], answers[0]
            assert answers[0] == answers[1]
            assert "f32[8,8]" in answers[0]["hlo"]
    finally:
        for kernel in both:
            kernel.process.kill()
            kernel.process.communicate()
    assert all(len(each) >= 2 for each in pids)  # a fork server and a worker each
    assert not pids[0] & pids[1]
    assert wait_gone(sorted(pids[0] | pids[1])) == []
    for kernel in both:
        assert not list(Path("/dev/shm").glob(f"inspector-{kernel.pid}-*"))
