"""`Deferred`: a frozen dataclass with lazily computed fields.

The full texts of a large program take seconds to produce, and compiling it does not need them.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

Later = Mapping[str, Callable[[Any], Any]]
"""A function for each missing field that computes it from the value itself."""


class Deferred:
    """Base of a frozen dataclass with slots and lazily computed fields.

    Thread-safe: threads that read a field at the same time wait for one computation. Comparing, pickling and
    `dataclasses.replace` compute all fields.
    """

    __slots__ = ("_later", "_lock")

    @classmethod
    def deferred(cls, later: Later, **known: Any) -> Self:
        """Creates a value with lazy fields. The other fields must be given or have defaults."""
        made = object.__new__(cls)
        object.__setattr__(made, "_lock", threading.RLock())  # computing a field may read others
        object.__setattr__(made, "_later", dict(later))
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every subclass is a dataclass
            if field.name not in later:
                object.__setattr__(made, field.name, known.pop(field.name) if field.name in known else _default(field))
        if known:
            raise TypeError(f"A {cls.__name__} has no {next(iter(known))!r}")
        return made

    def changed(self, **fields: Any) -> Self:
        """Returns a copy with some fields replaced. Fields that are not computed yet stay lazy."""
        return type(self).like(self, **fields)

    @classmethod
    def like(cls, other: Deferred, **fields: Any) -> Self:
        """Creates a value from the fields of another value, except the given ones. Lazy fields stay lazy."""
        names = {field.name for field in dataclasses.fields(other)}  # type: ignore[arg-type]  # every subclass is a dataclass
        missing = _missing(other) - fields.keys()
        later = {name: functools.partial(_of, other, name) for name in missing}
        known = {name: getattr(other, name) for name in names - missing - fields.keys()}
        return cls.deferred(later, **known, **fields)

    if not TYPE_CHECKING:  # otherwise type checkers would accept every attribute

        def __getattr__(self, name: str) -> Any:
            """Computes a missing field. Called by Python if an attribute does not exist."""
            missing = _missing(self)
            if name in missing:
                with object.__getattribute__(self, "_lock"):
                    later = object.__getattribute__(self, "_later")
                    if name in later:  # another thread may have computed it
                        object.__setattr__(self, name, later[name](self))
                        del later[name]  # also frees the values that it was computed from
            return object.__getattribute__(self, name)


def _missing(value: Deferred) -> frozenset[str]:
    """Returns the fields that are not computed yet."""
    try:
        return frozenset(object.__getattribute__(value, "_later"))
    except AttributeError:  # created with all fields
        return frozenset()


def _of(other: Deferred, name: str, _: Deferred) -> Any:
    return getattr(other, name)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise TypeError(f"{field.name!r} is neither known nor deferred")
