"""Record fakes for the Explorer: a lowered program, what compiles it, and jobs that a test ends."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inspector.analysis.collectives.collectives import collectives
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.cost import Cost
from inspector.compilation.engine import Job
from inspector.compilation.memory import ASSIGNMENT, Memory, MemorySpace
from inspector.compilation.options.options import Options
from inspector.compilation.preview import Preview
from inspector.compilation.program import Argument, Program, Result
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.compilation.tuning import Tuning
from inspector.compilation.what_if import AS_CALLED, WhatIf
from inspector.errors import Unavailable
from inspector.execution.inputs import Input
from inspector.execution.run import Run
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.source import Root
from inspector.stages.kernel import Kernel
from inspector.widgets.explorer import Explorer
from inspector.widgets.work import Axes, Work

DATA = Path(__file__).parent.parent / "hlo" / "data"
HLO = (DATA / "plain.0.10.hlo").read_text()
PROTO = (DATA / "plain.0.10.pb").read_bytes()


@dataclasses.dataclass(frozen=True)
class FakeLowered:
    """A recorded module under any axis environment; its requests are checked as real ones are."""

    program: Program
    source: Listing | Unavailable = Unavailable("no source")  # noqa: RUF009 - frozen
    jaxpr_listing: Listing | Unavailable = Unavailable("no jaxpr", "lower the function")  # noqa: RUF009 - frozen
    stablehlo_listing: Listing = Listing.of("module {}", [()])  # noqa: RUF009 - frozen
    hlo: str = HLO
    hlo_proto: bytes = PROTO
    root: Root = Root()  # noqa: RUF009 - frozen
    kernels: tuple[Kernel, ...] = ()
    notes: tuple[str, ...] = ()
    _again: None = None
    supposed: WhatIf = AS_CALLED
    timings: Mapping[str, float] = dataclasses.field(default_factory=lambda: {"trace_s": 0.1, "lower_s": 0.2})

    def request(self, options: Options, target: Target) -> CompileRequest:
        options.check()
        return CompileRequest(self.program, options, target)

    def module(self) -> Module:
        return Module.from_proto(self.hlo_proto)

    def collectives(self) -> Any:
        return collectives(self.module(), self.program.mesh)


def lowered(axes: Sequence[tuple[str, int]] = (), name: str = "jit_step", platform: str = "cpu") -> FakeLowered:
    sizes = tuple(size for _, size in axes)
    mesh = Mesh(tuple(n for n, _ in axes), sizes, "replica") if axes else None
    options = Options(num_replicas=int(np.prod(sizes)) if axes else 1)
    return FakeLowered(
        Program(
            name,
            b"module",
            (Argument("x", (2,), "float32", 0),),
            (Result("", (2,), "float32"),),
            options,
            mesh,
            platform,
        )
    )


def compiled(request: CompileRequest, hlo: str = HLO, **changes: Any) -> CompiledProgram:
    made = CompiledProgram(
        program=request.program, options=request.options, target=request.target, _engine="fake", hlo=hlo,
        hlo_proto=PROTO, memory=Memory("RAM", {"RAM": MemorySpace(8, 8, 0, 0, 16)}, ASSIGNMENT, {}, 0, 0), cost=Cost(2.0, 0.0, 16.0),
        timings={"compile_s": 0.5}, _executable=b"", versions={"jax": "0"},
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


class FakeRun:
    """A measurement that a test ends."""

    def __init__(self, compiled: CompiledProgram, repeat: int) -> None:
        self.job: Job[Run] = Job()
        self.compiled, self.repeat = compiled, repeat

    stage = property(lambda self: self.job.stage)
    elapsed_s = property(lambda self: self.job.elapsed_s)

    def cancel(self) -> bool:
        return self.job.cancel()

    def result(self) -> Run:
        return self.job.result()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.job.add_done_callback(callback)

    def add_progress_callback(self, callback: Callable[[Any], None]) -> None:
        self.job.add_progress_callback(callback)

    def finish(self) -> None:
        program = self.compiled.program
        value = np.zeros(2, np.float32)
        self.job.resolve(Run(program, (Input(program.arguments[0], value),), (value,), (0.1,) * self.repeat, 1, "fake"))


class FakeWork(Work):
    """Keeps what was asked for; nothing ends by itself."""

    targets: Any = ()
    retraces: Any = None

    def __init__(self) -> None:
        self.requests: list[CompileRequest] = []
        self.jobs: list[Job[CompiledProgram]] = []
        self.runs: list[FakeRun] = []
        self.lowerings: list[tuple[list[tuple[str, int]], str]] = []
        self.lower_error: Exception | None = None
        self.submit_error: Exception | None = None
        self.stage = "queued"
        self._lock = threading.Lock()

    def lower(self, axes: Axes, platform: str, tuning: Tuning) -> Any:
        self.lowerings.append((list(axes or ()), platform))
        if self.lower_error is not None:
            raise self.lower_error
        return lowered(axes or (), platform=platform)

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        if self.submit_error is not None:
            raise self.submit_error
        job: Job[CompiledProgram] = Job()
        job.advance(self.stage)
        with self._lock:
            self.requests.append(request)
            self.jobs.append(job)
        return job

    def run(self, compiled: CompiledProgram, repeat: int) -> FakeRun:
        self.runs.append(FakeRun(compiled, repeat))
        return self.runs[-1]

    def suit(self, lowered: Any, target: Target) -> Target:
        count = lowered.program.device_count
        return Target(f"cpu:{count}") if count > 1 and not target.is_absent else target

    def preview(self, index: int) -> None:
        self.jobs[index].show(Preview.of(compiled(self.requests[index]), 0.1))

    def finish(self, index: int, **changes: Any) -> None:
        self.jobs[index].resolve(compiled(self.requests[index], **changes))

    def finish_all(self) -> None:
        for index, job in enumerate(self.jobs):
            if not job.done():
                self.finish(index)

    def explorer(self, axes: Sequence[tuple[str, int]] = (), name: str = "jit_step", **settings: Any) -> Explorer:
        self.targets = ("attached", "cpu", "cpu:8")
        program: Any = lowered(axes, name)
        return Explorer(program, self, **settings)


def ask(explorer: Explorer, message: dict[str, Any]) -> None:
    """Hands the Explorer a message of a browser."""
    explorer._app._receive(explorer._app, message, [])


def ask_to_add(explorer: Explorer, flag: str = "", value: str = "", target: str = "") -> None:
    ask(explorer, {"type": "add", "flag": flag, "value": value, "target": target})


def ask_to_lower(explorer: Explorer, axes: str) -> None:
    ask(explorer, {"type": "lower", "axes": axes})


class Mailbox:
    """Returns the messages that a browser that opened the Explorer would have, in order."""

    def __init__(self, explorer: Explorer) -> None:
        self.all: list[dict[str, Any]] = []
        self.explorer = explorer
        explorer._app.send = lambda content, buffers=None: self.all.append(content)
        self.send({"type": "ready", "browser": "browser"})

    def send(self, message: dict[str, Any]) -> None:
        """A message of the browser."""
        ask(self.explorer, message)

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return [m for m in self.all if m["type"] == kind and all(m.get(k) == v for k, v in fields.items())]

    def last(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self.of(kind, **fields)[-1]

    def reply(self, kind: str, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the reply to a numbered request."""
        self.send(request)
        return self.wait_for(kind, id=request["id"])

    def wait_for(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The first message of a kind with these fields."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if found := self.of(kind, **fields):
                return found[0]
            time.sleep(0.02)
        raise TimeoutError(f"no {kind} with {fields}; got {[m['type'] for m in self.all]}")


def finished() -> Explorer:
    """An Explorer whose one variant is compiled."""
    work = FakeWork()
    explorer = work.explorer()
    work.finish(0)
    return explorer.wait(10)
