"""Text and HTML forms of values: what `repr` and a notebook show."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_MAX_ROWS = 60  # as in pandas
_MAX_CHARACTERS = 120  # of a value in an error message


def with_hint(text: str, hint: str) -> str:
    """Returns a text form whose last line names what to try next."""
    return f"{text}\n  Try {hint}"


def short(value: object) -> str:
    """Returns the beginning of the first line of a value's text form, for error messages."""
    line = repr(value).partition("\n")[0]
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1]}…"


def code_html(text: str) -> str:
    """Returns text as HTML, with the parts between backticks as code."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def described(text: str, facts: Mapping[str, str] | None = None, table: pd.DataFrame | None = None) -> str:
    """Returns the HTML form of a value.

    Args:
      text: its text form; a last line that `with_hint` added stands below everything else.
      facts: names and values, one row each.
      table: a table, of which a notebook shows the first and last rows.
    """
    heading, _, hint = text.partition("\n  Try ")
    parts = [f"<p>{html.escape(heading)}</p>"]
    if facts:
        rows = "".join(
            f'<tr><th scope="row" style="text-align: left">{html.escape(name)}</th>'
            f'<td style="text-align: left">{html.escape(value)}</td></tr>'
            for name, value in facts.items()
        )
        parts.append(f"<table><tbody>{rows}</tbody></table>")
    if table is not None:
        parts.append(table.to_html(max_rows=_MAX_ROWS, notebook=True))
    if hint:
        parts.append(f"<p><small>Try <code>{html.escape(hint)}</code></small></p>")
    return "".join(parts)
