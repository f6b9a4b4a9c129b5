"""`Accuracy`: the errors of a program's variants against a reference with 64-bit values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from inspector.errors import ParameterError, Unavailable
from inspector.execution.output_error import OutputError, Verdict
from inspector.hlo.source import Frame, own_frame
from inspector.stages.departure import Departure
from inspector.support.columns import TableColumn, TableDescription, View
from inspector.support.notebook import short, with_hint
from inspector.support.tables import Kind, Tabular
from inspector.support.units import format_list

if TYPE_CHECKING:
    import pandas as pd

_WORST_FIRST: Sequence[Verdict] = ("wrong", "less accurate", "more accurate", "as accurate")


@dataclasses.dataclass(frozen=True, slots=True)
class NotWidened:
    """An operation that the reference computes at the program's own width, because it has no wider form.

    Attributes:
      primitive: JAX's name, such as `pallas_call`.
      frames: its source frames, innermost first.
      line: the user's line, such as `model.py:31`; "" if unknown.
    """

    primitive: str
    frames: tuple[Frame, ...]
    line: str


@dataclasses.dataclass(frozen=True, slots=True)
class OutputAccuracy:
    """The error of one output of a variant.

    Attributes:
      error: the error against the reference.
      ratio: the error divided by the baseline's, both as root mean squares.
      verdict: the verdict relative to the baseline; "wrong" if an element is outside the tolerance.
    """

    error: OutputError
    ratio: float | Unavailable
    verdict: Verdict | Unavailable


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class VariantAccuracy:
    """The errors of one variant.

    Attributes:
      name: its options or its target, or "baseline".
      options, target: the options and the target, as text.
      device_kind: JAX's name of the device that it ran on.
      outputs: one error per output; Unavailable if the variant could not be compiled or run.
      departure: the line whose value departs from the reference; Unavailable if it was not searched or none stands out.
    """

    name: str
    options: str
    target: str
    device_kind: str | Unavailable
    outputs: tuple[OutputAccuracy, ...] | Unavailable
    departure: Departure | Unavailable

    @property
    def verdict(self) -> Verdict | Unavailable:
        """The worst verdict of its outputs; "more accurate" only if no output is less accurate."""
        if isinstance(self.outputs, Unavailable):
            return self.outputs
        verdicts = {each.verdict for each in self.outputs}
        known = next((each for each in _WORST_FIRST if each in verdicts), None)
        unknown = next((each for each in verdicts if isinstance(each, Unavailable)), None)
        return known or unknown or "as accurate"

    @property
    def max_error(self) -> float | Unavailable:
        """The largest error of any output."""
        if isinstance(self.outputs, Unavailable):
            return self.outputs
        errors = [each.error.max_error for each in self.outputs]
        known = [each for each in errors if not isinstance(each, Unavailable)]
        return max(known, default=next((each for each in errors if isinstance(each, Unavailable)), 0.0))

    @property
    def words(self) -> str:
        """The verdict with the largest error, the unexpected values and the line."""
        verdict, most = self.verdict, self.max_error
        if isinstance(self.outputs, Unavailable):
            return f"not measured: {self.outputs.reason}"
        parts = [str(verdict) if isinstance(verdict, Unavailable) else verdict]
        parts.append("no finite values" if isinstance(most, Unavailable) else f"largest error {most:.2g}")
        for name, noun in (("nans", "NaN"), ("infinities", "infinite")):
            if count := sum(getattr(each.error, name) for each in self.outputs):
                parts.append(f"{count:,} {noun}")
        if self.line_words:
            parts.append(self.line_words)
        return ", ".join(parts)

    @property
    def line_words(self) -> str:
        """The departure; for a variant that is wrong or less accurate, the reason if there is none; "" for others."""
        if isinstance(self.departure, Departure):
            return self.departure.words
        return f"no line: {self.departure.reason}" if self.verdict in ("wrong", "less accurate") else ""

    def __repr__(self) -> str:
        return f"<VariantAccuracy {self.name}: {self.words}>"


@dataclasses.dataclass(frozen=True, slots=True)
class AccuracyRow:
    """One row of the table: an output of a variant, or a variant without errors."""

    variant: VariantAccuracy
    output: OutputAccuracy | Unavailable


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Accuracy(Tabular):
    """The errors of a program's variants against a reference with 64-bit values. The first variant is the baseline.

    Attributes:
      program: name of the program.
      variants: the variants.
      narrow: operations that the reference computes at their own width.
      notes: remarks on the inputs and the reference.
    """

    program: str
    variants: tuple[VariantAccuracy, ...]
    narrow: tuple[NotWidened, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.variants)

    def __iter__(self) -> Iterator[VariantAccuracy]:
        return iter(self.variants)

    def __getitem__(self, key: str | int) -> VariantAccuracy:
        """Returns a variant by position or name.

        Raises:
          ParameterError: there is none. The message lists all.
        """
        named = [each for each in self.variants if each.name == key] if isinstance(key, str) else []
        matches = named or (list(self.variants[key : key + 1 or None]) if isinstance(key, int) else [])
        if not matches:
            names = format_list([each.name for each in self.variants])
            raise ParameterError(f"No variant {short(key)} was measured. Variants: {names}.")
        return matches[0]

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes, and one line for the operations that are not widened."""
        if not self.narrow:
            return self.notes
        listed = format_list(
            [f"{each.primitive} ({each.line})" if each.line else each.primitive for each in self.narrow]
        )
        return (*self.notes, f"not widened in the reference: {listed}")

    def rows(self) -> list[AccuracyRow]:
        """Returns the rows of the table."""
        return [
            AccuracyRow(variant, output)
            for variant in self.variants
            for output in ([variant.outputs] if isinstance(variant.outputs, Unavailable) else variant.outputs)
        ]

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per variant and output: verdict, errors, unexpected values, and the line of the departure."""
        return ACCURACY_COLUMNS.data_frame(self.rows())

    def __repr__(self) -> str:
        lines = "".join(f"\n  {each.name}: {each.words}" for each in self.variants)
        remarks = "".join(f"\n  note: {each}" for each in self.remarks)
        text = f"<Accuracy of {self.program} against 64-bit values{lines}{remarks}>"
        return with_hint(text, f".table(), [{len(self) - 1}].departure")


_SHOWN: tuple[View, ...] = ("data_frame", "pane", "command_line", "check", "page")


def _of_output(row: AccuracyRow, name: str) -> Any:
    return row.output if isinstance(row.output, Unavailable) else getattr(row.output, name)


def _of_error(row: AccuracyRow, name: str) -> Any:
    return row.output if isinstance(row.output, Unavailable) else getattr(row.output.error, name)


def _number(name: str, title: str, tooltip: str, form: str) -> TableColumn[AccuracyRow]:
    """Describes a column with a number of the error."""

    def text(row: AccuracyRow) -> str:
        value = _of_error(row, name)
        return "unknown" if isinstance(value, Unavailable) else format(value, form)

    kind: Kind = "int" if form == ",d" else "float"
    return TableColumn(name, kind, lambda row: _of_error(row, name), title, tooltip, views=_SHOWN, text=text)


def _departure(row: AccuracyRow) -> Departure | None:
    return row.variant.departure if isinstance(row.variant.departure, Departure) else None


def _frame(row: AccuracyRow) -> Frame | None:
    found = _departure(row)
    return None if found is None else own_frame(found.frames)


ACCURACY_COLUMNS: TableDescription[AccuracyRow] = TableDescription(
    TableColumn("variant", "text", lambda row: row.variant.name, "Variant", views=_SHOWN),
    TableColumn("target", "text", lambda row: row.variant.target, "Target"),
    TableColumn(
        "output", "text", lambda row: _of_error(row, "path"), "Output", views=_SHOWN,
        text=lambda row: "" if isinstance(row.output, Unavailable) else f"result{row.output.error.path}",
    ),
    TableColumn("dtype", "text", lambda row: _of_error(row, "dtype"), "Type", views=_SHOWN),
    TableColumn(
        "verdict", "text", lambda row: _of_output(row, "verdict"), "Verdict",
        "wrong: outside the tolerance; otherwise relative to the baseline's error", views=_SHOWN,
    ),
    _number("max_error", "Largest error", "relative to the element, or to the scale of the output if that is larger", ".2g"),
    _number("median_error", "Median error", "of all elements", ".2g"),
    _number("rms_error", "RMS error", "root mean square of the errors, by which variants are compared", ".2g"),
    _number("max_ulps", "Ulps", "largest error in units in the last place", ".3g"),
    TableColumn(
        "ratio", "float", lambda row: _of_output(row, "ratio"), "Of baseline", "RMS error divided by the baseline's",
        views=_SHOWN,
        text=lambda row: "unknown" if isinstance(r := _of_output(row, "ratio"), Unavailable) else f"{r:.3g}x",
    ),
    _number("nans", "NaN", "NaN whose reference is something else", ",d"),
    _number("infinities", "Infinite", "infinite values whose reference is something else", ",d"),
    TableColumn("finite", "int", lambda row: _of_error(row, "finite")),
    TableColumn("outside", "int", lambda row: _of_error(row, "outside")),
    TableColumn("count", "int", lambda row: _of_error(row, "count")),
    TableColumn("departure", "text", lambda row: row.variant.line_words or None),
    TableColumn("source_file", "text", lambda row: None if (f := _frame(row)) is None else f.file),
    TableColumn("source_line", "int", lambda row: None if (f := _frame(row)) is None else f.line),
)  # fmt: skip
"""The columns of `Accuracy.table()` and of the other views."""
