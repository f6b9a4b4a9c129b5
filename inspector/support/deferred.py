"""`Deferred`: a frozen dataclass whose expensive fields are computed on first access.

The full texts of a large program take seconds to write, and a compile does not need them.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

D = TypeVar("D", bound="Deferred")

Later = Mapping[str, Callable[[Any], Any]]
"""Functions that make each missing field from the value."""


class Deferred:
    """Base class of a frozen dataclass with slots. Thread-safe: concurrent readers wait for the same field.

    Comparing, pickling and `dataclasses.replace` make all fields.
    """

    __slots__ = ("_later", "_lock")

    if not TYPE_CHECKING:  # else every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Makes a missing field."""
            missing = _missing(self)
            if name in missing:
                with object.__getattribute__(self, "_lock"):
                    later = object.__getattribute__(self, "_later")
                    if name in later:  # and not made meanwhile
                        object.__setattr__(self, name, later[name](self))
                        del later[name]  # and what it was made of
            return object.__getattribute__(self, name)


def defer(kind: type[D], later: Later, **known: Any) -> D:
    """Returns a value of a deferred dataclass that lacks some fields.

    Args:
      kind: the dataclass.
      later: for each missing field, the function that makes it from the value.
      known: the other fields; those left out must have defaults.
    """
    made = object.__new__(kind)
    object.__setattr__(made, "_lock", threading.RLock())  # a field may be made of others
    object.__setattr__(made, "_later", dict(later))
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # every subclass is a dataclass
        if field.name not in later:
            object.__setattr__(made, field.name, known.pop(field.name) if field.name in known else _default(field))
    if known:
        raise TypeError(f"A {kind.__name__} has no field {next(iter(known))!r}")
    return made


def replace(value: D, **fields: Any) -> D:
    """Returns a copy with other fields. Fields that are not made yet stay deferred."""
    return convert(type(value), value, **fields)


def convert(kind: type[D], value: Deferred, **fields: Any) -> D:
    """Returns a value of another class with the same fields, except those given. Fields that are not made yet stay deferred."""
    names = {field.name for field in dataclasses.fields(value)}  # type: ignore[arg-type]  # every subclass is a dataclass
    missing = _missing(value) - fields.keys()
    later = {name: functools.partial(_of, value, name) for name in missing}
    known = {name: getattr(value, name) for name in names - missing - fields.keys()}
    return defer(kind, later, **known, **fields)


def _missing(value: Deferred) -> frozenset[str]:
    """Returns the names of the fields that are not made yet."""
    try:
        return frozenset(object.__getattribute__(value, "_later"))
    except AttributeError:  # made as a whole
        return frozenset()


def _of(other: Deferred, name: str, _: Deferred) -> Any:
    return getattr(other, name)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise TypeError(f"{field.name!r} is neither known nor deferred")
