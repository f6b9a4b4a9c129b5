"""jaxlib's text of an HLO module in readable form: without metadata, and with the instruction that each line defines.

The module itself comes from its proto (`hlo/module.py`). Users know the text, so panes show it. Its order differs from that
of the proto, so lines are matched to instructions by name. Nearly all lines take a fast path: 29 MB take a third of a second.
In other lines, the parser jumps from quote to quote or brace to brace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from inspector.errors import ModuleError

_METADATA = ", metadata={"


@dataclasses.dataclass(frozen=True, slots=True)
class DisplayText:
    """The readable text of a module.

    Attributes:
      text: the module's text without instruction metadata and without the tables of source frames.
      instruction_names: for each line, the name of the instruction that it defines (without `%`), or None.
      computation_names: for each line, the name of the computation that contains it, or None. The first line of a
        computation is its header.
    """

    text: str
    instruction_names: tuple[str | None, ...]
    computation_names: tuple[str | None, ...]


def display_text(text: str) -> DisplayText:
    """Converts a module's text to its readable form.

    Args:
      text: output of jaxlib's `HloModule.to_string()`, `as_hlo_text()` or a dump, of any version.

    Raises:
      ModuleError: a string or a metadata brace is not closed. The message states the line.
    """
    lines: list[str] = []
    instructions: list[str | None] = []
    computations: list[str | None] = []
    computation: str | None = None
    bare = _plainly_without_metadata(text)
    for number, line in _logical_lines(text if bare is None else bare):
        instruction = None
        if computation is not None:
            if bare is None:
                line, _ = split_metadata(line, number)
            instruction = defined_name(line)
        elif is_header(line):
            computation = header_name(line)
        elif not (line.startswith("HloModule") or (not line and lines and lines[-1])):
            continue  # the tables of files, functions and frames, and doubled blank lines
        lines.append(line)
        instructions.append(instruction)
        computations.append(computation)
        if more := line.count("\n"):
            instructions += [None] * more
            computations += [computation] * more
        if line.startswith("}"):
            computation = None
    return DisplayText("\n".join(lines), tuple(instructions), tuple(computations))


def _plainly_without_metadata(text: str) -> str | None:
    """Removes all metadata at once; None if escapes, or quotes or braces in metadata, require careful parsing."""
    if '\\"' in text:
        return None  # without escapes, each quote begins or ends a string
    first, *others = text.split(_METADATA)
    pieces, plain = [first], dict[str, bool]()
    if first.count('"') % 2:
        return None
    for other in others:
        inside, closed, rest = other.partition("}")
        if inside not in plain:  # many instructions have the same metadata
            plain[inside] = "{" not in inside and "\n" not in inside and inside.count('"') % 2 == 0
        if not closed or not plain[inside] or "\n" not in rest or ('"' in rest and rest.count('"') % 2):
            return None
        pieces.append(rest)
    return "".join(pieces)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields lines with their numbers from 1. A line break inside a string does not end a line."""
    begun: tuple[int, str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if begun is None and "\\" not in line and line.count('"') % 2 == 0:
            yield number, line
            continue
        whole = (number, line) if begun is None else (begun[0], f"{begun[1]}\n{line}")
        begun = whole if _ends_in_string(whole[1]) else None
        if begun is None:
            yield whole
    if begun is not None:
        raise ModuleError(f"Cannot read HLO text: a string that begins in line {begun[0]} is not closed.")


def _ends_in_string(line: str) -> bool:
    if "\\" not in line:
        return line.count('"') % 2 == 1
    position = line.find('"')
    while position >= 0:
        position = _string_end(line, position)
        if position < 0:
            return True
        position = line.find('"', position)
    return False


def _string_end(line: str, quote: int) -> int:
    """Returns the position after the string whose opening quote is at `quote`; -1 if it is not closed."""
    position = quote + 1
    while True:
        end = line.find('"', position)
        if end < 0:
            return -1
        escape = line.find("\\", position, end)
        if escape < 0:
            return end + 1
        position = escape + 2


def split_metadata(line: str, number: int = 0) -> tuple[str, str]:
    """Splits a line into the line without metadata and the metadata: `op_name="jit(f)/add" stack_frame_id=3`, or "".

    Raises:
      ModuleError: a string or a metadata brace is not closed. The message states the line `number`.
    """
    start = line.find(_METADATA)
    if start < 0:
        return line, ""
    end = line.find("}", start)
    inside = line[start + len(_METADATA) : end]
    is_plain = "{" not in inside and "\\" not in inside and inside.count('"') % 2 == 0
    if is_plain and end >= 0 and '"' not in line[:start]:
        return line[:start] + line[end + 1 :], inside
    start = _find_outside_strings(line, _METADATA)
    if start < 0:
        return line, ""
    end = _closing_brace(line, start + len(_METADATA))
    if end < 0:
        raise ModuleError(f"Cannot read HLO text: the metadata in line {number} is not closed: {line[start:][:80]!r}")
    return line[:start] + line[end:], line[start + len(_METADATA) : end - 1]


def metadata_field(metadata: str, name: str) -> str:
    """Returns a field of the metadata from `split_metadata`, such as `op_name`; "" if there is none."""
    start = 0 if metadata.startswith(f"{name}=") else metadata.find(f" {name}=") + 1
    if not start and not metadata.startswith(f"{name}="):
        return ""
    start += len(name) + 1
    if metadata[start : start + 1] == '"':
        return metadata[start + 1 : _string_end(metadata, start) - 1].replace('\\"', '"')
    return metadata[start:].partition(" ")[0]


def op_names(text: str) -> dict[str, str]:
    """Returns the `op_name` in instructions' metadata, by instruction name. Instructions without one are omitted.

    Raises:
      ModuleError: a string or a metadata brace is not closed. The message states the line.
    """
    names = {}
    for number, line in _logical_lines(text):
        metadata = split_metadata(line, number)[1]
        name = defined_name(line) if metadata else None
        if name is not None and (op_name := metadata_field(metadata, "op_name")):
            names[name] = op_name
    return names


def _find_outside_strings(line: str, token: str) -> int:
    start = 0
    while True:
        position = line.find(token, start)
        quote = line.find('"', start, max(position, 0))
        if position < 0 or quote < 0:
            return position
        start = _string_end(line, quote)
        if start < 0:
            return -1


def _closing_brace(line: str, start: int) -> int:
    """Returns the position after the brace that closes the one before `start`; -1 if there is none."""
    depth = 1
    while depth:
        end = line.find("}", start)
        if end < 0:
            return -1
        quote = line.find('"', start, end)
        opening = line.find("{", start, end if quote < 0 else quote)
        if opening >= 0:
            depth, start = depth + 1, opening + 1
        elif quote >= 0:
            start = _string_end(line, quote)
            if start < 0:
                return -1
        else:
            depth, start = depth - 1, end + 1
    return start


def is_header(line: str) -> bool:
    """Reports whether a line outside of a computation is the header of one."""
    return line.endswith("{") and not line.startswith((" ", "HloModule"))


def header_name(line: str) -> str:
    """Returns the computation's name in a header: `ENTRY %main.8 (x: f32[]) -> f32[] {` -> `main.8`."""
    words = line.removeprefix("ENTRY ").split(" ", 1)
    return words[0].split("(", 1)[0].removeprefix("%")


def defined_name(line: str) -> str | None:
    """Returns the name that a line defines: `  ROOT %add.3 = f32[] add(...)` -> `add.3`; None if it defines nothing."""
    end = line.find(" = ")
    return line[:end].strip().removeprefix("ROOT ").removeprefix("%") if end >= 0 else None
