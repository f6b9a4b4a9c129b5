"""The user interface on recorded programs: lines, variants, states, themes, keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.frontend.behind import OpenDemo
from tests.frontend.menus import show_pane, show_variant
from tests.lines import expect_in_view, quickest_click

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AT = {"x": 60, "y": 8}  # inside a line's text, whatever its width


def line(page: Page, pane: str, text: str) -> Locator:
    return page.locator(f"[data-pane={pane}] .cm-line", has_text=text).first


def lit(page: Page, pane: str, level: str = "strong") -> Locator:
    return page.locator(f"[data-pane={pane}] .cm-line.insp-{level}")


def luminance(page: Page, selector: str) -> float:
    color = page.locator(selector).first.evaluate("element => getComputedStyle(element).backgroundColor")
    scale = 255 if color.startswith("color(") else 1  # color(srgb 0.9 0.9 0.9), or rgb(230, 230, 230)
    return sum(scale * float(part) for part in re.findall(r"[\d.]+", color)[:3])


def sent(page: Page, kind: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = page.evaluate("kind => demo.sent.filter(m => m.type === kind)", kind)
    return messages


BELOW = """() => {
  const host = document.getElementById('host');
  host.insertAdjacentHTML('beforebegin', '<div style="height: 4000px"></div>');
  host.hidden = false;
}"""

# ---------------------------------------------------------------------- linked lines


def test_a_source_line_highlights_its_lines_in_every_text(demo: OpenDemo) -> None:
    page = demo()
    line(page, "source", "jnp.mean(jnp.square").click(position=AT)
    expect(page.locator("[data-pane=source] .insp-chosen")).to_contain_text("jnp.mean")
    expect_in_view(lit(page, "stablehlo"))
    assert any("stablehlo.reduce" in text for text in lit(page, "stablehlo").all_inner_texts())
    expect_in_view(lit(page, "optimized"))
    expect(page.locator(".insp-status")).to_contain_text(re.compile(r"programs\.py:\d+ *→ *\d+ jaxpr *\d+ StableHLO"))


def test_a_pressed_line_is_selected_though_the_page_moves_before_the_release(demo: OpenDemo) -> None:
    page = demo()
    wanted = line(page, "stablehlo", "stablehlo.tanh")
    wanted.scroll_into_view_if_needed()
    box = wanted.bounding_box()
    assert box is not None
    x, y = box["x"] + AT["x"], box["y"] + AT["y"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(
        "document.querySelector('.insp').style.marginTop = '50px'"
    )  # as Lab scrolls to the cell that is pressed
    page.mouse.move(x, y + 1)
    page.mouse.up()
    expect(page.locator("[data-pane=stablehlo] .insp-chosen")).to_contain_text("stablehlo.tanh")
    expect(lit(page, "source")).to_contain_text("gelu")


def test_an_instruction_lights_its_source_line_and_its_graph_node(demo: OpenDemo) -> None:
    page = demo()
    page.click("[data-tab=graph]")
    page.wait_for_selector(".insp-g-node")
    line(page, "source", "logits = h @").click(position=AT)
    target = lit(page, "optimized").first
    name = re.search(r"%([\w.\-]+) =", target.inner_text())
    assert name is not None
    target.click(position=AT)
    expect(page.locator(".insp-status .insp-instruction")).to_have_text(name[1])
    expect(lit(page, "source")).to_contain_text("logits = h @")
    page.wait_for_timeout(300)
    selection = sent(page, "select")[-1]["selection"]
    assert isinstance(selection, dict)
    assert (selection["pane"], selection["variant"], selection["instruction"]) == ("optimized", 0, name[1])


def test_a_graph_node_selects_its_instruction(demo: OpenDemo) -> None:
    page = demo()
    page.click("[data-tab=graph]")
    page.get_by_label("Show all (0)").click()
    node = page.locator(".insp-g-instruction").nth(2)
    node.click()
    name = node.get_attribute("data-title")
    expect(node).to_have_class(re.compile("insp-chosen"))
    chosen = page.locator("[data-pane=optimized] .insp-chosen")
    expect(chosen).to_contain_text(f"%{name} =")
    expect(chosen).to_be_in_viewport()


def test_hovering_lights_softly_and_leaving_ends_it(demo: OpenDemo) -> None:
    page = demo()
    line(page, "stablehlo", "stablehlo.dot_general").hover(position=AT)
    expect(lit(page, "source", "hover")).to_have_count(1)
    expect(lit(page, "source")).to_have_count(0)
    page.locator(".insp-title").hover()
    expect(lit(page, "source", "hover")).to_have_count(0)


def test_a_removed_line_is_reported(demo: OpenDemo) -> None:
    page = demo()
    line(page, "source", "def dense").click(position=AT)
    expect(page.locator(".insp-vanished")).to_contain_text("folded or fused")
    line(page, "optimized", "HloModule").click(position=AT)
    expect(page.locator(".insp-status")).to_contain_text("No source location")


def test_steps_go_through_the_matches_of_a_pane(demo: OpenDemo) -> None:
    page = demo()
    line(page, "source", "jax.nn.gelu(dense(x").click(position=AT)
    count = page.locator("[data-group='1.0'] .insp-count")
    total = int(count.inner_text().split("/")[1])
    before = int(count.inner_text().split("/")[0])
    page.get_by_role("button", name="Next match in Optimized HLO").click()
    expect(count).to_have_text(f"{before % total + 1}/{total}")


def test_a_double_click_on_a_name_goes_to_its_definition(demo: OpenDemo) -> None:
    page = demo()
    page.click("[data-tab=hlo]")
    line(page, "hlo", "ENTRY").wait_for()  # where it begins
    page.wait_for_timeout(100)
    page.locator("[data-pane=hlo] .cm-scroller").evaluate("e => e.scrollTop = 0")
    line(page, "hlo", "HloModule").wait_for()
    use = line(page, "hlo", " add(")
    name = re.search(r" add\(%?([\w.\-]+)", use.inner_text())
    assert name is not None
    box = use.evaluate(
        """(line, name) => {
            const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode()); ) {
                const at = node.textContent.lastIndexOf(name);
                if (at < 0) continue;
                const range = document.createRange();
                range.setStart(node, at + 1);
                range.setEnd(node, at + 3);
                const scroller = line.closest('.cm-scroller');
                scroller.scrollLeft += range.getBoundingClientRect().left - scroller.getBoundingClientRect().left - 150;
                const { x, y, height } = range.getBoundingClientRect();
                return [x, y + height / 2];
            }
        }""",
        name[1],
    )
    page.mouse.dblclick(*box)
    expect(page.locator("[data-pane=hlo] .insp-chosen")).to_contain_text(re.compile(rf"^\s*%?{re.escape(name[1])} = "))


def test_a_click_never_scrolls_the_page_around(demo: OpenDemo) -> None:
    page = demo()
    page.evaluate("document.body.style.padding = '700px 0'")
    page.evaluate("scrollTo(0, 560)")
    before = page.evaluate("scrollY")
    line(page, "source", "jnp.mean(jnp.square").evaluate(
        """element => {
            const { left, top } = element.getBoundingClientRect();
            const at = { bubbles: true, clientX: left + 60, clientY: top + 8, button: 0, detail: 1 };
            for (const type of ['mousedown', 'mouseup', 'click']) element.dispatchEvent(new MouseEvent(type, at));
        }"""
    )
    expect(page.locator("[data-pane=source] .insp-chosen")).to_have_count(1)
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == before


def test_a_search_scrolls_its_pane_alone(demo: OpenDemo) -> None:
    page = demo()
    line(page, "stablehlo", "stablehlo.dot_general").click(position=AT)
    page.keyboard.press("Control+f")
    page.keyboard.type("stablehlo.sqrt")
    page.evaluate("document.body.style.padding = '560px 0 900px'")  # the window shows the pane's top alone
    page.evaluate("scrollTo(0, 0)")
    page.keyboard.press("Enter")
    expect(page.locator("[data-pane=stablehlo] .cm-searchMatch-selected")).to_have_count(1)
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == 0
    assert page.locator("[data-pane=stablehlo] .cm-scroller").evaluate("e => e.scrollTop") > 500


def test_optimized_hlo_opens_at_its_entry(demo: OpenDemo) -> None:
    page = demo()
    expect_in_view(page.locator("[data-pane=optimized] .cm-line", has_text=re.compile("^ENTRY")))


def test_optimized_hlo_opens_at_its_entry_when_the_cell_enters_the_page_later(demo: OpenDemo) -> None:
    page = demo()
    page.goto(f"{page.url}&hidden=")
    page.wait_for_selector("[data-pane=optimized] .cm-content", state="attached")
    page.evaluate("document.getElementById('host').hidden = false")
    expect_in_view(page.locator("[data-pane=optimized] .cm-line", has_text=re.compile("^ENTRY")))


def test_optimized_hlo_opens_at_its_entry_when_the_cell_was_drawn_below_the_screen(demo: OpenDemo) -> None:
    page = demo()
    page.goto(f"{page.url}&hidden=")
    page.wait_for_selector("[data-pane=optimized] .cm-content", state="attached")
    page.evaluate(BELOW)
    page.wait_for_timeout(500)
    page.evaluate("document.getElementById('host').scrollIntoView()")
    expect_in_view(page.locator("[data-pane=optimized] .cm-line", has_text=re.compile("^ENTRY")))


def test_a_cell_that_was_out_of_the_page_comes_back_as_it_was_read(demo: OpenDemo) -> None:
    page = demo()
    scroller = page.locator("[data-pane=stablehlo] .cm-scroller")
    scroller.evaluate("e => { e.scrollTop = 400 }")
    page.wait_for_timeout(200)
    page.evaluate(
        "window.kept = document.getElementById('host'); kept.replaceWith(window.gap = document.createElement('p'))"
    )
    page.wait_for_timeout(200)
    page.evaluate("gap.replaceWith(kept)")
    expect(scroller).to_have_js_property("scrollTop", 400)
    expect_in_view(page.locator("[data-pane=optimized] .cm-line", has_text=re.compile("^ENTRY")))


def test_a_cell_outside_the_page_for_less_than_a_frame_keeps_its_scroll_position(demo: OpenDemo) -> None:
    """As when JupyterLab changes its theme."""
    page = demo()
    scroller = page.locator("[data-pane=stablehlo] .cm-scroller")
    scroller.evaluate("e => { e.scrollTop = 400 }")
    page.wait_for_timeout(200)
    for put_back in (
        "host.replaceWith(gap); gap.replaceWith(host)",
        "host.hidden = true; host.offsetHeight; host.hidden = false",
    ):
        page.evaluate(
            f"() => {{ const host = document.getElementById('host'), gap = document.createElement('p'); {put_back} }}"
        )
        page.wait_for_timeout(200)
        expect(scroller).to_have_js_property("scrollTop", 400)
        expect_in_view(page.locator("[data-pane=optimized] .cm-line", has_text=re.compile("^ENTRY")))


def test_texts_stay_where_they_are_read_when_panes_change_around_them(demo: OpenDemo) -> None:
    page = demo()
    scroller = page.locator("[data-pane=stablehlo] .cm-scroller")
    scroller.evaluate("e => { e.scrollTop = 400 }")
    page.wait_for_timeout(200)
    entry = page.locator("[data-pane=optimized] .cm-line", has_text=re.compile("^ENTRY"))
    for name in ("Run", "Stats"):
        page.click(f"[data-tab={name.lower()}]")
        page.wait_for_timeout(100)
        expect(scroller).to_have_js_property("scrollTop", 400)
        expect_in_view(entry)
    # Twice before the page is laid out once.
    page.evaluate("['run', 'stats'].forEach(name => document.querySelector(`[data-tab=${name}]`).click())")
    page.wait_for_timeout(100)
    expect(scroller).to_have_js_property("scrollTop", 400)
    expect_in_view(entry)


def test_python_arranges_the_panes_of_a_page_that_is_open(demo: OpenDemo) -> None:
    page = demo()
    page.evaluate("demo.model.set('arrangement', { preset: 'communicate' })")
    expect(page.locator("[data-tab=collectives]")).to_have_attribute("aria-selected", "true")
    assert page.evaluate("demo.model.get('arrangement').dock.active") == "collectives"


def test_a_pane_that_was_scrolled_sideways_shows_the_text_of_the_lit_line(demo: OpenDemo) -> None:
    page = demo()
    line(page, "source", "logits = h @").click(position=AT)
    scroller = page.locator("[data-pane=optimized] .cm-scroller")
    scroller.evaluate("e => { e.scrollLeft = e.scrollWidth }")
    assert scroller.evaluate("e => e.scrollLeft") > 300
    line(page, "source", "jax.nn.gelu(dense(x").click(position=AT)
    expect_in_view(lit(page, "optimized"))
    assert scroller.evaluate("e => e.scrollLeft") < 60


def test_the_most_expensive_of_many_matches_is_shown(demo: OpenDemo) -> None:
    page = demo()
    line(page, "source", "jax.nn.gelu(dense(x").click(position=AT)
    expect_in_view(lit(page, "optimized"))
    shown = page.locator("[data-pane=optimized] .cm-line.insp-strong").evaluate_all(
        """lines => lines.filter(line => {
            const [own, frame] = [line, line.closest('.cm-scroller')].map(e => e.getBoundingClientRect());
            return own.top > frame.top && own.bottom < frame.bottom;
        }).map(line => line.innerText)"""
    )
    assert any(" fusion(" in text or " dot(" in text for text in shown)
    assert not all("f32[] " in text for text in shown)


# ---------------------------------------------------------------------- keys


def test_keys_move_search_and_clear_inside_the_app(demo: OpenDemo) -> None:
    page = demo()
    line(page, "stablehlo", "stablehlo.dot_general").click(position=AT)
    chosen = page.locator("[data-pane=stablehlo] .insp-chosen")
    first = chosen.inner_text()
    page.keyboard.press("ArrowDown")
    expect(chosen).not_to_have_text(first)
    page.keyboard.press("ArrowUp")
    expect(chosen).to_have_text(first)
    page.keyboard.press("Control+f")
    field = page.locator("[data-pane=stablehlo] .cm-search input[name=search]")
    expect(field).to_be_focused()
    field.press("Escape")
    expect(page.locator(".cm-search")).to_have_count(0)
    expect(chosen).to_have_count(1)
    page.keyboard.press("Escape")
    expect(chosen).to_have_count(0)


def test_whatever_has_focus_keeps_the_notebook_s_shortcuts_off(demo: OpenDemo) -> None:
    page = demo()
    page.locator(".insp-chip-main").first.focus()
    seen = set()
    for _ in range(40):
        name, is_marked, is_inside = page.evaluate(
            """() => {
                const e = document.activeElement;
                return [e.outerHTML.slice(0, 80), e.hasAttribute('data-lm-suppress-shortcuts'), !!e.closest('.insp')];
            }"""
        )
        if not is_inside:
            break
        seen.add(name)
        assert is_marked, name
        page.keyboard.press("Tab")
    assert len(seen) > 15


# ---------------------------------------------------------------------- variants


def test_a_variant_shows_its_changes(demo: OpenDemo) -> None:
    page = demo()
    change = page.locator(".insp-change")
    expect(change).to_have_count(0)  # of the baseline
    page.locator(".insp-chip-main").nth(1).click()
    expect(change).to_contain_text("Compared with the baseline: ")
    expect(change).to_contain_text("fusions split")
    change.get_by_role("button", name="Compare").click()
    expect(page.locator(".insp-diff .cm-insertedLine, .insp-diff .cm-changedLine").first).to_be_visible()
    expect(change).to_have_count(0)  # the comparison has words of its own
    page.get_by_role("button", name="Side by side").click()
    expect(change).to_have_count(1)
    expect(page.locator(".insp-column[data-variant='1'] .insp-change")).to_contain_text("fusions split")


def test_a_variant_is_shown_against_the_baseline(demo: OpenDemo) -> None:
    page = demo()
    expect(page.get_by_role("button", name="Compare with baseline")).to_be_disabled()
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Compare with baseline").click()
    expect(page.locator(".insp-summary")).to_contain_text("fusions split")
    expect(page.locator(".insp-diff .cm-insertedLine, .insp-diff .cm-changedLine").first).to_be_visible()
    expect(page.locator(".insp-diff .cm-deletedLine").first).to_be_visible()
    page.get_by_role("button", name="Split").click()
    expect(page.locator(".cm-merge-a .cm-changedLine").first).to_be_visible()
    expect(page.locator(".cm-merge-b .cm-changedLine").first).to_be_visible()
    expect(page.locator(".cm-collapsedLines").first).to_contain_text("unchanged lines")
    line(page, "source", "jax.nn.gelu(dense(x").click(position=AT)
    expect(page.locator(".cm-merge-b .insp-strong").first).to_be_attached()
    page.locator(".insp-chip-main").first.click()
    expect(page.locator(".insp-diff")).to_have_count(0)


def test_the_changes_are_listed_by_kind_and_lead_to_their_places(demo: OpenDemo) -> None:
    page = demo()
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Compare with baseline").click()
    changes = page.get_by_role("tree", name="Changes by kind")
    kinds = changes.get_by_role("treeitem", expanded=True)
    expect(kinds.first).to_have_text(re.compile(r"Split · \d+ changes"))
    first = changes.locator(".insp-changes-row").first
    name = re.search(r"→ ([\w.\-]+)", first.inner_text())
    assert name is not None
    first.click()
    expect(first).to_have_attribute("aria-selected", "true")
    expect(page.locator(".insp-status .insp-instruction")).to_have_text(name[1])
    expect_in_view(page.locator(".insp-diff .cm-line.insp-chosen").first)
    changes.press("ArrowDown")
    expect(page.locator(".insp-status .insp-instruction")).not_to_have_text(name[1])
    kinds.first.click()
    expect(changes.get_by_role("treeitem", expanded=False).first).to_contain_text("Split")
    page.get_by_label("Filter changes").fill("broadcast no such thing")
    expect(changes.get_by_role("treeitem")).to_have_count(0)


def test_a_match_in_a_collapsed_part_of_a_diff_is_shown(demo: OpenDemo) -> None:
    page = demo()
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Compare with baseline").click()
    page.get_by_role("button", name="Split").click()
    left_out = page.locator(".cm-merge-b .cm-collapsedLines")
    before = left_out.count()
    line(page, "source", "logits = h @").click(position=AT)
    for step in range(1 + int(page.locator("[data-group='1.0'] .insp-count").inner_text().split("/")[1])):
        if step:  # the first one is shown by the selection itself
            page.get_by_role("button", name="Next match in Optimized HLO").click()
        page.wait_for_function(
            """() => {
                const frame = document.querySelector('.cm-mergeView').getBoundingClientRect();
                return [...document.querySelectorAll('.cm-merge-b .insp-strong')]
                    .map(line => line.getBoundingClientRect())
                    .some(box => box.top >= frame.top && box.bottom <= frame.bottom);
            }"""
        )
    assert left_out.count() < before
    assert page.locator(".cm-merge-a .cm-collapsedLines").count() == left_out.count()


def test_the_diff_loses_no_line_of_either_text(demo: OpenDemo) -> None:
    page = demo()
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Compare with baseline").click()
    page.get_by_role("button", name="Split").click()
    numbers = page.locator(".cm-merge-b .cm-lineNumbers .cm-gutterElement:visible").all_inner_texts()
    hidden = page.locator(".cm-merge-b .cm-collapsedLines").first.inner_text()
    first_shown = next(int(n) for n in numbers if n and n != "999")
    assert int(re.findall(r"\d+", hidden)[0]) == first_shown - 1


def test_stats_are_compared_and_missing_ones_are_unavailable(demo: OpenDemo) -> None:
    page = demo()
    row = page.locator(".insp-stats tr", has_text="temporaries")
    expect(row.locator(".insp-delta.insp-worse")).to_contain_text(re.compile(r"\+.*KiB \(\+\d+ %\)"))
    page.evaluate(
        """() => {
            const row = { key: 'code', label: 'machine code', unit: 'bytes', less_is_better: true };
            const reason = 'XLA does not report it here.';
            demo.emit({ type: 'stats', variant: 0, rows: [{ ...row, value: null, reason }] });
            demo.emit({ type: 'stats', variant: 1, rows: [{ ...row, value: 2048, reason: null }] });
        }"""
    )
    cells = page.locator(".insp-stats tr", has_text="machine code").locator("td")
    expect(cells.first).to_contain_text("unavailable")
    expect(cells.first).to_contain_text("XLA does not report it here.")
    expect(cells.first.locator(".insp-stat-none")).to_have_attribute("title", "XLA does not report it here.")
    expect(cells.nth(1)).to_have_text("2 KiB")


def test_the_numbers_of_the_active_variant_are_in_view(demo: OpenDemo) -> None:
    page = demo("targets", width=480)
    show_pane(page, "stats")
    labels = page.locator(".insp-stats tbody th").first
    for index in (2, 0, 1):
        show_variant(page, index)
        value = page.locator(".insp-stats tbody tr").first.locator(".insp-column-active .insp-value")
        expect(value).to_be_in_viewport(ratio=0.9)
        box, edge = value.bounding_box(), labels.bounding_box()
        assert box is not None
        assert edge is not None
        assert box["x"] >= edge["x"] + edge["width"] - 1  # not below the labels


def test_removing_and_adding_variants(demo: OpenDemo) -> None:
    page = demo()
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Remove xla_disable_hlo_passes=fusion").click()
    expect(page.locator(".insp-chip")).to_have_count(1)
    expect(page.locator(".insp-chip-main").first).to_have_attribute("aria-pressed", "true")
    page.evaluate(
        """() => demo.emit({ type: 'variant', variant: 7, label: 'new=1', target: 'cpu', options: {},
                            state: 'running', stage: 'compiling', elapsed_s: 0, error: null })"""
    )
    expect(page.locator(".insp-chip-main").nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("[data-pane=optimized] .insp-state-loading")).to_contain_text("Compiling")


def test_a_cached_variant_shows_no_time(demo: OpenDemo) -> None:
    page = demo()
    time = page.locator(".insp-chip-time").nth(1)
    expect(time).to_contain_text(re.compile(r"\d s$"))
    variant = {
        "type": "variant", "variant": 1, "label": "xla_disable_hlo_passes=fusion", "target": "cpu", "platform": "cpu",
        "options": {}, "state": "done", "stage": "", "elapsed_s": 0.01, "error": None, "no_run": "",
    }  # fmt: skip
    page.evaluate("message => demo.emit(message)", {**variant, "cached": "This comes from the cache."})
    expect(time).to_have_text("cached")
    expect(time).to_have_attribute("title", "This comes from the cache.")


def test_a_press_counts_though_messages_come_meanwhile(demo: OpenDemo) -> None:
    page = demo()
    running = {
        "type": "variant", "variant": 7, "label": "new=1", "target": "cpu", "platform": "cpu", "options": {},
        "state": "running", "stage": "compiling", "elapsed_s": 0, "error": None, "cached": "", "timing": "", "pinned": False, "no_run": "",
    }  # fmt: skip
    page.evaluate("message => demo.emit(message)", running)
    chip = page.locator(".insp-chip[data-variant='7']")
    chip.locator(".insp-label").hover()
    page.mouse.down()
    page.evaluate("message => demo.emit(message)", {**running, "stage": "reading"})
    page.mouse.up()
    expect(chip.locator(".insp-chip-main")).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Cancel new=1").hover()
    page.mouse.down()
    page.evaluate("message => demo.emit(message)", {**running, "state": "done"})
    page.mouse.up()  # meant to cancel: removes nothing
    assert sent(page, "remove") == sent(page, "cancel") == []
    page.wait_for_timeout(700)
    page.get_by_label("Remove new=1").click()
    assert [m["variant"] for m in sent(page, "remove")] == [7]


def test_a_run_shows_durations_inputs_and_outputs(demo: OpenDemo) -> None:
    page = demo()
    page.click("[data-tab=run]")
    page.get_by_label("Number of executions").fill("7")
    page.get_by_role("button", name="Run baseline").click()
    row = page.locator(".insp-runs tbody tr").first
    expect(row.locator(".insp-value")).to_contain_text(re.compile(r"\d (µs|ms)"))
    assert sent(page, "run") == [{"type": "run", "variant": 0, "repeat": 7}]
    assert row.locator(".insp-strip-tick").count() == 20
    expect(page.locator(".insp-run-arrays")).to_contain_text("params['w1']generated")


# ---------------------------------------------------------------------- collectives and graph


def test_a_collective_selects_its_instruction_and_shows_its_groups(demo: OpenDemo) -> None:
    page = demo("mesh")
    page.click("[data-tab=collectives]")
    row = page.locator(".insp-rows tbody tr", has_text="all-gather")
    expect(row).to_contain_text("model")
    row.click()
    expect(page.locator("[data-pane=optimized] .insp-chosen")).to_contain_text("all-gather(")
    expect(lit(page, "source")).to_contain_text("all_gather")
    colors = page.locator(".insp-cell").evaluate_all("cells => cells.map(c => c.style.getPropertyValue('--group'))")
    assert [colors[i : i + 2] for i in range(0, 8, 2)] == [[c] * 2 for c in dict.fromkeys(colors)]
    page.locator(".insp-cell").nth(3).hover()
    expect(page.locator(".insp-member")).to_contain_text("partition 3 (data=1, model=1) in group 1 (B)")
    expect(page.locator(".insp-member")).to_contain_text("position 1 of group 1: replica 0, partition 3, logical id 3")
    expect(page.locator(".insp-cell-group")).to_have_text(list("AABBCCDD"))
    expect(page.locator(".insp-cell-dimmed")).to_have_count(6)
    page.locator(".insp-rows tbody tr", has_text="collective-permute").click()
    expect(page.locator(".insp-arrow")).to_have_count(8)


def test_a_textbook_does_a_collective_step_by_step(demo: OpenDemo) -> None:
    page = demo("mesh")
    page.click("[data-tab=collectives]")
    page.locator(".insp-rows tbody tr", has_text="all-gather").click()
    player = page.locator(".insp-exchange")
    expect(player).to_contain_text("Runtimes do not document which algorithm they use")
    blocks = player.locator(".insp-exchange-block text:first-of-type")
    expect(blocks).to_have_text(["0", "1"])
    player.get_by_role("button", name="Step", exact=True).press("Enter")
    expect(player).to_contain_text("Step 1 of 1. id 0 sends block 0 to id 1; id 1 sends block 1 to id 0.")
    expect(blocks).to_have_text(["0", "1", "1", "0"])
    expect(player.locator(".insp-exchange-arrow")).to_have_count(2)
    expect(player.get_by_role("button", name="Step", exact=True)).to_be_disabled()
    player.get_by_label("Algorithm").select_option("bidirectional ring")
    expect(blocks).to_have_text(["0a", "0b", "1a", "1b"])
    player.get_by_role("button", name="1 (B)").click()
    expect(player.locator(".insp-exchange-member")).to_have_text(["id 2", "id 3"])
    player.get_by_role("button", name="Fast").click()
    player.get_by_role("button", name="Play").click()
    expect(player).to_contain_text("Step 1 of 1")


AS_REPLICAS = """async () => {
  const { messages } = await (await fetch("mesh.json")).json();
  const found = messages.map((m) => m.content).find((m) => m.type === "collectives" && m.program === "optimized");
  demo.emit({ ...found, mesh: { ...found.mesh, kind: "replica" }, rows: found.rows.filter((row) => row.axes?.length) }, []);
}"""
EDITED = """(text) => {
  const field = document.querySelector('[aria-label="Other axis environment"]');
  field.value = text;
  const began = performance.now();
  field.dispatchEvent(new Event("input"));
  document.querySelector(".insp-mesh").getBoundingClientRect();
  return performance.now() - began;
}"""


def test_groups_follow_an_axis_environment_while_it_is_typed(demo: OpenDemo) -> None:
    page = demo("mesh")
    page.click("[data-tab=collectives]")
    expect(page.locator(".insp-mesh-svg")).to_be_visible()
    page.evaluate(AS_REPLICAS)
    row = page.locator(".insp-rows tbody tr", has_text="all-gather")
    row.click()
    field, said = page.get_by_label("Other axis environment"), page.locator(".insp-mesh-field [role=status]")
    expect(field).to_have_value("data=4, model=2")
    field.fill("model=2, data=3")
    expect(page.locator(".insp-cell-group")).to_have_text(list("ABCABC"))
    expect(said).to_have_text("Groups for model=2, data=3. The program is compiled for data=4, model=2.")
    field.fill("data=3, model=")
    expect(said).to_contain_text("not a whole number")
    expect(page.locator(".insp-cell-group")).to_have_count(6)
    field.fill("data=3")
    expect(said).to_contain_text("Missing axis model: the collective uses it")
    assert page.evaluate(EDITED, "data=64, model=64") < 400, "milliseconds, on a busy machine; 100 on an idle one"
    expect(page.locator(".insp-mesh-svg > .insp-cell")).to_have_count(16)  # looks: eight colors, two edges
    box = page.locator(".insp-mesh-svg").bounding_box()
    assert box is not None
    page.locator(".insp-mesh-svg").hover(position={"x": box["width"] * 3.5 / 64, "y": box["height"] * 2.5 / 64})
    expect(page.locator(".insp-member")).to_contain_text("replica 131 (data=2, model=3) in group 2 (C)")
    expect(page.locator(".insp-member")).to_contain_text("exchanges with 128, 129")


def test_the_list_of_collectives_can_be_made_wider(demo: OpenDemo) -> None:
    page = demo("mesh")
    page.get_by_role("tab", name="Collectives").click()
    table = page.locator(".insp-collective-list")
    before = table.evaluate("e => e.offsetWidth")
    border = page.get_by_label("Collectives list width")
    border.press("ArrowRight")
    assert table.evaluate("e => e.offsetWidth") > before
    page.locator(".insp-collective-list tbody tr").last.click()  # it is drawn anew
    assert table.evaluate("e => e.offsetWidth") > before
    border.press("Enter")
    assert table.evaluate("e => e.offsetWidth") == before


def test_missing_collectives_have_a_reason(demo: OpenDemo) -> None:
    page = demo()
    page.click("[data-tab=collectives]")
    expect(page.locator(".insp-collectives")).to_contain_text("runs on one device, so")


# ---------------------------------------------------------------------- states


@pytest.mark.parametrize(
    ("scenario", "until", "said"),
    [
        ("loading", "[data-pane=optimized] .insp-state-loading", r"Compiling\d"),
        ("failed", "[data-pane=optimized] .insp-state-failed", "CompilationError.*split_count=-5.*To do:"),
        ("cancelled", "[data-pane=optimized] .insp-state-empty", "This variant was canceled"),
        ("unavailable", "[data-pane=source] .insp-state-empty", r"has no Python.*Give explore\(\) the function"),
        ("waiting", ".insp-state-loading", "Waiting for the notebook kernel"),
        ("gone", ".insp-notice-error", "The notebook kernel is gone"),
    ],
)
def test_a_state_message_is_clear_and_does_not_overflow(demo: OpenDemo, scenario: str, until: str, said: str) -> None:
    page = demo(scenario, until)
    expect(page.locator(until).first).to_contain_text(re.compile(said, re.DOTALL))
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.insp, .insp-state, .insp-notice, .insp-toolbar')]
                  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.className)"""
    )
    assert wide == []


def test_notices_can_be_dismissed(demo: OpenDemo) -> None:
    page = demo("unavailable", ".insp-notice")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".insp-notice")).to_have_count(0)


# ---------------------------------------------------------------------- theme, width, layout, views


@pytest.mark.parametrize("lab", ["", "1"])
def test_the_page_follows_the_theme_live(demo: OpenDemo, lab: str) -> None:
    page = demo(lab=lab)
    surfaces = (".insp", ".cm-editor", ".cm-gutters", ".insp-toolbar", ".insp-stats thead th")
    assert all(luminance(page, s) > 600 for s in surfaces)
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    expect(page.locator(".insp")).to_have_attribute("data-theme", "dark")
    assert all(luminance(page, s) < 160 for s in surfaces)


CONTRASTS = """() => {
  const known = (make, seen = new Map()) => key => {
    if (!seen.has(key)) seen.set(key, make(key));
    return seen.get(key);
  };
  const pixel = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const read = known(color => {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = color;
    pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data];
  });
  const over = (below, [r, g, b, a]) => [r, g, b].map((value, i) => below[i] + (value - below[i]) * a / 255);
  const behind = known(
    e => e ? over(behind(e.parentElement), read(getComputedStyle(e).backgroundColor)) : [255, 255, 255]
  );
  const luminance = color => {
    const linear = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return color.map(linear).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  };
  const says = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  return [...document.querySelectorAll('.insp *')]
    .filter(e => e.offsetParent && says(e) && !e.closest('svg, :disabled, .cm-gutters'))
    .map(e => {
      const background = behind(e);
      const lights = [luminance(background), luminance(over(background, read(getComputedStyle(e).color)))];
      const ratio = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
      return [ratio, `${e.className} in ${e.parentElement.className}: ${e.textContent.trim().slice(0, 30)}`];
    });
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scenario", ["mlp", "targets", "compiling"])
def test_every_text_can_be_read(demo: OpenDemo, theme: str, scenario: str) -> None:
    page = demo(scenario, theme=theme, lab=1, until=".insp-chip")
    page.locator(".insp-chip-main").nth(1).click()
    for tab in ("stats", "collectives", "run", "passes"):
        page.click(f"[data-tab={tab}]")
        page.wait_for_timeout(100)
        found = page.evaluate(CONTRASTS)
        assert len(found) > 40
        assert [words for ratio, words in found if ratio < 4.5] == []  # what WCAG asks of text, level AA


def test_a_narrow_page_is_one_column_of_tabs(demo: OpenDemo) -> None:
    page = demo(width=480)
    expect(page.locator(".insp-group")).to_have_count(1)
    expect(page.locator("[role=tab]")).to_have_count(page.evaluate("demo.session.panes.length"))
    shown = page.get_by_role("tab")
    assert 2 <= shown.count() <= 6
    for tab in shown.all():
        expect(tab).to_be_in_viewport(ratio=1)
    assert page.locator(".insp-tab-row").bounding_box()["height"] < 30  # type: ignore[index]
    page.locator(".insp-more-tabs").click()
    page.get_by_role("menuitem", name="Stats").click()
    expect(page.get_by_role("tab", name="Stats")).to_be_focused()
    expect(page.locator(".insp-stats")).to_be_visible()
    page.evaluate("document.getElementById('host').style.width = '1200px'")
    expect(page.locator(".insp-group")).to_have_count(4)


@pytest.mark.parametrize("width", [760, 900, 1100, 1300, 1500])
def test_no_tool_is_cut_off_whatever_the_width(demo: OpenDemo, width: int) -> None:
    page = demo("targets", width=width)
    page.get_by_role("button", name="Side by side").click()
    page.locator(".insp-chip-main").nth(1).click()
    line(page, "source", "jax.nn.relu(x @ w1)").click(position=AT)  # the tools then count the matches
    expect(page.locator(".insp-columns .insp-stepper button").first).to_be_visible()
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.insp-columns .insp-tools, .insp-columns .insp-group-head')]
                  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"""
    )
    assert cut == []
    for tab in page.locator(".insp-columns [role=tab][aria-selected=true]").all():
        assert tab.evaluate("e => e.getBoundingClientRect().right <= e.parentElement.getBoundingClientRect().right + 1")


@pytest.mark.parametrize("width", [720, 900, 1100])
def test_no_tab_or_tool_of_the_panel_is_hidden_whatever_the_width(demo: OpenDemo, width: int) -> None:
    page = demo("recorded", width=width)
    dock = page.locator("[data-group=dock]")
    tabs = dock.get_by_role("tab", include_hidden=True)
    for tab in tabs.all():
        tab.evaluate("tab => tab.click()")
        expect(tab).to_be_visible()
        record = dock.get_by_role("button", name="Record", exact=True)
        if record.is_visible():
            record.click()
            expect(record).to_be_hidden()
        for control in dock.locator(".insp-group-head :is(button, input, select):visible").all():
            expect(control).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(("width", "count"), [(480, 1), (720, 2), (900, 2), (1200, 4)])
def test_chips_that_do_not_fit_into_one_row_are_in_a_menu(demo: OpenDemo, width: int, count: int) -> None:
    page = demo(width=width)
    for number, label in ((7, "xla_cpu_enable_concurrency_optimized_scheduler=true"), (8, "cpu:8")):
        page.evaluate(
            """([number, label]) => demo.emit({ type: 'variant', variant: number, label, target: 'cpu',
              platform: 'cpu', options: {}, state: 'done', stage: '', elapsed_s: 1, error: null, cached: 'x',
              no_run: '' })""",
            [number, label],
        )
    chips = page.locator(".insp-chip")
    expect(chips).to_have_count(4)
    shown = page.locator(".insp-chip:visible")
    expect(shown).to_have_count(count)
    if count < 4:
        page.get_by_role("button", name=f"{4 - count} more", exact=True).first.click()
        page.get_by_role("menuitem", name="cpu:8").click()
        expect(shown).to_have_count(count)
        expect(shown.last).to_contain_text("cpu:8")
        assert page.locator(".insp-toolbar").bounding_box()["height"] < 40  # type: ignore[index]
    for chip in shown.all():
        expect(chip).to_be_in_viewport(ratio=1)


def test_a_narrow_explorer_hides_the_fields_of_a_new_variant(demo: OpenDemo) -> None:
    page = demo(width=900)
    opener = page.get_by_role("button", name="Add a variant")
    flag = page.locator(".insp-control-flag input")
    expect(flag).to_be_hidden()
    opener.click()
    expect(flag).to_be_focused()
    page.keyboard.press("Escape")  # the list of flags, if any
    page.keyboard.press("Escape")
    expect(flag).to_be_hidden()
    expect(opener).to_be_focused()
    page.evaluate("document.getElementById('host').style.width = '1200px'")
    expect(opener).to_be_hidden()
    expect(flag).to_be_visible()


def test_the_panel_keeps_a_height_for_each_pane(demo: OpenDemo) -> None:
    page = demo()
    dock = page.locator("[data-group=dock]")
    height = lambda: dock.bounding_box()["height"]  # type: ignore[index] # noqa: E731
    page.click("[data-tab=stats]")
    before = height()
    page.click("[data-tab=collectives]")
    border = page.get_by_role("separator", name="Panel height")
    border.focus()
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    grown = height()
    assert grown > before + 40
    page.click("[data-tab=stats]")
    assert height() == pytest.approx(before, abs=2)
    page.click("[data-tab=collectives]")
    assert height() == pytest.approx(grown, abs=2)


def test_a_targets_name_fits_into_its_field(demo: OpenDemo) -> None:
    page = demo(width=1100)
    left = page.locator(".insp-control-target input").evaluate(
        """input => {
          const canvas = document.createElement('canvas').getContext('2d');
          canvas.font = getComputedStyle(input, '::placeholder').font;
          const { paddingLeft, paddingRight } = getComputedStyle(input);
          const inside = input.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
          return inside - canvas.measureText('target: gpu:mi300x:8').width;
        }"""
    )
    assert left > 0


def test_panes_move_between_columns_and_the_layout_is_remembered(demo: OpenDemo) -> None:
    page = demo()
    page.locator("[data-group='0.0']").get_by_label("Pane menu").click()
    page.get_by_role("menuitem", name="Graph", exact=True).click()
    expect(page.locator("[data-group='0.0'] [role=tab]")).to_have_text(["Source", "Outline", "Graph"])
    page.locator("[data-group='0.1']").get_by_label("Maximize").click()
    expect(page.locator(".insp-group")).to_have_count(1)
    page.get_by_label("Restore layout").click()
    page.get_by_label("Close panel").click()
    expect(page.locator(".insp-stats")).to_have_count(0)
    page = demo(until="[data-group='0.0'] [data-tab=graph]")
    expect(page.get_by_label("Open panel")).to_be_visible()


def dragged(page: Page, tab: str, x: float, y: float) -> None:
    box = page.locator(f"[data-tab={tab}]").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 12, box["y"] + 12)
    page.mouse.down()
    page.mouse.move(box["x"] + 40, box["y"] - 40)
    page.mouse.move(x, y)


def test_a_tab_is_dragged_to_a_side_of_a_group_or_to_its_tabs(demo: OpenDemo, tmp_path: Path) -> None:
    page = demo()
    box = page.locator("[data-group='1.0']").bounding_box()
    assert box is not None
    dragged(page, "graph", box["x"] + box["width"] / 2, box["y"] + box["height"] - 20)
    expect(page.locator(".insp-drop")).to_be_visible()
    page.screenshot(path=tmp_path / "drag.png")
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page.locator("[data-group=dock] [data-tab=graph]")).to_have_count(1)  # as before
    box = page.locator("[data-group='1.0']").bounding_box()  # the panel is higher for the graph
    assert box is not None
    dragged(page, "graph", box["x"] + box["width"] / 2, box["y"] + box["height"] - 20)
    page.mouse.up()
    expect(page.locator("[data-group='1.1'] [role=tab]")).to_have_text(["Graph"])
    expect(page.locator("[data-group='1.1'] .insp-g-node").first).to_be_visible()
    kept = page.evaluate("demo.model.get('arrangement')")
    assert [group["active"] for group in kept["columns"][1]["groups"]] == ["optimized", "graph"]
    dragged(page, "graph", box["x"] + 40, box["y"] + 10)
    page.mouse.up()
    expect(page.locator("[data-group='1.0'] [role=tab]")).to_have_text(["Optimized HLO", "Graph"])
    expect(page.locator("[data-group='1.1']")).to_have_count(0)


def test_panes_are_stacked_moved_hidden_and_shown_by_name(demo: OpenDemo) -> None:
    page = demo()
    run = lambda name: (page.keyboard.press("/"), page.keyboard.type(name), page.keyboard.press("Enter"))  # noqa: E731
    page.get_by_role("tab", name="Roofline").click()
    run("move roofline below optimized")
    expect(page.locator("[data-group='1.1'] [role=tab]")).to_have_text(["Roofline"])
    run("move roofline to a new column")
    expect(page.locator("[data-group='2.0'] [role=tab]")).to_have_text(["Roofline"])
    run("hide roofline")
    expect(page.get_by_role("tab", name="Roofline")).to_have_count(0)
    run("show roofline")
    expect(page.get_by_role("tab", name="Roofline")).to_have_attribute("aria-selected", "true")


def test_there_are_as_many_columns_as_the_width_has_room_for(demo: OpenDemo) -> None:
    page = demo(width=900)
    expect(page.locator(".insp-stack")).to_have_count(2)
    expect(page.locator(".insp-stack .insp-group")).to_have_count(2)
    for width, count in ((1500, 3), (900, 2), (1950, 3)):
        page.evaluate("width => { document.getElementById('host').style.width = width + 'px' }", width)
        expect(page.locator(".insp-stack")).to_have_count(3 if width > 1900 else 2)
        expect(page.locator(".insp-stack .insp-group")).to_have_count(count)
    page.evaluate("document.getElementById('host').style.width = '1500px'")
    expect(page.locator(".insp-stack")).to_have_count(2)
    wide = page.locator("[data-pane=optimized] .cm-scroller")
    assert wide.evaluate("e => e.clientWidth") > 700  # of 1500


def test_splitters_move_by_pointer_and_by_key(demo: OpenDemo) -> None:
    page = demo()
    column = page.locator("[data-group='0.0']")
    splitter = page.get_by_label("Column width").first
    width = lambda: column.evaluate("e => e.offsetWidth")  # noqa: E731 - asked three times
    before, box = width(), splitter.bounding_box()
    assert box is not None
    page.mouse.move(box["x"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 50, steps=6)  # the same border from the first to the last
    page.mouse.up()
    assert width() == pytest.approx(before + 120, abs=3)
    splitter.press("ArrowLeft")
    assert width() < before + 110
    splitter.dblclick()
    assert width() == before
    between = page.get_by_label("Group height")
    height_of = column.evaluate("e => e.offsetHeight")
    between.press("ArrowDown")
    assert column.evaluate("e => e.offsetHeight") > height_of
    between.dblclick()
    assert column.evaluate("e => e.offsetHeight") == height_of
    handle = page.get_by_label("Explorer height")
    height = page.locator(".insp").evaluate("e => e.offsetHeight")
    handle.press("ArrowDown")
    assert page.locator(".insp").evaluate("e => e.offsetHeight") > height
    handle.press("Enter")
    assert page.locator(".insp").evaluate("e => e.offsetHeight") == height
    panel = page.locator("[data-group='dock']")
    high = panel.evaluate("e => e.offsetHeight")
    border = page.get_by_label("Panel height")
    border.press("ArrowUp")
    assert panel.evaluate("e => e.offsetHeight") > high
    border.dblclick()
    assert panel.evaluate("e => e.offsetHeight") == high


def test_scroll_positions_survive_tabs(demo: OpenDemo) -> None:
    page = demo()
    scroller = "[data-pane=stablehlo] .cm-scroller"
    page.locator(scroller).evaluate("e => e.scrollTop = 900")
    page.click("[data-tab=jaxpr]")
    page.wait_for_selector("[data-pane=jaxpr] .cm-line")
    page.click("[data-tab=stablehlo]")
    page.wait_for_function(f"Math.abs(document.querySelector('{scroller}').scrollTop - 900) < 20")


def test_a_second_view_shares_the_messages_of_the_first(demo: OpenDemo) -> None:
    page = demo()
    page.evaluate(
        """() => {
            const el = document.createElement('div');
            el.id = 'second';
            document.body.append(el);
            window.end = demo.renderAgain(el);
        }"""
    )
    expect(page.locator("#second [data-pane=optimized] .cm-line").first).to_be_attached()
    assert len(sent(page, "ready")) == 1
    page.evaluate("window.end()")
    expect(page.locator("#second > *")).to_have_count(0)


def test_a_waiting_variant_names_the_running_one(demo: OpenDemo) -> None:
    page = demo("loading", until=".insp-chip")
    behind = "queued behind compiling 'jit_other' for cpu:8"
    page.evaluate(
        """stage => demo.emit({ type: 'variant', variant: 0, label: 'baseline', target: 'cpu', platform: 'cpu',
          options: {}, state: 'queued', stage, elapsed_s: 2, error: null, cached: '', timing: '', pinned: false, no_run: '' })""",
        behind,
    )
    expect(page.locator("[data-pane=optimized] .insp-state")).to_contain_text(behind.capitalize()[:22])
    assert behind in (page.locator(".insp-chip-main").first.get_attribute("title") or "")


# ---------------------------------------------------------------------- size


def quickest_click_on_source(page: Page) -> float:
    """Milliseconds of the quickest click on a line of the source, which lights others elsewhere."""
    quickest = quickest_click(page, "[data-pane=source] .cm-line")
    expect(lit(page, "optimized").first).to_be_attached()
    return quickest


def test_a_page_of_200_000_lines_stays_fluid(demo: OpenDemo) -> None:
    short = quickest_click_on_source(demo("big", lines=4_000))
    page = demo("big", lines=200_000)
    assert quickest_click_on_source(page) < max(
        100, 15 * short
    )  # of fifty times the lines; a slow machine is slow at both
    assert page.locator(".cm-line").count() < 1000
