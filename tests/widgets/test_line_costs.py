"""Costs of lines as sent to the browser: once for all texts, again with measured roofs and with recorded buffers."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import inspector
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.widgets import messages
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes import roofline
from inspector.widgets.panes.roofline_parts.line_costs import LineCostsMessage

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")
Told = list[tuple[dict[str, Any], dict[str, Any]]]


def program(x: Any, w: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sin(x @ w).sum()


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    import jax.numpy as jnp

    made = inspector.explore(program, jnp.ones((32, 32)), jnp.ones((32, 32))).wait(120)
    yield made
    made.close()


@pytest.fixture
def told(explorer: Explorer) -> Told:
    """The replies: messages with the columns that came with them."""
    found: Told = []

    def send(content: dict[str, Any], buffers: Any = None) -> None:
        if content["type"] == "line_costs":
            found.append((content, json.loads(gzip.decompress(buffers[0]))))

    explorer._app.send = send
    explorer._app._receive(explorer._app, {"type": "ready", "browser": "browser"}, [])
    return found


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ask(explorer: Explorer, **changes: Any) -> None:
    explorer._app._receive(
        explorer._app, {"type": "line_costs", "variant": 0, "is_measured": False, "profile": 0, **changes}, []
    )


def test_every_text_sums_to_the_total_and_gaps_are_reported(explorer: Explorer, told: Told) -> None:
    ask(explorer)
    until(lambda: bool(told))
    ((message, columns),) = told
    assert messages.problem(message, LineCostsMessage) is None
    assert message["error"] is None
    assert message["total"]["least_s"] is message["total"]["measured_s"] is None
    assert set(message["reasons"]) == {"least_s", "measured_s"}
    assert message["total"]["peak_bytes"] == 32 * 32 * 4  # the live temporaries
    assert message["can_measure"]
    assert set(columns) == {"source", "jaxpr", "stablehlo", "hlo", "optimized"}
    for text in columns.values():
        assert sum(text["flops"]) == pytest.approx(message["total"]["flops"])
        assert len({len(column) for column in text.values()}) == 1


def test_roofs_that_were_measured_give_the_time(
    explorer: Explorer, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline, "measured_peak", lambda: ROOFS)
    ask(explorer, is_measured=True)
    ask(explorer)  # what is measured once is used from then on
    timed = lambda: [(message, text) for message, text in told if message["total"]["least_s"] is not None]  # noqa: E731
    until(lambda: len(timed()) == 2)
    for message, columns in timed():
        assert message["total"]["least_s"] == pytest.approx(sum(columns["source"]["least_s"]))
        assert "least_s" not in message["reasons"]


def test_line_costs_include_recorded_buffers(explorer: Explorer, told: Told) -> None:
    ask(explorer)
    until(lambda: bool(told))
    explorer._app._receive(explorer._app, {"type": "record", "variant": 0, "product": "buffers"}, [])
    until(lambda: any(message["total"]["peak_bytes"] is not None for message, _ in told))
    message, columns = told[-1]
    assert message["total"]["peak_bytes"] == sum(columns["optimized"]["peak_bytes"])
    assert "peak_bytes" not in message["reasons"]


def test_an_error_is_reported(explorer: Explorer, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no worker")

    monkeypatch.setattr("inspector.widgets.panes.roofline.line_costs_under", fail)
    ask(explorer)
    until(lambda: bool(told) and told[-1][0]["error"] is not None)
    message, columns = told[-1]
    assert message["error"]["message"] == "no worker"
    assert message["total"] is None
    assert columns == {}
