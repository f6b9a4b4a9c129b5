"""The Instructions pane with a real program behind it: counted when it is opened, sorted, linked to the text."""

from __future__ import annotations

import base64
import queue
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import inspector

pytestmark = [pytest.mark.browser, pytest.mark.slow]

OpenDemo = Callable[..., Page]
EMIT = """messages => {
  const bytes = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  for (const [content, buffers] of messages) demo.emit(content, buffers.map(bytes));
}"""


def program(x: Any, w: Any, v: Any) -> Any:
    import jax.numpy as jnp

    return jnp.tanh(x @ w) @ v + jnp.sin(x)


def behind(page: Page, explorer: Any) -> Callable[[], None]:
    """Makes an Explorer the page's kernel; gives what hands over the messages that both have for each other."""
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

    return exchange


def until(page: Page, exchange: Callable[[], None], wanted: Locator) -> None:
    for _ in range(600):
        exchange()
        if wanted.count():
            return
        page.wait_for_timeout(100)
    raise TimeoutError(f"nothing is {wanted}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_costliest_come_first_and_lead_to_their_line(demo: OpenDemo, theme: str, tmp_path: Any) -> None:
    import jax.numpy as jnp

    explorer = inspector.explore(program, jnp.ones((64, 256)), jnp.ones((256, 128)), jnp.ones((128, 256))).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    exchange = behind(page, explorer)
    until(page, exchange, page.locator("[data-tab=instructions]"))
    assert not page.evaluate("demo.sent.filter(m => m.type === 'instructions')")
    page.click("[data-tab=instructions]")
    rows = page.locator(".insp-instructions tbody tr")
    until(page, exchange, rows)
    names = lambda: rows.locator("th").all_inner_texts()  # noqa: E731
    table = explorer.baseline.compiled.instructions()
    alone = table[table["fusion"].isna()]
    assert sorted(names()) == sorted(alone["name"])
    most = alone.loc[alone["flops"].idxmax()]
    page.get_by_role("button", name="flops").click()
    until(page, exchange, page.locator("th[aria-sort=descending]", has_text="flops"))
    expect(rows.first).to_contain_text(f"{2 * 64 * 256 * 128 / 1e6:.2f}M")
    assert names()[0] in set(alone[alone["flops"] == most["flops"]]["name"])
    page.screenshot(path=tmp_path / f"instructions-{theme}.png")
    first = names()[0]
    rows.first.click()
    expect(page.locator("[data-pane=optimized] .cm-line.insp-chosen")).to_contain_text(f"%{first} =")
    page.get_by_role("button", name="All", exact=True).click()
    until(page, exchange, rows.nth(len(alone)))
    assert sorted(names()) == sorted(table["name"])
    explorer.close()
