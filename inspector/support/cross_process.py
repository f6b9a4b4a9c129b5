"""`Portable`: pickles a frozen value without the fields that are valid in one process only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

TRAVELS: Mapping[str, bool] = {"travels": True}
"""Metadata of a field with `compare=False` that is pickled nevertheless."""


class Portable:
    """Base of a frozen dataclass whose fields with `compare=False` are valid in one process only.

    Fields with the metadata `TRAVELS` are an exception. A pickle stores None for the other fields, so the copy equals the
    original. `copy` and `deepcopy` return the value itself, because they stay in the process.
    """

    __slots__ = ()

    # Not `__getstate__` and `__setstate__`: Python before 3.11.4 overwrites them in a frozen dataclass with slots
    # (https://github.com/python/cpython/issues/104035).
    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        travels = traveling(type(self))
        return type(self), tuple(getattr(self, f.name) if f.name in travels else None for f in fields)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def traveling(kind: type[Portable]) -> set[str]:
    """Returns the names of the fields that are pickled."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every subclass is a dataclass
    return {field.name for field in fields if field.compare or field.metadata == TRAVELS}
