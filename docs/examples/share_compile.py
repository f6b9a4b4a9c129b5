"""One compile for two processes: process 0 compiles, process 1 only loads.

    python docs/examples/share_compile.py             as above
    python docs/examples/share_compile.py --alone     as JAX does it by itself: both compile
    python docs/examples/share_compile.py --cache DIR with a persistent cache, process N in DIR/N

Two processes on this machine with two virtual CPU devices each join through `jax.distributed` and run one
program over all four. Each tells where its executable came from, and of how many passes XLA wrote a dump:
none for an executable that was sent.
"""
# ruff: noqa: T201 - it prints what it finds

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 120  # for both processes, whatever hangs


def main() -> int:
    """Starts both processes, waits, prints a line for each; 0 when both came to an end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--alone", action="store_true", help="share nothing")
    parser.add_argument("--cache", help="directory for JAX's persistent caches, one a process")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process is not None:
        print(json.dumps(run(given.process, given.port, given.alone, given.cache)))
        return 0
    return launch(sys.argv[1:])


def launch(arguments: list[str]) -> int:
    """Runs this file once a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, *arguments, "--process", str(number), "--port", str(port)],
            env={**os.environ, **flags},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        for process in processes:
            output, _ = process.communicate(timeout=LIMIT_S + 10)
            print(output, end="")
    finally:
        for process in processes:
            process.kill()
    return max(abs(process.returncode) for process in processes)


def run(number: int, port: int, alone: bool, cache: str | None) -> dict[str, object]:
    """What happened in one process."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)  # also when the one that started it is gone

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import inspector

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if cache:
        jax.config.update("jax_compilation_cache_dir", str(Path(cache) / str(number)))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=number)
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    x = jax.make_array_from_callback((8, 64), rows, lambda index: np.ones((8, 64), np.float32)[index])

    def step(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ x.T).sum()

    with tempfile.TemporaryDirectory() as dumps:
        sharing = contextlib.nullcontext() if alone else inspector.share_compiles(timeout_s=60)
        with sharing, inspector.watch_compiles() as events:
            lowered = jax.jit(step).lower(x)
            before = inspector.cache_status(lowered)
            compiled = lowered.compile({"xla_dump_to": dumps, "xla_dump_hlo_pass_re": ".*"})
        passes = len(list(Path(dumps).glob("*.before_*")))
    event = events[-1]
    result = float(compiled(x))
    jax.distributed.shutdown()
    return {
        "process": number,
        "expected": before.source,
        "source": event.source,
        "sent": event.sent,
        "seconds": round(event.seconds, 4),
        "passes": passes,
        "written": event.written,
        "reason": event.reason,
        "key": event.cache_key,
        "result": result,
    }


if __name__ == "__main__":
    sys.exit(main())
