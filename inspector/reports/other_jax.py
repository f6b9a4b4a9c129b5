"""`OtherJax`: an engine that compiles with another version of JAX, in a separate installation and process.

    request ── OtherJaxRequest ──▶ a file ── other JAX ──▶ a file ── Reply ──▶ result

That process imports this inspector, not one in its installation, and reads the module in its portable form.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Job
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.engines.job_queue import Lane, compiling
from inspector.errors import CancelledError, CompilationError, TargetError
from inspector.reports import bundle, jax_versions
from inspector.reports.other_jax_messages import QUESTION, REPLY, OtherJaxRequest, Reply
from inspector.reports.portable import PortableModules, portable_modules
from inspector.reports.recorded_exploration import RecordedError
from inspector.support import subprocesses

_LIMIT_S = 3600
_SAID = 2000
# Imports only inspector from this installation, and everything else from that of the other JAX.
_MAIN = """
import importlib.util, json, sys
folder, question, answer = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("inspector", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["inspector"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["inspector"])
from inspector.reports.other_jax_process import answer_file
answer_file(question, answer)
"""


class OtherJax:
    """Compiles for targets that name a version of JAX. Thread-safe. One compile at a time for each version and platform."""

    name = "other JAX"

    def __init__(
        self,
        known: PortableModules | None = None,
        find: Callable[[str, str, Callable[[str], object]], Path] = jax_versions.install,
    ) -> None:
        """Creates the engine without installing anything.

        Args:
          known: modules of loaded programs.
          find: returns the Python of a version for a platform.
        """
        self._known, self._find, self._is_closed = known or {}, find, False
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        """Starts compiling; see `Engine.submit`."""
        children: list[subprocess.Popen[bytes]] = []

        def cancel() -> None:
            for child in children:
                child.kill()

        job: Job[CompiledProgram] = Job(cancel=cancel)
        # Other requests do not wait for the installation of a version.
        with self._lock:
            lane = self._lanes.setdefault(str(request.target), Lane("inspector-other-jax"))
        lane.put(job, lambda: self._compile(job, request, children), compiling(request))
        return job

    def run(self, request: RunRequest) -> Job[RunReply]:
        """Fails the job: programs compiled by another JAX cannot run in this process; see `Engine.run`."""
        job: Job[RunReply] = Job()
        target = request.compiled.target
        job.fail(
            TargetError(f"{target} uses JAX {target.jax}, which only compiles. Run the program for {target.by('')}.")
        )
        return job

    def close(self) -> None:
        """Cancels queued jobs, and stops an installation."""
        self._is_closed = True
        for lane in self._lanes.values():
            lane.close()

    def _compile(
        self, job: Job[CompiledProgram], request: CompileRequest, children: list[subprocess.Popen[bytes]]
    ) -> CompiledProgram:
        platform = _platform(request)
        version = request.target.jax
        with jax_versions.wanted_while(lambda: not job.done() and not self._is_closed):
            python = self._find(version, platform, job.advance)
        if job.done():
            raise CancelledError("The job was canceled.")
        job.advance(f"compiling with JAX {version}")
        program = request.program
        portable = portable_modules([program], self._known)[program.digest]
        with tempfile.TemporaryDirectory(prefix="inspector-") as folder:
            question, answer = Path(folder) / "question", Path(folder) / "answer"
            question_content = OtherJaxRequest(
                program, request.options, request.target.by(""), tuple(sorted(request.products)), portable
            )
            bundle.write(question_content, question, QUESTION)
            _ask(python, question, answer, version, children)
            result = bundle.read(Reply, answer, REPLY).result
        if isinstance(result, RecordedError):
            raise result.error
        home = python.parent.parent
        where = (
            f"Compiled by JAX {result.versions.get('jax', version)} in {home} ({jax_versions.size_of(home)} on disk)."
        )
        return dataclasses.replace(
            result, program=program, options=request.options, target=request.target, warnings=(*result.warnings, where)
        )


def _ask(python: Path, question: Path, answer: Path, version: str, children: list[subprocess.Popen[bytes]]) -> None:
    arguments = json.dumps([str(Path(__file__).parent.parent), str(question), str(answer)])
    environ = subprocesses.environ()
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TPU_LIBRARY_PATH"):  # values of this process
        environ.pop(name, None)
    try:
        child = subprocess.Popen(
            [str(python), "-P", "-c", _MAIN, arguments],
            env={**environ, "JAX_PLATFORMS": "cpu"}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as e:
        raise CompilationError(f"Could not start the Python of JAX {version}: {e}.") from e
    children.append(child)
    try:
        _, output = child.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as e:
        child.kill()
        raise CompilationError(f"JAX {version} did not finish within {_LIMIT_S} s and was stopped.") from e
    if child.returncode != 0 or not answer.exists():
        last = output.decode(errors="replace").strip()[-_SAID:] or "none"
        raise CompilationError(
            f"The process of JAX {version} ended with exit code {child.returncode}. Its output: {last}"
        )


def _platform(request: CompileRequest) -> str:
    """Returns the platform to compile for: "cpu", "gpu" or "tpu". Attached accelerators belong to this process."""
    target, lowered_for = request.target, request.program.platform
    if target.kind == "cpu" or (target.kind == "attached" and lowered_for == "cpu"):
        return "cpu"
    if not target.is_absent:
        raise TargetError(
            f"{target} means the devices of this process, which another JAX cannot use. Name their kind instead, such as"
            f" 'gpu:h100@jax=={target.jax}'."
        )
    return target.kind


@functools.cache
def shared_other_jax() -> OtherJax:
    """Returns this process's engine, which installs versions as needed."""
    return OtherJax()
