"""`CacheKey`: the parts of a key in JAX's persistent compilation cache. A value that works without JAX.

Created by `caching.py`. Not related to inspector's own cache (`program_cache.py`).
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
      name: JAX's name of the part.
      sha256: digest of the part's bytes, in hexadecimal.
      value: readable text of the part.
    """

    name: str
    sha256: str
    value: str | Unavailable


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CacheKey:
    """A key of JAX's cache and its parts. Compare two with `diff`.

    Attributes:
      text: the key.
      ingredients: the parts, in the order of hashing.
      flags_left_out: flags in XLA_FLAGS, LIBTPU_INIT_ARGS and the command line that are not part of the key.
      compile_options: a serialized `xla.CompileOptionsProto` as JAX hashes it: without dump options.
    """

    text: str
    ingredients: tuple[Ingredient, ...]
    flags_left_out: tuple[str, ...]
    compile_options: bytes | Unavailable = dataclasses.field(repr=False)

    def diff(self, other: CacheKey) -> dict[str, tuple[Any, Any]]:
        """Returns the differences: ingredient to (this value, other value), with compile options under their own names.

        Parts without a text have their digest as the value, and missing parts have None.
        """
        ours = {each.name: each for each in self.ingredients}
        theirs = {each.name: each for each in other.ingredients}
        differences: dict[str, tuple[Any, Any]] = {}
        for name in dict.fromkeys([*ours, *theirs]):
            own, others = ours.get(name), theirs.get(name)
            if own is not None and others is not None and own.sha256 == others.sha256:
                continue
            options = dict(_options_diff(self, other)) if name == _COMPILE_OPTIONS else {}
            differences |= options or {name: _sides(own, others)}
        return differences

    def __str__(self) -> str:
        lines = [self.text]
        for each in self.ingredients:
            text = f"({each.value.reason})" if isinstance(each.value, Unavailable) else each.value or "nothing"
            lines.append(f"  {each.name}: {text} [{each.sha256[:12]}]")
        if self.flags_left_out:
            lines.append(f"  not in the key: {' '.join(self.flags_left_out)}")
        return "\n".join(lines)

    __repr__ = __str__


def _sides(own: Ingredient | None, others: Ingredient | None) -> tuple[str | None, str | None]:
    """Returns both sides of a difference: the values if they differ, otherwise the digests."""
    if own is None or others is None:
        return own.sha256 if own else None, others.sha256 if others else None
    if isinstance(own.value, str) and isinstance(others.value, str) and own.value != others.value:
        return own.value, others.value
    return own.sha256, others.sha256


def _options_diff(ours: CacheKey, theirs: CacheKey) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(ours.compile_options, Unavailable) or isinstance(theirs.compile_options, Unavailable):
        return
    messages = [type(options_message()).FromString(data) for data in (ours.compile_options, theirs.compile_options)]
    yield from _message_diff(*messages)


def _message_diff(ours: Any, theirs: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yields the fields that differ in two protobuf messages of a type, with fields of inner messages under their own names."""
    for field in ours.DESCRIPTOR.fields:
        own, others = getattr(ours, field.name), getattr(theirs, field.name)
        if own == others:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            for key in sorted({*own, *others}):
                sides = (_entry(own, key), _entry(others, key))
                if sides[0] != sides[1]:
                    yield key, sides
        elif inner is not None and hasattr(own, "DESCRIPTOR"):
            yield from _message_diff(own, others)
        else:
            yield field.name, (_plain(field, own), _plain(field, others))


def _entry(entries: Any, key: str) -> Any:
    """Returns a map's value; for `env_option_overrides`, the value inside the message."""
    if key not in entries:
        return None
    value = entries[key]
    which = value.WhichOneof("value") if hasattr(value, "WhichOneof") else None
    return getattr(value, which) if which else value


def _plain(field: Any, value: Any) -> Any:
    """Returns a field's value without protobuf's containers, and with enums by name."""
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        return tuple(_plain(field, each) for each in value)
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name
    return str(value).strip() if hasattr(value, "DESCRIPTOR") else value
