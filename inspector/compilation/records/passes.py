"""`Passes`: the changes by each compiler pass, from the compiler's own snapshots between passes.

Recorded by a compile with `products=("passes",)`; see `pass_record.py`. The texts
of all snapshots stay compressed together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from inspector.compilation.records.packed import pack, unpack
from inspector.compilation.records.pass_counts import Counts
from inspector.compilation.records.phases import Phase
from inspector.compilation.records.texts import Texts
from inspector.errors import ModuleError, Unavailable
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.tables import Tabular
from inspector.support.units import format_seconds

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Pass:
    """One run of a compiler pass.

    Attributes:
      index: position, from 0, in the order in which passes ended.
      pipeline: the pipeline that ran the pass.
      name: XLA's name of the pass. Changes outside of all passes are listed too: as `scheduling` if the module got its
        schedule between two pipelines, as `between pipelines` for any other change there, and as `later passes` for all
        changes after the last pass that the compiler records.
      changed: True if the module's text differs after the pass.
      duration_s: seconds of the pass, without the passes within it, or why they are unknown.
      before_index, after_index: indices of the module's text in `texts`.
      texts: the snapshots of all passes.
      inner: number of entries right before this one that ran within it; 0 for a pass without a pipeline.
      is_part: True for a step within the pass that follows; XLA names and records some of these.
    """

    index: int
    pipeline: str
    name: str
    changed: bool
    duration_s: float | Unavailable
    before_index: int
    after_index: int
    texts: Texts = dataclasses.field(repr=False)
    inner: int = 0
    is_part: bool = False

    def __repr__(self) -> str:
        changed = "changed the module" if self.changed else "changed nothing"
        took = "" if isinstance(self.duration_s, Unavailable) else f", {format_seconds(self.duration_s)}"
        return f"<Pass {self.index} {self.pipeline}/{self.name}: {changed}{took}>"

    @property
    def before(self) -> str:
        """The module's HLO before the pass."""
        return self.texts[self.before_index]

    @property
    def after(self) -> str:
        """The module's HLO after the pass."""
        return self.texts[self.after_index]


@dataclasses.dataclass(frozen=True, slots=True)
class PassTableRow:
    """A row of the table of passes: a pass, or a phase of the compile without passes.

    Attributes:
      index, pipeline, name, changed, duration_s: see `Pass`. A phase has only a name and a duration.
      counts: counts of the module after the pass; None for a phase.
    """

    index: int | None
    pipeline: str | None
    name: str
    changed: bool | None
    duration_s: float | Unavailable
    counts: Counts | Unavailable | None = None

    def count(self, name: str) -> int | Unavailable | None:
        """Returns one of the counts by name."""
        return getattr(self.counts, name) if isinstance(self.counts, Counts) else self.counts


PASS_COLUMNS: TableDescription[PassTableRow] = TableDescription(
    TableColumn("index", "int", lambda row: row.index, "#", "Position in the order of execution", views=("data_frame", "pane")),
    TableColumn("pipeline", "text", lambda row: row.pipeline),
    TableColumn("name", "text", lambda row: row.name, "pass", "XLA's name of the pass", views=("data_frame", "pane")),
    TableColumn("changed", "bool", lambda row: row.changed),
    TableColumn(
        "duration_s", "float", lambda row: row.duration_s, "time", "Time of the pass, without the passes within it",
        "seconds", ("data_frame", "pane"),
    ),
    TableColumn("instructions", "int", lambda row: row.count("instructions")),
    TableColumn("fusions", "int", lambda row: row.count("fusions")),
    TableColumn("written_bytes", "int", lambda row: row.count("written_bytes"), unit="bytes"),
    TableColumn("collectives", "int", lambda row: row.count("collectives")),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Passes(Tabular, Sequence[Pass]):
    """The passes of one compile, in order.

    Attributes:
      entries: the passes.
      note: passes that the list leaves out, or "".
      phases: parts of the compile without passes; with the passes' durations, they sum to the time of the compile.
      counts: counts of the module in each of the snapshots' texts, by the indices of passes; () if they were not
        recorded.
    """

    entries: tuple[Pass, ...]
    note: str = ""
    phases: tuple[Phase, ...] = ()
    counts: tuple[Counts, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Pass: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Pass, ...]: ...
    def __getitem__(self, index: int | slice) -> Pass | tuple[Pass, ...]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.entries)

    @property
    def changed(self) -> tuple[Pass, ...]:
        """The passes that changed the module."""
        return tuple(p for p in self.entries if p.changed)

    @property
    def byte_size(self) -> int:
        """Size of the compressed snapshots in bytes."""
        return self.entries[0].texts.byte_size if self.entries else 0

    def counts_at(self, text: int) -> Counts | Unavailable:
        """Returns the counts of a snapshot's module, by its index (`Pass.before_index`, `Pass.after_index`)."""
        return self.counts[text] if text < len(self.counts) else _NOT_COUNTED

    def table(self) -> pd.DataFrame:
        """Returns one row per pass, then one row per phase without passes.

        Columns: `index, pipeline, name, changed, duration_s`; the `Counts` of the module after the pass:
        `instructions, fusions, written_bytes, collectives`; and `unknown`. The sum of `duration_s` is the time of
        the compile (`timings["compile_s"]`). A phase has no index, pipeline and counts.
        """
        rows = [
            PassTableRow(p.index, p.pipeline, p.name, p.changed, p.duration_s, self.counts_at(p.after_index))
            for p in self.entries
        ]
        rows += [PassTableRow(None, None, phase.name, None, phase.duration_s) for phase in self.phases]
        return PASS_COLUMNS.data_frame(rows)

    def to_bytes(self) -> bytes:
        """Encodes the passes for another process or a file; `from_bytes` is the inverse."""
        reasons = list(dict.fromkeys(p.duration_s for p in self.entries if isinstance(p.duration_s, Unavailable)))
        texts = self.entries[0].texts if self.entries else Texts()
        rows = [
            (p.pipeline, p.name, _encode(p.duration_s, reasons), p.before_index, p.after_index) for p in self.entries
        ]
        inner = tuple(p.inner for p in self.entries)
        parts = tuple(p.index for p in self.entries if p.is_part)
        header = _Header(tuple(rows), tuple(reasons), self.note, self.phases, self.counts, inner, parts)
        return pack(header, [texts.lines, *texts.orders])

    @classmethod
    def from_bytes(cls, data: bytes) -> Passes:
        """Decodes the result of `to_bytes`.

        Raises:
          ModuleError: other or damaged data.
        """
        header, blobs = unpack(data, _Header)
        try:
            texts = Texts(blobs[0], tuple(blobs[1:]))
            entries = tuple(_decode(i, row, header, texts) for i, row in enumerate(header.rows))
            return cls(entries, header.note, header.phases, header.counts)
        except (IndexError, ValueError) as e:
            raise ModuleError(f"The recorded passes cannot be read ({type(e).__name__}: {e}). Compile again.") from e

    def __repr__(self) -> str:
        known = [p.duration_s for p in self.entries if not isinstance(p.duration_s, Unavailable)]
        measured = f", {len(known)} measured" if known else ""
        return f"<Passes: {len(self)} passes, {len(self.changed)} changed the module{measured}>"


# Pipeline, name, seconds or the number of the reason for unknown ones, and the texts before and after.
_Row = tuple[str, str, float | tuple[int], int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    rows: tuple[_Row, ...]
    reasons: tuple[Unavailable, ...]
    note: str
    phases: tuple[Phase, ...]
    counts: tuple[Counts, ...] = ()
    inner: tuple[int, ...] | None = None
    parts: tuple[int, ...] = ()


_NOT_COUNTED = Unavailable("these passes were recorded without counts", "compile again")


def _encode(duration_s: float | Unavailable, reasons: Sequence[Unavailable]) -> float | tuple[int]:
    return (reasons.index(duration_s),) if isinstance(duration_s, Unavailable) else duration_s


def _decode(index: int, row: _Row, header: _Header, texts: Texts) -> Pass:
    pipeline, name, duration, before, after = row
    duration_s = header.reasons[duration[0]] if isinstance(duration, tuple) else duration
    if not 0 <= before < len(texts) or not 0 <= after < len(texts):
        raise ValueError(f"pass {index} has the texts {before} and {after} of {len(texts)}")
    inner = _inner_by_texts(index, header.rows) if header.inner is None else header.inner[index]
    if not 0 <= inner <= index:
        raise ValueError(f"pass {index} has {inner} passes within it")
    is_part = index in header.parts
    return Pass(index, pipeline, name, before != after, duration_s, before, after, texts, inner, is_part)


def _inner_by_texts(index: int, rows: Sequence[_Row]) -> int:
    """Returns the number of entries within one, for recordings of earlier versions: those after its text before."""
    *_, before, _ = rows[index]
    if not index or rows[index - 1][-1] == before:
        return 0
    return next((index - i for i in range(index - 1, -1, -1) if rows[i][-2] == before), 0)
