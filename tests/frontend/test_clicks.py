"""The browser's work for a click on a line: no more than the click shows."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.frontend.conftest import OpenDemo
from tests.lines import layouts_of_click

AT = {"x": 60, "y": 8}  # inside a line's text, whatever its width
# Panes that were drawn and then went behind another tab, with what changes in them.
WATCH = """() => {
  window.changes = [];
  window.observer = new MutationObserver(records => window.changes.push(...records.map(r => r.type)));
  const options = { subtree: true, childList: true, attributes: true, characterData: true };
  for (const pane of window.behind) window.observer.observe(pane, options);
}"""
CHANGES = "() => (window.changes.push(...window.observer.takeRecords().map(r => r.type)), window.changes)"


def test_a_click_looks_at_the_whole_page_before_it_changes_any_of_it(demo: OpenDemo) -> None:
    page = demo()
    line = "[data-pane=source] .cm-line:has-text('logits = h @')"
    page.click(line, position=AT)
    expect(page.locator("[data-pane=optimized] .insp-strong").first).to_be_visible()
    assert layouts_of_click(page, line, AT) <= 1


def test_a_pane_behind_another_is_not_touched_until_it_is_shown(demo: OpenDemo) -> None:
    page = demo()
    page.evaluate("window.behind = []")
    for tab, pane, front in [("jaxpr", "[data-pane=jaxpr]", "stablehlo"), ("graph", ".insp-graph", "stats")]:
        page.click(f"[data-tab={tab}]")
        expect(page.locator(f"{pane} :is(.cm-line, svg g)").first).to_be_attached()
        page.evaluate("selector => window.behind.push(document.querySelector(selector))", pane)
        page.click(f"[data-tab={front}]")
    page.wait_for_timeout(300)
    page.evaluate(WATCH)
    page.click("[data-pane=source] .cm-line:has-text('logits = h @')", position=AT)
    expect(page.locator("[data-pane=stablehlo] .insp-strong").first).to_be_attached()
    page.wait_for_timeout(300)
    assert page.evaluate(CHANGES) == []
    page.evaluate("window.observer.disconnect()")
    page.click("[data-tab=jaxpr]")
    expect(page.locator("[data-pane=jaxpr] .insp-strong").first).to_be_attached()


def test_a_text_that_is_shown_again_keeps_its_drawn_lines(demo: OpenDemo) -> None:
    page = demo()
    scroller = page.locator("[data-pane=stablehlo] .cm-scroller")
    page.click("[data-tab=stablehlo]")
    scroller.evaluate("e => e.scrollTop = 600")
    page.wait_for_timeout(500)
    page.evaluate("window.behind = [document.querySelector('[data-pane=stablehlo] .cm-content')]")
    page.evaluate(WATCH.replace("attributes: true, ", ""))  # CodeMirror may set those of the focus
    page.click("[data-tab=jaxpr]")
    page.click("[data-tab=stablehlo]")
    page.wait_for_timeout(500)
    assert page.evaluate(CHANGES) == []
    assert scroller.evaluate("e => e.scrollTop") == 600


def test_no_global_style_depends_on_contents(demo: OpenDemo) -> None:
    page = demo()
    anchors = page.evaluate(
        """() => [...document.styleSheets].flatMap(sheet => [...sheet.cssRules])
          .flatMap(function flat(rule) { return [rule, ...[...(rule.cssRules ?? [])].flatMap(flat)]; })
          .flatMap(rule => (rule.selectorText ?? '').split(':has(').slice(0, -1))
          .map(anchor => anchor.replace(/:(not|is|where)\\($/, ''))"""
    )
    assert anchors  # of smaller parts
    # Each line that is drawn would have all of the app styled anew.
    matching = "anchors => anchors.filter(anchor => document.querySelector('.insp').matches(anchor))"
    assert page.evaluate(matching, anchors) == []
