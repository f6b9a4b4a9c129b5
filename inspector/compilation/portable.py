"""`Portable`: how a frozen value crosses processes when parts of it live in one."""

from __future__ import annotations

import dataclasses
from typing import Any, Self


class Portable:
    """Base of a frozen dataclass whose fields with `compare=False` live in one process.

    A pickle has None in their place, so the copy equals the original. `copy` and `deepcopy` stay in the
    process and give the value itself.
    """

    __slots__ = ()

    # Not `__getstate__` and `__setstate__`: Python before 3.11.4 replaces a class's own in a frozen dataclass
    # with slots (https://github.com/python/cpython/issues/104035).
    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every heir is a dataclass
        return type(self), tuple(getattr(self, field.name) if field.compare else None for field in fields)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
