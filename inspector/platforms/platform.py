"""`Platform`: the facts of a platform, as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from inspector.platforms.chip import Chip

SCRATCH = "SCRATCH"
"""Placeholder in a process's flags for its scratch directory."""


@dataclasses.dataclass(frozen=True, slots=True)
class CodeFile:
    """A file with backend code in XLA's dump.

    Attributes:
      stage: name of the compile stage, such as "LLVM IR".
      language: language of the contents.
      end: suffix of the file name.
      start: prefix of the part of the file name after the module's name; "" for any.
    """

    stage: str
    language: Literal["llvm", "asm", "ptx", "text"]
    end: str
    start: str = ""


LLVM_IR = (CodeFile("LLVM IR", "llvm", "ir-no-opt.ll"), CodeFile("LLVM IR, optimized", "llvm", "ir-with-opt.ll"))
"""Dump files of every LLVM-based compiler."""

GPU_CODE = (
    CodeFile("thunks", "text", "thunk_sequence.txt"),
    CodeFile("thunks, optimized", "text", "thunk_sequence_after_thunk_passes.txt"),
    *LLVM_IR,
)
"""Dump files of XLA for every GPU."""

GPU_SPACES: Mapping[int, str] = {0: "HBM", 1: "collective", 5: "host"}
"""Names of XLA's memory spaces for every GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class Platform:
    """A platform.

    Attributes:
      name: the name that users write, and the platform of programs that are lowered for it.
      kind: the first part of its targets, the part after `xla_` in its XLA flags, and JAX's platform of its devices.
        Several platforms can have the same kind.
      lowering: JAX's name of the platform in lowering, which differs between platforms of one kind.
      words: the platform in a sentence, such as "a GPU".
      vendor: the vendor of its devices as a profile names it, in lowercase; "" if profiles name none.
      chip_word: a noun for its chips, such as "TPU generation".
      spaces: names of XLA's memory spaces, by number; 0 is the main memory.
      back_end: description of the compile steps after the optimized HLO.
      code: the dump files with backend code, in the order of the stages.
      emitters: the pattern of the emitters that XLA should dump; "" for none.
      machine_code: the stage contained in the executable; "" if none is known.
      load_args: flags that make its library write backend code when it is loaded; they may contain `SCRATCH`.
      load_folders: the folders that these flags name, in the process's scratch directory.
      pallas: the backends of Pallas kernels, the default one first; () if only the interpreter can run kernels.
      plugin: the module of `inspector/_jax/compiling` with its ahead-of-time compiler, for devices that are not attached; "" for
        none.
      chips: its chips, oldest first.
      usual_chip: the default chip to lower kernels for.
      listed: topologies that the table of targets lists for each chip.
      example: an example target, for messages.
      offered: targets for a menu.
    """

    name: str
    kind: str
    lowering: str
    words: str
    vendor: str = ""
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
        """The prefix of XLA flags that only compilers of this kind read."""
        return f"xla_{self.kind}_"

    def chip(self, name: str) -> Chip | None:
        """Returns the chip with a name or alias, ignoring case; None for an unknown name."""
        wanted = name.lower()
        return next((chip for chip in self.chips if wanted == chip.name or wanted in chip.aliases), None)
