"""Compiles and records the programs of the corpus.

`python -m tests.findings.corpus.record` compiles those that have no recording; with names, only those, again.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import time
import traceback
from pathlib import Path

import jax

import inspector
from inspector.errors import Unavailable
from inspector.support import deferred
from tests.findings.corpus.cases import CASES, CPU, CPUS, GPU, GPUS, TPU, TPUS, Case

AREAS = ("memory", "arguments", "products", "loops", "sharding", "clean", "libraries")
FOLDER = Path(__file__).parents[2] / "data" / "findings" / "corpus"


def cases() -> list[Case]:
    """Returns all programs."""
    for area in AREAS:
        importlib.import_module(f"tests.findings.corpus.{area}")
    return list(CASES.values())


def compiled(case: Case, target: str) -> inspector.Compiled:
    """Compiles a program."""
    with jax.enable_x64(True) if case.x64 else contextlib.nullcontext():
        fun, args = case.build()
        return inspector.lower(fun, *args, target=target).compile(target=target)


@functools.cache
def recorded(name: str, target: str) -> inspector.Compiled:
    """Returns a recorded program."""
    (loaded,) = [inspector.load(file_of(name, target))]
    assert isinstance(loaded, inspector.Compiled)
    return loaded


def file_of(name: str, target: str) -> Path:
    return FOLDER / f"{name}-{target.replace(':', '-')}.inspector"


def save(program: inspector.Compiled, path: Path) -> None:
    """Saves a program without its machine code, which is most of a file, and which no detector reads."""
    deferred.replace(program, _executable=Unavailable("The recording leaves out the machine code.")).save(path)


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for target in (GPU, CPU, GPUS, CPUS, TPU, TPUS):  # the fastest compilers first
        for case in cases():
            path = file_of(case.name, target)
            if target not in case.targets or (case.name not in names if names else path.exists()):
                continue
            started = time.perf_counter()
            try:
                save(compiled(case, target), path)
            except Exception:
                traceback.print_exc(limit=-3)
                print(f"FAILED {case.name} {target}", flush=True)
            else:
                print(f"{time.perf_counter() - started:5.1f} s {path.stat().st_size:8} {path.name}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
