"""The Memory pane with a real program behind it: recorded on request, a moment chosen, summed, drawn as a map."""

from __future__ import annotations

import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from inspector.api import live_work
from inspector.api.opened_program import OpenedProgram
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


@pytest.mark.parametrize(("theme", "width", "is_recorded"), [("light", 1500, True), ("dark", 900, False)])
def test_variants_have_curves_in_one_chart_and_columns_in_the_tables(
    demo: OpenDemo, theme: str, width: int, is_recorded: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_recorded:  # as on an attached accelerator
        monkeypatch.setattr(live_work, "_with_buffers", lambda request: request)
    explorer = inspector.explore(step, *arguments())
    other = explorer.what_if(dtype={"x": "bfloat16"})
    explorer.wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer, tab="memory")
    pane = page.locator("[data-pane=memory]")
    until(page, exchange, pane.locator(".insp-heap-words"))
    record = pane.get_by_role("button", name="Record 1 other variant to compare")
    if is_recorded:
        expect(record).to_have_count(0)
    else:
        expect(pane.locator(".insp-heap-line")).to_have_count(1)
        expect(pane.locator(".insp-memory-table")).to_have_count(0)
        record.click()
    table = pane.locator(".insp-memory-table")
    until(page, exchange, table)
    chart = pane.locator(".insp-heap-chart")
    dashes = [line.get_attribute("stroke-dasharray") for line in chart.locator(".insp-heap-line").all()]
    assert len(dashes) == len(set(dashes)) == 2
    lengths = [len(_timeline(variant).schedule) for variant in (explorer.baseline, other)]
    assert lengths[0] != lengths[1]
    counts = f" ({min(lengths)} and {max(lengths)} instructions)" if width > 1000 else ""  # if they fit
    expect(chart).to_contain_text(f"Share of each schedule{counts}")
    texts = [text.bounding_box() for text in chart.locator("svg > text").all()[-3:]]
    assert all(left and right and left["x"] + left["width"] <= right["x"] for left, right in itertools.pairwise(texts))
    rows = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()
    }
    peaks = [variant.compiled.memory.peak_bytes for variant in (explorer.baseline, other)]
    assert [cell.split("\n")[0].strip() for cell in rows["peak memory"]] == [format_bytes(peak) for peak in peaks]
    assert re.search(r"[−+].* %", rows["peak memory"][1])
    assert {
        "arguments",
        "outputs",
        "temporaries",
        "constants",
        "generated code",
        "RAM in use at the peak",
    } <= rows.keys()
    assert "the compiler does not report the size of its code" in rows["generated code"][0]

    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    readings = pane.locator(".insp-heap-readout tr")
    expect(readings).to_have_count(2)
    assert all(" KiB" in text or " MiB" in text for text in readings.all_inner_texts())
    for button in ("Buffers", "Scopes"):
        page.get_by_role("button", name=button).click()
        for part in pane.locator(".insp-scroll").all():
            assert part.evaluate("e => e.scrollWidth - e.clientWidth") <= 0, (button, part.get_attribute("aria-label"))
        page.screenshot(path=tmp_path / f"memory-variants-{button}-{theme}.png")
    shared = pane.locator(".insp-memory-shared")
    expect(shared.locator("thead th")).to_have_count(3)
    assert "Compared with the baseline" in shared.locator("tbody td span[title]").all()[-1].get_attribute("title")
    explorer.close()


def test_a_click_selects_the_variant_of_the_nearest_curve_and_its_largest_buffer(demo: OpenDemo) -> None:
    explorer = inspector.explore(step, *arguments())
    other = explorer.what_if(batch={256: 64})
    explorer.wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="memory")
    pane = page.locator("[data-pane=memory]")
    until(page, exchange, pane.locator(".insp-heap-words"))
    until(page, exchange, pane.locator(".insp-memory-table"))
    dot = pane.locator(".insp-heap-dot").nth(1)
    box = dot.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(f"[data-chip='{other.number}']")).to_have_attribute("aria-pressed", "true")
    expect(pane.locator(".insp-memory-table thead [aria-pressed=true]")).to_contain_text(other.label)
    largest = pane.locator(".insp-memory-buffers tbody tr").filter(has_text="temporary").first
    expect(largest).to_have_attribute("aria-selected", "true")
    pane.locator(".insp-memory-table thead button").first.click()
    expect(page.locator("[data-chip='0']")).to_have_attribute("aria-pressed", "true")
    expect(pane.locator(".insp-heap-words")).to_contain_text("Selected position")  # of the other curve, too
    explorer.close()


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_live_ranges_of_a_file_are_marked_as_estimated(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    compiled = inspector.lower(step, *arguments()).compile()
    explorer = OpenedProgram.of(compiled.hlo, target="cpu").explorer().wait(60)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer, tab="memory")
    rows = page.locator("[data-pane=memory] tbody tr")
    until(page, exchange, rows)
    words = page.locator(".insp-heap-words")
    expect(words).to_contain_text("Estimated peak: ")
    expect(words).to_contain_text("the file has no buffer assignment")
    expect(words).not_to_contain_text("allocated")
    page.screenshot(path=tmp_path / f"memory-estimated-{theme}.png")
    explorer.close()


def _timeline(variant: Any) -> Any:
    return variant.lowered.compile(products=("buffers",)).timeline()


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
