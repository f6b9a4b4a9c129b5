"""The kernel's side of the fuzz: a process with an engine that does hostile requests and must not die.

Reads a request's number a line from stdin, writes an outcome a line, as JSON, to stdout.
`driver.py` starts it, and watches it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector import settings
from inspector._jax.compiling.ahead_of_time import absent_platform
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest, RunRequest
from inspector.compilation.target import Target
from inspector.engines.workers.environment import Environment
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import (
    CompilationError,
    InspectorError,
    StartLimitError,
    TimeLimitError,
    Unavailable,
    WorkerDiedError,
)
from inspector.stages.lowered import Lowered
from inspector.toolchain import flags, xla
from inspector.toolchain.flags import catalog
from tests.fuzz import hostile

TIME_LIMIT_S = 20.0
PLAIN_LIMIT_S = 80.0  # what is not hostile must succeed, on a busy machine too
# A platform's targets, by how many devices the program takes.
TARGETS: dict[hostile.Platform, dict[int, str]] = {
    "cpu": {1: "cpu", 8: "cpu:8"},
    "tpu": {1: "tpu:v5e:2x2", 8: "tpu:v5e:2x4"},
    "cuda": {1: "gpu:h100:2", 8: "gpu:h100:8"},
}
LOST_AFTER_S = 90.0
_CHECK_EVERY = 50
_LITTLE_MEMORY_BYTES = 64 << 20


def main() -> None:
    """Serves until stdin ends."""
    seed = int(sys.argv[1])
    writer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    kernel = Kernel(seed)
    writer.write(json.dumps({"ready": True, "jaxlib": kernel.jaxlib}) + "\n")
    writer.flush()
    try:
        for line in sys.stdin:
            outcome = kernel.do(int(line))
            writer.write(json.dumps(outcome) + "\n")
            writer.flush()
    finally:
        kernel.engine.close()


class Kernel:
    """An engine, programs for it, and what a plain request must give."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.engine = WorkerEngine()
        self.fields = _fields()
        self.passes = _passes()
        self.platforms = [name for name in hostile.PLATFORMS if name == "cpu" or absent_platform(name) is None]
        self.programs = {name: _programs(name) for name in self.platforms}
        self.plain: dict[tuple[hostile.Platform, int], str] = {}
        self.jaxlib = jax.lib.__version__
        self.done = 0

    def do(self, index: int) -> dict[str, Any]:
        """The outcome of one request: `{index, kind, outcome, error, text, seconds, bad}`; `bad` is "" where all is well."""
        asked = hostile.hostile(self.seed, index, self.fields, self.passes, self.platforms)
        self._plain(asked)
        started = time.monotonic()
        outcome, error, bad = self._outcome(asked)
        self.done += 1
        if not bad and (asked.kind == "fault" or outcome in ("crashed", "timed out") or self.done % _CHECK_EVERY == 0):
            bad = self._still_sound(asked)
        kind = asked.fault or asked.kind
        return {
            "index": index, "kind": kind, "target": str(self._target(asked)), "outcome": outcome, "seconds": round(time.monotonic() - started, 3), "bad": bad,
            "error": type(error).__name__ if error else "", "text": str(error)[:600] if error else "",
            "asked": repr({**asked.flags, **asked.build})[:300],
        }  # fmt: skip

    def _outcome(self, asked: hostile.Hostile) -> tuple[str, BaseException | None, str]:
        compiling = False

        def stage(job: Job[Any]) -> None:
            nonlocal compiling
            compiling = compiling or job.stage == "compiling"

        try:
            lowered = self._lowered(asked)
            options = Options(flags=asked.flags, **asked.build)
            job = self._compile(asked, lowered, options, TIME_LIMIT_S)
            job.add_progress_callback(stage)
            with self._fault(asked):
                compiled = job.result(LOST_AFTER_S)
            if asked.run and asked.platform == "cpu":
                compiling = True
                inputs = tuple(np.ones(a.shape, a.dtype) for a in compiled.program.arguments)
                with settings.scope(time_limit_s=TIME_LIMIT_S):
                    running = self.engine.run(RunRequest(compiled, inputs, (False,) * len(inputs), 1, 0))
                running.result(LOST_AFTER_S)
        except TimeoutError as e:
            return "lost", e, f"no result and no error within {LOST_AFTER_S} s"
        except StartLimitError as e:  # the machine is busy
            return "timed out", e, ""
        except TimeLimitError as e:
            return "timed out", e, _unnamed(e, asked)
        except WorkerDiedError as e:
            return "crashed", e, _unnamed(e, asked)
        except InspectorError as e:
            by_xla = isinstance(e, CompilationError) or compiling
            return "refused by XLA" if by_xla else "refused before", e, _unnamed(e, asked)
        except Exception as e:
            return "unclassified", e, f"{type(e).__name__} is none of inspector's errors"
        return "ok", None, ""

    def _compile(self, asked: hostile.Hostile, lowered: Lowered, options: Options, time_limit_s: float) -> Job[Any]:
        with settings.scope(time_limit_s=time_limit_s):
            return self.engine.submit(CompileRequest(lowered.program, options, self._target(asked)))

    def _compile_plainly(self, asked: hostile.Hostile) -> str:
        return str(self._compile(asked, self._program(asked), Options(), PLAIN_LIMIT_S).result(LOST_AFTER_S).hlo)

    def _target(self, asked: hostile.Hostile) -> Target:
        return Target.parse(TARGETS[asked.platform][self._program(asked).program.options.num_partitions or 1])

    def _program(self, asked: hostile.Hostile) -> Lowered:
        programs = self.programs[asked.platform]
        return programs[asked.program % len(programs)]

    def _lowered(self, asked: hostile.Hostile) -> Lowered:
        program = self._program(asked)
        source = random.Random(asked.seed)
        module: str | bytes
        match asked.kind:
            case "hlo":
                module = hostile.mutated_text(program.hlo, source)
            case "proto":
                module = hostile.mutated_bytes(program.hlo_proto, source)
            case "stablehlo" if source.random() < 0.2:
                module = hostile.mutated_bytes(program.program.module, source)
            case "stablehlo":
                module = hostile.mutated_text(program.stablehlo, source)
            case _:
                return program
        return inspector.lower(module, platform=asked.platform)

    def _plain(self, asked: hostile.Hostile) -> str:
        """The optimized HLO of the program as it is, of the first time."""
        key = asked.platform, asked.program % len(self.programs[asked.platform])
        if key not in self.plain:
            self.plain[key] = self._compile_plainly(asked)
        return self.plain[key]

    def _still_sound(self, asked: hostile.Hostile) -> str:
        """After whatever happened, a plain request gives what it always gave."""
        try:
            hlo = self._compile_plainly(asked)
        except Exception as e:
            return f"a plain request afterwards failed: {type(e).__name__}: {e}"[:600]
        return "" if hlo == self._plain(asked) else "a plain request afterwards gave another module"

    def _fault(self, asked: hostile.Hostile) -> contextlib.AbstractContextManager[Any]:
        if asked.fault is None:
            return contextlib.nullcontext()
        source = random.Random(asked.seed)
        delay_s = source.choice((0.0, 0.002, 0.01, 0.03))
        return _During(delay_s, lambda: _inject(self.engine, self._target(asked), asked.fault, source))


class _During:
    """Does something a little after the block has begun, and undoes it when the block ends."""

    def __init__(self, delay_s: float, act: Callable[[], Callable[[], None]]) -> None:
        self._undo: Callable[[], None] = _nothing
        self._act = act
        self._failed: BaseException | None = None
        self._timer = threading.Timer(delay_s, self._do)

    def _do(self) -> None:
        try:
            self._undo = self._act()
        except BaseException as e:
            self._failed = e

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.join()
        self._undo()
        if self._failed is not None:
            raise self._failed


def _inject(engine: WorkerEngine, target: Target, fault: str | None, source: random.Random) -> Callable[[], None]:
    """Does harm to a worker. What undoes it, where it would last."""
    lane = engine._lanes[Environment.of(target, Options())]
    worker: Any = lane._worker
    server = engine._starter._fork_server._popen
    if worker is None:
        return _nothing
    if fault == "worker killed":
        _signal(worker.pid, signal.SIGKILL)
    elif fault == "worker hung":
        _signal(worker.pid, signal.SIGSTOP)
        return lambda: _signal(worker.pid, signal.SIGCONT)  # one that had answered before is not to hang in the next
    elif fault == "fork server killed" and server is not None:
        _signal(server.pid, signal.SIGKILL)
    elif fault == "worker answers garbage":
        # What is on its way to the kernel is lost, and this comes instead; then the stream goes on.
        worker._reader = cast(BinaryIO, _Garbage(hostile.garbage(source), worker._reader))
    elif fault == "out of memory":
        _limit_memory(worker.pid, _LITTLE_MEMORY_BYTES)
        return lambda: _limit_memory(worker.pid, resource.RLIM_INFINITY)
    return _nothing


def _nothing() -> None:
    pass


def _limit_memory(pid: int, limit_bytes: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (limit_bytes, resource.RLIM_INFINITY))


class _Garbage(io.RawIOBase):
    def __init__(self, junk: bytes, stream: BinaryIO) -> None:
        self._junk = io.BytesIO(junk)
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        junk = self._junk.read(size)
        return junk if len(junk) == size else junk + self._stream.read(size - len(junk))

    def close(self) -> None:
        self._stream.close()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _unnamed(error: BaseException, asked: hostile.Hostile) -> str:
    """Nothing when the message names what was hostile."""
    text = str(error)
    names = [*asked.flags, *(name.removeprefix("num_") for name in asked.build)] or ["module", "program", "jit_"]
    if any(name in text for name in names):
        return ""
    return f"the message names none of {', '.join(names)}"


def _fields() -> list[hostile.Field]:
    return [
        hostile.Field(
            name=option.name,
            kind=flags.flag_type(option.name).kind,
            repeated=flags.flag_type(option.name).repeated,
            choices=option.choices,
            default=None if isinstance(option.default, Unavailable) else option.default,
            of_flags=option.name not in flags.OPTION_FIELDS,
            of_libtpu=flags.flag_type(option.name).home == "libtpu",
        )
        for option in catalog.options()
    ]


def _passes() -> Sequence[str]:
    run = xla.passes_run()
    return ["fusion", "algsimp", "dce", "cse"] if isinstance(run, Unavailable) else sorted(run)


def _programs(platform: hostile.Platform) -> list[Lowered]:
    def dot(x: jax.Array) -> jax.Array:
        return jnp.sin(x) @ x

    def step(w: jax.Array, x: jax.Array) -> Any:
        return jax.value_and_grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)

    def windows(x: jax.Array) -> jax.Array:
        sums = jax.lax.reduce_window(x, 0.0, jax.lax.add, (3,), (1,), "SAME")
        return jax.lax.fori_loop(0, 3, lambda i, v: jnp.sort(v) + i, sums) + jnp.cumsum(x)

    def solve(x: jax.Array) -> jax.Array:
        return jnp.linalg.cholesky(x @ x.T + jnp.eye(4)) + jax.random.normal(jax.random.key(0), (4, 4))

    square = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    vector = jax.ShapeDtypeStruct((16,), jnp.float32)
    lowered = [
        inspector.lower(dot, square, platform=platform), inspector.lower(step, square, square, platform=platform),
        inspector.lower(windows, vector, platform=platform), _sharded(platform),
    ]  # fmt: skip
    if platform != "cuda":  # cuSOLVER's functions are known to XLA only with a package that compiling does not need
        lowered.append(inspector.lower(solve, square, platform=platform))
    return lowered


def _sharded(platform: hostile.Platform) -> Lowered:
    mesh = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)

    def local(x: jax.Array) -> Any:
        total = jax.lax.psum(x, "y")
        return total, jax.lax.ppermute(x, "x", [(0, 1), (1, 0)]), jax.lax.all_gather(x, "y")

    specs = (P("x", None), P("x", "y"), P(None, "x", None))
    fun = jax.shard_map(local, mesh=mesh, in_specs=P("x", "y"), out_specs=specs, check_vma=False)
    spread = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P("x", "y")))
    return inspector.lower(fun, spread, platform=platform)


if __name__ == "__main__":
    main()
