"""Generates the TypeScript types of the messages and the table of panes: `src/messages.ts` and `src/panes.ts`.

Usage: `python frontend/generate_messages.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from inspector.compilation.request import PRODUCTS
from inspector.widgets import messages
from inspector.widgets.panes.framework.text import TextPane
from inspector.widgets.panes.registry import PANES, FromBrowser, PaneEntry, Place, ToBrowser

SOURCE = Path(__file__).resolve().parent / "src"
_SCALARS: dict[Any, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    Any: "unknown",
}
# Types that are plain strings in Python, with their values from the registry.
_NAMES: dict[str, Iterable[str]] = {
    "Pane": [line.name for line in PANES],
    "TextPane": [line.name for line in PANES if issubclass(line.make, TextPane)],
    "Product": sorted(PRODUCTS),
}
_GENERATED = "// Generated from {} by generate_messages.py. Do not edit.\n"


def files() -> dict[Path, str]:
    """Returns the generated texts by file."""
    return {SOURCE / "messages.ts": _messages(), SOURCE / "panes.ts": _makers()}


def _messages() -> str:
    """Returns the types of all messages and the table of panes, without the code that makes them."""
    unions = {"ToBrowser": get_args(ToBrowser), "FromBrowser": get_args(FromBrowser)}
    parts_of = (part for kinds in unions.values() for kind in kinds for part in _parts(kind))
    modules = list(dict.fromkeys(part.__module__ for part in parts_of))
    classes = [cls for module in modules for cls in _defined(module, is_typeddict)]
    aliases = {"Place": Place} | _aliases(modules)
    parts = [_GENERATED.format("inspector/widgets/messages/ and inspector/widgets/panes/")]
    parts.append(f"export const VERSION = {messages.VERSION};\n")
    parts.append(f"export const KEYS = {json.dumps(messages.KEYS)} as const;\n")
    parts.extend(f"export type {name} = {_words(words)};\n" for name, words in _NAMES.items())
    parts.extend(f"export type {name} = {_words(get_args(kind))};\n" for name, kind in aliases.items())
    names = {kind: name for name, kind in aliases.items()}
    parts.extend(_interface(cls, names) for cls in classes)
    parts.extend(f"export type {name} = {' | '.join(k.__name__ for k in kinds)};\n" for name, kinds in unions.items())
    parts.append('export type Topic = ToBrowser["type"] | "notebook_kernel";\n')
    parts.append(f"{_LINE}\n{_table()}")
    return "\n".join(parts)


_LINE = """/** A pane: its default place, and the messages at which it is redrawn. */
export interface Line {
  readonly name: Pane;
  readonly title: string;
  readonly place: Place;
  readonly topics: readonly Topic[];
}
"""


def _table() -> str:
    def entry(line: PaneEntry) -> str:
        fields = {
            "name": line.name,
            "title": line.title,
            "place": line.place,
            "topics": [*line.topics, "notebook_kernel"],
        }
        return "  { " + ", ".join(f"{name}: {json.dumps(value)}" for name, value in fields.items()) + " },\n"

    return f"export const PANES: readonly Line[] = [\n{''.join(map(entry, PANES))}];\n"


def _makers() -> str:
    """Returns the table of functions that make the panes."""
    imports = "".join(f'import {{ pane as {line.name} }} from "./panes/{line.name}.ts";\n' for line in PANES)
    return (
        _GENERATED.format("inspector/widgets/panes/registry.py")
        + '\nimport type { Pane as Name } from "./messages.ts";\nimport type { Context, Pane } from "./panes/pane.ts";\n'
        + f"{imports}\nexport const MAKERS: Record<Name, (context: Context) => Pane> = {{\n"
        + "".join(f"  {line.name},\n" for line in PANES)
        + "};\n"
    )


def _parts(cls: Any) -> list[Any]:
    """Returns the classes in the fields of a message, recursively, followed by its own class."""
    classes: list[Any] = []

    def visit(kind: Any) -> None:
        if is_typeddict(kind):
            for hint in get_type_hints(kind).values():
                visit(hint)
            classes.append(kind)
        else:
            for argument in get_args(kind):
                visit(argument)

    visit(cls)
    return classes


def _defined(module: str, is_wanted: Callable[[Any], bool]) -> list[Any]:
    """Returns the wanted values that a module defines, without imported ones."""
    values = vars(sys.modules[module]).values()
    return [value for value in values if is_wanted(value) and getattr(value, "__module__", module) == module]


def _aliases(modules: Iterable[str]) -> dict[str, Any]:
    """Returns the named literals in the modules of messages."""
    aliases: dict[str, Any] = {}
    for module in modules:
        aliases |= {name: kind for name, kind in vars(sys.modules[module]).items() if get_origin(kind) is Literal}
    return aliases


def _interface(cls: Any, aliases: dict[Any, str]) -> str:
    hints = get_type_hints(cls, include_extras=True)
    fields = "".join(f"  {name}: {_type(hint, aliases)};\n" for name, hint in hints.items())
    return f"export interface {cls.__name__} {{\n{fields}}}\n"


def _type(kind: Any, aliases: dict[Any, str]) -> str:
    if kind in aliases:
        return aliases[kind]
    if kind in _SCALARS:
        return _SCALARS[kind]
    if is_typeddict(kind):
        return str(kind.__name__)
    origin = get_origin(kind)
    if origin is Annotated:
        return str(kind.__metadata__[0])
    if origin is Literal:
        return _words(get_args(kind))
    arguments = [_type(argument, aliases) for argument in get_args(kind)]
    if origin in (Union, UnionType):
        return " | ".join(arguments)
    if origin is list:
        item = arguments[0]
        return f"({item})[]" if " " in item and not item.startswith("[") else f"{item}[]"
    if origin is tuple:
        return f"[{', '.join(arguments)}]"
    if origin is dict:
        return f"Record<{', '.join(arguments)}>"
    raise TypeError(f"No TypeScript type for {kind!r}. Add it to generate_messages.py.")


def _words(words: Iterable[Any]) -> str:
    return " | ".join(f'"{word}"' for word in words)


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
