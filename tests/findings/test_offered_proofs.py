"""The proofs that findings offer can be tried: each edit changes the program."""

from __future__ import annotations

import pytest

import inspector
from inspector.errors import Unavailable
from inspector.stages.edited_program import EditedProgram, edited_program
from tests.findings.recorded import FOLDER


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.inspector")))
def test_the_edits_of_recorded_programs_can_be_made(name: str) -> None:
    compiled = inspector.load(FOLDER / name)
    assert isinstance(compiled, inspector.Compiled)
    findings = compiled.findings()
    assert not findings.unknown
    for finding in [*findings, *findings.folded]:
        if not isinstance(finding.edits, Unavailable):
            changed = edited_program(compiled.program, finding.edits)
            assert isinstance(changed, EditedProgram), (finding.title, changed)
            assert changed.flags or changed.program != compiled.program, finding.title
