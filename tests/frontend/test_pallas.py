"""The Pallas pane in Chromium, on messages that Python made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import inspector
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.errors import CompilationError
from inspector.lowering.pallas import fields_of
from inspector.widgets.app import App
from inspector.widgets.panes.pallas import kernels_message
from inspector.widgets.panes.registry import PANES
from inspector.widgets.variants import Variant
from tests.frontend.conftest import OpenDemo
from tests.frontend.menus import show_pane
from tests.kernels import matmul, scale, struct

pytestmark = [pytest.mark.browser, pytest.mark.slow]

REFUSAL = Path(__file__).parent.parent / "analysis" / "data" / "pallas" / "scoped.0.12.txt"


def kernels(error: Exception | None = None) -> Any:
    big = struct(4096, 4096, dtype="bfloat16")
    lowered = inspector.lower(
        lambda x, y: matmul(scale(x, rows=512), y, bm=1024, bk=1024, bn=1024), big, big, platform="tpu"
    )
    known = [fields_of(kernel, "tpu") for kernel in lowered.kernels]
    return kernels_message(0, lowered.kernels, known, Target.parse("tpu:v5e"), error)


def opened(demo: OpenDemo, message: Any, **query: int) -> Page:
    """A page whose kernel says no more than a session, a variant and its Pallas kernels."""
    page = demo("waiting", until=".insp-state", **query)
    app = App("f", panes=[line.name for line in PANES])
    app.publish(Variant(0, True, Options(), Target.parse("tpu:v5e")).message())
    for said in (*(dict(kept.message) for kept in app._stored.values()), message):
        page.evaluate("message => demo.emit(message)", said)
    show_pane(page, "pallas")
    return page


@pytest.fixture
def pane(demo: OpenDemo) -> Page:
    page = opened(demo, kernels())
    page.get_by_label("Kernel").select_option("1")
    return page


def test_the_block_of_each_step_is_lit(pane: Page) -> None:
    figures = pane.locator(".insp-blocks")
    expect(figures).to_have_count(3)
    expect(figures.nth(0).locator("rect.insp-block")).to_have_count(16)
    expect(pane.locator(".insp-pallas-step")).to_have_text("step 0 of 64 (0, 0, 0)")
    pane.get_by_label("Grid step").fill("21")
    expect(pane.locator(".insp-pallas-step")).to_have_text("step 21 of 64 (1, 1, 1)")
    expect(figures.nth(0).locator(".insp-blocks-place")).to_have_text("at (1024, 1024) · fetched")
    expect(figures.nth(2).locator(".insp-blocks-place")).to_have_text("at (1024, 1024) · same block")
    expect(figures.nth(2).locator("rect.insp-block-seen")).to_have_count(6)
    expect(pane.locator("rect.insp-block-current")).to_have_count(3)


def test_the_grid_plays_to_its_end(pane: Page) -> None:
    pane.get_by_label("Kernel").select_option("0")
    expect(pane.locator(".insp-pallas-step")).to_have_text("step 0 of 8 (0)")
    pane.get_by_label("Play the grid").click()
    expect(pane.locator(".insp-pallas-step")).to_have_text("step 7 of 8 (7)", timeout=5000)
    expect(pane.get_by_label("Play the grid")).to_have_attribute("aria-pressed", "false")


def test_only_changed_fields_are_requested_and_errors_are_shown(pane: Page) -> None:
    pane.get_by_text("Compile as variant").click()
    expect(pane.locator(".insp-refused")).to_have_text("No field is changed. Change a field first.")
    expect(pane.get_by_label("vmem_limit_bytes")).to_be_hidden()
    pane.locator(".insp-params summary").click()  # parameters at their defaults
    pane.get_by_label("vmem_limit_bytes").fill("20 MiB")
    pane.get_by_label("disable_bounds_checks").select_option("true")
    pane.get_by_text("Compile as variant").click()
    request = pane.evaluate("demo.sent.at(-1)")
    assert {k: request[k] for k in ("type", "variant", "kernel", "values", "interpret")} == {
        "type": "tune", "variant": 0, "kernel": 1, "interpret": False,
        "values": {"vmem_limit_bytes": "20 MiB", "disable_bounds_checks": "true"},
    }  # fmt: skip
    wrong = {"kind": "OptionError", "message": "vmem_limit_bytes is 0."}
    pane.evaluate(
        "([id, error]) => demo.emit({type: 'tuned', id: id + 1, variant: null, error})", [request["id"], wrong]
    )
    expect(pane.locator(".insp-refused")).to_have_text("")  # the reply to another's request
    pane.evaluate("([id, error]) => demo.emit({type: 'tuned', id, variant: null, error})", [request["id"], wrong])
    expect(pane.locator(".insp-refused")).to_have_text("vmem_limit_bytes is 0.")


def test_a_field_that_this_jax_lacks_cannot_be_typed(pane: Page) -> None:
    row = pane.locator("tr", has_text="kernel_type")
    expect(row).to_contain_text("Unavailable: CompilerParams of JAX")
    expect(row.locator("input, select")).to_have_count(0)


def test_a_refusal_comes_first_and_brings_its_kernel_to_the_front(pane: Page) -> None:
    pane.get_by_label("Kernel").select_option("0")
    pane.evaluate("message => demo.emit(message)", kernels(CompilationError(REFUSAL.read_text())))
    trouble = pane.locator(".insp-trouble")
    said = "matmul.1 needs at least 18.4 MiB of vmem, at least 2.36 MiB more than the kernel limit of 16 MiB"
    expect(trouble).to_contain_text(said)
    expect(trouble.locator("li").first).to_contain_text("vmem_limit_bytes=20 << 20")
    expect(pane.get_by_label("Kernel")).to_have_value("1")


def test_nothing_overflows_a_narrow_column(demo: OpenDemo) -> None:
    page = opened(demo, kernels(CompilationError(REFUSAL.read_text())), width=420)
    scrolled = page.locator(".insp-pallas").evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert scrolled[0] <= scrolled[1] + 1
