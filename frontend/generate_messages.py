"""Prints `src/messages.ts` from `inspector/widgets/messages/`.

Use: `python frontend/generate_messages.py > frontend/src/messages.ts`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from inspector.widgets import messages

_ALIASES = ("TextPane", "Pane", "Language", "State", "GraphMode", "Stage", "Product")
_UNIONS = ("ToBrowser", "FromBrowser")
_SCALARS: dict[Any, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    Any: "unknown",
}


def typescript() -> str:
    """The text of `src/messages.ts`."""
    classes = [v for v in vars(messages).values() if is_typeddict(v)]
    parts = ["// Generated from inspector/widgets/messages/ by generate_messages.py. Do not edit.\n"]
    parts.append(f"export const VERSION = {messages.VERSION};\n")
    parts.extend(f"export type {n} = {_type(getattr(messages, n), alias=False)};\n" for n in _ALIASES)
    parts.extend(_interface(c) for c in classes)
    parts.extend(f"export type {n} = {_type(getattr(messages, n), alias=False)};\n" for n in _UNIONS)
    return "\n".join(parts)


def _interface(cls: Any) -> str:
    fields = "".join(f"  {name}: {_type(hint)};\n" for name, hint in get_type_hints(cls).items())
    return f"export interface {cls.__name__} {{\n{fields}}}\n"


def _type(kind: Any, alias: bool = True) -> str:
    if alias:
        for name in _ALIASES:
            if kind == getattr(messages, name):
                return name
    if kind in _SCALARS:
        return _SCALARS[kind]
    if is_typeddict(kind):
        return str(kind.__name__)
    arguments = get_args(kind)
    match get_origin(kind):
        case origin if origin in (Union, UnionType):
            return " | ".join(_type(a) for a in arguments)
        case origin if origin is Literal:
            return " | ".join(f'"{a}"' for a in arguments)
        case origin if origin is list:
            item = _type(arguments[0])
            return f"({item})[]" if " " in item and not item.startswith("[") else f"{item}[]"
        case origin if origin is tuple:
            return f"[{', '.join(_type(a) for a in arguments)}]"
        case origin if origin is dict:
            return f"Record<{', '.join(_type(a) for a in arguments)}>"
    raise TypeError(f"No TypeScript for {kind!r}: add it to generate_messages.py.")


if __name__ == "__main__":
    sys.stdout.write(typescript())
