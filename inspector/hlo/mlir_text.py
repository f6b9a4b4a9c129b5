"""Reads MLIR text with locations: removes the locations and returns the origin of each line.

MLIR's bindings give access to operations, but the printer puts several on one line and one over many lines, so lines can be
related to operations only in the printed text. Grammar (mlir/docs/LangRef.md, "Location attributes"):

    trailing := ' loc(' body ')'
    body     := '#locN' | 'unknown' | string ':' line ':' column [' to ' ...]      a place in a file
              | string [ '(' body ')' ]                                           a name for a place
              | 'callsite(' body ' at ' body ')' | 'fused' ['<' ... '>'] '[' body, .. ']'

JAX writes an operation's `op_name` as the outermost name. It writes each frame of the Python stack as a name (the function)
around a file location, and joins frames by call sites, innermost first.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from inspector.hlo.listing import Listing
from inspector.hlo.source import Frame, Origin, Root

# Tokens only; the structure is parsed by `_Reader`. A string must be skipped as a whole, because
# dense constants and metadata may contain anything.
_INTERESTING = re.compile(r'"(?:[^"\\]|\\.)*"| loc\(')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ALIAS = re.compile(r"#loc\d*")
_PLACE = re.compile(r":(\d+):(\d+)(?: to (?:(\d+)?:)?\d+)?")
_PUNCTUATION = re.compile(r'"(?:[^"\\]|\\.)*"|->|[()\[\]<>,]')
_ESCAPE = re.compile(r'\\(\\|"|n|t|[0-9A-Fa-f]{2})')
# Printed on a separate line, below the operation that they belong to.
_CONTINUATIONS = ("cond {", "reducer(")


@dataclasses.dataclass(frozen=True, slots=True)
class _Location:
    name: str = ""
    frames: tuple[Frame, ...] = ()


def read_located_text(text: str, root: Root = Root()) -> Listing:  # noqa: B008 - frozen
    """Returns the text without its locations, as a listing.

    Args:
      text: a module printed with debug information (`get_asm(enable_debug_info=True)`).
      root: the lowered function, at which origins end.

    Returns:
      A listing in which the origin of a line is that of the operation that starts there, even if the location is printed
      at the end of the operation's regions.
    """
    body: list[str] = []
    definitions: dict[str, tuple[str, int]] = {}
    for line in text.split("\n"):
        alias = _ALIAS.match(line)
        if alias and line.startswith(" = loc(", alias.end()):
            definitions[alias.group()] = (line, alias.end() + len(" = loc("))
        else:
            body.append(line)
    while body and not body[-1]:
        body.pop()
    reader = _Reader(definitions)
    stripped = [_strip(line, reader) for line in body]
    lines = [line for line, _ in stripped]
    locations = _spread_over_regions(lines, [location for _, location in stripped])
    entries = _origins(lines, locations)
    trimmed = {id(entry): entry for entry in entries}  # lines share entries
    trimmed = {number: root.trim(entry) for number, entry in trimmed.items()}
    return Listing.of("\n".join(lines), [trimmed[id(entry)] for entry in entries])


def _strip(line: str, reader: _Reader) -> tuple[str, _Location | None]:
    """Returns a line without its locations, and the last location, which is that of the operation itself."""
    if " loc(" not in line:
        return line, None
    pieces: list[str] = []
    location: _Location | None = None
    begin = position = 0
    while match := _INTERESTING.search(line, position):
        position = match.end()
        if line[match.start()] == '"':
            continue
        pieces.append(line[begin : match.start()])
        location, position = reader.read(line, position)
        position = begin = position + 1  # the closing parenthesis
    pieces.append(line[begin:])
    return "".join(pieces), location


def _spread_over_regions(lines: Sequence[str], locations: list[_Location | None]) -> list[_Location | None]:
    """Moves the location after an operation's last region to the operation's first line."""
    spread = list(locations)
    open_lines: list[int] = []
    for index, line in enumerate(lines):
        text = line.strip()
        if text.startswith("}") and open_lines:
            start = open_lines.pop()
            if text.endswith("{"):  # `} do {`, `}, {`: the same operation continues
                open_lines.append(start)
                continue
            spread[start] = locations[index]
        elif text.endswith("{"):
            continues = index and text.startswith(_CONTINUATIONS)
            open_lines.append(index - 1 if continues else index)
            spread[index] = None  # the locations on this line are those of arguments
    return spread


def _origins(lines: Sequence[str], locations: Sequence[_Location | None]) -> list[tuple[Origin, ...]]:
    """Returns the origins of each line: its own location, as seen from every call site of its function."""
    functions = _functions(lines)
    callers: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        callee = _callee(line)
        if callee:
            callers.setdefault(callee, []).append(index)
    sites: dict[str, tuple[_Location, ...]] = {}

    def call_sites(function: str, depth: int = 0) -> tuple[_Location, ...]:
        if function not in sites:
            distinct: dict[_Location, None] = {}
            for index in callers.get(function, ()) if depth < _CALL_DEPTH else ():
                outer = call_sites(functions[index], depth + 1) if functions[index] else ()
                distinct.update(dict.fromkeys(_below(locations[index], outer)))
            sites[function] = tuple(distinct)[:_CALL_SITES]
        return sites[function]

    below: dict[tuple[str, _Location | None], tuple[Origin, ...]] = {}
    result: list[tuple[Origin, ...]] = []
    for line, function, location in zip(lines, functions, locations, strict=True):
        if line.startswith("  func.func ") or line == "  }":  # call sites have its origin
            result.append(())
            continue
        key = (function, location)
        if key not in below:
            places = _below(location, call_sites(function) if function else ())
            below[key] = tuple(Origin(p.name, p.frames) for p in places if p.name or p.frames)
        result.append(below[key])
    return result


def _functions(lines: Sequence[str]) -> list[str]:
    """Returns the private function that contains each line; "" in `main` and outside of functions."""
    current, result = "", []
    for line in lines:
        if line.startswith("  func.func "):
            name = line[line.index("@") + 1 : line.index("(", line.index("@"))]
            current = "" if " public " in line else name
        result.append(current)
    return result


def _callee(line: str) -> str:
    """Returns the function that the line's operation calls, or ""."""
    at = line.find("call @")
    if at < 1 or line[at - 1] not in " .":
        return ""
    return line[at + len("call @") : line.index("(", at)]


def _below(location: _Location | None, sites: tuple[_Location, ...]) -> tuple[_Location, ...]:
    """Returns a location as seen from each call site, with the name that XLA uses after inlining the call."""
    own = location or _Location()
    if not sites:
        return (own,)
    if not own.name:
        return ()
    return tuple(
        _Location(f"{site.name}/{own.name}" if site.name else own.name, own.frames or site.frames) for site in sites
    )


# Limits: a function with more call sites, or deeper calls, links to the first ones only.
_CALL_SITES = 32
_CALL_DEPTH = 16


class _Reader:
    """Recursive-descent parser of location bodies. Aliases are parsed once."""

    def __init__(self, definitions: dict[str, tuple[str, int]]) -> None:
        self._definitions = definitions
        self._known: dict[str, _Location] = {}

    def read(self, text: str, at: int) -> tuple[_Location, int]:
        """Parses a body at `at`. Returns it and the position after it."""
        if text.startswith("#", at):
            alias = _ALIAS.match(text, at)
            assert alias is not None, text[at : at + 40]
            return self._resolve(alias.group()), alias.end()
        if text.startswith('"', at):
            return self._read_named(text, at)
        if text.startswith("callsite(", at):
            callee, at = self.read(text, at + len("callsite("))
            caller, at = self.read(text, at + len(" at "))
            return _Location(callee.name, callee.frames + caller.frames), at + 1
        if text.startswith("fused", at):
            return self._read_fused(text, at + len("fused"))
        return _Location(), _skip(text, at, "),]")  # `unknown`, or a kind without a file location

    def _resolve(self, alias: str) -> _Location:
        if alias not in self._known:
            definition = self._definitions.get(alias)
            self._known[alias] = self.read(*definition)[0] if definition else _Location()
        return self._known[alias]

    def _read_named(self, text: str, at: int) -> tuple[_Location, int]:
        string = _STRING.match(text, at)
        assert string is not None, text[at : at + 40]
        value, at = _unescape(string.group(1)), string.end()
        if place := _PLACE.match(text, at):
            return _Location("", (Frame(value, int(place.group(1)), ""),)), place.end()
        if not text.startswith("(", at):
            return _Location(value), at
        child, at = self.read(text, at + 1)
        return _name(value, child), at + 1

    def _read_fused(self, text: str, at: int) -> tuple[_Location, int]:
        if text.startswith("<", at):
            at = _skip(text, at, "[")
        first: _Location | None = None
        while text[at] != "]":
            part, at = self.read(text, at + len("[") if first is None else at + len(", "))
            first = first if first is not None and (first.name or first.frames) else part
        return first or _Location(), at + 1


def _name(value: str, child: _Location) -> _Location:
    """Combines a name with its child location. A name around a bare file location is a function, else an operation.

    A name that ends in a colon is the operation's type (`scatter-add:`), which XLA does not include in `op_name`.
    """
    if value.endswith(":"):
        return child
    if len(child.frames) == 1 and not child.name and not child.frames[0].function:
        frame = child.frames[0]
        return _Location("", (Frame(frame.file, frame.line, value),))
    return _Location(value, child.frames)


def _unescape(text: str) -> str:
    """Decodes escapes. MLIR writes every UTF-8 byte that is not printable ASCII as two hexadecimal digits."""
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        code = match.group(1)
        return {"n": "\n", "t": "\t"}.get(code) or (code if code in '\\"' else chr(int(code, 16)))

    # Latin-1 maps each byte to one character, so that several escaped bytes can form one UTF-8 character afterwards.
    raw = text.encode().decode("latin-1")
    return _ESCAPE.sub(replace, raw).encode("latin-1").decode("utf-8", "replace")


def _skip(text: str, at: int, ends: str) -> int:
    """Returns the position of the first of `ends` outside brackets and strings."""
    depth = 0
    for token in _PUNCTUATION.finditer(text, at):
        if not depth and token.group() in ends:
            return token.start()
        depth += {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}.get(token.group(), 0)
    return len(text)
