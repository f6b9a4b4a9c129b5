"""Modules of values that live: read when first asked for, and not again as long as there is room."""

from __future__ import annotations

import collections
import functools
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from inspector.hlo.module import Module

T = TypeVar("T")

MOST_ROWS = 500_000
"""Instructions of all modules that are held, some 400 bytes each; the one asked for last is held whatever its size."""


class Held:
    """Modules by the values that they belong to. Thread-safe.

    None is held longer than its value lives, and of many large ones those that were asked for last.
    """

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._lock = threading.RLock()  # a value may die, and call back, wherever memory is taken
        self._modules: collections.OrderedDict[int, tuple[weakref.ref[object], Module]] = collections.OrderedDict()

    def module(self, owner: object, read: Callable[[], Module]) -> Module:
        """The module of a value, which `read` gives where it is not held."""
        with self._lock:
            found = self._modules.get(id(owner))
            if found is not None and found[0]() is owner:
                self._modules.move_to_end(id(owner))
                return found[1]
        module = read()
        with self._lock:
            number = id(owner)
            found = self._modules.get(number)
            if found is not None and found[0]() is owner:  # read by another thread meanwhile
                return found[1]
            self._modules[number] = weakref.ref(owner, lambda _: self._drop(number)), module
            self._modules.move_to_end(number)
            while len(self._modules) > 1 and self._rows() > self._most_rows:
                self._modules.popitem(last=False)
        return module

    def __len__(self) -> int:
        return len(self._modules)

    def _rows(self) -> int:
        return sum(len(module.columns) for _, module in list(self._modules.values()))

    def _drop(self, number: int) -> None:
        with self._lock:
            found = self._modules.get(number)
            if found is not None and found[0]() is None:  # not of a new value in the same place
                del self._modules[number]


held = Held()
"""Those of this process."""


def kept(say: Callable[[Module], T]) -> Callable[[Module], T]:
    """The same function, that says of a module what it said before, as long as the module lives.

    What it gives must not refer to the module, which would then live for ever.
    """
    known: weakref.WeakKeyDictionary[Module, T] = weakref.WeakKeyDictionary()

    @functools.wraps(say)
    def said(module: Module) -> T:
        found = known.get(module)
        return found if found is not None else known.setdefault(module, say(module))

    return said
