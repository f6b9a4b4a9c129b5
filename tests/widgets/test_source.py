"""The Source pane: where a reader begins."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import inspector
from inspector.hlo.listing import Listing
from inspector.widgets.panes.texts.source import SourcePane


def doubled(x: Any) -> Any:
    return helped(x) * 2


def helped(x: Any) -> Any:
    return jnp.sin(x)


def test_the_source_begins_at_the_function() -> None:
    lowered = inspector.lower(doubled, 1.0)
    context: Any = None
    (entry,) = SourcePane("source", context).lowered(lowered, None)
    text: Any = entry
    assert text.text.split("\n")[text.first_line] == "def doubled(x: Any) -> Any:"
    assert isinstance(lowered.source, Listing)
    assert [*SourcePane("source", context).lowered(lowered, 1)] == []
