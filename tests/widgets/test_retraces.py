"""The pane of retraces: who watches hears of them, in rows that a loop does not multiply."""

from __future__ import annotations

import gc
import runpy
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import inspector
from inspector.errors import ClosedError, Unavailable
from inspector.hlo.source import place_of
from inspector.stages.retraces import RetraceWatch
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes import retraces as pane
from tests.widgets.fakes import FakeWork, Mailbox, lowered

ONE = np.ones(3, np.float32)


@pytest.fixture
def explorer() -> Iterator[Explorer]:
    explorer = explorer_of(RetraceWatch())
    yield explorer
    explorer.close()


def explorer_of(watch: RetraceWatch | None) -> Explorer:
    fakes = FakeWork()
    program: Any = lowered()
    fakes.retraces = watch
    made = Explorer(program, fakes)
    fakes.finish(0)
    return made.wait(10)


def ask(mailbox: Mailbox, on: bool) -> None:
    mailbox.send({"type": "watch_retraces", "on": on})


def told(mailbox: Mailbox, rows: int) -> dict[str, Any]:
    """The message with so many rows, once it is there."""
    for _ in range(200):
        found = mailbox.last("retraces")
        if len(found["rows"]) == rows and found["watching"]:
            return found
        time.sleep(0.02)
    raise TimeoutError(f"{rows} rows never came; got {mailbox.last('retraces')}")


def test_retraces_are_sent_during_the_watch(explorer: Explorer) -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return x * 2

    mailbox = Mailbox(explorer)
    assert (mailbox.last("retraces")["watching"], mailbox.last("retraces")["was_watched"]) == (False, False)
    step(ONE)
    step(ONE[:1])  # nobody watches
    ask(mailbox, on=True)
    step(ONE)
    step(ONE[:2])
    message = told(mailbox, 1)
    (row,) = message["rows"]
    assert (row["function"], row["is_explored"], row["count"]) == ("step", True, 1)
    names = [head["name"] for head in message["columns"]]
    assert names == ["function", "called_at", "count", "event", "what", "where", "now", "before"]
    line = row["called_at"]["line"]
    texts = ["step", f"{__file__}:{line}", "1", "trace", "shape", "x", "f32[2]", "f32[1]"]
    assert [cell["text"] or cell["value"] or "" for cell in row["differences"][0]] == texts
    assert row["called_at"]["file"] == row["defined_at"]["file"] == __file__
    assert row["call"] == "step(ONE[:2])"
    assert "f32[2]" in row["explanation"]
    ask(mailbox, on=False)
    step(ONE.astype(np.int32))
    assert mailbox.last("retraces")["watching"] is False
    assert not jax.config.jax_explain_cache_misses
    found = explorer.retraces
    assert not isinstance(found, Unavailable)
    assert len(found) == 1
    table = found.table()
    assert [*table.columns] == [
        "function", "called_at", "cause", "what", "where", "now", "before", "defined_at", "event",
    ]  # fmt: skip
    assert [*table.loc[0, "cause":"before"]] == ["arguments", "shape", "x", "f32[2]", "f32[1]"]


def test_retraces_repeated_by_a_loop_are_one_row(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pane, "_MOST", 2)
    mailbox = Mailbox(explorer)
    explorer.watch_retraces()
    for _ in range(4):
        jax.jit(lambda x: x + 1)(ONE)
    jitted = jax.jit(lambda y: y - 1)
    jitted(ONE)
    for size in (1, 2):
        jitted(ONE[:size])
    explorer.watch_retraces()  # again: nothing is heard twice, and all is told
    message = mailbox.last("retraces")
    assert (message["left_out"], message["first_calls"]) == (1, 2)
    now = [head["name"] for head in message["columns"]].index("now")
    latest = [row["differences"][0][now]["value"] for row in message["rows"]]
    assert latest == ["f32[2]", "f32[1]"]
    monkeypatch.setattr(pane, "_MOST", 10)
    explorer.watch_retraces()
    repeated = mailbox.last("retraces")["rows"][-1]
    assert (repeated["count"], repeated["is_explored"]) == (3, False)
    texts = [cell["text"] or cell["value"] or "" for cell in repeated["differences"][0]]
    assert texts[2:6] == ["3", "trace", "defined again", ""]
    assert "Define and jit it once" in texts[now]
    assert texts[-1] == ""


def test_the_line_is_the_users_where_a_library_calls(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "calling.py"
    library.parent.mkdir()
    library.write_text("def calling(jitted):\n    def call(x):\n        return jitted(x)\n    return call\n")
    step = runpy.run_path(str(library))["calling"](jax.jit(lambda x: x * 2))
    with inspector.watch_retraces() as found:
        step(ONE)
        step(ONE[:2])
    assert "(test_the_line_is_the_users_where_a_library_calls)" in found[-1].called_at
    assert found[-1].called_at.startswith(f"{__file__}:")


def test_a_deleted_explorer_stops_watching() -> None:
    explorer = explorer_of(RetraceWatch())
    explorer.watch_retraces()
    gone = weakref.ref(explorer)
    del explorer
    gc.collect()
    assert gone() is None
    assert not jax.config.jax_explain_cache_misses


def test_a_closed_one_and_one_without_its_function_do_not_watch() -> None:
    explorer = explorer_of(None)
    mailbox = Mailbox(explorer)
    explorer.watch_retraces()
    assert "loaded from a file" in mailbox.last("retraces")["note"]
    assert not mailbox.last("retraces")["watching"]
    assert isinstance(explorer.retraces, Unavailable)
    explorer.close()
    with pytest.raises(ClosedError):
        explorer.watch_retraces()


def test_a_page_has_them(explorer: Explorer, tmp_path: Any) -> None:
    jitted = jax.jit(lambda tree: tree["<a>"] + 1)
    explorer.watch_retraces()
    jitted({"<a>": ONE})
    jitted({"<a>": ONE[:2]})
    explorer.watch_retraces(False)
    explorer.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    table = page.partition("<summary>Retraces</summary>")[2].partition("</details>")[0]
    assert "<th>difference</th><th>argument</th><th>now</th><th>before</th>" in table
    assert "<td>shape</td><td>tree[&#x27;&lt;a&gt;&#x27;]</td><td>f32[2]</td><td>f32[3]</td>" in table
    assert "<a>" not in table


def test_places_are_read_from_jaxs_words() -> None:
    assert place_of("/tmp/a b.py:3:4 (<module>)") == ("/tmp/a b.py", 3)
    assert place_of("C:\\f.py:12") == ("C:\\f.py", 12)
    assert place_of("<stdin>:2") == ("<stdin>", 2)
    assert place_of("") is None


def test_findings_that_were_shown_are_sent_again_when_calls_add_one() -> None:
    @jax.jit
    def step(x: Any) -> Any:
        return x * 2

    explorer = inspector.explore(step, ONE, target="cpu").wait(60)
    mailbox = Mailbox(explorer)
    try:
        mailbox.send({"type": "findings", "variant": 0})
        assert not any(row["kind"] == "retraced" for row in mailbox.wait_for("findings")["rows"])
        ask(mailbox, on=True)
        for n in range(4, 10):
            step(np.ones(n, np.float32))
        for _ in range(500):
            kinds = [row["kind"] for row in mailbox.last("findings")["rows"]]
            if "retraced" in kinds:
                break
            time.sleep(0.02)
        assert kinds.count("retraced") == 1
        assert 0 < mailbox.last("findings")["rows"][kinds.index("retraced")]["share"] <= 1  # of the traces and compiles
    finally:
        explorer.close()
