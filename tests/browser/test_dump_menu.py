"""The menu of a dump folder's modules in the applications."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.test_notebook import LIMIT_MS, Explored, explored, opened  # noqa: F401 - the last two are fixtures

RECORD = """
flags = {"xla_dump_to": "dumped", "xla_dump_hlo_pass_re": ".*", "xla_dump_hlo_as_text": True, "xla_dump_hlo_as_proto": True}
def double(x): return x * 2
for f in (step, double):
    inspector.lower(f, jnp.ones((32, 32)), target="cpu").compile(flags)
"""


def test_a_menu_above_the_explorer_chooses_the_module(explored: Explored) -> None:  # noqa: F811 - the fixture
    page: Page = explored(f"import inspector\n{RECORD}", 'inspector.load("dumped")')
    explorer = page.locator(".inspector-explorer").nth(1)
    expect(explorer.locator(".insp-chip-done")).to_have_text(re.compile("^dumped cpu$"), timeout=LIMIT_MS)
    menu = page.get_by_role("combobox", name="Module")
    expect(menu).to_be_visible()
    expect(menu.locator("option")).to_have_text([re.compile(r"jit_step\s"), re.compile(r"jit_double\s")])
    expect(explorer.locator("[data-pane=optimized]")).to_contain_text("jit_step", timeout=LIMIT_MS)
    menu.select_option(index=1)
    expect(explorer.locator("[data-pane=optimized]")).to_contain_text("jit_double", timeout=LIMIT_MS)
    expect(page.locator(".inspector-explorer")).to_have_count(2)
    # The other tests' notebooks have the same name and kernel; this kernel's first Explorer would keep the app's code.
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
