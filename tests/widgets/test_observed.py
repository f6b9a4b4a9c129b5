"""Operands and results of collectives by device: run on request, sent as text, for the right instructions."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.collectives.collectives import collectives
from inspector.compilation.options.options import Options
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes.collective_parts import observed as pane
from tests.widgets.fakes import Mailbox


def step(x: Any) -> Any:
    total = jax.lax.psum(x, "i")
    return jax.lax.all_gather(total + jax.lax.axis_index("i"), "j")


X = np.arange(4, dtype=np.float32)


def observed(explorer: Explorer, state: str = "done", *, apart: bool = False) -> dict[str, Any]:
    """The message at the end, after a browser has asked."""
    mailbox = Mailbox(explorer)
    mailbox.send({"type": "observe", "variant": 0, "apart": apart})
    return mailbox.wait_for("observed", state=state)


def test_values_of_every_device_are_sent_on_request() -> None:
    explorer = inspector.explore(step, X, axis_env=[("i", 2), ("j", 2)]).wait(120)
    mailbox = Mailbox(explorer)
    found = observed(explorer)
    reduce, index, gather = sorted(
        found["items"], key=lambda item: ["psum", "axis_index", "all_gather"].index(item["primitive"])
    )
    explorer.close()
    assert found["error"] is None
    assert found["elapsed_s"] > 0
    named = {
        stage: {row["name"]: row["opcode"] for row in mailbox.last("collectives", program=stage)["rows"]}
        for stage in ("hlo", "optimized")
    }
    for stage, rows in named.items():
        assert (rows[reduce[stage]], rows[gather[stage]]) == ("all-reduce", "all-gather")
    assert [row["device"] for row in reduce["rows"]] == [0, 1, 2, 3]
    assert [row["coordinates"] for row in reduce["rows"]] == [{"i": i, "j": j} for i in range(2) for j in range(2)]
    assert {text for row in reduce["rows"] for text in row["before"]} == {"[0., 1., 2., 3.]"}
    assert {text for row in reduce["rows"] for text in row["after"]} == {"[0., 2., 4., 6.]"}
    assert gather["rows"][2]["before"] == ["[1., 3., 5., 7.]"]
    assert gather["rows"][2]["after"] == ["[[1., 3., 5., 7.], [1., 3., 5., 7.]]"]
    assert index["hlo"] == ""
    assert "without communication" in index["unnamed"]
    assert [row["after"] for row in index["rows"]] == [["0"], ["0"], ["1"], ["1"]]


def test_replicas_may_take_separate_values() -> None:
    explorer = inspector.explore(lambda x, n: jax.lax.psum(x * n, "i"), X, 1, axis_env=[("i", 2)]).wait(120)
    (item,) = observed(explorer, apart=True)["items"]
    explorer.close()
    assert [row["before"] for row in item["rows"]] == [["[0., 1., 2., 3.]"], ["[1., 2., 3., 4.]"]]
    assert [row["after"] for row in item["rows"]] == [["[1., 3., 5., 7.]"]] * 2


def test_non_numeric_values_are_unchanged() -> None:
    """Random keys stay the same on all replicas; bfloat16 and shapes alone differ."""

    def noisy(key: Any, x: Any, y: Any) -> Any:
        return jax.lax.psum(x, "i"), jax.lax.psum(y + jax.random.normal(key) * 0, "i")

    shape = jax.ShapeDtypeStruct((3,), jnp.int32)
    explorer = inspector.explore(noisy, jax.random.key(0), jnp.ones(2, jnp.bfloat16), shape, axis_env=[("i", 2)]).wait(
        120
    )
    first, second = observed(explorer, apart=True)["items"]
    explorer.close()
    assert [row["before"] for row in first["rows"]] == [["[1., 1.]"], ["[2., 2.]"]]
    assert [row["before"] for row in second["rows"]] == [["[0., 1., 2.]"], ["[1., 2., 3.]"]]


def endless(x: Any) -> Any:
    return jax.lax.psum(jax.lax.while_loop(lambda v: v[0] >= 0, lambda v: v * 0.5 + 1, x), "i")


def test_a_run_without_an_end_is_stopped() -> None:
    explorer = inspector.explore(endless, X, axis_env=[("i", 2)]).wait(120)
    mailbox = Mailbox(explorer)
    mailbox.send({"type": "observe", "variant": 0, "apart": False})
    mailbox.wait_for("observed", state="running")
    time.sleep(3)  # it runs by now, most likely; the compile can be cancelled too
    mailbox.send({"type": "cancel", "variant": 0})
    assert mailbox.wait_for("observed", state="cancelled")["elapsed_s"] > 0
    explorer.close()


def test_a_program_without_collectives_is_reported() -> None:
    explorer = inspector.explore(lambda x: x + 1, X).wait(120)
    found = observed(explorer, "failed")
    explorer.close()
    assert "calls no collective" in found["error"]["message"]


def test_a_program_loaded_without_its_function_is_refused(tmp_path: Any) -> None:
    explorer = inspector.explore(step, X, axis_env=[("i", 2), ("j", 2)]).wait(120)
    explorer.save(tmp_path / "x.inspector")
    explorer.close()
    exploration = inspector.load(tmp_path / "x.inspector")
    assert isinstance(exploration, inspector.Exploration)
    opened = exploration.explorer()
    found = observed(opened, "failed")
    opened.close()
    assert "without its function" in found["error"]["message"]


def looped(x: Any) -> Any:
    return jax.lax.fori_loop(0, 20, lambda _, v: jax.lax.psum(v, "i") / 2, x)


def test_only_the_beginning_of_many_executions_and_long_arrays_is_sent() -> None:
    lowered = inspector.lower(looped, np.ones((40, 40), np.float32), axis_env=[("i", 2)])
    (item,) = pane.observations(lowered.observe(np.ones((40, 40), np.float32)), lowered.collectives(), None)
    assert item["executions"] == 20
    assert [len(row["after"]) for row in item["rows"]] == [8, 8]
    assert "the first 8 of 20 executions" in item["note"]
    assert item["rows"][0]["after"][0].count("1.") < 20
    assert "..." in item["rows"][0]["after"][0]
    assert item["optimized"] == ""


def test_values_beyond_one_page_are_omitted() -> None:
    def many(x: Any) -> Any:
        for n in range(30):
            x = jax.lax.psum(x + n, "i") / 8
        return x

    x = np.linspace(0, 1, 16, dtype=np.float32)
    lowered = inspector.lower(many, x, axis_env=[("i", 32)])
    found = lowered.observe(x)
    items = pane.observations(found, lowered.collectives(), None)
    told = [item for item in items if item["rows"]]
    assert 0 < len(told) < len(items) == 30
    assert "lowered.observe(...)" in items[-1]["note"]
    assert sum(len(text) for item in told for row in item["rows"] for text in row["before"] + row["after"]) < 80_000


def test_one_that_runs_often_on_many_devices_fills_no_page() -> None:
    x = np.linspace(0, 1, 4096, dtype=np.float32).reshape(64, 64)
    lowered = inspector.lower(looped, x, axis_env=[("i", 64)])
    (item,) = pane.observations(lowered.observe(x), lowered.collectives(), None)
    assert "executions" in item["note"]
    assert sum(len(text) for row in item["rows"] for text in row["before"] + row["after"]) < 80_000


def test_two_equal_collectives_of_one_line_are_not_distinguished_after_optimization() -> None:
    """The optimized instruction is named where it can only be that one."""

    def twice(x: Any) -> Any:
        return [jax.lax.psum(v, "i") for v in (x, x * 2)]

    lowered = inspector.lower(twice, X, axis_env=[("i", 2)])
    compiled = lowered.compile(target="cpu:2")
    before, after = lowered.collectives(), compiled.collectives()
    named = pane._counterparts(before, collectives(compiled.module(), before.mesh, 2, 1))
    assert len(after) > 0
    assert named == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "0.1"),
        (np.float32(3e-7), "3e-07"),
        (np.float32(1e30), "1e+30"),
        (np.asarray(jnp.array([1, -2], jnp.int4)), "[1, -2]"),
        (np.int32(7), "7"),
        (np.array([True, False]), "[True, False]"),
        (np.asarray(jnp.array([1.5, 2], jnp.bfloat16)), "[1.5, 2.]"),
        (np.arange(100), "[0, 1, 2, 3, ..., 96, 97, 98, 99]"),
        (np.zeros((0, 3)), "[]"),
        (np.asarray(jnp.bfloat16(2.5)), "2.5"),
        (np.complex64(1 + 2j), "(1+2j)"),
    ],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert pane._text(value) == text


def test_devices_of_a_permuted_mesh_are_sent() -> None:
    devices = np.array(jax.devices())[::-1]
    assert devices.size > 1
    mesh = jax.sharding.Mesh(devices.reshape(2, -1), ("a", "b"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    explorer = inspector.explore(jax.jit(jnp.sum, in_shardings=sharding), np.ones(8, np.float32)).wait(120)
    mailbox = Mailbox(explorer)
    found = mailbox.last("collectives", program="optimized")["mesh"]
    assert found["physical_ids"] == [device.id for device in devices]
    explorer.close()


def test_devices_follow_the_device_assignment() -> None:
    explorer = inspector.explore(step, X, axis_env=[("i", 2), ("j", 2)]).wait(120)
    variant = explorer.add(Options(device_assignment=((1,), (0,), (3,), (2,))))
    explorer.wait(120)
    mailbox = Mailbox(explorer)
    assert mailbox.last("collectives", variant=0, program="hlo")["mesh"]["physical_ids"] is None
    assert mailbox.last("collectives", variant=variant.number, program="hlo")["mesh"]["physical_ids"] == [1, 0, 3, 2]
    explorer.close()
