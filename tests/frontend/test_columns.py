"""Optimized HLO side by side: a column a variant, on a recorded program for CPU, TPU and GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Position, expect

from tests.frontend.behind import OpenDemo
from tests.frontend.menus import show_variant
from tests.lines import expect_in_view, quickest_click

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AT: Position = {"x": 60, "y": 8}  # inside a line's text, whatever its width
TARGETS = ["baseline cpu:8", "tpu:v5e:2x4", "gpu:h100:8"]


def column(page: Page, variant: int) -> Locator:
    return page.locator(f".insp-column[data-variant='{variant}']")


def line(page: Page, variant: int, text: str) -> Locator:
    return column(page, variant).locator(".cm-line", has_text=text).first


def lit(page: Page, variant: int) -> Locator:
    return column(page, variant).locator(".insp-strong")


def scroller(page: Page, variant: int) -> Locator:
    return column(page, variant).locator(".cm-scroller")


def names(page: Page) -> list[str]:
    """Returns the titles of the columns."""
    heads = page.locator(".insp-column-name").all()
    texts = ["".join(head.locator(".insp-label, .insp-target").all_text_contents()) for head in heads]
    return [" ".join(text.split()) for text in texts]


def test_several_platforms_begin_side_by_side_under_their_names(demo: OpenDemo) -> None:
    page = demo("targets")
    assert names(page) == TARGETS
    expect(page.locator(".insp-chip-main .insp-label")).to_have_text(["baseline", "tpu:v5e:2x4", "gpu:h100:8"])
    for variant in range(3):
        expect(line(page, variant, "HloModule")).to_be_visible()
    widths = [column(page, variant).evaluate("e => e.offsetWidth") for variant in range(3)]
    assert max(widths) - min(widths) <= 1
    assert sum(widths) > 700  # of 1336: the other texts share one group
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator(".insp-column")).to_have_count(0)
    expect(page.locator("[data-pane=optimized] .cm-line").first).to_be_visible()


def test_a_line_lights_its_counterparts_and_their_columns_scroll_to_them(demo: OpenDemo) -> None:
    page = demo("targets")
    line(page, 0, " dot(").click(position=AT)
    expect(column(page, 0).locator(".insp-chosen")).to_contain_text("dot(")
    expect(lit(page, 1).first).to_contain_text("convolution")
    expect_in_view(lit(page, 1))
    expect_in_view(lit(page, 2))
    for variant in range(3):
        expect(column(page, variant).locator(".insp-count")).to_have_text(re.compile(r"^\d+/\d+$"))
    # And back: the clicked column's variant is then the active one.
    lit(page, 2).first.click(position=AT)
    expect(column(page, 2).locator(".insp-chosen")).to_have_count(1)
    expect(column(page, 0).locator(".insp-chosen")).to_have_count(0)
    expect_in_view(lit(page, 0))
    expect(page.locator(".insp-chip-main").nth(2)).to_have_attribute("aria-pressed", "true")


def test_the_same_name_in_another_column_is_another_instruction(demo: OpenDemo) -> None:
    page = demo("mlp")
    page.get_by_role("button", name="Side by side").click()
    for variant in range(2):
        line(page, variant, "ENTRY").wait_for()
        for each in range(2):
            scroller(page, each).evaluate("e => e.scrollTop = 0")
        line(page, variant, "HloModule").wait_for()
        line(page, variant, "parameter(0)").click(position=AT)
        name = re.search(r"%([\w.\-]+) =", column(page, variant).locator(".insp-chosen").inner_text())
        assert name is not None
        expect(page.locator(".insp-column .insp-chosen")).to_have_count(1)
        assert column(page, 1 - variant).locator(".cm-line", has_text=f"%{name[1]} = ").count() > 0


def test_hovering_lights_the_other_columns(demo: OpenDemo) -> None:
    page = demo("targets")
    line(page, 0, " dot(").hover(position=AT)
    expect(page.locator("[data-variant='2'] .insp-hover").first).to_be_attached()
    expect(page.locator("[data-variant='0'] .insp-hover")).to_have_count(0)
    page.locator(".insp-title").hover()
    expect(page.locator(".insp-column .insp-hover")).to_have_count(0)


def test_columns_scroll_separately_and_keep_their_position(demo: OpenDemo) -> None:
    page = demo("targets")
    begin = scroller(page, 2).evaluate("e => Math.round(e.scrollTop)")
    scroller(page, 0).evaluate("e => e.scrollTop = 700")
    scroller(page, 1).evaluate("e => e.scrollTop = 300")
    assert [scroller(page, v).evaluate("e => Math.round(e.scrollTop)") for v in range(3)] == [700, 300, begin]
    page.get_by_label("Maximize").last.click()
    page.get_by_label("Restore layout").click()
    page.wait_for_timeout(200)
    places = [scroller(page, v).evaluate("e => e.scrollTop") for v in range(3)]
    assert places == pytest.approx([700, 300, begin], abs=20)


def widths(page: Page) -> list[int]:
    return [each.evaluate("e => e.offsetWidth") for each in page.locator(".insp-column").all()]


def test_borders_between_columns_move_and_go_back(demo: OpenDemo) -> None:
    page = demo("targets")
    before = widths(page)
    borders = page.locator(".insp-side-by-side > [role=separator]")
    expect(borders).to_have_count(2)
    box = borders.first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"], box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 100, steps=3)
    page.evaluate(  # what comes meanwhile does not end the drag
        """() => demo.emit({ type: 'variant', variant: 2, label: 'gpu:h100:8', target: 'gpu:h100:8', platform: 'cuda',
                 options: {}, state: 'done', stage: '', elapsed_s: 3, error: null, cached: '', timing: '', pinned: false, no_run: '' })"""
    )
    page.mouse.move(box["x"] + 90, box["y"] + 100, steps=3)
    page.mouse.up()
    assert widths(page) == pytest.approx([before[0] + 90, before[1] - 90, before[2]], abs=2)
    borders.nth(1).press("ArrowLeft")
    assert widths(page) == pytest.approx([before[0] + 90, before[1] - 114, before[2] + 24], abs=2)
    for _ in range(40):  # no column goes away
        borders.nth(1).press("ArrowLeft")
    assert widths(page)[1] == pytest.approx(120, abs=2)
    chosen = widths(page)
    page.get_by_role("button", name="Side by side").click()
    page.get_by_role("button", name="Side by side").click()
    assert widths(page) == pytest.approx(chosen, abs=2)  # kept as long as the page lives
    borders.nth(1).dblclick()
    assert widths(page) == pytest.approx(before, abs=1)


def test_steps_stay_in_their_column(demo: OpenDemo) -> None:
    page = demo("targets")
    line(page, 0, " dot(").click(position=AT)
    counts = [column(page, v).locator(".insp-count") for v in range(3)]
    before = [count.inner_text() for count in counts]
    page.get_by_role("button", name="Next match in Optimized HLO, tpu:v5e:2x4").click()
    expect(counts[1]).not_to_have_text(before[1])
    assert [counts[0].inner_text(), counts[2].inner_text()] == [before[0], before[2]]


def test_a_column_is_searched_alone(demo: OpenDemo) -> None:
    page = demo("targets")
    line(page, 1, "HloModule").click(position=AT)
    page.keyboard.press("Control+f")
    page.keyboard.type("fusion")
    expect(column(page, 1).locator(".cm-searchMatch").first).to_be_attached()
    expect(page.locator(".cm-search")).to_have_count(1)


def test_all_columns_are_searched_for_the_same(demo: OpenDemo) -> None:
    page = demo("targets")
    page.locator("[data-group='1.0'] .insp-group-head").get_by_title("Find in every column").click()
    page.keyboard.type("all-reduce")
    fields = page.locator(".insp-column .cm-search input[name=search]")
    expect(fields).to_have_count(3)
    for variant in range(3):
        expect(fields.nth(variant)).to_have_value("all-reduce")
    expect(fields.first).to_be_focused()
    fields.nth(2).click(click_count=3)
    page.keyboard.type("dot")
    expect(fields.first).to_have_value("dot")
    for variant in (0, 2):  # in the TPU's it is a convolution
        expect(column(page, variant).locator(".cm-searchMatch").first).to_be_attached()
    column(page, 1).get_by_role("button", name="close").click()
    fields.first.click(click_count=3)
    page.keyboard.type("fusion")
    expect(fields.nth(1)).to_have_value("fusion")
    page.get_by_title("Find in every column").click()
    expect(fields).to_have_count(3)
    page.get_by_title("Find in every column").click()
    expect(fields).to_have_count(0)


def test_a_compile_that_failed_after_its_last_text_shows_both(demo: OpenDemo) -> None:
    page = demo("targets")
    page.evaluate(
        """() => demo.emit({ type: 'variant', variant: 2, label: 'gpu:h100:8', target: 'gpu:h100:8', platform: 'cuda',
                 options: {}, state: 'failed', stage: '', elapsed_s: 2, no_run: '',
                 error: { kind: 'CompilationError', message: 'There is no ptxas.' } })"""
    )
    expect(column(page, 2).get_by_role("alert")).to_contain_text("CompilationError There is no ptxas.")
    expect(line(page, 2, "HloModule")).to_be_visible()
    expect(page.locator("[data-pane=optimized] [role=alert]")).to_have_count(1)
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator("[data-pane=optimized] [role=alert]")).to_have_count(0)  # the baseline's text
    page.locator(".insp-chip-main").nth(2).click()
    expect(page.locator("[data-pane=optimized] [role=alert]")).to_have_count(1)


def test_existing_variants_do_not_come_to_the_front(demo: OpenDemo) -> None:
    page = demo("compiling")
    expect(page.locator(".insp-chip-main").first).to_have_attribute("aria-pressed", "true")


def test_a_column_goes_and_comes_back(demo: OpenDemo) -> None:
    page = demo("targets")
    column(page, 1).get_by_label("Hide this column").click()
    expect(page.locator(".insp-column")).to_have_count(2)
    expect(page.locator("[aria-label='Hide this column']:visible")).to_have_count(0)  # of two, none can go
    page.get_by_role("button", name="1 more").click()
    page.get_by_role("menuitem", name="tpu:v5e:2x4").click()
    assert names(page) == TARGETS
    column(page, 2).get_by_label("Hide this column").click()
    page.locator(".insp-chip-main").nth(2).click()  # choosing a variant shows its column
    assert names(page) == TARGETS


def test_each_column_shows_the_state_of_its_variant(demo: OpenDemo) -> None:
    page = demo("compiling")
    expect(column(page, 1).locator(".insp-state-loading")).to_contain_text(re.compile(r"Compiling\d"))
    expect(column(page, 2).locator(".insp-state-failed")).to_contain_text("split_count=-5")
    expect(column(page, 3).locator(".insp-state-empty")).to_contain_text("This variant was canceled")
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.insp-state, .insp-column-head, .insp-column')]
                  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.className)"""
    )
    assert wide == []
    page.evaluate(
        """() => demo.emit({ type: 'variant', variant: 1, label: 'tpu:v5e:2x4', target: 'tpu:v5e:2x4', platform: 'tpu',
                 options: {}, state: 'cancelled', stage: '', elapsed_s: 2, error: null, cached: '', timing: '', pinned: false, no_run: '' })"""
    )
    expect(column(page, 1).locator(".insp-state-empty")).to_contain_text("This variant was canceled")


def test_a_variant_that_is_added_gets_a_column(demo: OpenDemo) -> None:
    page = demo("targets")
    scroller(page, 0).evaluate("e => e.scrollTop = 500")
    page.evaluate(
        """() => demo.emit({ type: 'variant', variant: 7, label: 'new=1', target: 'cpu:8', platform: 'cpu',
                 options: {}, state: 'running', stage: 'compiling', elapsed_s: 0, error: null, cached: '', timing: '', pinned: false, no_run: '' })"""
    )
    expect(column(page, 7).locator(".insp-state-loading")).to_be_visible()
    expect(column(page, 7)).to_be_in_viewport(ratio=0.95)  # four columns need more width than there is
    assert scroller(page, 0).evaluate("e => e.scrollTop") == pytest.approx(500, abs=20)
    page.evaluate("() => demo.emit({ type: 'variant_removed', variant: 7 })")
    assert names(page) == TARGETS


def test_columns_can_be_scrolled_to_where_it_is_narrow(demo: OpenDemo) -> None:
    page = demo("targets", width=700)
    frame = page.locator(".insp-side-by-side")
    assert frame.evaluate("e => e.scrollWidth > e.clientWidth")
    assert all(column(page, v).evaluate("e => e.offsetWidth >= 240") for v in range(3))
    show_variant(page, 2)
    expect(column(page, 2)).to_be_in_viewport(ratio=0.95)


def test_side_by_side_is_remembered(demo: OpenDemo) -> None:
    page = demo("mlp")
    expect(page.locator(".insp-column")).to_have_count(0)  # one platform
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator(".insp-column")).to_have_count(2)
    page = demo("mlp")
    expect(page.locator(".insp-column")).to_have_count(2)
    page.get_by_role("button", name="Text").click()
    page = demo("targets")
    expect(page.locator(".insp-column")).to_have_count(3)  # remembered apart
    page = demo("mlp")
    expect(page.locator(".insp-column")).to_have_count(0)


def test_the_layouts_with_and_without_columns_are_separate(demo: OpenDemo) -> None:
    page = demo("mlp")
    groups = page.locator(".insp-columns > .insp-stack")
    width = lambda: groups.nth(1).evaluate("e => e.offsetWidth")  # noqa: E731 - asked twice
    before = width()
    page.get_by_role("button", name="Side by side").click()
    expect(groups).to_have_count(2)
    assert width() > 1.3 * before
    page.locator("[data-group='0.0']").get_by_label("Pane menu").click()
    page.get_by_role("menuitem", name="Graph", exact=True).click()
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator("[data-group='0.0'] [role=tab]")).to_have_text(["Source", "Outline"])
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator("[data-group='0.0'] [data-tab=graph]")).to_be_visible()


def test_a_comparison_between_platforms_states_the_difference(demo: OpenDemo) -> None:
    page = demo("targets")
    expect(page.get_by_role("button", name="Compare with baseline")).to_be_disabled()
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Compare with baseline").click()
    expect(page.locator(".insp-summary")).to_contain_text("cpu:8 and tpu:v5e:2x4 have different compilers")
    page.get_by_role("button", name="Compare with baseline").click()
    expect(page.locator(".insp-column")).to_have_count(3)  # back to where it came from


def test_a_variant_is_compared_with_the_first_of_its_platform(demo: OpenDemo) -> None:
    page = demo("targets")
    page.evaluate(
        """async () => {
            const { messages } = await (await fetch('targets.json')).json();
            const text = messages.find(({ content: c }) => c.pane === 'optimized' && c.variant === 1);
            demo.emit({ type: 'variant', variant: 7, label: 'new=1', target: 'tpu:v5e:2x4', platform: 'tpu',
                        options: {}, state: 'done', stage: '', elapsed_s: 1, error: null, cached: '', timing: '', pinned: false, no_run: '' });
            const bytes = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
            demo.emit({ ...text.content, variant: 7 }, text.buffers.map(bytes));
            demo.emit({ type: 'diff', baseline: 0, variant: 7, hunks: [[0, 3, 0, 3]], following: [], changes: [],
                        count: 0, summary: 'nearly all differs' });
            demo.emit({ type: 'diff', baseline: 1, variant: 7, hunks: [[0, 1, 0, 1]], following: [], changes: [],
                        count: 0, summary: '1 altered' });
        }"""
    )
    expect(column(page, 7).locator(".insp-change")).to_contain_text("1 altered")
    page.locator(".insp-chip-main").nth(3).click()
    page.get_by_role("button", name="Compare with tpu:v5e:2x4").click()
    expect(page.locator(".insp-summary")).to_have_text("1 altered")
    page.locator(".insp-chip-main").nth(2).click()
    expect(page.get_by_role("button", name="Compare with baseline")).to_be_enabled()


def test_numbers_are_compared_with_the_first_variant_for_the_same_target(demo: OpenDemo) -> None:
    page = demo("targets")
    page.click("[data-tab=stats]")
    page.evaluate(
        """() => {
            const row = { key: 'made_up', label: 'made up', unit: 'count', less_is_better: true, reason: null };
            demo.emit({ type: 'variant', variant: 7, label: 'new=1', target: 'tpu:v5e:2x4', platform: 'tpu',
                        options: {}, state: 'done', stage: '', elapsed_s: 1, error: null, cached: '', timing: '', pinned: false, no_run: '' });
            demo.emit({ type: 'diff', baseline: 1, variant: 7, hunks: [], following: [], changes: [], count: 0,
                        summary: '' });
            [[0, 100], [1, 8], [2, 50], [7, 4]].forEach(([variant, value]) =>
                demo.emit({ type: 'stats', variant, rows: [{ ...row, value }] }));
        }"""
    )
    cells = page.locator(".insp-stats tr", has_text="made up").locator("td")
    expect(cells).to_have_text(["100", "8", "50", re.compile(r"^4\D+4 \(\D+50 %\)$")])
    expect(cells.nth(3).locator(".insp-better")).to_have_attribute("title", "Compared with tpu:v5e:2x4")


def test_a_comparison_on_one_platform_does_not_mention_platforms(demo: OpenDemo) -> None:
    page = demo("mlp")
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Compare with baseline").click()
    expect(page.locator(".insp-summary")).to_contain_text("fusions split")
    expect(page.locator(".insp-summary")).not_to_contain_text("compilers")


def test_a_variant_for_an_absent_target_cannot_run_and_states_why(demo: OpenDemo) -> None:
    page = demo("targets")
    page.click("[data-tab=run]")
    rows = page.locator(".insp-runs tbody tr")
    expect(rows.nth(1)).to_contain_text(re.compile("tpu:v5e:2x4 is .*its programs can be compiled"))
    expect(page.get_by_role("button", name="Run tpu:v5e:2x4")).to_be_disabled()
    page.get_by_role("button", name="Run all").click()
    expect(rows.nth(0).locator(".insp-value")).to_contain_text(re.compile("(µs|ms)"))
    asked = page.evaluate("demo.sent.filter(m => m.type.startsWith('run'))")
    assert asked == [{"type": "run_all", "repeat": 20}]


def test_long_reasons_do_not_break_the_numbers(demo: OpenDemo) -> None:
    page = demo("targets")
    page.evaluate(
        """() => {
            const row = { key: 'made_up', label: 'made up', unit: 'count', less_is_better: false };
            const reason = 'this compiler reports no cost for what is not here, '.repeat(20);
            demo.emit({ type: 'stats', variant: 2, rows: [{ ...row, value: null, reason }] });
        }"""
    )
    cell = page.locator(".insp-stats tr", has_text="made up").locator("td").nth(2)
    expect(cell).to_contain_text("unavailable")
    box = cell.bounding_box()
    assert box is not None
    assert box["width"] < 330
    assert box["height"] < 30


def quickest_click_on_columns(page: Page) -> float:
    """Milliseconds of the quickest click on a line of one of three columns."""
    expect(page.locator(".insp-column .cm-editor")).to_have_count(3, timeout=60_000)
    quickest = quickest_click(page, *(f'[data-variant="{variant}"] .cm-line' for variant in range(3)))
    for variant in range(3):
        expect(column(page, variant).locator(".insp-strong, .insp-chosen").first).to_be_attached()
    return quickest


def test_three_columns_of_200_000_lines_stay_fluid(demo: OpenDemo) -> None:
    short = quickest_click_on_columns(demo("columns", lines=4_000))
    page = demo("columns", lines=200_000)
    assert quickest_click_on_columns(page) < max(
        100, 15 * short
    )  # of fifty times the lines; a slow machine is slow at both
    assert page.locator(".insp-column .cm-line").count() < 1000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_wrapped_lines_go_on_further_in_and_break_between_operands(demo: OpenDemo, theme: str, tmp_path: Path) -> None:
    page = demo("mlp", theme=theme)
    page.set_viewport_size({"width": 900, "height": 900})
    pane = page.locator("[data-pane=optimized]")
    wrap = page.get_by_role("button", name="Wrap long lines").last
    wrap.click()
    expect(pane.locator(".cm-line.insp-hanging").first).to_be_visible()
    long = pane.locator(".cm-line.insp-hanging", has_text=re.compile("fusion|parameter"))
    found = long.evaluate_all(
        """lines => lines.flatMap(line => {
          const range = document.createRange();
          range.selectNodeContents(line);
          const rows = [];
          for (const {left, top} of range.getClientRects()) {
            const last = rows.at(-1);
            if (last && Math.abs(top - last.top) < 9) last.left = Math.min(left, last.left);
            else rows.push({left, top});
          }
          return rows.length > 1 ? [rows.map(({left}) => left)] : [];
        })"""
    )
    page.screenshot(path=tmp_path / f"wrapped-{theme}.png")
    assert found
    for first, *others in found:
        assert all(left > first + 15 for left in others)
    scroller = pane.locator(".cm-scroller")
    assert scroller.evaluate("s => s.scrollWidth - s.clientWidth") <= 1
    wrap.click()
    expect(pane.locator(".insp-hanging")).to_have_count(0)
