"""StableHLO and HLO modules as bytes and text: reading, printing, converting.

Private JAX: `jax._src.interpreters.mlir.make_ir_context` (a context with JAX's dialects),
`jaxlib._jax.mlir` (conversions), `jaxlib._hlo` (HLO modules).
"""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
from typing import Any

from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from inspector.errors import ModuleError

# More elements of a dense constant are left out of text that is for reading.
_ELEMENTS_SHOWN = 32
_PARSE_LIMIT_S = 600
# The producer that a portable artifact names after the magic number of MLIR bytecode.
_PORTABLE = b"StableHLO_v"

# MLIR's element types by NumPy's (and ml_dtypes') names.
NUMPY_DTYPES = {
    "i1": "bool", "i2": "int2", "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui2": "uint2", "ui4": "uint4", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E3M4": "float8_e3m4", "f8E4M3": "float8_e4m3",
    "f8E8M0FNU": "float8_e8m0fnu", "f4E2M1FN": "float4_e2m1fn",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleFacts:
    """What a StableHLO module says of itself.

    Attributes:
      name: of the module.
      parameters, results: (shape, dtype) of `main`, dtype as MLIR writes it (`f32`).
      num_replicas, num_partitions: as the module's attributes say, 1 when they do not.
      meshes: axis names, axis sizes and device ids (None for 0, 1, 2, ...) of Shardy meshes.
      uses_shardy: it has Shardy meshes or shardings, so only Shardy can partition it.
    """

    name: str
    parameters: tuple[tuple[tuple[int, ...], str], ...]
    results: tuple[tuple[tuple[int, ...], str], ...]
    num_replicas: int
    num_partitions: int
    meshes: tuple[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None], ...]
    uses_shardy: bool


def parse_stablehlo(module: bytes | str) -> Any:
    """An `ir.Module` of text, MLIR bytecode or a portable (VHLO) artifact.

    Raises:
      ModuleError: with MLIR's own message.
    """
    try:
        with jax_mlir.make_ir_context() as context:
            if isinstance(module, bytes) and _PORTABLE in module[:64]:
                return stablehlo.deserialize_portable_artifact(context, module)
            return ir.Module.parse(module)
    except Exception as e:
        raise ModuleError(
            f"Cannot read the StableHLO module: {e}\nExpected StableHLO as MLIR text, MLIR bytecode or a"
            " serialized portable artifact."
        ) from e


def to_bytecode(module: Any) -> bytes:
    """MLIR bytecode with locations."""
    buffer = io.BytesIO()
    with module.context:
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def located_text(module: Any) -> str:
    """Text with locations, long constants left out: for reading, not for parsing back."""
    return str(module.operation.get_asm(enable_debug_info=True, large_elements_limit=_ELEMENTS_SHOWN))


def full_text(module: bytes) -> str:
    """Text without locations and with every constant whole, from bytecode."""
    return str(parse_stablehlo(module).operation.get_asm())


def module_facts(module: Any) -> ModuleFacts:
    """Reads a module's name, signature, counts and meshes."""
    attributes = module.operation.attributes
    main, meshes = None, []
    for operation in module.body.operations:
        op = operation.operation
        if op.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            main = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
        elif op.name == "sdy.mesh":
            meshes.append(_mesh(sdy.MeshAttr(op.attributes["mesh"])))
    if main is None:
        raise ModuleError(
            "The StableHLO module has no function `main`. Expected a module with a public `@main`, as"
            " `jax.jit(f).lower(...)` makes it."
        )
    return ModuleFacts(
        name=ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "module",
        parameters=tuple(_tensor(t) for t in main.inputs),
        results=tuple(_tensor(t) for t in main.results),
        num_replicas=_count(attributes, "mhlo.num_replicas"),
        num_partitions=_count(attributes, "mhlo.num_partitions"),
        meshes=tuple(m for m in meshes if m[0]),
        uses_shardy=bool(meshes),
    )


def _count(attributes: Any, name: str) -> int:
    return int(ir.IntegerAttr(attributes[name]).value) if name in attributes else 1


def _mesh(attribute: Any) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None]:
    axes = [sdy.MeshAxisAttr(axis) for axis in attribute.axes]
    ids = tuple(int(i) for i in attribute.device_ids)
    return tuple(str(a.name) for a in axes), tuple(int(a.size) for a in axes), ids or None


def _tensor(type_: Any) -> tuple[tuple[int, ...], str]:
    try:
        tensor = ir.RankedTensorType(type_)
    except ValueError:  # a token
        return (), str(type_)
    return tuple(tensor.shape), str(tensor.element_type)


def to_computation(module: Any, *, tuple_args: bool = False, return_tuple: bool = False) -> Any:
    """Jaxlib's own `XlaComputation` of a module."""
    try:
        return _jax.mlir.mlir_module_to_xla_computation(
            to_bytecode(module), use_tuple_args=tuple_args, return_tuple=return_tuple
        )
    except Exception as e:
        raise ModuleError(f"XLA cannot turn this StableHLO module into HLO: {e}") from e


def computation_from_proto(proto: bytes) -> Any:
    """Jaxlib's `XlaComputation` of a serialized HloModuleProto."""
    return _hlo.XlaComputation(proto)


def hlo_text(proto: bytes) -> str:
    """The text of a serialized HloModuleProto, with metadata."""
    return str(_hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string())


def hlo_dot(proto: bytes) -> str:
    """XLA's own DOT of a module."""
    return str(_hlo.hlo_module_to_dot_graph(_hlo.HloModule.from_serialized_hlo_module_proto(proto)))


@dataclasses.dataclass(frozen=True, slots=True)
class ParsedHlo:
    """An HLO module as StableHLO, with the counts that only its text's header holds.

    Attributes:
      stablehlo: MLIR bytecode.
      num_replicas, num_partitions: as the header says, 1 when it does not.
    """

    stablehlo: bytes
    num_replicas: int
    num_partitions: int


def parse_hlo(module: bytes | str) -> ParsedHlo:
    """Reads HLO text or a serialized HloModuleProto.

    A process of its own reads it, because malformed HLO can abort the reader.

    Raises:
      ModuleError: with XLA's message.
    """
    kind, data = ("text", module.encode()) if isinstance(module, str) else ("proto", module)
    try:
        child = subprocess.run(
            [sys.executable, "-c", _PARSE_HLO, kind],
            input=data,
            capture_output=True,
            timeout=_PARSE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        raise ModuleError(f"XLA did not read the HLO module within {_PARSE_LIMIT_S} s, and was stopped.") from e
    if child.returncode == 0:
        header, _, stablehlo = child.stdout.partition(b"\n")
        attributes = dict(part.partition("=")[::2] for part in header.decode().split(", "))
        return ParsedHlo(stablehlo, int(attributes.get("replica_count", 1)), int(attributes.get("num_partitions", 1)))
    said = child.stderr.decode(errors="replace").strip() or f"the reader ended with status {child.returncode}"
    raise ModuleError(
        f"Cannot read the HLO module: {_last_words(said)}\nExpected an HLO module as text (`HloModule name ...`)"
        " or a serialized HloModuleProto."
    )


def _last_words(said: str) -> str:
    """XLA's own message, without Python's traceback above it or glog's stack below."""
    for marker in ("INVALID_ARGUMENT: ", "Check failed: "):
        if marker in said:
            return said[said.index(marker) :].split("\n*** ")[0][:2000]
    return said[-2000:]


_PARSE_HLO = """
import sys
from jaxlib import _hlo, _jax
data = sys.stdin.buffer.read()
module = (_hlo.hlo_module_from_text(data.decode()) if sys.argv[1] == "text"
          else _hlo.HloModule.from_serialized_hlo_module_proto(data))
header = module.to_string().partition("\\n")[0].encode()
stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
sys.stdout.buffer.write(header + b"\\n" + stablehlo)
"""
