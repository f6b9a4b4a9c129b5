"""Lines of text panes in a browser."""

from __future__ import annotations

import json
import time
from typing import Any

from playwright.sync_api import Locator, Page, Position


def expect_in_view(lines: Locator, limit_s: float = 5.0) -> None:
    """One of these lines is seen in its editor; others may be drawn just outside of it."""
    seen = """lines => lines.some(line => {
        const [own, frame] = [line, line.closest('.cm-scroller')].map(e => e.getBoundingClientRect());
        return own.bottom > frame.top && own.top < frame.bottom && own.right > frame.left + 40;
    })"""
    deadline = time.monotonic() + limit_s
    while not lines.evaluate_all(seen):
        assert time.monotonic() < deadline, f"none of {lines.count()} lines is in view: {lines.all_inner_texts()[:3]}"
        time.sleep(0.05)


def quickest_click(page: Page, *lines: str) -> float:
    """Milliseconds of the quickest of nine clicks: what a busy machine adds the least to.

    Args:
      page: with panes that have drawn their lines.
      lines: selectors, clicked on in turn.
    """
    page.wait_for_timeout(500)
    clicks: list[float] = page.evaluate(
        """async selectors => {
            const times = [];
            for (let i = 3; i < 12; i++) {
                const line = document.querySelectorAll(selectors[i % selectors.length])[i];
                const { left, top } = line.getBoundingClientRect();
                const at = { bubbles: true, clientX: left + 40, clientY: top + 6, button: 0, detail: 1 };
                const start = performance.now();
                for (const type of ['mousedown', 'mouseup', 'click']) line.dispatchEvent(new MouseEvent(type, at));
                times.push(performance.now() - start);
                await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            }
            return times;
        }""",
        list(lines),
    )
    return min(clicks)


def layouts_of_click(page: Page, selector: str, at: Position) -> int:
    """How often the page is laid out while a click at a place of an element is handled."""
    target = page.locator(selector)
    target.hover(position=at)
    page.wait_for_timeout(300)
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["devtools.timeline"])
    target.click(position=at)
    page.wait_for_timeout(300)
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    (click,) = (e for e in events if e["name"] == "EventDispatch" and e["args"]["data"]["type"] == "click")
    handled = range(click["ts"], click["ts"] + click["dur"])
    return sum(e["name"] == "Layout" and e["ts"] in handled for e in events)
