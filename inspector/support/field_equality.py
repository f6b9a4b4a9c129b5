"""`OfFields`: a value is its fields, whatever it keeps that it made of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Self


class OfFields:
    """Base of a frozen dataclass with cached properties: a pickle has the fields, and the rest is made again."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every heir is a dataclass
        return type(self), tuple(getattr(self, field.name) for field in fields)
