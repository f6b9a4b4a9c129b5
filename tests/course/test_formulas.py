"""The model's times and bytes are those of the published formulas, up to the factors that the table states."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.course.formulas import Row, rows, table


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.source}: {row.subject}")
def test_the_model_agrees_with_the_formula(row: Row) -> None:
    assert row.ours / row.theirs == pytest.approx(row.quotient, rel=1e-9)
    assert bool(row.reason) == (row.quotient != 1.0)


def test_the_page_has_the_computed_table() -> None:
    page = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
    assert table() in page, "python -m tests.course.formulas prints the table"
