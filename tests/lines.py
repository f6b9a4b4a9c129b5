"""Lines of text panes in a browser."""

from __future__ import annotations

import time

from playwright.sync_api import Locator, Page


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
