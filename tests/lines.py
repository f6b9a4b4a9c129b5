"""Lines of text panes in a browser."""

from __future__ import annotations

import time

from playwright.sync_api import Locator


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
