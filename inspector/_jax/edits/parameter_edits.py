"""Edits of the parameters and results of StableHLO modules: donations, shardings, orders of dimensions.

Each edit changes a parsed module in place and returns how many places it changed.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO and Shardy).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jaxlib.mlir import ir

from inspector._jax.edits.constraints import constraints_between
from inspector._jax.edits.signatures import (
    SHARDY,
    argument_attributes,
    main_of,
    name_of,
    set_attributes,
    sharding_dimensions,
    sharding_text,
    with_axis,
)
from inspector._jax.edits.sliced_parts import sliced_parts
from inspector._jax.modules import stablehlo

_ALIAS, _DONOR = "tf.aliasing_output", "jax.buffer_donor"


def donate(module: ir.Module, pairs: Collection[tuple[int, int]]) -> int:
    """Lets results reuse the buffers of parameters. `pairs` has the number of a parameter and of a result each."""
    main = main_of(module)
    attributes = argument_attributes(main)
    index = ir.IntegerType.get_signless(32)
    for parameter, result in pairs:
        attributes[parameter].pop(_DONOR, None)
        attributes[parameter][_ALIAS] = ir.IntegerAttr.get(index, result)
    set_attributes(main, "arg_attrs", attributes)
    return len(pairs)


def move_axis(module: ir.Module, parameter: int, dimension: int, axis: str) -> int:
    """Splits another dimension of a parameter over an axis of Shardy's mesh; 0 if the axis does not split it."""
    main = main_of(module)
    attributes = argument_attributes(main)
    known = attributes[parameter].get(SHARDY)
    if known is None:
        return 0
    dimensions = [
        [each.strip() for each in axes.split(",") if each.strip()] for axes in sharding_dimensions(str(known))
    ]
    kept = [[each for each in axes if each != f'"{axis}"'] for axes in dimensions]
    if kept == dimensions:
        return 0
    kept[dimension].append(f'"{axis}"')
    mesh = str(known).partition("@")[2].partition(",")[0]
    attributes[parameter][SHARDY] = ir.Attribute.parse(sharding_text(mesh, [", ".join(axes) for axes in kept]))
    set_attributes(main, "arg_attrs", attributes)
    return 1


def split_parameter(module: ir.Module, parameter: int, dimension: int, axis: str) -> int:
    """Splits a dimension of a parameter over one more axis of Shardy's mesh; 0 for a module without Shardy's meshes."""
    main = main_of(module)
    attributes = argument_attributes(main)
    rank = len(ir.RankedTensorType(stablehlo.function_type(main).inputs[parameter]).shape)
    known = attributes[parameter].get(SHARDY)
    mesh = next((name_of(o) for o in module.body.operations if o.operation.name == "sdy.mesh"), None)
    if mesh is None:
        return 0
    dimensions = [""] * rank if known is None else sharding_dimensions(str(known))
    if len(dimensions) != rank:
        return 0
    dimensions[dimension] = ", ".join(filter(None, (dimensions[dimension].removesuffix("?").strip(" ,"), f'"{axis}"')))
    attributes[parameter][SHARDY] = ir.Attribute.parse(sharding_text(mesh, dimensions))
    set_attributes(main, "arg_attrs", attributes)
    return 1


def split_versions(module: ir.Module, parameter: int, results: Sequence[int], dimension: int, axis: str) -> int:
    """Splits the new versions of a parameter over one more axis of Shardy's mesh, where they have a sharding without it.

    A result without a sharding gets that of the parameter. Constraints of values that depend on the parameter, and on which a
    new version depends, are changed too.
    """
    main = main_of(module)
    own = argument_attributes(main)[parameter].get(SHARDY)
    if own is None:
        return 0
    attributes = argument_attributes(main, "res_attrs")
    for number in results:
        known = attributes[number].get(SHARDY)
        attributes[number][SHARDY] = own if known is None else with_axis(known, dimension, axis)
    set_attributes(main, "res_attrs", attributes)
    for operation in constraints_between(module, main, parameter, results):
        operation.attributes["sharding"] = with_axis(operation.attributes["sharding"], dimension, axis)
    return 1


def take_parts(
    module: ir.Module, parameters: Sequence[int], dimensions: Sequence[int], axes: Sequence[Sequence[str]]
) -> int:
    """Splits parameters that bodies of `shard_map` slice by device, and removes the slices; 0 if one has another use."""
    main = main_of(module)
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
            split_parameter(module, parameter, dimension, axis)
    return len(parameters)


def keep_result(module: ir.Module, result: int, axes: Sequence[Sequence[str]]) -> int:
    """Constrains a result to a sharding on Shardy's mesh; 0 for a module without Shardy's meshes."""
    mesh = next((name_of(o) for o in module.body.operations if o.operation.name == "sdy.mesh"), None)
    if mesh is None:
        return 0
    returned = [*main_of(module).regions[0].blocks[0].operations][-1].operation
    value = returned.operands[result]
    dimensions = [", ".join(f'"{axis}"' for axis in each) for each in axes]
    dimensions += [""] * (len(ir.RankedTensorType(value.type).shape) - len(dimensions))
    made = ir.Operation.create(
        "sdy.sharding_constraint", results=[value.type], operands=[value],
        attributes={"sharding": ir.Attribute.parse(sharding_text(mesh, dimensions))}, ip=ir.InsertionPoint(returned),
    )  # fmt: skip
    returned.operands[result] = made.results[0]
    return 1


def gather_first(module: ir.Module, parameter: int, axes: Collection[str]) -> int:
    """Gathers a parameter over axes of Shardy's mesh before its first use; 0 if it is not split over them."""
    main = main_of(module)
    known = argument_attributes(main)[parameter].get(SHARDY)
    if known is None:
        return 0
    mesh = str(known).partition("@")[2].partition(",")[0]
    split = [[axis.strip() for axis in each.split(",")] for each in sharding_dimensions(str(known))]
    kept = [[axis for axis in each if axis.strip('"') not in axes] for each in split]
    if kept == split:
        return 0
    block = main.regions[0].blocks[0]
    value = block.arguments[parameter]
    sharding = ir.Attribute.parse(sharding_text(mesh, [", ".join(each) for each in kept]))
    made = ir.Operation.create(
        "sdy.sharding_constraint", results=[value.type], operands=[value], attributes={"sharding": sharding},
        ip=ir.InsertionPoint.at_block_begin(block),
    )  # fmt: skip
    value.replace_all_uses_except(made.results[0], made)
    return 1


def store_transposed(module: ir.Module, parameter: int, order: Sequence[int]) -> int:
    """Takes a parameter with its dimensions in another order, and restores the present order first."""
    main = main_of(module)
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
    attributes = argument_attributes(main)
    known = attributes[parameter].get(SHARDY)
    if known is not None:  # the present order keeps its sharding
        mesh = str(known).partition("@")[2].partition(",")[0]
        dimensions = sharding_dimensions(str(known))
        sharding = ir.Attribute.parse(sharding_text(mesh, [dimensions[d] for d in order]))
        attributes[parameter][SHARDY] = sharding
        set_attributes(main, "arg_attrs", attributes)
        made.attributes["sdy.sharding"] = ir.Attribute.parse(
            f"#sdy.sharding_per_value<[{str(known).removeprefix('#sdy.sharding')}]>"
        )
    return 1


def drop_parameters(module: ir.Module, parameters: Collection[int]) -> int:
    """Removes parameters on which no result depends: uses that XLA removes get zeros."""
    main = main_of(module)
    block = main.regions[0].blocks[0]
    attributes = argument_attributes(main)
    places = 0
    for number in sorted(parameters, reverse=True):
        argument, element_type = block.arguments[number], ir.RankedTensorType(block.arguments[number].type).element_type
        if any(True for _ in argument.uses):
            if isinstance(element_type, ir.ComplexType):
                return 0
            zeros = ir.DenseElementsAttr.get_splat(argument.type, stablehlo.zero_of(element_type))
            begin = ir.InsertionPoint.at_block_begin(block)
            made = ir.Operation.create(
                "stablehlo.constant", results=[argument.type], attributes={"value": zeros}, ip=begin, loc=main.location
            )
            argument.replace_all_uses_with(made.results[0])
        block.erase_argument(number)
        del attributes[number]
        places += 1
    types = stablehlo.function_type(main)
    inputs = [argument.type for argument in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [*types.results]))
    set_attributes(main, "arg_attrs", attributes)
    return places if places == len(parameters) else 0


def drop_results(module: ir.Module, results: Collection[int]) -> int:
    """Removes results. Donated buffers that they reused become available to the others."""
    main = main_of(module)
    returned = [*main.regions[0].blocks[0].operations][-1].operation
    kept = [number for number in range(len(returned.operands)) if number not in results]
    of_results = argument_attributes(main, "res_attrs")
    types = stablehlo.function_type(main)
    ir.Operation.create(
        returned.name,
        operands=[returned.operands[number] for number in kept],
        ip=ir.InsertionPoint(returned),
        loc=returned.location,
    )
    returned.erase()
    attributes = argument_attributes(main)
    places = {number: place for place, number in enumerate(kept)}
    for each in attributes:
        if _ALIAS in each:
            reused = places.get(ir.IntegerAttr(each.pop(_ALIAS)).value)
            if reused is None:
                each[_DONOR] = ir.BoolAttr.get(True)
            else:
                each[_ALIAS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), reused)
    inputs = [*types.inputs]
    main.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(inputs, [types.results[number] for number in kept])
    )
    set_attributes(main, "arg_attrs", attributes)
    set_attributes(main, "res_attrs", [of_results[number] for number in kept])
    return len(of_results) - len(kept)
