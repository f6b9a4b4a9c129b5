"""The Run pane with a real program behind it: two variants run and compared."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until
from tests.frontend.test_roofline import arguments, step
from tests.stages.accurate_programs import naive_variance

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_variants_are_run_and_compared(demo: OpenDemo, theme: str, tmp_path: Any) -> None:
    explorer = inspector.explore(step, *arguments())
    explorer.add({"xla_cpu_enable_fast_math": True})
    explorer.wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    exchange = behind(page, explorer, tab="run")
    page.get_by_role("button", name="Run all").click()
    rows = page.locator(".insp-runs tbody tr")
    until(page, exchange, rows.nth(1).get_by_text("%"))
    page.locator(".insp-chip-main").nth(1).click()
    until(page, exchange, page.locator(".insp-run-comparison"))
    expect(rows.nth(0)).not_to_contain_text("equal")
    assert any(word in rows.nth(1).inner_text() for word in ("(noise)", "faster", "slower"))
    said = page.locator(".insp-run-comparison p").inner_text()
    assert "outputs" in said
    assert any(word in said for word in ("noise", "faster", "slower"))
    page.screenshot(path=tmp_path / f"run-{theme}.png")
    explorer.close()


def test_the_accuracy_of_variants_is_shown(demo: OpenDemo, tmp_path: Any) -> None:
    x = np.linspace(1000, 1001, 64, dtype=np.float32)
    explorer = inspector.explore(naive_variance, x, target="cpu", compare="--xla_cpu_enable_fast_math=true")
    explorer.wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="run")
    page.get_by_role("button", name="Accuracy").click()
    until(page, exchange, page.locator(".insp-run-accuracy table"))  # before the line
    until(page, exchange, page.get_by_text("sub loses"))
    assert page.locator(".insp-runs tbody tr").all_inner_texts()[0].count("wrong") == 1
    expect(page.locator(".insp-run-accuracy p").first).to_contain_text("sub loses")
    page.screenshot(path=tmp_path / "accuracy.png")
    explorer.close()


def test_what_callbacks_print_is_shown(demo: OpenDemo, tmp_path: Any) -> None:
    def loud(x: jax.Array) -> jax.Array:
        jax.debug.print("the sum is {s}", s=x.sum())
        return x * 2

    explorer = inspector.explore(loud, np.ones(4, np.float32))
    explorer.wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="run")
    page.get_by_role("button", name="Run baseline").click()
    until(page, exchange, page.locator(".insp-run-printed"))
    expect(page.locator(".insp-run-printed")).to_contain_text("the sum is 4.0")
    page.screenshot(path=tmp_path / "printed.png")
    explorer.close()
