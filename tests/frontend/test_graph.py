"""The Graph pane in Chromium: boxes opened and closed in place, by pointer and keyboard, linked to the texts, exported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pygraphviz
import pytest
from playwright.sync_api import Locator, Page, expect

import inspector
from tests.frontend.test_instructions import behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

OpenDemo = Callable[..., Page]
AT = {"x": 60, "y": 8}
FRAMES = "async (n) => { while (n--) await new Promise(requestAnimationFrame); }"
CHOSEN = "document.querySelector('.insp-g-node.insp-chosen').getBoundingClientRect()"


def opened(demo: OpenDemo, **query: str | int) -> Page:
    """The demo page with the graph as large as it can be."""
    page = demo(**query)
    page.click("[data-tab=graph]")
    page.locator("[data-group=dock]").get_by_label("Maximize").click()
    page.wait_for_selector(".insp-g-node")
    page.evaluate(FRAMES, 6)  # the larger pane, the view fitted to it, the overview, and the view fitted beside it
    return page


def node(page: Page, title: str) -> Locator:
    return page.locator(f'.insp-g-node[data-title="{title}"]')


def corner(box: Locator) -> tuple[float, float]:
    found = box.locator("rect").first.bounding_box()
    assert found is not None
    return found["x"], found["y"]


def press(box: Locator) -> None:
    box.locator(".insp-g-title").click()


def test_a_box_opens_and_closes_where_it_stands(demo: OpenDemo) -> None:
    page = opened(demo)
    assert page.evaluate("demo.sent.filter(m => m.type === 'graph').length") == 1
    box = page.locator(".insp-g-box[aria-expanded=false]").nth(1)
    title, before = box.get_attribute("data-title"), page.locator(".insp-g-node").count()
    assert title is not None
    at = corner(node(page, title))
    press(node(page, title))
    expect(node(page, title)).to_have_attribute("aria-expanded", "true")
    assert page.locator(".insp-g-node").count() > before
    assert corner(node(page, title)) == pytest.approx(at, abs=1)
    press(node(page, title))
    expect(node(page, title)).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".insp-g-node")).to_have_count(before)
    assert corner(node(page, title)) == pytest.approx(at, abs=1)


def test_a_box_keeps_its_place_before_the_next_frame(demo: OpenDemo) -> None:
    page = opened(demo)
    box = page.locator(".insp-g-box[aria-expanded=false]").nth(1)
    title = box.get_attribute("data-title")
    assert title is not None
    at = corner(node(page, title))
    page.evaluate("requestAnimationFrame = () => 0")
    press(node(page, title))
    expect(node(page, title)).to_have_attribute("aria-expanded", "true")
    assert corner(node(page, title)) == pytest.approx(at, abs=1)


def test_a_box_keeps_its_place_where_the_selection_is_out_of_view(demo: OpenDemo) -> None:
    page = demo()
    page.locator("[data-pane=optimized] .cm-line", has_text="ROOT").last.click(position=AT)
    page.click("[data-tab=graph]")
    chosen, box = page.locator(".insp-g-node.insp-chosen"), node(page, "forward")
    frame = page.locator(".insp-g-canvas").bounding_box()
    assert frame is not None
    bottom = frame["y"] + frame["height"]
    expect(chosen).to_have_count(1)
    page.wait_for_function(f"{CHOSEN}.bottom < {bottom}")
    page.mouse.move(frame["x"] + 30, frame["y"] + 30)
    page.mouse.down()
    page.mouse.move(frame["x"] + 30, frame["y"] + 205, steps=3)
    page.mouse.up()
    page.wait_for_function(f"{CHOSEN}.top > {bottom}")
    at = corner(box)
    press(box)
    expect(box).to_have_attribute("aria-expanded", "true")
    page.evaluate(FRAMES, 6)
    assert corner(box) == pytest.approx(at, abs=1)


def test_nodes_lie_in_the_boxes_that_hold_them_and_not_on_each_other(demo: OpenDemo) -> None:
    page = opened(demo)
    press(page.locator(".insp-g-box[aria-expanded=false]").last)
    rects = page.evaluate(
        """() => [...document.querySelectorAll('.insp-g-node:not(.insp-g-open) > rect')].map(e => {
          const { x, y, right, bottom } = e.getBoundingClientRect(); return [x, y, right, bottom]; })"""
    )
    for number, (x, y, right, bottom) in enumerate(rects):
        for other in rects[number + 1 :]:
            assert right <= other[0] or other[2] <= x or bottom <= other[1] or other[3] <= y
    words = page.evaluate(
        """() => [...document.querySelectorAll('.insp-g-node:not(.insp-g-open)')].flatMap(e => {
          const width = Number(e.querySelector('rect').getAttribute('width'));
          return [...e.querySelectorAll('text')].filter(t => t.getBBox().x + t.getBBox().width > width).map(t => t.textContent); })"""
    )
    assert words == []


def test_everything_by_keyboard(demo: OpenDemo) -> None:
    page = opened(demo)
    canvas = page.get_by_role("tree")
    canvas.focus()
    page.keyboard.press("ArrowDown")
    reached = lambda: page.locator(f"[id='{canvas.get_attribute('aria-activedescendant')}']")  # noqa: E731
    seen = {reached().get_attribute("data-title")}
    for _ in range(4):
        page.keyboard.press("ArrowDown")
        seen.add(reached().get_attribute("data-title"))
    assert len(seen) > 2
    for key in ("ArrowUp",) * 8 + ("ArrowRight", "ArrowLeft", "ArrowLeft") * 3:
        if reached().get_attribute("aria-expanded") == "false" and "insp-g-box" in (
            reached().get_attribute("class") or ""
        ):
            break
        page.keyboard.press(key)
    box = reached().get_attribute("data-title")
    assert box is not None
    page.keyboard.press("Enter")
    expect(node(page, box)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(node(page, box)).to_have_attribute("aria-expanded", "false")
    expect(canvas).to_be_focused()
    unsaid = page.get_by_role("treeitem").evaluate_all(
        """all => all.filter(e => { const seen = [...e.querySelectorAll('.insp-g-title, .insp-g-words')];
          return !e.getAttribute('aria-label').startsWith(seen.map(t => t.textContent).join(' ').trim()); }).length"""
    )
    assert unsaid == 0


def test_search_matches_are_opened_and_shown(demo: OpenDemo) -> None:
    page = opened(demo)
    name = page.evaluate("""() => [...document.querySelectorAll('[data-pane=optimized] .cm-line')].length""")
    assert name is not None
    field = page.get_by_label(re.compile("Find in graph"))
    field.fill("DOT")
    expect(page.locator(".insp-g-findings")).to_have_text(re.compile(r"^\d+ match"))
    field.press("Enter")
    found = page.locator(".insp-g-node.insp-g-found")
    expect(found).to_have_count(1)
    expect(found).to_be_in_viewport()
    expect(page.locator(".insp-g-findings")).to_have_text(re.compile(r"^1 of \d+$"))
    first = found.get_attribute("data-title")
    field.press("Enter")
    expect(node(page, first or "")).not_to_have_class(re.compile("insp-g-found"))
    field.press("Escape")
    expect(found).to_have_count(0)


def test_a_line_of_text_lights_its_node_or_the_box_that_holds_it(demo: OpenDemo) -> None:
    page = demo()
    page.click("[data-tab=graph]")
    page.wait_for_selector(".insp-g-node")
    line = page.locator("[data-pane=source] .cm-line", has_text="logits = h @").first
    line.click(position=AT)
    expect(page.locator(".insp-g-node:is(.insp-strong, .insp-chosen)").first).to_be_visible()


def test_the_graph_sends_no_further_requests(demo: OpenDemo) -> None:
    page = opened(demo)
    page.wait_for_timeout(200)
    asked = page.evaluate("demo.sent.filter(m => m.type !== 'select').length")
    box = page.locator(".insp-g-box[aria-expanded=false]").nth(1)
    press(box)
    page.get_by_label("Node color").select_option("flops")
    expect(page.locator(".insp-g-legend")).to_contain_text("FLOPs")
    page.get_by_label("Show current box only").click()
    expect(page.locator(".insp-g-trail button")).not_to_have_count(0)
    page.locator(".insp-g-trail button").first.click()
    expect(page.locator(".insp-g-trail")).to_be_hidden()
    assert page.evaluate("demo.sent.filter(m => m.type !== 'select').length") == asked


def download(page: Page, form: str, folder: Path) -> Path:
    page.get_by_label("Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=form).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_the_visible_graph_is_exported(demo: OpenDemo, tmp_path: Path) -> None:
    page = opened(demo)
    titles = page.locator(".insp-g-node").evaluate_all("all => all.map(e => e.dataset.title)")
    picture = ET.fromstring(download(page, "SVG", tmp_path).read_text())
    texts = [e.text for e in picture.iter() if e.tag.endswith("text")]
    assert len(titles) == len([e for e in picture.iter() if e.tag.endswith("g") and e.get("data-node")])
    assert all(any(text and text.rstrip("…")[:12] in title for text in texts) for title in titles)
    fills = {e.get("fill") for e in picture.iter() if e.tag.endswith("rect")}
    assert len(fills) > 2
    assert all(fill and fill.startswith(("rgb", "color", "none")) for fill in fills)
    assert download(page, "PNG", tmp_path).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    drawn = pygraphviz.AGraph(string=download(page, "DOT", tmp_path).read_text())
    closed = page.locator(".insp-g-node:not(.insp-g-open)").count()
    assert len(drawn.nodes()) == closed


def attention(w: dict[str, Any], x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    with jax.named_scope("attention"):
        q, k, v = (x @ w[name] for name in "qkv")
        x = x + jax.nn.softmax(q @ k.T) @ v
    with jax.named_scope("mlp"):
        return x + jnp.tanh(x @ w["up"]) @ w["up"].T


def train_step(ws: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(ws: Any) -> Any:
        y = x
        for number, w in enumerate(ws):
            with jax.named_scope(f"layer_{number}"):
                y = attention(w, y)
        return jnp.mean(y**2)

    return jax.value_and_grad(loss)(ws)


@pytest.mark.parametrize(("theme", "width"), [("light", 1400), ("dark", 900)])
def test_a_step_with_scopes(demo: OpenDemo, theme: str, width: int, tmp_path: Path) -> None:
    import jax.numpy as jnp

    w = {name: jnp.ones((64, 64)) for name in ("q", "k", "v", "up")}
    explorer = inspector.explore(train_step, [w, w], jnp.ones((32, 64))).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme, width=width)
    exchange = behind(page, explorer, tab="graph")
    page.locator("[data-group=dock]").get_by_label("Maximize").click()
    layer = node(page, "layer_1, backward")
    until(page, exchange, layer)
    until(page, exchange, page.locator(".insp-g-legend"))
    if layer.get_attribute("aria-expanded") == "false":
        press(layer)
    expect(node(page, "attention, backward").first).to_be_visible()
    expect(node(page, "layer_0, forward")).to_be_visible()
    page.get_by_label("Node color").select_option("bytes")
    until(page, exchange, page.locator(".insp-g-scale"))
    node(page, "layer_0, forward").hover()
    expect(page.locator(".insp-g-caption")).to_contain_text(re.compile(r"layer_0, forward.*accessed.*FLOPs"))
    page.screenshot(path=tmp_path / f"graph-{theme}-{width}.png")
    explorer.close()


def test_cost_differences_from_another_variant(demo: OpenDemo) -> None:
    import jax.numpy as jnp

    arguments = [{name: jnp.ones((64, 64)) for name in ("q", "k", "v", "up")}] * 2, jnp.ones((32, 64))
    explorer = inspector.explore(train_step, *arguments, compare={"xla_disable_hlo_passes": "fusion"}).wait(180)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="graph")
    layer = node(page, "layer_1, backward")
    until(page, exchange, layer)
    colors = page.get_by_label("Node color")
    expect(colors.locator("optgroup")).to_have_count(0)
    page.locator(".insp-chip", has_text="xla_disable_hlo_passes").click()
    until(page, exchange, colors.locator("optgroup[label='Change from baseline']"))
    colors.select_option("change:bytes")
    until(page, exchange, page.locator(".insp-g-both"))
    expect(
        page.locator(".insp-g-node:not(.insp-g-open) .insp-g-words", has_text=re.compile(r"^\+")).first
    ).to_be_attached()
    rose = page.locator(".insp-g-node:not(.insp-g-open)").evaluate_all(
        "all => all.filter(e => e.querySelector('.insp-g-words').textContent.startsWith('+')).map(e => parseFloat(e.style.getPropertyValue('--heat')))"
    )
    assert max(rose) == 100
    explorer.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_devices_that_work_together_have_a_color_where_there_are_some(
    demo: OpenDemo, theme: str, tmp_path: Path
) -> None:
    page = opened(demo, scenario="mesh", theme=theme)
    color = page.get_by_label("Node color")
    color.select_option("devices")
    legend = page.locator(".insp-g-legend .insp-g-key")
    expect(legend).to_have_text(["model: 2 devices", "pairs along data", "data: 4 devices"])
    together = page.locator(".insp-g-together.insp-g-node")
    expect(together.first).to_contain_text("model: 2 devices")
    fills = together.locator("> rect").evaluate_all("rects => rects.map(rect => getComputedStyle(rect).fill)")
    assert len(set(fills)) == 3
    page.screenshot(path=tmp_path / f"devices-{theme}.png")
    page = opened(demo)
    expect(color.locator("option[value=devices]")).to_have_text("By devices (no collectives)")
    expect(color.locator("option[value=devices]")).to_be_disabled()
