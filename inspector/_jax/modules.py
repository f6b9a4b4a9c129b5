"""StableHLO and HLO modules as bytes and text: reading, printing, converting.

Imports jaxlib and not JAX, and of its dialects not the generated classes of operations, because `reader.py` is to
start quickly. A module from outside is read by `reading.py` first.

Private JAX: `jaxlib.mlir` (StableHLO), `jaxlib._jax.mlir` (conversions), `jaxlib._hlo` (HLO modules).
"""

from __future__ import annotations

import dataclasses
import functools
import io
from typing import Any

from jaxlib import _hlo, _jax  # type: ignore[attr-defined]
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _sdy, _sdyMpmd, _stablehlo

from inspector.deferred import Deferred
from inspector.errors import ModuleError

# More elements of a dense constant are left out of text that is for reading.
_ELEMENTS_SHOWN = 32
EXPECTED = {
    "HLO": "Expected an HLO module as text (`HloModule name ...`) or a serialized HloModuleProto.",
    "StableHLO": "Expected StableHLO as MLIR text, MLIR bytecode or a serialized portable artifact.",
}
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
      scope: the first part of operations' names, of which the module's was made: `jit(<lambda>)` of `jit__lambda`; ""
        where no operation of `main` bears it.
    """

    name: str
    parameters: tuple[tuple[tuple[int, ...], str], ...]
    results: tuple[tuple[tuple[int, ...], str], ...]
    num_replicas: int
    num_partitions: int
    meshes: tuple[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None], ...]
    uses_shardy: bool
    scope: str


@dataclasses.dataclass(frozen=True, slots=True)
class Forms(Deferred):
    """A StableHLO module in the forms that people read.

    Attributes:
      located: its text with locations, see `located_text`.
      hlo: the text of its HLO, before any optimization, with metadata.
      hlo_proto: the same as a serialized HloModuleProto.
    """

    located: str
    hlo: str
    hlo_proto: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """Everything of a StableHLO module.

    Attributes:
      stablehlo: the module itself as MLIR bytecode, with locations.
      facts: what it says of itself; where it came as HLO, with the counts in that one's header.
      forms: what people read of it.
    """

    stablehlo: bytes
    facts: ModuleFacts
    forms: Forms


def contents(module: ir.Module, *, tuple_args: bool = False, return_tuple: bool = False) -> Contents:
    """Everything of an `ir.Module`; arguments and errors as for `forms`."""
    bytecode = to_bytecode(module)
    return Contents(bytecode, module_facts(module), forms(bytecode, tuple_args=tuple_args, return_tuple=return_tuple))


def parse_stablehlo(module: bytes | str) -> ir.Module:
    """An `ir.Module` of text, MLIR bytecode or a portable (VHLO) artifact.

    Raises:
      ModuleError: with MLIR's own message.
    """
    try:
        with _context() as context:
            if isinstance(module, bytes) and _PORTABLE in module[:64]:
                return _stablehlo.deserialize_portable_artifact(context, module)
            return ir.Module.parse(module)
    except Exception as e:
        raise ModuleError(f"Cannot read the StableHLO module: {e}\n{EXPECTED['StableHLO']}") from e


def hlo_to_stablehlo(module: bytes | str) -> tuple[bytes, int, int]:
    """MLIR bytecode of HLO text or a serialized HloModuleProto, and the replicas and partitions of its header.

    Only for `reader.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: with XLA's message.
    """
    try:
        hlo = (
            _hlo.hlo_module_from_text(module)
            if isinstance(module, str)
            else _hlo.HloModule.from_serialized_hlo_module_proto(module)
        )
        header = hlo.to_string().partition("\n")[0]
        stablehlo_bytes = _jax.mlir.hlo_to_stablehlo(hlo.as_serialized_hlo_module_proto())
    except Exception as e:
        raise ModuleError(f"Cannot read the HLO module: {e}\n{EXPECTED['HLO']}") from e
    attributes = dict(part.partition("=")[::2] for part in header.split(", "))
    return stablehlo_bytes, int(attributes.get("replica_count", 1)), int(attributes.get("num_partitions", 1))


def hlo_to_proto(text: str) -> bytes:
    """A serialized HloModuleProto of HLO text, optimized or not.

    Only for `reader.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: with XLA's message.
    """
    try:
        return bytes(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    except Exception as e:
        raise ModuleError(f"Cannot read the HLO module: {e}\n{EXPECTED['HLO']}") from e


def _context() -> ir.Context:
    """With the dialects that a context of JAX's has (`make_ir_context`)."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context(load_on_create_dialects=[])  # type: ignore[call-arg]  # jaxlib's stubs describe its base
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (_sdy, _sdyMpmd, _chlo, _stablehlo):
        dialect.register_dialect(context)
    _mlirHlo.register_mhlo_dialect(context)
    return context


def to_bytecode(module: ir.Module) -> bytes:
    """MLIR bytecode with locations."""
    buffer = io.BytesIO()
    with module.context:
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


# Versions of StableHLO, oldest first: the older one is, the more jaxlibs read it. Between them came operations, such as
# batched gathers in 1.1.
_PORTABLE_VERSIONS = ("1.1.0", "1.4.0", "1.8.0", "1.10.0")


def portable(module: bytes) -> bytes:
    """A portable artifact of bytecode, of the oldest version that can hold it: others read that too.

    MLIR's own bytecode changes with every jaxlib.

    Raises:
      ModuleError: it has an operation that has no such form.
    """
    parsed = parse_stablehlo(module)
    said = ""
    handler: Any = parsed.context.attach_diagnostic_handler(lambda _: True)  # else MLIR writes to stderr
    try:
        for version in (_stablehlo.get_minimum_version(), *_PORTABLE_VERSIONS, _stablehlo.get_current_version()):
            try:
                return bytes(_stablehlo.serialize_portable_artifact(parsed, version, True))
            except Exception as e:
                said = str(e)
    finally:
        handler.detach()
    raise ModuleError(f"The StableHLO module has no form that another jaxlib could read: {said}")


def located_text(module: ir.Module) -> str:
    """Text with locations, long constants left out: for reading, not for parsing back."""
    return str(module.operation.get_asm(enable_debug_info=True, large_elements_limit=_ELEMENTS_SHOWN))


def forms(module: bytes, *, tuple_args: bool = False, return_tuple: bool = False) -> Forms:
    """The forms of a module, each made when it is first asked for; that raises ModuleError where XLA makes no HLO of it.

    Args:
      module: StableHLO as MLIR bytecode.
      tuple_args: whether its HLO takes all arguments as one tuple.
      return_tuple: whether it gives a tuple whatever the results are.
    """

    def hlo_proto(_: Forms) -> bytes:
        computation = _to_computation(module, tuple_args=tuple_args, return_tuple=return_tuple)
        return bytes(computation.as_serialized_hlo_module_proto())

    return Forms.deferred({
        "located": lambda _: located_text(parse_stablehlo(module)),
        "hlo": lambda made: hlo_text(made.hlo_proto),
        "hlo_proto": hlo_proto,
    })  # fmt: skip


def full_text(module: bytes) -> str:
    """Text without locations and with every constant whole, from bytecode."""
    return str(parse_stablehlo(module).operation.get_asm())


def module_facts(module: ir.Module) -> ModuleFacts:
    """Reads a module's name, signature, counts and meshes."""
    attributes = module.operation.attributes
    main, body, meshes = None, None, []
    for operation in module.body.operations:
        op = operation.operation
        if op.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            main, body = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value), op.regions[0]
        elif op.name == "sdy.mesh":
            meshes.append(_mesh(_sdy.MeshAttr(op.attributes["mesh"])))
    if main is None:
        raise ModuleError(
            "The StableHLO module has no function `main`. Expected a module with a public `@main`, as"
            " `jax.jit(f).lower(...)` makes it."
        )
    name = ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "module"
    return ModuleFacts(
        name=name,
        parameters=tuple(_tensor(t) for t in main.inputs),
        results=tuple(_tensor(t) for t in main.results),
        num_replicas=_count(attributes, "mhlo.num_replicas"),
        num_partitions=_count(attributes, "mhlo.num_partitions"),
        meshes=tuple(m for m in meshes if m[0]),
        uses_shardy=bool(meshes),
        scope=_scope(name, body),
    )


def _scope(name: str, body: Any) -> str:
    """What operations' names begin with, where the module's name was made of it."""
    locations = (str(operation.location) for block in body for operation in block.operations)
    firsts = (_first_part(location) for location in locations)
    return next((first for first in firsts if first and _as_module_name(first) == _as_module_name(name)), "")


_NAMED = 'loc("'


def _first_part(location: str) -> str:
    """`loc("jit(f)/sin"(...))` -> `jit(f)`; "" of a location that is no name."""
    literal, _, behind = location.removeprefix(_NAMED).partition('"')
    if not location.startswith(_NAMED) or not behind.startswith(("(", ")")):
        return ""
    # MLIR writes what is not ASCII in digits, and reads it so.
    written = ir.StringAttr(ir.Attribute.parse(f'"{literal}"', _text_context())).value
    return str(written).partition("/")[0]


@functools.cache
def _text_context() -> ir.Context:
    return ir.Context()


def _as_module_name(scope: str) -> str:
    """As JAX makes a module's name of a scope; characters beyond ASCII aside, which not all versions keep."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in scope).rstrip("_")


def _count(attributes: Any, name: str) -> int:
    return int(ir.IntegerAttr(attributes[name]).value) if name in attributes else 1


def _mesh(attribute: Any) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None]:
    axes = [_sdy.MeshAxisAttr(axis) for axis in attribute.axes]
    ids = tuple(int(i) for i in attribute.device_ids)
    return tuple(str(a.name) for a in axes), tuple(int(a.size) for a in axes), ids or None


def _tensor(type_: Any) -> tuple[tuple[int, ...], str]:
    try:
        tensor = ir.RankedTensorType(type_)
    except ValueError:  # a token
        return (), str(type_)
    return tuple(tensor.shape), str(tensor.element_type)


def _to_computation(module: bytes, *, tuple_args: bool, return_tuple: bool) -> Any:
    """Jaxlib's own `XlaComputation` of MLIR bytecode."""
    try:
        return _jax.mlir.mlir_module_to_xla_computation(module, use_tuple_args=tuple_args, return_tuple=return_tuple)
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
