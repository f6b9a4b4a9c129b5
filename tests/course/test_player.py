"""`inspector.player`: what it plays, costs and computes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.course.explorables import player as module
from inspector.errors import ParameterError
from inspector.widgets.explorables.explorable import Explorable

KINDS: tuple[tuple[str, Any], ...] = (
    ("psum", 4),
    ("all_gather", [[0, 2], [1, 3]]),
    ("psum_scatter", [[3, 1], [2, 0]]),
    ("all_to_all", 4),
    ("ppermute", [[0, 1], [1, 2], [2, 3]]),
)


def content(explorable: Explorable) -> dict[str, Any]:
    (message,) = [m.message for m in explorable._app.stored_messages() if m.message["type"] == "player"]
    return dict(message)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "members"), KINDS)
def test_the_example_is_what_jax_computes(name: str, members: Any) -> None:
    played = module._named(name, members, 64)
    inputs = module._inputs(played)
    run = module._run(played)
    assert run["error"] is None
    assert run["before"] == module._texts(inputs)
    expected = module._texts(module._outputs(played, inputs))
    assert run["after"] == expected
    assert len(set(run["before"])) == len(run["before"]), "every device has other values"


def test_times_are_those_of_exchanges() -> None:
    links = inspector.Links("ring", bytes_per_s=50e9, latency_s=1e-6)
    message = content(inspector.player("psum", 8, array_bytes=4096, links=links))
    (network,) = message["networks"]
    psum = inspector.lower(lambda x: jax.lax.psum(x, "i"), jnp.zeros(1024), axis_env=[("i", 8)]).collectives()
    assert {"ring", "tree", "direct"} < {cost["algorithm"] for cost in network["costs"]}
    for cost in network["costs"]:
        done = psum.exchange(0, cost["algorithm"], links=links)
        assert cost["hops"] * 1e-6 + cost["busiest"] * 4096 / 50e9 == pytest.approx(done.seconds)
        assert cost["sent"] * 4096 == pytest.approx(done.most_sent_bytes)
        assert cost["steps"] == len(done.steps)


def test_collectives_of_programs_are_played() -> None:
    def step(x: jax.Array) -> Any:
        return jax.lax.psum(x, "i"), jax.lax.all_gather(x, "j")

    lowered = inspector.lower(step, jnp.zeros((2, 3)), axis_env=[("i", 2), ("j", 4)])
    first, second = (content(inspector.player(lowered, collective=number)) for number in (0, 1))
    assert (first["opcode"], first["groups"]) == ("all-reduce", [[0, 4], [1, 5], [2, 6], [3, 7]])
    assert (first["operand"], first["array_bytes"]) == ("f32[2,3]", 24)
    assert (second["opcode"], second["array_bytes"]) == ("all-gather", 4 * 24)
    assert content(inspector.player(lowered.collectives()[1]))["groups"] == second["groups"]


@pytest.mark.parametrize(
    ("what", "members", "words"),
    [
        ("psun", 4, "expected one of all-gather"),
        ("psum", 1, "expected 2 to 16 members"),
        ("all_to_all", 9, "expected 2 to 8 members"),
        ("psum", [[0, 1], [2]], "groups of ids of one size"),
        ("psum", "x", "expected a number, or groups"),
        (3, 4, "Got int; expected the name of a collective"),
    ],
)
def test_mistakes_are_explained(what: Any, members: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        inspector.player(what, members)


def test_a_page_without_scripts_has_the_cost_and_the_values() -> None:
    explorable = inspector.player("all-gather", 4, array_bytes=1 << 20)
    page = explorable._bundle()["text/html"]
    form = page[: page.index("application/x-inspector")]
    assert "bidirectional ring" in form
    assert "768 KiB" in form
    assert "<td>0, 10, 20, 30</td>" in form
    explorable.close()
    explorable.close()


def test_a_reply_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_run", lambda _: {
        "type": "player_run", "id": 0, "error": None, "device_kind": "fakes", "before": ["0", "10"], "after": ["1", "2"],
    })  # fmt: skip
    explorable = inspector.player("psum", 2)
    before = len(explorable._bundle()["text/html"])
    explorable._app._receive(explorable._app, {"type": "run_player", "id": 7}, [])
    explorable._thread.submit(lambda: None).result()
    assert [reply.request for reply in explorable._replies.values()] == [{"type": "run_player"}]
    assert len(explorable._bundle()["text/html"]) > before


def test_a_saved_page_has_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs: list[object] = []

    def run(played: object) -> dict[str, Any]:
        runs.append(played)
        return {
            "type": "player_run",
            "id": 0,
            "error": None,
            "device_kind": "fakes",
            "before": ["3", "4"],
            "after": ["7", "7"],
        }

    monkeypatch.setattr(module, "_run", run)
    explorable = inspector.player("psum", 2)
    assert "by the definition of the collective" in explorable._bundle()["text/html"]
    for _ in range(2):
        explorable.save_html(tmp_path / "page.html")
    assert len(runs) == 1
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<caption>Measured on fakes</caption>" in page
    assert "<tr><td>0</td><td>3</td><td>7</td></tr>" in page
    assert "Measured on fakes" in explorable._bundle()["text/html"]
    explorable.close()
    explorable.save_html(tmp_path / "page.html")
