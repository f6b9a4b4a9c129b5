"""The pane of retraces with a real program behind it: watched, called again, and followed to its line."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = pytest.mark.browser


@jax.jit
def step(params: dict[str, Any], x: Any) -> Any:
    return x @ params["weights"]


def call_again(params: dict[str, Any], x: Any) -> None:
    step(params, x[:2])
    step({**params, "weights": params["weights"].astype(np.float16)}, x)
    step({**params, "bias": x}, x)
    for _ in range(3):
        jax.jit(lambda v: v + 1)(x)


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_retraces_appear_during_the_watch(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    jax.clear_caches()
    params, x = {"weights": np.ones((4, 4), np.float32)}, np.ones((3, 4), np.float32)
    explorer = inspector.explore(step, params, x).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer, tab="retraces")
    pane = page.locator(".insp-retraces")
    until(page, exchange, pane.get_by_text("Not watching yet"))
    page.screenshot(path=tmp_path / f"retraces-empty-{theme}.png")
    watch = page.get_by_role("button", name="Watch", exact=True)
    watch.click()
    until(page, exchange, pane.get_by_text("Watching. Call the function again"))

    call_again(params, x)
    until(page, exchange, page.get_by_text(re.compile(r"^[56] retraces")))
    texts = [" ".join(text.split()) for text in pane.locator("tbody tr").all_inner_texts()]
    assert re.search("defined again .*Define and jit it once", texts[0])
    assert "structure" in texts[1]
    assert re.search(r"dtype params\['weights'\] f16\[4,4\]", texts[2])
    assert re.search(r"step\(params, x\[:2\]\) 1 trace shape x f32\[2,4\]", texts[3])
    page.screenshot(path=tmp_path / f"retraces-{theme}.png")

    pane.get_by_role("button", name="argument").click()
    pane.get_by_role("button", name="argument").click()
    assert "shape" in pane.locator("tbody tr").first.inner_text()
    pane.locator("tbody tr").first.locator("th .insp-link").click()
    expect(page.locator("[data-pane=source] .cm-line.insp-chosen")).to_contain_text("@jax.jit")
    page.screenshot(path=tmp_path / f"retraces-source-{theme}.png")
    if width == 900:
        page.locator("[data-tab=retraces]").click()
    page.get_by_role("button", name="Stop watching").click()
    until(page, exchange, watch)
    step(params, x[:1])
    assert len(explorer.retraces) == 6  # type: ignore[arg-type]
    explorer.close()
