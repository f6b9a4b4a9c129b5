"""The answers of tools: a part of a command's result that fits a number of characters, as values and as text.

Lists of records, such as the rows of a table or the lines of a text, are *sections*. A long section is cut to a page, and the
answer states what is left out and how to get it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from inspector.support.notebook import short

_DEFAULT_CHARS = 20_000
_LEAST_CHARS, _MOST_CHARS = 1_000, 200_000
_LEAST_CELL_CHARS = 100
_SHOWN_ITEMS = 40  # of a list in a cell, such as replica groups
_WIDE = 100  # characters of a long cell

PAGE_SCHEMA: Mapping[str, Any] = {
    "offset": {"type": "integer", "minimum": 0, "description": "First row or line of each section of the answer. Default: 0."},
    "limit": {"type": "integer", "minimum": 1, "description": "Most rows or lines of each section. Default: as many as fit."},
    "contains": {"type": "string", "description": "Only rows or lines with this text, in any case."},
    "section": {"type": "string", "description": "Only this section of the answer, such as 'rows' or 'lines'."},
    "max_chars": {
        "type": "integer", "minimum": _LEAST_CHARS, "maximum": _MOST_CHARS,
        "description": f"Most characters of the answer. Default: {_DEFAULT_CHARS}.",
    },
}  # fmt: skip
"""The parameters that choose a page, as JSON schemas."""


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """The part of an answer that a call asks for.

    Attributes:
      offset: first row of each section.
      limit: number of rows of each section; None for as many as fit.
      contains: a text that each row must contain, in any case; "" for all rows.
      section: name of the only section; "" for all.
      max_chars: number of characters of the answer.
    """

    offset: int = 0
    limit: int | None = None
    contains: str = ""
    section: str = ""
    max_chars: int = _DEFAULT_CHARS

    @classmethod
    def taken_from(cls, given: dict[str, Any]) -> Page:
        """Removes the parameters of a page from the arguments of a call.

        Raises:
          click.UsageError: a value of a wrong type or outside its range.
        """
        chosen = {name: value for name in PAGE_SCHEMA if (value := given.pop(name, None)) is not None}
        for name, value in chosen.items():
            least, most = PAGE_SCHEMA[name].get("minimum"), PAGE_SCHEMA[name].get("maximum", math.inf)
            if least is None and not isinstance(value, str):
                raise click.UsageError(f"{name} is {short(value)}. Expected a text.")
            if least is not None and not (type(value) is int and least <= value <= most):
                limits = f"from {least}" + (f" to {most}" if most < math.inf else "")
                raise click.UsageError(f"{name} is {short(value)}. Expected an integer {limits}.")
        return cls(**chosen)


def page_of(result: Any, page: Page) -> dict[str, Any]:
    """Returns the part of a command's result that fits a page.

    Args:
      result: JSON values.
      page: the page.

    Returns:
      `answer`: the result with shortened sections, texts and lists; `left_out`: one entry for each section that is not
      complete, with the next offset. As JSON it has at most `page.max_chars` characters.

    Raises:
      click.UsageError: the result has no section of that name.
    """
    whole = _as_record(result)
    names = [name for name, _ in _sections(whole)]
    if page.section and page.section not in names:
        raise click.UsageError(
            f"The answer has no section {short(page.section)}. Its sections: {', '.join(names) or 'none'}."
        )
    cell_chars = page.max_chars // 10
    while True:
        shown = _fitted(whole, page, cell_chars)
        fits = len(_json(shown)) <= page.max_chars
        is_shortest = cell_chars <= _LEAST_CELL_CHARS
        if fits and (is_shortest or not any(entry.get("next_offset") == page.offset for entry in shown["left_out"])):
            return shown
        if is_shortest:
            return {
                "answer": {},
                "left_out": [{"how": "Even the summary of the answer is too long. Choose a larger max_chars."}],
            }
        cell_chars = max(_LEAST_CELL_CHARS, cell_chars // 2)


def _fitted(whole: dict[str, Any], page: Page, cell_chars: int) -> dict[str, Any]:
    """Returns the answer with as many rows as fit in about the characters of the page."""
    totals, chosen = dict[str, tuple[int, int]](), dict[str, list[Any]]()
    for name, rows in _sections(whole):
        if page.section in ("", name):
            matching = [row for row in rows if _matches(row, page.contains)]
            totals[name] = len(rows), len(matching)
            end = None if page.limit is None else page.offset + page.limit
            chosen[name] = matching[page.offset : end]
    empty = _with_sections(whole, {}, cell_chars)
    notes = 200 * (1 + len(chosen))
    counts = _shares(chosen, page.max_chars - len(_json(empty)) - notes, cell_chars)
    parts = {name: [_cut(row, cell_chars) for row in rows[: counts[name]]] for name, rows in chosen.items()}
    left_out = [
        entry for name, part in parts.items() if (entry := _left_out(name, len(part), *totals[name], page)) is not None
    ]
    return {"answer": _with_sections(whole, parts, cell_chars), "left_out": left_out}


def _left_out(name: str, shown: int, total: int, matching: int, page: Page) -> dict[str, Any] | None:
    """Describes the missing rows of a section; None for a complete one."""
    if shown == total:
        return None
    end = page.offset + shown
    found = f" of {matching} that contain {page.contains!r}" if page.contains else ""
    rows = f"{page.offset} to {end - 1}" if shown else "none"
    entry: dict[str, Any] = {"section": name, "shown": f"{rows}{found} of {total}"}
    if end < matching:
        entry |= {
            "next_offset": end,
            "how": f"section={name!r}, offset={end}, or filter with contains, or a larger max_chars",
        }
    return entry


def _shares(sections: Mapping[str, Sequence[Any]], characters: int, cell_chars: int) -> dict[str, int]:
    """Returns the number of rows of each section: short sections are complete, and long ones share the rest evenly."""
    lengths = {name: _lengths(rows, characters, cell_chars) for name, rows in sections.items()}
    counts: dict[str, int] = {}
    for place, name in enumerate(sorted(lengths, key=lambda name: sum(lengths[name]))):
        share = max(0, characters) // (len(lengths) - place)
        used = count = 0
        while count < len(lengths[name]) and used + lengths[name][count] <= share:
            used += lengths[name][count]
            count += 1
        counts[name] = min(count, len(sections[name]))
        characters -= used
    return counts


def _lengths(rows: Sequence[Any], most: int, cell_chars: int) -> list[int]:
    """Returns the characters of the first rows, up to one that exceeds a sum."""
    lengths: list[int] = []
    used = 0
    for row in rows:
        lengths.append(len(_json(_cut(row, cell_chars))) + 2)
        used += lengths[-1]
        if used > most:
            break
    return lengths


def _as_record(result: Any) -> dict[str, Any]:
    return result if isinstance(result, dict) else {"rows": list(result)}


def _is_section(value: Any) -> bool:
    """Reports whether a value is a list of records that contain no sections."""
    is_records = isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
    return is_records and not any(_is_records(cell) for each in value for cell in each.values())


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _sections(value: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yields the sections of a value, named by their paths: `rows`, `changes.other`, `profiles.0.rows`."""
    if _is_section(value):
        yield path, value
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            yield from _sections(each, f"{path}.{key}" if path else str(key))


def _with_sections(value: Any, parts: Mapping[str, list[Any]], cell_chars: int, path: str = "") -> Any:
    """Returns a value with other sections, and without those that are not given."""
    if _is_section(value):
        return parts.get(path, [])
    if isinstance(value, dict):
        return {
            key: _with_sections(each, parts, cell_chars, f"{path}.{key}" if path else key)
            for key, each in value.items()
        }
    if _is_records(value):
        return [_with_sections(each, parts, cell_chars, f"{path}.{place}") for place, each in enumerate(value)]
    return _cut(value, cell_chars)


def _cut(value: Any, most: int) -> Any:
    """Shortens the texts and lists in a value. Numbers that JSON cannot represent become texts."""
    if isinstance(value, str):
        return (
            value if len(value) <= most else f"{value[:most]}… {len(value) - most:,} more characters: larger max_chars"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _cut(each, most) for key, each in value.items()}
    if isinstance(value, list):
        shown = [_cut(each, most) for each in value[:_SHOWN_ITEMS]]
        return shown if len(shown) == len(value) else [*shown, f"… {len(value) - len(shown):,} more"]
    return value


def _matches(row: Any, text: str) -> bool:
    return not text or text.casefold() in _json(list(row.values())).casefold()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------ text


def as_text(shown: Mapping[str, Any]) -> str:
    """Returns the answer of `page_of` as text, with tables for sections."""
    lines = [*_written(shown["answer"], "")]
    for entry in shown["left_out"]:
        place = f"{entry['section']}: {entry['shown']}. " if "section" in entry else ""
        lines.append(f"[left out] {place}{'More: ' + entry['how'] if 'how' in entry else ''}".rstrip())
    return "\n".join(lines)


def _written(value: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, each in value.items():
        name = f"{path}.{key}" if path else key
        if _is_section(each):
            yield f"{name}:"
            yield from _numbered(each) if key == "lines" else _table(each)
        elif isinstance(each, dict):
            yield from _written(each, name)
        elif _is_records(each):
            for place, record in enumerate(each):
                yield from _written(record, f"{name}.{place}")
        else:
            yield f"{name}: {_cell(each) or 'none'}"


def _numbered(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of a text with their numbers and their source lines."""
    for row in rows:
        source = _with_line(row).get("source", "")
        number = "" if row["line"] is None else row["line"]
        yield f"{number}\t{row['text']}{f'  # {source}' if source else ''}"


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a table without empty columns; one line per cell if most rows have a long cell."""
    located = [_with_line(row) for row in rows]
    columns = dict.fromkeys(key for row in located for key, cell in row.items() if _cell(cell))
    cells = [[_cell(row.get(column)) for column in columns] for row in located]
    wide = sum(any(len(cell) > _WIDE for cell in row) for row in cells)
    if 2 * wide > len(cells):
        for row in cells:
            known = [f"{column}: {cell}" for column, cell in zip(columns, row, strict=True) if cell]
            yield "- " + "\n  ".join(known)
        return
    yield " | ".join(columns)
    yield from (" | ".join(row) for row in cells)


def _with_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row with its source file and line in one cell, `step.py:12`."""
    file, line = row.get("source_file"), row.get("source_line")
    rest = {key: cell for key, cell in row.items() if key not in ("source_file", "source_line")}
    return {**rest, "source": f"{file}:{line}"} if file else rest


def _cell(value: Any) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(each)}" for key, each in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return " ".join(value.split()) if isinstance(value, str) else str(value)
