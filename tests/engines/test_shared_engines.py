"""The engines of a process: closed together, and no child's of a fork."""

from __future__ import annotations

import json
import platform
import threading
from pathlib import Path
from typing import Any

import jax
import pytest

from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines import shared_engines

NAMES = ("_worker", "_inline", "_starter")


class Closing:
    def __init__(self, name: str, closed: list[str]) -> None:
        self._name, self._closed = name, closed

    def close(self) -> None:
        assert not shared_engines._cached
        self._closed.append(self._name)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the closed engines; all of them exist."""
    found: list[str] = []
    monkeypatch.setattr(shared_engines, "_cached", {name: Closing(name, found) for name in ("one", "two")})
    monkeypatch.setattr(shared_engines, "_lock", threading.RLock())
    for name in NAMES:
        monkeypatch.setattr(shared_engines, name, Closing(name, found))
    return found


def held() -> list[Any]:
    return [*shared_engines._cached.values(), *filter(None, (getattr(shared_engines, name) for name in NAMES))]


def test_caching_engines_close_before_those_that_they_use(closed: list[str]) -> None:
    shared_engines.close_engines()
    assert closed == ["one", "two", *NAMES]
    assert held() == []
    shared_engines.close_engines()
    assert closed == ["one", "two", *NAMES]


def test_a_child_of_a_fork_leaves_its_parents_alone(closed: list[str]) -> None:
    before = shared_engines._lock
    shared_engines._forget_in_child()  # its parent may have held the lock
    assert closed == []
    assert held() == []
    assert shared_engines._lock is not before


@pytest.mark.parametrize(
    ("described", "machine"),
    [
        ("model name\t: A CPU\nflags\t\t: fpu sse\nbogomips: 1\n\nmodel name: another\n", ["A CPU", "fpu sse"]),
        ("processor: 0\nFeatures: fp asimd\n", ["fp asimd"]),
        ("processor: 0\n", []),
    ],
)
def test_the_first_core_identifies_the_processor(
    described: str, machine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self: described)
    assert shared_engines._machine.__wrapped__() == " ".join([platform.machine(), *machine])


def test_without_core_information_the_platform_module_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path) -> str:
        raise OSError("no such file")

    monkeypatch.setattr(Path, "read_text", fail)
    assert shared_engines._machine.__wrapped__() == f"{platform.machine()} {platform.processor()}"


def test_the_compiler_identity_has_everything_that_affects_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[str] = ["a driver"]
    monkeypatch.setattr(shared_engines, "_machine", lambda: "a processor")
    monkeypatch.setattr("inspector._jax.compiling.attached_devices.attached_compiler", lambda: attached[0])
    monkeypatch.setattr("inspector._jax.compiling.ahead_of_time.absent_compiler", lambda platform: f"for {platform}")
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_b=1")

    def request(target: str) -> CompileRequest:
        return CompileRequest(Program("f", b"module", (), (), Options(), None, "cpu"), Options(), Target.parse(target))

    def told(target: str) -> list[Any]:
        said = json.loads(shared_engines._compiler(request(target)))
        assert said[0]["jaxlib"]
        assert said[2] == "--xla_a=1"
        return list(said[3:])

    assert told("cpu:4") == ["a processor", ""]
    assert told("attached") == ["a processor", "a driver"]
    assert told("tpu:v5e:2x2") == ["for tpu", "--xla_tpu_b=1"]
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", not before)
    try:
        assert json.loads(shared_engines._compiler(request("cpu:4")))[1]["jax_disable_most_optimizations"] is not before
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
    assert json.loads(shared_engines._compiler(request("cpu:4")))[1]["jax_disable_most_optimizations"] is before
