"""A value's module is read once, and goes with it."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import threading
import weakref
from typing import Any

import pytest

from inspector.hlo.module import Module
from inspector.hlo.reading.module_cache import ModuleCache, cache_per_module
from tests.modules import module_of


@functools.cache
def written(name: str) -> bytes:
    text = f"HloModule {name}\nENTRY e {{\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}}\n"
    return module_of(text).columns.data


def proto(name: str = "m") -> bytes:
    """The proto of a module of two instructions; always equal, and never the same object."""
    return bytes(bytearray(written(name)))


class Owner:
    """Holds a module."""

    itself: Owner | None = None


def test_a_module_is_read_once() -> None:
    held, one = ModuleCache(), Owner()
    module = held.module(one, proto())
    assert held.module(one, proto()) is module
    assert held.module(one, proto("other")) is not module


def test_values_with_equal_bytes_have_one_module_until_the_last_is_gone() -> None:
    held, one, other = ModuleCache(), Owner(), Owner()
    module = held.module(one, proto())
    assert held.module(other, proto()) is module
    assert len(held) == 1
    del one
    gc.collect()
    assert held.module(other, proto()) is module
    del other
    gc.collect()
    assert len(held) == 0


def test_a_module_goes_with_its_value() -> None:
    held, owner = ModuleCache(), Owner()
    module = weakref.ref(held.module(owner, proto()))
    del owner
    gc.collect()
    assert len(held) == 0
    assert module() is None


def test_the_most_recent_modules_stay_in_the_cache() -> None:
    held, owner = ModuleCache(most_rows=5), Owner()
    one = held.module(owner, proto("one"))
    two = held.module(owner, proto("two"))
    assert held.module(owner, proto("one")) is one
    held.module(owner, proto("three"))
    assert len(held) == 2
    assert held.module(owner, proto("one")) is one
    assert held.module(owner, proto("two")) is not two


def test_the_last_one_stays_whatever_its_size() -> None:
    held, owner = ModuleCache(most_rows=1), Owner()
    module = held.module(owner, proto())
    assert held.module(owner, proto()) is module


def test_threads_get_the_same_module(monkeypatch: pytest.MonkeyPatch) -> None:
    held, owner, data = ModuleCache(), Owner(), proto()
    together, read = threading.Barrier(4), Module.from_proto

    def slow(data: bytes) -> Module:
        together.wait(10)
        return read(data)

    monkeypatch.setattr(Module, "from_proto", slow)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        modules = list(threads.map(lambda _: held.module(owner, data), range(4)))
    assert len(set(modules)) == 1


def test_a_value_that_dies_while_its_module_is_handed_out_takes_nothing_along(monkeypatch: pytest.MonkeyPatch) -> None:
    held, owner, data = ModuleCache(), Owner(), proto()
    reference = weakref.ref

    def collecting(*args: Any) -> weakref.ref[Any]:
        made = reference(*args)
        gc.collect()  # as it may wherever memory is taken
        return made

    gc.disable()
    try:
        dying = Owner()
        dying.itself = dying
        module = held.module(dying, data)
        del dying
        monkeypatch.setattr(weakref, "ref", collecting)
        assert held.module(owner, data) is module
        monkeypatch.undo()
    finally:
        gc.enable()
    assert len(held) == 1
    assert held.module(owner, data) is module


def test_the_last_one_stays_though_the_others_die_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    held, owner = ModuleCache(most_rows=1), Owner()
    others = [Owner()]
    held.module(others[0], proto("other"))
    rows = ModuleCache._rows

    def dying(self: ModuleCache) -> int:
        found = rows(self)
        others.clear()
        gc.collect()
        return found

    monkeypatch.setattr(ModuleCache, "_rows", dying)
    module = held.module(owner, proto())
    assert len(held) == 1
    assert held.module(owner, proto()) is module


def test_an_instruction_is_the_same_object_in_every_thread() -> None:
    module = Module.from_proto(proto())
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        seen = list(threads.map(lambda _: list(module.instructions()), range(50)))
    assert len({tuple(map(id, each)) for each in seen}) == 1


def test_cached_values_are_freed_with_the_module() -> None:
    asked = []

    @cache_per_module
    def names(module: Module) -> list[str]:
        asked.append(module.name)
        return [*module.columns.names]

    module = Module.from_proto(proto())
    assert names(module) is names(module)
    assert names(Module.from_proto(proto())) == names(module)
    assert len(asked) == 2
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
