"""Precision and recall on the recorded programs, and the table of them in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.findings.precision import scores, table

DOCS = Path(__file__).parents[2] / "docs" / "findings.md"


@pytest.mark.slow
def test_precision_and_recall() -> None:
    found = scores()
    for kind, score in found.items():
        assert score.found >= 0.85 * score.planted, (kind, score)
        assert score.found >= 0.95 * (score.found + score.false), (kind, score)
        assert score.early >= 0.9 * score.shown, (kind, score)
    assert table(found) in DOCS.read_text(), "python -m tests.findings.precision prints the table"
