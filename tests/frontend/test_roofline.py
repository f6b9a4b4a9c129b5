"""The Roofline pane with a real program behind it: roofs published or measured, kernels in a picture and a table."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

import inspector
from inspector.errors import Unavailable
from tests.absent import needs_tpu
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def step(x: Any, w: Any, v: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(w: Any, v: Any) -> Any:
        with jax.named_scope("attention"):
            y = jax.nn.softmax(x @ w)
        with jax.named_scope("output"):
            return jnp.sum((y @ v - x) ** 2)

    return jax.grad(loss, argnums=(0, 1))(w, v)


def arguments() -> tuple[Any, ...]:
    import jax.numpy as jnp

    return jnp.ones((256, 512)), jnp.ones((512, 128)), jnp.ones((128, 512))


@needs_tpu
@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_kernels_that_were_not_profiled_have_bars_of_time(
    demo: OpenDemo, theme: str, width: int, tmp_path: Any
) -> None:
    explorer = inspector.explore(step, *arguments(), target="tpu:v5e:1x1").wait(300)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer)
    until(page, exchange, page.locator("[data-tab=roofline]"))
    assert not page.evaluate("demo.sent.filter(m => m.type === 'roofline')")
    page.click("[data-tab=roofline]")
    rows = page.locator("[data-pane=roofline] tbody tr")
    until(page, exchange, rows)
    found = explorer.baseline.compiled.roofline()
    assert rows.locator("th").all_inner_texts() == [point.name for point in found.points]
    unknown = [point for point in found.points if isinstance(point.least_s, Unavailable)]
    bars = page.locator(".insp-time-bar")
    assert bars.count() == len(found.points) - len(unknown)
    slowest = max((p for p in found.points if p not in unknown), key=lambda point: float(point.least_s))
    expect(bars.first).to_contain_text(slowest.name)
    expect(bars.first).to_contain_text(str(slowest.bound_by))
    expect(page.locator(".insp-roofline-caption")).to_contain_text("v5e: 197 Tflop/s in bf16, 819 GB/s")
    page.screenshot(path=tmp_path / f"roofline-{theme}.png")
    rows.first.click()
    expect(page.locator(".insp-time-bar.insp-chosen")).to_have_count(1)
    expect(
        page.locator(".insp-pane-optimized .insp-line-chosen, [data-pane=optimized] .insp-chosen").first
    ).to_contain_text(found.points[0].name)
    page.get_by_role("button", name="Scopes").click()
    until(page, exchange, page.locator("th", has_text="slowest kernel"))
    names = [group.name or "unknown" for group in found.groups("scope")]
    assert rows.locator("th").all_inner_texts() == names
    assert any("attention" in name for name in names)
    page.screenshot(path=tmp_path / f"roofline-scopes-{theme}.png")
    explorer.close()


def test_a_cpu_is_measured_when_asked(demo: OpenDemo, tmp_path: Any) -> None:
    explorer = inspector.explore(step, *arguments()).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="roofline")
    button = page.get_by_role("button", name="Measure this machine")
    until(page, exchange, button)
    assert page.locator("[data-pane=roofline] tbody tr").count() > 1  # operations and bytes need no roofs
    page.screenshot(path=tmp_path / "unmeasured.png")
    page.get_by_role("button", name="Lines", exact=True).click()
    until(page, exchange, page.locator("th", has_text="slowest kernel"))
    assert set(page.locator("[data-pane=roofline] tbody td:nth-child(3)").all_inner_texts()) == {"–"}  # estimated time
    page.screenshot(path=tmp_path / "unmeasured-lines.png")
    page.get_by_role("button", name="Kernels", exact=True).click()
    button.click()
    until(page, exchange, page.locator(".insp-time-bar"))
    expect(page.locator(".insp-roofline-caption")).to_contain_text("measured on this machine with NumPy")
    page.screenshot(path=tmp_path / "measured.png")
    rows = page.locator("[data-pane=roofline] tbody tr")
    rows.first.click()
    chosen = page.locator(".insp-time-bar.insp-chosen")
    expect(chosen).to_have_count(1)
    page.click("[data-tab=stats]")
    page.click("[data-tab=roofline]")
    expect(chosen).to_have_count(1)  # of points that were drawn anew, none stays lit by mistake
    page.get_by_role("button", name="Phases").click()
    until(page, exchange, page.locator("th", has_text="slowest kernel"))
    assert {"forward", "backward"} & set(rows.locator("th").all_inner_texts())
    assert page.locator(".insp-time-bar").count() > 1  # the picture stays
    for name in ("Scopes", "Lines", "Roofs", "Opcodes", "Phases"):
        page.get_by_role("button", name=name, exact=True).click()
        heading = page.locator("[data-pane=roofline] thead th:first-child")
        until(page, exchange, heading.filter(has_text=name.lower().removesuffix("s")))
    explorer.close()


def test_profiled_kernels_stand_below_what_they_could_attain(demo: OpenDemo, tmp_path: Any) -> None:
    explorer = inspector.explore(step, *arguments()).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="run")
    run = page.locator(".insp-runs tbody button").first
    until(page, exchange, run)
    run.click()
    page.click("[data-tab=roofline]")
    button = page.get_by_role("button", name="Measure this machine")
    until(page, exchange, button)
    button.click()
    until(page, exchange, page.locator(".insp-roof-point"))
    profile, roofs = explorer.baseline.profile, explorer.baseline.compiled.roofline()
    assert not isinstance(profile, Unavailable)
    placed = [p for p in roofs.points if p.name in profile.execution_times and p.intensity and p.flops]
    points = page.locator(".insp-roof-point")
    until(page, exchange, page.locator(f".insp-plot:has(.insp-roof-point:nth-of-type({len(placed)}))"))
    expect(points).to_have_count(len(placed))
    slowest = max(placed, key=lambda point: float(profile.execution_times[point.name]))
    expect(points.first.locator("title")).to_contain_text(f"{slowest.name} (")
    expect(points.first.locator("title")).to_contain_text("FLOP/s achieved")
    expect(page.locator(".insp-plot")).to_contain_text("Arithmetic intensity (FLOP/byte)")
    page.screenshot(path=tmp_path / "profiled.png")
    explorer.close()
