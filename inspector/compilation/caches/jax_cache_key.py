"""`CacheKey`: the name of an entry in JAX's persistent compilation cache, taken apart. A value, without JAX.

Made by `caching.py`. Not of `cache.py`, which is inspector's own cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from inspector.errors import Unavailable
from inspector.toolchain.xla import options_message

_COMPILE_OPTIONS = "compile_options"


@dataclasses.dataclass(frozen=True, slots=True)
class Ingredient:
    """One part of a key.

    Attributes:
      name: JAX's own.
      sha256: of the part's bytes, in hexadecimal.
      value: what they say, for people.
    """

    name: str
    sha256: str
    value: str | Unavailable


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CacheKey:
    """A key of JAX's cache and what it is made of. Compare two with `diff`.

    Attributes:
      text: the key.
      ingredients: in the order of hashing.
      flags_left_out: flags of XLA_FLAGS, LIBTPU_INIT_ARGS and the command line that change no key.
      compile_options: a serialized `xla.CompileOptionsProto` as JAX hashes it: without dump options.
    """

    text: str
    ingredients: tuple[Ingredient, ...]
    flags_left_out: tuple[str, ...]
    compile_options: bytes | Unavailable = dataclasses.field(repr=False)

    def diff(self, other: CacheKey) -> dict[str, tuple[Any, Any]]:
        """What differs: ingredient to (ours, theirs); compile options under their own names.

        Digests stand for what has no text, None for an ingredient that a key does not have.
        """
        ours = {each.name: each for each in self.ingredients}
        theirs = {each.name: each for each in other.ingredients}
        found: dict[str, tuple[Any, Any]] = {}
        for name in dict.fromkeys([*ours, *theirs]):
            mine, others = ours.get(name), theirs.get(name)
            if mine is not None and others is not None and mine.sha256 == others.sha256:
                continue
            options = dict(_options_diff(self, other)) if name == _COMPILE_OPTIONS else {}
            found |= options or {name: _sides(mine, others)}
        return found

    def __str__(self) -> str:
        lines = [self.text]
        for each in self.ingredients:
            said = f"({each.value.reason})" if isinstance(each.value, Unavailable) else each.value or "nothing"
            lines.append(f"  {each.name}: {said} [{each.sha256[:12]}]")
        if self.flags_left_out:
            lines.append(f"  not in the key: {' '.join(self.flags_left_out)}")
        return "\n".join(lines)

    __repr__ = __str__


def _sides(mine: Ingredient | None, others: Ingredient | None) -> tuple[str | None, str | None]:
    """Two sides of a difference: values where they tell it, else digests."""
    if mine is None or others is None:
        return mine.sha256 if mine else None, others.sha256 if others else None
    if isinstance(mine.value, str) and isinstance(others.value, str) and mine.value != others.value:
        return mine.value, others.value
    return mine.sha256, others.sha256


def _options_diff(ours: CacheKey, theirs: CacheKey) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(ours.compile_options, Unavailable) or isinstance(theirs.compile_options, Unavailable):
        return
    messages = [type(options_message()).FromString(data) for data in (ours.compile_options, theirs.compile_options)]
    yield from _message_diff(*messages)


def _message_diff(ours: Any, theirs: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Fields of two protobuf messages of a type that differ, those of inner messages under their own names."""
    for field in ours.DESCRIPTOR.fields:
        mine, others = getattr(ours, field.name), getattr(theirs, field.name)
        if mine == others:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            for key in sorted({*mine, *others}):
                sides = (_entry(mine, key), _entry(others, key))
                if sides[0] != sides[1]:
                    yield key, sides
        elif inner is not None and hasattr(mine, "DESCRIPTOR"):
            yield from _message_diff(mine, others)
        else:
            yield field.name, (_plain(field, mine), _plain(field, others))


def _entry(entries: Any, key: str) -> Any:
    """A map's value: of `env_option_overrides` the value within."""
    if key not in entries:
        return None
    value = entries[key]
    which = value.WhichOneof("value") if hasattr(value, "WhichOneof") else None
    return getattr(value, which) if which else value


def _plain(field: Any, value: Any) -> Any:
    """A field's value without protobuf's containers; enums by name."""
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        return tuple(_plain(field, each) for each in value)
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name
    return str(value).strip() if hasattr(value, "DESCRIPTOR") else value
