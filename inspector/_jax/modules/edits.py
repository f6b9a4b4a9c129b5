"""Edits StableHLO modules for proofs: donations, shardings, narrower products and arrays, hoisted collectives, lifted constants.

Each edit changes a parsed module in place and returns how many places it changed. Operations are named by JAX's names, which
HLO has as `op_name`. `analysis/findings/edits.py` describes the edits and their arguments.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO and Shardy).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector._jax.modules.constraints import constraints_between
from inspector._jax.modules.contracting import contract_sums
from inspector._jax.modules.hoisting import callee_of, functions_of, hoist_collectives
from inspector._jax.modules.narrowing import MOVING, narrow_elements, narrow_parameters
from inspector._jax.modules.single_floats import narrow_floats
from inspector._jax.modules.slice_updates import update_slices
from inspector._jax.modules.sliced_parts import sliced_parts
from inspector._jax.modules.top_k import sorts_to_top_k

_ALIAS, _DONOR, _SHARDY = "tf.aliasing_output", "jax.buffer_donor", "sdy.sharding"
_PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"})
_CONSTRAINTS = frozenset({"sdy.sharding_constraint"})
_PERMUTES = frozenset({"stablehlo.collective_permute"})
_CALL_ATTRIBUTES = frozenset({"arg_attrs"})  # have one entry for each argument
_CALLS = frozenset({"func.call", "call"})


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


Stacks = tuple[tuple[tuple[str, int], ...], ...]
"""Call stacks: for each frame its file and line, innermost first."""
EditValue = (
    int
    | str
    | tuple[int, ...]
    | tuple[str, ...]
    | tuple[tuple[int, int], ...]
    | tuple[tuple[str, ...], ...]
    | Stacks
    | tuple[tuple[tuple[str, ...], ...], ...]
)
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


def _move_axis(module: ir.Module, parameter: int, dimension: int, axis: str) -> int:
    """Splits another dimension of a parameter over an axis of Shardy's mesh; 0 if the axis does not split it."""
    main = _main(module)
    attributes = _argument_attributes(main)
    known = attributes[parameter].get(_SHARDY)
    if known is None:
        return 0
    dimensions = [[each.strip() for each in axes.split(",") if each.strip()] for axes in _dimensions(str(known))]
    kept = [[each for each in axes if each != f'"{axis}"'] for axes in dimensions]
    if kept == dimensions:
        return 0
    kept[dimension].append(f'"{axis}"')
    mesh = str(known).partition("@")[2].partition(",")[0]
    attributes[parameter][_SHARDY] = ir.Attribute.parse(_sharding_text(mesh, [", ".join(axes) for axes in kept]))
    _set(main, "arg_attrs", attributes)
    return 1


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


def _split_versions(module: ir.Module, parameter: int, results: Sequence[int], dimension: int, axis: str) -> int:
    """Splits the new versions of a parameter over one more axis of Shardy's mesh, where they have a sharding without it.

    A result without a sharding gets that of the parameter. Constraints of values that depend on the parameter, and on which a
    new version depends, are changed too.
    """
    main = _main(module)
    own = _argument_attributes(main)[parameter].get(_SHARDY)
    if own is None:
        return 0
    attributes = _argument_attributes(main, "res_attrs")
    for number in results:
        known = attributes[number].get(_SHARDY)
        attributes[number][_SHARDY] = own if known is None else _with_axis(known, dimension, axis)
    _set(main, "res_attrs", attributes)
    for operation in constraints_between(module, main, parameter, results):
        operation.attributes["sharding"] = _with_axis(operation.attributes["sharding"], dimension, axis)
    return 1


def _take_parts(
    module: ir.Module, parameters: Sequence[int], dimensions: Sequence[int], axes: Sequence[Sequence[str]]
) -> int:
    """Splits parameters that bodies of `shard_map` slice by device, and removes the slices; 0 if one has another use."""
    main = _main(module)
    taken = [
        sliced_parts(module, main, parameter, dimension, over)
        for parameter, dimension, over in zip(parameters, dimensions, axes, strict=True)
    ]
    if not all(taken):
        return 0
    for parts, parameter, dimension, over in zip(taken, parameters, dimensions, axes, strict=True):
        for each in parts:
            each.take()
        for axis in over:
            _split_parameter(module, parameter, dimension, axis)
    return len(parameters)


def _with_axis(sharding: Any, dimension: int, axis: str) -> Any:
    """Returns a sharding with one more axis in a dimension; the same if it has the axis, or as many dimensions."""
    text = str(sharding)
    dimensions = _dimensions(text)
    if f'"{axis}"' in text or dimension >= len(dimensions):
        return sharding
    dimensions[dimension] = ", ".join(filter(None, (dimensions[dimension].removesuffix("?").strip(" ,"), f'"{axis}"')))
    return ir.Attribute.parse(_sharding_text(text.partition("@")[2].partition(",")[0], dimensions))


def _keep_result(module: ir.Module, result: int, axes: Sequence[Sequence[str]]) -> int:
    """Constrains a result to a sharding on Shardy's mesh; 0 for a module without Shardy's meshes."""
    mesh = next((_name(o) for o in module.body.operations if o.operation.name == "sdy.mesh"), None)
    if mesh is None:
        return 0
    returned = [*_main(module).regions[0].blocks[0].operations][-1].operation
    value = returned.operands[result]
    dimensions = [", ".join(f'"{axis}"' for axis in each) for each in axes]
    dimensions += [""] * (len(ir.RankedTensorType(value.type).shape) - len(dimensions))
    made = ir.Operation.create(
        "sdy.sharding_constraint", results=[value.type], operands=[value],
        attributes={"sharding": ir.Attribute.parse(_sharding_text(mesh, dimensions))}, ip=ir.InsertionPoint(returned),
    )  # fmt: skip
    returned.operands[result] = made.results[0]
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


def _drop_constraints(module: ir.Module, stacks: Stacks, shapes: Sequence[Sequence[str]]) -> int:
    """Removes sharding constraints of values of certain types."""
    types = [ir.RankedTensorType.get(list(map(int, each[1:])), _element_type(each[0])) for each in shapes]
    places = 0
    for operation in _named(module, _CONSTRAINTS, None, stacks):
        if operation.results[0].type in types:
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
            places += 1
    return places


def _step_constraints(
    module: ir.Module, stacks: Stacks, axes: Sequence[Sequence[str]], steps: Sequence[Sequence[Sequence[str]]]
) -> int:
    """Inserts sharding constraints in front of those to certain axes."""
    places = 0
    for operation in _named(module, _CONSTRAINTS, None, stacks):
        present = str(operation.attributes["sharding"])
        split = [[each.strip(' "') for each in one.split(",") if each.strip(" ?")] for one in _dimensions(present)]
        if split != [list(each) for each in axes]:
            continue
        mesh = present.partition("@")[2].partition(",")[0]
        for step in steps:
            sharding = _sharding_text(mesh, [", ".join(f'"{axis}"' for axis in each) for each in step])
            made = ir.Operation.create(
                "sdy.sharding_constraint", results=[operation.operands[0].type], operands=[operation.operands[0]],
                attributes={"sharding": ir.Attribute.parse(sharding)}, ip=ir.InsertionPoint(operation), loc=operation.location,
            )  # fmt: skip
            operation.operands[0] = made.results[0]
        places += 1
    return places


def _drop_permutes(module: ir.Module, stacks: Stacks) -> int:
    """Removes `ppermute`s."""
    places = 0
    for operation in _named(module, _PERMUTES, None, stacks):
        pairs = list(zip(operation.operands, operation.results, strict=True))
        if all(operand.type == result.type for operand, result in pairs):
            for operand, result in pairs:
                result.replace_all_uses_with(operand)
            operation.erase()
            places += 1
    return places


def _hoist_collectives(module: ir.Module, op_names: Collection[str]) -> int:
    """Moves collectives of values that a loop does not change in front of the loop, as far out as possible."""
    return hoist_collectives(module, _main(module), op_names)


def _narrow_products(module: ir.Module, op_names: Collection[str], element_type: str, stacks: Stacks = ()) -> int:
    """Removes conversions to wider types from the operands of products, and rounds their other operands."""
    narrow = _element_type(element_type)
    places = 0
    for operation in _named(module, _PRODUCTS, op_names, stacks):
        if not any(_was_narrow(operand, narrow) for operand in operation.operands):
            continue
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


def _was_narrow(value: Any, narrow: Any) -> bool:
    """Reports whether a wider value was converted from a type, or may have been in front of a loop or a call."""
    if ir.RankedTensorType(value.type).element_type == narrow:
        return False
    while isinstance(value.owner, (ir.Operation, ir.OpView)):
        made = value.owner.operation
        if made.name == "stablehlo.convert":
            return bool(ir.RankedTensorType(made.operands[0].type).element_type == narrow)
        if made.name not in MOVING:
            return False
        value = made.operands[0]
    inside = value.owner.owner.operation
    return not stablehlo.is_main(inside)


def _use_default_precision(module: ir.Module, op_names: Collection[str], stacks: Stacks = ()) -> int:
    """Sets the precision of products to the default."""
    default = ir.Attribute.parse("[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]")
    places = 0
    for operation in _named(module, _PRODUCTS, op_names, stacks):
        _forget_algorithm(operation)
        operation.attributes["precision_config"] = default
        places += 1
    return places


def _contract_sums(module: ir.Module, op_names: Collection[str], stacks: Stacks = ()) -> int:
    """Replaces sums of elementwise products by matrix products."""
    return contract_sums(_named(module, frozenset({"stablehlo.reduce"}), op_names, stacks))


def _sort_to_top_k(module: ir.Module, op_name: str, k: int, is_last: bool) -> int:
    """Replaces a sort by `top_k`."""
    return sorts_to_top_k(_named(module, frozenset({"stablehlo.sort"}), [op_name]), k, is_last=is_last)


def _update_slices(module: ir.Module, op_names: Collection[str], pairs: Collection[tuple[int, int]] = ()) -> int:
    """Updates slices of arrays instead of writing them as a whole, and then donates the arrays."""
    places = update_slices(module, _main(module), op_names)
    if places and pairs:
        _donate(module, pairs)
    return places


def _drop_callbacks(module: ir.Module, op_names: Collection[str], stacks: Stacks = ()) -> int:
    """Removes custom calls whose results are not used, apart from tokens, which pass through."""
    places = 0
    for operation in _named(module, frozenset({"stablehlo.custom_call"}), op_names, stacks):
        tokens = [each for each in operation.operands if "token" in str(each.type)]
        results = [each for each in operation.results if any(True for _ in each.uses)]
        if any("token" not in str(each.type) for each in results) or (results and not tokens):
            continue
        for each in results:
            each.replace_all_uses_with(tokens[0])
        operation.erase()
        places += 1
    return places


def _store_transposed(module: ir.Module, parameter: int, order: Sequence[int]) -> int:
    """Takes a parameter with its dimensions in another order, and restores the present order first."""
    main = _main(module)
    block = main.regions[0].blocks[0]
    value = block.arguments[parameter]
    present = ir.RankedTensorType(value.type)
    value.set_type(ir.RankedTensorType.get([present.shape[d] for d in order], present.element_type))
    back = [list(order).index(d) for d in range(len(order))]
    made = ir.Operation.create(
        "stablehlo.transpose", results=[present], operands=[value], attributes={"permutation": ir.DenseI64ArrayAttr.get(back)},
        ip=ir.InsertionPoint.at_block_begin(block),
    )  # fmt: skip
    value.replace_all_uses_except(made.results[0], made)
    types = stablehlo.function_type(main)
    inputs = [argument.type for argument in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [*types.results]))
    attributes = _argument_attributes(main)
    known = attributes[parameter].get(_SHARDY)
    if known is not None:  # the present order keeps its sharding
        mesh = str(known).partition("@")[2].partition(",")[0]
        dimensions = _dimensions(str(known))
        sharding = ir.Attribute.parse(_sharding_text(mesh, [dimensions[d] for d in order]))
        attributes[parameter][_SHARDY] = sharding
        _set(main, "arg_attrs", attributes)
        made.attributes["sdy.sharding"] = ir.Attribute.parse(
            f"#sdy.sharding_per_value<[{str(known).removeprefix('#sdy.sharding')}]>"
        )
    return 1


def _store_narrow(
    module: ir.Module, parameters: Sequence[int], element_type: str, loop: str, shape: Sequence[str]
) -> int:
    """Stores parameters, or elements that loops carry, in a narrower type."""
    narrow = _element_type(element_type)
    if loop:
        loops = list(_named(module, frozenset({"stablehlo.while"}), (loop,)))
        wide = ir.RankedTensorType.get(list(map(int, shape[1:])), _element_type(shape[0]))
        return sum(narrow_elements(module, each, wide, narrow) for each in loops)
    return narrow_parameters(module, _main(module), parameters, narrow)


def _drop_parameters(module: ir.Module, parameters: Collection[int]) -> int:
    """Removes parameters that have no use."""
    main = _main(module)
    block = main.regions[0].blocks[0]
    attributes = _argument_attributes(main)
    places = 0
    for number in sorted(parameters, reverse=True):
        if not any(True for _ in block.arguments[number].uses):
            block.erase_argument(number)
            del attributes[number]
            places += 1
    types = stablehlo.function_type(main)
    inputs = [argument.type for argument in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [*types.results]))
    _set(main, "arg_attrs", attributes)
    return places if places == len(parameters) else 0


_EDITS: Mapping[str, Callable[..., int]] = {
    "Donate": _donate,
    "SplitParameter": _split_parameter,
    "SplitVersions": _split_versions,
    "TakeParts": _take_parts,
    "KeepResult": _keep_result,
    "MoveAxis": _move_axis,
    "GatherFirst": _gather_first,
    "DropConstraints": _drop_constraints,
    "StepConstraints": _step_constraints,
    "DropPermutes": _drop_permutes,
    "HoistCollectives": _hoist_collectives,
    "NarrowProducts": _narrow_products,
    "DefaultPrecision": _use_default_precision,
    "ContractSums": _contract_sums,
    "SortToTopK": _sort_to_top_k,
    "UpdateSlices": _update_slices,
    "DropCallbacks": _drop_callbacks,
    "StoreTransposed": _store_transposed,
    "StoreNarrow": _store_narrow,
    "DropParameters": _drop_parameters,
    "SingleFloats": narrow_floats,
}


def _lift_constants(module: ir.Module, least_bytes: int) -> list[np.ndarray]:
    """Makes constants parameters of `main`, and of the functions that contain them."""
    functions = functions_of(module)
    values = list[np.ndarray]()
    main = _name(_main(module))
    for function in list(functions):
        for constant in _large_constants(functions[function], least_bytes):
            value = np.array(ir.DenseElementsAttr(constant.attributes["value"]))
            parameters = _added_parameters(functions, function, main, constant.results[0].type, constant.location)
            constant.results[0].replace_all_uses_with(parameters.pop(function))
            constant.erase()
            values.append(value)
    return values


def _large_constants(function: Any, least_bytes: int) -> list[Any]:
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.constant":
            value = ir.DenseElementsAttr(operation.attributes["value"])
            if not value.is_splat and np.array(value).nbytes >= least_bytes:
                found.append(operation)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _added_parameters(
    functions: Mapping[str, Any], function: str, main: str, type_: Any, location: Any
) -> dict[str, Any]:
    """Adds a parameter to a function and to all functions that call it, up to `main`. Returns it by function."""
    added: dict[str, Any] = {}
    waiting = [function]
    while waiting:
        name = waiting.pop()
        if name in added:
            continue
        added[name] = _with_parameter(functions[name], type_, location)
        if name != main:
            waiting.extend(caller for caller in functions if any(True for _ in _calls_of(functions[caller], name)))
    for name in added:
        for caller in added:
            for call in _calls_of(functions[caller], name):
                made = ir.Operation.create(
                    call.name, results=[result.type for result in call.results],
                    operands=[*call.operands, added[caller]], loc=call.location, ip=ir.InsertionPoint(call),
                    attributes={
                        each: call.attributes[each] for each in call.attributes if each not in _CALL_ATTRIBUTES
                    },
                )  # fmt: skip
                for old, new in zip(call.results, made.results, strict=True):
                    old.replace_all_uses_with(new)
                call.erase()
    return added


def _with_parameter(function: Any, type_: Any, location: Any) -> Any:
    block = function.regions[0].blocks[0]
    attributes = _argument_attributes(function)
    parameter = block.add_argument(type_, location)
    results = [*stablehlo.function_type(function).results]
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    _set(function, "arg_attrs", [*attributes, {}])
    return parameter


def _calls_of(function: Any, callee: str) -> list[Any]:
    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name in _CALLS and callee_of(operation) == callee:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _main(module: ir.Module) -> Any:
    return next(each.operation for each in module.body.operations if stablehlo.is_main(each.operation))


def _argument_attributes(function: Any, name: str = "arg_attrs") -> list[dict[str, Any]]:
    known, types = stablehlo.argument_attributes(function, name), stablehlo.function_type(function)
    return known or [{} for _ in (types.inputs if name == "arg_attrs" else types.results)]


def _set(function: Any, name: str, attributes: Sequence[Mapping[str, Any]]) -> None:
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(dict(each)) for each in attributes])


def _named(
    module: ir.Module, operations: Collection[str], op_names: Collection[str] | None, stacks: Stacks = ()
) -> Iterator[Any]:
    """Returns the operations of certain kinds that have one of JAX's full names, if given: those of the calls, and their own.

    An operation of a function that is called several times is returned if one of its full names is given. Many operations of a
    function have the same name: with call stacks, only those with one of them are returned.
    """
    calls: dict[
        str, list[tuple[str, str]]
    ] = {}  # by the called function: the calling function and the name of the call
    found: list[tuple[str, Any]] = []
    wanted = frozenset(op_names or ())
    for each in module.body.operations:
        if each.operation.name != "func.func":
            continue
        function = _name(each)

        def visit(operation: Any, function: str = function) -> Any:
            if operation.name in operations:
                found.append((function, operation))
            elif operation.name in _CALLS:
                calls.setdefault(callee_of(operation), []).append((function, stablehlo.op_name(operation)))
            return ir.WalkResult.ADVANCE

        each.operation.walk(visit)

    @functools.cache
    def is_called(function: str, name: str) -> bool:
        """Reports whether a name in a function belongs to a wanted full name."""
        return name in wanted or any(
            is_called(caller, f"{outer}/{name}" if outer and name else outer or name)
            for caller, outer in calls.get(function, ())
        )

    named = (
        operation
        for function, operation in found
        if op_names is None or is_called(function, stablehlo.op_name(operation))
    )
    return iter([operation for operation in named if not stacks or _is_at(stablehlo.places(operation), stacks)])


def _is_at(places: Sequence[tuple[str, int]], stacks: Stacks) -> bool:
    """Reports whether the frames of an operation are those of a call stack, as far as both are recorded."""
    return not places or any(all(a == b for a, b in zip(places, each, strict=False)) for each in stacks)


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
