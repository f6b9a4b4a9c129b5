"""The classroom's panes without a mouse, and without telling colors apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = pytest.mark.browser


def step(x: Any) -> Any:
    return jax.lax.psum(jax.lax.all_gather(x, "j"), "i")


@pytest.fixture
def opened(demo: OpenDemo) -> tuple[Page, Callable[[], None]]:
    explorer = inspector.explore(step, np.ones(4, np.float32), axis_env=[("i", 2), ("j", 4)]).wait(120)
    page = demo("waiting", until=".insp-state")
    page.set_viewport_size({"width": 1500, "height": 1000})
    exchange = behind(page, explorer, tab="collectives")
    until(page, exchange, page.locator(".insp-exchange"))
    return page, exchange


def tab_to(page: Page, wanted: Locator, most: int = 80) -> None:
    """Presses Tab until the keyboard's focus is there."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("wanted => wanted === document.activeElement"):
            return
    raise TimeoutError(f"{wanted} is not reached by the keyboard")


def test_a_collective_is_chosen_edited_and_played_by_keyboard_alone(opened: tuple[Page, Callable[[], None]]) -> None:
    page, exchange = opened
    page.locator("[data-tab=collectives]").focus()
    tab_to(page, page.locator(".insp-collective-list tbody tr").first)
    chosen = page.locator(".insp-collective-list tr[aria-selected=true] th")
    before = chosen.inner_text()
    page.keyboard.press("ArrowDown")
    expect(chosen).not_to_have_text(before)

    tab_to(page, page.get_by_label("Other axis environment"))
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    page.keyboard.type("2")
    expect(page.locator(".insp-mesh .insp-cell")).to_have_count(4)
    page.keyboard.press("Backspace")
    page.keyboard.type("4")
    expect(page.locator(".insp-mesh .insp-cell")).to_have_count(8)

    tab_to(page, page.locator(".insp-mesh-svg"))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".insp-member")).to_contain_text("replica 1")

    player, said = page.locator(".insp-exchange"), page.locator(".insp-exchange-spoken")
    step_button = player.get_by_role("button", name="Step", exact=True)
    tab_to(page, step_button)
    for step_number in (1, 2):
        page.keyboard.press("Enter")
        expect(said).to_contain_text(f"Step {step_number} of")
    for _ in range(20):
        page.keyboard.press("Enter")
    expect(step_button).to_be_disabled()
    assert step_button.evaluate("wanted => wanted === document.activeElement"), "the focus stays"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(said).to_contain_text(re.compile("^Step [1-9]"))

    tab_to(page, page.locator(".insp-observed .insp-button"))
    page.keyboard.press("Enter")
    until(page, exchange, page.locator(".insp-observed tbody tr"))


def test_groups_and_blocks_have_names_in_addition_to_colors(opened: tuple[Page, Callable[[], None]]) -> None:
    page, _ = opened
    cells = page.locator(".insp-mesh .insp-cell")
    letters = cells.evaluate_all(
        "cells => cells.map(cell => [cell.style.cssText, cell.querySelector('.insp-cell-group').textContent])"
    )
    assert len(letters) == 8
    by_color = dict(letters)
    assert len(by_color) == len(set(by_color.values())) == len(set(map(tuple, letters)))
    blocks = page.locator(".insp-exchange-block")
    assert blocks.count() > 0
    for text in blocks.evaluate_all(
        "all => all.map(block => [...block.querySelectorAll('text')].map(t => t.textContent))"
    ):
        assert all(text)
