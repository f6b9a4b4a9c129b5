"""`Platform`: what sets a platform apart from others, as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from inspector.platforms.chip import Chip

SCRATCH = "SCRATCH"
"""In flags of a process: stands for a directory of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class CodeFile:
    """A file with back-end code in XLA's dump.

    Attributes:
      stage: what it holds, in words.
      language: of it.
      end: how its name ends.
      start: how that begins behind the module's name, where the end is only a prefix.
    """

    stage: str
    language: Literal["llvm", "asm", "ptx", "text"]
    end: str
    start: str = ""


LLVM_IR = (CodeFile("LLVM IR", "llvm", "ir-no-opt.ll"), CodeFile("LLVM IR, optimized", "llvm", "ir-with-opt.ll"))
"""What every compiler that goes by LLVM dumps."""

GPU_CODE = (
    CodeFile("thunks", "text", "thunk_sequence.txt"),
    CodeFile("thunks, optimized", "text", "thunk_sequence_after_thunk_passes.txt"),
    *LLVM_IR,
)
"""What XLA dumps for every GPU."""

GPU_SPACES: Mapping[int, str] = {0: "HBM", 1: "collective", 5: "host"}
"""XLA's memory spaces of every GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class Platform:
    """One platform.

    Attributes:
      name: what users call it, and programs that are lowered for it.
      kind: what its targets begin with, flags of XLA have behind `xla_`, and JAX calls its devices' platform;
        several platforms can be of one kind.
      lowering: JAX's name where it lowers, which sets those apart.
      words: in a sentence, such as "a GPU".
      chip_word: what one of its chips is, such as "TPU generation".
      spaces: names of XLA's numbers of memory spaces; 0 is the main memory.
      back_end: what follows the optimized HLO in a compile, in words.
      code: the files of its back-end's code, in the order of the stages.
      emitters: which of them XLA shall write, its pattern; "" for none.
      machine_code: the stage that lies in the executable, "" where none is known.
      load_args: flags with which its library is loaded to write the back-end's code; `SCRATCH` in them.
      load_folders: the folders of these, in the process's directory.
      pallas: the back-ends of Pallas kernels, the usual one first; () where only the interpreter runs them.
      plugin: the module of `inspector/_jax` that has its compiler for devices that are not here; "" without one.
      chips: oldest first.
      usual_chip: the one that kernels are lowered for where none is said.
      listed: topologies in the table of targets, of every chip.
      example: a target, for messages.
      offered: targets for a menu.
    """

    name: str
    kind: str
    lowering: str
    words: str
    chip_word: str = ""
    spaces: Mapping[int, str] = dataclasses.field(default_factory=dict)
    back_end: str = "code generation"
    code: tuple[CodeFile, ...] = ()
    emitters: str = ""
    machine_code: str = ""
    load_args: tuple[str, ...] = ()
    load_folders: tuple[str, ...] = ()
    pallas: tuple[str, ...] = ()
    plugin: str = ""
    chips: tuple[Chip, ...] = ()
    usual_chip: str = ""
    listed: tuple[str, ...] = ()
    example: str = ""
    offered: tuple[str, ...] = ()

    @property
    def flag_prefix(self) -> str:
        """How flags of XLA begin that only compilers of this kind read."""
        return f"xla_{self.kind}_"

    def chip(self, name: str) -> Chip | None:
        """By name or alias, in any case; None for a name that is neither."""
        wanted = name.lower()
        return next((chip for chip in self.chips if wanted == chip.name or wanted in chip.aliases), None)
