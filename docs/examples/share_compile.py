"""One compile for two processes: process 0 compiles, process 1 only loads.

    python docs/examples/share_compile.py                process 0 compiles, process 1 loads
    python docs/examples/share_compile.py --how alone    JAX's default: both compile
    python docs/examples/share_compile.py --how jax      JAX's own sharing, which on CPUs makes process 1 wait in vain
    ... --cache DIR      with a persistent cache; {process} in DIR stands for the number of the process

Two processes on this machine, with two virtual CPU devices each, join through `jax.distributed` and compile one
program for all four devices. Each process prints the source of its executable, and the number of passes that XLA dumped: none
for an executable that was sent.
"""
# ruff: noqa: T201 - it prints its results

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

LIMIT_S = 120  # for each process, in case it hangs


def main() -> int:
    """Starts both processes, waits, and prints a line of JSON for each. Returns 0 if both succeeded."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--how", choices=["inspector", "jax", "alone"], default="inspector")
    parser.add_argument("--cache", help="directory of JAX's persistent cache")
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait for an executable")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process is None:
        return launch(sys.argv[1:])
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)  # even if the parent process has ended
    print(json.dumps(run(given)))
    return 0


def launch(arguments: list[str]) -> int:
    """Runs this file once for each process."""
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
            print(output, end="", flush=True)
    finally:
        for process in processes:
            process.kill()
    return max(abs(process.returncode) for process in processes)


def run(given: argparse.Namespace) -> dict[str, object]:
    """Compiles the program in one process and returns the results."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import inspector

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if given.cache:
        jax.config.update("jax_compilation_cache_dir", given.cache.format(process=given.process))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    if given.how == "jax":
        jax.config.update("jax_share_binary_between_hosts", True)
        jax.config.update("jax_share_binary_between_hosts_timeout_ms", round(given.timeout * 1000))
    jax.distributed.initialize(f"127.0.0.1:{given.port}", num_processes=2, process_id=given.process)
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    x = jax.make_array_from_callback((8, 64), rows, lambda index: np.ones((8, 64), np.float32)[index])

    def step(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ x.T).sum()

    found: dict[str, object] = {"process": given.process}
    sharing = inspector.share_compiles(given.timeout) if given.how == "inspector" else contextlib.nullcontext()
    with tempfile.TemporaryDirectory() as dumps, sharing, inspector.watch_compiles() as events:
        lowered = jax.jit(step).lower(x)
        foretold = inspector.cache_status(lowered)
        found |= {"foretold": foretold.source, "sharing": str(foretold.sharing), "notices": foretold.notices}
        try:
            compiled = lowered.compile({"xla_dump_to": dumps, "xla_dump_hlo_pass_re": ".*"})
        except jax.errors.JaxRuntimeError as e:
            found["error"] = str(e)
        else:
            event = events[-1]
            found |= {"source": event.source, "sent": event.sent, "seconds": round(event.seconds, 4)}
            found |= {"written": event.written, "reason": event.reason, "key": event.cache_key}
        found["passes"] = len(list(Path(dumps).glob("*.before_*")))
    if "error" not in found and given.how != "jax":  # with "jax" only one process has something to run
        found["result"] = float(compiled(x))
    jax.distributed.shutdown()
    return found


if __name__ == "__main__":
    sys.exit(main())
