"""HLO text as a listing: readable text, the name that each line defines, and its origins."""

from __future__ import annotations

import numpy as np

from inspector.compilation.caches.readings import shown_text
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.source import NOWHERE, Origin, Root
from inspector.support.value_ids import numbered


def hlo_listing(text: str, module: Module, root: Root) -> Listing:
    """Returns the text of a module without metadata, with the origins of each line.

    Args:
      text: jaxlib's text of the module.
      module: the same module, for the metadata.
      root: the frame where the user's program begins; origins end there.
    """
    shown, metadata = shown_text(text, module), module.columns.metadata
    line_codes = np.append(metadata.codes, -1)[shown.rows]  # -1 for lines that define nothing
    codes, first = numbered(line_codes)
    table: dict[tuple[Origin, ...], int] = {}
    indices = []
    for code in line_codes[first].tolist():
        entry = root.trim(_split(module.known_origins[code])) if code >= 0 else ()
        indices.append(table.setdefault(entry, len(table)) if entry else -1)
    return Listing(shown.text, np.array(indices, "<i4")[codes].tobytes(), tuple(table), shown.defining.tobytes())


def _split(origin: Origin) -> tuple[Origin, ...]:
    """Splits the origin of merged operations, whose names XLA joins with semicolons; () for an unknown origin."""
    return tuple(Origin(name, origin.frames) for name in origin.op_name.split(";")) if origin is not NOWHERE else ()
