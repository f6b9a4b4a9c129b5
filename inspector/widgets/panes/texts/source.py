"""The Source pane: the user's Python source, the lines of several files in one text."""

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
    """Shows the source lines of the program."""

    language = "python"
    is_shared = True

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """Returns the source, scrolled to the function, below the imports of its cell."""
        for entry in super().lowered(lowered, variant):
            if isinstance(entry, TextDocument) and not isinstance(lowered.source, Unavailable):
                yield dataclasses.replace(entry, first_line=_line_of(lowered.source, lowered.root))
            else:
                yield entry

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """Returns the source with the name of the notebook cell in each heading."""
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
    """Returns the line where a function's definition begins, from 0; 0 if the text does not contain it."""
    for line in range(listing.line_count):
        frames = [frame for origin in listing.origins_of(line) for frame in origin.frames]
        if any((frame.file, frame.line) == (root.file, root.lines[0]) for frame in frames):
            return line
    return 0
