"""The detectors of findings. A line for each kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from inspector.analysis.findings.detectors.invariant_collective import invariant_collective
from inspector.analysis.findings.detectors.replicated_argument import replicated_argument
from inspector.analysis.findings.detectors.resharding import resharding
from inspector.analysis.findings.detectors.undonated import undonated
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject


@dataclasses.dataclass(frozen=True, slots=True)
class Detector:
    """A kind of finding.

    Attributes:
      kind: its name.
      finds: what it finds, for the documentation and the command line.
      find: returns its findings in a program.
    """

    kind: str
    finds: str
    find: Callable[[Subject], Iterable[Finding]]


DETECTORS: tuple[Detector, ...] = (
    Detector("undonated", "state that is returned updated, but not donated", undonated),
    Detector(
        "invariant-collective", "collectives of data that the loop around them does not change", invariant_collective
    ),
    Detector("replicated-argument", "large arguments that could be split over one more axis", replicated_argument),
    Detector("resharding", "shardings that are changed by whole copies, or changed and changed back", resharding),
)

KINDS = tuple(detector.kind for detector in DETECTORS)
