"""The What-if pane with a real program behind it: each kind of supposition compiled and compared, and refusals."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def step(params: dict[str, Any], x: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        with jax.named_scope("hidden"):
            h = jnp.tanh(jnp.sin(jnp.tanh(x @ params["w"])))
        return jnp.sum((h @ params["v"]) ** 2)

    return jax.tree.map(lambda p, g: p - g, params, jax.grad(loss)(params))


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_suppositions_are_compiled_and_compared(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    params = {"w": jnp.ones((64, 256)), "v": jnp.ones((256, 32))}
    explorer = inspector.explore(step, params, jnp.ones((128, 64))).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    exchange = behind(page, explorer, tab="what_if")
    pane = page.locator(".insp-what-if")
    compile_it = pane.get_by_role("button", name="Compile as variant")
    until(page, exchange, compile_it)
    page.screenshot(path=tmp_path / f"what-if-empty-{theme}.png")

    compile_it.click()
    until(page, exchange, pane.get_by_role("button", name="donated params"))
    pane.get_by_role("button", name="Batch", exact=True).click()
    pane.get_by_label("Argument").select_option("x")
    assert pane.get_by_label("Length").input_value() == "64"
    compile_it.click()
    until(page, exchange, pane.get_by_role("button", name="x of 64"))
    pane.get_by_role("button", name="Dtype", exact=True).click()
    pane.get_by_label("Argument").select_option("params")
    compile_it.click()
    until(page, exchange, pane.get_by_role("button", name="params as bfloat16"))
    pane.get_by_role("button", name="Rematerialize", exact=True).click()
    pane.get_by_label("Name scope").fill("nowhere")
    compile_it.click()
    until(page, exchange, pane.locator(".insp-refused", has_text="Nothing under 'nowhere'"))
    page.screenshot(path=tmp_path / f"what-if-refused-{theme}.png")
    pane.get_by_label("Name scope").fill("hidden")
    compile_it.click()
    until(page, exchange, pane.get_by_role("button", name="hidden rematerialized"))
    for _ in range(100):
        exchange()
        if all(v.state == "done" for v in explorer.variants):
            break
        page.wait_for_timeout(100)
    until(page, exchange, pane.locator(".insp-delta").nth(3))
    expect(pane.locator("tbody tr")).to_have_count(5)
    assert len(explorer.variants) == 5
    page.screenshot(path=tmp_path / f"what-if-{theme}.png")
    pane.get_by_role("button", name="baseline").click()
    expect(pane.locator("tbody tr").first).to_have_class("insp-column-active")
    explorer.close()


def test_a_batch_of_several_arrays_is_one_choice(demo: OpenDemo) -> None:
    x, y = jnp.ones((128, 8)), jnp.ones((128, 8))
    explorer = inspector.explore(lambda w, x, y: ((x @ w - y) ** 2).sum(), jnp.ones((8, 8)), x, y).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="what_if")
    pane = page.locator(".insp-what-if")
    compile_it = pane.get_by_role("button", name="Compile as variant")
    until(page, exchange, compile_it)
    pane.get_by_role("button", name="Batch", exact=True).click()
    options = pane.get_by_label("Argument").locator("option")
    assert options.all_inner_texts() == [
        "leading dimension 128 of x, y",
        "w: float32[8, 8]",
        "x: float32[128, 8]",
        "y: float32[128, 8]",
    ]
    assert pane.get_by_label("Length").input_value() == "64"
    compile_it.click()
    until(page, exchange, pane.get_by_role("button", name="x, y of 64"))
    until(page, exchange, page.locator(".insp-chip-done").nth(1))
    made = explorer.variants[1].lowered
    assert made is not None
    assert [a.shape for a in made.inputs] == [(8, 8), (64, 8), (64, 8)]
    explorer.close()


def test_a_dimension_of_several_arrays_is_one_choice(demo: OpenDemo) -> None:
    explorer = inspector.explore(lambda w, x: x @ w, jnp.ones((8, 6)), jnp.ones((4, 8))).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="what_if")
    pane = page.locator(".insp-what-if")
    compile_it = pane.get_by_role("button", name="Compile as variant")
    until(page, exchange, compile_it)
    pane.get_by_role("button", name="Shape", exact=True).click()
    argument, lengths = pane.get_by_label("Argument"), pane.get_by_label("New lengths")
    assert argument.locator("option").all_inner_texts() == [
        "dimensions of length 8 of w, x",
        "w: float32[8, 6]",
        "x: float32[4, 8]",
    ]
    assert lengths.input_value() == "8"
    lengths.fill("8, 16")
    compile_it.click()
    expect(pane).to_contain_text("Enter one length.")
    argument.select_option("w")
    assert lengths.input_value() == "8, 6"
    lengths.fill("8, wide")
    compile_it.click()
    expect(pane).to_contain_text("Enter lengths, such as 8, 128.")
    lengths.fill("8, 128")
    compile_it.click()
    until(page, exchange, pane.get_by_role("button", name="w with dimension 1 of 128"))
    until(page, exchange, page.locator(".insp-chip-done").nth(1))
    made = explorer.variants[1].lowered
    assert made is not None
    assert [a.shape for a in made.inputs] == [(8, 128), (4, 8)]
    explorer.close()


def test_checkpoints_are_changed(demo: OpenDemo) -> None:
    def loss(ws: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, w: (jnp.tanh(jnp.sin(x @ w) @ w), None), x, ws)[0].sum()

    explorer = inspector.explore(jax.grad(loss), jnp.ones((4, 32, 32)), jnp.ones((8, 32))).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="what_if")
    pane = page.locator(".insp-what-if")
    until(page, exchange, pane.get_by_role("button", name="Compile as variant"))
    pane.get_by_role("button", name="Checkpoints", exact=True).click()
    assert pane.get_by_label("Checkpoints").locator("option").all_inner_texts() == [
        "checkpoints around the bodies of loops"
    ]
    pane.get_by_role("button", name="Compile as variant").click()
    until(page, exchange, pane.get_by_role("button", name="checkpoints around the bodies of loops"))
    assert explorer.variants[-1].tuning.what_if.checkpoint == "loops"
