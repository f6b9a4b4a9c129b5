"""Modules of values that live: read when first asked for, and not again as long as there is room."""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from inspector.hlo.module import Module

T = TypeVar("T")

MOST_ROWS = 500_000
"""Instructions of all modules that are held, some 400 bytes each; the one asked for last is held whatever its size."""


@dataclasses.dataclass(slots=True)
class _Entry:
    """A module, and the values that have it, by id."""

    module: Module
    owners: dict[int, weakref.ref[object]] = dataclasses.field(default_factory=dict)


class Held:
    """Modules by their bytes. Thread-safe.

    Values with equal bytes, such as a preview and what was compiled then, have one module. None is held longer than
    the values live, and of many large ones those that were asked for last.
    """

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._lock = threading.RLock()  # a value may die, and call back, wherever memory is taken
        self._entries: collections.OrderedDict[bytes, _Entry] = collections.OrderedDict()

    def module(self, owner: object, hlo_proto: bytes, read: Callable[[bytes], Module] = Module.from_proto) -> Module:
        """The module of a value; arguments and errors as for `Module.from_proto`, or how else it is read."""
        with self._lock:
            entry = self._entries.get(hlo_proto)
        if entry is None:
            module = read(hlo_proto)
        with self._lock:
            entry = self._entries.get(hlo_proto) or entry or _Entry(module)  # read by another thread meanwhile
            number = id(owner)
            # Before it is put in: others of its values may die in any of these lines, and take it out.
            entry.owners[number] = weakref.ref(owner, lambda _: self._drop(hlo_proto, number))
            self._entries[hlo_proto] = entry
            self._entries.move_to_end(hlo_proto)
            while self._rows() > self._most_rows and len(self._entries) > 1:
                self._entries.popitem(last=False)
        return entry.module

    def __len__(self) -> int:
        return len(self._entries)

    def _rows(self) -> int:
        return sum(len(entry.module.columns) for entry in list(self._entries.values()))

    def _drop(self, hlo_proto: bytes, number: int) -> None:
        with self._lock:
            entry = self._entries.get(hlo_proto)
            if entry is None:
                return
            owner = entry.owners.get(number)
            if owner is not None and owner() is None:  # not a new value in the same place
                del entry.owners[number]
            if not entry.owners:
                del self._entries[hlo_proto]


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
