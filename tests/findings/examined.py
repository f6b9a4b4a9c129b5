"""Compiles programs for the tests of findings."""

from __future__ import annotations

from typing import Any

import inspector
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.platforms import Peak
from inspector.stages.findings import Finding, Findings


def peak(chip: str) -> Peak:
    """Returns the figures of a chip, to estimate the times of a program for CPUs with them."""
    found = peak_of(Target(chip))
    assert isinstance(found, Peak)
    return found


def found(kind: str, fun: Any, *args: Any, target: str = "cpu", roofs: Peak | None = None, **keywords: Any) -> Findings:
    """Returns the findings of one kind in a program."""
    lowered = inspector.lower(fun, *args, target=target, **keywords)
    findings = lowered.compile(target=target).findings(roofs, kinds=[kind])
    assert not findings.unknown
    return findings


def all_found(*args: Any, **keywords: Any) -> list[Finding]:
    """Returns the findings of one kind in a program, with those of a small gain."""
    findings = found(*args, **keywords)
    return [*findings, *findings.folded]
