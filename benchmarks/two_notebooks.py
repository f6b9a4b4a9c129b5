"""Two notebooks compile for a TPU at the same moment.

    python -m benchmarks.two_notebooks [--rounds 20] [--bare 3] [--target tpu:v5e:2x2] [--workload mlp]

Needs libtpu, no TPU. In one run: two kernels, that is two Python processes, compile the same program for
the target in each round at once, each time in workers that have not loaded libtpu yet; a round counts
when both have the result, and the same HLO as a kernel that compiled alone. Beside it the bare way, two
fresh interpreters that compile ahead of time with `jax.experimental.topologies`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax

from benchmarks.measuring import machine, spread
from benchmarks.workloads import make


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs both ways and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--bare", type=int, default=3, help="rounds of the bare way")
    parser.add_argument("--target", default="tpu:v5e:2x2")
    parser.add_argument("--workload", default="mlp")
    parser.add_argument("--kernel", choices=("inspector", "bare"), help="be one of the two kernels")
    options = parser.parse_args(arguments)
    if options.kernel is not None:
        {"inspector": _inspector, "bare": _bare}[options.kernel](options.workload, options.target)
        return
    arguments = ["--target", options.target, "--workload", options.workload]
    print(f"{options.workload} for {options.target} {machine()}", flush=True)
    alone = sum("digest" in _answer(_start("bare", arguments)) for _ in range(options.bare))
    succeeded = sum(_bare_round(arguments) for _ in range(options.bare))
    print(f"  bare: both had a result in {succeeded} of {options.bare} rounds, one alone in {alone}", flush=True)
    counted, elapsed = _rounds(arguments, options.rounds)
    print(
        f"  inspector: both had the right result in {counted} of {options.rounds} rounds (aim {options.rounds}:"
        f" {'met' if counted == options.rounds else 'missed'}), seconds a round {spread(elapsed)} {machine()}"
    )


def _bare_round(arguments: Sequence[str]) -> bool:
    both = [_start("bare", arguments) for _ in range(2)]
    answers = [_answer(each) for each in both]
    return all("digest" in answer for answer in answers)


def _rounds(arguments: Sequence[str], count: int) -> tuple[int, list[float]]:
    """How many rounds went well, and the seconds of each."""
    alone, *both = [_start("inspector", arguments) for _ in range(3)]
    try:
        wanted = _ask(alone, 0)
        counted, elapsed = 0, []
        for number in range(1, count + 1):
            started = time.perf_counter()
            for each in both:
                _send(each, number)
            answers = [_answer(each) for each in both]
            elapsed.append(time.perf_counter() - started)
            right = all(a.get("digest") == wanted.get("digest") for a in answers)
            counted += right
            if not right:
                print(f"    round {number}: {[a.get('error', 'another HLO') for a in answers]}", flush=True)
        return counted, elapsed
    finally:
        for each in (alone, *both):
            each.kill()
            each.wait()


def _start(kernel: str, arguments: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.two_notebooks", "--kernel", kernel, *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _ask(kernel: subprocess.Popen[str], number: int) -> dict[str, Any]:
    _send(kernel, number)
    return _answer(kernel)


def _send(kernel: subprocess.Popen[str], number: int) -> None:
    assert kernel.stdin is not None
    kernel.stdin.write(f"{number}\n")
    kernel.stdin.flush()


def _answer(kernel: subprocess.Popen[str]) -> dict[str, Any]:
    """A digest, or an error."""
    assert kernel.stdout is not None
    for line in kernel.stdout:
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    return {"error": f"the kernel ended with {kernel.wait()}"}


def _inspector(name: str, target: str) -> None:
    """A kernel: a line with a number in, a line with the digest of what was compiled out."""
    from inspector import settings
    from inspector.engines.shared_engines import close_engines
    from inspector.errors import InspectorError
    from inspector.lowering.lower import lower

    workload = make(name)
    lowered = lower(workload.fun, *workload.args, platform="tpu")
    settings.update(cache=False)
    for _ in sys.stdin:
        try:
            answer = {"digest": _digest(lowered.compile(target=target).hlo)}
        except InspectorError as e:
            answer = {"error": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps(answer), flush=True)
        close_engines()  # so that the next round loads libtpu anew, in both at once


def _bare(name: str, target: str) -> None:
    """A kernel that compiles once, as JAX documents it, and prints likewise."""
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    _, chip, topology = target.split(":")
    described = topologies.get_topology_desc(f"{chip}:{topology}", "tpu")
    sharding = SingleDeviceSharding(described.devices[0])
    workload = make(name, sharding)
    compiled = jax.jit(workload.fun).trace(*workload.args).lower(lowering_platforms=("tpu",)).compile()
    print(json.dumps({"digest": _digest(compiled.as_text() or "")}), flush=True)


def _digest(hlo: str) -> str:
    from hashlib import sha256

    return sha256(hlo.encode()).hexdigest()


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
