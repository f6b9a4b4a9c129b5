"""What it costs to say how two compiled modules differ.

    python -m benchmarks.difference [--rounds 3] [workload ...]

CPU seconds of this process, the best of several rounds, from the bytes of two optimized modules of each workload to the
changes in words: the module against itself renamed and reordered, and against the same compiled without a pass. Beside
them what is told of the second, over the number of instructions that must be told at least (`least`).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax

from benchmarks.measuring import machine
from benchmarks.scrambled import scrambled
from benchmarks.workloads import make
from inspector.analysis.diff.instruction_labels import labels
from inspector.analysis.diff.module_diff import Diff, diff
from inspector.hlo.module import Module

WORKLOADS = ("mlp", "cnn", "tf2", "tf6")
WITHOUT: dict[str, str | bool] = {"xla_disable_hlo_passes": "algsimp"}
AIM_S = 3.0  # for 20,000 instructions on either side
AIM_BOUND = 1.2


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    print(machine())
    for name in options.workloads:
        before, after = _compiled(name, {}), _compiled(name, WITHOUT)
        for what, other in (("itself, renamed and reordered", _renamed(before)), ("without algsimp", after)):
            spent, found = _measured(before, other, options.rounds)
            print(f"{name} against {what}: {_line(spent, found)}", flush=True)


def _compiled(name: str, options: dict[str, str | bool]) -> bytes:
    workload = make(name)
    compiled = jax.jit(workload.fun).lower(*workload.args).compile(compiler_options=options)
    executable: Any = compiled.runtime_executable()
    data: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    return data


def _renamed(data: bytes) -> bytes:
    return scrambled(Module.from_proto(data), 0).columns.data


def _measured(before: bytes, after: bytes, rounds: int) -> tuple[float, Diff]:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        found = diff(Module.from_proto(before), Module.from_proto(after))
        best = min(best, time.process_time() - start)
    return best, found


def least(before: Module, after: Module) -> int:
    """Instructions of both modules that the other has not, however they are matched: by opcode, shape and attributes."""
    ours, theirs = (Counter(said.exact) for said in labels(before, after))
    return (ours - theirs).total() + (theirs - ours).total()


def _line(spent: float, found: Diff) -> str:
    before, after = found.before, found.after
    bound = least(before, after)
    ratio = f", {found.changed / bound:.2f} of the {bound:,} that differ at least (aim {AIM_BOUND})" if bound else ""
    sizes = f"{len(before.columns):,} and {len(after.columns):,} instructions"
    return f"{sizes} in {spent:.2f} s (aim {AIM_S:.0f} at 20,000): {found.headline}; {found.changed:,} told{ratio}"


if __name__ == "__main__":
    main()
