"""Edits StableHLO modules for proofs: donations, shardings, narrower products and arrays, hoisted collectives, lifted constants.

Each edit changes a parsed module in place and returns how many places it changed. Operations are named by JAX's names, which
HLO has as `op_name`. `analysis/findings/edits.py` describes the edits and their arguments.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO and Shardy).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from inspector._jax.edits.combining import COMBINED, combine_collectives
from inspector._jax.edits.contracting import contract_sums
from inspector._jax.edits.deferring import defer_collectives
from inspector._jax.edits.device_groups import device_groups
from inspector._jax.edits.hoisting import COLLECTIVES, callee_of, hoist_collectives, inline_calls
from inspector._jax.edits.interleaving import CUTS, interleave_columns
from inspector._jax.edits.lifting import lift_constants
from inspector._jax.edits.narrowing import (
    MOVING,
    narrow_collectives,
    narrow_elements,
    narrow_parameters,
)
from inspector._jax.edits.own_parts import keep_own_part, reduce_parts
from inspector._jax.edits.parameter_edits import (
    donate,
    drop_parameters,
    drop_results,
    gather_first,
    keep_result,
    move_axis,
    split_parameter,
    split_versions,
    store_transposed,
    take_parts,
)
from inspector._jax.edits.rings import replace_ring
from inspector._jax.edits.signatures import (
    CALLS,
    main_of,
    name_of,
    sharding_dimensions,
    sharding_text,
)
from inspector._jax.edits.single_floats import narrow_floats
from inspector._jax.edits.slice_updates import update_slices
from inspector._jax.edits.top_k import sorts_to_top_k
from inspector._jax.edits.variances import sum_squares
from inspector._jax.modules import stablehlo
from inspector.errors import ModuleError
from inspector.support.name_stacks import inlined_name

_PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"})
_CONSTRAINTS = frozenset({"sdy.sharding_constraint"})
_GATHERED = frozenset({"stablehlo.all_reduce", "stablehlo.all_gather"})
_SUMS = frozenset({"stablehlo.all_reduce"})
_REDUCTIONS = frozenset({"stablehlo.reduce"})
_PERMUTES = frozenset({"stablehlo.collective_permute"})


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
    | tuple[tuple[int, ...], ...]
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
      ModuleError: the module cannot be read, or is not valid after the edits.
    """
    parsed = stablehlo.parse_stablehlo(module)
    with parsed.context, ir.Location.unknown(parsed.context):
        try:
            places = sum(_EDITS[name](parsed, **arguments) for name, arguments in edits)
        except Exception as error:  # a program that an edit does not know
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise ModuleError(f"The StableHLO could not be changed: {reason}") from error
        lifted = lift_constants(parsed, least_lifted_bytes) if least_lifted_bytes else []
        try:
            parsed.operation.verify()
        except ir.MLIRError as error:
            reason = str(error).partition("\n")[0]
            raise ModuleError(f"The changed StableHLO is not valid: {reason}") from error
    return Edited(stablehlo.to_bytecode(parsed), places + len(lifted), tuple(lifted))


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
        split = [
            [each.strip(' "') for each in one.split(",") if each.strip(" ?")] for one in sharding_dimensions(present)
        ]
        if split != [list(each) for each in axes]:
            continue
        mesh = present.partition("@")[2].partition(",")[0]
        for step in steps:
            sharding = sharding_text(mesh, [", ".join(f'"{axis}"' for axis in each) for each in step])
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
    return hoist_collectives(module, main_of(module), op_names)


def _narrow_collectives(module: ir.Module, op_names: Collection[str], element_type: str, stacks: Stacks = ()) -> int:
    """Sends collectives in a narrower type, and returns it from products."""
    operations = _named(module, COLLECTIVES | _PRODUCTS, op_names, stacks)
    return narrow_collectives(operations, _element_type(element_type))


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
    """Replaces sums of elementwise products, or of squared differences, by matrix products."""
    inline_calls(
        module, main_of(module), _REDUCTIONS, op_names, in_loops=False
    )  # the terms may be arguments of a function
    return contract_sums(module, _named(module, _REDUCTIONS, op_names, stacks))


def _defer_collectives(module: ir.Module, op_names: Collection[str]) -> int:
    """Moves all-reduces out of loops that only accumulate or stack their results."""
    return defer_collectives(module, main_of(module), op_names)


def _combine_collectives(
    module: ir.Module, op_names: Collection[str], groups: Sequence[Sequence[int]] = (), stacks: Stacks = ()
) -> int:
    """Combines collectives that do not depend on each other."""
    inline_calls(module, main_of(module), COMBINED, op_names, in_loops=False)
    named = _named(module, COMBINED, op_names, stacks)
    wanted = [[*each] for each in groups]
    return combine_collectives(each for each in named if not groups or device_groups(module, each) in (wanted, None))


def _sum_squares(module: ir.Module, op_names: Collection[str], stacks: Stacks = ()) -> int:
    """Computes variances over devices from sums of squares."""
    inline_calls(module, main_of(module), _SUMS, op_names, in_loops=False)
    return sum_squares(module, _named(module, _SUMS, op_names, stacks))


def _replace_rings(
    module: ir.Module, op_names: Collection[str], call: str, is_chunked: bool, stacks: Stacks = ()
) -> int:
    """Replaces rings of permutes by one collective each."""
    inline_calls(module, main_of(module), _PERMUTES, op_names)
    places = 0
    most = len(list(_named(module, _PERMUTES, op_names, stacks)))
    while places < most and replace_ring(module, list(_named(module, _PERMUTES, op_names, stacks)), call, is_chunked):
        places += 1  # and their permutes are erased
    return places


def _keep_own_parts(
    module: ir.Module,
    op_names: Collection[str],
    shapes: Sequence[Sequence[int]],
    stacks: Stacks = (),
    scattered: Sequence[int] = (),
) -> int:
    """Removes gathers and sums after which each device keeps only its own part. The operations in between run on that part."""
    return _one_by_one(
        lambda: _of_shapes(_named(module, _GATHERED, op_names, stacks), shapes),
        lambda each: keep_own_part(module, each, scattered),
    )


def _reduce_parts(
    module: ir.Module, op_names: Collection[str], shapes: Sequence[Sequence[int]], stacks: Stacks = ()
) -> int:
    """Removes gathers whose results are only reduced along the gathered dimension."""
    return _one_by_one(
        lambda: _of_shapes(_named(module, frozenset({"stablehlo.all_gather"}), op_names, stacks), shapes),
        lambda each: reduce_parts(module, each),
    )


def _interleave_columns(
    module: ir.Module,
    op_names: Collection[str],
    width: int,
    count: int,
    devices: int,
    parameters: Sequence[int] = (),
    stacks: Stacks = (),
) -> int:
    """Gives fused matrices an order of columns in which each device has its columns of every matrix."""
    del parameters  # they get values in this order
    return interleave_columns(_named(module, CUTS, op_names, stacks), width, count, devices)


def _of_shapes(operations: Iterable[Any], shapes: Sequence[Sequence[int]]) -> list[Any]:
    return [each for each in operations if tuple(ir.RankedTensorType(each.results[0].type).shape) in shapes]


def _one_by_one(operations: Callable[[], list[Any]], change: Callable[[Any], bool]) -> int:
    """Changes operations, and lists them again after each change, which may inline functions. Returns the number of changes."""
    places, most = 0, len(operations())
    while places < most and any(map(change, operations())):
        places += 1
    return places


def _sort_to_top_k(module: ir.Module, op_name: str, k: int, is_last: bool, has_barrier: bool) -> int:
    """Replaces a sort by `top_k`."""
    sorts = _named(module, frozenset({"stablehlo.sort"}), [op_name])
    return sorts_to_top_k(sorts, k, is_last=is_last, has_barrier=has_barrier)


def _update_slices(module: ir.Module, op_names: Collection[str], pairs: Collection[tuple[int, int]] = ()) -> int:
    """Updates slices of arrays instead of writing them as a whole, and then donates the arrays."""
    places = update_slices(module, main_of(module), op_names)
    if places and pairs:
        donate(module, pairs)
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


def _store_narrow(
    module: ir.Module,
    parameters: Sequence[int],
    element_type: str,
    loop: str,
    shape: Sequence[str],
    results: Sequence[int],
    is_read: bool,
) -> int:
    """Stores parameters, or elements that loops carry, in a narrower type."""
    narrow = _element_type(element_type)
    if loop:
        loops = list(_named(module, frozenset({"stablehlo.while"}), (loop,)))
        wide = ir.RankedTensorType.get(list(map(int, shape[1:])), _element_type(shape[0]))
        return sum(narrow_elements(module, each, wide, narrow, are_read=is_read) for each in loops)
    return narrow_parameters(module, main_of(module), parameters, narrow, frozenset(results))


_EDITS: Mapping[str, Callable[..., int]] = {
    "Donate": donate,
    "SplitParameter": split_parameter,
    "SplitVersions": split_versions,
    "TakeParts": take_parts,
    "KeepResult": keep_result,
    "MoveAxis": move_axis,
    "GatherFirst": gather_first,
    "DropConstraints": _drop_constraints,
    "StepConstraints": _step_constraints,
    "DropPermutes": _drop_permutes,
    "HoistCollectives": _hoist_collectives,
    "DeferCollectives": _defer_collectives,
    "CombineCollectives": _combine_collectives,
    "SumSquares": _sum_squares,
    "ReplaceRings": _replace_rings,
    "KeepOwnParts": _keep_own_parts,
    "ReduceParts": _reduce_parts,
    "InterleaveColumns": _interleave_columns,
    "NarrowCollectives": _narrow_collectives,
    "NarrowProducts": _narrow_products,
    "DefaultPrecision": _use_default_precision,
    "ContractSums": _contract_sums,
    "SortToTopK": _sort_to_top_k,
    "UpdateSlices": _update_slices,
    "DropCallbacks": _drop_callbacks,
    "StoreTransposed": store_transposed,
    "StoreNarrow": _store_narrow,
    "DropParameters": drop_parameters,
    "DropResults": drop_results,
    "SingleFloats": narrow_floats,
}


def _named(
    module: ir.Module, operations: Collection[str], op_names: Collection[str] | None, stacks: Stacks = ()
) -> Iterator[Any]:
    """Returns the operations of certain kinds that have one of JAX's full names, if given: those of the calls, and their own.

    An operation of a function that is called several times is returned if one of its full names is given. Many operations of a
    function have the same name: with call stacks, only those with one of them are returned.
    """
    # By the called function: the calling function, and the name of the call with those of the `shard_map`s around it.
    calls: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    found: list[tuple[str, Any]] = []
    wanted = frozenset(op_names or ())
    for each in module.body.operations:
        if each.operation.name != "func.func":
            continue
        function = name_of(each)

        def visit(operation: Any, function: str = function) -> Any:
            if operation.name in operations:
                found.append((function, operation))
            elif operation.name in CALLS:
                calls.setdefault(callee_of(operation), []).append((function, stablehlo.names_in_function(operation)))
            return ir.WalkResult.ADVANCE

        each.operation.walk(visit)

    @functools.cache
    def is_called(function: str, name: str) -> bool:
        """Reports whether a name in a function belongs to a wanted full name."""
        return name in wanted or any(
            is_called(caller, inlined_name(name, outer)) for caller, outer in calls.get(function, ())
        )

    named = (
        operation
        for function, operation in found
        if op_names is None or is_called(function, inlined_name("", stablehlo.names_in_function(operation)))
    )
    return iter([operation for operation in named if not stacks or _is_at(stablehlo.places(operation), stacks)])


def _is_at(places: Sequence[tuple[str, int]], stacks: Stacks) -> bool:
    """Reports whether the frames of an operation are those of a call stack, as far as both are recorded."""
    return not places or any(all(a == b for a, b in zip(places, each, strict=False)) for each in stacks)


def _element_type(name: str) -> Any:
    return ir.Type.parse(name)


def _forget_algorithm(operation: Any) -> None:
    if "algorithm" in operation.attributes:
        del operation.attributes["algorithm"]
