"""The engines that a process shares, and the default engine of a program.

Engines are created on first use, closed when the process ends, and not inherited by a fork.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import platform
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.engines.workers.fork_server import Starter
from inspector.errors import InspectorError, TargetError, Unavailable
from inspector.support.install_commands import install_command

if TYPE_CHECKING:
    from inspector.compilation.engine import Engine
    from inspector.compilation.program import Program
    from inspector.compilation.request import CompileRequest
    from inspector.compilation.target import Target
    from inspector.engines.cached import CachedEngine
    from inspector.engines.inline import InlineEngine
    from inspector.engines.workers.counting import Counts
    from inspector.engines.workers.worker_engine import WorkerEngine

_lock = threading.RLock()
_inline: InlineEngine | None = None
_worker: WorkerEngine | None = None
_starter: Starter | None = None
_cached: dict[str, CachedEngine] = {}


def default_engine(program: Program, target: Target) -> Engine:
    """Returns the default engine of a program and a target, for compiling and running.

    Host callbacks and the attached accelerator belong to this process, so both use the inline engine.
    All other targets, attached or not, use a worker. Results are cached
    (`engines/cached.py`), except those of programs with callbacks.
    """
    if target.jax:
        raise TargetError(
            f"{target} names another version of JAX. Compare with it: inspector.explore(..., compare=['jax=={target.jax}']), or"
            " replay(jax=...) of a recorded exploration."
        )
    if program.host_callbacks and not target.is_absent:
        return inline_engine()
    with _lock:
        engine = _uncached_engine(target)
        if engine.name not in _cached:
            from inspector.engines.cached import CachedEngine

            _cached[engine.name] = CachedEngine(engine, _compiler)
        return _cached[engine.name]


def _uncached_engine(target: Target) -> InlineEngine | WorkerEngine:
    from inspector.engines.workers.environment import accelerator

    return worker_engine() if target.is_absent or accelerator(target) is None else inline_engine()


def inline_engine() -> InlineEngine:
    """Returns this process's inline engine."""
    global _inline
    with _lock:
        if _inline is None:
            from inspector.engines.inline import InlineEngine

            _inline = InlineEngine(try_to_count)
        return _inline


def begin_workers() -> None:
    """Starts the starter of workers in the background, so that a later request finds it ready."""
    _shared_starter().begin()


def worker_engine() -> WorkerEngine:
    """Returns this process's worker engine."""
    global _worker
    with _lock:
        if _worker is None:
            from inspector.engines.workers.worker_engine import WorkerEngine

            _worker = WorkerEngine(starter=_shared_starter())
        return _worker


def _shared_starter() -> Starter:
    global _starter
    with _lock:
        if _starter is None:
            _starter = Starter("auto")
        return _starter


def try_to_count(modules: Sequence[bytes]) -> Sequence[Counts | Unavailable] | Unavailable:
    """Returns XLA's cost analysis of each module, by a worker; or why there is none: without JAX, or without a worker."""
    from inspector.engines.workers.counting import count

    try:
        return count(modules, worker_engine().count)
    except ImportError as e:
        return Unavailable(f"XLA counts the operations, but cannot be imported: {e}", install_command("jax"))
    except InspectorError as e:
        return Unavailable(f"XLA counts the operations in a worker process, but none could be started: {e}")


def close_engines() -> None:
    """Closes all engines and their starter; later calls create new ones. Called when the process ends."""
    global _inline, _worker, _starter
    with _lock:
        # The engines that write to disk come first.
        engines: tuple[Engine | Starter | None, ...] = (*_cached.values(), _worker, _inline, _starter)
        _cached.clear()
        _inline = _worker = _starter = None
    for engine in engines:
        if engine is not None:
            engine.close()


def _forget_in_child() -> None:
    global _lock, _inline, _worker, _starter
    _lock = threading.RLock()
    _inline = _worker = _starter = None
    _cached.clear()


def _compiler(request: CompileRequest) -> str:
    """Identifies the compiler of a request: everything outside the request that can change the result."""
    from inspector._jax.compiling.attached_devices import attached_compiler, installed_versions
    from inspector._jax.compiling.configuration import read_config

    parts = [installed_versions(), read_config(), os.environ.get("XLA_FLAGS", "")]
    if request.target.is_absent:
        from inspector._jax.compiling.ahead_of_time import absent_compiler

        parts += [absent_compiler(request.target.platform or ""), os.environ.get("LIBTPU_INIT_ARGS", "")]
    else:
        parts += [_machine() if request.target.kind in ("cpu", "attached") else ""]
        parts += [attached_compiler() if request.target.kind != "cpu" else ""]
    return json.dumps(parts, sort_keys=True, default=str)


_CPU_FACTS = ("model name", "flags", "Features")


@functools.cache
def _machine() -> str:
    """Describes the processor for which machine code is compiled: its architecture, model and features."""
    try:
        described = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:  # not Linux; on Linux, `platform.processor` would start a process
        return f"{platform.machine()} {platform.processor()}"
    facts = (line.partition(":") for line in described)
    return " ".join([platform.machine(), *(v.strip() for k, _, v in facts if k.strip() in _CPU_FACTS)])


atexit.register(close_engines)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
