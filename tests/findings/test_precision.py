"""Precision and recall on the recorded programs, and the table of them in the documentation."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from inspector.analysis.findings.registry import KINDS
from tests.findings.corpus import record
from tests.findings.precision import (
    EXPECTED,
    FALSE_ALARMS,
    MISSED,
    departures,
    examine,
    examples,
    scores,
    table,
    total,
)

DOCS = Path(__file__).parents[2] / "docs" / "findings.md"
EACH = 24  # of the programs for the quick test


def test_a_sample_of_the_programs() -> None:
    sample = sorted(examples(), key=lambda each: (each.name, each.target))[::EACH]
    missed, false = departures([examine(each) for each in sample])
    assert missed <= MISSED
    assert false <= FALSE_ALARMS


def test_each_detector_has_programs_with_and_without_its_mistake() -> None:
    having = collections.Counter(case.planted for case in record.cases() if case.on)
    having.update({kind: len(programs) for kind, programs in EXPECTED.items()})
    similar = collections.Counter(
        kind for kind, _ in {(kind, each.name) for each in examples() for kind in each.resembles}
    )
    for kind in KINDS:
        assert having[kind] >= 4, kind
        assert similar[kind] >= 4, kind


@pytest.mark.slow
def test_precision_and_recall() -> None:
    examined = [examine(each) for each in examples()]
    missed, false = departures(examined)
    assert missed == MISSED
    assert false == FALSE_ALARMS
    found = scores(examined)
    for kind, score in found.items():
        assert score.recall >= 0.8, (kind, score)
        assert score.precision >= 0.8, (kind, score)
    assert total(found).recall >= 0.95
    assert total(found).precision >= 0.95
    assert total(found).early >= 0.9 * total(found).shown
    assert table(found) in DOCS.read_text(), "python -m tests.findings.precision prints the table"
