"""`CachedEngine`: caches the results of another engine.

A cached result has two more timings, `cache_s` (the time to fetch it) and `saved_s` (the additional time of the original
compile), and otherwise equals the original result. Not cached: failures, programs that call back into this process,
compiles whose dump is incomplete because of a full disk, and compiles with flags that write a dump (a cache hit would
write none). Settings: `inspector.settings`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable

from inspector import settings
from inspector.compilation.caches.program_cache import DiskCache, MemoryCache, cache_key, is_large
from inspector.compilation.compiled import CompiledProgram, executable_of, is_incomplete
from inspector.compilation.engine import READING_CACHE, Engine, Job
from inspector.compilation.preview import Preview
from inspector.compilation.records.registry import RECORDS
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.engines.job_queue import Lane, advance, forward
from inspector.engines.workers.pending_executable import LOST
from inspector.engines.workers.process_output import NOT_WRITTEN
from inspector.settings import Settings
from inspector.support import deferred

_CLOSE_LIMIT_S = 10.0


class CachedEngine:
    """Caches the compiled programs of another engine. Thread-safe.

    Attributes:
      engine: the other engine.
    """

    def __init__(self, engine: Engine, compiler: Callable[[CompileRequest], str]) -> None:
        """Creates the engine without reading the cache.

        Args:
          engine: compiles programs that are not cached, and runs programs.
          compiler: identifies the compiler of a request: versions, machine, configuration. Programs of
            compilers with the same text are interchangeable.
        """
        self.name = engine.name
        self.engine = engine
        self._compiler = compiler
        self._memory = MemoryCache()
        self._lane = Lane("inspector-cache")
        self._writing: dict[str, CompiledProgram] = {}
        self._written: Job[None] | None = None

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling, or returns a cached result; see `Engine.submit`."""
        chosen = settings.current()
        if not chosen.cache or not _cacheable(request):
            return self.engine.submit(request)
        started = time.perf_counter()
        key = cache_key(request, self._compiler(request))
        cached = self._memory.get(key) or self._writing.get(key)
        if cached is not None:
            job: Job[CompiledProgram] = Job()
            _hand_out(job, request, cached, started)
            return job
        if chosen.cache_directory and key in DiskCache(chosen.cache_directory):
            return self._load(request, key, chosen, started)
        return self._compile(request, key, chosen)

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running; see `Engine.run`."""
        return self.engine.run(request)

    def close(self) -> None:
        """Waits a moment for pending writes, then also closes the engine. May be called repeatedly."""
        if self._written is not None:
            with contextlib.suppress(TimeoutError):
                self._written.exception(_CLOSE_LIMIT_S)
        self._lane.close(timeout_s=_CLOSE_LIMIT_S)
        self.engine.close()

    def _load(self, request: CompileRequest, key: str, chosen: Settings, started: float) -> Job[CompiledProgram]:
        """Reads the cache entry on the lane's thread; compiles when it is unusable."""
        instead: list[Job[CompiledProgram]] = []

        def cancel() -> None:
            for inner in instead:
                inner.cancel()

        job: Job[CompiledProgram] = Job(cancel=cancel)
        advance(job, READING_CACHE)

        def load() -> None:
            cached = DiskCache(chosen.cache_directory).get(key, request)
            if cached is not None:
                if not is_large(cached, chosen.cache_memory_bytes):
                    self._memory.put(key, cached, chosen.cache_memory_bytes)
                _hand_out(job, request, cached, started)
                return
            instead.append(self._compile(request, key, chosen))
            forward(instead[0], job)

        reading: Job[None] = Job()
        reading.add_done_callback(lambda done: _fail_with(job, done))
        self._lane.put(reading, load)
        return job

    def _compile(self, request: CompileRequest, key: str, chosen: Settings) -> Job[CompiledProgram]:
        job = self.engine.submit(request)
        job.add_done_callback(lambda done: self._keep(done, key, chosen))
        return job

    def _keep(self, job: Job[CompiledProgram], key: str, chosen: Settings) -> None:
        if job.exception() is not None:
            return
        compiled = job.result()
        if is_doubtful(compiled):
            return
        # Each request has its own binding and its own function, which may hold models.
        program = dataclasses.replace(compiled.program, binding=None, changed=None)
        self._remember(key, deferred.replace(compiled, program=program), chosen)

    def _remember(self, key: str, compiled: CompiledProgram, chosen: Settings) -> None:
        """Caches a program in memory, on disk or both, once its executable is known; in memory if writing to disk fails."""

        def keep() -> None:
            if executable_of(compiled) == LOST:
                return
            if not chosen.cache_directory or not is_large(compiled, chosen.cache_memory_bytes):
                self._memory.put(key, compiled, chosen.cache_memory_bytes)
            if chosen.cache_directory and not DiskCache(chosen.cache_directory).put(
                key, compiled, chosen.cache_disk_bytes
            ):
                self._memory.put(key, compiled, chosen.cache_memory_bytes)

        def forget() -> None:
            self._writing.pop(key, None)

        self._writing[key] = compiled
        self._written = Job()
        self._written.add_done_callback(lambda _: forget())
        self._lane.put(self._written, keep)


def is_doubtful(compiled: CompiledProgram) -> bool:
    """Reports whether a result is incomplete because the compiler could not write all files to a full disk."""
    return any(is_incomplete(getattr(compiled, name)) for name in RECORDS) or any(
        warning.startswith(NOT_WRITTEN) for warning in compiled.warnings
    )


def _cacheable(request: CompileRequest) -> bool:
    dumps = any("_dump_" in name for name in request.build_options.flags)
    return not (request.program.host_callbacks or dumps)


def _hand_out(job: Job[CompiledProgram], request: CompileRequest, cached: CompiledProgram, started: float) -> None:
    cache_s = time.perf_counter() - started
    before_s = cached.timings["total_s"] - cached.timings["queue_s"]
    timings = {**cached.timings, "cache_s": cache_s, "saved_s": before_s - cache_s}
    # The request's own program: the cache key does not include names of arguments and callbacks.
    compiled = deferred.replace(
        cached, program=request.program, options=request.options, target=request.target, timings=timings
    )
    job.show(Preview.of(compiled, job.elapsed_s))
    job.resolve(compiled)


def _fail_with(job: Job[CompiledProgram], reading: Job[None]) -> None:
    error = reading.exception()
    if error is not None:
        job.fail(error, stage=reading.stage)
