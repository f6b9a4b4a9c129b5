"""Counting in a worker: what XLA refuses, and what takes the worker down, costs one module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from inspector.compilation.engine import Job
from inspector.engines import shared_engines
from inspector.engines.workers import counting
from inspector.engines.workers.process import StartError
from inspector.engines.workers.wire import WireError
from inspector.errors import InspectorError, Unavailable, WorkerDiedError


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_memory", type(counting._memory)())


class Fragile:
    """An engine whose worker dies of some modules."""

    def __init__(self, deadly: bytes = b"") -> None:
        self.deadly = deadly
        self.asked: list[Sequence[bytes]] = []

    def count(self, modules: Sequence[bytes]) -> Job[Any]:
        self.asked.append(modules)
        job: Job[Any] = Job()
        if self.deadly in modules:
            job.fail(WorkerDiedError("XLA crashed"))
        else:
            job.resolve([{"flops": float(len(module))} for module in modules])
        return job


def test_a_deadly_module_costs_its_own_count_only() -> None:
    modules = [b"a", b"bb", b"ccc", b"deadly", b"eeeee"]
    found = counting.count(modules, Fragile(b"deadly").count)
    assert [c["flops"] if not isinstance(c, Unavailable) else c.reason[:31] for c in found] == [
        1, 2, 3, "XLA cannot count its operations", 5,
    ]  # fmt: skip


def test_a_death_is_not_remembered() -> None:
    assert isinstance(counting.count([b"a"], Fragile(b"a").count)[0], Unavailable)
    assert counting.count([b"a"], Fragile(b"none").count) == ({"flops": 1.0},)


def test_counting_stops_after_several_crashes() -> None:
    class Dying(Fragile):
        def count(self, modules: Sequence[bytes]) -> Job[Any]:
            self.deadly = modules[0]
            return super().count(modules)

    engine = Dying()
    found = counting.count([b"%d" % i for i in range(200)], engine.count)
    assert len(engine.asked) == counting._MOST_DEATHS + 1
    assert all(isinstance(c, Unavailable) for c in found)
    assert "counting crashed " in found[-1].reason  # type: ignore[union-attr]


def test_a_worker_that_does_not_start_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Absent(Fragile):
        def count(self, modules: Sequence[bytes]) -> Job[Any]:
            self.asked.append(modules)
            job: Job[Any] = Job()
            error = WorkerDiedError("no worker starts")
            error.__cause__ = StartError("No module named 'jax'")
            job.fail(error)
            return job

    engine = Absent()
    monkeypatch.setattr(shared_engines, "worker_engine", lambda: engine)
    found = shared_engines.try_to_count([b"a", b"b"])
    assert isinstance(found, Unavailable)
    assert "no worker starts" in found.reason
    assert len(engine.asked) == 1


def test_counted_computations_are_not_counted_again() -> None:
    engine = Fragile(b"none")
    first = counting.count([b"a", b"bb", b"a"], engine.count)
    assert engine.asked == [[b"a", b"bb"]]
    assert counting.count([b"bb", b"a"], engine.count) == (first[1], first[0])
    assert len(engine.asked) == 1


def test_many_computations_are_counted_in_parts() -> None:
    engine = Fragile(b"none")
    counting.count([b"%d" % i for i in range(600)], engine.count)
    assert [len(part) for part in engine.asked] == [256, 256, 88]


def test_junk_is_refused_by_a_real_worker_and_the_rest_counted() -> None:
    from jaxlib import _hlo

    text = "HloModule m\nENTRY e {\n  x = f32[5]{0} parameter(0)\n  ROOT y = f32[5]{0} multiply(x, x)\n}\n"
    good = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    junk, known = counting.count([b"\xff\xff", good], shared_engines.worker_engine().count)
    assert isinstance(junk, Unavailable)
    assert junk.reason.startswith("XLA cannot count its operations: ")
    assert not isinstance(known, Unavailable)
    assert known["flops"] == 5


def test_another_reply_is_not_a_count() -> None:
    with pytest.raises(WireError, match="got a reply of type 'compiled'"):
        counting.read({"reply": "compiled"}, [b"[]"])


@pytest.mark.parametrize("error", [InspectorError("the engine was closed"), ImportError("No module named 'jax'")])
def test_without_a_worker_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken() -> Any:
        raise error

    monkeypatch.setattr(shared_engines, "worker_engine", broken)
    found = shared_engines.try_to_count([b"a"])
    assert isinstance(found, Unavailable)
    assert str(error) in found.reason
