"""`Connection`: the process of another JAX, which stays for several requests."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from inspector.errors import CompilationError
from inspector.support import subprocesses

_LIMIT_S = 3600
_CLOSING_S = 5.0
_SAID = 2000
# Imports only inspector from this installation, and everything else from that of the other JAX.
_MAIN = """
import importlib.util, sys
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location("inspector", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["inspector"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["inspector"])
from inspector.reports.other_jax_process import serve
serve()
"""


class Connection:
    """The process of another JAX. It starts with the first request, and again if it has ended. One request at a time."""

    def __init__(self) -> None:
        """Creates the object; starts nothing."""
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._is_asked = False

    def ask(self, python: Path, version: str, question: Path, answer: Path) -> None:
        """Has the process answer a request. Waits for the reply.

        Args:
          python: the Python of the other JAX.
          version: its version, for messages.
          question: the file with the request.
          answer: the file for the reply.

        Raises:
          CompilationError: the process cannot be started, ended, or did not answer within an hour.
        """
        is_new = self._process is None or self._process.poll() is not None
        process = self._started(python, version) if self._process is None or is_new else self._process
        self._is_asked = True
        try:
            is_answered = _answers(process, json.dumps([str(question), str(answer)]))
        finally:
            self._is_asked = False
        if is_answered:
            return
        is_late = process.poll() is None
        code, said = self._end()
        if is_late:
            raise CompilationError(f"JAX {version} did not finish within {_LIMIT_S} s and was stopped.")
        if code == 0 and not is_new:  # it ended just now, because it had been idle
            self.ask(python, version, question, answer)
            return
        raise CompilationError(f"The process of JAX {version} ended with exit code {code}. Its output: {said}")

    def stop(self) -> None:
        """Kills the process, with its request if it has one. Called from any thread."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Ends the process: by itself, so that it deletes its files, or killed if it has a request."""
        process = self._process
        if process is None:
            return
        if self._is_asked:
            process.kill()  # the thread that asked does the rest
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSING_S)
        self._end()

    def _started(self, python: Path, version: str) -> subprocess.Popen[bytes]:
        self._end()
        environ = subprocesses.environ()
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TPU_LIBRARY_PATH"):  # values of this process
            environ.pop(name, None)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        try:
            self._process = subprocess.Popen(
                [str(python), "-P", "-c", _MAIN, str(Path(__file__).parent.parent)],
                env={**environ, "JAX_PLATFORMS": "cpu"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output,
            )  # fmt: skip
        except OSError as e:
            raise CompilationError(f"Could not start the Python of JAX {version}: {e}.") from e
        return self._process

    def _end(self) -> tuple[int, str]:
        """Ends the process and closes its files. Returns its exit code and the end of its output."""
        process, output = self._process, self._output
        self._process = self._output = None
        code, said = 0, ""
        if process is not None:
            process.kill()
            code = process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        if output is not None:
            output.seek(0)
            said = output.read().decode(errors="replace").strip()[-_SAID:]
            output.close()
        return code, said or "none"


def _answers(process: subprocess.Popen[bytes], line: str) -> bool:
    """Writes a line to a process and waits for its reply. Returns False if it ended, or did not reply in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):  # it has ended; its output says why
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
    if not select.select([process.stdout], [], [], _LIMIT_S)[0]:
        return False
    if process.stdout.readline() == b"done\n":
        return True
    process.wait()
    return False
