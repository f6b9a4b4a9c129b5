"""Reads modules from files, bytes and text: unpacks them, and splits files with several modules."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import zlib
from collections.abc import Mapping, MutableMapping
from typing import Any

from inspector._jax.modules import isolated_reading
from inspector._jax.modules.entry_functions import Entry
from inspector._jax.modules.isolated_reading import Language
from inspector.errors import ModuleError, ParameterError
from inspector.hlo.reading.text_proto import from_text_proto, is_text_proto
from inspector.lowering.languages import EXPECTED, NOT_TEXT, check_text, first_line, likely_language
from inspector.support import files
from inspector.support.notebook import short
from inspector.support.units import format_bytes, format_list

MAX_MODULE_BYTES = 2 << 30
"""The size limit of a protobuf message, and so of an XLA module, in bytes."""

_GZIP = b"\x1f\x8b"
# A small gzip file can expand a thousandfold. HLO text shrinks to about a twentieth.
_UNPACKED_BYTES, _UNPACKED_BYTES_EACH = 256 << 20, 100

_SEPARATOR = re.compile(r"^[ \t]*//[ \t]*-{4,}[ \t]*$", re.MULTILINE)  # of LIT files
_HEADER = re.compile(r"^[ \t]*HloModule\s+([^\s,]+)", re.MULTILINE)
_MLIR_NAME = re.compile(r"^[ \t]*module\s+@([\w.$-]+|\"[^\"]*\")", re.MULTILINE)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MODULES_SHOWN = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The part of a file to open.

    Attributes:
      module: name or number of the module, from 1; None for the only one.
      function: name of the function of a StableHLO module; None for its only public one, or `main`.
      refine: shapes of the arguments of a StableHLO module with dynamic shapes, such as {"arg0": (8, 128)}.
    """

    module: str | int | None = None
    function: str | None = None
    refine: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    @property
    def entry(self) -> Entry:
        """The program in a StableHLO module."""
        return Entry(self.function or "", str(self.module or ""), self.refine)

    @classmethod
    def taken_from(cls, keywords: MutableMapping[str, Any]) -> Choice:
        """Removes `module`, `function` and `refine` from keyword arguments, and returns them.

        Raises:
          ParameterError: another type of value.
        """
        module, function = keywords.pop("module", None), keywords.pop("function", None)
        if not isinstance(module, (str, int, type(None))) or isinstance(module, bool):
            raise ParameterError(f"module must be the name or number of a module in the file, got {short(module)}.")
        if not isinstance(function, (str, type(None))):
            raise ParameterError(f"function must be the name of a function in the module, got {short(function)}.")
        refine = keywords.pop("refine", None) or {}
        if not isinstance(refine, Mapping) or not all(_is_shape(shape) for shape in refine.values()):
            raise ParameterError(
                f'refine must have a shape for each argument, such as {{"arg0": (8, 128)}}, got {short(refine)}.'
            )
        return cls(module, function, {str(name): tuple(map(int, shape)) for name, shape in refine.items()})


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleText:
    """One module of a file.

    Attributes:
      name: its name; "" if it has none or is not text.
      data: the module as text, or as bytes if it is not text.
      language: its language.
    """

    name: str
    data: bytes | str
    language: Language


def read_module(source: Any) -> bytes | str:
    """Returns the contents of a module file as text, or as bytes if it is not text. Unpacks gzip.

    Args:
      source: a path, bytes or text.

    Raises:
      ParameterError: the file cannot be read.
      ModuleError: a damaged gzip file, or one that becomes too large.
    """
    if isinstance(source, (bytes, bytearray)):
        return _text_if_utf8(_unpacked(bytes(source)))
    if isinstance(source, os.PathLike) or (
        isinstance(source, str) and "\n" not in source and os.path.exists(source)  # noqa: PTH110 - False for a long text
    ):
        try:
            return _text_if_utf8(_unpacked(files.read(source, MAX_MODULE_BYTES)))
        except OSError as e:
            raise ParameterError(
                f"Cannot read {os.fspath(source)!r}: {e.strerror or e}. Expected a file with StableHLO or HLO, as text or"
                " bytes."
            ) from e
    return str(source)


def modules_in(contents: bytes | str) -> tuple[ModuleText, ...]:
    """Returns the modules of a file, at least one. Their line numbers are those of the file.

    Text without signs of a language is HLO if XLA can read it.

    Raises:
      ModuleError: the file is empty, text in neither language, or text with bytes that no text has.
      ParameterError: the text can only be the path of a file that does not exist.
    """
    if isinstance(contents, str) and is_text_proto(contents):
        return tuple(ModuleText("", from_text_proto(_SEPARATOR.sub("", part)), "HLO") for part in _parts(contents))
    if isinstance(contents, bytes):
        language = likely_language(contents)
        if language == "HLO":
            check_text(contents)
        return (ModuleText("", contents, language or "HLO"),)
    parts = _parts(contents)
    is_undecided = len(_HEADER.findall(contents)) < 2 and likely_language(contents) != "StableHLO"
    if len(parts) > 1 and is_undecided and _is_hlo(contents):  # the separator is a comment
        parts = [contents]
    if len(parts) == 1:
        return (ModuleText(_name(parts[0]), contents, _language(contents)),)
    return tuple(ModuleText(_name(part), part, likely_language(part) or "HLO") for part in parts)


def chosen_module(contents: bytes | str, choice: Choice) -> ModuleText:
    """Returns the chosen module of a file.

    Raises:
      ModuleError: the file has several and none is chosen, or it has no such module; the message lists them. Or as for
        `modules_in`.
      ParameterError: as for `modules_in`.
    """
    modules = modules_in(contents)
    wanted = choice.module
    if wanted is None:
        if len(modules) > 1:
            raise ModuleError(
                f"The file has {len(modules)} modules: {listed(modules)}. Choose one: module={_first(modules)}."
            )
        return modules[0]
    if len(modules) == 1 and modules[0].language == "StableHLO":
        return modules[0]  # it may contain modules, which MLIR must read
    by_number = dict(enumerate(modules, 1))
    number = int(wanted) if isinstance(wanted, int) or wanted.isdecimal() else 0
    named = [module for module in modules if module.name == str(wanted)]
    if len(named) > 1 and number not in by_number:
        raise ModuleError(
            f"The file has {len(named)} modules {short(wanted)}. Choose one by number: {listed(modules)}."
        )
    if not named and number not in by_number:
        raise ModuleError(f"The file has no module {short(wanted)}. Its modules: {listed(modules)}.")
    return named[0] if named else by_number[number]


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, (tuple, list)) and all(isinstance(size, int) and size >= 0 for size in shape)


def listed(modules: tuple[ModuleText, ...]) -> str:
    """Returns the modules of a file with their numbers, for messages: `1 first, 2 second`."""
    return format_list([f"{n} {module.name}".strip() for n, module in enumerate(modules, 1)], _MODULES_SHOWN)


def _first(modules: tuple[ModuleText, ...]) -> str:
    name = modules[0].name
    is_unique = name and sum(module.name == name for module in modules) == 1
    return f'"{name}"' if is_unique else "1"


def _parts(text: str) -> list[str]:
    """Splits a text at separators and before each HloModule line. Empty lines stand for the parts before each."""
    cuts = {0, len(text)}
    cuts |= {match.end() for match in _SEPARATOR.finditer(text)}
    for start, end in _between(sorted(cuts)):
        headers = list(_HEADER.finditer(text, start, end))
        cuts |= {
            match.start()
            for match in headers[1:]
            if not _QUOTE.search(text, max(start, match.start() - _QUOTE_NEAR), match.start())
        }
    parts = []
    for start, end in _between(sorted(cuts)):
        if _COMMENTS.sub("", text[start:end]).strip():
            parts.append("\n" * text.count("\n", 0, start) + text[start:end])
    return parts or [text]


# An origin_recovery_table quotes whole modules, each after a line with the opening quote.
_QUOTE = re.compile(r'^[ \t]*"\s*\Z', re.MULTILINE)
_QUOTE_NEAR = 100  # characters


def _between(cuts: list[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(cuts))


def _name(text: str) -> str:
    match = _HEADER.search(text) or _MLIR_NAME.search(text)
    return match[1].strip('"') if match else ""


def _language(text: str) -> Language:
    if not _COMMENTS.sub("", text).strip():
        raise ModuleError(f"The module is empty. {EXPECTED}")
    likely = likely_language(text)
    if likely is not None:
        return likely
    if "\n" not in text.strip() and not _SPACE.search(text.strip()):
        raise ParameterError(f"{first_line(text)} is neither a file nor a module. {EXPECTED}")
    try:
        isolated_reading.read_hlo(text)
    except ModuleError as e:
        if "\n" not in text.strip():
            raise ParameterError(f"{first_line(text)} is neither a file nor a module. {EXPECTED}") from e
        raise ModuleError(
            f"The text is neither HLO nor StableHLO: it begins with {first_line(text.strip())}. {EXPECTED} {e}"
        ) from e
    return "HLO"


_SPACE = re.compile(r"[ \t]")


def _is_hlo(text: str) -> bool:
    try:
        isolated_reading.read_hlo(text)
    except ModuleError:
        return False
    return True


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    most = min(MAX_MODULE_BYTES, _UNPACKED_BYTES + _UNPACKED_BYTES_EACH * len(data))
    unpacker, parts, size = zlib.decompressobj(16 + zlib.MAX_WBITS), [], 0
    try:
        while not unpacker.eof and data:
            part = unpacker.decompress(data, most + 1 - size)
            parts.append(part)
            size += len(part)
            data = unpacker.unconsumed_tail
            if size > most:
                raise ModuleError(f"The gzip file has more than {format_bytes(most)} when unpacked. Unpack it first.")
    except zlib.error as e:
        raise ModuleError(f"The gzip file is damaged: {e}. Expected HLO or StableHLO, packed with gzip.") from e
    if not unpacker.eof:
        raise ModuleError("The gzip file is truncated. Copy it again.")
    return b"".join(parts)


def _text_if_utf8(data: bytes) -> bytes | str:
    # MLIR bytecode begins with `ML\xefR`, and a proto has field tags (0x1a for its computations). No text has these bytes.
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return data if NOT_TEXT.search(text) else text
