"""Measures the roofs of this machine's CPU with NumPy, and remembers them for the machine.

Each rate is the best of many runs on all cores that this process may use, because other processes slow down single runs.
The rates are those of NumPy's code, which is not XLA's: an estimate from them is "about".
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import math
import mmap
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from inspector.errors import Unavailable
from inspector.platforms import CacheLevel, Peak, Rate
from inspector.platforms.chip import GIGA, KIB, MIB
from inspector.support import files

_SIDES = (1024, 2048)  # of a product that NumPy's library distributes over the cores
_SIDE = 256  # of a product of one core
_CACHED = (256 * KIB, MIB, 4 * MIB, 16 * MIB)  # working sets of a core, in caches of usual sizes
_MEMORY = 64 * MIB  # of a core, larger than most caches
_IN_CACHE = 64 * KIB  # of a core, for arithmetic
_RUN = 16  # values: the features of a narrow convolution
_NEW = 16 * MIB  # of a core, from the system
_POINTS = 1024  # of each Fourier transform
_SORTED = 8192  # values, in a cache
_COPIED = 64 * MIB  # of a core in a run, so that starting the threads takes a small part of it
_CALLS = 16  # in a run, of operations that take tens of microseconds
_MANY_CALLS = 256  # of those that take less
_FEWEST = 3
_RUNS_S = 0.15
"""Least time of all runs of one of the rates. There are forty, so a measurement takes about six seconds."""

_EXPONENTIAL = 12
"""Operations of the vector unit for `exp`, which XLA computes with a polynomial; from times of XLA's CPU."""

_FORMAT = 8
_MAX_BYTES = 1 << 16
_NAMES = (
    "f32", "memory", "transforms", "comparisons", "direct comparisons", "strided memory", "chained",
    "runs", "first writes",
)  # fmt: skip


def measured_peak(clock: Callable[[], float] | None = None, *, again: bool = False) -> Peak:
    """Returns the roofs of this machine's CPU, measured with NumPy.

    The rates are matrix products of `f32`, Fourier transforms, comparisons of a sort, chained additions,
    plain and transposing copies in caches and in the main memory, copies of short runs, and first writes to new pages. The
    first call takes about six seconds. The result is stored in the user's cache folder, for this processor and number of
    usable cores, and returned by all later calls.

    The result is neither a vendor's figure nor measured with XLA's code.

    Args:
      clock: returns a time in seconds, for tests; with a clock nothing is stored.
      again: whether to measure again, for example because the machine was busy. The faster rates are kept.
    """
    cores = _cores()
    if clock is not None:
        return _peak(_measured(clock, cores), cores)
    path = _stored_at(cores)
    stored = None if path is None else _read(path, cores)
    if stored is not None and not again:
        return _peak(stored, cores)
    rates = _measured(time.perf_counter, cores)
    if stored is not None:
        rates = {name: max(rate, stored[name]) for name, rate in rates.items()}
    if path is not None:
        _write(path, rates)
    return _peak(rates, cores)


def stored_peak() -> Peak | None:
    """Returns the roofs of this machine's CPU that `measured_peak` stored; None if they were not measured yet."""
    cores = _cores()
    path = _stored_at(cores)
    stored = None if path is None else _read(path, cores)
    return None if stored is None else _peak(stored, cores)


def can_store_peak() -> bool:
    """Reports whether this user has a cache folder, so that a measurement is needed only once."""
    return files.cache_folder() is not None


def _peak(rates: Mapping[str, float], cores: int) -> Peak:
    unknown = Unavailable("not measured")
    source = f"measured on this machine with NumPy, on {cores} {'core' if cores == 1 else 'cores'}"
    return Peak(
        "cpu",
        {"f32": rates["f32"]},
        rates["memory"],
        unknown,
        Unavailable("a CPU has none"),
        unknown,
        source,
        vector=Rate(rates["f32"] / 2, f"half of the FLOP/s of products, whose instructions do two each; {source}"),
        transcendental=Rate(
            rates["f32"] / 2 / _EXPONENTIAL, f"exp as {_EXPONENTIAL} operations of the vector unit; {source}"
        ),
        transforms=Rate(rates["transforms"], f"transforms of {_POINTS:,} complex values; {source}"),
        vmem=Unavailable("a CPU has none"),
        caches=tuple(
            CacheLevel(size * cores, rates[f"copy {size}"], rates[f"strided copy {size}"]) for size in _CACHED
        ),
        comparisons=Rate(
            rates["comparisons"], f"n log2 n comparisons of {_SORTED:,} strings of four bytes, on one core; {source}"
        ),
        direct_comparisons=Rate(
            rates["direct comparisons"], f"n log2 n comparisons of {_SORTED:,} integers, on one core; {source}"
        ),
        strided=Rate(rates["strided memory"], f"transposing copies; {source}"),
        chained=Rate(rates["chained"], f"additions of a cumulative sum; {source}"),
        runs=Rate(rates["runs"], f"copies of {_RUN} values each; {source}"),
        first_writes=Rate(rates["first writes"], f"first writes to new pages; {source}"),
    )


def _measured(clock: Callable[[], float], cores: int) -> dict[str, float]:
    """Returns the rates per second by name."""
    rates = dict[str, float]()
    with concurrent.futures.ThreadPoolExecutor(cores) as threads:

        def rate(work: Callable[[Any, Any], object], byte_size: int, amount: float, calls: int) -> float:
            """Returns the amount per second, if each core does `work` `calls` times on two arrays, together of `byte_size`."""
            pairs = [np.full((2, byte_size // 8), 0.5, np.float32) for _ in range(cores)]

            def repeated(pair: Any) -> None:
                for _ in range(calls):
                    work(*pair)

            each_s = _best_s(clock, lambda: [*threads.map(repeated, pairs)])
            alone_s = _best_s(clock, lambda: repeated(pairs[0]))  # faster if the other cores are busy
            return amount * calls * max(cores / each_s, 1 / alone_s)

        by_core = rate(_square, 8 * _SIDE**2, 2 * _SIDE**3, _CALLS)
        rates["f32"] = max(by_core, *(_product(clock, side) for side in _SIDES))
        for size in _CACHED:
            rates[f"copy {size}"] = rate(np.copyto, size, size, _COPIED // size)
            rates[f"strided copy {size}"] = rate(_transpose, size, size, 1)
        rates["memory"] = rate(np.copyto, _MEMORY, _MEMORY, 1)
        rates["strided memory"] = rate(_transpose, _MEMORY, _MEMORY, 1)
        rates["comparisons"], rates["direct comparisons"] = (_comparisons(clock, kind) for kind in ("S4", "i4"))
        count = _IN_CACHE // 8  # complex values
        rates["transforms"] = rate(_transform, 2 * _IN_CACHE, 5 * count * math.log2(_POINTS), 1)
        rates["chained"] = rate(_cumulative, 2 * _IN_CACHE, _IN_CACHE // 4, _CALLS)
        rates["runs"] = rate(_copy_runs, 2 * _IN_CACHE, _IN_CACHE // 4 / (2 * _RUN), _MANY_CALLS)
        rates["first writes"] = rate(_first_write, 8, _NEW, 1)
    return rates


def _product(clock: Callable[[], float], side: int) -> float:
    """Returns the FLOPs per second of a product on all cores."""
    a = np.ones((side, side), np.float32)
    return 2 * side**3 / _best_s(clock, lambda: a @ a)


def _comparisons(clock: Callable[[], float], kind: str) -> float:
    """Returns the comparisons per second of a sort of integers or of strings, which take about as long as a comparator's call."""
    values = np.random.default_rng(0).integers(0, 1 << 32, _SORTED, np.uint32).view(kind)
    return _SORTED * math.log2(_SORTED) / _best_s(clock, lambda: np.sort(values, kind="stable"))


def _transpose(source: Any, result: Any) -> None:
    """Transposes a matrix whose sides are equal or differ by a factor of two."""
    rows = 1 << (int(math.log2(source.size)) // 2)
    np.copyto(result.reshape(-1, rows), source.reshape(rows, -1).T)


def _square(source: Any, result: Any) -> None:
    matrix = source.reshape(_SIDE, _SIDE)
    np.matmul(matrix, matrix, out=result.reshape(_SIDE, _SIDE))


def _cumulative(source: Any, result: Any) -> None:
    np.cumsum(source, out=result)


def _copy_runs(source: Any, result: Any) -> None:
    """Copies every second run of values."""
    np.copyto(result.reshape(-1, 2, _RUN)[:, 0], source.reshape(-1, 2, _RUN)[:, 0])


def _first_write(_source: Any, _result: Any) -> None:
    """Writes to pages that the system provides for it."""
    with contextlib.closing(mmap.mmap(-1, _NEW)) as pages:
        np.frombuffer(pages, np.uint8).fill(1)


def _transform(source: Any, result: Any) -> None:
    result.view(np.complex64).reshape(-1, _POINTS)[:] = np.fft.fft(source.view(np.complex64).reshape(-1, _POINTS))


def _best_s(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """Returns the shortest time of several runs."""
    begun, times = clock(), list[float]()
    ended = begun
    while len(times) < _FEWEST or ended - begun < _RUNS_S:
        started = clock()
        work()
        ended = clock()
        times.append(ended - started)
    return min(times)


def _cores() -> int:
    """Returns the number of cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def _stored_at(cores: int) -> Path | None:
    """Returns the file with this machine's rates; None for a user without a cache folder."""
    folder = files.cache_folder()
    if folder is None:
        return None
    machine = (platform.node(), _processor(), str(cores), np.__version__)
    name = hashlib.sha256("\0".join(machine).encode()).hexdigest()[:16]
    return folder / f"cpu-peak-{_FORMAT}-{name}.json"


def _processor() -> str:
    """Returns the processor's name and features, as far as the system has them."""
    with contextlib.suppress(OSError):
        lines = files.read("/proc/cpuinfo", 1 << 24).decode(errors="replace").split("\n")
        return "\n".join(dict.fromkeys(line for line in lines if line.startswith(("model name", "flags", "Features"))))
    return f"{platform.processor()} {platform.machine()}"


def _read(path: Path, cores: int) -> dict[str, float] | None:
    """Returns stored rates; None if there are none, or if they are damaged or may be from another user."""
    try:
        files.check_own_folder(path.parent)
        rates = json.loads(files.read(path, _MAX_BYTES, own=True))
    except (OSError, ValueError):
        return None
    names = {*_NAMES, *(f"{kind} {size}" for size in _CACHED for kind in ("copy", "strided copy"))}
    if not isinstance(rates, dict) or rates.keys() != names:
        return None
    return rates if all(type(rate) is float and 0 < rate < cores * 1e6 * GIGA for rate in rates.values()) else None


def _write(path: Path, rates: Mapping[str, float]) -> None:
    """Stores the rates in one step; does nothing if the folder is not writable."""
    with contextlib.suppress(OSError):
        files.make_own_folder(path.parent)
        with files.writing(path, mode=0o600, durable=False) as file:
            file.write(json.dumps(rates).encode())
