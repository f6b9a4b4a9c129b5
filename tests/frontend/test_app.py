"""The mailbox between Python and browsers, without a browser."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from inspector.widgets import messages
from inspector.widgets.app import App
from inspector.widgets.documents import TextDocument
from inspector.widgets.panes.instructions import InstructionTable
from inspector.widgets.panes.stats import Stats
from inspector.widgets.panes.texts.optimized import DiffMessage

Sent = list[tuple[dict[str, Any], list[bytes]]]


@pytest.fixture
def make() -> Callable[..., tuple[App, Sent]]:
    def make_app(**options: Any) -> tuple[App, Sent]:
        app, sent = App("train_step", **options), []
        app.send = lambda content, buffers=None: sent.append((content, list(buffers or [])))  # type: ignore[method-assign]
        return app, sent

    return make_app


def ready(app: App, browser: str = "browser") -> None:
    app._receive(app, {"type": "ready", "browser": browser}, [])


def variant(number: int, state: str = "done", elapsed_s: float = 1.0) -> Any:
    return messages.VariantMessage(
        type="variant", variant=number, label=f"v{number}", target="cpu", platform="cpu", options={},
        state=state,  # type: ignore[typeddict-item]
        stage="", elapsed_s=elapsed_s, error=None, origin="", cached="", timing="", warnings=[], pinned=False, no_run="", supposed="", profile=0,
    )  # fmt: skip


def text(pane: messages.TextPane = "hlo", number: int | None = None, body: str = "a\nb") -> TextDocument:
    count = body.count("\n") + 1
    return TextDocument(pane, number, "hlo", body, [0] * count, ["f.py"], [[("op", [(0, 3)])]])


def types(sent: Sent) -> list[str]:
    return [content["type"] for content, _ in sent]


def test_nothing_is_sent_before_a_browser_is_ready(make: Any) -> None:
    app, sent = make()
    app.publish(variant(0))
    app.publish_document(text())
    assert sent == []
    ready(app)
    assert types(sent) == ["session", "variant", "document"]
    assert sent[0][0]["version"] == messages.VERSION
    app.publish(variant(1))
    assert types(sent)[-1] == "variant"


def test_every_new_browser_gets_the_latest_state_addressed_to_it(make: Any) -> None:
    app, sent = make()
    ready(app, "first")
    app.publish(variant(0, "running"))
    app.publish_document(text(body="old"))
    app.publish_document(text(body="new"))
    app.publish(variant(0, "done"))
    del sent[:]
    ready(app, "second")
    assert {content["to"] for content, _ in sent} == {"second"}
    assert types(sent) == ["session", "variant", "document"]
    assert sent[1][0]["state"] == "done"
    assert gzip.decompress(sent[2][1][0]) == b"new"


def test_only_the_latest_message_of_a_running_variant_is_stored(make: Any) -> None:
    app, sent = make()
    for stage in ("queued", "compiling", "reading"):
        app.publish({**variant(0, "running"), "stage": stage})
    ready(app)
    assert [content["stage"] for content, _ in sent if content["type"] == "variant"] == ["reading"]


def test_live_messages_are_for_every_browser(make: Any) -> None:
    app, sent = make()
    ready(app)
    app.publish(variant(0))
    assert "to" not in sent[-1][0]


def test_unavailable_and_document_take_each_others_place(make: Any) -> None:
    app, sent = make()
    app.publish(messages.UnavailableMessage(type="unavailable", pane="hlo", variant=None, reason="no", remedy=""))
    app.publish_document(text())
    ready(app)
    assert types(sent) == ["session", "document"]


def test_a_removed_variant_is_forgotten_with_all_that_is_its_own(make: Any) -> None:
    app, sent = make()
    ready(app)
    for number in (0, 1):
        app.publish(variant(number))
        app.publish_document(text("optimized", number))
        app.publish(Stats(type="stats", variant=number, rows=[]))
    app.publish_document(text("hlo", None))
    app.publish(
        DiffMessage(
            type="diff", baseline=0, variant=1, hunks=[(0, 1, 0, 1)], following=[], summary="", changes=[], count=0
        )
    )
    app.publish(messages.VariantRemoved(type="variant_removed", variant=1))
    assert types(sent)[-1] == "variant_removed"
    del sent[:]
    ready(app)
    assert types(sent) == ["session", "variant", "document", "stats", "document"]
    assert {content.get("variant") for content, _ in sent} == {None, 0}


def test_a_run_under_way_is_replayed_with_the_time_that_has_passed(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("inspector.widgets.app.time.monotonic", lambda: now)
    app, sent = make()
    app.publish(variant(0, "running", elapsed_s=2.0))
    app.publish(variant(1, "done", elapsed_s=2.0))
    now = 105.0
    ready(app)
    assert [content["elapsed_s"] for content, _ in sent[1:]] == [7.0, 2.0]


def test_buffers_are_text_origins_and_tables(make: Any) -> None:
    app, sent = make()
    ready(app)
    document = TextDocument(
        "optimized", 0, "hlo", "ENTRY\n  é = add()\n}", np.array([-1, 1, -1]), ["a.py", "lib/site-packages/b.py"],
        [[("x", [])], [("jit(f)/add", [(1, 7), (0, 2)])]], [None, 10, 11], [False, True, False], "title",
    )  # fmt: skip
    app.publish_document(document)
    content, buffers = sent[-1]
    body, origins, table, lines, defining = (gzip.decompress(b) for b in buffers)
    assert content == {
        "type": "document", "pane": "optimized", "variant": 0, "language": "hlo", "title": "title", "line_count": 3,
    }  # fmt: skip
    assert body.decode() == document.text
    assert np.frombuffer(origins, "<i4").tolist() == [-1, 1, -1]
    assert json.loads(table) == {
        "files": ["a.py", "lib/site-packages/b.py"],
        "libraries": [False, True],
        "origins": [[["x", []]], [["jit(f)/add", [[1, 7], [0, 2]]]]],
        "phases": [],
    }
    assert json.loads(lines) == {"first_line": 0, "labels": [None, 10, 11]}
    assert defining == bytes([0, 1, 0])
    assert messages.problem(content, messages.Document) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"line_origins": [0]}, "line_origins of the hlo document has 1 entries; the text has 2 lines"),
        ({"labels": [1, 2, 3]}, "labels of the hlo document has 3 entries"),
        ({"defining": [True]}, "defining of the hlo document has 1 entries"),
        ({"line_origins": [0, 1]}, "runs from 0 to 1; expected -1 to 0, an index into origins"),
    ],
)
def test_tables_that_do_not_fit_the_text_are_refused(make: Any, changes: dict[str, Any], said: str) -> None:
    arguments = {"line_origins": [0, 0], "origins": [[("op", [])]], **changes}
    app, _ = make()
    with pytest.raises(ValueError, match=said):
        app.publish_document(TextDocument("hlo", None, "hlo", "a\nb", **arguments))


def test_an_invalid_message_is_refused_when_it_is_made(make: Any) -> None:
    app, _ = make()
    with pytest.raises(ValueError, match=r"missing .*rows"):
        app.publish({"type": "stats", "variant": 0})
    with pytest.raises(ValueError, match="publish_document"):
        app.publish(text().message())


def test_requests_reach_the_handler_and_its_errors_the_user(make: Any) -> None:
    asked: list[Any] = []

    def handle(message: Any) -> None:
        asked.append(message)
        if message["type"] == "remove":
            raise ValueError("Variant 0 is the baseline.")

    app, sent = make(on_request=handle)
    ready(app)
    app._receive(app, {"type": "run", "variant": 0, "repeat": 5}, [])
    assert asked == [{"type": "run", "variant": 0, "repeat": 5}]
    app._receive(app, {"type": "remove", "variant": 0}, [])
    assert sent[-1][0] == {"type": "notice", "level": "error", "message": "ValueError: Variant 0 is the baseline."}
    del asked[:]
    app._receive(app, {"type": "run", "variant": "first"}, [])
    assert asked == []
    assert "an invalid message" in sent[-1][0]["message"]


@pytest.mark.parametrize(
    "content",
    [
        {"type": ["run"]},
        {"type": {}},
        {"type": None},
        {},
        [],
        None,
        7,
        "x" * 5_000_000,
        {"type": "x" * 5_000_000},
        {"type": "run", "variant": "x" * 5_000_000, "repeat": 1},
        {"type": "run", "variant": 0, "repeat": 1, "x" * 5_000_000: 1},
        {"type": "tune", "id": 0, "variant": 0, "kernel": 0, "values": {"a": ["b"]}, "interpret": False},
    ],
)
def test_an_invalid_message_gets_a_short_error(make: Any, content: object) -> None:
    app, sent = make(on_request=lambda message: pytest.fail("it is no message"))
    app._receive(app, content, [])
    ready(app)
    app._receive(app, content, [])
    assert "an invalid message" in sent[-1][0]["message"]
    assert len(sent[-1][0]["message"]) < 2000


def test_a_long_error_is_cut_and_keeps_its_ends(make: Any) -> None:
    def fail(message: object) -> None:
        raise ValueError("begins" + "x" * 5_000_000 + "ends")

    app, sent = make(on_request=fail)
    ready(app)
    app._receive(app, {"type": "run", "variant": 0, "repeat": 1}, [])
    said = sent[-1][0]["message"]
    assert said.startswith("ValueError: begins")
    assert said.endswith("ends")
    assert "characters left out" in said
    assert len(said) < 10_000


def test_notices_and_replies_are_not_repeated_to_a_new_browser(make: Any) -> None:
    app, sent = make()
    ready(app)
    app.publish(messages.Notice(type="notice", level="info", message="hello"))
    app.publish(
        InstructionTable(
            type="instruction_table", id=7, variant=0, column="order", columns=[], rows=[], total=0, error=None
        )
    )
    assert types(sent)[-2:] == ["notice", "instruction_table"]
    del sent[:]
    ready(app)
    assert types(sent) == ["session"]


def test_threads_may_publish_while_browsers_come(make: Any) -> None:
    app, sent = make()
    numbers = range(40)

    def publish(number: int) -> None:
        app.publish(variant(number, "running"))
        app.publish_document(text("optimized", number, f"text of {number}"))
        app.publish(variant(number, "done"))

    threads = [threading.Thread(target=publish, args=(n,)) for n in numbers]
    threads += [threading.Thread(target=ready, args=(app, f"browser {n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del sent[:]
    ready(app, "last")
    states = {c["variant"]: c["state"] for c, _ in sent if c["type"] == "variant"}
    texts = {c["variant"]: gzip.decompress(b[0]).decode() for c, b in sent if c["type"] == "document"}
    assert states == dict.fromkeys(numbers, "done")
    assert texts == {n: f"text of {n}" for n in numbers}


def test_long_texts_never_become_traits(make: Any) -> None:
    app, _ = make()
    body = "needle in a haystack\n" * 1000
    app.publish_document(text(body=body))
    assert "needle" not in repr(app.get_state())
