"""`Deferred`: a frozen dataclass some of whose fields are made when they are first asked for.

What a large program says in full takes seconds to write, and whoever compiles it need not wait for that.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

Later = Mapping[str, Callable[[Any], Any]]
"""What makes each field that is not there yet, from the value itself."""


class Deferred:
    """Base of a frozen dataclass with slots. Thread-safe: whoever asks meanwhile waits for the same field.

    A value that is compared, pickled or replaced by `dataclasses.replace` has all fields made.
    """

    __slots__ = ("_later", "_lock")

    @classmethod
    def deferred(cls, later: Later, **known: Any) -> Self:
        """A value that lacks some fields; the others are known, or have defaults."""
        made = object.__new__(cls)
        object.__setattr__(made, "_lock", threading.RLock())  # a field may be made of others
        object.__setattr__(made, "_later", dict(later))
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every heir is a dataclass
            if field.name not in later:
                object.__setattr__(made, field.name, known.pop(field.name) if field.name in known else _default(field))
        if known:
            raise TypeError(f"A {cls.__name__} has no {next(iter(known))!r}")
        return made

    def changed(self, **fields: Any) -> Self:
        """The same with other fields; what is not made yet stays so."""
        return type(self).like(self, **fields)

    @classmethod
    def like(cls, other: Deferred, **fields: Any) -> Self:
        """The fields of another value, but for those that are given; what is not made yet stays so."""
        names = {field.name for field in dataclasses.fields(other)}  # type: ignore[arg-type]  # every heir is a dataclass
        missing = _missing(other) - fields.keys()
        later = {name: functools.partial(_of, other, name) for name in missing}
        known = {name: getattr(other, name) for name in names - missing - fields.keys()}
        return cls.deferred(later, **known, **fields)

    if not TYPE_CHECKING:  # else every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Called where a field is not there."""
            missing = _missing(self)
            if name in missing:
                with object.__getattribute__(self, "_lock"):
                    later = object.__getattribute__(self, "_later")
                    if name in later:  # and not made meanwhile
                        object.__setattr__(self, name, later[name](self))
                        del later[name]  # and what it was made of
            return object.__getattribute__(self, name)


def _missing(value: Deferred) -> frozenset[str]:
    """The fields that are not made yet."""
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
