"""The pane of shardings with real programs behind it: what is listed, and every part where Python says that it lies."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from playwright.sync_api import expect

import inspector
from inspector.analysis.sharding.program_shardings import SHARDING_COLUMNS
from inspector.errors import Unavailable
from tests.frontend.behind import OpenDemo, behind, until

pytestmark = pytest.mark.browser
MESH = AbstractMesh((2, 2, 2), ("data", "model", "expert"), axis_types=(AxisType.Auto,) * 3)


def split(shape: tuple[int, ...], *spec: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P(*spec)))


def layer(params: dict[str, Any], x: Any) -> Any:
    h = jnp.einsum("bi,eio->beo", x, params["experts"])
    return (
        jax.lax.with_sharding_constraint(jnp.tanh(h), NamedSharding(MESH, P("data", "expert", None))) + params["bias"]
    )


def explored() -> Any:
    params = {"experts": split((2, 16, 12), "expert", None, "model"), "bias": split((12,))}
    return inspector.explore(layer, params, split((8, 16), ("data", "model")), target="cpu:8").wait(120)


@pytest.mark.parametrize(("theme", "width"), [("light", 1500), ("dark", 900)])
def test_arrays_are_listed_and_drawn(demo: OpenDemo, theme: str, width: int, tmp_path: Any) -> None:
    explorer = explored()
    page = demo("waiting", until=".insp-state", theme=theme)
    page.set_viewport_size({"width": width, "height": 1000})
    exchange = behind(page, explorer, tab="shardings")
    rows = page.locator(".insp-shardings tbody tr")
    until(page, exchange, rows)
    found = explorer.lowered.shardings(explorer.baseline.compiled)
    assert rows.locator("th").all_inner_texts() == [each.name for each in found]
    heads = page.locator(".insp-shardings thead th")
    expect(heads).to_have_text(
        [title.replace("per device", "per device (B)") for title in SHARDING_COLUMNS.titles("pane")]
    )
    experts = rows.filter(has_text="params['experts']")
    expect(experts).to_contain_text("(expert, -, model)")
    expect(experts).to_contain_text("384")
    experts.click()
    parts = page.locator(".insp-part > title")
    told = found["params['experts']"].sharding
    assert not isinstance(told, Unavailable)
    assert set(parts.all_text_contents()) == {
        f"[{', '.join(f'{a}:{b}' for a, b in part)}] on {', '.join(map(str, ids))}" for part, ids in told.parts.items()
    }
    page.screenshot(path=tmp_path / f"shardings-{theme}.png")
    page.get_by_label("Horizontal").select_option("1")
    expect(page.locator(".insp-parts")).to_contain_text("→ dimension 1, whole")
    assert parts.count() == 2
    page.get_by_label("Index of dimension 2").fill("11")
    assert all("6:12" in text for text in parts.all_text_contents())
    explorer.close()


def test_arrays_that_differ_from_their_request_are_filtered(demo: OpenDemo) -> None:
    """JAX obeys requests, so the list is empty; one that differs comes from a message."""
    explorer = explored()
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="shardings")
    rows = page.locator(".insp-shardings tbody tr")
    until(page, exchange, rows)
    count = rows.count()
    differs = page.get_by_role("button", name="Differs from request")
    differs.click()
    expect(rows).to_have_count(0)
    note = page.locator(".insp-shardings .insp-note:visible").first
    expect(note).to_have_text("XLA uses the requested sharding for all 3 arrays that your code requests one for.")
    message = next(dict(m.message) for m in explorer._app.stored_messages() if m.message["type"] == "sharding_list")
    row = {**message["rows"][1], "differs": True}
    page.evaluate("m => demo.emit(m)", {**message, "rows": [message["rows"][0], row, *message["rows"][2:]]})
    expect(rows).to_have_count(1)
    expect(rows.locator("th")).to_have_text(row["name"])
    expect(page.locator(".insp-shardings .insp-side-title")).to_contain_text(row["name"])
    page.get_by_role("button", name="All arrays").click()
    expect(rows).to_have_count(count)
    explorer.close()


def test_values_inside_come_with_the_recorded_passes(demo: OpenDemo, tmp_path: Any) -> None:
    """And with them what a collective was inserted for."""
    explorer = explored()
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="shardings")
    rows, record = page.locator(".insp-shardings tbody tr"), page.locator(".insp-shardings .insp-note button")
    until(page, exchange, rows)
    count = rows.count()
    expect(page.locator(".insp-shardings .insp-note:visible")).to_contain_text(
        "Record the compiler passes to see the shardings of inner values"
    )
    record.click()
    until(page, exchange, rows.filter(has_text="value"))
    expect(record).to_have_count(0)
    product = rows.filter(has_text="dot_general").filter(has_text="value")
    assert rows.count() > count
    expect(product.first).to_contain_text("(data, expert, model)")
    page.screenshot(path=tmp_path / "values.png")
    page.locator("[data-tab=collectives]").click()
    side = page.locator(".insp-needed-by")
    until(page, exchange, side)
    expect(side).to_contain_text("dot of f32[")
    page.screenshot(path=tmp_path / "needed.png")
    explorer.close()


def test_short_parts_and_devices_of_a_permuted_mesh(demo: OpenDemo, tmp_path: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices())[::-1], ("i",))
    sharding = NamedSharding(mesh, P("i"))

    def padded(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(x[:13] * 2, sharding).sum()

    explorer = inspector.explore(padded, jax.device_put(np.arange(16.0, dtype=np.float32), sharding)).wait(120)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="shardings")
    rows = page.locator(".insp-shardings tbody tr")
    until(page, exchange, rows)
    rows.filter(has_text="constraint").click()
    expect(page.locator(".insp-parts")).to_contain_text("no elements on 0; dashed parts are smaller")
    texts = page.locator(".insp-part > title").all_text_contents()
    assert texts[0] == "[0:2] on 7"
    assert texts[6] == "[12:13], smaller, on 1"
    page.screenshot(path=tmp_path / "short.png")
    explorer.close()


def test_a_program_on_one_device_has_no_such_pane(demo: OpenDemo) -> None:
    explorer = inspector.explore(jnp.sin, 1.0).wait(60)
    page = demo("waiting", until=".insp-state")
    exchange = behind(page, explorer, tab="stats")
    until(page, exchange, page.locator("[data-tab=collectives]"))
    assert page.locator("[data-tab=shardings]").count() == 0
    explorer.close()
