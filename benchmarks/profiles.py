"""Time to open large profiles and to join their events: a written one of 50 MB, and one of 100,000 device events.

    python -m benchmarks.profiles

Aims: a profile of 50 MB opens in 5 s, 100,000 events join in 1 s, and a run of 100 ms takes at most 1.3 times as long under
the profiler. The written profiles repeat the events of a profile of this CPU, with statistics as XLA writes them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import inspector
from benchmarks.measuring import machine
from inspector._jax.compiling.profiling import Recording
from inspector.analysis.profile.device_events import device_events
from inspector.analysis.profile.joining import join
from inspector.api.recorded_profile import load_profile
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.profiles.programs import recorded_programs
from inspector.profiles.xspace import XSpace
from inspector.toolchain.schema import installed_schema

_TIMES = 5


def layers(x: jax.Array, weights: jax.Array) -> Any:
    """A program with a few dozen kernels and a loop."""

    def body(carry: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.tanh(carry @ w) + carry
        return carry, carry.mean()

    x, means = jax.lax.scan(body, x, weights)
    for i in range(8):
        with jax.named_scope(f"layer_{i}"):
            x = jnp.sin(x @ weights[i]) * (i + 1)
    return jnp.sort(x, axis=0), means


def recorded() -> bytes:
    """Returns a profile of `layers` on this CPU."""
    weights = np.random.default_rng(0).normal(size=(12, 64, 64)).astype(np.float32)
    compiled = jax.jit(layers).lower(weights[0], weights).compile()
    jax.block_until_ready(compiled(weights[0], weights))
    with Recording() as recording:
        for _ in range(5):
            jax.block_until_ready(compiled(weights[0], weights))
    return recording.xspace


def grown(data: bytes, *, byte_size: int = 0, thunks: int = 0) -> bytes:
    """Returns a profile whose lines repeat their events until it has enough bytes, or enough events of kernels."""
    proto: Any = installed_schema().message("tensorflow.profiler.XSpace").FromString(data)
    host = next(plane for plane in proto.planes if plane.name == "/host:CPU")
    operation = next(key for key, stat in host.stat_metadata.items() if stat.name == "hlo_op")
    count = sum(any(s.metadata_id == operation for s in event.stats) for line in host.lines for event in line.events)
    event_bytes = sum(event.ByteSize() for line in host.lines for event in line.events)
    copies = max(byte_size // event_bytes, thunks // count) + 1
    for line in host.lines:
        events = list(line.events)
        length = max((event.offset_ps + event.duration_ps for event in events), default=0)
        for copy in range(1, copies):
            for event in events:
                added = line.events.add()
                added.CopyFrom(event)
                added.offset_ps += copy * length
    written: bytes = proto.SerializeToString()
    return written


def overheads() -> tuple[list[float], float]:
    """Returns the time of an execution under the profiler over that without it, in each of some measurements; and its time."""
    x = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)

    def work(x: jax.Array) -> jax.Array:
        for _ in range(5):
            x = jnp.tanh(x @ x) + jnp.sin(x)
        return x.sum()

    compiled = inspector.lower(work, x).compile(target="cpu")
    compiled.run(x, repeat=3)
    walls = [compiled.profile(x, repeat=10).wall for _ in range(_TIMES)]
    known = [wall for wall in walls if not isinstance(wall, Unavailable)]
    return [wall.overhead for wall in known], statistics.median(each for wall in known for each in wall.plain_s)


def main() -> None:
    """Prints the figures."""
    print(machine())
    data = recorded()
    large = grown(data, byte_size=50 << 20)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.xplane.pb")
        path.write_bytes(large)
        seconds, cpu_seconds = [], []
        for _ in range(3):
            started, cpu_started = time.perf_counter(), time.process_time()
            opened = load_profile(path)
            seconds.append(time.perf_counter() - started)
            cpu_seconds.append(time.process_time() - cpu_started)
        calls = sum(program.calls for program in opened.programs)
    print(
        f"open {len(large) / 1e6:.0f} MB with {calls:,} device events: {min(seconds):.2f} s,"
        f" {min(cpu_seconds):.2f} s of CPU time (aim 5 s)"
    )
    space = XSpace.from_bytes(grown(data, thunks=100_000))
    program = next(each for each in recorded_programs(space) if each.name == "jit_layers")
    module, seconds = Module.from_proto(program.hlo_proto), []
    for _ in range(_TIMES):
        started = time.perf_counter()
        events = device_events([("", space)])
        profile = join(events, module, program.id, {})
        profile.table()
        seconds.append(time.perf_counter() - started)
    print(f"join {len(events):,} events and make the table: {min(seconds):.2f} s (aim 1 s for 100,000)")
    ratios, plain_s = overheads()
    print(
        f"an execution of {1e3 * plain_s:.0f} ms takes {statistics.median(ratios):.2f} times as long under the profiler"
        f" (aim 1.3): {', '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}"
    )


if __name__ == "__main__":
    main()
