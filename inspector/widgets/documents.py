"""Texts for the browser with the properties of their lines, and the conversion of listings to such texts."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inspector.hlo.listing import Listing
from inspector.hlo.source import PHASES, Origin, phases
from inspector.support.packages import is_library_file
from inspector.widgets import messages
from inspector.widgets.cells import display_file

# Level 1 compresses 29 MB of HLO in 0.25 s instead of 0.8 s, for 20 % more bytes on a mostly local connection.
_GZIP_LEVEL = 1


def packed(text: str) -> bytes:
    """Returns a text as a buffer of a message."""
    return gzip.compress(text.encode("utf-8", "replace"), _GZIP_LEVEL, mtime=0)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TextDocument:
    """A text for one of the text panes, with the properties of its lines.

    Attributes:
      pane: pane that shows the text.
      variant: variant that the text belongs to; None if all variants share it.
      language: language for syntax highlighting.
      text: lines separated by a newline character.
      line_origins: one index into `origins` per line, -1 for none.
      files: source files by index.
      origins: for each index, the origins that a line has together, usually one: an operation name and
        frames, innermost first, each an index into `files` and a line from 1.
        A line of the source pane has one frame, itself; its operation name is "".
      labels: displayed line number of each line, None for a heading; None means 1, 2, 3, ...
      defining: for each line, whether it defines an instruction and therefore names it; None if the language has no instructions.
      title: title of the pane, such as a file name.
      first_line: line to scroll to first, from 0.
      phases: for each index, the part of a differentiated program, "" if unknown; () if none is known.
    """

    pane: messages.TextPane
    variant: int | None
    language: messages.Language
    text: str
    line_origins: Sequence[int] | npt.NDArray[np.int32]
    files: Sequence[str] = ()
    origins: Sequence[Sequence[tuple[str, Sequence[tuple[int, int]]]]] = ()
    labels: Sequence[int | None] | None = None
    defining: Sequence[bool] | npt.NDArray[np.bool_] | None = None
    title: str = ""
    first_line: int = 0
    phases: Sequence[str] = ()

    @property
    def line_count(self) -> int:
        """Number of lines in `text`; 1 for an empty text."""
        return self.text.count("\n") + 1

    def message(self) -> messages.Document:
        """Returns the message that announces the document."""
        return messages.Document(
            type="document",
            pane=self.pane,
            variant=self.variant,
            language=self.language,
            title=self.title,
            line_count=self.line_count,
        )

    def buffers(self) -> list[bytes]:
        """Returns the message's five buffers.

        Raises:
          ValueError: a table does not have one entry per line, or an origin does not exist.
        """
        origin_of_line = np.asarray(self.line_origins, dtype="<i4")
        self._check(origin_of_line)
        origins: messages.OriginTable = {
            "files": list(self.files),
            "libraries": [is_library_file(file) for file in self.files],
            "origins": [
                [(name, [(file, line) for file, line in frames]) for name, frames in entry] for entry in self.origins
            ],
            "phases": list(self.phases),
        }
        lines: messages.LineTable = {
            "first_line": self.first_line,
            "labels": None if self.labels is None else list(self.labels),
        }
        defining = b"" if self.defining is None else np.asarray(self.defining, np.bool_).tobytes()
        texts = (self.text.encode("utf-8", "replace"), origin_of_line.tobytes(), _json(origins), _json(lines), defining)
        return [gzip.compress(t, _GZIP_LEVEL, mtime=0) for t in texts]

    def _check(self, origin_of_line: npt.NDArray[np.int32]) -> None:
        tables = {"line_origins": origin_of_line, "labels": self.labels, "defining": self.defining}
        for name, table in tables.items():
            if table is not None and len(table) != self.line_count:
                raise ValueError(
                    f"{name} of the {self.pane} document has {len(table)} entries;"
                    f" the text has {self.line_count} lines, and every line needs one."
                )
        if origin_of_line.size and not -1 <= origin_of_line.min() <= origin_of_line.max() < len(self.origins):
            raise ValueError(
                f"line_origins of the {self.pane} document runs from {origin_of_line.min()} to"
                f" {origin_of_line.max()}; expected -1 to {len(self.origins) - 1}, an index into origins."
            )


def document(
    pane: messages.TextPane, listing: Listing, variant: int | None = None, *, language: messages.Language = "hlo"
) -> TextDocument:
    """Converts a listing to the document of a pane; `variant` is None if all variants share it."""
    files: dict[str, int] = {}
    paths = {frame.file for entry in listing.origins for origin in entry for frame in origin.frames}
    names = {path: display_file(path) for path in paths}
    origins = [
        [(o.op_name, [(files.setdefault(names[f.file], len(files)), f.line) for f in o.frames]) for o in entry]
        for entry in listing.origins
    ]
    return TextDocument(
        pane=pane,
        variant=variant,
        language=language,
        text=listing.text,
        line_origins=np.frombuffer(listing.line_origins, "<i4"),
        files=list(files),
        origins=origins,
        phases=[_phase(entry) for entry in listing.origins] if pane in _WITH_WHOLE_NAMES else (),
        labels=listing.labels or None,
        defining=np.frombuffer(listing.defining, np.bool_) if listing.defining else None,
    )


# Names in StableHLO and in unoptimized HLO are relative to the function that contains them.
_WITH_WHOLE_NAMES = ("jaxpr", "optimized")


def _phase(entry: Sequence[Origin]) -> str:
    present = {phase for origin in entry for phase in phases(origin.op_name)}
    return " + ".join(phase for phase in PHASES if phase in present)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
