"""StableHLO modules as bytes and text: reads and prints them, and reads their properties.

Imports jaxlib but not JAX, and of its dialects only Shardy's generated operation classes, because `reader_process.py` must
start quickly. Modules from outside are first read by `isolated_reading.py`.

Private JAX: `jaxlib.mlir` (StableHLO).
"""

from __future__ import annotations

import dataclasses
import functools
import io
import re
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy  # noqa: F401  # first: jaxlib 0.12's `_sdy` imports it without some attributes

# isort: split
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _sdy, _sdyMpmd, _stablehlo

from inspector._jax.modules import foreign_dialects
from inspector.errors import ModuleError

EXPECTED = {
    "HLO": "Expected an HLO module as text (`HloModule name ...`) or a serialized HloModuleProto.",
    "StableHLO": "Expected StableHLO as MLIR text, MLIR bytecode or a serialized portable artifact.",
}

# Dense constants with more elements are elided in text for reading.
_ELEMENTS_SHOWN = 32
# The producer name of a portable artifact, after the magic number of MLIR bytecode.
_PORTABLE = b"StableHLO_v"
# The dialect of portable artifacts, which tools of StableHLO also print as text.
_VERSIONED = "vhlo."

# NumPy (and ml_dtypes) names by MLIR element type.
NUMPY_DTYPES = {
    "i1": "bool", "i2": "int2", "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui2": "uint2", "ui4": "uint4", "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E3M4": "float8_e3m4", "f8E4M3": "float8_e4m3",
    "f8E8M0FNU": "float8_e8m0fnu", "f4E2M1FN": "float4_e2m1fn",
}  # fmt: skip

FRONTEND_ATTRIBUTES = "mhlo.frontend_attributes"
SHARDING = "mhlo.sharding"
_MEMORY_KIND = "mhlo.memory_kind"
SHARDY_PREFIX = "xla.sdy."
_SHARDY_MESHES = "xla.sdy.meshes"


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Properties of a StableHLO module.

    Attributes:
      name: name of the module.
      parameters, results: (shape, dtype) of `main`'s, with the dtype as MLIR writes it (`f32`).
      num_replicas, num_partitions: the module's attributes, None if it has none.
      meshes: axis names, axis sizes and device ids (None for 0, 1, 2, ...) of Shardy meshes.
      uses_shardy: whether it has Shardy meshes or shardings, so that only Shardy can partition it.
      parameter_memories, result_memories: JAX's memory kind of each of `main`'s, such as `pinned_host`; "" if not stated.
      scope: the first part of operation names, from which JAX made the module's name: `jit(<lambda>)` for `jit__lambda`; ""
        if no operation of `main` has it.
    """

    name: str
    parameters: tuple[tuple[tuple[int, ...], str], ...]
    results: tuple[tuple[tuple[int, ...], str], ...]
    num_replicas: int | None
    num_partitions: int | None
    meshes: tuple[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None], ...]
    uses_shardy: bool
    parameter_memories: tuple[str, ...]
    result_memories: tuple[str, ...]
    scope: str


def parse_stablehlo(module: bytes | str, *, allow_unregistered: bool = False) -> ir.Module:
    """Parses text, MLIR bytecode or a portable (VHLO) artifact as an `ir.Module`.

    Args:
      module: the module.
      allow_unregistered: whether operations in generic form, types and attributes of dialects that JAX does not include are
        read. Such a module can be printed but not converted to HLO.

    Raises:
      ModuleError: MLIR cannot read it; with MLIR's own message.
    """
    try:
        with _context() as context:
            context.allow_unregistered_dialects = allow_unregistered
            if is_portable(module):
                return from_portable(context, module)
            parsed = ir.Module.parse(module)
            if any(op.operation.name.startswith(_VERSIONED) for op in parsed.body.operations):
                return _stablehlo.deserialize_portable_artifact(context, to_bytecode(parsed))
            return parsed
    except Exception as e:
        foreign = foreign_dialects.explanation(module, str(e))
        raise ModuleError(
            f"Cannot read the StableHLO module: {foreign}{' ' if foreign else ''}{e}\n{EXPECTED['StableHLO']}"
        ) from e


def is_portable(module: bytes | str) -> bool:
    """Reports whether a module is a portable artifact."""
    return isinstance(module, bytes) and _PORTABLE in module[:64]


def from_portable(context: ir.Context, module: bytes | str) -> ir.Module:
    """Reads a portable artifact."""
    return _stablehlo.deserialize_portable_artifact(context, module)


def _context() -> ir.Context:
    """Returns a context with the dialects of JAX's contexts (`make_ir_context`)."""
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
    """Returns MLIR bytecode with locations."""
    buffer = io.BytesIO()
    with module.context:
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


# Versions of StableHLO, oldest first: more jaxlibs can read older ones. Operations were added in between, such as
# batched gathers in 1.1.
_PORTABLE_VERSIONS = ("1.1.0", "1.4.0", "1.8.0", "1.10.0")


def portable(module: bytes) -> bytes:
    """Converts bytecode to a portable artifact of the oldest version that supports the module; newer jaxlibs can read it too.

    MLIR's own bytecode changes with every jaxlib.

    Raises:
      ModuleError: an operation has no portable form.
    """
    parsed = parse_stablehlo(module)
    reason = ""
    handler: Any = parsed.context.attach_diagnostic_handler(lambda _: True)  # otherwise MLIR writes to stderr
    try:
        for version in (_stablehlo.get_minimum_version(), *_PORTABLE_VERSIONS, _stablehlo.get_current_version()):
            try:
                return bytes(_stablehlo.serialize_portable_artifact(parsed, version, True))
            except Exception as e:
                reason = str(e)
    finally:
        handler.detach()
    raise ModuleError(f"The StableHLO module has no form that another jaxlib can read: {reason}")


def located_text(module: ir.Module) -> str:
    """Returns text with locations and without long constants: for reading, not for parsing."""
    return str(module.operation.get_asm(enable_debug_info=True, large_elements_limit=_ELEMENTS_SHOWN))


def full_text(module: bytes) -> str:
    """Returns the text of bytecode, without locations and with complete constants."""
    return str(parse_stablehlo(module, allow_unregistered=True).operation.get_asm())


def module_facts(module: ir.Module) -> ModuleFacts:
    """Reads a module's name, signature, counts and meshes."""
    attributes = module.operation.attributes
    function, main, body, meshes = None, None, None, []
    for operation in module.body.operations:
        op = operation.operation
        if is_main(op):
            function, main, body = op, function_type(op), op.regions[0]
        elif op.name == "sdy.mesh":
            meshes.append(_mesh(_sdy.MeshAttr(op.attributes["mesh"])))
    if main is None:
        raise ModuleError(
            "The StableHLO module has no function `main`. Expected a module with a public `@main`, such as those made by"
            " `jax.jit(f).lower(...)`."
        )
    meshes += _round_trip_meshes(attributes)
    name = ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "module"
    return ModuleFacts(
        name=name,
        parameters=tuple(_tensor(t) for t in main.inputs),
        results=tuple(_tensor(t) for t in main.results),
        num_replicas=_count(attributes, "mhlo.num_replicas"),
        num_partitions=_count(attributes, "mhlo.num_partitions"),
        meshes=tuple(m for m in meshes if m[0]),
        uses_shardy=bool(meshes),
        parameter_memories=_memories(function, "arg_attrs", len(main.inputs)),
        result_memories=_memories(function, "res_attrs", len(main.results)),
        scope=_scope(name, body),
    )


def _scope(name: str, body: Any) -> str:
    """Returns the first part of operation names, if JAX made the module's name from it; otherwise ""."""
    locations = (str(operation.location) for block in body for operation in block.operations)
    firsts = (_first_part(location) for location in locations)
    return next((first for first in firsts if first and _as_module_name(first) == _as_module_name(name)), "")


_NAMED = 'loc("'
_PLACE = re.compile(r'"([^"]+)":(\d+):')


def _first_part(location: str) -> str:
    """Returns `jit(f)` for `loc("jit(f)/sin"(...))`; "" for a location that is not a name."""
    literal, _, behind = location.removeprefix(_NAMED).partition('"')
    if not location.startswith(_NAMED) or not behind.startswith(("(", ")")):
        return ""
    # MLIR writes non-ASCII characters as escaped digits, and parses them back.
    written = ir.StringAttr(ir.Attribute.parse(f'"{literal}"', _text_context())).value
    return str(written).partition("/")[0]


@functools.cache
def _text_context() -> ir.Context:
    return ir.Context()


def _as_module_name(scope: str) -> str:
    """Returns the module name that JAX makes from a scope; ignores non-ASCII characters, which not all versions keep."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in scope).rstrip("_")


def _count(attributes: Any, name: str) -> int | None:
    return int(ir.IntegerAttr(attributes[name]).value) if name in attributes else None


def _round_trip_meshes(attributes: Any) -> list[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None]]:
    """Returns Shardy's meshes in the form of HLO modules: MLIR text in a frontend attribute."""
    if FRONTEND_ATTRIBUTES not in attributes or _SHARDY_MESHES not in ir.DictAttr(attributes[FRONTEND_ATTRIBUTES]):
        return []
    frontend = ir.DictAttr(attributes[FRONTEND_ATTRIBUTES])
    text = ir.StringAttr(frontend[_SHARDY_MESHES]).value
    try:
        meshes = ir.DictAttr(ir.Attribute.parse(text.replace('\\"', '"'), frontend.context))
        return [_mesh(_sdy.MeshAttr(meshes[i].attr)) for i in range(len(meshes))]
    except Exception as e:
        raise ModuleError(f"The module's frontend attribute {_SHARDY_MESHES} has no Shardy meshes: {text!r}.") from e


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


def _memories(function: Any, name: str, count: int) -> tuple[str, ...]:
    """Returns the memory kinds of arguments (`arg_attrs`) or results (`res_attrs`)."""
    stated = [each.get(_MEMORY_KIND) for each in argument_attributes(function, name)] or [None] * count
    return tuple("" if kind is None else str(ir.StringAttr(kind).value) for kind in stated)


def carries_shardy(module: ir.Module) -> bool:
    """Reports whether operations or arguments have Shardy shardings as frontend attributes, as in HLO modules."""
    has_shardy = False

    def visit(operation: Any) -> Any:
        nonlocal has_shardy
        attributes = operation.attributes
        has_shardy |= FRONTEND_ATTRIBUTES in attributes and SHARDY_PREFIX in str(attributes[FRONTEND_ATTRIBUTES])
        has_shardy |= "call_target_name" in attributes and SHARDY_PREFIX in str(attributes["call_target_name"])
        has_shardy |= "arg_attrs" in attributes and SHARDY_PREFIX in str(attributes["arg_attrs"])
        return ir.WalkResult.INTERRUPT if has_shardy else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return has_shardy


def is_main(operation: Any) -> bool:
    return bool(operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main")


def op_name(operation: Any) -> str:
    """Returns JAX's name of an operation within its function or `shard_map`; "" if its location has none."""
    _, quote, rest = str(operation.location).partition('loc("')
    return rest.partition('"')[0].replace("\\'", "'").removesuffix(":") if quote else ""


def names_in_function(operation: Any) -> tuple[str, ...]:
    """Returns JAX's name of an operation, and those of the `shard_map`s around it in its function, innermost first."""
    names, owner = [op_name(operation)], operation.parent
    while owner is not None and owner.name != "func.func":
        if owner.name == "sdy.manual_computation":
            names.append(op_name(owner))
        owner = owner.parent
    return tuple(names)


def places(operation: Any) -> tuple[tuple[str, int], ...]:
    """Returns file and line of the Python frames of an operation, innermost first."""
    return tuple((file, int(line)) for file, line in _PLACE.findall(str(operation.location)))


def zero_of(element_type: Any) -> Any:
    """Returns the attribute 0 of a type of floats, integers or booleans."""
    is_float = isinstance(element_type, ir.FloatType)
    return ir.FloatAttr.get(element_type, 0.0) if is_float else ir.IntegerAttr.get(element_type, 0)


def function_type(function: Any) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def argument_attributes(function: Any, name: str) -> list[dict[str, Any]]:
    """Returns the attributes of each argument (`arg_attrs`) or result (`res_attrs`); an empty list if there are none at all."""
    if name not in function.attributes:
        return []
    return [
        {a.name: a.attr for a in named_attributes(ir.DictAttr(each))}
        for each in ir.ArrayAttr(function.attributes[name])
    ]


def named_attributes(attributes: Any) -> list[Any]:
    """Returns the attributes of an operation with their names; on newer jaxlibs, iteration yields names only."""
    return [attributes[i] for i in range(len(attributes))]
