"""HLO text as a listing: readable text, what each line defines, and where it came from."""

from __future__ import annotations

import numpy as np

from inspector.compilation.caches.readings import shown_text
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.source import NOWHERE, Origin, Root
from inspector.support.value_ids import numbered


def hlo_listing(text: str, module: Module, root: Root) -> Listing:
    """The text of a module, without metadata, with the origins of each line.

    Args:
      text: jaxlib's text of the module.
      module: the same module, for the metadata.
      root: where the user's program begins; origins end there.
    """
    shown, metadata = shown_text(text, module), module.columns.metadata
    said = np.append(metadata.codes, -1)[shown.rows]  # of what defines nothing, the last
    codes, first = numbered(said)
    table: dict[tuple[Origin, ...], int] = {}
    indices = []
    for code in said[first].tolist():
        entry = root.trim(_split(module.known_origins[code])) if code >= 0 else ()
        indices.append(table.setdefault(entry, len(table)) if entry else -1)
    return Listing(shown.text, np.array(indices, "<i4")[codes].tobytes(), tuple(table), shown.defining.tobytes())


def _split(origin: Origin) -> tuple[Origin, ...]:
    """XLA joins the names of merged operations with semicolons; where nothing tells, there are none."""
    return tuple(Origin(name, origin.frames) for name in origin.op_name.split(";")) if origin is not NOWHERE else ()
