"""Cache of parsed modules of live values."""

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
"""Limit of the instructions of all cached modules, some 400 bytes each. The last used module is cached whatever its size."""


@dataclasses.dataclass(slots=True)
class _Entry:
    """A module and the live values that use it, by id."""

    module: Module
    owners: dict[int, weakref.ref[object]] = dataclasses.field(default_factory=dict)


class ModuleCache:
    """A thread-safe cache of modules, by their bytes.

    Values with equal bytes, such as a preview and the compiled program, share one module. A module is dropped when its values
    are deleted, or, if modules exceed the limit, when it is the least recently used.
    """

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._lock = threading.RLock()  # a value may be deleted, with a callback, at any allocation
        self._entries: collections.OrderedDict[bytes, _Entry] = collections.OrderedDict()

    def module(self, owner: object, hlo_proto: bytes, read: Callable[[bytes], Module] = Module.from_proto) -> Module:
        """Returns the module of a value. Errors are those of `read`."""
        with self._lock:
            entry = self._entries.get(hlo_proto)
        if entry is None:
            module = read(hlo_proto)
        with self._lock:
            entry = self._entries.get(hlo_proto) or entry or _Entry(module)  # another thread may have read it meanwhile
            number = id(owner)
            # Registered before insertion: other values may be deleted at any of these lines and remove the entry.
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
            if owner is not None and owner() is None:  # the id may belong to a new value
                del entry.owners[number]
            if not entry.owners:
                del self._entries[hlo_proto]


shared_cache = ModuleCache()
"""The cache of this process."""


def cache_per_module(function: Callable[[Module], T]) -> Callable[[Module], T]:
    """Caches the results of a function of a module for the lifetime of the module.

    Results must not refer to the module, which would then never be deleted.
    """
    known: weakref.WeakKeyDictionary[Module, T] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def result_of(module: Module) -> T:
        result = known.get(module)
        return result if result is not None else known.setdefault(module, function(module))

    return result_of
