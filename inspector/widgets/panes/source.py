"""The user's Python, the lines of several files one below the other."""

from __future__ import annotations

import dataclasses

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered
from inspector.widgets.cells import cell_name
from inspector.widgets.panes.text import TextPane


class SourcePane(TextPane):
    """See the module."""

    language = "python"
    is_shared = True

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """The source with each heading of a notebook cell saying which one it is."""
        listing = lowered.source
        if isinstance(listing, Unavailable):
            return listing
        lines = listing.text.split("\n")
        for line, label in enumerate(listing.labels):
            below = listing.origins_of(line + 1) if label is None and line + 1 < len(lines) else ()
            cell = cell_name(below[0].frames[0].file) if below else None
            if cell:
                lines[line] = f"# {cell}"
        return dataclasses.replace(listing, text="\n".join(lines))
