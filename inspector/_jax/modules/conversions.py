"""StableHLO and HLO modules as bytes and text: reading, printing, converting.

Imports jaxlib but not JAX, and of its dialects not the generated operation classes, because `reader_process.py` must
start quickly. Modules from outside are first read by `isolated_reading.py`.

Private JAX: `jaxlib.mlir` (StableHLO), `jaxlib._jax.mlir` (conversions), `jaxlib._hlo` (HLO modules).
"""

from __future__ import annotations

import dataclasses
import functools
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib import _hlo, _jax  # type: ignore[attr-defined]
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _sdy, _sdyMpmd, _stablehlo

from inspector.errors import ModuleError
from inspector.support.deferred import Deferred

# Dense constants with more elements are elided in text for reading.
_ELEMENTS_SHOWN = 32
EXPECTED = {
    "HLO": "Expected an HLO module as text (`HloModule name ...`) or a serialized HloModuleProto.",
    "StableHLO": "Expected StableHLO as MLIR text, MLIR bytecode or a serialized portable artifact.",
}
# The producer name of a portable artifact, after the magic number of MLIR bytecode.
_PORTABLE = b"StableHLO_v"

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


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Properties of a StableHLO module.

    Attributes:
      name: name of the module.
      parameters, results: (shape, dtype) of `main`'s, with the dtype as MLIR writes it (`f32`).
      num_replicas, num_partitions: the module's attributes, None if it has none.
      meshes: axis names, axis sizes and device ids (None for 0, 1, 2, ...) of Shardy meshes.
      uses_shardy: whether it has Shardy meshes or shardings, so that only Shardy can partition it.
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
    scope: str


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleForms(Deferred):
    """A StableHLO module in human-readable forms.

    Attributes:
      located: its text with locations, see `located_text`.
      hlo: the text of its HLO, before any optimization, with metadata.
      hlo_proto: the same as a serialized HloModuleProto.
    """

    located: str
    hlo: str
    hlo_proto: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class GivenHlo:
    """The HLO module that a StableHLO module was converted from.

    Attributes:
      header: the first line of its text as XLA prints it, with counts and flags that the proto does not have.
      proto: a serialized HloModuleProto.
    """

    header: str
    proto: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """All contents of a StableHLO module.

    Attributes:
      stablehlo: the module itself as MLIR bytecode, with locations.
      facts: properties of the module.
      forms: human-readable forms.
      given: the HLO module that it was converted from, None if the user passed StableHLO.
    """

    stablehlo: bytes
    facts: ModuleFacts
    forms: ModuleForms
    given: GivenHlo | None = None


def contents(module: ir.Module, *, tuple_args: bool = False, return_tuple: bool = False) -> Contents:
    """Returns all contents of an `ir.Module`; arguments and errors as for `forms`."""
    bytecode = to_bytecode(module)
    return Contents(bytecode, module_facts(module), forms(bytecode, tuple_args=tuple_args, return_tuple=return_tuple))


def parse_stablehlo(module: bytes | str) -> ir.Module:
    """Parses text, MLIR bytecode or a portable (VHLO) artifact as an `ir.Module`.

    Raises:
      ModuleError: MLIR cannot read it; with MLIR's own message.
    """
    try:
        with _context() as context:
            if isinstance(module, bytes) and _PORTABLE in module[:64]:
                return _stablehlo.deserialize_portable_artifact(context, module)
            return ir.Module.parse(module)
    except Exception as e:
        raise ModuleError(f"Cannot read the StableHLO module: {e}\n{EXPECTED['StableHLO']}") from e


def hlo_to_stablehlo(module: bytes | str) -> tuple[bytes, GivenHlo]:
    """Converts HLO text or a serialized HloModuleProto to MLIR bytecode; also returns the HLO module itself.

    Only for `reader_process.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: XLA cannot read or convert it; with XLA's message, or with the operation that StableHLO lacks.
    """
    try:
        hlo = _parse_hlo(module)
        header = hlo.to_string().partition("\n")[0]
        proto = bytes(hlo.as_serialized_hlo_module_proto())
    except Exception as e:
        raise ModuleError(f"Cannot read the HLO module: {e}\n{EXPECTED['HLO']}") from e
    if _CRASHES in hlo.to_string():
        raise ModuleError(
            f"The HLO module has a dot with algorithm={_CRASHES}, which crashes the conversion to StableHLO."
            " Use another algorithm, or pass the Python function itself."
        )
    try:
        converted = _jax.mlir.hlo_to_stablehlo(proto)
        parsed = parse_stablehlo(converted)
        if _ALGORITHM.encode() in converted:
            _generalize_dots(parsed)
        if _SHARDY.encode() in converted and carries_shardy(parsed):
            _drop_result_shardings(parsed)
    except Exception as e:
        raise ModuleError(
            f"The HLO module cannot be converted to StableHLO, which inspector needs for compiling: {_reason(e, hlo)}"
        ) from e
    return to_bytecode(parsed), GivenHlo(header, proto)


def _parse_hlo(module: bytes | str) -> Any:
    if isinstance(module, str):
        return _hlo.hlo_module_from_text(module)
    return _hlo.HloModule.from_serialized_hlo_module_proto(module)


_CRASHES = "dot_bf16_bf16_f32_x9"
_UNKNOWN_OPERATION = re.compile(r'error: "([^"]*)": unregistered operation .mhlo\.unknown')


def _reason(error: Exception, hlo: Any) -> str:
    """Returns MLIR's message without the advice for StableHLO files, or the instruction that StableHLO lacks."""
    text = str(error).removesuffix(f"\n{EXPECTED['StableHLO']}").removeprefix("Cannot read the StableHLO module: ")
    unknown = _UNKNOWN_OPERATION.search(text)
    if unknown is None:
        return text.removeprefix("Unable to parse module assembly:\n")
    name = unknown[1]
    line = re.search(rf"%{re.escape(name)} = .*? ([a-z][a-z0-9-]*)\(", str(hlo.to_string()))
    return f"StableHLO has no operation for the instruction {name}{f' ({line[1]})' if line else ''}."


_ALGORITHM = "algorithm"


def _generalize_dots(module: ir.Module) -> None:
    """Replaces each `stablehlo.dot` that has an algorithm by a `stablehlo.dot_general`, which supports one.

    XLA's conversion puts the algorithm of a matrix product on an operation that ignores it.
    """
    dots: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.dot" and _ALGORITHM in operation.attributes:
            dots.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with module.context:
        for dot in dots:
            contracted = ir.RankedTensorType(dot.operands[0].type).rank - 1
            attributes = {attribute.name: attribute.attr for attribute in _named(dot.attributes)}
            attributes["dot_dimension_numbers"] = ir.Attribute.parse(
                f"#stablehlo.dot<lhs_contracting_dimensions = [{contracted}], rhs_contracting_dimensions = [0]>"
            )
            general = ir.Operation.create(
                "stablehlo.dot_general",
                results=[result.type for result in dot.results],
                operands=list(dot.operands),
                attributes=attributes,
                loc=dot.location,
                ip=ir.InsertionPoint(dot),
            )
            dot.results[0].replace_all_uses_with(general.results[0])
            dot.erase()


def _drop_result_shardings(module: ir.Module) -> None:
    """Removes the GSPMD shardings of function results from a module that Shardy partitions.

    XLA's conversion copies them from the operations that return the results, without the Shardy shardings of those
    operations. XLA partitions a module with GSPMD if a result has one without the other.
    """
    with module.context:
        for operation in module.body.operations:
            function = operation.operation
            if function.name != "func.func" or not (known := _argument_attributes(function, "res_attrs")):
                continue
            for each in known:
                if _FRONTEND not in each:
                    each.pop(_SHARDING, None)
            function.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in known])


def _named(attributes: Any) -> list[Any]:
    """Returns the attributes of an operation with their names; on newer jaxlibs, iteration yields names only."""
    return [attributes[i] for i in range(len(attributes))]


def hlo_to_proto(text: str) -> bytes:
    """Converts HLO text, optimized or not, to a serialized HloModuleProto.

    Only for `reader_process.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: XLA cannot read it; with XLA's message.
    """
    try:
        return bytes(_parse_hlo(text).as_serialized_hlo_module_proto())
    except Exception as e:
        raise ModuleError(f"Cannot read the HLO module: {e}\n{EXPECTED['HLO']}") from e


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


def forms(module: bytes, *, tuple_args: bool = False, return_tuple: bool = False) -> ModuleForms:
    """Returns the forms of a module, each made on first use, which raises ModuleError if XLA cannot convert it to HLO.

    Args:
      module: StableHLO as MLIR bytecode.
      tuple_args: whether its HLO takes all arguments as one tuple.
      return_tuple: whether its HLO always returns a tuple.
    """

    def hlo_proto(_: ModuleForms) -> bytes:
        computation = _to_computation(module, tuple_args=tuple_args, return_tuple=return_tuple)
        return bytes(computation.as_serialized_hlo_module_proto())

    return ModuleForms.deferred({
        "located": lambda _: located_text(parse_stablehlo(module)),
        "hlo": lambda made: hlo_text(made.hlo_proto),
        "hlo_proto": hlo_proto,
    })  # fmt: skip


def full_text(module: bytes) -> str:
    """Returns the text of bytecode, without locations and with complete constants."""
    return str(parse_stablehlo(module).operation.get_asm())


def module_facts(module: ir.Module) -> ModuleFacts:
    """Reads a module's name, signature, counts and meshes."""
    attributes = module.operation.attributes
    main, body, meshes = None, None, []
    for operation in module.body.operations:
        op = operation.operation
        if _is_main(op):
            main, body = _function_type(op), op.regions[0]
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
        scope=_scope(name, body),
    )


def _scope(name: str, body: Any) -> str:
    """Returns the first part of operation names, if JAX made the module's name from it; otherwise ""."""
    locations = (str(operation.location) for block in body for operation in block.operations)
    firsts = (_first_part(location) for location in locations)
    return next((first for first in firsts if first and _as_module_name(first) == _as_module_name(name)), "")


_NAMED = 'loc("'


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


_FRONTEND = "mhlo.frontend_attributes"
_SHARDY_MESHES = "xla.sdy.meshes"


def _round_trip_meshes(attributes: Any) -> list[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None]]:
    """Returns Shardy's meshes in the form of HLO modules: MLIR text in a frontend attribute."""
    if _FRONTEND not in attributes or _SHARDY_MESHES not in ir.DictAttr(attributes[_FRONTEND]):
        return []
    frontend = ir.DictAttr(attributes[_FRONTEND])
    text = ir.StringAttr(frontend[_SHARDY_MESHES]).value
    try:
        meshes = ir.DictAttr(ir.Attribute.parse(text.replace('\\"', '"'), frontend.context))
        return [_mesh(_sdy.MeshAttr(meshes[i].attr)) for i in range(len(meshes))]
    except Exception as e:
        raise ModuleError(f"The module's frontend attribute {_SHARDY_MESHES} has no Shardy meshes: {text!r}.") from e


@dataclasses.dataclass(frozen=True, slots=True)
class Additions:
    """Attributes to add to a StableHLO module because XLA's conversion from HLO drops them.

    Attributes:
      num_replicas, num_partitions: the counts of the HLO module.
      donors: numbers of the parameters whose buffers may be reused.
      parameter_attributes, result_attributes: attribute texts by name, for each parameter and result, for example layouts.
      is_partitioned: whether the module is the program of one device, so that nothing in it may be partitioned.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    donors: tuple[int, ...] = ()
    parameter_attributes: tuple[Mapping[str, str], ...] = ()
    result_attributes: tuple[Mapping[str, str], ...] = ()
    is_partitioned: bool = False


def with_additions(module: bytes, additions: Additions) -> Contents:
    """Returns the contents of a StableHLO module that was read before, with attributes added."""
    parsed = parse_stablehlo(module)
    with parsed.context:
        attributes = parsed.operation.attributes
        for name, count in (("num_replicas", additions.num_replicas), ("num_partitions", additions.num_partitions)):
            attributes[f"mhlo.{name}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)
        if additions.is_partitioned:
            _mark_manual(parsed)
        main = next(f.operation for f in parsed.body.operations if _is_main(f.operation))
        donated: list[dict[str, Any]] = [{} for _ in _function_type(main).inputs]
        for number in additions.donors:
            donated[number] = {"jax.buffer_donor": ir.BoolAttr.get(True)}
        _add(main, "arg_attrs", donated)
        _add(main, "arg_attrs", [_texts(each) for each in additions.parameter_attributes])
        _add(main, "res_attrs", [_texts(each) for each in additions.result_attributes])
    return contents(parsed)


def _texts(attributes: Mapping[str, str]) -> dict[str, Any]:
    return {name: ir.StringAttr.get(text) for name, text in attributes.items()}


def _is_main(operation: Any) -> bool:
    return bool(operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main")


def _function_type(function: Any) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _add(function: Any, name: str, additions: Sequence[Mapping[str, Any]]) -> None:
    """Adds attributes to the arguments or results of a function; does not replace existing ones."""
    if not any(additions):
        return
    known = _argument_attributes(function, name) or [{} for _ in additions]
    merged = [{**new, **old} for old, new in zip(known, additions, strict=True)]
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in merged])


def _argument_attributes(function: Any, name: str) -> list[dict[str, Any]]:
    """Returns the attributes of each argument (`arg_attrs`) or result (`res_attrs`); an empty list if there are none at all."""
    if name not in function.attributes:
        return []
    return [{a.name: a.attr for a in _named(ir.DictAttr(each))} for each in ir.ArrayAttr(function.attributes[name])]


_SHARDING = "mhlo.sharding"


def _mark_manual(module: ir.Module) -> None:
    """Marks every value of a module as local to one device, so that the partitioner leaves it unchanged."""
    manual = ir.StringAttr.get("{manual}")
    module_attributes = module.operation.attributes
    if _FRONTEND in module_attributes:
        module_attributes[_FRONTEND] = _without_shardy(module_attributes[_FRONTEND])
    for operation in module.body.operations:
        function = operation.operation
        if function.name != "func.func":
            continue
        if _is_main(function):
            type_ = _function_type(function)
            for name, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
                known = _argument_attributes(function, name) or [{} for _ in types]
                marked = [{**each, _SHARDING: manual} for each in known]
                for each in marked:
                    if _FRONTEND in each:
                        each[_FRONTEND] = _without_shardy(each[_FRONTEND])
                function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in marked])
        for block in function.regions[0]:
            _mark_block(block, manual)


_BRANCHING = frozenset({"stablehlo.while", "stablehlo.if", "stablehlo.case"})


def _mark_block(block: Any, manual: Any) -> None:
    for operation in block:
        attributes = operation.operation.attributes
        if operation.operation.results:
            attributes[_SHARDING] = manual
        if _FRONTEND in attributes:
            attributes[_FRONTEND] = _without_shardy(attributes[_FRONTEND])
        if operation.operation.name in _BRANCHING:
            for region in operation.operation.regions:
                for inner in region:
                    _mark_block(inner, manual)


def _without_shardy(frontend: Any) -> Any:
    kept = {a.name: a.attr for a in _named(ir.DictAttr(frontend)) if not a.name.startswith(_SHARDY)}
    return ir.DictAttr.get(kept)


def carries_shardy(module: ir.Module) -> bool:
    """Reports whether operations or arguments have Shardy shardings as frontend attributes, as in HLO modules."""
    has_shardy = False

    def visit(operation: Any) -> Any:
        nonlocal has_shardy
        attributes = operation.attributes
        has_shardy |= _FRONTEND in attributes and _SHARDY in str(attributes[_FRONTEND])
        has_shardy |= "call_target_name" in attributes and _SHARDY in str(attributes["call_target_name"])
        has_shardy |= "arg_attrs" in attributes and _SHARDY in str(attributes["arg_attrs"])
        return ir.WalkResult.INTERRUPT if has_shardy else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return has_shardy


_SHARDY = "xla.sdy."


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
    """Converts MLIR bytecode to jaxlib's own `XlaComputation`."""
    try:
        return _jax.mlir.mlir_module_to_xla_computation(module, use_tuple_args=tuple_args, return_tuple=return_tuple)
    except Exception as e:
        raise ModuleError(f"XLA cannot convert this StableHLO module to HLO: {e}") from e


def computation_from_proto(proto: bytes) -> Any:
    """Returns jaxlib's `XlaComputation` for a serialized HloModuleProto."""
    return _hlo.XlaComputation(proto)


def hlo_text(proto: bytes) -> str:
    """Returns the text of a serialized HloModuleProto, with metadata."""
    return str(_hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string())


def hlo_dot(proto: bytes) -> str:
    """Returns XLA's own DOT graph of a module."""
    return str(_hlo.hlo_module_to_dot_graph(_hlo.HloModule.from_serialized_hlo_module_proto(proto)))
