"""Every table sorted by each of its columns, by mouse and keyboard, and copied as a frame that pandas reads."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until
from tests.frontend.test_roofline import arguments, step
from tests.frontend.test_shardings import explored

pytestmark = [pytest.mark.browser, pytest.mark.slow]

COPY = "Copy rows"


@pytest.fixture(scope="module")
def explorer() -> Iterator[Any]:
    found = inspector.explore(step, *arguments()).wait(120)
    yield found
    found.close()


def cells(page: Page, pane: str, column: int) -> list[str]:
    rows = page.locator(f"[data-pane={pane}] tbody tr:not(.insp-rowlist-group)")
    texts: list[str] = rows.evaluate_all("(rows, i) => rows.map(row => row.cells[i].textContent)", column)
    return texts


def copied(page: Page, pane: str, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Returns the result of `pandas.read_clipboard` for the text that a pane's button copies."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator(f".insp-group:has([data-pane={pane}])").get_by_label(COPY)
    button.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    monkeypatch.setattr("pandas.io.clipboard.clipboard_get", lambda: text)
    return pd.read_clipboard()


@pytest.mark.parametrize("pane", ["instructions", "roofline", "memory", "passes"])
def test_each_column_sorts_and_the_rows_are_copied(
    demo: OpenDemo, explorer: Any, pane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab=pane)
    start = {"roofline": "Measure this machine"}.get(pane)
    if start:
        button = page.get_by_role("button", name=start, exact=True)
        until(page, exchange, button)
        button.click()
    heads = page.locator(f"[data-pane={pane}] .insp-sort")
    ready = {"roofline": ".insp-roofline-caption"}.get(pane, f"[data-pane={pane}] tbody tr th")
    until(page, exchange, page.locator(ready))
    every = heads.all_inner_texts()
    assert len(every) >= 3
    names = sorted(page.locator(f"[data-pane={pane}] tbody tr th").all_inner_texts())
    for number in range(len(every)):
        head = heads.nth(number)
        head.focus()
        orders = []
        for _ in range(2):
            page.keyboard.press("Enter")
            exchange()
            until(page, exchange, page.locator(f"[data-pane={pane}]:not(.insp-counting)"))
            expect(head).to_be_focused()
            said = head.locator("xpath=..").get_attribute("aria-sort")
            orders.append((said, cells(page, pane, number)))
            assert sorted(page.locator(f"[data-pane={pane}] tbody tr th").all_inner_texts()) == names
        assert {said for said, _ in orders} == {"ascending", "descending"}, every[number]
        if len(set(orders[0][1]) - {"–"}) > 1 and (pane, every[number]) != ("instructions", "#"):
            assert orders[0][1] != orders[1][1], every[number]
    frame = copied(page, pane, monkeypatch)
    known = page.locator(f"[data-pane={pane}] tbody tr th").all_inner_texts()
    assert len(frame) == len(known)
    column = {"memory": "buffer"}.get(pane, "name")
    assert frame[column].tolist() == known
    if pane == "instructions":
        table = explorer.baseline.compiled.instructions().set_index("name")
        assert frame["flops"].sum() == table.loc[frame["name"], "flops"].sum()
    if pane == "passes":
        passes = explorer.lowered.compile(products=("passes",)).passes
        table = passes.table().set_index("index", drop=False).loc[frame["index"]]
        assert [*frame.columns] == [*table.columns][:-1]  # without the reasons for unknown values
        assert frame["changed"].dtype == bool
        for name in ("pipeline", "name", "changed", "instructions", "fusions", "written_bytes", "collectives"):
            assert frame[name].tolist() == table[name].tolist(), name
        assert frame["duration_s"].isna().tolist() == table["duration_s"].isna().tolist()


def test_collectives_are_sorted_and_copied(demo: OpenDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    page = demo("targets")
    page.click("[data-tab=collectives]")
    rows = page.locator(".insp-collectives tbody tr")
    expect(rows.nth(1)).to_be_visible()
    before = rows.locator("th").all_inner_texts()
    page.get_by_role("button", name=re.compile("^operand bytes")).click()
    expect(page.locator(".insp-collectives th[aria-sort=descending]")).to_contain_text(re.compile(r"operand bytes.* ↓"))
    assert sorted(rows.locator("th").all_inner_texts()) == sorted(before)
    rows.last.click()
    expect(rows.last).to_have_attribute("aria-selected", "true")
    expect(page.locator(".insp-side-title")).to_have_text(rows.last.locator("th").inner_text())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".insp-group:has(.insp-collectives)").get_by_label(COPY).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    frame = pd.read_csv(io.StringIO(page.evaluate("navigator.clipboard.readText()")), sep="\t")
    assert frame["name"].tolist() == [text.split()[-1] for text in rows.locator("th").all_inner_texts()]
    assert frame["operand_bytes"].is_monotonic_decreasing


def test_a_page_without_clipboard_access_shows_the_call(demo: OpenDemo) -> None:
    page = demo("targets")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.click("[data-tab=collectives]")
    page.locator(".insp-group:has(.insp-collectives)").get_by_label(COPY).click()
    expect(page.get_by_role("button", name="Copying is blocked")).to_have_attribute(
        "title", "Copying is blocked by the browser. In Python: compiled.collectives().table()"
    )


# The heads of the columns that are wholly in view, and whether each cell in view is on top.
IN_VIEW = """(list) => {
  const frame = list.getBoundingClientRect();
  return [...list.querySelectorAll("thead th")].filter((head) => {
    const box = head.getBoundingClientRect();
    return box.left >= frame.left - 1 && box.right <= frame.right + 1;
  }).map((head) => head.dataset.column);
}"""


@pytest.mark.parametrize(
    ("tab", "expected"),
    [
        ("collectives", ["name", "source", "estimated_s", "axes"]),
        ("shardings", ["name", "source", "split", "part_bytes"]),
        ("memory", ["buffer", "source", "bytes"]),
    ],
)
def test_columns_that_matter_are_in_view_at_900_px(demo: OpenDemo, tab: str, expected: list[str]) -> None:
    """The source is second, and stays in view with the name while the table scrolls sideways; units are in the heads."""
    explorer = explored()
    page = demo("waiting", until=".insp-state")
    page.set_viewport_size({"width": 900, "height": 900})
    exchange = behind(page, explorer, tab=tab)
    pane = page.locator(f"[data-pane={tab}], .insp-{tab}").first
    until(page, exchange, pane.locator("tbody tr"))
    page.wait_for_timeout(100)
    scroller = pane.locator(".insp-scroll:has(table.insp-rows)").first
    assert scroller.evaluate(IN_VIEW)[: len(expected)] == expected
    with_unit = [text for text in pane.locator("thead .insp-sort").all_inner_texts() if "(" in text]
    assert with_unit, "no unit in a head"
    scroller.evaluate("list => { list.querySelector('table').style.marginRight = '800px'; list.scrollLeft = 60; }")
    page.wait_for_timeout(100)
    assert scroller.evaluate("list => list.scrollLeft") > 0
    assert scroller.evaluate(IN_VIEW)[:2] == expected[:2]
    if tab == "memory":
        cells = pane.locator("tbody tr td:nth-child(3)").all_inner_texts()
        assert all(len(text.replace(".", "").lstrip("0")) <= 3 for text in cells), cells
    explorer.close()
