"""HLO modules: reads and prints them, and converts StableHLO to HLO.

Imports jaxlib but not JAX, because `reader_process.py` must start quickly. Modules from outside are first read by
`isolated_reading.py`.

Private JAX: `jaxlib._hlo` (HLO modules), `jaxlib._jax.mlir` (conversions), `jaxlib.mlir` (StableHLO).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from jaxlib import _hlo, _jax  # type: ignore[attr-defined]
from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector.errors import ModuleError


@dataclasses.dataclass(frozen=True, slots=True)
class SourceHlo:
    """The HLO module that a StableHLO module was converted from.

    Attributes:
      header: the first line of its text as XLA prints it, with counts and flags that the proto does not have.
      proto: a serialized HloModuleProto.
    """

    header: str
    proto: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class ReadHlo:
    """An HLO module as XLA reads it.

    Attributes:
      source: its header and its proto.
      text: XLA's text of it, with metadata.
    """

    source: SourceHlo
    text: str


def read_hlo(module: bytes | str) -> ReadHlo:
    """Reads HLO text or a serialized HloModuleProto.

    Only for `reader_process.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: XLA cannot read it; with XLA's message.
    """
    try:
        parsed = _parse_hlo(module)
        text = parsed.to_string()
        return ReadHlo(SourceHlo(text.partition("\n")[0], bytes(parsed.as_serialized_hlo_module_proto())), text)
    except Exception as e:
        raise ModuleError(f"Cannot read the HLO module: {e}\n{stablehlo.EXPECTED['HLO']}") from e


def hlo_to_proto(text: str) -> bytes:
    """Converts HLO text, optimized or not, to a serialized HloModuleProto.

    Only for `reader_process.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: XLA cannot read it; with XLA's message.
    """
    try:
        return bytes(_parse_hlo(text).as_serialized_hlo_module_proto())
    except Exception as e:
        raise ModuleError(f"Cannot read the HLO module: {e}\n{stablehlo.EXPECTED['HLO']}") from e


def _parse_hlo(module: bytes | str) -> Any:
    if not isinstance(module, str):
        return _hlo.HloModule.from_serialized_hlo_module_proto(module)
    if _HEADER.search(module):
        return _hlo.hlo_module_from_text(module)
    # XLA itself reads computations and single instructions without a header, but not a computation with a signature or
    # several instructions. What is added stays on the first line, so that line numbers stay right.
    failures = []
    for before, after in (("", ""), ("HloModule module ", ""), ("HloModule module ENTRY entry { ", "\n}")):
        try:
            return _hlo.hlo_module_from_text(f"{before}{module}{after}")
        except Exception as e:
            failures.append(e)
    raise max(failures, key=_place)  # that of the attempt that read most


_HEADER = re.compile(r"^\s*HloModule\b", re.MULTILINE)
_PLACE = re.compile(r"was parsing (\d+):(\d+)")


def _place(error: Exception) -> tuple[int, int]:
    match = _PLACE.search(str(error))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def to_computation(module: bytes, *, tuple_args: bool, return_tuple: bool) -> Any:
    """Converts MLIR bytecode to jaxlib's own `XlaComputation`.

    Its entry layout states the layouts with which the module is compiled: those that the function chooses, and otherwise
    row-major. XLA's conversion alone states the layouts that it infers from the operations, and drops the chosen ones.
    """
    try:
        converted = _to_computation(module, tuple_args, return_tuple)
        if _LAYOUT_MODE.encode() not in module and all(
            map(_is_row_major, _leaves(converted.program_shape().result_shape()))
        ):
            return converted
        parsed = stablehlo.parse_stablehlo(module)
        if not _state_entry_layouts(parsed, tuple_args=tuple_args, return_tuple=return_tuple):
            return converted
        return _to_computation(stablehlo.to_bytecode(parsed), tuple_args, return_tuple)
    except Exception as e:
        raise ModuleError(f"XLA cannot convert this StableHLO module to HLO: {e}") from e


def _to_computation(module: bytes, tuple_args: bool, return_tuple: bool) -> Any:
    return _jax.mlir.mlir_module_to_xla_computation(module, use_tuple_args=tuple_args, return_tuple=return_tuple)


_LAYOUT_MODE = "mhlo.layout_mode"
_CHOSEN_LAYOUT = re.compile(r"\{([\d,]*)")  # "{0,1}" or, with tiles, "{0,1:T(8,128)}"; also "default" and "auto"


def _leaves(shape: Any) -> list[Any]:
    return [leaf for each in shape.tuple_shapes() for leaf in _leaves(each)] if shape.is_tuple() else [shape]


def _is_row_major(shape: Any) -> bool:
    return not shape.is_array() or list(shape.layout().minor_to_major()) == list(range(shape.rank()))[::-1]


def _state_entry_layouts(module: ir.Module, *, tuple_args: bool, return_tuple: bool) -> bool:
    """Adds the attributes from which XLA's conversion takes the entry layout; returns whether it added any.

    The attributes cannot describe a tuple, so an entry that tuples one result or its arguments keeps the inferred layouts.
    """
    main = next(f.operation for f in module.body.operations if stablehlo.is_main(f.operation))
    type_ = stablehlo.function_type(main)
    added = False
    for name, types, attributes, is_tuple in (
        ("parameter_layouts", type_.inputs, "arg_attrs", tuple_args),
        ("result_layout", type_.results, "res_attrs", return_tuple and len(type_.results) == 1),
    ):
        if is_tuple or not types or not all(isinstance(each, ir.RankedTensorType) for each in types):
            continue
        with module.context:
            known = stablehlo.argument_attributes(main, attributes) or [{} for _ in types]
            layouts = [
                _layout(ir.RankedTensorType(each).rank, chosen.get(_LAYOUT_MODE))
                for each, chosen in zip(types, known, strict=True)
            ]
            module.operation.attributes[f"mhlo.xla_entry_computation_{name}"] = ir.ArrayAttr.get(layouts)
        added = True
    return added


def _layout(rank: int, mode: Any) -> Any:
    chosen = _CHOSEN_LAYOUT.match(ir.StringAttr(mode).value) if mode is not None else None
    order = chosen[1] if chosen else ",".join(map(str, reversed(range(rank))))
    return ir.Attribute.parse(f"dense<{f'[{order}]' if rank else ''}> : tensor<{rank}xindex>")


def computation_from_proto(proto: bytes) -> Any:
    """Returns jaxlib's `XlaComputation` for a serialized HloModuleProto."""
    return _hlo.XlaComputation(proto)


def hlo_text(proto: bytes) -> str:
    """Returns the text of a serialized HloModuleProto, with metadata."""
    return str(_hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string())


def hlo_dot(proto: bytes) -> str:
    """Returns XLA's own DOT graph of a module."""
    return str(_hlo.hlo_module_to_dot_graph(_hlo.HloModule.from_serialized_hlo_module_proto(proto)))
