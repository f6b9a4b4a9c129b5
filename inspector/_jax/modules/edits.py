"""Edits StableHLO modules for proofs: donations, shardings, narrower products, hoisted collectives, lifted constants.

Each edit changes a parsed module in place and returns how many places it changed. Operations are named by JAX's names, which
HLO has as `op_name`. `analysis/findings/edits.py` describes the edits and their arguments.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO and Shardy).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector._jax.modules.hoisting import hoist_collectives

_ALIAS, _DONOR, _SHARDY = "tf.aliasing_output", "jax.buffer_donor", "sdy.sharding"
_PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"})


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Edited:
    """A changed module.

    Attributes:
      module: MLIR bytecode.
      places: number of places that were changed.
      lifted: values of the constants that became further parameters, in order.
    """

    module: bytes
    places: int
    lifted: tuple[np.ndarray, ...] = ()


EditValue = int | str | tuple[str, ...] | tuple[tuple[int, int], ...]
"""The value of an argument of an edit."""


def edited(module: bytes, edits: Sequence[tuple[str, Mapping[str, EditValue]]], least_lifted_bytes: int = 0) -> Edited:
    """Applies edits to a module.

    Args:
      module: StableHLO as MLIR bytecode.
      edits: pairs of a name in `_EDITS` and its arguments.
      least_lifted_bytes: constants of `main` with at least this size become parameters; 0 for none.

    Raises:
      ModuleError: the module cannot be read.
    """
    parsed = stablehlo.parse_stablehlo(module)
    with parsed.context, ir.Location.unknown(parsed.context):
        places = sum(_EDITS[name](parsed, **arguments) for name, arguments in edits)
        lifted = _lift_constants(parsed, least_lifted_bytes) if least_lifted_bytes else []
        parsed.operation.verify()
    return Edited(stablehlo.to_bytecode(parsed), places + len(lifted), tuple(lifted))


def _donate(module: ir.Module, pairs: Collection[tuple[int, int]]) -> int:
    """Lets results reuse the buffers of parameters. `pairs` has the number of a parameter and of a result each."""
    main = _main(module)
    attributes = _argument_attributes(main)
    index = ir.IntegerType.get_signless(32)
    for parameter, result in pairs:
        attributes[parameter].pop(_DONOR, None)
        attributes[parameter][_ALIAS] = ir.IntegerAttr.get(index, result)
    _set(main, "arg_attrs", attributes)
    return len(pairs)


def _split_parameter(module: ir.Module, parameter: int, dimension: int, axis: str) -> int:
    """Splits a dimension of a parameter over one more axis of Shardy's mesh; 0 for a module without Shardy's meshes."""
    main = _main(module)
    attributes = _argument_attributes(main)
    rank = len(ir.RankedTensorType(stablehlo.function_type(main).inputs[parameter]).shape)
    known = attributes[parameter].get(_SHARDY)
    mesh = next((_name(o) for o in module.body.operations if o.operation.name == "sdy.mesh"), None)
    if mesh is None:
        return 0
    dimensions = [""] * rank if known is None else _dimensions(str(known))
    if len(dimensions) != rank:
        return 0
    dimensions[dimension] = ", ".join(filter(None, (dimensions[dimension].removesuffix("?").strip(" ,"), f'"{axis}"')))
    attributes[parameter][_SHARDY] = ir.Attribute.parse(_sharding_text(mesh, dimensions))
    _set(main, "arg_attrs", attributes)
    return 1


def _gather_first(module: ir.Module, parameter: int, axes: Collection[str]) -> int:
    """Gathers a parameter over axes of Shardy's mesh before its first use; 0 if it is not split over them."""
    main = _main(module)
    known = _argument_attributes(main)[parameter].get(_SHARDY)
    if known is None:
        return 0
    mesh = str(known).partition("@")[2].partition(",")[0]
    split = [[axis.strip() for axis in each.split(",")] for each in _dimensions(str(known))]
    kept = [[axis for axis in each if axis.strip('"') not in axes] for each in split]
    if kept == split:
        return 0
    block = main.regions[0].blocks[0]
    value = block.arguments[parameter]
    sharding = ir.Attribute.parse(_sharding_text(mesh, [", ".join(each) for each in kept]))
    made = ir.Operation.create(
        "sdy.sharding_constraint", results=[value.type], operands=[value], attributes={"sharding": sharding},
        ip=ir.InsertionPoint.at_block_begin(block),
    )  # fmt: skip
    value.replace_all_uses_except(made.results[0], made)
    return 1


def _hoist_collectives(module: ir.Module, op_names: Collection[str]) -> int:
    """Moves collectives of values that a loop does not change in front of the loop, as far out as possible."""
    return hoist_collectives(module, _main(module), op_names)


def _narrow_products(module: ir.Module, op_names: Collection[str], element_type: str) -> int:
    """Removes conversions to wider types from the operands of products, and rounds their other operands."""
    narrow = _element_type(element_type)
    places = 0
    for operation in _named(module, _PRODUCTS, op_names):
        for number, operand in enumerate(operation.operands):
            type_ = ir.RankedTensorType(operand.type)
            if type_.element_type == narrow:
                continue
            maker = (
                operand.owner if isinstance(operand.owner, ir.Operation) else getattr(operand.owner, "operation", None)
            )
            if (
                maker is not None
                and maker.name == "stablehlo.convert"
                and ir.RankedTensorType(maker.operands[0].type).element_type == narrow
            ):
                operation.operands[number] = maker.operands[0]
                continue
            made = ir.Operation.create(
                "stablehlo.convert", results=[ir.RankedTensorType.get(type_.shape, narrow)], operands=[operand],
                ip=ir.InsertionPoint(operation),
            )  # fmt: skip
            operation.operands[number] = made.results[0]
        _forget_algorithm(operation)
        places += 1
    return places


def _use_default_precision(module: ir.Module, op_names: Collection[str]) -> int:
    """Sets the precision of products to the default."""
    default = ir.Attribute.parse("[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]")
    places = 0
    for operation in _named(module, _PRODUCTS, op_names):
        _forget_algorithm(operation)
        operation.attributes["precision_config"] = default
        places += 1
    return places


def _drop_callbacks(module: ir.Module, op_names: Collection[str]) -> int:
    """Removes custom calls whose results are not used, apart from tokens, which pass through."""
    places = 0
    for operation in _named(module, frozenset({"stablehlo.custom_call"}), op_names):
        tokens = [each for each in operation.operands if "token" in str(each.type)]
        results = [each for each in operation.results if any(True for _ in each.uses)]
        if any("token" not in str(each.type) for each in results) or (results and not tokens):
            continue
        for each in results:
            each.replace_all_uses_with(tokens[0])
        operation.erase()
        places += 1
    return places


_EDITS: Mapping[str, Callable[..., int]] = {
    "Donate": _donate,
    "SplitParameter": _split_parameter,
    "GatherFirst": _gather_first,
    "HoistCollectives": _hoist_collectives,
    "NarrowProducts": _narrow_products,
    "DefaultPrecision": _use_default_precision,
    "DropCallbacks": _drop_callbacks,
}


def _lift_constants(module: ir.Module, least_bytes: int) -> list[np.ndarray]:
    main = _main(module)
    block = main.regions[0].blocks[0]
    attributes, found = _argument_attributes(main), list[np.ndarray]()
    for each in list(block.operations):
        operation = each.operation
        if operation.name != "stablehlo.constant":
            continue
        value = np.array(ir.DenseElementsAttr(operation.attributes["value"]))
        if value.nbytes < least_bytes:
            continue
        parameter = block.add_argument(operation.results[0].type, operation.location)
        operation.results[0].replace_all_uses_with(parameter)
        operation.erase()
        attributes.append({})
        found.append(value)
    if found:
        types = stablehlo.function_type(main)
        inputs = [argument.type for argument in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [*types.results]))
        _set(main, "arg_attrs", attributes)
    return found


def _main(module: ir.Module) -> Any:
    return next(each.operation for each in module.body.operations if stablehlo.is_main(each.operation))


def _argument_attributes(function: Any) -> list[dict[str, Any]]:
    known = stablehlo.argument_attributes(function, "arg_attrs")
    return known or [{} for _ in stablehlo.function_type(function).inputs]


def _set(function: Any, name: str, attributes: Sequence[Mapping[str, Any]]) -> None:
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(dict(each)) for each in attributes])


def _named(module: ir.Module, operations: Collection[str], op_names: Collection[str]) -> Iterator[Any]:
    """Returns the operations of certain kinds that have one of JAX's names."""
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name in operations and _op_name(operation) in op_names:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return iter(found)


def _op_name(operation: Any) -> str:
    """Returns JAX's name of an operation; "" if its location has none."""
    _, quote, rest = str(operation.location).partition('loc("')
    return rest.partition('"')[0].replace("\\'", "'") if quote else ""


def _name(operation: Any) -> str:
    return str(ir.StringAttr(operation.operation.attributes["sym_name"]).value)


def _dimensions(sharding: str) -> list[str]:
    """Returns the axes of each dimension in Shardy's text of a sharding: `<@mesh, [{"x"}, {}]>`."""
    inner = sharding.partition("[")[2].rpartition("]")[0]
    return [each.partition("}")[0] for each in inner.split("{")[1:]]


def _sharding_text(mesh: str, dimensions: Sequence[str]) -> str:
    return f"#sdy.sharding<@{mesh}, [{', '.join(f'{{{axes}}}' for axes in dimensions)}]>"


def _element_type(name: str) -> Any:
    return ir.Type.parse(name)


def _forget_algorithm(operation: Any) -> None:
    if "algorithm" in operation.attributes:
        del operation.attributes["algorithm"]
