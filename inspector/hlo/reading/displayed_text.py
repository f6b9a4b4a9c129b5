"""The readable text of a module, with the instruction that each line defines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from inspector.errors import ModuleError
from inspector.hlo.module import Module
from inspector.hlo.text import display_text

NAMES = ("text", "rows")
"""Names of the saved entries of a text."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DisplayedText:
    """The readable text of a module.

    Attributes:
      text: the text without metadata and without the tables of source frames.
      defining: whether each line defines an instruction.
      rows: row of that instruction in the module's columns; -1 if there is none.
    """

    text: str
    defining: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.int32]

    @classmethod
    def of(cls, hlo: str, module: Module) -> DisplayedText:
        """Converts jaxlib's text of a module.

        Raises:
          ModuleError: the text cannot be parsed.
        """
        display = display_text(hlo)
        known: dict[str | None, int] = {name: row for row, name in enumerate(module.columns.names)}
        names = display.instruction_names
        defining = np.array([name is not None for name in names])
        return cls(display.text, defining, np.array([known.get(name, -1) for name in names], np.int32))


def entries(shown: DisplayedText) -> dict[str, bytes] | None:
    """Returns a text as bytes, by all of `NAMES`; None if it defines an instruction that the module does not have."""
    if (shown.defining != (shown.rows >= 0)).any():
        return None
    return {"text": shown.text.encode("utf-8", "surrogatepass"), "rows": shown.rows.astype("<i4").tobytes()}


def read(blobs: Mapping[str, bytes], module: Module) -> DisplayedText:
    """Restores a text from its `entries`.

    Raises:
      ModuleError: the entries belong to another module, or are damaged.
    """
    try:
        text = blobs["text"].decode("utf-8", "surrogatepass")
        rows = np.frombuffer(blobs["rows"], "<i4")
    except (KeyError, ValueError) as e:
        raise ModuleError(f"The saved text is damaged: {e}.") from e
    if len(rows) != text.count("\n") + 1 or rows.min() < -1 or rows.max() >= len(module.columns):
        raise ModuleError("The saved text does not match its module.")
    return DisplayedText(text, rows >= 0, rows)
