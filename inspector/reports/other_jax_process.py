"""Runs in the process that `other_jax.py` starts: reads a request from a file, compiles, and writes a reply to another."""

from __future__ import annotations

from inspector.compilation.request import CompileRequest
from inspector.reports import bundle
from inspector.reports.other_jax_messages import QUESTION, REPLY, OtherJaxRequest, Reply
from inspector.reports.recompile import Recompiler
from inspector.reports.recorded_exploration import RecordedError


def answer_file(question: str, answer: str) -> None:
    """Reads the request and writes the reply."""
    content = bundle.read(OtherJaxRequest, question, QUESTION)
    request = CompileRequest(content.program, content.options, content.target, frozenset(content.products))
    job = Recompiler({content.program.digest: content.portable}).submit(request)
    error = job.exception()
    bundle.write(Reply(job.result() if error is None else RecordedError.of(error)), answer, REPLY)
