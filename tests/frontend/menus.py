"""Clicks on tabs and variants that a narrow Explorer has in a menu."""

from __future__ import annotations

from playwright.sync_api import Locator, Page


def show_pane(explorer: Page | Locator, name: str) -> None:
    """Brings a pane to the front by its tab, or by the menu of the tabs that do not fit."""
    tab = explorer.locator(f"[data-tab={name}]")
    if tab.is_visible():
        return tab.click()
    title = tab.text_content() or ""
    explorer.locator(".insp-tab-row", has=tab).locator(".insp-more-tabs").click()
    return explorer.get_by_role("menuitem", name=title, exact=True).click()


def show_variant(explorer: Page | Locator, index: int) -> None:
    """Activates a variant by its chip, or by the menu of all variants."""
    chip = explorer.locator(".insp-chip-main").nth(index)
    if chip.is_visible():
        return chip.click()
    explorer.locator(".insp-more").click()
    return explorer.locator(".insp-menu [role=menuitem]").nth(index).click()


def show_fields(explorer: Page | Locator) -> None:
    """Shows the fields of a new variant, which are behind a button in a narrow Explorer."""
    opener = explorer.get_by_role("button", name="Add a variant")
    if opener.is_visible():
        opener.click()
