"""Explorers are freed: closed ones, those that nothing refers to, and those of cells that run again."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import comm
import ipywidgets.widgets.widget as registry
import pytest

from inspector.toolchain.schema import installed_schema
from inspector.widgets import explorer as explorer_module
from inspector.widgets.explorer import Explorer
from inspector.widgets.lifetime import collect
from tests.widgets.fakes import PROTO, FakeWork, ask
from tests.widgets.kernel import Kernel

EXPLORE = """
import weakref
import jax.numpy as jnp
from inspector import explore
from inspector.widgets.explorer import Explorer
from inspector.widgets.lifetime import collect
made = []
def shown():
    made.append(weakref.ref(e := explore(jnp.sin, jnp.ones(3), target="cpu")))
    return e.wait()
def alive():
    collect()
    return [m() is not None for m in made]
"""


def finished(work: FakeWork) -> Explorer:
    explorer = work.explorer()
    work.finish_all()
    return explorer.wait(10)


def closed(explorer: Explorer) -> None:
    explorer.close()


def dropped(explorer: Explorer) -> None:
    """Nothing but letting go."""


@pytest.mark.parametrize("end", [closed, dropped])
def test_a_released_explorer_is_freed_completely(end: Callable[[Explorer], None]) -> None:
    gc.collect()  # what other tests left
    before = set(registry._instances), set(comm.get_comm_manager().comms)

    def use() -> list[weakref.ref[Any]]:
        work = FakeWork()
        explorer = finished(work)
        explorer._repr_mimebundle_()
        end(explorer)
        return [weakref.ref(explorer), weakref.ref(explorer._app), weakref.ref(explorer.layout)]

    held = [each for _ in range(5) for each in use()]
    until = time.monotonic() + 20
    while any(each() for each in held) and time.monotonic() < until:  # what its thread has under way refers to it
        collect()
        time.sleep(0.01)
    assert [each() for each in held] == [None] * len(held)
    assert (set(registry._instances), set(comm.get_comm_manager().comms)) == before


def test_a_large_program_goes_when_its_explorer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its module refers to itself, and nobody collects."""
    monkeypatch.setattr(explorer_module, "_LARGE_ROWS", 1)
    work = FakeWork()
    explorer = work.explorer()
    own = installed_schema().message("xla.HloModuleProto").FromString(PROTO)
    own.name = "another"  # programs of other tests have the module of the same bytes
    work.finish(0, hlo_proto=own.SerializeToString())
    explorer.wait(10)._threads.drain()  # what the thread has under way holds the module
    module = weakref.ref(explorer._compiles.board._modules[0])
    soon: list[str] = []
    monkeypatch.setattr("inspector.support.memory_release.give_back_soon", lambda: soon.append("back"))
    del work
    gc.disable()
    try:
        explorer.close()
        assert module() is None
    finally:
        gc.enable()
    assert soon == ["back"]  # once the variable `explorer` is gone too


def test_free_memory_is_released_after_showing_and_after_collecting_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[str] = []
    monkeypatch.setattr("inspector.support.memory_release.give_back", lambda: given.append("back"))
    explorer = finished(FakeWork())
    explorer._threads.drain()
    assert given == ["back"]
    explorer.close()
    assert given == ["back"] * 2
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    collect()
    assert given == ["back"] * 3


def test_an_explorer_is_collected_while_another_thread_collects() -> None:
    entered, left = threading.Event(), threading.Event()

    def hold(phase: str, _: object) -> None:
        if threading.current_thread() is other and phase == "start":
            entered.set()
            left.wait(10)

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    other = threading.Thread(target=gc.collect)
    gc.callbacks.append(hold)
    try:
        other.start()
        assert entered.wait(10)
        made = weakref.ref(Cycle())
        assert gc.collect() == 0
        assert made() is not None
        threading.Timer(0.1, left.set).start()
        collect()
        assert made() is None
    finally:
        left.set()
        other.join(10)
        gc.callbacks.remove(hold)


def test_a_closed_one_that_is_still_referred_to_keeps_no_text() -> None:
    work = FakeWork()
    explorer = finished(work)
    job = weakref.ref(work.jobs.pop())
    explorer.close()
    collect()
    assert job() is None
    assert not explorer._app._stored


def test_messages_reach_a_weakly_referenced_widget() -> None:
    explorer = finished(FakeWork())
    app = explorer._app
    selection = {"pane": "hlo", "variant": None, "file": None, "line": 3, "origin": None, "instruction": "add.1"}
    message = {"method": "custom", "content": {"type": "select", "selection": selection}}
    app.comm.handle_msg({"content": {"data": message}, "buffers": []})
    assert explorer.selection == selection
    assert registry._instances[app.model_id].model_id == app.model_id
    explorer.close()
    ask(explorer, message["content"])  # late, from a page that does not know yet


@pytest.mark.slow
@pytest.mark.parametrize("sends_ids", [True, False])
def test_a_cell_that_runs_again_releases_its_explorer(kernel: Kernel, sends_ids: bool) -> None:
    def cell(name: str) -> str | None:
        return name if sends_ids else None

    kernel.run(EXPLORE)
    kernel.run("shown()", cell("a"))
    assert kernel.value("alive()") == [True]
    kernel.run("shown()", cell("a"))
    kernel.run("kept = shown()\nkept", cell("b"))
    assert kernel.value("alive()") == [False, True, True]
    kernel.run("kept = shown()\nkept", cell("b"))
    kernel.run("other = kept", cell("c"))
    assert kernel.value("alive()") == [False, True, False, True]
    kernel.run("kept = shown()\nkept", cell("b"))
    assert kernel.value("alive()") == [False, True, False, True, True], "`other` still refers to it"
    assert kernel.value("other.baseline.label") == "baseline"


@pytest.mark.slow
def test_a_running_explorer_is_freed_after_its_compile(kernel: Kernel) -> None:
    kernel.run(EXPLORE.replace("e.wait()", "e"))
    kernel.run("shown()", "a")
    kernel.run("shown().wait()", "a")
    kernel.run("made[0]() and made[0]().wait(); None", "b")
    assert kernel.value("made[0]()") is None


@pytest.mark.slow
def test_an_unnamed_explorer_shown_by_a_cell_stays(kernel: Kernel) -> None:
    kernel.run(EXPLORE)
    kernel.run("display(shown())", "a")
    kernel.run("collect()", "b")
    assert kernel.value("alive()") == [True]
    kernel.run("display(1)", "a")
    assert kernel.value("alive()") == [False]


def test_an_explorer_in_marimo_lives_as_long_as_its_comm() -> None:
    def show() -> tuple[weakref.ref[Explorer], str]:
        explorer = finished(FakeWork())
        return weakref.ref(explorer), explorer._display_().comm.comm_id

    shown, name = show()
    collect()
    assert shown() is not None
    manager = comm.get_comm_manager()
    manager.unregister_comm(manager.comms[name])  # as marimo does when the cell runs again
    until = time.monotonic() + 20
    while shown() is not None and time.monotonic() < until:
        collect()
        time.sleep(0.01)
    assert shown() is None
