"""What is recorded of a variant on demand, for the Passes and the Code pane: a second compile, with products.

Owned by the Explorer, which calls it on the comm's thread (`start`, `cancel`) and on its own (the rest).
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inspector.analysis.assembly import instructions_of_kernels
from inspector.analysis.passes import PassChange, listing_after, pass_change
from inspector.compilation.compiled import not_asked_for
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.passes import Passes
from inspector.compilation.request import CompileRequest
from inspector.errors import CancelledError, ExecutionError, Unavailable
from inspector.hlo.module import Module
from inspector.units import format_seconds
from inspector.widgets import messages
from inspector.widgets.documents import document
from inspector.widgets.work import LoweredView

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.engine import Job

Publish = Callable[[Any, "list[bytes]"], None]
_PRODUCTS: dict[messages.Product, str] = {"passes": "passes", "code": "assembly"}
_GZIP_LEVEL = 1


@dataclasses.dataclass(slots=True, eq=False)
class _Recording:
    """One product of one variant; `value` once it is there, which is all that is kept of its compile."""

    job: Job[CompiledProgram] | None
    lowered: LoweredView
    publish: Publish
    value: Any = None


class Recordings:
    """Every variant's. Thread-safe."""

    def __init__(
        self, submit: Callable[[CompileRequest], Job[CompiledProgram]], later: Callable[[Callable[[], None]], None]
    ) -> None:
        """Nothing is recorded yet.

        Args:
          submit: starts a compile.
          later: does a task on the Explorer's thread.
        """
        self._submit = submit
        self._later = later
        self._lock = threading.Lock()
        self._held: dict[tuple[int, messages.Product], _Recording] = {}

    def start(
        self, number: int, product: messages.Product, compiled: CompiledProgram, lowered: LoweredView, publish: Publish
    ) -> None:
        """Records a product of a variant, unless that is under way or done.

        Args:
          number: the variant's.
          product: what to record.
          compiled: the variant's result; if it has the product, nothing is compiled.
          lowered: its program before any pass.
          publish: sends a message with buffers, unless the variant is gone.
        """
        wanted = _PRODUCTS[product]
        known = getattr(compiled, wanted) != not_asked_for(wanted)
        with self._lock:
            held = self._held.get((number, product))
            if held is not None and (held.value is not None or (held.job is not None and not held.job.done())):
                return
            job = None if known else self._submit(_request(compiled, wanted))
            recording = self._held[number, product] = _Recording(job, lowered, publish)
        if job is None:
            self._later(lambda: self._fill(number, product, recording, compiled))
            return
        job.add_progress_callback(lambda _: self._tell(number, product, recording))
        job.add_done_callback(lambda _: self._later(lambda: self._end(number, product, recording, job)))
        self._tell(number, product, recording)

    def cancel(self, number: int) -> None:
        """Stops what is under way for a variant."""
        with self._lock:
            jobs = [r.job for (variant, _), r in self._held.items() if variant == number and r.job is not None]
        for job in jobs:
            job.cancel()

    def forget(self, number: int) -> Callable[[], None]:
        """Drops what belongs to a variant; the caller then calls what is returned, which stops the work."""
        with self._lock:
            gone = [self._held.pop(key) for key in list(self._held) if key[0] == number]
        jobs = [recording.job for recording in gone if recording.job is not None]

        def cancel() -> None:
            for job in jobs:
                job.cancel()

        return cancel

    def close(self) -> None:
        """Stops everything."""
        with self._lock:
            numbers = {number for number, _ in self._held}
        for number in numbers:
            self.forget(number)()

    def answer_pass(self, request: messages.PassRequest) -> None:
        """Sends what one pass changed."""
        recording = self._recording(request["variant"], "passes")
        reply = messages.PassChange(
            type="pass_change", id=request["id"], variant=request["variant"], index=request["index"], hunks=[],
            summary="", error=None,
        )  # fmt: skip
        try:
            chosen = recording.value[request["index"]]
            change = pass_change(chosen)
            reply |= {"hunks": list(change.hunks), "summary": str(change)}
            module = Module.from_proto(recording.lowered.hlo_proto)
            listing = listing_after(chosen, change, module, recording.lowered.root)
            buffers = [*document("optimized", listing).buffers(), _packed(_removed(change))]
        except Exception as error:  # whatever it is, it belongs in the pane
            reply["error"], buffers = messages.error_of(error), []
        recording.publish(reply, buffers)

    def answer_code(self, request: messages.CodeRequest) -> None:
        """Sends the text of one kernel at one stage."""
        recording = self._recording(request["variant"], "code")
        reply = messages.CodeText(
            type="code_text", id=request["id"], variant=request["variant"], index=request["index"], reason="",
            remedy="", error=None,
        )  # fmt: skip
        buffers: list[bytes] = []
        try:
            text = recording.value[request["index"]].text
            if isinstance(text, Unavailable):
                reply |= {"reason": text.reason, "remedy": text.remedy}
            else:
                buffers = [_packed(text)]
        except Exception as error:  # whatever it is, it belongs in the pane
            reply["error"] = messages.error_of(error)
        recording.publish(reply, buffers)

    def value(self, number: int, product: messages.Product) -> Any:
        """What was recorded: a `Passes`, an `Assembly`.

        Raises:
          ExecutionError: nothing yet, or not any more.
        """
        return self._recording(number, product).value

    def _recording(self, number: int, product: messages.Product) -> _Recording:
        with self._lock:
            recording = self._held.get((number, product))
        if recording is None or recording.value is None:
            raise ExecutionError(f"The {product} of variant {number} are not recorded. Record them first.")
        return recording

    def _tell(self, number: int, product: messages.Product, recording: _Recording) -> None:
        job = recording.job
        assert job is not None
        error = job.exception() if job.done() else None
        state: messages.State = "queued" if job.stage == "queued" else "running"
        if job.done():
            state = "done" if error is None else "cancelled" if isinstance(error, CancelledError) else "failed"
        message = messages.Recording(
            type="recording", variant=number, product=product, state=state, stage=job.stage, elapsed_s=job.elapsed_s,
            error=messages.error_of(error) if error is not None and state == "failed" else None,
        )  # fmt: skip
        recording.publish(message, [])

    def _end(self, number: int, product: messages.Product, recording: _Recording, job: Job[CompiledProgram]) -> None:
        if job.exception() is None:
            self._fill(number, product, recording, job.result())
        self._tell(number, product, recording)

    def _fill(self, number: int, product: messages.Product, recording: _Recording, compiled: CompiledProgram) -> None:
        if product == "passes":
            recording.value = compiled.passes
            recording.publish(_pass_list(number, compiled.passes), [])
        else:
            recording.value = compiled.assembly
            message, table = _code_list(number, compiled)
            recording.publish(message, [_packed(json.dumps(table, separators=(",", ":")))])


def _request(compiled: CompiledProgram, wanted: str) -> CompileRequest:
    return CompileRequest(compiled.program, compiled.options, compiled.target, frozenset([wanted]))


def _pass_list(number: int, passes: Passes | Unavailable) -> messages.PassList:
    if isinstance(passes, Unavailable):
        return messages.PassList(type="passes", variant=number, rows=[], note=_sentence(passes))
    rows = [
        messages.PassRow(
            pipeline=p.pipeline,
            name=p.name,
            changed=p.changed,
            duration_s=None if isinstance(p.duration_s, Unavailable) else p.duration_s,
            reason=p.duration_s.reason if isinstance(p.duration_s, Unavailable) else "",
        )
        for p in passes
    ]
    return messages.PassList(type="passes", variant=number, rows=rows, note=_rest(passes))


def _rest(passes: Passes) -> str:
    """What the list of passes leaves out, and the time that is no pass's."""
    said = [f"{phase.name}, {format_seconds(phase.duration_s)}" for phase in passes.phases]
    parts = [passes.note, f"Besides the passes: {'; '.join(said)}." if said else ""]
    return " ".join(part for part in parts if part)


def _code_list(number: int, compiled: CompiledProgram) -> tuple[messages.CodeList, messages.CodeTable]:
    assembly = compiled.assembly
    if isinstance(assembly, Unavailable):
        note = _sentence(assembly)
        return messages.CodeList(type="code", variant=number, note=note), {"entries": [], "instructions": {}}
    kernels = instructions_of_kernels(assembly, compiled.module())
    table: messages.CodeTable = {
        "entries": [_code_entry(assembly, index) for index in range(len(assembly))],
        "instructions": {kernel: list(names) for kernel, names in kernels.items()},
    }
    return messages.CodeList(type="code", variant=number, note=assembly.note), table


def _code_entry(assembly: Assembly, index: int) -> messages.CodeEntry:
    code = assembly[index]
    return messages.CodeEntry(stage=code.stage, kernel=code.kernel, language=code.language)


def _removed(change: PassChange) -> str:
    """The lines that went: with the text after it what a browser needs to know the one before."""
    before = change.before.text.split("\n")
    return "\n".join(line for a0, a1, _, _ in change.hunks for line in before[a0:a1])


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode("utf-8", "replace"), _GZIP_LEVEL, mtime=0)


def _sentence(unavailable: Unavailable) -> str:
    reason = f"{unavailable.reason[:1].upper()}{unavailable.reason[1:]}."
    return f"{reason} {unavailable.remedy}".strip()
