"""Where a worker's memory is while it compiles a large program, and afterwards, by source.

    python -m benchmarks.worker_memory [workload]

A process that has imported what a worker has compiles the program as a worker does. Told are its resident memory after each
step and what it consists of: pages of files (jaxlib with LLVM, other libraries), what the C library has handed out, and what
it keeps for later. Beside the compile a thread looks at it a hundred times a second: the largest before XLA has written its
optimized HLO is that of XLA's passes, the largest after it that of LLVM and of what is read of the executable.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import gc
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measuring import Figure, machine
from inspector._jax.compiling.compiler import Compiler, Watch
from inspector.engines.serving import Server
from inspector.engines.workers.messages import PlainCompile
from inspector.stages.lowered import compile_request
from inspector.support import memory_release

_MB = 1 << 20
_LOOK_S = 0.01


@dataclasses.dataclass(frozen=True)
class Moment:
    """A worker at one moment; MB.

    Attributes:
      name: in words.
      resident: all.
      jaxlib, files: of it, pages of jaxlib's files, LLVM among them, and of all other files.
      in_use: what `malloc` has handed out.
      free: the rest of what it took for it, of which pages may have been given back.
    """

    name: str
    resident: float
    jaxlib: float
    files: float
    in_use: float
    free: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workload", nargs="?", default="tf24")
    figures(parser.parse_args(arguments).workload)


def figures(name: str = "tf2") -> list[Figure]:
    """Measures in a process of its own, and prints.

    Raises:
      OSError: the system does not tell what a process's memory is (Linux with glibc does).
    """
    print(f"{name} {machine()}", flush=True)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        request = pool.apply(_request, (name,))
        moments, said = pool.apply(_work, (request,))
    print(_table(moments), said, sep="\n", flush=True)
    before, *after = moments
    over = "a worker that has compiled nothing"
    return [Figure(name, f"resident: {each.name}", over, each.resident / before.resident) for each in after]


def _request(name: str) -> PlainCompile:
    """What a worker is asked, made in a process that is none."""
    from benchmarks.workloads import make
    from inspector._jax.compiling.configuration import read_config
    from inspector.engines.workers.messages import plain_compile
    from inspector.lowering.lower import lower

    workload = make(name)
    return plain_compile(compile_request(lower(workload.fun, *workload.args), {}, "cpu"), read_config())


def _work(request: PlainCompile) -> tuple[list[Moment], str]:
    """Compiles as a worker does; what it takes, and what the result consists of."""
    compiler = Compiler("cpu", 1)
    server = Server(lambda _: compiler)
    moments = [_moment("before")]
    watched = _Watched()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        watch = Watch(f"{folder}/hlo", lambda _: watched.next(), lambda _: None)
        report = server.compile(request, lambda _: None, watch=watch)
    passes, code = watched.end()
    moments += [
        dataclasses.replace(passes, name="the most while XLA's passes run"),
        dataclasses.replace(code, name="the most after them: code generation, and reading the result"),
        _moment("with the executable and what was read of it"),
    ]
    sizes = {"text": report.hlo.encode(), "proto": report.hlo_proto, "buffers": report.buffer_assignment}
    if isinstance(report.executable, bytes):
        sizes["executable"] = report.executable
    told = ", ".join(f"{what} {len(data) / _MB:.1f}" for what, data in sizes.items())
    del report, sizes, watch, request
    moments.append(_given_back("without what was read, which was sent"))
    del server
    moments.append(_given_back("without the executable, which is kept for running"))
    return moments, f"what was read, MB: {told}"


class _Watched:
    """Looks at this process beside what it does, and keeps the largest moment of each part of it."""

    def __init__(self) -> None:
        self._parts = [_moment("")]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def next(self) -> None:
        """Another part begins."""
        self._parts.append(_moment(""))

    def end(self) -> list[Moment]:
        """The largest of each part, the last time."""
        self._ended.set()
        self._thread.join()
        return self._parts

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_S):
            part = len(self._parts) - 1
            if _resident_mb() > self._parts[part].resident * 1.02:  # to look in full takes longer
                self._parts[part] = max(self._parts[part], _moment(""), key=lambda each: each.resident)


def _given_back(name: str) -> Moment:
    gc.collect()
    memory_release.give_back()
    return _moment(name)


def _moment(name: str) -> Moment:
    jaxlib = files = 0.0
    for path, resident in _mapped():
        if "/jaxlib/" in path:
            jaxlib += resident
        else:
            files += resident
    info = _mallinfo2()
    in_use, free = info.uordblks + info.hblkhd, info.fordblks
    return Moment(name, _resident_mb(), jaxlib / _MB, files / _MB, in_use / _MB, free / _MB)


def _mapped() -> Iterator[tuple[str, int]]:
    """Path and resident bytes of each mapping of a file."""
    path = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *values = line.split(maxsplit=5)
        if "-" in name:
            path = values[4] if len(values) == 5 else ""
        elif name == "Rss:" and path.startswith("/"):
            yield path, int(values[0]) << 10


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MB


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def _mallinfo2() -> _Mallinfo2:
    try:
        told = ctypes.CDLL(None).mallinfo2
    except AttributeError as e:
        raise OSError(f"the C library of {sys.platform} does not tell what it has handed out (mallinfo2)") from e
    told.restype = _Mallinfo2
    found: _Mallinfo2 = told()
    return found


def _table(moments: Sequence[Moment]) -> str:
    heads = ("resident", "jaxlib's files", "other files", "in use", "free")
    lines = [f"  {'MB':<62}" + "".join(f"{head:>15}" for head in heads)]
    for each in moments:
        numbers = (each.resident, each.jaxlib, each.files, each.in_use, each.free)
        lines.append(f"  {each.name:<62}" + "".join(f"{number:>15.0f}" for number in numbers))
    return "\n".join(lines)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
