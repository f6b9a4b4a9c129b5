"""A notebook kernel for the tests that need a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inspector.widgets.panes import instructions, roofline
from tests.widgets.kernel import Kernel, started


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    yield from started()


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose roofs were not measured, and cannot be stored: nothing is measured unless a test asks for it."""
    for pane in (instructions, roofline):
        monkeypatch.setattr(pane, "stored_peak", lambda: None)
    monkeypatch.setattr(roofline, "can_store_peak", lambda: False)
