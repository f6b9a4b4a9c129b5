"""The saved state of an Explorer: which replies, whose code, and no user content that a page would misread as its own."""

from __future__ import annotations

import gzip
import re
import weakref
from pathlib import Path

import pytest

from inspector.compilation.engine import READING_CACHE
from inspector.errors import ClosedError, CompilationError, ParameterError
from inspector.widgets.explorer import Explorer
from inspector.widgets.saving import code_holder, recorder
from inspector.widgets.saving.app_code import code, code_name
from inspector.widgets.saving.report import report
from tests.widgets.fakes import FakeWork, Mailbox, ask, finished
from tests.widgets.transcripts import tables, types


def page_of(explorer: Explorer, tmp_path: Path) -> str:
    path = tmp_path / "page.html"
    explorer.save_html(path)
    return path.read_text()


def test_a_page_has_the_sent_messages_and_possible_replies(tmp_path: Path) -> None:
    page = page_of(finished(), tmp_path)
    (table,) = tables(page)
    assert {"session", "variant", "document", "stats", "collectives", "graph"} <= types(table["kept"])
    assert not types(table["kept"]) & {"controls", "flags", "notice"}
    asked = [entry["request"] for entry in table["replies"]]
    assert {request["type"] for request in asked} >= {"instructions", "roofline"}
    assert {request["by"] for request in asked if request["type"] == "roofline"} == {
        "kernel", "scope", "line", "phase", "opcode", "roof",
    }  # fmt: skip
    orders = {(r["column"], r["is_descending"], r["has_fused"]) for r in asked if r["type"] == "instructions"}
    assert len(orders) == 8 * 2 * 2 + 2  # and the first order
    assert all("id" not in request for request in asked)


def test_a_page_asks_no_network_and_runs_only_the_app(tmp_path: Path) -> None:
    page = page_of(finished(), tmp_path)
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1].replace("style-src 'unsafe-inline'", "")
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?https?:""", page)


def test_replies_to_a_page_do_not_reach_browsers() -> None:
    work = FakeWork()
    explorer = work.explorer()
    work.finish_all()
    explorer.wait()
    mailbox = Mailbox(explorer)
    explorer._recorder.page()
    assert all(message.get("id", 0) >= 0 for message in mailbox.all)


def test_a_removed_variant_is_not_saved() -> None:
    work = FakeWork()
    explorer = work.explorer()
    variant = explorer.add({"xla_cpu_enable_fast_math": True})
    work.finish_all()
    explorer.wait()
    kept = explorer._recorder
    kept._ask_new()
    explorer.remove(variant)
    (table,) = tables(kept._form()["text/html"])
    assert table["replies"]
    assert {entry["message"].get("variant") for entry in table["replies"]} == {0}


@pytest.mark.parametrize("is_large", [True, False])
def test_texts_of_a_large_program_are_written_after_cached_results(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_QUICK_BYTES", 0 if is_large else 1 << 20)
    monkeypatch.setattr(Explorer, "_refresh_stored", lambda _: None)  # what follows compiles comes beside, at any time
    work = FakeWork()
    work.stage = READING_CACHE
    explorer = work.explorer()
    # An Explorer of an earlier test that is collected now would otherwise hand the code, and a refresh, to this one.
    monkeypatch.setattr(code_holder, "_holder", weakref.ref(explorer._recorder))
    box, written = Mailbox(explorer), list[list[str]]()
    monkeypatch.setattr(explorer._recorder._stored, "display", lambda *_: None)
    monkeypatch.setattr(explorer._recorder, "refresh", lambda: written.append([m["pane"] for m in box.of("document")]))
    explorer._recorder.display({})
    assert written == ([] if is_large else [[]])
    work.finish_all()
    explorer.wait()
    explorer._threads.drain()
    assert (["optimized", "stablehlo", "hlo"] in written) == is_large


def test_names_of_the_user_are_text(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    work = FakeWork()
    explorer = work.explorer(name=hostile)
    work.finish_all()
    page = page_of(explorer, tmp_path)
    assert hostile not in page
    (table,) = tables(page)
    assert table["kept"][0]["message"]["name"] == hostile


def test_one_output_of_a_notebook_has_the_code_and_another_takes_it_over() -> None:
    first, second = finished(), finished()
    code_holder._holder = None
    forms = [explorer._recorder._form()["text/html"] for explorer in (first, second)]
    assert [form.count("x-inspector-code'") for form in forms] == [1, 0]
    assert len(forms[1]) < 150_000
    first.close()
    assert second._recorder._form()["text/html"].count("x-inspector-code'") == 1


def test_a_page_gets_the_code_that_the_widget_runs() -> None:
    assert b"createElement" in gzip.decompress(code())
    explorer, sent = FakeWork().explorer(), []
    app = explorer._app
    app.send = lambda content, buffers=None: sent.append((content, buffers))
    ask(explorer, {"type": "app_code"})
    assert sent == [({"type": "app_code", "to": "loader"}, [code()])]
    assert code_name() in app._esm
    assert len(app._esm) < 2_000, "notebooks keep it with each widget"


def test_a_closed_explorer_cannot_be_written(tmp_path: Path) -> None:
    explorer = finished()
    explorer.close()
    with pytest.raises(ClosedError):
        explorer.save_html(tmp_path / "x.html")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="folder to write into does not exist"):
        finished().save_html(tmp_path / "none" / "x.html")


def test_a_report_begins_with_a_table_of_all_programs(tmp_path: Path) -> None:
    one, two = FakeWork(), FakeWork()
    explorers = one.explorer(name="jit_<one>"), two.explorer(name="jit_two")
    explorers[1].add({"xla_cpu_enable_fast_math": True})
    one.finish_all()
    two.finish(0)
    two.jobs[1].fail(CompilationError("no"))
    report(tmp_path / "x.html", *explorers)
    page = (tmp_path / "x.html").read_text()
    index = page[page.index("<nav") : page.index("</nav>")]
    assert index.count("<tr>") == 4
    assert "<a href='#program-0'>jit_&lt;one&gt;</a>" in index
    heads = ("program", "variant", "target", "peak memory", "temporaries", "floating-point operations")
    assert "".join(f"<th>{head}</th>" for head in heads) in index
    assert re.search("=true: failed</td><td>[^<]*</td><td></td>", index)
    assert index.count("<td>500 ms</td>") == 2
    assert page.count("<section id='program-") == 2
    assert page.count("x-inspector-code'") == 1, "the code is there once"
    assert len(tables(page)) == 2


def test_a_report_is_of_explorers(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="got None"):
        report(tmp_path / "x.html")
    with pytest.raises(ParameterError, match="got 'x'"):
        report(tmp_path / "x.html", "x")  # type: ignore[arg-type]
