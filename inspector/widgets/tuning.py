"""Requests to compile with other compiler parameters for Pallas kernels, and conversion of values to and from text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.compilation.tuning import Tuning
from inspector.errors import ExecutionError, FlagTypeError, OptionError, UnknownFlagError
from inspector.hlo.pallas import ParamField, Plain
from inspector.support.notebook import short
from inspector.widgets.messages.kernels import TuneRequest
from inspector.widgets.variants import Variant
from inspector.widgets.work import Work


def requested(request: TuneRequest, variant: Variant, work: Work) -> tuple[Options, Target, Tuning]:
    """Returns the options, target and tuning of a new variant that is based on another one.

    Args:
      request: the browser's request.
      variant: the variant that the new one is based on.
      work: provides the fields of kernels and the devices that a program needs.

    Raises:
      InspectorError: there is no such field, or a value is wrong.
    """
    lowered = variant.lowered
    if lowered is None:
        raise ExecutionError(f"{variant.label} was not lowered, so it has no kernels. Tune another variant.")
    if request["interpret"]:
        target = work.suit(lowered, Target.parse("cpu"))
        return Options(), target, dataclasses.replace(variant.tuning, interpret=True)
    kernel = lowered.kernels[request["kernel"]]
    fields = work.kernel_fields(kernel, lowered.program.platform)
    values = read_values(fields, request["values"])
    check_fields(fields, values)
    return variant.options, variant.target, variant.tuning.with_params({kernel.number: values})


def write_value(value: Plain) -> str:
    """Returns a plain value as text, in the form that the user types: `none`, `true`, `parallel, arbitrary`, JSON for nested values."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        pairs = [v for v in value if isinstance(v, tuple)]
        if pairs:
            return json.dumps({str(pair[0]): pair[1] for pair in pairs})
        return ", ".join(map(write_value, value))
    return str(value)


def read_values(fields: Sequence[ParamField], texts: Mapping[str, str]) -> dict[str, Any]:
    """Parses the texts of fields into values.

    Numbers of bytes may have a unit: `32 MiB`, `32 << 20`.

    Raises:
      UnknownFlagError: there is no such field.
      FlagTypeError: a text is not a value of its field.
    """
    known = {field.name: field for field in fields}
    values: dict[str, Any] = {}
    for name, text in texts.items():
        field = known.get(name)
        if field is None or field.available is not True:
            raise UnknownFlagError(f"Unknown compiler parameter {short(name)}. Available: {', '.join(known)}.")
        try:
            values[name] = _read(text.strip(), field.type)
        except ValueError:
            raise FlagTypeError(f"{name} must be {field.type}{_examples(field)}, got {short(text)}.") from None
    return values


def check_fields(fields: Sequence[ParamField], values: Mapping[str, Any]) -> None:
    """Rejects fields that can name a file (`profile_dir`) or that hold a compiler's command line (`flags`).

    Args:
      fields: fields of the kernel.
      values: values that a page requests; the page is not trusted.

    Raises:
      OptionError: a field was rejected; the message names it.
    """
    for field in fields:
        is_free = "dict" in field.type or ("str" in field.type and not field.choices)
        if is_free and values.get(field.name, field.default) not in (field.default, None, ""):
            raise OptionError(
                f"{field.name} can make the compiler use files or forward arguments, so it cannot be set from a page. Set it from"
                f" Python instead: explorer.tune({{kernel: {{{field.name!r}: ...}}}})."
            )


def _examples(field: ParamField) -> str:
    if field.choices:
        return f" of {', '.join(map(write_value, field.choices))}"
    return ", such as 33554432, 32 MiB or none" if field.name.endswith("_bytes") else ""


_BYTES = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "b": 1}


def _read(text: str, kind: str) -> Any:
    """Parses a text as a value of a type, using the first of its alternatives that accepts it.

    Raises:
      ValueError: no alternative accepts the text.
    """
    kinds = [k.strip() for k in kind.split(" | ")]
    if text.lower() in ("none", "") and "None" in kinds:
        return None
    if text.lower() in ("true", "false") and "bool" in kinds:
        return text.lower() == "true"
    for one in kinds:
        if one == "int":
            return _read_int(text)
        if one.startswith("tuple"):
            inner = one.partition("[")[2].partition(",")[0]
            return tuple(_read(part.strip(), inner) for part in text.strip("()[]").split(",") if part.strip())
        if one.startswith("dict"):
            return _read_dict(text)
        if one == "str" and text:
            return text.strip("'\"")
        if one == "float":
            return float(text)
    raise ValueError


def _read_int(text: str) -> int:
    base, shift, power = text.partition("<<")
    if shift:
        return int(base) << int(power)
    number, _, unit = text.partition(" ")
    return round(float(number) * _BYTES[unit.strip().lower()]) if unit.strip().lower() in _BYTES else int(text)


def _read_dict(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError from error
    if not isinstance(value, dict):
        raise ValueError
    return value
