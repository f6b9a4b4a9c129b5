"""Checks of findings: kinds, limits in three units, and programs in which nothing can be looked for."""

from __future__ import annotations

from typing import Any

import pytest

import inspector
from inspector.errors import ExpectationError, ParameterError
from inspector.expectations.expectation import expect
from inspector.expectations.finding_checks import LargestGain
from inspector.stages.compiled import Compiled
from tests.findings.test_undonated import PARAMS, X, sgd


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return inspector.lower(sgd, PARAMS, X).compile(target="cpu")


def test_the_message_has_the_sentence_and_the_remedy(compiled: Compiled) -> None:
    (finding,) = compiled.findings()
    with pytest.raises(ExpectationError) as failure:
        expect(compiled).no_findings("undonated", above="128 KiB")
    for text in (finding.title, finding.gain, finding.remedy, "none with a gain above 128 KiB, got 1 finding"):
        assert text in str(failure.value)


@pytest.mark.parametrize(("above", "is_met"), [(None, False), ("1 MiB", True), ("5 %", False), ("90 %", True)])
def test_limits(compiled: Compiled, above: str | None, is_met: bool) -> None:
    with expect(compiled) as step:
        step.no_findings(above=above)
        assert step.findings[-1].is_met is is_met
        step.findings.clear()


@pytest.mark.parametrize("above", ["", "a lot", "12", 12, "x %"])
def test_limits_have_units(above: Any) -> None:
    with pytest.raises(ParameterError, match=r"'1 MiB', '1 ms', '2 %'"):
        LargestGain.of(above)


def test_seconds_are_compared_with_the_estimated_time(compiled: Compiled) -> None:
    (finding,) = compiled.findings()
    slow = type(finding).__mro__[1]("k", "t", (), (), "", 2e-3, 0, 0.5, 0.0, "")
    assert [LargestGain.of(above).is_exceeded(slow) for above in ("1 ms", "3 ms")] == [True, False]


def test_what_cannot_be_looked_for_fails(compiled: Compiled, tmp_path: Any) -> None:
    (tmp_path / "step.hlo").write_text(compiled.hlo)
    opened = inspector.load(tmp_path / "step.hlo").compiled
    with pytest.raises(ExpectationError, match="not looked for what needs the HLO before optimization"):
        expect(opened).no_findings()
