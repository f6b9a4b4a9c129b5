"""StableHLO and HLO modules as bytes and text: reading, printing, converting.

Imports jaxlib and not JAX, and of its dialects not the generated classes of operations, because `reader.py` is to
start quickly. A module from outside is read by `reading.py` first.

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
from inspector.support import deferred
from inspector.support.deferred import Deferred

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
      num_replicas, num_partitions: the module's attributes, None where it has none.
      meshes: axis names, axis sizes and device ids (None for 0, 1, 2, ...) of Shardy meshes.
      uses_shardy: it has Shardy meshes or shardings, so only Shardy can partition it.
      scope: the first part of operations' names, of which the module's was made: `jit(<lambda>)` of `jit__lambda`; ""
        where no operation of `main` bears it.
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
class GivenHlo:
    """The HLO module that a StableHLO module was converted from.

    Attributes:
      header: the first line of its text as XLA prints it. The proto does not have the counts and flags in it.
      proto: a serialized HloModuleProto.
    """

    header: str
    proto: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """Everything of a StableHLO module.

    Attributes:
      stablehlo: the module itself as MLIR bytecode, with locations.
      facts: the module's own description of itself.
      forms: the forms that people read.
      given: the HLO module that it was converted from, None where it came as StableHLO.
    """

    stablehlo: bytes
    facts: ModuleFacts
    forms: ModuleForms
    given: GivenHlo | None = None


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


def hlo_to_stablehlo(module: bytes | str) -> tuple[bytes, GivenHlo]:
    """MLIR bytecode of HLO text or a serialized HloModuleProto, and the HLO module itself.

    Only for `reader.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: with XLA's message, or with the operation that has no StableHLO form.
    """
    try:
        hlo = _parse_hlo(module)
        header = hlo.to_string().partition("\n")[0]
        proto = bytes(hlo.as_serialized_hlo_module_proto())
    except Exception as e:
        raise ModuleError(f"Cannot read the HLO module: {e}\n{EXPECTED['HLO']}") from e
    if _CRASHES in hlo.to_string():
        raise ModuleError(
            f"The HLO module has a dot with algorithm={_CRASHES}, which ends the process that converts it to StableHLO."
            " Use another algorithm, or pass the function itself."
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
            f"The HLO module cannot be converted to StableHLO, which inspector compiles: {_reason(e, hlo)}"
        ) from e
    return to_bytecode(parsed), GivenHlo(header, proto)


def _parse_hlo(module: bytes | str) -> Any:
    if isinstance(module, str):
        return _hlo.hlo_module_from_text(module)
    return _hlo.HloModule.from_serialized_hlo_module_proto(module)


_CRASHES = "dot_bf16_bf16_f32_x9"
_UNKNOWN_OPERATION = re.compile(r'error: "([^"]*)": unregistered operation .mhlo\.unknown')


def _reason(error: Exception, hlo: Any) -> str:
    """MLIR's message without the advice for StableHLO files, or the instruction that it has no operation for."""
    text = str(error).removesuffix(f"\n{EXPECTED['StableHLO']}").removeprefix("Cannot read the StableHLO module: ")
    unknown = _UNKNOWN_OPERATION.search(text)
    if unknown is None:
        return text.removeprefix("Unable to parse module assembly:\n")
    name = unknown[1]
    line = re.search(rf"%{re.escape(name)} = .*? ([a-z][a-z0-9-]*)\(", str(hlo.to_string()))
    return f"StableHLO has no operation for the instruction {name}{f' ({line[1]})' if line else ''}."


_ALGORITHM = "algorithm"


def _generalize_dots(module: ir.Module) -> None:
    """Replaces each `stablehlo.dot` that carries an algorithm by a `stablehlo.dot_general`, which can have one.

    XLA's conversion writes the algorithm of a product of matrices on an operation that ignores it.
    """
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.dot" and _ALGORITHM in operation.attributes:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with module.context:
        for dot in found:
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
    """Removes GSPMD's shardings of functions' results from a module that Shardy partitions.

    XLA's conversion copies them from the operations that return the results, without Shardy's own that stand beside
    them there; and XLA partitions a module with GSPMD that has one without the other.
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
    """The attributes of an operation with their names; iterating gives names alone on newer jaxlibs."""
    return [attributes[i] for i in range(len(attributes))]


def hlo_to_proto(text: str) -> bytes:
    """A serialized HloModuleProto of HLO text, optimized or not.

    Only for `reader.py`: malformed HLO can abort the process.

    Raises:
      ModuleError: with XLA's message.
    """
    try:
        return bytes(_parse_hlo(text).as_serialized_hlo_module_proto())
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


def forms(module: bytes, *, tuple_args: bool = False, return_tuple: bool = False) -> ModuleForms:
    """The forms of a module, each made when it is first asked for; that raises ModuleError where XLA makes no HLO of it.

    Args:
      module: StableHLO as MLIR bytecode.
      tuple_args: whether its HLO takes all arguments as one tuple.
      return_tuple: whether it gives a tuple whatever the results are.
    """

    def hlo_proto(_: ModuleForms) -> bytes:
        computation = _to_computation(module, tuple_args=tuple_args, return_tuple=return_tuple)
        return bytes(computation.as_serialized_hlo_module_proto())

    return deferred.defer(ModuleForms, {
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
        if _is_main(op):
            main, body = _function_type(op), op.regions[0]
        elif op.name == "sdy.mesh":
            meshes.append(_mesh(_sdy.MeshAttr(op.attributes["mesh"])))
    if main is None:
        raise ModuleError(
            "The StableHLO module has no function `main`. Expected a module with a public `@main`, as"
            " `jax.jit(f).lower(...)` makes it."
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


def _count(attributes: Any, name: str) -> int | None:
    return int(ir.IntegerAttr(attributes[name]).value) if name in attributes else None


_FRONTEND = "mhlo.frontend_attributes"
_SHARDY_MESHES = "xla.sdy.meshes"


def _round_trip_meshes(attributes: Any) -> list[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None]]:
    """Shardy's meshes as an HLO module carries them: MLIR text in a frontend attribute."""
    if _FRONTEND not in attributes or _SHARDY_MESHES not in ir.DictAttr(attributes[_FRONTEND]):
        return []
    frontend = ir.DictAttr(attributes[_FRONTEND])
    text = ir.StringAttr(frontend[_SHARDY_MESHES]).value
    try:
        meshes = ir.DictAttr(ir.Attribute.parse(text.replace('\\"', '"'), frontend.context))
        return [_mesh(_sdy.MeshAttr(meshes[i].attr)) for i in range(len(meshes))]
    except Exception as e:
        raise ModuleError(f"The module's frontend attribute {_SHARDY_MESHES} has no meshes of Shardy: {text!r}.") from e


@dataclasses.dataclass(frozen=True, slots=True)
class Additions:
    """Attributes that a StableHLO module needs because XLA's conversion from HLO drops them.

    Attributes:
      num_replicas, num_partitions: the counts of the HLO module.
      donors: numbers of the parameters whose buffers may be reused.
      parameter_attributes, result_attributes: texts by name for parameters and results, such as their layouts.
      is_partitioned: the module is the program of one device, so nothing in it may be partitioned.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    donors: tuple[int, ...] = ()
    parameter_attributes: tuple[Mapping[str, str], ...] = ()
    result_attributes: tuple[Mapping[str, str], ...] = ()
    is_partitioned: bool = False


def with_additions(module: bytes, additions: Additions) -> Contents:
    """The contents of a StableHLO module that was read before, with additions."""
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
    """Adds attributes to the arguments or results of a function; those that are there already stay."""
    if not any(additions):
        return
    known = _argument_attributes(function, name) or [{} for _ in additions]
    merged = [{**new, **old} for old, new in zip(known, additions, strict=True)]
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in merged])


def _argument_attributes(function: Any, name: str) -> list[dict[str, Any]]:
    """The attributes of each argument (`arg_attrs`) or result (`res_attrs`); none where nothing has any."""
    if name not in function.attributes:
        return []
    return [{a.name: a.attr for a in _named(ir.DictAttr(each))} for each in ir.ArrayAttr(function.attributes[name])]


_SHARDING = "mhlo.sharding"


def _mark_manual(module: ir.Module) -> None:
    """Marks every value of a module as one device's own, which the partitioner leaves alone."""
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
    """Reports whether operations or arguments have shardings of Shardy as frontend attributes, as in HLO modules."""
    found = False

    def visit(operation: Any) -> Any:
        nonlocal found
        attributes = operation.attributes
        found |= _FRONTEND in attributes and _SHARDY in str(attributes[_FRONTEND])
        found |= "call_target_name" in attributes and _SHARDY in str(attributes["call_target_name"])
        found |= "arg_attrs" in attributes and _SHARDY in str(attributes["arg_attrs"])
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


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
