"""The demo page with a real Explorer for its kernel."""

from __future__ import annotations

import base64
import queue
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

from tests.frontend.menus import show_pane

OpenDemo = Callable[..., Page]
EMIT = """messages => {
  const bytes = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  for (const [content, buffers] of messages) demo.emit(content, buffers.map(bytes));
}"""


def behind(page: Page, explorer: Any, tab: str = "") -> Callable[[], None]:
    """Makes an Explorer the page's kernel; gives what hands over the messages that both have for each other.

    Args:
      page: the demo page.
      explorer: the kernel's.
      tab: the pane to bring to the front once it is there, "" for none.
    """
    app = explorer._app
    mail: queue.Queue[tuple[dict[str, Any], list[str]]] = queue.Queue()
    app.send = lambda content, buffers=None: mail.put((content, [base64.b64encode(b).decode() for b in buffers or []]))
    heard = 0

    def exchange() -> None:
        nonlocal heard
        for message in page.evaluate("from => demo.sent.slice(from)", heard):
            heard += 1
            app._receive(app, message, [])
        while not mail.empty():
            page.evaluate(EMIT, [mail.get()])

    if tab:
        until(page, exchange, page.locator(f"[data-tab={tab}]"))
        show_pane(page, tab)
    return exchange


def until(page: Page, exchange: Callable[[], None], wanted: Locator) -> None:
    for _ in range(600):
        exchange()
        if wanted.count():
            return
        page.wait_for_timeout(100)
    raise TimeoutError(f"nothing is {wanted}")
