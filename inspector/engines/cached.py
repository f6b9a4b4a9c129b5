"""`CachedEngine`: another engine, asked only for what is not remembered.

What comes from the cache says so in its timings (`cache_s`, what fetching it took, and `saved_s`, what
the compile had taken more), and is otherwise the result of the first time. Not remembered: failures,
programs that call back into this process, compiles whose dump was cut off by a full disk, and compiles that are asked to dump (a cache would hide
the dump). Settings: `inspector.settings`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable

from inspector import settings
from inspector.compilation.caches.program_cache import DiskCache, MemoryCache, cache_key, is_large
from inspector.compilation.compiled import CompiledProgram, is_incomplete
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
    """Remembers what another engine compiled. Thread-safe.

    Attributes:
      engine: the other one.
    """

    def __init__(self, engine: Engine, compiler: Callable[[CompileRequest], str]) -> None:
        """Nothing is read yet.

        Args:
          engine: who compiles what is not remembered, and who runs.
          compiler: tells who would compile a request: versions, machine, configuration. What
            compilers of the same text make may take each other's place.
        """
        self.name = engine.name
        self.engine = engine
        self._compiler = compiler
        self._memory = MemoryCache()
        self._lane = Lane("inspector-cache")
        self._writing: dict[str, CompiledProgram] = {}
        self._written: Job[None] | None = None

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling, or hands out what was compiled before; see `Engine.submit`."""
        chosen = settings.current()
        if not chosen.cache or not _cacheable(request):
            return self.engine.submit(request)
        started = time.perf_counter()
        key = cache_key(request, self._compiler(request))
        held = self._memory.get(key) or self._writing.get(key)
        if held is not None:
            job: Job[CompiledProgram] = Job()
            _hand_out(job, request, held, started)
            return job
        if chosen.cache_directory and key in DiskCache(chosen.cache_directory):
            return self._load(request, key, chosen, started)
        return self._compile(request, key, chosen)

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Starts running; see `Engine.run`."""
        return self.engine.run(request)

    def close(self) -> None:
        """Waits a moment for what is still being written, then closes the engine too. May be called twice."""
        if self._written is not None:
            with contextlib.suppress(TimeoutError):
                self._written.exception(_CLOSE_LIMIT_S)
        self._lane.close(timeout_s=_CLOSE_LIMIT_S)
        self.engine.close()

    def _load(self, request: CompileRequest, key: str, chosen: Settings, started: float) -> Job[CompiledProgram]:
        """Reads on the lane's thread; compiles when the file turns out to be none."""
        instead: list[Job[CompiledProgram]] = []

        def cancel() -> None:
            for inner in instead:
                inner.cancel()

        job: Job[CompiledProgram] = Job(cancel=cancel)
        advance(job, READING_CACHE)

        def load() -> None:
            found = DiskCache(chosen.cache_directory).get(key, request)
            if found is not None:
                if not is_large(found, chosen.cache_memory_bytes):
                    self._memory.put(key, found, chosen.cache_memory_bytes)
                _hand_out(job, request, found, started)
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
        # Each asker has a binding of its own, which may hold models.
        self._remember(
            key, deferred.replace(compiled, program=dataclasses.replace(compiled.program, binding=None)), chosen
        )

    def _remember(self, key: str, compiled: CompiledProgram, chosen: Settings) -> None:
        """Keeps it in memory, on disk or both, once its executable has come; where the disk cannot have it, in memory."""

        def keep() -> None:
            if compiled.executable == LOST:
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
    """Reports whether the compiler could not write all that was read of this compile, because a disk was full."""
    return any(is_incomplete(getattr(compiled, name)) for name in RECORDS) or any(
        warning.startswith(NOT_WRITTEN) for warning in compiled.warnings
    )


def _cacheable(request: CompileRequest) -> bool:
    dumps = any("_dump_" in name for name in request.build_options.flags)
    return not (request.program.host_callbacks or dumps)


def _hand_out(job: Job[CompiledProgram], request: CompileRequest, held: CompiledProgram, started: float) -> None:
    cache_s = time.perf_counter() - started
    before_s = held.timings["total_s"] - held.timings["queue_s"]
    timings = {**held.timings, "cache_s": cache_s, "saved_s": before_s - cache_s}
    # The request's own program: names of arguments and live callbacks are not part of the key.
    compiled = deferred.replace(
        held, program=request.program, options=request.options, target=request.target, timings=timings
    )
    job.show(Preview.of(compiled, job.elapsed_s))
    job.resolve(compiled)


def _fail_with(job: Job[CompiledProgram], reading: Job[None]) -> None:
    error = reading.exception()
    if error is not None:
        job.fail(error, stage=reading.stage)
