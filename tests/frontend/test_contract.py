"""The app where nothing is JupyterLab's: all that it may ask of a page is anywidget's model, as in VS Code's outputs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from inspector.widgets.explorer import Explorer
from tests.frontend.behind import behind, until
from tests.widgets.fakes import FakeWork

pytestmark = [pytest.mark.browser, pytest.mark.slow]

URL = "http://webview.test/"
PAGE = """<!doctype html><meta charset="utf-8">
<body data-vscode-theme-kind="vscode-dark" style="--vscode-editor-background: rgb(1, 2, 3)"><div id="output"></div></body>"""

# The model by anywidget's contract: whatever else is asked of it is an error of the page.
SHOW = """async esm => {
  const callbacks = {}, traits = { arrangement: {} }, sent = [];
  const own = {
    get: name => traits[name],
    set: (name, value) => { traits[name] = value; callbacks[`change:${name}`]?.forEach(call => call()); },
    save_changes() {},
    on: (name, callback) => (callbacks[name] ??= new Set()).add(callback),
    off: (name, callback) => callback ? callbacks[name]?.delete(callback) : delete callbacks[name],
    send: content => sent.push(structuredClone(content)),
  };
  const model = new Proxy(own, {
    get: (_, name) => {
      if (name in own) return own[name];
      if (typeof name === "string" && !["then", "recorded"].includes(name)) throw new Error(`model.${name}`);
    },
    set: (_, name) => { throw new Error(`model.${String(name)} = ...`); },
  });
  window.demo = { sent, emit: (content, buffers) => callbacks["msg:custom"]?.forEach(call => call(content, buffers)) };
  const url = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const widget = await (await import(url)).default();
  await widget.initialize({ model });
  void widget.render({ model, el: document.getElementById("output") });
}"""

# How VS Code shows text/html: it puts the HTML in, and runs copies of its scripts behind it where the workspace is trusted.
SHOW_HTML = """([html, isTrusted]) => {
  const output = document.getElementById("output");
  output.innerHTML = html;
  if (isTrusted) for (const script of [...output.getElementsByTagName("script")]) {
    const copy = document.createElement("script");
    copy.text = script.innerText;
    if (script.type) copy.type = script.type;
    output.appendChild(copy).remove();
  }
}"""


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    page = profile.new_page()
    errors: list[str] = []
    foreign: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((URL, "blob:", "data:")) else foreign.append(r.url))
    page.route(f"{URL}**", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    page.goto(URL)
    yield page
    page.close()
    assert errors == []
    assert foreign == []


@pytest.fixture
def explorer() -> Iterator[Explorer]:
    work = FakeWork()
    explorer = work.explorer()
    work.finish_all()
    yield explorer.wait(60)
    explorer.close()


def test_the_frontend_needs_only_the_model_interface(page: Page, explorer: Explorer) -> None:
    exchange = behind(page, explorer)
    page.evaluate(SHOW, explorer._app._esm)
    until(page, exchange, page.locator("[data-pane=optimized] .cm-line"))
    expect(page.locator(".insp")).to_have_attribute("data-theme", "dark")
    page.locator("[data-pane=optimized] .cm-line", has_text="ROOT").last.click()
    page.get_by_role("tab", name="Instructions").click()
    until(page, exchange, page.locator("[data-pane=instructions] [role=row], [data-pane=instructions] tr"))
    for _ in range(50):  # it is told at most once in a fifth of a second
        exchange()
        if explorer.selection is not None:
            break
        page.wait_for_timeout(100)
    assert explorer.selection is not None
    assert explorer.selection["pane"] == "optimized"


def test_a_trusted_workspace_shows_stored_outputs(page: Page, explorer: Explorer) -> None:
    page.evaluate(SHOW_HTML, [explorer._recorder._form()["text/html"], True])
    expect(page.locator("[data-pane=optimized] .cm-line").first).to_be_visible()
    expect(page.locator(".inspector-form")).to_be_hidden()


def test_without_trust_it_is_read_as_tables(page: Page, explorer: Explorer) -> None:
    page.evaluate(SHOW_HTML, [explorer._recorder._form()["text/html"], False])
    expect(page.locator(".inspector-form")).to_contain_text("jit_step")
    expect(page.locator(".inspector-form table").first).to_be_visible()
    expect(page.locator(".insp")).to_have_count(0)
