"""What thousands of toggles leave in the kernel, and what they leave where the kernel compiles itself.

    python -m benchmarks.endurance [--toggles 2000] [--bare 100] [--workload mlp]
    python -m benchmarks.endurance --explores 500

The second one opens so many Explorers of new functions in one kernel, each compiled, shown and closed, and tells
by how much the kernel has grown since a tenth of them.

In one run: so many new settings through `Lowered.compile` in a kernel, that is a Python process of its
own, and so many through `jax.jit(f).lower(...).compile(compiler_options=...)` in another. Every result
is dropped at once. Told are resident memory and memory maps of each kernel at every tenth, and their
growth per 1,000 after the first quarter. The bare loop is cut short: it dies when the maps reach the
system's limit, and when it would is told.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.measuring import NEUTRAL_FLAG, Figure, machine, verdict
from benchmarks.workloads import make

AIM_BYTES_PER_1000 = 10 << 20
AIM_EXPLORES_BYTES = 20 << 20
AIM_MAPS_PER_1000 = 50  # flat: a map or two come and go with a thread
STAGES = 10


@dataclasses.dataclass(frozen=True)
class Course:
    """How a kernel grew.

    Attributes:
      toggles: how many were done at each look, [n].
      resident_bytes, maps: of the kernel then, [n].
      elapsed_s: in all.
    """

    toggles: list[int]
    resident_bytes: list[int]
    maps: list[int]
    elapsed_s: float

    def per_1000(self, values: Sequence[int]) -> float:
        """The slope of `values` after the first quarter: until then caches fill."""
        start = len(values) // 4
        slope, _ = np.polyfit(self.toggles[start:], values[start:], 1)
        return float(1000 * slope)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures both, each in a process of its own, and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--toggles", type=int, default=2000)
    parser.add_argument("--bare", type=int, default=100, help="toggles of the bare loop")
    parser.add_argument("--workload", default="mlp")
    parser.add_argument("--explores", type=int, default=0, help="count Explorers instead")
    parser.add_argument("--kernel", choices=("inspector", "bare", "explores"), help="be one of the kernels")
    options = parser.parse_args(arguments)
    if options.kernel is not None:
        kernels = {"inspector": _inspector, "bare": _bare, "explores": _explores}
        course = kernels[options.kernel](options.workload, options.toggles)
        print(json.dumps(dataclasses.asdict(course)))
        return
    if options.explores:
        figures(options.workload, options.explores)
        return
    print(f"{options.workload} {machine()}", flush=True)
    bare = _course("bare", options.workload, options.bare)
    ours = _course("inspector", options.workload, options.toggles)
    _report("bare loop", bare)
    _report("inspector", ours)
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    growth = bare.per_1000(bare.maps)
    if growth > AIM_MAPS_PER_1000:
        print(f"  the bare loop reaches the limit of {limit} maps after {1000 * limit / growth:.0f} toggles")
    resident, maps = ours.per_1000(ours.resident_bytes), ours.per_1000(ours.maps)
    said = verdict((resident / (1 << 20), AIM_BYTES_PER_1000 >> 20), (maps, AIM_MAPS_PER_1000))
    print(f"  {ours.toggles[-1]} toggles, MB and maps per 1,000: {said} {machine()}")


def figures(workload: str = "mlp", explores: int = 60) -> list[Figure]:
    """Opens and closes Explorers, and prints."""
    course = _course("explores", workload, explores)
    _report_explores(course)
    resident, looks = course.resident_bytes, course.toggles
    name = f"{looks[-1]} explores"
    return [Figure(name, "resident at the end", f"after {looks[0]}", resident[-1] / resident[0])]


def _course(kernel: str, workload: str, toggles: int) -> Course:
    command = [sys.executable, "-m", "benchmarks.endurance", "--kernel", kernel, "--workload", workload]
    done = subprocess.run([*command, "--toggles", str(toggles)], stdout=subprocess.PIPE, check=True, text=True)
    return Course(**json.loads(done.stdout.splitlines()[-1]))


def _report(name: str, course: Course) -> None:
    megabytes = ", ".join(f"{b / (1 << 20):.0f}" for b in course.resident_bytes)
    print(
        f"  {name}, {course.toggles[-1]} toggles in {course.elapsed_s:.0f} s: per 1,000"
        f" {course.per_1000(course.resident_bytes) / (1 << 20):+.1f} MB, {course.per_1000(course.maps):+.0f} maps\n"
        f"    resident MB: {megabytes}\n    maps: {', '.join(map(str, course.maps))}"
    )


def _inspector(name: str, toggles: int) -> Course:
    from inspector import settings
    from inspector.lowering.lower import lower

    workload = make(name)
    lowered = lower(workload.fun, *workload.args)

    def toggle(value: int) -> None:
        lowered.compile({NEUTRAL_FLAG: value}, "cpu")

    # What is remembered on purpose is no leak.
    with settings.scope(cache=False):
        return _follow(toggle, toggles)


def _explores(_: str, count: int) -> Course:
    import gc

    import jax.numpy as jnp

    from inspector import explore

    def one(value: int) -> None:
        def step(x: jax.Array) -> jax.Array:
            return jnp.tanh(x @ x) + value

        explorer = explore(step, jnp.ones((16, 16)), target="cpu").wait()
        explorer._repr_mimebundle_()  # what a cell shows
        explorer.close()
        gc.collect()

    return _follow(one, count)


def _report_explores(course: Course) -> None:
    _report("explores", course)
    grown = growth_since_tenth(course) / (1 << 20)
    said = verdict((grown, AIM_EXPLORES_BYTES >> 20))
    print(f"  {course.toggles[-1]} explores, MB since a tenth of them: {grown:+.1f}, {said} {machine()}")


def growth_since_tenth(course: Course) -> int:
    """Bytes by which the kernel is larger at the end than after the first look, when its caches are warm."""
    return course.resident_bytes[-1] - course.resident_bytes[0]


def _bare(name: str, toggles: int) -> Course:
    workload = make(name)
    staged = jax.jit(workload.fun).lower(*workload.args)

    def toggle(value: int) -> None:
        flags: dict[str, Any] = {NEUTRAL_FLAG: value}
        staged.compile(compiler_options=flags)

    return _follow(toggle, toggles)


def _follow(toggle: Callable[[int], None], toggles: int) -> Course:
    looks, resident, maps = [], [], []
    started = time.perf_counter()
    for count in range(1, toggles + 1):
        toggle(1000 + count)
        if count % max(1, toggles // STAGES) == 0:
            looks.append(count)
            resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
            maps.append(Path("/proc/self/maps").read_bytes().count(b"\n"))
    return Course(looks, resident, maps, time.perf_counter() - started)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
