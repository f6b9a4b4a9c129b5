"""A value's module is read once, and goes with it."""

from __future__ import annotations

import concurrent.futures
import gc
import threading
import weakref

import pytest

from inspector.hlo.held import Held, kept
from inspector.hlo.module import Module
from tests.modules import module_of

TEXT = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n"


class Owner:
    """Holds a module."""


def read() -> Module:
    return module_of(TEXT)


def unread() -> Module:
    pytest.fail("it was read again")


def test_a_module_is_read_once_for_each_value() -> None:
    held, one, other = Held(), Owner(), Owner()
    module = held.module(one, read)
    assert held.module(one, unread) is module
    assert held.module(other, read) is not module
    assert held.module(one, unread) is module


def test_a_module_goes_with_its_value() -> None:
    held, owner = Held(), Owner()
    module = weakref.ref(held.module(owner, read))
    del owner
    gc.collect()
    assert len(held) == 0
    assert module() is None


def test_of_too_many_the_last_ones_stay() -> None:
    held, owners = Held(most_rows=5), [Owner() for _ in range(3)]  # two instructions each
    modules = [held.module(owner, read) for owner in owners[:2]]
    assert held.module(owners[0], unread) is modules[0]
    held.module(owners[2], read)
    assert len(held) == 2
    assert held.module(owners[0], unread) is modules[0]
    assert held.module(owners[1], read) is not modules[1]


def test_the_last_one_stays_whatever_its_size() -> None:
    held, owner = Held(most_rows=1), Owner()
    module = held.module(owner, read)
    assert held.module(owner, unread) is module


def test_threads_get_the_same_module() -> None:
    held, owner = Held(), Owner()
    together = threading.Barrier(4)

    def slow() -> Module:
        together.wait(10)
        return read()

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        modules = list(threads.map(lambda _: held.module(owner, slow), range(4)))
    assert len(set(modules)) == 1


def test_an_instruction_is_the_same_object_in_every_thread() -> None:
    module = read()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        seen = list(threads.map(lambda _: list(module.instructions()), range(50)))
    assert len({tuple(map(id, each)) for each in seen}) == 1


def test_what_is_kept_goes_with_the_module() -> None:
    asked = []

    @kept
    def names(module: Module) -> list[str]:
        asked.append(module.name)
        return [*module.columns.names]

    module = read()
    assert names(module) is names(module)
    assert names(read()) == names(module)
    assert len(asked) == 2
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
