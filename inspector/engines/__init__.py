"""Who compiles and where: the choice of an engine, and the engines that a process shares.

Engines are made when first needed, closed when the process ends, and not carried into a fork.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING

from inspector.compilation.program import Program
from inspector.compilation.target import Target

if TYPE_CHECKING:
    from inspector.compilation.engine import Engine
    from inspector.engines.inline import InlineEngine
    from inspector.engines.worker import WorkerEngine

_lock = threading.RLock()
_inline: InlineEngine | None = None
_worker: WorkerEngine | None = None


def default_engine(program: Program, target: Target) -> Engine:
    """The engine that suits a program and a target, for compiling as for running.

    Host callbacks live in this process, and the attached accelerator belongs to it: both go to
    the inline engine. Everything else goes to a worker.
    """
    if program.host_callbacks:
        return inline_engine()
    if target.kind == "attached":
        from inspector._jax.client import attached_platform

        if attached_platform() != "cpu":
            return inline_engine()
    return worker_engine()


def inline_engine() -> InlineEngine:
    """This process's inline engine."""
    global _inline
    with _lock:
        if _inline is None:
            from inspector.engines.inline import InlineEngine

            _inline = InlineEngine()
        return _inline


def worker_engine() -> WorkerEngine:
    """This process's worker engine."""
    global _worker
    with _lock:
        if _worker is None:
            from inspector.engines.worker import WorkerEngine

            _worker = WorkerEngine()
        return _worker


def close_engines() -> None:
    """Closes both; later calls make new ones. Called when the process ends."""
    global _inline, _worker
    with _lock:
        engines = (_worker, _inline)
        _inline = _worker = None
    for engine in engines:
        if engine is not None:
            engine.close()


def _forget_in_child() -> None:
    global _lock, _inline, _worker
    _lock = threading.RLock()
    _inline = _worker = None


atexit.register(close_engines)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
