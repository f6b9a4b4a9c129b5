"""Runs in the process that `other_jax_connection.py` starts: answers requests in files until its input ends.

Each line of the input names two files: the request and the reply. When the reply is written, it writes a line. The process and its
workers keep what they compiled, so a later run of a program does not compile it again.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

from inspector.compilation.engine import Job
from inspector.compilation.request import CompileRequest, RunRequest
from inspector.reports import bundle
from inspector.reports.other_jax_messages import QUESTION, REPLY, OtherJaxRequest, Reply
from inspector.reports.recompile import Recompiler, runnable
from inspector.reports.recorded_exploration import RecordedError

_IDLE_S = 300.0
"""Seconds without a request after which the process ends, because it and its workers hold memory."""


def serve() -> None:
    """Answers requests until the input ends, or for five minutes without one."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not a reply
    while select.select([sys.stdin], [], [], _IDLE_S)[0] and (line := sys.stdin.readline()):
        answer_file(*json.loads(line))
        lines.write("done\n")
        lines.flush()


def answer_file(question: str, answer: str) -> None:
    """Reads a request and writes its reply."""
    content = bundle.read(OtherJaxRequest, question, QUESTION)
    job = _begin(content)
    error = job.exception()
    reply = Reply(job.result() if error is None else RecordedError.of(error))
    bundle.write(reply, answer, REPLY, is_temporary=True)


def _begin(content: OtherJaxRequest) -> Job[Any]:
    engine = Recompiler({content.program.digest: content.portable})
    request = CompileRequest(content.program, content.options, content.target, frozenset(content.products))
    compiling = engine.submit(request)
    if content.measurement is None or compiling.exception() is not None:
        return compiling
    asked = content.measurement
    compiled = runnable(compiling.result(), engine)
    return engine.run(
        RunRequest(
            compiled, asked.inputs, asked.per_replica, asked.repeat, asked.warmup, with_outputs=asked.with_outputs
        )
    )
