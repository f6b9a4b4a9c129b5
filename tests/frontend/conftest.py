"""The app on its demo page, outside Jupyter, in Chromium."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from inspector.widgets.panes import instructions, roofline
from tests.frontend.behind import OpenDemo

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose roofs were not measured, and cannot be stored: nothing is measured unless a test asks for it."""
    for pane in (instructions, roofline):
        monkeypatch.setattr(pane, "stored_peak", lambda: None)
    monkeypatch.setattr(roofline, "can_store_peak", lambda: False)


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Says nothing: the page's own errors are what matters."""


@pytest.fixture(scope="session")
def demo_url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(ROOT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    """One for all pages, so that the app's code is read and compiled once; nothing on screen moves by itself."""
    context = chromium.new_context(viewport={"width": 1360, "height": 760}, reduced_motion="reduce")
    yield context
    context.close()


@pytest.fixture
def demo(profile: BrowserContext, demo_url: str) -> Iterator[OpenDemo]:
    """Opens the demo page with a scenario of `frontend/demo/demo.js`.

    The test fails on any error of the page, and on any request to another host.
    """
    page = profile.new_page()
    errors: list[str] = []
    foreign: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((demo_url, "data:", "blob:")) else foreign.append(r.url))

    def open_(scenario: str = "mlp", until: str = "[data-pane=optimized] .cm-line", **query: str | int) -> Page:
        page.goto(f"{demo_url}/frontend/demo/index.html?{urlencode({'scenario': scenario, 'theme': 'light', **query})}")
        page.wait_for_selector(until, timeout=90_000)  # of 600,000 lines on a busy machine
        return page

    yield open_
    page.evaluate("() => localStorage.clear()")  # what the app remembers of its layout
    page.close()
    assert errors == []
    assert foreign == []
