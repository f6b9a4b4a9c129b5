"""A cell runs again: its new Explorer goes on where the earlier one was."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from inspector.errors import ParameterError, Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.module import Module
from inspector.widgets.explorer import Explorer
from inspector.widgets.rerun import EarlierState, same_line
from inspector.widgets.variants import NOT_PROFILED
from tests.analysis.edited import randomly_edited
from tests.widgets.fakes import PROTO, FakeWork, Mailbox, ask, lowered
from tests.widgets.kernel import Kernel

FAST_MATH = {"xla_cpu_enable_fast_math": True}
EXCESS = {"xla_allow_excess_precision": False}


class Cell:
    """A cell whose Explorers follow each other."""

    def __init__(self) -> None:
        self.explorer: Explorer | None = None
        self.work = FakeWork()

    def run(self, *, module: bytes = b"module", source: str = "", given: Any = None, **settings: Any) -> Explorer:
        """Runs the cell, with another module if it was edited, and variants that its code asks for."""
        state = None if self.explorer is None else self.explorer.state_for_rerun()
        self.work = FakeWork()
        program: Any = lowered()
        program = dataclasses.replace(
            program,
            program=dataclasses.replace(program.program, module=module),
            source=Listing.of(source, [()] * (source.count("\n") + 1)),
        )
        self.explorer = Explorer(program, self.work, **settings)
        if given is not None:
            self.explorer.add(given)
        self.explorer.resume(state)
        self.explorer._threads.drain(None)
        return self.explorer


@pytest.fixture
def cell() -> Iterator[Cell]:
    made = Cell()
    yield made
    if made.explorer is not None:
        made.explorer.close()


def labels(explorer: Explorer) -> list[str]:
    return [variant.label for variant in explorer.variants]


def test_added_variants_stay_and_keep_their_pins(cell: Cell) -> None:
    first = cell.run()
    first.pin(first.add(FAST_MATH, "cpu:8"))
    first.add(EXCESS)
    again = cell.run(module=b"edited")
    assert [(str(v.target), v.options.as_dict(), v.is_pinned) for v in again.variants[1:]] == [
        ("cpu:8", FAST_MATH, True),
        ("attached", EXCESS, False),
    ]
    assert len(cell.run(module=b"edited again").variants) == 3


def test_variants_that_the_code_no_longer_asks_for_go(cell: Cell) -> None:
    cell.run(given=FAST_MATH)
    assert len(cell.run(module=b"edited").variants) == 1


def test_removed_and_failed_variants_do_not_come_back(cell: Cell) -> None:
    first = cell.run()
    first.remove(first.add(FAST_MATH))
    first.add(EXCESS)
    cell.work.jobs[-1].fail(RuntimeError("no"))
    assert len(cell.run().variants) == 1


def test_panes_and_selection_stay(cell: Cell) -> None:
    first = cell.run(source="a = 1\nb = a\nreturn b")
    first.arrangement = "memory"
    ask(first, {"type": "select", "selection": {
        "pane": "optimized", "variant": 0, "file": None, "line": 4, "origin": None, "instruction": "fusion"}})  # fmt: skip
    again = cell.run(source="a = 1\nb = a\nreturn b")
    assert again.arrangement == first.arrangement
    focus = Mailbox(again).last("focus")
    assert (focus["pane"], focus["instruction"]) == ("optimized", "fusion")


def test_the_line_of_an_edited_source_stays_selected(cell: Cell) -> None:
    first = cell.run(source="a = 1\nb = a\nreturn b")
    selection = {"pane": "source", "variant": None, "file": "f", "line": 3, "origin": None, "instruction": None}
    ask(first, {"type": "select", "selection": selection})
    again = cell.run(module=b"edited", source="a = 1\nb = a\nc = b\nb = c\nreturn b")
    focus = Mailbox(again).last("focus")
    assert (focus["pane"], focus["line"]) == ("source", 5)
    ask(again, {"type": "select", "selection": {**selection, "line": 5}})
    assert not Mailbox(cell.run(module=b"more", source="return 1")).of("focus"), "the line is gone"


def test_the_nearest_equal_line_counts() -> None:
    before, now = (Listing.of(text, [()] * 5) for text in ("x\n\ny\nx\n", "\nx\nx\ny\nx"))
    assert [same_line(line, before, now) for line in (1, 4, 3, 2, None)] == [2, 3, 4, None, None]
    labelled = dataclasses.replace(before, labels=(10, 11, 12, 13, 14))
    assert same_line(12, labelled, now) == 4
    assert same_line(12, labelled, Unavailable("no source")) is None


def test_the_edited_program_is_compared_with_its_previous_version(cell: Cell) -> None:
    cell.run()
    again = cell.run(module=b"edited")
    box = Mailbox(again)
    assert box.last("controls")["has_previous"]
    cell.work.finish_all()
    ask(again, {"type": "previous"})
    previous = again.variants[1]
    assert previous.label == "previous version"
    assert box.last("focus")["variant"] == again.baseline.number
    assert previous.lowered is not None
    assert previous.lowered.program.module == b"module"
    assert cell.work.requests[-1].program.module == b"module"
    cell.work.finish(1, hlo_proto=randomly_edited(Module.from_proto(PROTO), 3, 4).columns.data)
    assert box.wait_for("diff", baseline=previous.number, variant=0)["count"], "what the edit changed"
    again.wait(10)
    assert len(box.of("diff")) == 1
    assert again.add_previous() is previous
    assert again.add().is_baseline, "an equal request of the edited program is another variant"


def test_an_unchanged_program_keeps_the_version_before(cell: Cell) -> None:
    first = cell.run()
    with pytest.raises(ParameterError, match="no previous version"):
        first.add_previous()
    assert not Mailbox(cell.run()).last("controls")["has_previous"], "it is the same"
    cell.run(module=b"edited")
    again = cell.run(module=b"edited")
    lowered = again.add_previous().lowered
    assert lowered is not None
    assert lowered.program.module == b"module"
    assert len(cell.run(module=b"third").variants) == 1, "a previous version is offered, not added"


def test_axes_start_over_without_the_previous_version(cell: Cell) -> None:
    cell.run()
    again = cell.run(module=b"edited")
    again.add_previous()
    again._compiles.start_over([("i", 2)])
    assert len(again.variants) == 1


def test_recordings_of_an_equal_program_stay(cell: Cell) -> None:
    first = cell.run()
    cell.work.finish_all()
    first.wait(10)
    ask(first, {"type": "record", "variant": 0, "product": "passes"})
    cell.work.finish_all()
    first._threads.drain(None)
    first.baseline.profile = fake = object()  # type: ignore[assignment]
    state = first.state_for_rerun()
    assert isinstance(state, EarlierState)
    assert (state.products, state.profile) == (("passes",), fake)
    state = dataclasses.replace(state, profile=NOT_PROFILED)
    for module, products in ((b"module", [frozenset({"passes"})]), (b"edited", [])):
        cell.explorer = None
        again = cell.run(module=module)
        again.resume(state)
        cell.work.finish_all()
        again.wait(10)
        assert [request.products for request in cell.work.requests[1:]] == products


CODE = """
import jax.numpy as jnp
from inspector import explore
def f(x):
    return {} + x.sum()
e = explore(f, jnp.ones((8, 8)), target="cpu")
e
"""
WATCH = """
from inspector.widgets.explorer import Explorer
from inspector.support.deferred import _missing
real, missing = Explorer.__init__, []
def created(self, lowered, *args, **kwargs):
    missing.append(sorted(_missing(lowered)))
    real(self, lowered, *args, **kwargs)
Explorer.__init__ = created
"""


@pytest.mark.slow
def test_a_cell_of_a_notebook(kernel: Kernel) -> None:
    kernel.run(WATCH)
    kernel.run(CODE.format("jnp.sin(x)"), "cell")
    kernel.run("e.add({'xla_cpu_enable_fast_math': True})\nold = e.wait()", "other")
    kernel.run(CODE.format("jnp.cos(x)"), "cell")
    kernel.run("p = e.add_previous(); e.wait()", "other")
    assert kernel.value("[v.label for v in e.variants]") == [
        "baseline", "xla_cpu_enable_fast_math=true", "previous version",
    ]  # fmt: skip
    assert kernel.value("('cosine' in e.baseline.compiled.hlo, 'sine' in p.compiled.hlo)") == (True, True)
    assert "delta previous version" in kernel.value("e.compare().columns.tolist()")
    assert kernel.value("old._is_closed or p.lowered is not old.lowered")
    kernel.run("import warnings\n" + CODE.format("warnings.warn('noted') or jnp.tan(x)"), "cell")
    assert kernel.value("(all('hlo' in each for each in missing), len(missing))") == (True, 3)
    kernel.run(CODE.format("jnp.tan(x)"), "another cell")
    assert kernel.value("len(e.variants)") == 1
