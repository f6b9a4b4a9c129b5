"""Several explorations in a single HTML file: a table of their memory, cost and compile time, and each complete exploration."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Sequence

from inspector.analysis.cost.stats import stats
from inspector.errors import ParameterError, Unavailable
from inspector.support import files
from inspector.widgets.explorer import Explorer
from inspector.widgets.saving.fallback import number_text
from inspector.widgets.saving.page import page
from inspector.widgets.variants import Variant

_COLUMNS = ("peak_bytes", "temp_bytes", "flops", "bytes_accessed", "compile_s")


def report(path: str | os.PathLike[str], *explorers: Explorer) -> None:
    """Writes explorations to a single HTML file that opens in any browser without a network; waits for all their compiles.

    The page begins with a table: a row for each variant of each program, with its memory, cost and compile time. See
    `Explorer.save_html`.

    Args:
      path: path of the file; an existing file is replaced.
      explorers: the Explorers, in the order of the table.

    Raises:
      ParameterError: not Explorers, or none.
      OSError: the file cannot be written.
      ClosedError: one of the Explorers is closed.
    """
    arguments: Sequence[object] = explorers  # from the user, so the annotation may be wrong
    wrong = next((each for each in arguments if not isinstance(each, Explorer)), None)
    if wrong is not None or not explorers:
        raise ParameterError(f"report expects a path and Explorers that inspector.explore returned, got {wrong!r}.")
    elements = [explorer.wait().page_element(has_code=not i) for i, explorer in enumerate(explorers)]
    sections = [f"<section id='program-{i}'>{element}</section>" for i, element in enumerate(elements)]
    names = [explorer.lowered.program.name for explorer in explorers]
    text = page(", ".join(names), _index(explorers), sections)
    with files.writing(path) as file:
        file.write(text.encode())


def _index(explorers: Sequence[Explorer]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("program", "variant", "target", *_headings(explorers)))
    rows = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(number, explorer, variant))}</tr>"
        for number, explorer in enumerate(explorers)
        for variant in explorer.variants
    )
    return f"<nav class='inspector-index'><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></nav>"


def _headings(explorers: Sequence[Explorer]) -> list[str]:
    labels = {
        stat.key: stat.label
        for explorer in explorers
        for variant in explorer.variants
        if variant.state == "done"
        for stat in stats(variant.compiled)
    }
    return [labels.get(key, "") for key in _COLUMNS]


def _cells(number: int, explorer: Explorer, variant: Variant) -> Iterator[str]:
    """Yields the cells of a row, as HTML."""
    name = html.escape(explorer.lowered.program.name)
    yield f"<a href='#program-{number}'>{name}</a>" if variant.is_baseline else name
    yield html.escape(variant.label)
    yield html.escape(str(variant.target))
    if variant.state != "done":
        yield html.escape(variant.state)
        return
    known = {stat.key: stat for stat in stats(variant.compiled)}
    for key in _COLUMNS:
        stat = known.get(key)
        if stat is None or isinstance(stat.value, Unavailable):
            yield "unavailable"
        else:
            yield html.escape(number_text(stat))
