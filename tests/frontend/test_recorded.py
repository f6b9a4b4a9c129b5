"""The Passes and the Code pane over recorded replies: asked for, shown, linked, refused."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.frontend.behind import OpenDemo
from tests.frontend.menus import show_pane

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def sent(page: Page, kind: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = page.evaluate("kind => demo.sent.filter(m => m.type === kind)", kind)
    return messages


def record(page: Page, pane: str) -> None:
    show_pane(page, pane)
    page.wait_for_selector(f"[data-pane={pane}] .cm-line")


def rows(page: Page, pane: str) -> list[str]:
    return page.locator(f"[data-pane={pane}] tbody tr th").all_inner_texts()


def test_a_pane_begins_recording_when_it_is_opened(demo: OpenDemo) -> None:
    page = demo("recorded", slow=1)
    assert sent(page, "record") == []
    page.click("[data-tab=passes]")
    expect(page.locator("[data-pane=passes] .insp-clock")).to_be_visible()
    page.click("[data-tab=stats]")
    page.click("[data-tab=passes]")
    assert sent(page, "record") == [{"type": "record", "variant": 0, "product": "passes"}]


def test_a_compile_of_more_than_20_seconds_is_repeated_only_on_request(demo: OpenDemo) -> None:
    page = demo("recorded")
    page.evaluate("""() => { const said = [...demo.sent]; demo.emit({ type: 'variant', variant: 0, label: 'baseline',
        target: 'cpu', platform: 'cpu', options: {}, state: 'done', stage: '', elapsed_s: 21, error: null, cached: '',
        no_run: '', warnings: [], pinned: false, origin: '', timing: '', supposed: '', profile: 0 }) }""")
    page.click("[data-tab=passes]")
    expect(page.locator("[data-pane=passes]")).to_contain_text("not recorded yet")
    assert sent(page, "record") == []
    page.get_by_role("button", name="Record", exact=True).click()
    page.wait_for_selector("[data-pane=passes] .cm-line")
    assert sent(page, "record") == [{"type": "record", "variant": 0, "product": "passes"}]


def test_facts_of_machine_code_stay_apart_on_a_page_that_arranges_lists_itself(demo: OpenDemo) -> None:
    """JupyterLab's rules for terms in a notebook's output."""
    page = demo("recorded")
    page.add_style_tag(content=".page dt { float: left; width: 20%; font-weight: bold } .page dd { margin-left: 30% }")
    page.evaluate("document.body.classList.add('page')")
    record(page, "code")
    facts = page.locator("[data-pane=code] .insp-kernel-facts > div")
    expect(facts.first).to_be_visible()
    for fact in facts.all():
        label, value = (fact.locator(name).bounding_box() for name in ("dt", "dd"))
        assert label is not None
        assert value is not None
        assert label["x"] + label["width"] <= value["x"] or label["y"] + label["height"] <= value["y"] + 1
        scroll, inner = fact.locator("dt").evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert scroll <= inner


@pytest.mark.parametrize(("pane", "name"), [("passes", "Pass"), ("code", "Kernel")])
def test_the_list_can_be_made_wider_and_stays_so(demo: OpenDemo, pane: str, name: str) -> None:
    page = demo("recorded")
    record(page, pane)
    border = page.get_by_label(f"{name} list width")
    width = lambda: page.locator(f"[data-pane={pane}] .insp-rowlist").evaluate("e => e.offsetWidth")  # noqa: E731
    before, box = width(), border.bounding_box()
    assert box is not None
    page.mouse.move(box["x"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 80, box["y"] + 20, steps=3)
    page.mouse.up()
    assert width() == pytest.approx(before + 80, abs=3)
    page.click("[data-tab=stats]")
    page.click(f"[data-tab={pane}]")
    assert width() == pytest.approx(before + 80, abs=3)
    border.press("ArrowRight")
    assert width() > before + 90
    border.dblclick()
    assert width() == before


def test_passes_that_changed_the_program_are_listed_with_their_change(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    listed = rows(page, "passes")
    assert {"algsimp", "fusion", "layout-assignment"} <= set(listed)
    expect(page.locator("[data-pane=passes] .insp-note")).to_contain_text(
        re.compile(rf"{len(listed)} passes of \d+ changed the program")
    )
    page.locator("[data-pane=passes] tr", has_text=re.compile("^●?fusion")).first.click()
    summary = page.locator("[data-pane=passes] .insp-summary")
    expect(summary).to_contain_text(re.compile(r"fusion HLO passes after layout assignment.*Fused \d+ into \d+"))
    expect(page.locator("[data-pane=passes] .cm-deletedChunk").first).to_be_visible()
    page.get_by_role("button", name="Split", exact=True).click()
    expect(page.locator("[data-pane=passes] .cm-merge-b .cm-changedLine").first).to_be_visible()


def test_all_passes_can_be_listed_filtered_and_walked_by_keys(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    changed = len(rows(page, "passes"))
    page.get_by_role("button", name="All", exact=True).click()
    assert len(rows(page, "passes")) > 4 * changed
    page.get_by_role("button", name="Changed", exact=True).click()
    page.get_by_label("Filter passes").fill("layout assig")
    filtered = rows(page, "passes")
    assert 0 < len(filtered) < changed
    page.get_by_label("Filter passes").fill("nosuchpass")
    expect(page.locator("[data-pane=passes] tbody")).to_contain_text("No matches")
    page.get_by_label("Filter passes").fill("")
    page.locator("[data-pane=passes] tr[aria-selected=true]").focus()
    page.keyboard.press("ArrowDown")
    second = rows(page, "passes")[1]
    expect(page.locator("[data-pane=passes] tr[aria-selected=true] th")).to_have_text(second)
    expect(page.locator("[data-pane=passes] .insp-summary")).to_contain_text(second)


def test_the_code_of_a_kernel_is_shown_stage_by_stage(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "code")
    stage = page.get_by_label("Stage")
    assert stage.locator("option").all_inner_texts() == ["LLVM IR", "LLVM IR, optimized", "assembly"]
    expect(page.locator("[data-pane=code] .insp-summary")).to_contain_text("assembly")
    first = rows(page, "code")[0]
    expect(page.locator("[data-pane=code] .cm-line").first).to_have_text(f"{first}:")
    stage.select_option("LLVM IR")
    expect(page.locator("[data-pane=code] .cm-content")).to_contain_text(f"@{first}(")
    expect(page.locator("[data-pane=code] .insp-tok-op", has_text="getelementptr").first).to_be_visible()


def test_code_that_cannot_be_disassembled_is_shown_at_the_previous_stage(demo: OpenDemo) -> None:
    page = demo("recorded")
    page.evaluate(
        """async () => {
            const { products } = await (await fetch('recorded.json')).json();
            const { buffers } = products.assembly.messages.find(({ content }) => content.type === 'code');
            const bytes = Uint8Array.from(atob(buffers[0]), c => c.charCodeAt(0));
            const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
            const { entries } = await new Response(unpacked).json();
            const { model } = demo, send = model.send;
            model.send = message => {
                if (message.type !== 'code' || entries[message.index].stage !== 'assembly') return send(message);
                demo.sent.push(message);
                const { id, variant, index } = message, why = { facts: [], reason: 'no capstone', remedy: 'install it' };
                setTimeout(() => demo.emit({ type: 'code_text', id, variant, index, ...why, error: null }), 40);
            };
        }"""
    )
    record(page, "code")
    stage, summary = page.get_by_label("Stage"), page.locator("[data-pane=code] .insp-summary")
    offered = ["LLVM IR", "LLVM IR, optimized", "assembly (unavailable)"]
    expect(summary).to_contain_text("LLVM IR, optimized")
    expect(stage).to_have_value("LLVM IR, optimized")
    assert stage.locator("option").all_inner_texts() == offered
    second = rows(page, "code")[1]
    page.locator("[data-pane=code] tr", has_text=second).first.click()
    expect(summary).to_contain_text(f"{second} LLVM IR, optimized")
    assert len(sent(page, "code")) == 3  # the disassembler is not asked for again
    stage.select_option("assembly")
    expect(page.locator("[data-pane=code]")).to_contain_text("assembly: no capstone")
    expect(page.locator("[data-pane=code]")).to_contain_text("install it")
    expect(stage).to_have_value("assembly")


def test_an_instruction_leads_to_its_kernel_and_back(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "code")
    kernel = rows(page, "code")[3]
    page.locator("[data-pane=code] tr", has_text=kernel).first.click()
    chosen = page.locator("[data-pane=optimized] .insp-chosen")
    expect(chosen).to_contain_text(f"%{kernel} = ")
    other = page.locator(
        "[data-pane=optimized] .cm-line", has_text=re.compile(r"^ {2}(ROOT )?%(?!ynn)\w+_fusion[.\d]* = ")
    ).first
    name = re.search(r"%([\w.\-]+) =", other.inner_text())
    assert name is not None
    other.click(position={"x": 60, "y": 8})
    expect(page.locator("[data-pane=code] tr[aria-selected=true] th")).to_have_text(name[1])


def test_a_kernel_has_its_size_and_no_lines_that_the_compiler_did_not_write(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "code")
    facts = page.locator("[data-pane=code] .insp-kernel-facts")
    assert re.fullmatch(r"machine instructions\s*\d+\s*code\s*[\d.]+ \w+", facts.inner_text())
    expect(page.locator("[data-pane=code] .insp-summary")).to_contain_text("no debug lines")
    page.locator("[data-pane=code] .cm-line").nth(2).click()
    expect(page.locator("[data-pane=code] .cm-line.insp-chosen")).to_have_count(0)


def test_an_instruction_that_calls_a_library_names_it(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "code")
    line = page.locator(
        "[data-pane=optimized] .cm-line", has_text=re.compile(r"^ {2}(ROOT )?%ynn_fusion[.\d]* = ")
    ).first
    name = re.search(r"%([\w.\-]+) =", line.inner_text())
    assert name is not None
    line.click(position={"x": 60, "y": 8})
    pane = page.locator("[data-pane=code]")
    expect(pane).to_contain_text("Calls YNNPACK: no code here")
    expect(pane.locator("tr[aria-selected=true] th")).to_have_text(f"{name[1]} YNNPACK")
    expect(page.get_by_label("Stage")).to_be_hidden()
    kernel = rows(page, "code")[0]
    pane.locator("tr", has_text=kernel).first.click()
    expect(pane.locator(".cm-line").first).to_have_text(f"{kernel}:")


def test_a_line_with_debug_information_leads_to_its_source_line_and_back(demo: OpenDemo) -> None:
    page = demo("recorded")
    page.evaluate(
        """async () => {
            const { messages } = await (await fetch('recorded.json')).json();
            const { buffers } = messages.find(({ content: c }) => c.type === 'document' && c.pane === 'source');
            const bytes = Uint8Array.from(atob(buffers[2]), c => c.charCodeAt(0));
            const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
            const { files } = await new Response(unpacked).json();
            const packed = async part => new DataView(await new Response(
                new Blob([part]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer());
            const origins = { files, libraries: [false], origins: [[['', [[0, 17]]]]], phases: [] };
            const parts = ['head\\n  one\\n  two\\n  other', new Int32Array([-1, 0, 0, -1]), JSON.stringify(origins),
                JSON.stringify({ first_line: 0, labels: null }), ''];
            const reply = { type: 'code_text', facts: [], reason: '', remedy: '', error: null };
            const { model } = demo, send = model.send;
            model.send = async message => {
                if (message.type !== 'code') return send(message);
                const { id, variant, index } = message;
                demo.emit({ ...reply, id, variant, index }, await Promise.all(parts.map(packed)));
            };
        }"""
    )
    record(page, "code")
    pane, source = page.locator("[data-pane=code]"), page.locator("[data-pane=source]")
    kernel = rows(page, "code")[0]
    expect(pane.locator(".insp-summary")).to_contain_text("4 lines, 2 linked lines")
    pane.locator(".cm-line", has_text="two").click()
    expect(source.locator(".cm-line.insp-strong")).to_have_text("    return x @ w + b")
    expect(page.locator("[data-pane=optimized] .cm-line.insp-chosen")).to_contain_text(f"%{kernel} = ")
    expect(pane.locator(".cm-line.insp-chosen")).to_have_text("  two")
    page.keyboard.press("ArrowUp")
    expect(pane.locator(".cm-line.insp-chosen")).to_have_text("  one")
    page.keyboard.press("ArrowUp")  # the line above has no debug information
    expect(pane.locator(".cm-line.insp-chosen")).to_have_text("  one")
    page.get_by_label("Stage").select_option("LLVM IR")
    expect(pane.locator(".insp-summary")).to_contain_text("LLVM IR")
    expect(pane.locator(".cm-line.insp-chosen")).to_have_count(0)  # a line of another text
    page.keyboard.press("Escape")
    source.locator(".cm-line", has_text="return x @ w + b").click()
    expect(pane.locator(".cm-line.insp-strong")).to_have_text(["  one", "  two"])


def test_recording_can_be_canceled_and_restarted(demo: OpenDemo) -> None:
    page = demo("recorded", slow=1)
    page.click("[data-tab=code]")
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert sent(page, "cancel") == [{"type": "cancel", "variant": 0}]
    expect(page.locator("[data-pane=code]")).to_contain_text("Recording was canceled", timeout=5000)
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_visible()


def test_a_refusal_is_shown_with_its_words(demo: OpenDemo) -> None:
    page = demo("recorded", refused=1)
    page.click("[data-tab=passes]")
    pane = page.locator("[data-pane=passes]")
    expect(pane).to_contain_text("Recording passes failed")
    expect(pane.get_by_role("button", name="Try again")).to_be_visible()
    expect(pane.locator(".insp-state-message")).to_contain_text("XLA refused the request")


@pytest.mark.parametrize("width", [420, 900])
def test_list_and_text_fit_narrow_notebooks(demo: OpenDemo, width: int) -> None:
    page = demo("recorded", until=".cm-line", width=width)
    record(page, "passes")
    pane = page.locator("[data-pane=passes]")
    box, inner = pane.bounding_box(), pane.locator(".insp-recorded-detail").bounding_box()
    assert box is not None
    assert inner is not None
    assert inner["x"] + inner["width"] <= box["x"] + box["width"] + 1
    assert inner["width"] > 280
    assert inner["height"] > 100


def test_lines_of_a_pass_are_linked_to_the_source(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    page.locator("[data-pane=passes] tr", has_text="layout-assignment").first.click()
    page.wait_for_selector("[data-pane=passes] .insp-summary:has-text('layout-assignment')")
    page.get_by_role("button", name="Whole", exact=True).click()
    page.wait_for_selector("[data-pane=passes] .cm-collapsedLines")
    page.locator("[data-pane=source] .cm-line", has_text="jnp.mean(jnp.square").first.click(position={"x": 60, "y": 8})
    lit = page.locator("[data-pane=passes] .cm-line.insp-strong, [data-pane=passes] .cm-line.insp-chosen")
    expect(lit.first).to_be_in_viewport()
    lit.first.click(position={"x": 60, "y": 8})
    expect(page.locator("[data-pane=source] .cm-line.insp-strong").first).to_contain_text("jnp.mean(jnp.square")


# ------------------------------------------------------------------ the strip, following, variants


def plot(page: Page) -> Locator:
    return page.locator("[data-pane=passes] .insp-pass-plot")


def test_arrow_keys_step_through_the_passes_that_changed_something(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    listed = rows(page, "passes")
    chosen = page.locator("[data-pane=passes] tr[aria-selected=true] th")
    plot(page).focus()
    for name in listed[1:4]:
        page.keyboard.press("ArrowRight")
        expect(chosen).to_have_text(name)
        expect(page.locator("[data-pane=passes] .insp-pass-said")).to_contain_text(name)
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_have_text(listed[2])
    page.keyboard.press("End")
    expect(chosen).to_have_text(listed[-1])
    page.keyboard.press("ArrowRight")
    expect(chosen).to_have_text(listed[-1])
    page.keyboard.press("Home")
    expect(chosen).to_have_text(listed[0])
    expect(plot(page)).to_have_attribute("aria-valuetext", re.compile(listed[0]))


def test_the_strip_has_durations_curves_and_the_time_of_the_whole(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    pane = page.locator("[data-pane=passes]")
    assert (
        pane.locator(".insp-pass-curve").evaluate_all("all => all.map(e => e.getAttribute('d').length > 5)")
        == [True] * 4
    )
    linear, log = (
        [
            page.get_by_role("button", name=scale, exact=True).click(),
            pane.locator(".insp-pass-bar-changed").get_attribute("d"),
        ][1]
        for scale in ("Linear", "Log")
    )
    assert linear != log
    parts = pane.locator(".insp-pass-part")
    titles = parts.evaluate_all("all => all.map(e => e.title)")
    assert titles[0].startswith("tracing to a jaxpr (JAX)")
    assert any(title.startswith("code generation: LLVM (XLA)") for title in titles)
    widths = parts.evaluate_all("all => all.map(e => e.offsetWidth)")
    assert sum(widths) == pytest.approx(
        pane.locator(".insp-pass-times").evaluate("e => e.offsetWidth"), abs=len(widths)
    )
    plot(page).press("End")
    expect(pane.locator(".insp-pass-legend")).to_contain_text(
        re.compile(r"instructions [\d,]+.*fusions [\d,]+.*written.*collectives 0")
    )


def test_changes_of_a_pass_are_a_list_that_links_to_the_lines(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    page.locator("[data-pane=passes] tr", has_text=re.compile("^●?fusion")).first.click()
    event = page.locator("[data-pane=passes] .insp-pass-events li").first
    expect(event).to_contain_text("fused")
    name = event.locator(".insp-pass-name").last.inner_text()
    event.locator(".insp-pass-name").last.click()
    expect(page.locator("[data-pane=passes] .cm-line.insp-chosen").first).to_contain_text(f"%{name} = ")
    expect(page.locator("[data-pane=optimized] .insp-chosen").first).to_contain_text(f"%{name} = ")


@pytest.mark.parametrize("view", ["Unified", "Split"])
def test_a_click_on_a_name_shows_its_line_below_or_in_a_tall_block_of_removed_lines(demo: OpenDemo, view: str) -> None:
    page = demo("recorded")
    page.set_viewport_size({"width": 1400, "height": 420})  # lower than the blocks
    record(page, "passes")
    page.locator("[data-pane=passes] tr", has_text=re.compile("^●?fusion")).first.click()
    page.get_by_role("button", name=view, exact=True).click()
    names = page.locator("[data-pane=passes] .insp-pass-name")
    expect(names.first).to_be_visible()
    hidden = []
    for i in range(names.count()):
        names.nth(i).click()
        page.wait_for_timeout(100)
        name = names.nth(i).inner_text()
        if not page.locator("[data-pane=passes]").evaluate(_IS_SHOWN, f"%{name} = "):
            hidden.append(name)
    assert names.count() > 20
    assert hidden == []


_IS_SHOWN = """(pane, start) => {
  const seen = (pane.querySelector(".cm-mergeView") ?? pane.querySelector(".insp-diff .cm-scroller")).getBoundingClientRect();
  return [...pane.querySelectorAll(".insp-diff .cm-line, .insp-diff .cm-deletedLine")]
    .filter((line) => line.textContent.trim().replace("ROOT ", "").startsWith(start))
    .some((line) => {
      const { top, bottom } = line.getBoundingClientRect();
      return top >= seen.top - 1 && bottom <= seen.bottom + 1;
    });
}"""


def test_any_two_modules_are_compared_and_the_whole_can_be_read(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    plot(page).press("End")
    expect(page.locator("[data-pane=passes] .insp-pass-said")).to_contain_text("scheduling")
    page.get_by_label("Compare with", exact=True).select_option("-1")
    expect(page.locator("[data-pane=passes] .insp-pass-said")).to_contain_text(re.compile("Fused"))
    assert sent(page, "pass")[-1]["since"] == -1
    page.get_by_label("Compare with", exact=True).select_option("itself")
    page.get_by_role("button", name="Whole", exact=True).click()
    expect(page.locator("[data-pane=passes] .cm-line").first).to_contain_text("HloModule")
    assert sent(page, "pass")[-1]["whole"] is True


def test_a_selected_instruction_is_followed_and_each_step_leads_to_its_pass(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    follow = page.get_by_role("button", name="Follow", exact=True)
    expect(follow).to_be_disabled()
    page.locator(
        "[data-pane=optimized] .cm-line", has_text=re.compile(r"^ {2}(ROOT )?%\w*fusion[.\d]* = ")
    ).first.click(position={"x": 60, "y": 8})
    follow.click()
    (asked,) = sent(page, "follow")
    assert asked["instruction"]
    assert asked["index"] is None
    story = page.locator("[data-pane=passes] .insp-pass-story")
    expect(story).to_contain_text("in the compiled program as")
    assert page.locator("[data-pane=passes] .insp-pass-touched").get_attribute("d")
    last = story.locator("li button").last
    name = last.locator(".insp-pass-where").inner_text().partition(" ")[2]
    last.evaluate("e => e.click()")
    expect(page.locator("[data-pane=passes] tr[aria-selected=true] th")).to_have_text(name)
    expect(story.locator("li.insp-chosen")).to_have_count(1)
    page.get_by_role("button", name="Stop following").click()
    expect(story).to_have_count(0)


def test_a_line_of_a_pass_is_followed_by_its_name_there(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    plot(page).press("ArrowRight")
    chosen = page.locator("[data-pane=passes] tr[aria-selected=true] th").inner_text()
    expect(page.locator("[data-pane=passes] .insp-pass-said")).to_contain_text(chosen)  # its text is there
    line = page.locator("[data-pane=passes] .cm-line", has_text=re.compile(r"^ {2}(ROOT )?%[\w.\-]+ = ")).first
    line.click(position={"x": 40, "y": 8})
    page.get_by_role("button", name="Follow", exact=True).click()
    (asked,) = sent(page, "follow")
    assert f"%{asked['instruction']} = " in line.inner_text()
    assert isinstance(asked["index"], int)


def test_a_variant_without_a_pass_or_later_passes_is_one_press(demo: OpenDemo) -> None:
    page = demo("recorded")
    record(page, "passes")
    page.locator("[data-pane=passes] tr", has_text=re.compile("^●?algsimp")).first.click()
    expect(page.locator("[data-pane=passes] .insp-pass-said")).to_contain_text("algsimp")
    page.get_by_role("button", name="Without pass", exact=True).click()
    page.get_by_role("button", name="Stop after pass", exact=True).click()
    assert [message["which"] for message in sent(page, "pass_variant")] == ["without", "until"]
    page.locator("[data-pane=passes] tr", has_text=re.compile("^●?scheduling")).first.click()
    button = page.get_by_role("button", name="Without pass", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", re.compile("between two pipelines"))
