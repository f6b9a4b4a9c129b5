"""Search over all panes, commands by name and by key, back and forward, the keys in one place, one window for all."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.frontend.behind import OpenDemo

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def chosen(page: Page) -> Locator:
    return page.locator("[data-pane=optimized] .cm-line.insp-chosen")


def opened(demo: OpenDemo, **query: Any) -> Page:
    page = demo("mlp", **query)
    page.locator("[data-pane=optimized] .cm-line", has_text=" fusion(").first.click()
    expect(chosen(page)).to_have_count(1)
    return page


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_one_field_finds_lines_of_every_pane_and_commands(
    demo: OpenDemo, theme: str, width: int, tmp_path: Any
) -> None:
    page = opened(demo, theme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search all panes")
    expect(field).to_be_focused()
    expect(page.get_by_role("option", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.type("dot")
    titles = page.locator(".insp-palette .insp-menu-title")
    for pane in ("Optimized HLO: ", "StableHLO: ", "HLO: "):
        expect(titles.filter(has_text=pane).first).to_be_visible()
    page.screenshot(path=tmp_path / f"palette-{theme}.png")
    page.keyboard.press("Enter")
    expect(page.locator(".insp-palette")).to_have_count(0)
    expect(chosen(page)).to_contain_text("dot")
    page.keyboard.press("[")
    expect(chosen(page)).to_contain_text(" fusion(")
    page.keyboard.press("]")
    expect(chosen(page)).to_contain_text("dot")
    page.keyboard.press("/")
    page.keyboard.type("op:fusion")
    expect(titles).to_have_count(1)
    expect(titles).to_contain_text("Optimized HLO")
    page.keyboard.press("Escape")
    expect(page.locator(".insp-palette")).to_have_count(0)
    expect(chosen(page)).to_have_count(1)  # the first Escape closes what lies on top


def test_commands_work_by_key_and_by_name_and_not_while_somebody_writes(demo: OpenDemo, tmp_path: Any) -> None:
    page = opened(demo)
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help_).to_contain_text("Users of the selected instruction")
    page.screenshot(path=tmp_path / "help.png")
    page.keyboard.press("Escape")
    expect(help_).to_have_count(0)
    page.keyboard.press("f")
    assert page.locator(".insp.insp-full").bounding_box() == {"x": 0, "y": 0, **(page.viewport_size or {})}
    page.keyboard.press("f")
    expect(page.locator(".insp-full")).to_have_count(0)
    page.keyboard.press("u")
    expect(page.get_by_role("combobox", name="Search all panes")).to_have_value(re.compile(r"users:\S*fusion"))
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("layout communication")
    page.keyboard.press("Enter")
    expect(page.locator("[data-tab=collectives]")).to_have_attribute("aria-selected", "true")
    assert page.evaluate("demo.model.get('arrangement').dock.active") == "collectives"  # the notebook keeps it
    flag = page.get_by_role("combobox", name="flag")
    flag.first.click()
    page.keyboard.type("f?")
    expect(page.locator(".insp-full, .insp-help")).to_have_count(0)


def test_the_caller_of_an_instruction_is_one_press_away(demo: OpenDemo) -> None:
    page = demo("mlp")
    page.keyboard.press("Escape")
    page.locator("[data-pane=optimized] .cm-content").click(position={"x": 4, "y": 4})
    page.keyboard.press("/")
    page.keyboard.type("op:parameter param_0")
    page.keyboard.press("Enter")
    crumbs = page.get_by_role("navigation", name="Call path").get_by_role("button")
    expect(crumbs).to_have_count(2)
    crumbs.first.click()
    expect(chosen(page)).to_contain_text(" fusion(")


def test_actions_are_found_by_what_they_do(demo: OpenDemo) -> None:
    page = opened(demo)

    def choose(words: str, name: str) -> None:
        page.locator(".insp-status").click()
        page.locator("[data-pane=optimized] .cm-content").focus()
        page.keyboard.press("/")
        page.keyboard.type(words)
        page.get_by_role("option", name=name).click()

    choose("flags matter", "Which flags matter")
    expect(page.locator("[data-tab=options]")).to_have_attribute("aria-selected", "true")
    choose("profile the", "Profile the program")
    expect(page.locator("[data-tab=profile]")).to_have_attribute("aria-selected", "true")
    runs = page.evaluate("() => demo.sent.filter(m => m.type === 'run')")
    assert [(run["variant"], run["repeat"]) for run in runs] == [(0, 20)]
    choose("machine code", "Record the machine code")
    expect(page.locator("[data-tab=code]")).to_have_attribute("aria-selected", "true")
