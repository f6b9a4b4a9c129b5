"""Computed properties of a compiled program: requested of XLA once, by any number of callers."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines import shared_engines
from inspector.errors import Unavailable
from inspector.stages.compiled import Compiled, as_compiled, instruction_costs
from tests.modules import module_of
from tests.widgets import fakes


def program(name: str) -> Compiled:
    text = f"HloModule {name}\nENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}}\n"
    made = Program(name, b"module", (), (), Options(num_replicas=1), None, "cpu")
    request = CompileRequest(made, Options(), Target.parse("cpu"))
    return as_compiled(fakes.compiled(request, hlo_proto=module_of(text).columns.data))


def test_a_request_during_counting_waits_for_the_same_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    both, one = threading.Barrier(2), program("counted_once")
    other = dataclasses.replace(one, hlo_proto=bytes(bytearray(one.hlo_proto)))

    def count(modules: Sequence[bytes]) -> list[dict[str, Any]]:
        asked.append(len(modules))
        threading.Event().wait(0.2)  # for the other to ask too
        return [{"flops": 4.0}] * len(modules)

    def ask(compiled: Compiled) -> object:
        both.wait(60)
        return instruction_costs(compiled)

    monkeypatch.setattr(shared_engines, "try_to_count", count)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        first, second = threads.map(ask, [one, other])
    assert first == second
    assert first is not second  # each may change its own
    assert asked == [1]


def test_different_modules_are_counted_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    together, programs = threading.Barrier(2), [program("one"), program("other")]

    def count(modules: Sequence[bytes]) -> list[dict[str, Any]]:
        together.wait(60)
        return [{"flops": 4.0}] * len(modules)

    monkeypatch.setattr(shared_engines, "try_to_count", count)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        found = list(threads.map(instruction_costs, programs))
    assert [costs["y"].flops for costs in found] == [4.0, 4.0]


def test_failed_counting_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    replies: list[Any] = [Unavailable("no worker"), [{"flops": 4.0}]]
    monkeypatch.setattr(shared_engines, "try_to_count", lambda modules: replies.pop(0))
    compiled = program("counted_later")
    assert instruction_costs(compiled)["y"].flops == Unavailable("no worker")
    for _ in range(2):
        assert instruction_costs(compiled)["y"].flops == 4.0
    assert replies == []
