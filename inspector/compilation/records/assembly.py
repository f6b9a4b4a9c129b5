"""`Assembly`: the code that a back-end made of a program, stage by stage and kernel by kernel.

A compile that is asked for it (`products=("assembly",)`) records it; see `assembly_record.py`. Texts stay
compressed, and machine code is disassembled when it is read (`disassembly.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, overload

from inspector.compilation.files.archive import inflate
from inspector.compilation.records.packed import pack, unpack
from inspector.errors import ModuleError, Unavailable
from inspector.support.tables import Tabular, make_table

if TYPE_CHECKING:
    import pandas as pd

Language = Literal["llvm", "ptx", "asm", "sass", "llo", "mlir", "text"]
Form = Literal["text", "elf", "cubin"]

PROGRAM = ""
"""The kernel of what belongs to the whole program, such as the sequence of its kernels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """One kernel at one stage.

    Attributes:
      stage: such as "LLVM IR", "PTX", "assembly"; one of `Assembly.stages`.
      kernel: the kernel's name, mostly that of a fusion; `PROGRAM` for all of them.
      symbols: the functions that it defines for others to call; HLO instructions are found by them.
      language: of `text`.
      form: "text", or what is disassembled to have one: "elf" (an object file), "cubin".
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
        """The code, or why it cannot be shown here."""
        data = inflate(self.compressed)
        if self.form == "text":
            return data.decode("utf-8", "replace")
        from inspector.compilation.records import disassembly

        return disassembly.of_object(data) if self.form == "elf" else disassembly.of_cubin(data, self.kernel)


@dataclasses.dataclass(frozen=True, slots=True)
class Assembly(Tabular, Sequence[Code]):
    """The code of one compile.

    Attributes:
      entries: by stage in the order of the back-end, then by kernel.
      note: what is not among them and why, or "".
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
        """What there is, from the first to the last stage."""
        return tuple(dict.fromkeys(code.stage for code in self.entries))

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels' names, in order."""
        return tuple(dict.fromkeys(code.kernel for code in self.entries if code.kernel != PROGRAM))

    @property
    def byte_size(self) -> int:
        """Bytes held, compressed."""
        return sum(map(len, {code.compressed for code in self.entries}))  # kernels of one cubin share it

    def of(self, instruction: str) -> tuple[Code, ...]:
        """The code of an HLO instruction's kernel, by its name; () where names do not tell.

        Args:
          instruction: the name of a fusion or another instruction that has a kernel of its own.
        """
        wanted = as_symbol(instruction)
        return tuple(c for c in self.entries if wanted in {as_symbol(c.kernel), *map(as_symbol, c.symbols)})

    def code(self, stage: str, kernel: str = PROGRAM) -> Code:
        """One kernel at one stage.

        Raises:
          KeyError: there is none.
        """
        for entry in self.entries:
            if (entry.stage, entry.kernel) == (stage, kernel):
                return entry
        raise KeyError(f"no {stage!r} of the kernel {kernel!r}; stages {self.stages}, kernels {self.kernels[:20]}")

    def table(self) -> pd.DataFrame:
        """One row an entry: `stage, kernel, language, symbols`."""
        rows = [(c.stage, c.kernel, c.language, list(c.symbols)) for c in self.entries]
        return make_table({"stage": "text", "kernel": "text", "language": "text", "symbols": "object"}, rows)

    def to_bytes(self) -> bytes:
        """For another process or a file; `from_bytes` is the inverse."""
        blobs = {blob: i for i, blob in enumerate(dict.fromkeys(c.compressed for c in self.entries))}
        rows = [(c.stage, c.kernel, c.symbols, c.language, c.form, blobs[c.compressed]) for c in self.entries]
        return pack(_Header(tuple(rows), self.note), list(blobs))

    @classmethod
    def from_bytes(cls, data: bytes) -> Assembly:
        """The inverse of `to_bytes`.

        Raises:
          ModuleError: not what it made.
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
    """A row has the fields of a `Code` in order, the last as the number of a blob."""

    rows: tuple[tuple[str, str, tuple[str, ...], Language, Form, int], ...]
    note: str


def as_symbol(name: str) -> str:
    """A name as back-ends write it in symbols, where few signs are allowed."""
    return "".join(c if c.isalnum() else "_" for c in name)
