"""`Portable`: how a frozen value crosses processes when parts of it live in one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

TRAVELS: Mapping[str, bool] = {"travels": True}
"""The metadata of a field with `compare=False` that crosses processes all the same."""


class Portable:
    """Base of a frozen dataclass whose fields with `compare=False`, but for those that travel, live in one process.

    A pickle has None in their place, so the copy equals the original. `copy` and `deepcopy` stay in the
    process and give the value itself.
    """

    __slots__ = ()

    # Not `__getstate__` and `__setstate__`: Python before 3.11.4 replaces a class's own in a frozen dataclass
    # with slots (https://github.com/python/cpython/issues/104035).
    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every heir is a dataclass
        travels = traveling(type(self))
        return type(self), tuple(getattr(self, f.name) if f.name in travels else None for f in fields)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def traveling(kind: type[Portable]) -> set[str]:
    """The names of the fields that cross processes."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every heir is a dataclass
    return {field.name for field in fields if field.compare or field.metadata == TRAVELS}
