"""Observed values of a collective in its pane: requested, drawn device by device, saved on a page without a kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playwright.sync_api import expect

import inspector
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = pytest.mark.browser


def step(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, v: jax.lax.psum(v, "i") / 2, x)


X = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_a_run_shows_the_operands_and_results_of_every_device(
    demo: OpenDemo, theme: str, width: int, tmp_path: Any
) -> None:
    explorer = inspector.explore(step, X, axis_env=[("i", 2), ("j", 2)]).wait(120)
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 1000})
    exchange = behind(page, explorer, tab="collectives")
    seen = page.get_by_role("region", name="Observed values")
    until(page, exchange, seen)
    expect(seen).to_contain_text("Runs the function once")
    seen.get_by_label("Add replica number to inputs").check()
    seen.get_by_role("button", name="Run and observe").press("Enter")
    rows = seen.locator("tbody tr")
    until(page, exchange, rows)
    assert rows.all_inner_texts() == [
        "0 A\ti=0, j=0\t[0., 1., 2., 3.]\t[2., 4., 6., 8.]",
        "1 B\ti=0, j=1\t[1., 2., 3., 4.]\t[4., 6., 8., 10.]",
        "2 A\ti=1, j=0\t[2., 3., 4., 5.]\t[2., 4., 6., 8.]",
        "3 B\ti=1, j=1\t[3., 4., 5., 6.]\t[4., 6., 8., 10.]",
    ]
    page.screenshot(path=tmp_path / f"observed-{theme}.png")
    executions = seen.get_by_role("group", name="Execution")
    executions.get_by_role("button", name="2").press("Enter")
    assert rows.first.inner_text() == "0 A\ti=0, j=0\t[1., 2., 3., 4.]\t[2., 4., 6., 8.]"
    expect(executions.get_by_role("button", name="2")).to_be_focused()
    page.get_by_role("group", name="Program stage").get_by_role("button", name="HLO", exact=True).click()
    assert rows.count() == 4
    explorer.close()


def test_a_permuted_mesh_shows_the_devices_own_ids(demo: OpenDemo, tmp_path: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices())[::-1].reshape(2, -1), ("a", "b"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    explorer = inspector.explore(jax.jit(lambda x: x.sum(), in_shardings=sharding), np.ones(8, np.float32)).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="collectives")
    cells = page.locator(".insp-cell text:first-of-type")
    until(page, exchange, cells)
    assert cells.all_text_contents() == list("01234567")
    page.get_by_role("group", name="Displayed ids").get_by_role("button", name="device ids").click()
    assert cells.all_text_contents() == list("76543210")
    page.locator(".insp-cell").first.hover()
    expect(page.locator(".insp-member")).to_contain_text("partition 0 (a=0, b=0) on device 7")
    page.screenshot(path=tmp_path / "permuted.png")
    explorer.close()


def test_a_program_without_user_collectives_is_reported(demo: OpenDemo) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("a",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    explorer = inspector.explore(jax.jit(lambda x: x.sum(), in_shardings=sharding), np.ones(8, np.float32)).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="collectives")
    seen = page.get_by_role("region", name="Observed values")
    until(page, exchange, seen)
    seen.get_by_role("button", name="Run and observe").click()
    until(page, exchange, seen.get_by_role("alert"))
    expect(seen).to_contain_text("calls no collective")
    explorer.close()


def test_collectives_of_the_partitioner_state_their_reason(demo: OpenDemo, tmp_path: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))

    def copied(x: Any) -> Any:
        spec = jax.sharding.PartitionSpec
        y = jax.lax.with_sharding_constraint(jnp.sin(x), jax.sharding.NamedSharding(mesh, spec("a", "b", "c")))
        whole = jax.sharding.NamedSharding(mesh, spec(None, None, ("c", "b", "a")))
        return jax.lax.with_sharding_constraint(jnp.cos(y), whole)

    explorer = inspector.explore(copied, np.ones((16, 16, 16), np.float32), target="cpu:8").wait(120)
    page = demo("waiting", until=".insp-state")
    page.set_viewport_size({"width": 1500, "height": 1000})
    exchange = behind(page, explorer, tab="collectives")
    warned = page.locator(".insp-replicated")
    until(page, exchange, warned.locator("li"))
    expect(warned).to_contain_text("1 array copied whole to every device")
    expect(warned).to_contain_text("from (a, b, c) to (-, -, c+b+a), 2 KiB per device before test_observed.py:")
    page.screenshot(path=tmp_path / "replicated.png")
    expect(page.locator(".insp-about")).to_contain_text("dimension 2 split over c, needed: dimension 2 whole")
    explorer.close()


def test_an_argument_that_is_gathered_is_named_with_both_shardings(demo: OpenDemo, tmp_path: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))

    def placed(shape: tuple[int, ...], *spec: Any) -> jax.ShapeDtypeStruct:
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
        return jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)

    given = placed((256, 1024), "data"), placed((1024, 2048), None, ("model", "data"))
    explorer = inspector.explore(lambda x, w: jnp.tanh(x @ w), *given).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="collectives")
    about = page.locator(".insp-about")
    until(page, exchange, about.get_by_text("argument x"))
    expect(about).to_contain_text("argument x: (data, -) → (-, -)")
    page.screenshot(path=tmp_path / "gathered.png")
    explorer.close()
