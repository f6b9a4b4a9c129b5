"""Programs of the libraries that people use: explored, compiled to the same HLO, run to the same values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.libraries import suite
from tests.libraries.program import Program, outcome

# What libraries warn of is theirs; what comes from inspector stays an error.
pytestmark = [
    pytest.mark.libraries,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:::inspector"),
]


def cases() -> list[object]:
    found: list[object] = []
    for name in suite.names():
        library = suite.load(name)
        if library.reason:
            skip = pytest.mark.skip(reason=f"{name} does not import: {library.reason}")
            found.append(pytest.param(None, library.file, marks=skip, id=name))
        found += [pytest.param(p, library.file, id=f"{name}: {p.name}") for p in library.programs]
    return found


@pytest.mark.parametrize(("program", "file"), cases())
def test_explored_compiled_and_run_as_without_inspector(
    program: Program, file: str, record_property: Callable[[str, object], None]
) -> None:
    found = outcome(program, file)
    record_property("explored", found.explored)
    record_property("HLO equal", found.hlo_equal)
    record_property("run equal", found.run_equal)
    assert found.failures == []
