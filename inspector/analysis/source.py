"""HLO text as a listing: readable text, what each line defines, and where it came from."""

from __future__ import annotations

from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.hlo.source import Origin, Root
from inspector.hlo.text import display_text


def hlo_listing(text: str, module: Module, root: Root) -> Listing:
    """The text of a module, without metadata, with the origins of each line.

    Args:
      text: jaxlib's text of the module.
      module: the same module, for the metadata.
      root: where the user's program begins; origins end there.
    """
    display = display_text(text)
    trimmed: dict[int, tuple[Origin, ...]] = {}
    by_name = module.origins()
    entries: list[tuple[Origin, ...]] = []
    for name in display.instruction_names:
        origin = by_name.get(name) if name is not None else None
        if origin is None:
            entries.append(())
            continue
        # `origins()` shares equal objects, so the trimming is done once for each.
        if id(origin) not in trimmed:
            trimmed[id(origin)] = root.trim(_split(origin))
        entries.append(trimmed[id(origin)])
    return Listing.of(display.text, entries, display.instruction_names)


def _split(origin: Origin) -> tuple[Origin, ...]:
    """XLA joins the names of merged operations with semicolons."""
    return tuple(Origin(name, origin.frames) for name in origin.op_name.split(";"))
