"""The Code pane: the backend's code of a variant, recorded on request, for each kernel and stage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Literal, TypedDict

from inspector.analysis.assembly_kernels import instructions_of_kernels
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.records.assembly import Assembly
from inspector.errors import Unavailable
from inspector.widgets import messages
from inspector.widgets.documents import packed
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


class CodeTable(TypedDict):
    """The code by kernel and stage.

    Attributes:
      entries: entries in the order of stages.
      instructions: for each kernel, the instructions of the optimized HLO that it computes, the one that it is named after
        first.
    """

    entries: list[CodeEntry]
    instructions: dict[str, list[str]]


class CodeRequest(TypedDict):
    """Requests the text of a recorded entry. `id` numbers the request; late replies are dropped."""

    type: Literal["code"]
    id: int
    variant: int
    index: int


class CodeText(TypedDict):
    """The reply to `CodeRequest` number `id`: one buffer, the gzip-compressed text, or the reason why there is none.

    Attributes:
      index: index of the entry in the table.
      reason, remedy: the reason why the text cannot be shown on this machine, and the remedy, or "".
    """

    type: Literal["code_text"]
    id: int
    variant: int
    index: int
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
            type="code_text", id=request["id"], variant=request["variant"], index=request["index"], reason="",
            remedy="", error=None,
        )  # fmt: skip
        buffers: list[bytes] = []
        try:
            text = assembly[request["index"]].text  # type: ignore[index]  # the browser has no entries if this is Unavailable
            if isinstance(text, Unavailable):
                reply |= {"reason": text.reason, "remedy": text.remedy}
            else:
                buffers = [packed(text)]
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        self.context.publish(PackedMessage(reply, buffers))


def _code_list(number: int, compiled: CompiledProgram) -> tuple[CodeList, CodeTable]:
    assembly = compiled.assembly
    if isinstance(assembly, Unavailable):
        note = sentence(assembly)
        return CodeList(type="code", variant=number, note=note), {"entries": [], "instructions": {}}
    kernels = instructions_of_kernels(assembly, compiled.module())
    table: CodeTable = {
        "entries": [CodeEntry(stage=code.stage, kernel=code.kernel, language=code.language) for code in assembly],
        "instructions": {kernel: list(names) for kernel, names in kernels.items()},
    }
    return CodeList(type="code", variant=number, note=assembly.note), table
