"""Explorables in saved pages, opened from the disk with the network off, and operated by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import inspector
from inspector.widgets.explorables.explorable import Explorable

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Open = Callable[[Explorable], Page]


@pytest.fixture
def opened(chromium: Browser, tmp_path: Path) -> Iterator[Open]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce", offline=True)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else asked.append(r.url))

    def open_(explorable: Explorable) -> Page:
        path = tmp_path / "page.html"
        explorable.save_html(path)
        explorable.close()
        page.goto(path.as_uri())
        page.wait_for_selector(".insp-explorable-title", timeout=30_000)
        return page

    yield open_
    context.close()
    assert (said, asked) == ([], [])


def tab_to(page: Page, wanted: Locator, most: int = 80) -> None:
    """Presses Tab until the keyboard's focus is there."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("wanted => wanted === document.activeElement"):
            return
    raise TimeoutError(f"{wanted} is not reached by the keyboard")


def top_of(element: Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return box["y"]


def test_a_player_is_operated_by_keyboard_and_its_picture_stays(opened: Open) -> None:
    page = opened(inspector.player("psum", 4))
    play, step = (page.get_by_role("button", name=name, exact=True) for name in ("Play", "Step"))
    assert top_of(play) < 300, "on the first screen"
    picture = page.locator(".insp-exchange-picture")
    top = top_of(picture)
    tab_to(page, step)
    for number in range(1, 7):
        page.keyboard.press("Enter")
        expect(page.locator(".insp-exchange-position")).to_have_text(f"Step {number} of 6")
        assert top_of(picture) == top
    page.keyboard.press("Enter")
    assert step.evaluate("step => step === document.activeElement")
    tab_to(page, page.get_by_role("button", name="halving and doubling"))
    page.keyboard.press("Enter")
    expect(page.locator(".insp-exchange-position")).to_have_text("Step 0 of 4")
    tab_to(page, page.get_by_label("Latency of a hop in µs"))
    page.keyboard.press("Control+A")
    page.keyboard.type("100")
    expect(page.locator(".insp-explorable-best")).to_contain_text("421 µs")


def test_a_page_shows_the_run_that_it_contains(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    explorable = inspector.player("psum", 2)
    run: dict[str, Any] = {"type": "player_run", "id": 0, "error": None, "device_kind": "2 fakes"}
    monkeypatch.setattr(explorable, "_answer", lambda _: {**run, "before": ["5", "6"], "after": ["11", "11"]})
    explorable._reply({"type": "run_player", "id": 1})
    page = opened(explorable)
    expect(page.get_by_text("Measured on 2 fakes.")).to_be_visible()
    expect(page.locator("td code", has_text="11")).to_have_count(2)
    expect(page.get_by_role("button", name="Run on virtual devices")).to_be_hidden()


def test_all_frames_are_shown_for_printing(opened: Open) -> None:
    page = opened(inspector.player("all-gather", 4))
    page.get_by_role("button", name="Frames").press("Enter")
    expect(page.locator(".insp-exchange-frames figure")).to_have_count(4)
    page.emulate_media(media="print")
    expect(page.locator(".insp-exchange-frames figure").first).to_be_visible()
    expect(page.locator(".insp-explorable-side")).to_be_hidden()


def test_a_mesh_is_operated_by_keyboard(opened: Open) -> None:
    page = opened(inspector.mesh_bench({"x": 2, "y": 4}))
    verdict = page.locator(".insp-bench-verdict")
    tab_to(page, page.get_by_role("button", name="id 4", exact=True))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("button", name="Check", exact=True))
    page.keyboard.press("Enter")
    expect(verdict).to_contain_text("Not yet: id 4 is not in it: it has another y.")
    page.get_by_role("button", name="id 4", exact=True).press("Enter")
    page.get_by_role("button", name="id 1", exact=True).press("Enter")
    page.get_by_role("button", name="Check", exact=True).press("Enter")
    expect(verdict).to_contain_text("Right: {1,5}.")
    page.get_by_role("button", name="Reveal groups").press("Enter")
    facts = page.locator(".insp-bench-facts")
    expect(facts).to_contain_text("[4,2]<=[2,4]T(1,0)")
    axis = page.get_by_role("button", name="Axis x, position 1 of 2")
    axis.press("ArrowRight")
    expect(facts).to_contain_text("[4,2]<=[8]")
    moved = page.get_by_role("button", name="Axis x, position 2 of 2")
    assert moved.evaluate("axis => axis === document.activeElement")
    expect(facts).to_contain_text("at most 1")
    page.get_by_role("button", name="Chip 1, id 1").press("Enter")
    page.get_by_role("button", name="Chip 6, id 6").press("Enter")
    expect(facts).to_contain_text("at most 3")
    expect(page.get_by_role("button", name="Chip 6, id 1")).to_be_visible()
    page.get_by_label("Axis sizes").fill("x=2, y=2, z=2")
    page.get_by_label("Axis sizes").press("Enter")
    expect(facts).to_contain_text("[4,2]<=[2,4]T(1,0)")
    page.get_by_label("Axis sizes").fill("x=64")
    page.get_by_label("Axis sizes").press("Enter")
    expect(page.get_by_text("Expected 1 to 4 axes with 2 to 32 ids.")).to_be_visible()
    page.get_by_role("button", name="Run on virtual devices").press("Enter")
    expect(page.get_by_text("Not recorded. Run the cell in a notebook, press the button there")).to_be_visible()


def test_axes_and_chips_are_dragged(opened: Open) -> None:
    page = opened(inspector.mesh_bench({"x": 2, "y": 4}))
    page.get_by_role("button", name="Axis x, position 1 of 2").drag_to(page.get_by_role("button", name="Axis y"))
    expect(page.get_by_role("button", name="Axis x, position 2 of 2")).to_be_visible()
    page.get_by_role("button", name="Chip 0, id 0").drag_to(page.get_by_role("button", name="Chip 7, id 7"))
    expect(page.get_by_role("button", name="Chip 7, id 0")).to_be_visible()


def test_a_race_is_predicted_by_keyboard(opened: Open) -> None:
    page = opened(inspector.race("all-reduce", 16))
    ring = page.get_by_role("region", name="ring", exact=True)
    guess, verdict = ring.get_by_label("Predicted size on the ring"), ring.locator(".insp-race-verdict")
    expect(ring.locator(".insp-race-line")).to_have_count(0)
    tab_to(page, guess)
    page.keyboard.press("ArrowLeft")
    expect(guess).to_have_attribute("aria-valuetext", "256 KiB")
    ring.get_by_role("button", name="Check", exact=True).press("Enter")
    # 16 hops and 4 S of the direct exchange against 30 hops and 15/16 S: 14 us x 50 GB/s / (49/16).
    expect(verdict).to_have_text("Right. Fastest: direct; from 223 KiB: bidirectional ring.")


def test_no_page_scrolls_sideways_when_narrow(opened: Open) -> None:
    for explorable in (inspector.player("psum", 16), inspector.mesh_bench({"x": 4, "y": 8}), inspector.race()):
        page = opened(explorable)
        page.set_viewport_size({"width": 600, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 600
        root = page.locator(".insp-explorable")
        assert root.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_a_game_is_played_by_keyboard_and_judged_by_what_the_page_contains(opened: Open) -> None:
    game = inspector.sharding_game()
    game._reply(
        {"type": "judge", "id": 1, "operands": [[["x"], []], [[], ["y"]]], "result": [["x"], ["y"]]}
    )  # compiles for eight virtual devices
    page = opened(game)
    verdict, memory = page.locator(".insp-game-verdict"), page.locator(".insp-game-memory")
    for axis, place in (("x", "0.0"), ("x", "2.0"), ("y", "1.1"), ("y", "2.1")):
        page.get_by_role("button", name=f"Axis {axis}").press("Enter")
        page.locator(f"button[data-place='{place}']").press("Enter")
    expect(memory).to_contain_text("12.5 MiB of 12.3 MiB, too much")
    page.get_by_role("button", name="Judge").press("Enter")
    expect(verdict).to_have_text("The compiler sends 0 B, but a device needs 12.5 MiB: too much.")
    page.get_by_role("button", name="Remove y from k of B").press("Enter")
    page.get_by_role("button", name="Axis y").drag_to(page.locator("div[data-place='1.0']"))
    page.get_by_role("button", name="Axis y").drag_to(page.locator("div[data-place='0.1']"))
    page.get_by_role("button", name="Remove y from k of C").press("Enter")
    page.get_by_role("button", name="Judge").press("Enter")
    expect(verdict).to_have_text("Without a notebook kernel, by the rules: sends 1 MiB, your best so far.")
    expect(page.locator("tr.insp-explorable-best")).to_contain_text("A[i:x, j:y] · B[j:y, k] → C[i:x, k]")


@pytest.mark.parametrize("width", [900, 1400])
def test_no_table_is_cut_off_and_the_least_time_is_bold(opened: Open, width: int) -> None:
    page = opened(inspector.player("psum", 4))
    page.set_viewport_size({"width": width, "height": 800})
    cut = "tables => tables.filter(t => t.scrollWidth > t.parentElement.clientWidth + 1).length"
    assert page.locator(".insp-explorable-table").evaluate_all(cut) == 0
    bold = "cells => cells.filter(c => Number(getComputedStyle(c).fontWeight) > 500).map(c => c.textContent)"
    assert page.locator(".insp-explorable-table td.insp-number").evaluate_all(bold) == ["21.7 µs"]


def test_the_names_of_algorithms_fit_in_the_picture_of_a_race(opened: Open) -> None:
    page = opened(inspector.race("all-reduce", 16))
    page.get_by_role("button", name="Check", exact=True).first.press("Enter")
    names = page.locator(".insp-race-name")
    expect(names.filter(has_text="halving and doubling").first).to_be_visible()
    cut = (
        "names => names.filter(n => n.getBoundingClientRect().right > n.ownerSVGElement.getBoundingClientRect().right)"
    )
    assert names.evaluate_all(f"names => ({cut})(names).map(n => n.textContent)") == []
