"""Parses the names of files that libtpu's backend dumps: the kernel and the stage.

    1795171736541536501-fusion.25-71-final_bundles.txt                           LLO, of an HLO instruction
    1795171736541536501-TLP-86-assembly.txt                                      of the whole program
    1795171736571221858-0013-mosaic-dump-mymm-post-infer-vector-layout.txt       a Pallas kernel's MLIR

The leading number is a time. Of some 70 LLO files per kernel, inspector reads one of each kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

PROGRAM_NAME = "TLP"
"""libtpu's name for the whole program."""

FIRST_MOSAIC, FIRST_LLO = 1, 10_000
"""The order of the first stage of Mosaic and of LLO."""

_MOSAIC = "-mosaic-dump-"
_FIRST, _LATER = "-original", "-post-"

BUNDLES = "VLIW bundles"
"""The stage with the machine instructions."""

STAGES: Mapping[str, str] = {
    "original": "LLO",
    "post-delay-converter": "LLO, scheduled",
    "critical-path": "critical path",
    "schedule-analysis_final_bundles": "schedule",
    "final_hlo-static-per-bundle-utilization": "utilization",
    "final_bundles": BUNDLES,
}
"""LLO stages that inspector reads, by the word in the file's name; the code that runs comes last."""


@dataclasses.dataclass(frozen=True, slots=True)
class TpuFile:
    """The parts of a file's name.

    Attributes:
      stage: name of the stage for display.
      kernel: name of an HLO instruction or a Pallas kernel; `PROGRAM_NAME` for the whole program.
      order: order of the stage; those of Mosaic come first.
      time: time at which the compiler began with the kernel, the same for all its files; in nanoseconds.
    """

    stage: str
    kernel: str
    order: int
    time: int = 0

    @property
    def is_mosaic(self) -> bool:
        """True for a stage of Mosaic, False for LLO."""
        return self.order < FIRST_LLO


def tpu_file(file_name: str) -> TpuFile | None:
    """Returns the parts of a name; None for a file that inspector does not read."""
    time, dash, rest = file_name.removesuffix(".txt").partition("-")
    if not dash or not _is_number(time) or not file_name.endswith(".txt"):
        return None
    parts = _mosaic(rest) if _MOSAIC in f"-{rest}" else _llo(rest)
    return None if parts is None else dataclasses.replace(parts, time=int(time))


def _mosaic(rest: str) -> TpuFile | None:
    """Parses `0013-mosaic-dump-mymm-post-infer-vector-layout`, without the time."""
    number, _, name = rest.partition(_MOSAIC)
    if not _is_number(number) or int(number) < FIRST_MOSAIC:  # the file before it belongs to passes without changes
        return None
    kernel, separator, stage = name.partition(_LATER)
    if separator:
        return TpuFile(f"Mosaic {stage}", kernel, int(number))
    return TpuFile("Mosaic", name.removesuffix(_FIRST), int(number)) if name.endswith(_FIRST) else None


def _llo(rest: str) -> TpuFile | None:
    """Parses `fusion.25-71-final_bundles`: the parts before and after the first number."""
    words = rest.split("-")
    at = next((i for i, word in enumerate(words) if i and _is_number(word)), None)
    stage = "" if at is None else "-".join(words[at + 1 :])
    if at is None or stage not in STAGES:
        return None
    return TpuFile(STAGES[stage], "-".join(words[:at]), FIRST_LLO + list(STAGES).index(stage))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()
