"""The outline: scopes and computations with their costs, opened and walked by keyboard, linked with the texts."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from playwright.sync_api import Locator, Page, expect

from inspector import explore
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.widgets.panes import roofline
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def tree(page: Page) -> Locator:
    return page.get_by_role("tree", name="Outline of the optimized HLO")


def arrange(page: Page, by: str) -> None:
    page.get_by_label("Arrange").select_option(by)


def rows(page: Page, level: int) -> Locator:
    return tree(page).locator(f"[role=treeitem][aria-level='{level}']")


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_the_keyboard_moves_through_the_tree_and_highlights_the_texts(
    demo: OpenDemo, theme: str, width: int, tmp_path: Path
) -> None:
    page = demo("mlp", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    page.click("[data-tab=outline]")
    arrange(page, "computation")
    entry = rows(page, 1).first
    expect(entry).to_contain_text("ENTRY")
    expect(entry).to_have_attribute("aria-expanded", "true")
    entry.locator(".insp-tree-sign").click()
    expect(rows(page, 2)).to_have_count(0)
    tree(page).focus()
    for key in ("Home", "ArrowRight"):
        page.keyboard.press(key)
    expect(entry).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    instruction = rows(page, 2).first
    expect(instruction).to_have_attribute("aria-selected", "true")
    current = tree(page).get_attribute("aria-activedescendant")
    assert instruction.get_attribute("id") == current
    name = instruction.get_attribute("title")
    assert name is not None
    expect(page.locator("[data-pane=optimized] .cm-line.insp-chosen")).to_contain_text(f"%{name} = ")
    page.screenshot(path=tmp_path / f"outline-{theme}.png")
    page.keyboard.press("ArrowLeft")  # to the computation, then closed
    page.keyboard.press("ArrowLeft")
    expect(entry).to_have_attribute("aria-expanded", "false")
    expect(entry).to_have_class(re.compile("insp-weak"))  # it hides what is selected


def test_a_selection_elsewhere_is_shown_in_the_outline(demo: OpenDemo) -> None:
    page = demo("mlp")
    page.click("[data-tab=outline]")
    arrange(page, "computation")
    line = page.locator("[data-pane=optimized] .cm-line", has_text=" fusion(").first
    line.click()
    found = re.search(r"%([\w.-]+) = ", line.inner_text())
    assert found is not None
    expect(tree(page).locator("[aria-selected=true]")).to_have_attribute("title", found[1])


def test_computations_are_below_their_callers_and_sorted_by_cost(demo: OpenDemo) -> None:
    def loop(x: jax.Array) -> jax.Array:
        x = jnp.sort(x, axis=0)
        return jax.lax.fori_loop(0, 8, lambda _, y: jnp.tanh(y @ y), x).sum()

    explorer = explore(loop, jnp.ones((64, 64)))
    explorer.wait()
    page = demo("waiting", until=".insp")
    exchange = behind(page, explorer, tab="outline")
    until(page, exchange, page.locator("[data-pane=outline] .insp-share"))
    arrange(page, "computation")
    names = rows(page, 2).evaluate_all("rows => rows.map(row => row.title)")
    opcodes = [re.sub(r"\W.*", "", name) for name in names]
    assert opcodes.index("sort") < opcodes.index("while")
    page.get_by_label("Sort by").select_option("flops")
    expect(page.locator(".insp-outline-head")).to_contain_text("FLOPs")
    loop_row = rows(page, 2).first
    expect(loop_row).to_have_attribute("title", re.compile("^while"))  # all products are in the loop
    loop_row.locator(".insp-tree-sign").click()
    expect(rows(page, 3).filter(has_text="body")).to_have_count(1)
    expect(rows(page, 3).filter(has_text="condition")).to_have_count(1)
    explorer.close()


def test_a_scope_has_the_share_of_the_roofline(demo: OpenDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    none = Unavailable("none")
    peak = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, none, none, "this test")
    monkeypatch.setattr(roofline, "stored_peak", lambda: peak)

    def loss(ws: list[jax.Array], x: jax.Array) -> jax.Array:
        for number, w in enumerate(ws):
            with jax.named_scope(f"layer {number}"):
                x = jnp.tanh(x @ w)
        return (x**2).sum()

    explorer = explore(jax.grad(loss), [jnp.ones((64, 64))] * 3, jnp.ones((64, 64))).wait(120)
    page = demo("waiting", until=".insp")
    exchange = behind(page, explorer, tab="outline")
    until(page, exchange, rows(page, 2).filter(has_text="layer"))
    expect(page.get_by_label("Arrange")).to_have_value("scope")
    head = page.locator(".insp-outline-head")
    expect(head).to_contain_text("Estimated time: ≈ ")
    expect(rows(page, 1).first).to_have_attribute("title", re.compile("^forward: "))
    compiled = explorer.baseline.compiled
    groups = {group.name: group.share for group in compiled.roofline(peak).groups("scope")}
    for phase, stack in (("forward", "jvp({})"), ("backward", "transpose(jvp({}))")):
        for layer in ("layer 0", "layer 1"):
            tree(page).focus()
            page.keyboard.press("Home")
            share = groups[f"jit(loss)/{stack.format(layer)}"]
            shown = shown_share(page, phase, layer)
            assert shown == pytest.approx(100 * share, abs=0.5), (phase, layer)
    row = rows(page, 2).filter(has_text="layer 1").first
    row.locator(".insp-tree-sign").click()
    kernel = rows(page, 3).first
    kernel.click()
    expect(page.locator("[data-pane=optimized] .cm-line.insp-chosen")).to_contain_text(
        f"%{kernel.get_attribute('title')} = "
    )
    explorer.close()


def shown_share(page: Page, phase: str, scope: str) -> float:
    """Returns the share that a scope of a phase shows, in percent; the rows are walked by keyboard."""
    inside = False
    for _ in range(100):
        current = page.locator(f"[id='{tree(page).get_attribute('aria-activedescendant')}']")
        title = current.get_attribute("title") or ""
        if current.get_attribute("aria-level") == "1":
            inside = title.startswith(f"{phase}: ")
        elif inside and title.startswith(f"{scope}: "):
            return float(current.locator(".insp-share").inner_text().removesuffix(" %").replace("<", ""))
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"no {scope} in {phase}")


def test_a_program_without_scopes_is_arranged_by_computation(demo: OpenDemo) -> None:
    explorer = explore(lambda x, y: x @ y, jnp.ones((64, 64)), jnp.ones((64, 64))).wait(120)
    page = demo("waiting", until=".insp")
    exchange = behind(page, explorer, tab="outline")
    until(page, exchange, page.locator("[data-pane=outline] .insp-outline-head .insp-number"))
    expect(page.get_by_label("Arrange")).to_have_value("computation")
    expect(rows(page, 1).first).to_contain_text("ENTRY")
    arrange(page, "scope")
    expect(rows(page, 1)).to_have_count(1)  # the product
    explorer.close()


def test_a_narrow_outline_keeps_its_names(demo: OpenDemo) -> None:
    explorer = explore(lambda x, y: jnp.tanh(x @ y) @ y, jnp.ones((64, 64)), jnp.ones((64, 64))).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="outline")
    until(page, exchange, tree(page).locator(".insp-number:visible").first)
    count = page.locator(".insp-outline-head .insp-number:visible").count()
    assert count >= 2
    group = page.locator(".insp-group:has([data-tab=outline])")
    for width, numbers in [(400, min(count, 2)), (180, 1)]:
        group.evaluate("(e, width) => { e.style.flex = 'none'; e.style.width = `${width}px`; }", width)
        expect(page.locator(".insp-outline-head .insp-number:visible")).to_have_count(numbers)
        # in one step: the rows are drawn again for the new width
        width_now = tree(page).evaluate("e => e.querySelector('.insp-outline-name').getBoundingClientRect().width")
        assert width_now >= 40
    explorer.close()
