"""Parses the names of files in XLA's dump: the module, the stage, the passes before and after.

    module_0000.jit_f.0006.simplification.after_algsimp.before_dce.txt      a snapshot between passes
    module_0000.jit_f.cpu_after_optimizations.hlo.pb                        any other file of a module

XLA joins names with dots, may use dots within them, and writes `_` for most other signs (`as_in_files`).
"""

from __future__ import annotations

import dataclasses

_MODULE, _AFTER, _BEFORE = "module_", "after_", "before_"
_ORDER_DIGITS = 4
START = "pipeline-start"
"""XLA's name for "no pass yet" in names of snapshots and in its lists of passes."""

SCHEDULING = "scheduling"
"""Entry in lists of passes for the schedule that a module gets between two pipelines."""

BETWEEN = "between pipelines"
"""Entry in lists of passes for any other change between two pipelines."""

UNRECORDED = "later passes"
"""Entry in lists of passes for all changes after the last pass that the compiler records."""

NOT_PASSES = frozenset({START, SCHEDULING, BETWEEN, UNRECORDED})
"""Names in lists of passes that are not passes of XLA; `START` occurs in recordings of earlier versions."""


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotName:
    """The parts of a snapshot's name.

    Attributes:
      number: number of the module in its process.
      module: name of the module, on TPU with a suffix.
      order: number of the snapshot among those of the module.
      pipeline: name of the pipeline as in XLA's file names.
      after: the pass before the snapshot, `START` for none; XLA's text for a step within a pass.
      before: the next pass, "" within a pass.
    """

    number: int
    module: str
    order: int
    pipeline: str
    after: str
    before: str


def snapshot_name(file_name: str) -> SnapshotName | None:
    """Returns the parts of a snapshot's name; None for another file."""
    return snapshot_parts(file_name.removesuffix(".txt")) if file_name.endswith(".txt") else None


def snapshot_parts(stem: str) -> SnapshotName | None:
    """Returns the parts of a snapshot's name without its suffix, such as ".txt" or ".hlo.pb"; None for another file."""
    words = stem.split(".")
    if not stem.startswith(_MODULE):
        return None
    number = words[0].removeprefix(_MODULE)
    order = next((i for i, w in enumerate(words[2:], 2) if _is_number(w) and len(w) == _ORDER_DIGITS), None)
    if order is None or not _is_number(number):
        return None
    after = next((i for i, w in enumerate(words[order + 2 :], order + 2) if w.startswith(_AFTER)), None)
    if after is None:
        return None
    before = next((i for i, w in enumerate(words[after + 1 :], after + 1) if w.startswith(_BEFORE)), len(words))
    return SnapshotName(
        number=int(number),
        module=".".join(words[1:order]),
        order=int(words[order]),
        pipeline=".".join(words[order + 1 : after]),
        after=".".join(words[after:before]).removeprefix(_AFTER),
        before=".".join(words[before:]).removeprefix(_BEFORE),
    )


def module_file(file_name: str, module: str) -> tuple[int, str] | None:
    """Returns the module's number and the rest after its name; None for a file of another module, or of no module.

    Args:
      file_name: file name without folders.
      module: name of the module; on TPU, XLA appends an identifier to it.
    """
    number, dot, rest = file_name.partition(".")
    written = as_in_files(module)
    if not dot or not number.startswith(_MODULE) or not _is_number(number.removeprefix(_MODULE)):
        return None
    if not rest.startswith(f"{written}."):
        return None
    rest = rest.removeprefix(f"{written}.")
    if rest.startswith("cl_"):
        rest = rest.partition(".")[2]
    return int(number.removeprefix(_MODULE)), rest


def as_in_files(name: str) -> str:
    """Returns a name as XLA writes it in file names (`SanitizeFileName`)."""
    return "".join("_" if c in "/\\[] " else c for c in name)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()
