"""Lessons as slides of 1,280 by 800 pixels: the cells that share a slide, and the sizes of text and pictures."""

from __future__ import annotations

import ast
import base64
import re
from collections.abc import Iterator

from inspector.course.handed_in import Cell, asked, is_answer, source

_HEIGHT = 720
"""Pixels of a slide that its cells may fill."""

_ROWS = 14
"""Largest number of rows of a table on a slide."""

_PICTURE = 420
"""Largest height of a picture in pixels."""

_ZOOM = 1.4
"""Enlargement of pictures: their text is made for a notebook."""

_EXPLORABLE = 640
"""Height of most explorables in pixels."""

_STYLE = f"""<style>
.reveal .jp-RenderedHTMLCommon {{ font-size: 22px; }}
.reveal .jp-RenderedHTMLCommon h1 {{ font-size: 44px; }}
.reveal .jp-RenderedHTMLCommon h2 {{ font-size: 34px; }}
.reveal .jp-RenderedHTMLCommon table {{ font-size: 18px; }}
.reveal .jp-RenderedHTMLCommon td, .reveal .jp-RenderedHTMLCommon th {{ max-width: none; }}
.reveal .highlight pre, .reveal .jp-OutputArea-output pre {{
  font-size: 16px !important; line-height: 1.3 !important; white-space: pre-wrap !important; word-break: normal !important;
}}
.reveal .jp-OutputArea-output img {{ zoom: {_ZOOM}; max-height: {_PICTURE / _ZOOM:.0f}px; max-width: 100%; width: auto; }}
.reveal .jp-InputPrompt, .reveal .jp-OutputPrompt {{ display: none; }}
.reveal .controls {{ transform: scale(0.6); transform-origin: bottom right; }}
</style>
"""


def slides(cells: list[Cell]) -> Iterator[Cell]:
    """Yields the cells with the slide of each: a new one for a heading, for text, after questions, and if the last is full.

    Imports, settings and assertions are left out. Answers are speaker notes.
    """
    filled, is_asked = 0.0, False
    for number, cell in enumerate(cells):
        if is_answer(cell):
            yield _slide(cell, "notes")
        elif cell["cell_type"] == "code":
            shown = {**cell, "source": _without_checks(source(cell)).splitlines(keepends=True)}
            height = _height_of_code(shown)
            was_asked, is_asked = is_asked, any(asked(source(cell)))
            # What follows a question may show its answer.
            is_new = (filled + height > _HEIGHT and filled > 0) or (was_asked and not is_asked)
            filled = height if is_new else filled + height
            yield _slide(shown, "skip" if not source(shown) else "subslide" if is_new else "-")
        else:
            for part, text in enumerate(_parts(source(cell))):
                kind = "slide" if re.match(r"#|\*\*Summary", text) else "subslide"
                filled, is_asked = _height_of_text(text), False
                styled = text if number or part else f"{_STYLE}\n{text}"
                yield _slide({**cell, **_named(cell, part), "source": styled.splitlines(keepends=True)}, kind)


def _slide(cell: Cell, kind: str) -> Cell:
    return {**cell, "metadata": {**cell["metadata"], "slideshow": {"slide_type": kind}}}


def _named(cell: Cell, part: int) -> Cell:
    """Returns the id of a part of a cell, which must be unique in the notebook."""
    return {"id": f"{cell['id']}-{part}" if part else cell["id"]} if "id" in cell else {}


def _without_checks(code: str) -> str:
    """Returns code without the imports, settings and assertions between its other statements; "" if nothing is left."""
    lines = code.splitlines()
    try:
        statements = ast.parse(code).body
    except SyntaxError:  # a magic command
        return code
    for node in statements:
        is_setting = isinstance(node, ast.Expr) and re.match(r"(jax\.config|os\.environ)\.", lines[node.lineno - 1])
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert) or is_setting:
            assert node.end_lineno is not None, "parsed from text"
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _parts(text: str) -> Iterator[str]:
    """Divides text at its headings and summary, and long tables after some rows, with their heads repeated."""
    for part in re.split(r"\n(?=## |\*\*Summary)", text):
        lines = part.splitlines()
        ruler = next((i for i, line in enumerate(lines) if line.startswith("|---")), None)
        rows = [] if ruler is None else [line for line in lines[ruler + 1 :] if line.startswith("|")]
        if ruler is None or len(rows) <= _ROWS:
            yield part
            continue
        head, table, end = lines[: ruler - 1], lines[ruler - 1 : ruler + 1], lines[ruler + 1 + len(rows) :]
        for first in range(0, len(rows), _ROWS):
            yield "\n".join([*(head if first == 0 else ()), *table, *rows[first : first + _ROWS]])
        if any(end):
            yield "\n".join(end)


def _height_of_text(text: str) -> float:
    """Returns about the height of Markdown in pixels: paragraphs of lines of about 105 characters."""
    height = 0.0
    for paragraph in re.split(r"\n{2,}", text):
        lines = paragraph.splitlines()
        if paragraph.startswith("#"):
            height += 75
        elif paragraph.startswith("|"):
            height += 30 * len(lines) + 20
        else:
            height += 33 * (len(paragraph) // 105 + 1 + sum(line.startswith("- ") for line in lines)) + 20
    return height


def _height_of_code(cell: Cell) -> float:
    """Returns about the height of a cell with its outputs in pixels."""
    height = 21.0 * (source(cell).count("\n") + 1) + 30
    for output in cell["outputs"]:
        data = output.get("data", {})
        rich = "".join(data.get("text/html", ""))
        if "image/png" in data:
            header = base64.b64decode(data["image/png"][:64])
            height += min(_PICTURE, _ZOOM * int.from_bytes(header[20:24], "big")) + 20
        elif "inspector-stored" in rich:
            height += _EXPLORABLE
        elif rich:
            height += 31 * rich.count("<tr") + 20
        else:
            text = "".join(output.get("text") or data.get("text/plain", ""))
            height += 21 * sum(len(line) // 115 + 1 for line in text.splitlines()) + 20
    return height
