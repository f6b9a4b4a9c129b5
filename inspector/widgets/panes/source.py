"""The user's Python, the lines of several files one below the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.source import Root
from inspector.stages.lowered import Lowered
from inspector.widgets.cells import cell_name
from inspector.widgets.documents import TextDocument
from inspector.widgets.panes.framework.pane import Entry
from inspector.widgets.panes.framework.text import TextPane


class SourcePane(TextPane):
    """See the module."""

    language = "python"
    is_shared = True

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """Begins at the function, below what its cell imports."""
        for entry in super().lowered(lowered, variant):
            if isinstance(entry, TextDocument) and not isinstance(lowered.source, Unavailable):
                yield dataclasses.replace(entry, first_line=_line_of(lowered.source, lowered.root))
            else:
                yield entry

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


def _line_of(listing: Listing, root: Root) -> int:
    """Where a function's definition begins, from 0; 0 where the text has it not."""
    for line in range(listing.line_count):
        frames = [frame for origin in listing.origins_of(line) for frame in origin.frames]
        if any((frame.file, frame.line) == (root.file, root.lines[0]) for frame in frames):
            return line
    return 0
