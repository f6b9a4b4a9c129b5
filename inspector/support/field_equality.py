"""`OfFields`: pickles a value without its cached properties."""

from __future__ import annotations

import dataclasses
from typing import Any, Self


class OfFields:
    """Base of a frozen dataclass with cached properties. A pickle contains the fields only; properties are recomputed."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return type(self), tuple(getattr(self, field.name) for field in fields)
