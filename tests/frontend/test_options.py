"""The pane of options in Chromium, before a real Explorer: flags are tried, one becomes a variant, a form does."""

from __future__ import annotations

import re

import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from inspector.api import flag_effects
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_an_effective_flag_becomes_a_variant(demo: OpenDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("xla_disable_all_hlo_passes", "xla_cpu_ftz", "xla_hlo_profile")
    monkeypatch.setattr(flag_effects, "boolean_flags", lambda _: few)
    explorer = inspector.explore(lambda x: jnp.sin(x) * 2 + x.mean(), jnp.ones((64, 64)), target="cpu").wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer)
    until(page, exchange, page.locator(".insp-chip"))
    page.get_by_role("tab", name="Options").click()
    expect(page.locator(".insp-options")).to_contain_text("Which flags change baseline on cpu?")
    page.get_by_label("Time limit in seconds").fill("300")
    start = page.locator(".insp-scan-head .insp-button-main")
    start.click()
    until(page, exchange, page.locator(".insp-scan-head", has_text="Stop"))
    page.locator("[data-pane=optimized] .cm-line").nth(3).click()  # all else goes on
    until(page, exchange, page.locator(".insp-scan-said", has_text="3 of 3 flags tried").locator("visible=true"))
    until(page, exchange, page.locator(".insp-scan-same summary"))
    expect(page.locator(".insp-scan-same summary")).to_contain_text("machine code not compared")
    row = page.locator(".insp-flag-table tbody tr", has_text="xla_disable_all_hlo_passes")
    expect(row).to_have_count(1)
    row.get_by_role("button", name="Add xla_disable_all_hlo_passes=true as a variant").click()
    until(page, exchange, page.locator(".insp-chip").nth(1))
    assert explorer.variants[1].options == inspector.Options(flags={"xla_disable_all_hlo_passes": True})
    expect(page.locator(".insp-chip-main").nth(1)).to_have_attribute("aria-pressed", "true")
    of = page.locator(".insp-scan-of")
    expect(of).to_have_text("of xla_disable_all_hlo_passes=true cpu")
    expect(start).to_have_attribute("title", re.compile("xla_disable_all_hlo_passes=true on cpu"))
    page.locator(".insp-chip-main").nth(0).click()
    expect(of).to_have_text("of baseline cpu")
    row.get_by_role("button", name="Add xla_disable_all_hlo_passes=true as a variant").click()
    status = page.locator(".insp-status-text")
    until(page, exchange, status.filter(has_text="xla_disable_all_hlo_passes=true on cpu already exists"))
    expect(page.locator(".insp-chip")).to_have_count(2)
    expect(page.locator(".insp-chip-main").nth(1)).to_have_attribute("aria-pressed", "true")
    page.locator(".insp-chip-main").nth(0).click()
    expect(status).not_to_contain_text("already exists")
    explorer.close()


def test_a_form_shows_its_errors(demo: OpenDemo) -> None:
    explorer = inspector.explore(lambda x: jnp.sin(x) * 2, jnp.ones((8, 8)), target="cpu:2").wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer)
    until(page, exchange, page.locator(".insp-chip"))
    page.get_by_role("tab", name="Options").click()
    page.get_by_role("button", name="Build options").click()
    until(page, exchange, page.locator(".insp-build-field"))
    page.get_by_label("num_replicas").fill("none")
    page.locator(".insp-build-head .insp-button-main").click()
    until(page, exchange, page.locator(".insp-build-said [role=alert]"))
    expect(page.locator(".insp-build-said")).to_contain_text("num_replicas")
    expect(page.get_by_label("num_replicas")).to_have_value("none")
    page.get_by_label("num_replicas").fill("2")
    page.get_by_label("optimization_level").select_option("EFFORT_O1")
    page.get_by_label("XLA flags").fill("--xla_cpu_ftz\n--xla_hlo_profile=false")
    page.locator(".insp-build-head .insp-button-main").click()
    until(page, exchange, page.locator(".insp-chip").nth(1))
    made = explorer.variants[1].options
    assert made.num_replicas == 2
    assert dict(made.flags) == {"optimization_level": "EFFORT_O1", "xla_cpu_ftz": True, "xla_hlo_profile": False}
    explorer.close()


PASTE = """([input, text]) => {
  const data = new DataTransfer();
  data.setData("text", text);
  input.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
}"""


def test_pasted_lines_are_one_variant_and_a_pinned_one_stays(demo: OpenDemo) -> None:
    explorer = inspector.explore(lambda x: jnp.sin(x) * 2, jnp.ones((8, 8)), target="cpu", compare=["cpu:2"]).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer)
    chips = page.locator(".insp-chip")
    until(page, exchange, chips.nth(1))
    flag = page.get_by_role("combobox", name="Flag: search")
    flag.click()
    page.evaluate(PASTE, [flag.element_handle(), "--xla_cpu_ftz \\\n--xla_hlo_profile=false\n"])
    expect(flag).to_have_value("--xla_cpu_ftz --xla_hlo_profile=false")
    page.get_by_role("button", name="Add variant").click()
    until(page, exchange, chips.nth(2))
    explorer.wait(120)
    until(page, exchange, page.locator(".insp-chip-done").nth(2))
    expect(chips.locator(".insp-label")).to_have_text(["baseline", "cpu:2", "xla_cpu_ftz=true xla_hlo_profile=false"])
    expect(chips.nth(2).locator(".insp-chip-main")).to_have_attribute(
        "title", re.compile("compiled in .*waited .*in (all|total)")
    )
    chips.nth(2).get_by_role("button", name="Pin xla_cpu_ftz").click()
    until(page, exchange, chips.locator("[aria-label^='Unpin xla_cpu_ftz']"))
    expect(chips.locator(".insp-label")).to_have_text(["baseline", "xla_cpu_ftz=true xla_hlo_profile=false", "cpu:2"])
    expect(chips.nth(1).get_by_role("button", name="Remove")).to_have_count(0)
    expect(chips.nth(2).get_by_role("button", name="Remove")).to_have_count(1)
    explorer.close()
