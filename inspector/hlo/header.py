"""Parses the first line of an HLO module's text, with counts and flags that are not in the module's proto."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_OPEN, _CLOSE = "({[", ")}]"


def header_attributes(line: str) -> Mapping[str, str]:
    """Returns the attributes of a line such as `HloModule m, is_scheduled=true, num_partitions=4`, by name.

    Values are as written: `4`, `{true,false}`, `{(f32[8]{0})->f32[8]{0}}`.
    """
    parts = [part.partition("=") for part in _parts(line)]
    return {name.strip(): value.strip() for name, equals, value in parts if equals}


def header_count(attributes: Mapping[str, str], name: str) -> int | None:
    """Returns a numeric attribute; None if the line does not have it."""
    return int(attributes[name]) if attributes.get(name, "").isdigit() else None


def header_booleans(attributes: Mapping[str, str], name: str) -> tuple[bool, ...] | None:
    """Returns an attribute such as `{true,false}`; None if the line does not have it."""
    if name not in attributes:
        return None
    return tuple(word.strip() == "true" for word in attributes[name].strip("{}").split(",") if word.strip())


def _parts(line: str) -> Iterator[str]:
    """Splits at commas outside brackets and quotes."""
    depth, begin, quoted, at = 0, 0, False, 0
    while at < len(line):
        character = line[at]
        if character == "\\":
            at += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in _OPEN:
            depth += 1
        elif not quoted and character in _CLOSE:
            depth -= 1
        elif character == "," and not quoted and not depth:
            yield line[begin:at]
            begin = at + 1
        at += 1
    yield line[begin:]
