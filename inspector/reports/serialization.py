"""Defines the form of an exploration's values: some are separate entries, others are stored field by field."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from inspector.analysis.profile.profile import Profile
from inspector.compilation.compiled import CompiledProgram, executable_of
from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.records.registry import RECORDS
from inspector.compilation.target import Target
from inspector.compilation.tuning import Tuning
from inspector.compilation.what_if import WhatIf
from inspector.errors import InspectorError, Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.pallas import Operand, Plain
from inspector.reports import listings
from inspector.reports.entries import PackedEntries, Unpacked
from inspector.reports.listings import PlainListing
from inspector.stages.compiled import Compiled
from inspector.stages.kernel import Kernel
from inspector.stages.lowered import Lowered
from inspector.stages.passes import CompilerPasses
from inspector.support import json_values
from inspector.support.json_values import Form, FormError, Forms

LEFT_OUT = Unavailable(
    "a bundle has no machine code: it runs on one kind of machine only, and running a stranger's code is unsafe",
    "compile the program again: exploration.lowered.compile(...)",
)
"""The value that replaces an executable."""

_DOCUMENTS = (Program, Lowered, Kernel, Profile)
_DTYPE = re.compile("[a-z][a-z0-9_]*")


def packing(packed: PackedEntries) -> Forms:
    """Returns the forms for values that are written to entries."""
    forms: dict[type, Form] = {}

    def document(value: object) -> Any:
        return packed.document(value, forms)

    def write(kind: type, form: Callable[[Any], Any]) -> None:
        forms[kind] = Form(form, _never)

    write(str, packed.text)
    write(bytes, packed.data)
    write(np.ndarray, lambda array: json_values.encode(_PlainArray.of(array), forms))
    write(Options, lambda options: packed.text(options.to_json()))
    write(Target, str)
    write(Tuning, lambda tuning: json_values.encode(_PlainTuning.of(tuning), forms))
    write(Listing, lambda listing: packed.document(listings.written(listing), forms))
    for record in (*RECORDS.values(), CompilerPasses):
        write(record, lambda value: packed.data(value.to_bytes()))
    for compiled in (CompiledProgram, Compiled):
        write(compiled, lambda value: document(_without_code(value)))
    for kind in _DOCUMENTS:
        write(kind, document)
    return forms


def unpacking(unpacked: Unpacked) -> Forms:
    """Returns the forms for values that are read from entries: the inverse of `packing`."""
    forms: dict[type, Form] = {}

    def read(kind: type, form: Callable[[Any, str], Any]) -> None:
        forms[kind] = Form(_never, form)

    made: dict[tuple[type, str], Any] = {}

    def text_of(kind: type, make: Callable[[str], Any]) -> None:
        def once(value: Any, at: str) -> Any:
            text = unpacked.text(value, at)
            if (kind, text) not in made:
                made[kind, text] = _made(make, text, at)
            return made[kind, text]

        read(kind, once)

    def record_of(kind: Any) -> None:
        read(kind, lambda value, at: _made(kind.from_bytes, unpacked.data(value, at), at))

    def document_of(kind: type) -> None:
        read(kind, lambda value, at: unpacked.document(kind, value, at, forms))

    read(str, unpacked.text)
    read(bytes, unpacked.data)
    read(np.ndarray, lambda value, at: _made(_PlainArray.array, json_values.decode(_PlainArray, value, at, forms), at))
    read(Tuning, lambda value, at: json_values.decode(_PlainTuning, value, at, forms).tuning())
    read(Listing, lambda value, at: listings.read(unpacked.document(PlainListing, value, at, forms), at))
    read(Operand, lambda value, at: _checked(json_values.decode_fields(Operand, value, at, forms), at))
    text_of(Options, Options.from_json)
    text_of(Target, Target.parse)
    for record in RECORDS.values():
        record_of(record)
    for kind in (CompiledProgram, *_DOCUMENTS):
        document_of(kind)
    return forms


@dataclasses.dataclass(frozen=True, slots=True)
class _PlainArray:
    """An array: the name of its dtype, and its elements in row-major order as bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: np.ndarray) -> _PlainArray:
        return cls(array.dtype.name, array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8).tobytes())

    def array(self) -> np.ndarray:
        dtype = _dtype(self.dtype)
        if min(self.shape, default=0) < 0 or math.prod(self.shape) * dtype.itemsize != len(self.data):
            raise ValueError(f"{len(self.data)} bytes for an array {self.dtype}{list(self.shape)}")
        return np.frombuffer(self.data, np.uint8).view(dtype).reshape(self.shape)


def _dtype(name: str) -> np.dtype[Any]:
    """Returns a numeric dtype by name, including those of ml_dtypes."""
    if not _DTYPE.fullmatch(name):
        raise ValueError(f"not a numeric dtype: {name[:40]!r}")
    try:
        dtype = np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, name, "O"))
    if dtype.hasobject or not dtype.itemsize or dtype.names:
        raise ValueError(f"not a numeric dtype: {name!r}")
    return dtype


@dataclasses.dataclass(frozen=True, slots=True)
class _PlainTuning:
    """A tuning with plain values for parameters; other values become texts."""

    params: tuple[tuple[str | int, tuple[tuple[str, Plain], ...]], ...]
    interpret: bool
    chip: str
    what_if: WhatIf

    @classmethod
    def of(cls, tuning: Tuning) -> _PlainTuning:
        params = tuple((kernel, tuple((n, _as_plain(v)) for n, v in fields)) for kernel, fields in tuning.params)
        return cls(params, tuning.interpret, tuning.chip, tuning.what_if)

    def tuning(self) -> Tuning:
        return Tuning(self.params, self.interpret, self.chip, self.what_if)


def _as_plain(value: Any) -> Plain:
    if isinstance(value, (list, tuple)):
        return tuple(map(_as_plain, value))
    if isinstance(value, Mapping):
        return tuple((str(name), _as_plain(each)) for name, each in value.items())
    return value if value is None or type(value) in (bool, int, float, str) else str(getattr(value, "value", value))


def _without_code(compiled: CompiledProgram) -> CompiledProgram:
    has_code = not isinstance(executable_of(compiled), Unavailable)
    return dataclasses.replace(compiled, _executable=LEFT_OUT) if has_code else compiled


def _checked(operand: Operand, at: str) -> Operand:
    """Checks that all attributes of an operand are consistent."""
    rank = len(operand.shape)
    sizes = [*operand.shape, *(d.size for d in operand.dimensions), operand.element_bits]
    if len(operand.dimensions) != rank or min(sizes) < 0:
        raise FormError(f"{at}: an operand {operand.shape} in blocks of {len(operand.dimensions)} dimensions")
    if isinstance(operand.index_bytes, bytes) and len(operand.index_bytes) % (4 * max(1, rank)):
        raise FormError(f"{at}: {len(operand.index_bytes)} bytes of block indices of {rank} dimensions")
    return operand


def _made(make: Callable[[Any], Any], value: Any, at: str) -> Any:
    try:
        return make(value)
    except (InspectorError, ValueError, TypeError, OverflowError, ImportError) as e:
        raise FormError(f"{at}: {e}") from e


def _never(*_: object) -> Any:
    raise NotImplementedError
