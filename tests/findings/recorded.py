"""Sharded programs and Pallas kernels with mistakes, compiled for TPUs and GPUs: recorded, so that the tests of detectors need no compilers.

`python -m tests.findings.recorded` compiles and writes all of them; with names, only those.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import inspector
from tests.findings import blocks, meshes, overlap, rings, sharded, small, uneven, wide_exchanges
from tests.findings.corpus.record import save

FOLDER = Path(__file__).parents[1] / "data" / "findings"
MODULES = (sharded, small, overlap, uneven, rings, meshes, blocks, wide_exchanges)
TPU, GPU = "tpu:v5e:2x4", "gpu:h100:8"


@functools.cache
def recorded(program: Callable[[], sharded.Program], target: str) -> inspector.Compiled:
    """Returns a recorded program."""
    (compiled,) = [inspector.load(_file(program.__name__, target))]
    assert isinstance(compiled, inspector.Compiled)
    return compiled


def _file(name: str, target: str) -> Path:
    return FOLDER / f"{name}-{target.replace(':', '-')}.inspector"


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    recordings: list[dict[str, tuple[Callable[[], sharded.Program], ...]]] = [each.RECORDED for each in MODULES]
    for target, program in ((target, p) for each in recordings for target, programs in each.items() for p in programs):
        if not names or program.__name__ in names:
            fun, args = program()
            platform = "tpu" if target == blocks.CHIP else None
            compiled = inspector.lower(fun, *args, platform=platform).compile(target=target)
            save(compiled, _file(program.__name__, target))


if __name__ == "__main__":
    main(sys.argv[1:])
