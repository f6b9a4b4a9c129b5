"""The Memory pane with a real program behind it: recorded on request, a moment chosen, summed, drawn as a map."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from inspector.support.units import format_bytes
from tests.absent import needs_tpu
from tests.frontend.behind import OpenDemo, behind, until
from tests.frontend.test_roofline import arguments, step

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_live_buffers_at_the_peak_and_elsewhere(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    explorer = inspector.explore(step, *arguments()).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer, tab="memory")
    rows = page.locator("[data-pane=memory] tbody tr")
    until(page, exchange, rows)
    room = explorer.baseline.compiled.memory
    expect(page.locator(".insp-heap-words")).to_contain_text("Peak: ")
    expect(page.locator(".insp-heap-words")).to_contain_text(
        f"{format_bytes(room.temp_bytes)} allocated for temporaries"
    )
    names = rows.locator("th").all_inner_texts()
    assert {"x", "w", "v"} <= set(names)
    page.screenshot(path=tmp_path / f"memory-{theme}.png")
    chart = page.locator(".insp-heap-chart")
    peak = int(chart.get_attribute("aria-valuenow") or -1)
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert chart.get_attribute("aria-valuenow") == str(peak + 1)
    expect(page.locator(".insp-heap-words")).to_contain_text("Selected position")
    page.keyboard.press("Home")
    assert chart.get_attribute("aria-valuenow") == str(peak)
    page.get_by_role("button", name="Phases").click()
    assert "backward" in " ".join(rows.locator("th").all_inner_texts())
    page.get_by_role("button", name="Map").click()
    page.get_by_role("button", name="Buffers").click()
    expect(page.locator(".insp-heap-tile")).to_have_count(len(names))
    page.screenshot(path=tmp_path / f"memory-map-{theme}.png")
    page.get_by_role("button", name="Table", exact=True).click()
    temporary = rows.filter(has_text="temporary").first
    temporary.click()
    expect(temporary).to_have_class("insp-chosen")
    name = temporary.locator("th").inner_text().partition("{")[0]
    expect(page.locator("[data-pane=optimized] .cm-line.insp-chosen")).to_contain_text(f"%{name} =")
    explorer.close()


@needs_tpu
@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_a_program_that_does_not_fit_shows_its_buffers(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    explorer = inspector.explore(too_large, jax.ShapeDtypeStruct((8192, 8192), "float32"), target="tpu:v5e:1x1").wait(
        120
    )
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer, tab="memory")
    rows = page.locator("[data-pane=memory] tbody tr")
    until(page, exchange, rows)
    expect(page.locator(".insp-heap-words")).to_contain_text("Out of memory")
    expect(page.locator(".insp-heap-capacity")).to_have_count(1)
    page.screenshot(path=tmp_path / f"memory-too-large-{theme}.png")
    explorer.close()


def too_large(x: Any) -> Any:
    """Keeps a hundred products for its backward pass: 25 GiB of them."""
    return jax.grad(lambda x: jnp.sum(jax.lax.scan(lambda c, _: (jnp.tanh(c @ c), c), x, None, length=100)[1] ** 2))(x)
