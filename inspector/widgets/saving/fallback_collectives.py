"""The collectives of a program as portable HTML: a table, and the groups drawn on the mesh.

Groups have letters as well as colors, as some pages remove colors.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from inspector.analysis.collectives.collective import Collective, over
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS, CollectiveRow
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh

_MOST_ROWS = 12
_MOST_PICTURES = 4
_MOST_DEVICES = 64
_TINTS = ("#4c8df640", "#f2994a50", "#27ae6040", "#bb6bd940", "#eb575750", "#2d9cdb50", "#f2c94c60", "#82828240")


def collectives_html(collectives: Collectives) -> str:
    """Returns a table of the collectives and a picture of each distinct grouping of devices; "" if there are none."""
    if not collectives.items:
        return ""
    rows = "".join(map(_row, collectives.items[:_MOST_ROWS]))
    heads = "".join(f"<th>{html.escape(title)}</th>" for title in COLLECTIVE_COLUMNS.titles("page"))
    more = len(collectives) - _MOST_ROWS
    return (
        f"<details open><summary>{len(collectives):,} collective{'s' if len(collectives) > 1 else ''}"
        f"{f' on the {html.escape(str(collectives.mesh))}' if collectives.mesh else ''}</summary>"
        f"<table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{f'<p>… and {more:,} more.</p>' if more > 0 else ''}{_pictures(collectives)}</details>"
    )


def _row(one: Collective) -> str:
    cells = COLLECTIVE_COLUMNS.texts("page", CollectiveRow(one))
    return "<tr>" + "".join(f"<td>{html.escape(_short(cell))}</td>" for cell in cells) + "</tr>"


def _short(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _pictures(collectives: Collectives) -> str:
    mesh = collectives.mesh
    if mesh is None or not 1 < mesh.size <= _MOST_DEVICES:
        return ""
    pictures: dict[str, str] = {}
    for one in collectives.items:
        title = f"{one.opcode}{over(one.axes)}"
        if title not in pictures and len(pictures) < _MOST_PICTURES:
            pictures[title] = _picture(title, mesh, _group_of_id(one, collectives, mesh))
    return "".join(f"<div style='display:inline-block;margin:8px 24px 8px 0'>{p}</div>" for p in pictures.values() if p)


def _group_of_id(one: Collective, collectives: Collectives, mesh: Mesh) -> Mapping[int, int]:
    """Returns the group of each logical id of the mesh; {} for pairs, which do not form groups, and if the participants are unknown."""
    if one.form is None or isinstance(one.participants, Unavailable):
        return {}
    of_id: dict[int, int] = {}
    numbers: dict[tuple[int, ...], int] = {}
    for group in one.participants:
        if mesh.kind == "replica":
            ids = tuple(d // collectives.num_partitions for d in group)
        else:
            ids = tuple(d % collectives.num_partitions for d in group)
        number = numbers.setdefault(ids, len(numbers))
        of_id.update(dict.fromkeys(ids, number))
    return of_id


def _picture(title: str, mesh: Mesh, groups: Mapping[int, int]) -> str:
    """Returns the mesh as a table: the last axis from left to right, the others from top to bottom."""
    if not groups:
        return ""
    ids = range(mesh.size) if mesh.device_ids is None else mesh.device_ids
    width = mesh.axis_sizes[-1]
    rows = [ids[start : start + width] for start in range(0, mesh.size, width)]
    outer = mesh.axis_sizes[:-1]
    head = "".join(f"<th>{html.escape(mesh.axis_names[-1])}={i}</th>" for i in range(width))
    body = "".join(
        f"<tr><th>{html.escape(_place(mesh.axis_names, outer, number))}</th>{''.join(_cell(i, groups) for i in row)}</tr>"
        for number, row in enumerate(rows)
    )
    caption = (
        f"<caption style='white-space:nowrap;text-align:left'>{html.escape(title)}: one letter per group</caption>"
    )
    return f"<table>{caption}<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _place(names: Sequence[str], sizes: Sequence[int], number: int) -> str:
    """Returns the coordinates of a row along all axes except the last."""
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return " ".join(f"{n}={number // stride % size}" for n, stride, size in zip(names, strides, sizes, strict=False))


def _cell(number: int, groups: Mapping[int, int]) -> str:
    if number not in groups:
        return f"<td>{number}</td>"
    group = groups[number]
    tint = _TINTS[group % len(_TINTS)]
    return f"<td style='background:{tint}'>{number} <b>{_letters(group)}</b></td>"


def _letters(number: int) -> str:
    """Returns the letters of a group: A, B, ..., Z, AA, AB, ..."""
    text = ""
    while number >= 0:
        text = chr(ord("A") + number % 26) + text
        number = number // 26 - 1
    return text
