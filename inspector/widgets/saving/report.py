"""Several explorations in a single HTML file: a table of their memory, cost and compile time, and each complete exploration."""

from __future__ import annotations

import dataclasses
import html
import os
from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.cost.stats import stat_columns, stats
from inspector.errors import ParameterError, Unavailable
from inspector.support import files
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import short
from inspector.widgets.explorer import Explorer
from inspector.widgets.saving.page import page
from inspector.widgets.variants import Variant


def report(path: str | os.PathLike[str], *explorers: Explorer, note: str = "") -> None:
    """Writes explorations to a single HTML file that opens in any browser without a network; waits for all their compiles.

    The page begins with a table: a row for each variant of each program, with its memory, cost and compile time. See
    `Explorer.save_html`.

    Args:
      path: path of the file; an existing file is replaced.
      explorers: the Explorers, in the order of the table.
      note: a text for readers, above the table.

    Raises:
      ParameterError: not Explorers, or none.
      OSError: the file cannot be written.
      ClosedError: one of the Explorers is closed.
    """
    arguments: Sequence[object] = explorers  # from the user, so the annotation may be wrong
    wrong = next((each for each in arguments if not isinstance(each, Explorer)), None)
    if wrong is not None or not explorers:
        raise ParameterError(
            f"report expects a path and Explorers that inspector.explore returned, got {short(wrong)}."
        )
    elements = [explorer.wait().page_element(has_code=not i) for i, explorer in enumerate(explorers)]
    sections = [f"<section id='program-{i}'>{element}</section>" for i, element in enumerate(elements)]
    names = [explorer.lowered.program.name for explorer in explorers]
    index = (f"<p class='inspector-index'>{html.escape(note)}</p>" if note else "") + _index(explorers)
    text = page(", ".join(names), index, sections)
    with files.writing(path) as file:
        file.write(text.encode())


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """A row of the index.

    Attributes:
      number: position of the Explorer in the report.
      explorer: the Explorer.
      variant: one of its variants.
      numbers: memory, cost and compile time by key; {} if the variant is not compiled.
    """

    number: int
    explorer: Explorer
    variant: Variant
    numbers: Mapping[str, float | Unavailable]

    @property
    def label(self) -> str:
        """The variant's label, with its state if it is not compiled."""
        label, state = self.variant.label, self.variant.state
        return label if state == "done" else f"{label}: {state}"


_COLUMNS: TableDescription[_Row] = TableDescription(
    TableColumn("program", "text", lambda row: row.explorer.lowered.program.name, "program", views=("page",)),
    TableColumn("variant", "text", lambda row: row.label, "variant", views=("page",)),
    TableColumn("target", "text", lambda row: str(row.variant.target), "target", views=("page",)),
    *stat_columns(lambda row: row.numbers, "peak_bytes", "temp_bytes", "flops", "bytes_accessed", "compile_s"),
)


def _index(explorers: Sequence[Explorer]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for title in _COLUMNS.titles("page"))
    rows = "".join(
        f"<tr>{''.join(_cells(_Row(number, explorer, variant, _numbers(variant))))}</tr>"
        for number, explorer in enumerate(explorers)
        for variant in explorer.variants
    )
    return f"<nav class='inspector-index'><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></nav>"


def _numbers(variant: Variant) -> Mapping[str, float | Unavailable]:
    return {stat.key: stat.value for stat in stats(variant.compiled)} if variant.state == "done" else {}


def _cells(row: _Row) -> Iterator[str]:
    """Yields the cells of a row, as HTML. The program's name links to its exploration, once."""
    for column in _COLUMNS.of("page"):
        cell = column.cell(row)
        text = html.escape(cell.text)
        if column.name == "program" and row.variant.is_baseline:
            text = f"<a href='#program-{row.number}'>{text}</a>"
        yield f"<td title='{html.escape(cell.note)}'>{text}</td>" if cell.note else f"<td>{text}</td>"
