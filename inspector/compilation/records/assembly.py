"""`Assembly`: the backend's code of a program, by stage and kernel.

Recorded by a compile with `products=("assembly",)`; see `assembly_record.py`. Texts stay
compressed, and machine code is disassembled on reading (`disassembly.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, overload

from inspector.compilation.files.archive import inflate
from inspector.compilation.records import disassembly
from inspector.compilation.records.kernel_facts import (
    KernelFacts,
    facts_of_bundles,
    facts_of_cubin,
    facts_of_object,
    unknown_facts,
)
from inspector.compilation.records.packed import pack, unpack
from inspector.compilation.records.tpu_names import BUNDLES
from inspector.errors import ModuleError, Unavailable
from inspector.support.notebook import short
from inspector.support.tables import UNKNOWN, Kind, Tabular, make_table

if TYPE_CHECKING:
    import pandas as pd

Language = Literal["llvm", "ptx", "asm", "sass", "llo", "mlir", "text"]
Form = Literal["text", "elf", "cubin"]

PROGRAM = ""
"""The kernel name of code for the whole program, such as the sequence of its kernels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """The code of one kernel at one stage.

    Attributes:
      stage: stage of the backend, such as "LLVM IR", "PTX", "assembly"; one of `Assembly.stages`.
      kernel: name of the kernel, in most cases that of a fusion; `PROGRAM` for all of them.
      symbols: functions that the code exports; HLO instructions are matched by them.
      language: language of `text`.
      form: "text", or a form that is disassembled: "elf" (an object file), "cubin".
      compressed: zlib of the text in UTF-8, or of the machine code.
    """

    stage: str
    kernel: str
    symbols: tuple[str, ...]
    language: Language
    form: Form
    compressed: bytes = dataclasses.field(repr=False)

    @property
    def text(self) -> str | Unavailable:
        """The code, or why it cannot be shown."""
        data = inflate(self.compressed)
        if self.form == "text":
            return data.decode("utf-8", "replace")
        return disassembly.of_object(data) if self.form == "elf" else disassembly.of_cubin(data, self.kernel)

    @property
    def facts(self) -> KernelFacts | None:
        """Size and resources of machine code; None for all other code."""
        if self.form == "elf":
            return facts_of_object(inflate(self.compressed))
        if self.form == "cubin":
            return facts_of_cubin(inflate(self.compressed), self.kernel)
        return facts_of_bundles(str(self.text)) if self.stage == BUNDLES else None


@dataclasses.dataclass(frozen=True, slots=True)
class Assembly(Tabular, Sequence[Code]):
    """The code of one compile.

    Attributes:
      entries: the code by stage in the order of the backend, then by kernel.
      note: missing code and the reason, or "".
    """

    entries: tuple[Code, ...]
    note: str = ""

    @overload
    def __getitem__(self, index: int) -> Code: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Code, ...]: ...
    def __getitem__(self, index: int | slice) -> Code | tuple[Code, ...]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Code]:
        return iter(self.entries)

    @property
    def stages(self) -> tuple[str, ...]:
        """The recorded stages, from first to last."""
        return tuple(dict.fromkeys(code.stage for code in self.entries))

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels, in order."""
        return tuple(dict.fromkeys(code.kernel for code in self.entries if code.kernel != PROGRAM))

    @property
    def byte_size(self) -> int:
        """Size of the compressed code in bytes."""
        return sum(map(len, {code.compressed for code in self.entries}))  # kernels of one cubin share it

    def of(self, instruction: str) -> tuple[Code, ...]:
        """Returns the code of an HLO instruction's kernel, by its name; () if the names do not match.

        Args:
          instruction: name of a fusion or another instruction with a separate kernel.
        """
        wanted = as_symbol(instruction)
        return tuple(c for c in self.entries if wanted in {as_symbol(c.kernel), *map(as_symbol, c.symbols)})

    def code(self, stage: str, kernel: str = PROGRAM) -> Code:
        """Returns the code of one kernel at one stage.

        Raises:
          KeyError: no such code.
        """
        for entry in self.entries:
            if (entry.stage, entry.kernel) == (stage, kernel):
                return entry
        raise KeyError(
            f"no {short(stage)} of the kernel {short(kernel)}; stages {self.stages}, kernels {self.kernels[:20]}"
        )

    def kernel_facts(self, kernel: str) -> KernelFacts:
        """Returns a kernel's machine instructions, code size, and on NVIDIA GPUs registers, spills, shared memory and threads.

        Args:
          kernel: one of `kernels`.

        Raises:
          KeyError: no such kernel.
        """
        codes = [code for code in self.entries if code.kernel == kernel != PROGRAM]
        if not codes:
            raise KeyError(f"no kernel {short(kernel)}; kernels {self.kernels[:20]}")
        return _facts_of(codes)

    def kernel_table(self) -> pd.DataFrame:
        """Returns one row per kernel with its size and resources, in instructions and bytes.

        The columns are `kernel`, the attributes of `KernelFacts`, and `unknown` with the reasons for missing values.
        """
        names = [field.name for field in dataclasses.fields(KernelFacts)]
        codes: dict[str, list[Code]] = {kernel: [] for kernel in self.kernels}
        for code in self.entries:
            if code.kernel != PROGRAM:
                codes[code.kernel].append(code)
        facts = {kernel: _facts_of(own) for kernel, own in codes.items()}
        rows = [(kernel, *(getattr(each, name) for name in names)) for kernel, each in facts.items()]
        kinds: dict[str, Kind] = {"kernel": "text"}
        return make_table(kinds | dict.fromkeys(names, "int") | {UNKNOWN: "reasons"}, rows)

    def table(self) -> pd.DataFrame:
        """Returns one row per entry: `stage, kernel, language, symbols`."""
        rows = [(c.stage, c.kernel, c.language, list(c.symbols)) for c in self.entries]
        return make_table({"stage": "text", "kernel": "text", "language": "text", "symbols": "object"}, rows)

    def to_bytes(self) -> bytes:
        """Encodes the code for another process or a file; `from_bytes` is the inverse."""
        blobs = {blob: i for i, blob in enumerate(dict.fromkeys(c.compressed for c in self.entries))}
        rows = [(c.stage, c.kernel, c.symbols, c.language, c.form, blobs[c.compressed]) for c in self.entries]
        return pack(_Header(tuple(rows), self.note), list(blobs))

    @classmethod
    def from_bytes(cls, data: bytes) -> Assembly:
        """Decodes the result of `to_bytes`.

        Raises:
          ModuleError: other or damaged data.
        """
        header, blobs = unpack(data, _Header)
        try:
            return cls(tuple(Code(*row[:-1], blobs[row[-1]]) for row in header.rows), header.note)
        except IndexError as e:
            raise ModuleError(f"The recorded code cannot be read ({type(e).__name__}: {e}). Compile again.") from e

    def __repr__(self) -> str:
        return f"<Assembly: {len(self.kernels)} kernels; {', '.join(self.stages)}>"


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    """Each row has the fields of a `Code` in order, with the number of a blob as the last one."""

    rows: tuple[tuple[str, str, tuple[str, ...], Language, Form, int], ...]
    note: str


def _facts_of(codes: Sequence[Code]) -> KernelFacts:
    """Returns the facts in a kernel's code at all stages."""
    known = (facts for code in reversed(codes) if (facts := code.facts) is not None)
    return next(known, None) or unknown_facts(Unavailable("the machine code of this kernel was not recorded"))


def as_symbol(name: str) -> str:
    """Replaces characters that backends do not write in symbols."""
    return "".join(c if c.isalnum() else "_" for c in name)
