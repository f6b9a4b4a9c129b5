"""The pane of options in Chromium, before a real Explorer: flags are tried, one becomes a variant, a form does."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from playwright.sync_api import expect

import inspector
from inspector import effects
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_what_matters_becomes_a_variant(demo: OpenDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("xla_disable_all_hlo_passes", "xla_cpu_ftz", "xla_hlo_profile")
    monkeypatch.setattr(effects, "boolean_flags", lambda _: few)
    explorer = inspector.explore(lambda x: jnp.sin(x) * 2 + x.mean(), jnp.ones((64, 64)), target="cpu").wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer)
    until(page, exchange, page.locator(".insp-chip"))
    page.get_by_role("tab", name="Options").click()
    expect(page.locator(".insp-options")).to_contain_text("Which flags change this program?")
    page.get_by_label("Seconds").fill("300")
    start = page.locator(".insp-scan-head .insp-button-main")
    start.click()
    until(page, exchange, page.locator(".insp-scan-head", has_text="Stop"))
    page.locator("[data-pane=optimized] .cm-line").nth(3).click()  # all else goes on
    until(page, exchange, page.locator(".insp-scan-said", has_text="3 of 3 flags tried").locator("visible=true"))
    until(page, exchange, page.locator(".insp-scan-same summary"))
    expect(page.locator(".insp-scan-same summary")).to_contain_text("changed nothing up to the machine code")
    row = page.locator(".insp-flag-table tbody tr", has_text="xla_disable_all_hlo_passes")
    expect(row).to_have_count(1)
    row.get_by_role("button", name="Add xla_disable_all_hlo_passes=true as a variant").click()
    until(page, exchange, page.locator(".insp-chip").nth(1))
    assert explorer.variants[1].options == inspector.Options(flags={"xla_disable_all_hlo_passes": True})
    explorer.close()


def test_a_form_says_what_is_wrong(demo: OpenDemo) -> None:
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
    page.get_by_label("Flags as in XLA_FLAGS").fill("--xla_cpu_ftz\n--xla_hlo_profile=false")
    page.locator(".insp-build-head .insp-button-main").click()
    until(page, exchange, page.locator(".insp-chip").nth(1))
    made = explorer.variants[1].options
    assert made.num_replicas == 2
    assert dict(made.flags) == {"optimization_level": "EFFORT_O1", "xla_cpu_ftz": True, "xla_hlo_profile": False}
    explorer.close()
