"""The Code pane: the backend's code of a variant, recorded on request, for each kernel and stage.

Lines with debug information are linked to their source lines, and through them to all other panes. Of the installed compilers,
only Mosaic writes debug information, into the SASS of Pallas kernels for GPUs (`compilation/records/debug_lines.py` has the
findings). All other code is linked as a whole: to the instructions that launch its kernel.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Literal, TypedDict

from inspector.analysis.assembly_kernels import instructions_of_kernels, library_calls, steps_of
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.records.assembly import PROGRAM, Assembly, Code
from inspector.compilation.records.debug_lines import source_frames
from inspector.compilation.records.kernel_facts import GPU_ONLY
from inspector.compilation.records.tpu_names import BUNDLES
from inspector.errors import Unavailable
from inspector.support.units import format_bytes
from inspector.widgets import messages
from inspector.widgets.cells import display_file
from inspector.widgets.documents import TextDocument, packed
from inspector.widgets.panes.framework.pane import Entry, Excerpt, PackedMessage
from inspector.widgets.panes.framework.product import ProductPane, sentence
from inspector.widgets.variants import Variant

_FIRST_SEEN = 4


class CodeList(TypedDict):
    """The available code of a variant. One buffer: a `CodeTable` as gzip-compressed JSON; `note` describes missing code."""

    type: Literal["code"]
    variant: int
    note: str


class CodeEntry(TypedDict):
    """A kernel at one stage; the kernel is "" for code of the whole program."""

    stage: str
    kernel: str
    language: messages.Language


class CalledLibrary(TypedDict):
    """A library that an instruction calls, and the names of the instruction and of those inside of it."""

    callee: str
    instructions: list[str]


class CodeTable(TypedDict):
    """The code by kernel and stage.

    Attributes:
      entries: entries in the order of stages.
      instructions: for each kernel, the instructions of the optimized HLO that it computes, one that launches it first.
      calls: the library calls by the name of the instruction.
    """

    entries: list[CodeEntry]
    instructions: dict[str, list[str]]
    calls: dict[str, CalledLibrary]


class KernelFact(TypedDict):
    """A fact about a kernel's machine code; `reason` is "" for a known one, whose value is in `text`."""

    label: str
    text: str
    reason: str


class CodeRequest(TypedDict):
    """Requests the text of a recorded entry. `id` numbers the request; late replies are dropped."""

    type: Literal["code"]
    id: int
    variant: int
    index: int


class CodeText(TypedDict):
    """The reply to `CodeRequest` number `id`: the five buffers of a `Document` with its source lines, or the reason why there is none.

    Attributes:
      index: index of the entry in the table.
      facts: size and resources of the kernel; empty for code of the whole program.
      reason, remedy: the reason why the text cannot be shown on this machine, and the remedy, or "".
    """

    type: Literal["code_text"]
    id: int
    variant: int
    index: int
    facts: list[KernelFact]
    reason: str
    remedy: str
    error: messages.Error | None


class CodePane(ProductPane[Assembly | Unavailable]):
    """Lists the code of each variant and sends its texts."""

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Returns the list of the available code."""
        self.store(variant, compiled.assembly)
        message, table = _code_list(variant.number, compiled)
        return [PackedMessage(message, [packed(json.dumps(table, separators=(",", ":")))])]

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[CodeRequest]:
        """Yields the requests for the recorded texts; only the first ones unless `is_whole`."""
        assembly = self.find(variant.number)
        count = 0 if assembly is None or isinstance(assembly, Unavailable) else len(assembly)
        for index in range(count if is_whole else min(count, _FIRST_SEEN)):
            yield CodeRequest(type="code", id=0, variant=variant.number, index=index)

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """Yields the list of stages, with the first kernel's code at the last stage that has a text on this machine."""
        assembly = self.find(variant.number)
        if assembly is None or isinstance(assembly, Unavailable) or not assembly:
            return
        kernels = f" of {len(assembly.kernels):,} kernels" if len(assembly.kernels) > 1 else ""
        firsts = [next(code for code in assembly if code.stage == stage) for stage in reversed(assembly.stages)]
        # Disassembling cubins starts a process that takes seconds.
        texts = ((code, code.text) for code in firsts if code.form != "cubin")
        code, text = next((each for each in texts if isinstance(each[1], str)), (firsts[-1], ""))
        about = f"; {code.stage} {code.kernel}".rstrip() if text else ""
        yield Excerpt(f"Code: {', '.join(assembly.stages)}{kernels}{about}", str(text))

    def answer(self, request: CodeRequest) -> None:
        """Sends the text of one kernel at one stage."""
        self.context.later(lambda: self._text(request))

    def _text(self, request: CodeRequest) -> None:
        assembly = self.product(request["variant"])
        reply = CodeText(
            type="code_text", id=request["id"], variant=request["variant"], index=request["index"], facts=[], reason="",
            remedy="", error=None,
        )  # fmt: skip
        buffers: list[bytes] = []
        try:
            code = assembly[request["index"]]  # type: ignore[index]  # the browser has no entries if this is Unavailable
            reply["facts"] = _facts(assembly, code)  # type: ignore[arg-type]  # see above
            text = code.text
            if isinstance(text, Unavailable):
                reply |= {"reason": text.reason, "remedy": text.remedy}
            else:
                buffers = _document(request["variant"], code.language, text).buffers()
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        self.context.publish(PackedMessage(reply, buffers))


def _document(variant: int, language: messages.Language, text: str) -> TextDocument:
    """Returns code with the source lines of its lines, where the compiler wrote them."""
    frames = source_frames(language, text) or ((),) * (text.count("\n") + 1)
    distinct = {each: number for number, each in enumerate(filter(None, dict.fromkeys(frames)))}
    files: dict[str, int] = {}
    origins = [
        [("", [(files.setdefault(display_file(file), len(files)), line) for file, line in each])] for each in distinct
    ]
    return TextDocument(
        pane="code",
        variant=variant,
        language=language,
        text=text,
        line_origins=[distinct.get(each, -1) for each in frames],
        files=list(files),
        origins=origins,
    )


_LABELS = {
    "machine_instructions": "machine instructions",
    "code_bytes": "code",
    "registers": "registers per thread",
    "spill_bytes": "spilled per thread",
    "stack_bytes": "stack per thread",
    "shared_bytes": "static shared memory",
    "threads": "threads per block",
}


def _facts(assembly: Assembly, code: Code) -> list[KernelFact]:
    """Returns the facts of a kernel, without those that its platform does not have."""
    if code.kernel == PROGRAM:
        return []
    facts = assembly.kernel_facts(code.kernel)
    values = {field.name: getattr(facts, field.name) for field in dataclasses.fields(facts)}
    reasons = {value.reason if isinstance(value, Unavailable) else "" for value in values.values()}
    if len(reasons) == 1 and "" not in reasons:
        return [KernelFact(label="machine code", text="", reason=reasons.pop())]
    is_bundles = BUNDLES in assembly.stages
    return [
        KernelFact(
            label=BUNDLES if is_bundles and name == "machine_instructions" else _LABELS[name],
            text="" if isinstance(value, Unavailable) else format_bytes(value) if "bytes" in name else f"{value:,}",
            reason=value.reason if isinstance(value, Unavailable) else "",
        )
        for name, value in values.items()
        if value != GPU_ONLY
    ]


def _code_list(number: int, compiled: CompiledProgram) -> tuple[CodeList, CodeTable]:
    recorded = compiled.assembly
    assembly = Assembly((), sentence(recorded)) if isinstance(recorded, Unavailable) else recorded
    module, run = compiled.module(), steps_of(compiled)
    kernels = instructions_of_kernels(assembly, module, () if isinstance(run, Unavailable) else run)
    calls = library_calls(module, run, {name for names in kernels.values() for name in names})
    table: CodeTable = {
        "entries": [CodeEntry(stage=code.stage, kernel=code.kernel, language=code.language) for code in assembly],
        "instructions": {kernel: list(names) for kernel, names in kernels.items()},
        "calls": {
            name: CalledLibrary(callee=call.callee, instructions=list(call.instructions))
            for name, call in calls.items()
        },
    }
    return CodeList(type="code", variant=number, note=assembly.note), table
