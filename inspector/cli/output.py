"""Output of commands: tables for people, JSON for scripts, and progress of long steps on stderr."""

from __future__ import annotations

import contextlib
import contextvars
import io
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import pandas as pd

    from inspector.compilation.engine import Job
    from inspector.support.columns import TableDescription

T = TypeVar("T")

_QUIET_S = 1.0
_INTERRUPTED = 130  # 128 + SIGINT, as in shells
_WIDEST = 70


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Prints a table; "none" if it is empty.

    Args:
      columns: the names of the columns.
      rows: one cell per column; None is an empty cell.
      right: names of right-aligned columns.
    """
    cells = [["" if cell is None else _cut(str(cell)) for cell in row] for row in rows]
    if not cells:
        click.echo("none")
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (list(columns), *cells):
        texts = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo("  ".join(texts).rstrip())


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def print_json(value: object) -> None:
    """Prints a value as JSON. An `Unavailable` is an object with its reason."""
    text = json.dumps(value, indent=2, default=_plain, ensure_ascii=False)
    results = _results.get()
    if results is None:
        click.echo(text)
    else:
        results.append(json.loads(text))


_results: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar("results", default=None)


@contextlib.contextmanager
def collected() -> Iterator[list[Any]]:
    """Collects the values that commands print as JSON in the block, instead of printing them."""
    results: list[Any] = []
    token = _results.set(results)
    try:
        yield results
    finally:
        _results.reset(token)


def _plain(value: Any) -> object:
    from inspector.errors import Partial, Unavailable

    if isinstance(value, Unavailable):
        return {"unavailable": value.reason}
    if isinstance(value, Partial):
        return float(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return str(value)


def records(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Returns the rows of a table as values for JSON."""
    return [{str(key): _known(cell) for key, cell in row.items()} for row in frame.to_dict("records")]


def _known(cell: Any) -> Any:
    """Returns a cell; None for a missing number."""
    import pandas as pd

    return None if not isinstance(cell, list | tuple | dict) and pd.isna(cell) else cell


def print_described(description: TableDescription[T], rows: Iterable[T]) -> None:
    """Prints the columns of a table that its description shows on the command line, and the reasons for unknown cells."""
    columns = description.of("command_line")
    cells = [[column.cell(row) for column in columns] for row in rows]
    reasons = ["; ".join(dict.fromkeys(c.note for c in row if c.note not in ("", c.text))) for row in cells]
    texts = [[*(cell.text for cell in row), reason] for row, reason in zip(cells, reasons, strict=True)]
    titles = [*(column.title for column in columns), "unknown"]
    right = [column.title for column in columns if column.is_number]
    shown = len(titles) if any(reasons) else len(columns)
    table(titles[:shown], [row[:shown] for row in texts], right=right)


@contextlib.contextmanager
def printed_to(path: Path | None) -> Iterator[None]:
    """Redirects printed text to a file; None for stdout."""
    if path is None:
        yield
        return
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        yield
    path.write_text(text.getvalue(), encoding="utf-8")


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Reports a step on stderr if it takes more than a second; on a terminal with the elapsed seconds."""
    ended = threading.Event()

    def tell() -> None:
        started = time.monotonic()
        if ended.wait(_QUIET_S):
            return
        if not sys.stderr.isatty():
            click.echo(f"{what} ...", err=True)
            return
        while not ended.wait(0.5):
            click.echo(f"\r{what} ... {time.monotonic() - started:.0f} s ", nl=False, err=True)
        click.echo(f"\r{' ' * (len(what) + 16)}\r", nl=False, err=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def follow(job: Job[Any], total: int, done: Callable[[], int], summary: Callable[[], str]) -> bool:
    """Waits for a job, with a line of progress if stderr is a terminal. Ctrl-C cancels the job.

    Args:
      job: the job.
      total: number of its pieces, about.
      done: returns the number of finished pieces.
      summary: returns the text that stays.

    Returns:
      Whether it was interrupted.

    Raises:
      InspectorError: the job's error.
    """
    from inspector.api.progress import Quiet, TerminalLine

    line = TerminalLine(total, sys.stderr) if sys.stderr.isatty() else Quiet()
    try:
        while not job.done():
            try:
                job.exception(0.5)
            except TimeoutError:
                line.update(min(done(), total), job.stage)
        job.result()
    except KeyboardInterrupt:
        job.cancel()
        return True
    finally:
        line.close(summary())
    return False


def exit_if_interrupted(is_interrupted: bool) -> None:
    """Exits with the status of Ctrl-C after an interrupt, so that a calling script stops too."""
    if is_interrupted:
        raise SystemExit(_INTERRUPTED)


def numbers_of(stats: Mapping[str, Any]) -> dict[str, object]:
    """Returns numbers by key, as values for JSON."""
    return {key: stat.value for key, stat in stats.items()}
