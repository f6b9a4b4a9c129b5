"""Listings as documents of the text panes."""

from __future__ import annotations

import numpy as np

from inspector.hlo.listing import Listing
from inspector.widgets import messages
from inspector.widgets.app import TextDocument

LANGUAGES: dict[messages.TextPane, messages.Language] = {
    "source": "python",
    "jaxpr": "jaxpr",
    "stablehlo": "mlir",
    "hlo": "hlo",
    "optimized": "hlo",
}


def document(pane: messages.TextPane, listing: Listing, variant: int | None = None, title: str = "") -> TextDocument:
    """A listing as the document of a pane; `variant` is None when all variants share it."""
    files: dict[str, int] = {}
    origins = [
        [(origin.op_name, [(files.setdefault(f.file, len(files)), f.line) for f in origin.frames]) for origin in entry]
        for entry in listing.origins
    ]
    return TextDocument(
        pane=pane,
        variant=variant,
        language=LANGUAGES[pane],
        text=listing.text,
        line_origins=np.frombuffer(listing.line_origins, "<i4"),
        files=list(files),
        origins=[entry[0] for entry in origins],
        labels=listing.labels or None,
        instructions=listing.instructions or None,
        title=title,
    )
