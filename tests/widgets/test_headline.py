"""The headline's messages: the facts of `Compiled.headline`, with roofs that are stored or measured once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.widgets import messages
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes import roofline
from inspector.widgets.panes.roofline_parts.headline import HeadlineMessage
from tests.widgets.fakes import Mailbox, finished
from tests.widgets.test_run import until

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")


@pytest.fixture
def explorer() -> Iterator[Explorer]:
    made = finished()
    yield made
    made.close()


def ask(explorer: Explorer, **changes: Any) -> dict[str, Any]:
    box = Mailbox(explorer)
    before = len(box.of("headline"))
    box.send({"type": "headline", "variant": 0, "is_measured": False, "profile": 0, **changes})
    until(lambda: len(box.of("headline")) > before)
    reply = box.last("headline")
    assert messages.problem(reply, HeadlineMessage) is None
    return reply


def subjects(reply: dict[str, Any]) -> list[str]:
    return [fact["subject"] for fact in reply["facts"]]


def test_the_facts_are_those_in_python(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "stored_peak", lambda: ROOFS)
    reply = ask(explorer)
    assert reply["error"] is None
    assert not reply["can_measure"]
    assert [fact["text"] for fact in reply["facts"]] == [
        part.text for part in explorer.baseline.compiled.headline(ROOFS)
    ]
    assert subjects(reply)[:2] == ["memory", "time"]


def test_without_roofs_there_is_no_time_and_they_can_be_measured_once(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Peak] = []
    monkeypatch.setattr(roofline, "measured_peak", lambda: asked.append(ROOFS) or ROOFS)
    assert not ask(explorer)["can_measure"]  # nothing could be stored
    monkeypatch.setattr(roofline, "can_store_peak", lambda: True)
    reply = ask(explorer)
    assert reply["can_measure"]
    assert "time" not in subjects(reply)
    assert asked == []
    reply = ask(explorer, is_measured=True)
    assert not reply["can_measure"]
    assert "time" in subjects(reply)
    assert "time" in subjects(ask(explorer))
    assert asked == [ROOFS]


def test_an_error_is_reported(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(roofline, "headline_of", fail)
    assert "no memory" in ask(explorer)["error"]["message"]
