"""Listings as documents of the text panes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inspector.analysis.source import hlo_listing
from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.source import PHASES, Origin, phases
from inspector.widgets import messages
from inspector.widgets.app import TextDocument
from inspector.widgets.cells import cell_name, display_file
from inspector.widgets.work import LoweredView

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
    names = {f.file: display_file(f.file) for entry in listing.origins for o in entry for f in o.frames}
    origins = [
        [(o.op_name, [(files.setdefault(names[f.file], len(files)), f.line) for f in o.frames]) for o in entry]
        for entry in listing.origins
    ]
    return TextDocument(
        pane=pane,
        variant=variant,
        language=LANGUAGES[pane],
        text=_with_cell_numbers(listing) if pane == "source" else listing.text,
        line_origins=np.frombuffer(listing.line_origins, "<i4"),
        files=list(files),
        origins=origins,
        phases=[_phase(entry) for entry in listing.origins] if pane in _WITH_WHOLE_NAMES else (),
        labels=listing.labels or None,
        instructions=listing.instructions or None,
        title=title,
    )


# Names in StableHLO and in HLO before optimization are relative to the function that they are in.
_WITH_WHOLE_NAMES: tuple[messages.TextPane, ...] = ("jaxpr", "optimized")


def _phase(entry: Sequence[Origin]) -> str:
    found = {phase for origin in entry for phase in phases(origin.op_name)}
    return " + ".join(phase for phase in PHASES if phase in found)


def _with_cell_numbers(listing: Listing) -> str:
    """The source with each heading of a notebook cell saying which one it is."""
    lines = listing.text.split("\n")
    for line, label in enumerate(listing.labels):
        below = listing.origins_of(line + 1) if label is None and line + 1 < len(lines) else ()
        cell = cell_name(below[0].frames[0].file) if below else None
        if cell:
            lines[line] = f"# {cell}"
    return "\n".join(lines)


def lowered_panes(lowered: LoweredView, variant: int | None = None) -> list[TextDocument | messages.Unavailable]:
    """What the panes before the compiler show; of one variant only what depends on its platform."""
    listings: tuple[tuple[messages.TextPane, Listing | Unavailable], ...] = (
        ("source", lowered.source),
        ("jaxpr", lowered.jaxpr_listing),
        ("stablehlo", lowered.stablehlo_listing),
        ("hlo", hlo_listing(lowered.hlo, Module.from_proto(lowered.hlo_proto), lowered.root)),
    )
    return [
        messages.Unavailable(
            type="unavailable", pane=pane, variant=variant, reason=listing.reason, remedy=listing.remedy
        )
        if isinstance(listing, Unavailable)
        else document(pane, listing, variant)
        for pane, listing in listings
        if variant is None or pane in ("stablehlo", "hlo")
    ]
