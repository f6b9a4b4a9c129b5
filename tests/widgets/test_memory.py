"""The Memory pane's message: every buffer of the recorded assignment, in columns."""

from __future__ import annotations

import dataclasses
import gzip
import json
import threading
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.api.opened_program import OpenedProgram
from inspector.compilation.compiled import not_asked_for
from inspector.compilation.records.buffers import Buffers
from inspector.engines.inline import InlineEngine
from inspector.errors import Unavailable
from inspector.stages.compiled import Compiled
from inspector.support.units import format_bytes
from inspector.widgets.panes import memory
from inspector.widgets.panes.memory import MemoryPane
from tests.absent import needs_tpu

VARIANT: Any = SimpleNamespace(number=3)
CONTEXT: Any = SimpleNamespace(lock=threading.RLock(), holds=lambda _: True)


def step(params: dict[str, Any], x: Any, kept: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        with jax.named_scope("hidden"):
            y = jnp.tanh(x @ params["w"])
        return jnp.sum((y @ params["v"]) ** 2)

    new = jax.tree.map(lambda p, g: p - g, params, jax.grad(loss)(params))
    return new, jnp.sum(kept)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    params = {"w": jnp.ones((64, 256)), "v": jnp.ones((256, 32))}
    jitted = jax.jit(step, donate_argnums=(0, 2))
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        lowered = inspector.lower(jitted, params, jnp.ones((128, 64)), jnp.ones((7, 13)))
    return lowered.compile(engine=InlineEngine(), products=("buffers",))


def sent(compiled: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (entry,) = MemoryPane("memory", CONTEXT).recorded(VARIANT, compiled)
    return entry.content, json.loads(gzip.decompress(entry.buffers[0]))  # type: ignore[union-attr]


def test_every_buffer_is_there_once_the_largest_first(compiled: Compiled) -> None:
    message, buffers = sent(compiled)
    timeline = compiled.timeline()
    assert not isinstance(timeline, Unavailable)
    assert message["variant"] == 3
    assert message["note"] == ""
    text = buffers["texts"].__getitem__
    rows = list(zip(*(buffers[name] for name in ("instruction", "bytes", "start", "end", "room", "kind")), strict=True))
    assert sorted((text(i), b, s, e, message["rooms"][r]["name"], text(k)) for i, b, s, e, r, k in rows) == sorted(
        (life.instruction, life.byte_size, life.start, life.end, life.space, life.kind) for life in timeline.lives
    )
    assert buffers["bytes"] == sorted(buffers["bytes"], reverse=True)
    assert len(set(buffers["texts"])) == len(buffers["texts"])
    assert buffers["left_out"] == 0
    assert buffers["schedule"] == list(timeline.schedule)
    names = {
        text(n) for n, k in zip(buffers["name"], buffers["kind"], strict=True) if text(k) in ("argument", "donated")
    }
    assert names == {"params['w']", "params['v']", "x", "kept"}
    assert any("hidden" in text(scope) for scope in buffers["scope"])
    assert {text(phase) for phase in buffers["phase"]} >= {"forward", "backward"}
    assert any(__file__.rpartition("/")[2] in text(line) for line in buffers["line"])


def test_rooms_have_the_sums_of_the_memory(compiled: Compiled) -> None:
    message, _ = sent(compiled)
    (room,) = message["rooms"]
    for name in ("argument_bytes", "output_bytes", "alias_bytes", "temp_bytes"):
        assert room[name] == getattr(compiled.memory, name)
    assert max(live for _, live in room["curve"]) == room["live_bytes"] > 0
    assert room["live_bytes"] in [live for position, live in room["curve"] if position == room["peak"]]
    assert room["capacity_bytes"] is None


def test_the_main_memory_is_marked(compiled: Compiled) -> None:
    (room,) = sent(compiled)[0]["rooms"]
    assert (room["name"], room["is_main"]) == (compiled.memory.main, True)


def test_the_excerpt_has_the_buffers_at_the_peak(compiled: Compiled) -> None:
    pane = MemoryPane("memory", CONTEXT)
    assert not [*pane.excerpts(VARIANT)]
    pane.recorded(VARIANT, compiled)
    (excerpt,) = pane.excerpts(VARIANT)
    timeline = compiled.timeline()
    assert not isinstance(timeline, Unavailable)
    assert f"{format_bytes(compiled.memory.peak_bytes)} of RAM" in excerpt.title
    assert f"position {timeline.peak_position('RAM')} of {len(timeline.schedule)}" in excerpt.title
    lines = excerpt.text.splitlines()
    sizes = [format_bytes(life.byte_size) for life in timeline.alive("RAM")]
    assert [" ".join(line.split()[:2]) for line in lines] == sizes
    assert any("params['w']" in line and "donated" in line for line in lines)
    pane.forget(VARIANT)
    assert not [*pane.excerpts(VARIANT)]


def test_a_donation_that_no_output_reuses_is_named(compiled: Compiled) -> None:
    assert sent(compiled)[0]["unused"] == ["kept: float32[7, 13]"]


def test_only_the_largest_of_many_buffers_are_sent(compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sent(compiled)[1]["bytes"]
    monkeypatch.setattr(memory, "_MOST", 2)
    buffers = sent(compiled)[1]
    assert buffers["bytes"] == whole[:2]
    assert buffers["left_out"] == len(whole) - 2


@pytest.mark.parametrize(
    ("buffers", "said"),
    [
        (Unavailable("libtpu writes none", "Ask for text"), "Libtpu writes none. Ask for text"),
        (Buffers.of(b"\x0a"), "damaged"),
    ],
)
def test_missing_recordings_are_reported(compiled: Compiled, buffers: Any, said: str) -> None:
    message, none = sent(dataclasses.replace(compiled, buffers=buffers))
    assert message["rooms"] == []
    assert said in message["note"] or "Cannot read" in message["note"]
    assert none["bytes"] == []


def test_the_live_ranges_of_a_file_without_buffers_are_marked_as_estimated(compiled: Compiled) -> None:
    assert not sent(compiled)[0]["is_estimated"]
    opened = OpenedProgram.of(compiled.hlo, target="cpu").compiled
    message, buffers = sent(opened)
    assert message["is_estimated"]
    assert message["rooms"][0]["live_bytes"] > 0
    assert len(buffers["schedule"]) > 10
    pane = MemoryPane("memory", CONTEXT)
    [*pane.recorded(VARIANT, opened)]
    (excerpt,) = pane.excerpts(VARIANT)
    assert excerpt.title.startswith("Memory (estimated from the schedule): ")


def test_nothing_is_estimated_for_a_program_that_can_be_recorded(compiled: Compiled) -> None:
    unrecorded = dataclasses.replace(compiled, buffers=not_asked_for("buffers"))
    assert unrecorded.timeline() == not_asked_for("buffers")


@needs_tpu
def test_the_buffers_that_a_compile_recorded_are_shown_without_asking() -> None:
    """A compile for a CPU or for a device that is not attached records them."""
    explorer = inspector.explore(lambda x: jnp.tanh(x @ x).sum(), jnp.ones((256, 256)), target="tpu:v5e:1x1")
    on_cpu = explorer.add(target="cpu")
    explorer.wait(300)
    said = [entry.message for entry in explorer._app.stored_messages()]
    memory = {message["variant"]: message for message in said if message["type"] == "memory"}
    assert memory.keys() == {0, 1}
    assert {room["name"] for room in memory[0]["rooms"]} >= {"HBM"}
    for variant in (explorer.baseline, on_cpu):
        assert explorer._compiles.board.products(variant) == ("buffers",)
    explorer._compiles.board.record(explorer.baseline, "buffers")  # asked for all the same, nothing is compiled
    explorer.wait(60)
    assert not [m for m in said if m["type"] == "recording"]
    explorer.close()
