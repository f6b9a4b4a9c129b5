"""Findings are the same on machines whose roofs were measured before."""

from __future__ import annotations

import pytest

from inspector.stages import compiled


@pytest.fixture(autouse=True)
def _without_stored_roofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "stored_peak", lambda: None)
