"""`Keeping`: the files of the expectations of a test, and the results of their comparisons with baselines."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from inspector.compilation.compiled import digest_of
from inspector.errors import InspectorError
from inspector.expectations.baseline_record import NumberChange
from inspector.stages.compiled import Compiled
from inspector.support import files

_MOST_FAILED = 20
_SUFFIX = ".inspector"


@dataclasses.dataclass(frozen=True, slots=True)
class BaselineComparison:
    """The comparison of a program with its record.

    Attributes:
      name: name of the record.
      target, compiler: target and compiler of the program.
      recorded_by: the compiler of the record.
      changes: each number once.
      is_new: there was no record, or it was updated.
    """

    name: str
    target: str
    compiler: str
    recorded_by: str
    changes: tuple[NumberChange, ...]
    is_new: bool = False


@dataclasses.dataclass(slots=True)
class Keeping:
    """The files for baselines and failed programs.

    Attributes:
      baselines: the file of records; None if each check names one.
      name: name of the test, "" outside of tests.
      update: true to write records instead of comparing with them.
      failed: the folder for programs that failed; None for inspector's own.
      compared: the comparisons, in order.
    """

    baselines: Path | None = None
    name: str = ""
    update: bool = False
    failed: Path | None = None
    compared: list[BaselineComparison] = dataclasses.field(default_factory=list)
    _names: dict[str, int] = dataclasses.field(default_factory=dict)

    def name_for(self, explicit_name: str | None, program: str) -> str:
        """Chooses the name of a record: the given one; else the test's, numbered from the second one on; else the program's."""
        if explicit_name is not None:
            return explicit_name
        name = self.name or program
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 or not self.name else f"{name} ({self._names[name]})"

    def save(self, compiled: Compiled) -> Path | None:
        """Saves a program that failed, and returns the file; None if it cannot be written."""
        folder = self.failed or _own_folder()
        if folder is None:
            return None
        words = re.sub(r"[^\w.\-]+", "-", self.name or compiled.program.name).strip("-.")[:80]
        digest = hashlib.sha256(f"{self.name}\0{digest_of(compiled)}".encode()).hexdigest()[:8]
        path = folder / f"{words}-{digest}{_SUFFIX}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            compiled.save(path)
        except (OSError, InspectorError):
            return None
        if self.failed is None:
            _forget(folder)
        return path


def _own_folder() -> Path | None:
    caches = files.cache_folder()
    if caches is None:
        return None
    with contextlib.suppress(OSError):
        return files.make_own_folder(caches / "failed")
    return None


def _forget(folder: Path) -> None:
    """Deletes all except the newest programs."""
    entries = sorted((stat.st_mtime, file) for file, stat in files.entries(folder) if file.name.endswith(_SUFFIX))
    for _, file in entries[:-_MOST_FAILED]:
        with contextlib.suppress(OSError):
            file.unlink()


def markdown(compared: Iterable[BaselineComparison]) -> str:
    """Returns changes from the baselines as Markdown: one table per program that differs, and the number of the others."""
    listed = list(compared)
    changed = [c for c in listed if _differences(c.changes) or c.is_new]
    same = len(listed) - len(changed)
    lines = ["### Compiled programs compared with the baseline", ""]
    for each in sorted(changed, key=lambda c: not _is_worse(c)):
        by = "" if each.recorded_by in ("", each.compiler) else f", recorded with {_cell(each.recorded_by)}"
        lines += [f"**{_cell(each.name)}** for {_cell(each.target)}, {_cell(each.compiler)}{by}", ""]
        if not each.recorded_by:
            lines += ["recorded for the first time", ""]
            continue
        lines += ["| | recorded | current | difference |", "|---|---:|---:|---:|"]
        marks = {"worse": "❌ ", "unknown": "❓ ", "better": "✅ ", "allowed": ""}
        for change in _differences(each.changes):
            cells = (marks.get(change.verdict, "") + change.name, change.before, change.now, change.difference)
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
        lines.append("")
    lines.append(f"{same} program{'' if same == 1 else 's'} as recorded.")
    return "\n".join(lines) + "\n"


def _differences(changes: Sequence[NumberChange]) -> list[NumberChange]:
    return [change for change in changes if change.verdict != "same"]


def is_better(compared: BaselineComparison) -> bool:
    """Reports whether some number is better than recorded and none is worse."""
    return not _is_worse(compared) and any(change.verdict == "better" for change in compared.changes)


def _is_worse(compared: BaselineComparison) -> bool:
    return any(change.verdict in ("worse", "unknown") for change in compared.changes)


def _cell(text: str) -> str:
    """Escapes a text for Markdown."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", " ".join(escaped.split()))
