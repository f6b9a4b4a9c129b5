"""Failure messages: each check, the tables of failed checks, the source line, and a command that shows more."""

from __future__ import annotations

import dataclasses
import linecache
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from inspector.errors import Unavailable
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.hlo.source import Frame, library_text, own_frame
from inspector.support.packages import is_library_file, package_path

_MOST_LINES = 12
_WIDEST = 60
_AROUND = 2


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramHeading:
    """The program in the heading of a message.

    Attributes:
      program: name of the program.
      target: its target.
      compiler: its compiler, as text.
      commands: shell commands that show more.
    """

    program: str
    target: str
    compiler: str
    commands: tuple[str, ...] = ()


def message(about: ProgramHeading, findings: Sequence[CheckResult]) -> str:
    """Returns the text of a failure.

    Args:
      about: the program.
      findings: the results of all checks so far, including passed ones.
    """
    failed = [each for each in findings if not each.is_met]
    paragraphs = [f"{about.program} for {about.target} ({about.compiler}) failed its checks:"]
    paragraphs.append("\n".join(map(_line, findings)))
    for finding in failed:
        paragraphs += _details(finding)
    if about.commands:
        paragraphs.append("\n".join(f"see it:  {command}" for command in about.commands))
    return "\n\n".join(dict.fromkeys(paragraphs))  # a source line once, even if several checks refer to it


def _line(finding: CheckResult) -> str:
    mark = "ok  " if finding.is_met else "?   " if isinstance(finding.is_met, Unavailable) else "FAIL"
    text = f"  {mark}  {finding.what}: expected {finding.expected}, got {finding.got}"
    if isinstance(finding.is_met, Unavailable) and str(finding.is_met) != finding.got:
        text += f"\n        unknown: {finding.is_met.reason}"
        text += f" ({finding.is_met.remedy})" if finding.is_met.remedy else ""
    return text


def _details(finding: CheckResult) -> Iterator[str]:
    if finding.lines:
        yield f"{finding.what}\n{_table(finding)}"
    if finding.nearest:
        yield f"  nearest: {finding.nearest}"
    if finding.advice:
        yield f"  {finding.advice}"
    against = [line for line in finding.lines if line.is_against] or list(finding.lines[:1])
    frame = next((own_frame(line.frames) for line in against if line.frames), None)
    if frame is not None:
        yield excerpt(frame)


def _table(finding: CheckResult) -> str:
    shown = sorted(finding.lines, key=lambda line: not line.is_against)[:_MOST_LINES]
    rows = [(" ", (*finding.columns, "where"))]
    rows += [(">" if line.is_against else " ", (*map(_cut, line.cells), where(line))) for line in shown]
    columns = [n for n in range(len(rows[0][1])) if any(cells[n] for _, cells in rows[1:])]
    widths = {n: max(len(cells[n]) for _, cells in rows) for n in columns}
    lines = [f"  {mark} " + "  ".join(cells[n].ljust(widths[n]) for n in columns).rstrip() for mark, cells in rows]
    more = len(finding.lines) - len(shown)
    return "\n".join([*lines, *([f"    ... {more:,} more"] if more else [])])


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST // 2 - 1]}…{text[-_WIDEST // 2 :]}"


def where(line: TableLine) -> str:
    """Formats a source place: `models/attention.py:31 (flax/linen/linear.py:287)`, the library's line second; "" without a line."""
    frame, library = own_frame(line.frames), library_text(line.frames)
    return "" if frame is None else f"{short(frame.file)}:{frame.line}" + (f" ({library})" if library else "")


def short(file: str) -> str:
    """Shortens a file name: relative to the current folder if it is below, or from its package on."""
    if is_library_file(file):
        return package_path(file)
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") or not Path(file).is_absolute() else relative


def excerpt(frame: Frame) -> str:
    """Returns a source line, marked, with its neighbors; only its place if the file cannot be read."""
    function = f" in {frame.function}" if frame.function else ""
    head = f"  {short(frame.file)}:{frame.line}{function}"
    numbers = range(max(1, frame.line - _AROUND), frame.line + _AROUND + 1)
    texts = {n: text.rstrip() for n in numbers if (text := linecache.getline(frame.file, n))}
    if frame.line not in texts:
        return head
    width = len(str(max(texts)))
    lines = [f"  {'>' if n == frame.line else ' '} {n:>{width}} | {text}".rstrip() for n, text in texts.items()]
    return "\n".join([head, *lines])
