"""Source lines of generated code, from the debug information in it.

    LLVM IR  `... !dbg !7`, where `!7 = !DILocation(line: 3, scope: !5, inlinedAt: !8)`   llvm.org/docs/LangRef.html
    PTX      `.loc 1 3 0`, for the instructions up to the next one, and `.file 1 "f.py"`  PTX ISA, "Debugging Directives"
    SASS     `//## File "f.py", line 3`, as nvdisasm prints the `.debug_line` of a cubin

Other languages have none: XLA's object files for CPUs have no `.debug_line`, and libtpu's LLO names no lines. The installed
compilers (jaxlib 0.12) write:

    CPU             nothing: LLVM IR has no `!dbg`
    GPU, XLA        nothing: neither `!dbg` nor `.loc`, for Triton and other kernels. With `xla_gpu_generate_line_info`, ptxas relates
                    SASS to lines of the PTX, and not to the source
    GPU, Mosaic     SASS of Pallas kernels has lines of the kernel's Python; XLA's dump has neither their LLVM IR nor their PTX
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

Frames = tuple[tuple[str, int], ...]
"""Files and lines from 1, innermost first; () if none is known."""


def source_frames(language: str, text: str) -> tuple[Frames, ...] | None:
    """Returns the source lines of each line of code; None if the code has no debug information.

    Args:
      language: the `language` of a `Code`.
      text: its text.
    """
    reader = {"llvm": _of_llvm, "ptx": _of_ptx, "sass": _of_sass}.get(language)
    frames = tuple(reader(text.split("\n"))) if reader else ()
    return frames if any(frames) else None


_LLVM_USE = re.compile(r"!dbg !(\d+)")
_LLVM_DEFINITION = re.compile(r"!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$")
_LLVM_FIELD = re.compile(r'(\w+): (?:"((?:[^"\\]|\\.)*)"|!?([\w.]+))')

_Nodes = Mapping[str, Mapping[str, str]]
_MOST_FRAMES = 100  # of a damaged text whose scopes form a circle


def _of_llvm(lines: list[str]) -> Iterator[Frames]:
    definitions = filter(None, map(_LLVM_DEFINITION.match, lines))
    nodes = {
        match[1]: {"kind": match[2]} | {name: text or word for name, text, word in _LLVM_FIELD.findall(match[3])}
        for match in definitions
    }
    known: dict[str, Frames] = {}
    for line in lines:
        use = None if line.startswith("define ") else _LLVM_USE.search(line)
        if use and use[1] not in known:
            known[use[1]] = tuple(_llvm_frames(nodes, use[1]))
        yield known[use[1]] if use else ()


def _llvm_frames(nodes: _Nodes, number: str) -> Iterator[tuple[str, int]]:
    for _ in range(_MOST_FRAMES):
        location = nodes.get(number, {})
        file = _llvm_file(nodes, location.get("scope", ""))
        if location.get("kind") != "DILocation" or not file:
            return
        if line := int(location.get("line", "0")):  # 0 stands for code without a line
            yield file, line
        number = location.get("inlinedAt", "")


def _llvm_file(nodes: _Nodes, scope: str) -> str:
    for _ in range(_MOST_FRAMES):
        node = nodes.get(scope, {})
        file = nodes.get(node.get("file", ""))
        if file:
            return _path(file.get("directory", ""), file.get("filename", ""))
        scope = node.get("scope", "")
    return ""


_PTX_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_PTX_PLACE = re.compile(r"(\d+)\s+(\d+)\s+\d+")
_PTX_ENDS = (".entry", ".func")


def _of_ptx(lines: list[str]) -> Iterator[Frames]:
    files = {match[1]: match[2] for match in map(_PTX_FILE.match, lines) if match}
    current: Frames = ()
    for line in lines:
        words = line.strip()
        if words.startswith(".loc"):
            places = (_PTX_PLACE.search(part) for part in words.split("inlined_at"))
            current = tuple(
                (files[place[1]], int(place[2])) for place in places if place and place[1] in files and int(place[2])
            )
        elif words.startswith("}") or any(word in words for word in _PTX_ENDS):
            current = ()
        yield current if _is_instruction(words) else ()


def _is_instruction(words: str) -> bool:
    return words.endswith(";") and not words.startswith((".", "//"))


_SASS_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_SASS_INSTRUCTION = "/*"


def _of_sass(lines: Iterable[str]) -> Iterator[Frames]:
    current: Frames = ()
    for line in lines:
        marker = _SASS_LINE.match(line)
        if marker:
            current = ((marker[1], int(marker[2])),)
        yield current if line.lstrip().startswith(_SASS_INSTRUCTION) else ()


def _path(folder: str, name: str) -> str:
    return name if not folder or name.startswith("/") else f"{folder}/{name}"
