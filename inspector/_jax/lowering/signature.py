"""The signature of a StableHLO module: shapes and NumPy types of the parameters and results of its `main` function.

The module is the authority: random keys are already replaced by their key data, and shapes are the
global ones under a mesh, and those of one replica under an axis environment.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes  # registers bfloat16, float8 and int4 with NumPy
import numpy as np
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector.errors import ModuleError

TOKEN = "token"

_DTYPES = {
    "i1": "bool", "i2": "int2", "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui2": "uint2", "ui4": "uint4", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
    "f4E2M1FN": "float4_e2m1fn", "f8E3M4": "float8_e3m4", "f8E4M3": "float8_e4m3", "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz", "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E8M0FNU": "float8_e8m0fnu",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayType:
    """One parameter or result.

    Attributes:
      shape: dimensions.
      dtype: NumPy's name, "token" for an ordering token, or MLIR's text for other non-array types.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def is_array(self) -> bool:
        return self.dtype in _NAMES

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]" if self.is_array else self.dtype

    def numpy(self) -> np.dtype[Any]:
        """Returns the NumPy dtype; for small types, the one of ml_dtypes."""
        return dtype_of(self.dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """Parameters and results of a module, in order."""

    parameters: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]

    @property
    def tokens(self) -> int:
        """The number of tokens of ordered effects, which JAX puts before all other parameters and results."""
        kinds = [t.dtype for t in self.parameters]
        return next((i for i, kind in enumerate(kinds) if kind != TOKEN), len(kinds))

    def without_tokens(self) -> Signature:
        """Returns the signature that the caller sees."""
        return Signature(self.parameters[self.tokens :], self.results[self.tokens :])


def dtype_of(name: str) -> np.dtype[Any]:
    """Returns the dtype with a name of NumPy or ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name, name))


def parse_module(module: bytes) -> ir.Module:
    """Parses MLIR bytecode or text, or a portable artifact that another version of JAX saved, in a new context.

    Raises:
      ModuleError: it is neither, or not StableHLO that this jaxlib can read.
    """
    try:
        with mlir.make_ir_context() as context:
            if stablehlo.is_portable(module):
                return stablehlo.from_portable(context, module)
            return ir.Module.parse(module)
    except Exception as e:  # the name ir.MLIRError is not stable; every failure here is caused by the module
        reason = (str(e).strip() or type(e).__name__)[:2000]
        raise ModuleError(
            f"The module ({len(module)} bytes) is not StableHLO that this jaxlib can read: {reason}"
        ) from e


def read_signature(module: ir.Module) -> Signature:
    """Returns the signature of `main`.

    Raises:
      ModuleError: there is no function of that name.
    """
    for operation in module.body.operations:
        attributes = operation.operation.attributes
        if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == "main":
            with module.context:
                function = ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value)
                return Signature(tuple(map(_array_type, function.inputs)), tuple(map(_array_type, function.results)))
    raise ModuleError("The module has no function named 'main', so there is nothing to compile.")


def _array_type(type_: ir.Type) -> ArrayType:
    text = str(type_)
    if text == "!stablehlo.token":
        return ArrayType((), TOKEN)
    if not text.startswith("tensor<"):
        return ArrayType((), text)
    tensor = ir.RankedTensorType(type_)
    element = str(tensor.element_type)
    if element not in _DTYPES:
        return ArrayType((), text)
    return ArrayType(tuple(tensor.shape), _DTYPES[element])


_NAMES = frozenset(_DTYPES.values())
