"""A module's text for reading, with which of its lines define an instruction, and which."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.module import Module
from inspector.hlo.text import display_text

NAMES = ("text", "rows")
"""Of the entries that are kept of one."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DisplayedText:
    """Lines of a text.

    Attributes:
      text: without metadata and without the tables of source frames.
      defining: whether each line defines an instruction.
      rows: of that in the module's columns; -1 where there is none.
    """

    text: str
    defining: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.int32]

    @classmethod
    def of(cls, hlo: str, module: Module) -> DisplayedText:
        """Made of jaxlib's text of a module.

        Raises:
          ModuleError: the text cannot be read.
        """
        display = display_text(hlo)
        known: dict[str | None, int] = {name: row for row, name in enumerate(module.columns.names)}
        names = display.instruction_names
        defining = np.array([name is not None for name in names])
        return cls(display.text, defining, np.array([known.get(name, -1) for name in names], np.int32))


def entries(shown: DisplayedText) -> dict[str, bytes] | None:
    """A text as bytes by name, all of `NAMES`; None where it defines what the module has not."""
    if (shown.defining != (shown.rows >= 0)).any():
        return None
    return {"text": shown.text.encode("utf-8", "surrogatepass"), "rows": shown.rows.astype("<i4").tobytes()}


def read(kept: Mapping[str, bytes], module: Module) -> DisplayedText:
    """The text of which `entries` were kept.

    Raises:
      ModuleError: what was kept is not of this module, or damaged.
    """
    try:
        text = kept["text"].decode("utf-8", "surrogatepass")
        rows = np.frombuffer(kept["rows"], "<i4")
    except (KeyError, ValueError) as e:
        raise ModuleError(f"What was kept of a text is damaged: {e}.") from e
    if len(rows) != text.count("\n") + 1 or rows.min() < -1 or rows.max() >= len(module.columns):
        raise ModuleError("What was kept of a text has other lines.")
    return DisplayedText(text, rows >= 0, rows)
