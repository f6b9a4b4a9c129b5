"""Replaces rings of permutes by one collective, in StableHLO modules.

Private JAX: `jaxlib.mlir` (operations, attributes and types of StableHLO).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from inspector._jax.edits.building import Builder, element_type_of, integer, shape_of
from inspector._jax.edits.deferring import is_zero
from inspector._jax.edits.hoisting import inline_callee, inline_users

_WHILE, _CALL, _RETURN = "stablehlo.while", "func.call", "stablehlo.return"
_EFFECTS = frozenset(
    f"stablehlo.{name}"
    for name in ("case", "custom_call", "if", "infeed", "outfeed", "recv", "return", "send", "while")
)
"""Operations that may have an effect, also inside of them."""
_MOVES = frozenset({"stablehlo.reshape", "stablehlo.transpose", "stablehlo.broadcast_in_dim", "stablehlo.convert"})
_SUMS = {"psum": "stablehlo.add", "pmax": "stablehlo.maximum", "pmin": "stablehlo.minimum"}
_WRITES = {"stablehlo.dynamic_update_slice": 1, "stablehlo.scatter": 2}
"""Operations that write a block into an array, with the number of the block's operand."""


class _Use(NamedTuple):
    """The use of a value, also after it was moved.

    Attributes:
      user: the operation.
      number: the number of the operand.
      moved: the operand.
    """

    user: Any
    number: int
    moved: Any


class _Ring(NamedTuple):
    """A ring, or a part of one.

    Attributes:
      permute: its first permute.
      first_block: the value before it.
      initial: the value with which the blocks are combined first; None if they are put together.
      combining: an operation that combines a block with others.
      moved_block: the block as that operation takes it.
      block: the block before it is moved.
      result: the result.
      anchor: the operation in front of which a collective can be built.
      loop: the loop; None if the ring is unrolled.
      carried: the numbers of the loop's elements that only the ring changes.
      chunks: for a sum of which each device has a chunk, the array of the chunks.
      slice: the operation that takes a chunk of it.
      blocks: the number of blocks that an unrolled ring takes from other devices; 0 for a loop.
    """

    permute: Any
    first_block: Any
    initial: Any
    combining: Any
    moved_block: Any
    block: Any
    result: Any
    anchor: Any
    loop: Any = None
    carried: tuple[int, ...] = ()
    chunks: Any = None
    slice: Any = None
    blocks: int = 0


def replace_ring(module: ir.Module, permutes: Sequence[Any], call: str, is_chunked: bool) -> bool:
    """Replaces one ring by a collective, and erases its permutes.

    Args:
      module: the module.
      permutes: the permutes of rings. Calls in loops that lead to them are inlined.
      call: the function of `jax.lax` that does the same: psum, pmax, pmin, all_gather or psum_scatter.
      is_chunked: whether each step sends a chunk of an array; for psum and psum_scatter only.

    Returns:
      False if there is none that can be replaced.
    """
    if call == "psum_scatter":
        rings = _in_a_row([phase for each in permutes if (phase := _chunk_sum(module, each)) is not None])
    elif is_chunked:
        rings = _in_a_row([phase for each in permutes if (phase := _chunk_phase(module, each)) is not None])
    else:
        rings = _of_blocks(module, permutes)
    return any(_replace(each, call) for each in rings)


def _of_blocks(module: ir.Module, permutes: Sequence[Any]) -> Iterator[list[_Ring]]:
    for steps in _chains(permutes):
        ring = _carried(module, steps[0]) if len(steps) == 1 else _unrolled(module, steps)
        if ring is not None:
            yield [ring]


def _chains(permutes: Sequence[Any]) -> list[list[Any]]:
    """Returns chains of permutes in which each sends the block that the previous one received."""
    chains: list[list[Any]] = []
    for each in permutes:
        before = next((chain for chain in chains if chain[-1].results[0] == each.operands[0]), None)
        if before is None:
            chains.append([each])
        else:
            before.append(each)
    return chains


def _carried(module: ir.Module, permute: Any) -> _Ring | None:
    """Returns the ring of a loop that carries a block and combines it with another element, if the loop uses both for nothing else."""
    loop = permute.parent.operation
    if loop.name != _WHILE:
        return None
    arguments, end = _body(loop)
    block = permute.operands[0]
    if block not in arguments or end.operands[arguments.index(block)] != permute.results[0]:
        return None
    number = arguments.index(block)
    uses = [use for value in (block, permute.results[0]) for use in _uses(module, value)]
    taken = [use for use in uses if use.user not in (permute, end)]
    ends = [*end.operands]  # inlined calls have other results
    if len(taken) != 1 or len(taken[0].user.results) != 1 or taken[0].user.results[0] not in ends:
        return None
    user, _, moved = taken[0]
    total = ends.index(user.results[0])
    if not _is_only_for(arguments[total], user) or not _is_only_for(user.results[0], end):
        return None
    made = _block_of(moved, (block, permute.results[0]))
    ring = _Ring(
        permute, loop.operands[number], loop.operands[total], user, moved, made, loop.results[total], loop, loop, (number, total)
    )  # fmt: skip
    left = _uses(module, loop.results[number])
    if not left:
        return ring
    last = left[0].user  # takes the last block after the loop
    is_last = made == block and len(left) == 1 and last.name == user.name and loop.results[total] in last.operands
    return (
        ring._replace(result=last.results[0], anchor=last)
        if is_last and _is_only_for(loop.results[total], last)
        else None
    )


def _is_only_for(value: Any, user: Any) -> bool:
    """Reports whether an operation is the only one that uses a value."""
    return all(use.owner.operation == user for use in value.uses)


def _unrolled(module: ir.Module, steps: Sequence[Any]) -> _Ring | None:
    """Returns the ring of a chain of permutes."""
    blocks = [step.results[0] for step in steps]
    taken = [use for block in blocks for use in _uses(module, block) if use.user not in steps]
    if not taken or len({use.user.name for use in taken}) != 1:
        return None
    joined = {use.user for use in taken}
    last = [each for each in joined if not any(use.owner.operation in joined for use in each.results[0].uses)]
    if len(last) != 1:
        return None
    first, moved = steps[0].operands[0], {use.moved for use in taken}
    results = {each.results[0] for each in joined}
    initial = [value for each in joined for value in each.operands if value not in moved and value not in results]
    user, _, block = taken[0]
    return _Ring(
        steps[0],
        first,
        initial[0] if initial else None,
        user,
        block,
        _block_of(block, blocks),
        last[0].results[0],
        last[0],
        blocks=len(taken),
    )


def _chunk_phase(module: ir.Module, permute: Any) -> _Ring | None:
    """Returns the step that adds or writes the chunk which a permute receives, or the loop of such steps."""
    uses = _uses(module, permute.results[0])
    if len(uses) == 1 and uses[0].user.name == "stablehlo.add":
        uses = _uses(module, uses[0].user.results[0])
    if len(uses) != 1 or _WRITES.get(uses[0].user.name) != uses[0].number:
        return None
    write = uses[0].user
    before, after = write.operands[0], write.results[0]
    loop = permute.parent.operation
    if loop.name != _WHILE:
        return _Ring(permute, before, None, write, None, None, after, write)
    arguments, end = _body(loop)
    ends = [*end.operands]
    if after not in ends or arguments[ends.index(after)] != before:
        return None
    number = ends.index(after)
    return _Ring(permute, loop.operands[number], None, write, None, None, loop.results[number], loop, loop, (number,))


def _chunk_sum(module: ir.Module, permute: Any) -> _Ring | None:
    """Returns the step that adds a chunk to the sum which a permute receives, or the loop of such steps."""
    uses = _uses(module, permute.results[0])
    if len(uses) != 1 or uses[0].user.name != _SUMS["psum"]:
        return None
    add, number, _ = uses[0]
    taking = _slice_behind(module, add.operands[1 - number])
    if taking is None:
        return None
    chunks, total, result = _root(taking.operands[0]), _root(permute.operands[0]), add.results[0]
    loop = permute.parent.operation
    if loop.name != _WHILE:
        return _Ring(
            permute, permute.operands[0], None, add, None, None, result, add, chunks=taking.operands[0], slice=taking
        )
    arguments, end = _body(loop)
    ends = [*end.operands]
    if total not in arguments or result not in ends or arguments[number := ends.index(result)] != total:
        return None
    if chunks not in arguments or taking.operands[0] != chunks or ends[place := arguments.index(chunks)] != chunks:
        return None
    return _Ring(
        permute, loop.operands[number], None, add, None, None, loop.results[number], loop, loop, (number,), loop.operands[place], taking
    )  # fmt: skip


def _slice_behind(module: ir.Module, value: Any) -> Any | None:
    """Returns the operation that takes a chunk of an array, also if it is in a called function; None for other values."""
    while not isinstance((root := _root(value)).owner, ir.Block):
        maker = root.owner.operation
        if maker.name != _CALL:
            return maker if maker.name == "stablehlo.dynamic_slice" else None
        user = next(iter(root.uses))
        operation, operand = user.owner.operation, user.operand_number
        inline_callee(module, maker)
        value = operation.operands[operand]
    return None


def _in_a_row(phases: Sequence[_Ring]) -> Iterator[list[_Ring]]:
    """Yields the phases that pass an array on, in order."""
    following = {_root(each.first_block): each for each in phases}
    results = {each.result for each in phases}
    for each in phases:
        if _root(each.first_block) in results:
            continue
        row = [each]
        while (after := following.get(row[-1].result)) is not None and len(row) < len(phases):
            row.append(after)
        yield row


def _replace(rings: Sequence[_Ring], call: str) -> bool:
    """Replaces the result of one ring, or of several in a row, by that of a collective. False, without a change, if that is not the same."""
    first, last = rings[0], rings[-1]
    groups = _cycles(first.permute)
    operand = first.first_block if first.moved_block is None else first.moved_block
    block, whole = shape_of(operand), shape_of(first.combining.results[0])
    if first.chunks is not None:
        operand, block, whole = first.chunks, shape_of(first.slice.results[0]), shape_of(first.chunks)
    dimension = _gathered_dimension(block, whole, len(groups[0]))
    is_sum = first.chunks is None and call in _SUMS
    initial = _without_own(first, _SUMS[call]) if is_sum and first.initial is not None else None
    if (
        (not is_sum and dimension is None)
        or (call == "all_gather" and first.combining.name not in _WRITES)
        or element_type_of(operand) != element_type_of(last.result)
        or (is_sum and math.prod(block) != math.prod(shape_of(last.result)))
        or (initial is not None and (first.combining.name != _SUMS[call] or initial.type != operand.type))
        or (is_sum and first.blocks == len(groups[0]) - 1 and _leaves_own_out(first, initial))
    ):
        return False
    build, peers = Builder(last.anchor, first.permute.location), _peers(first.permute, groups)
    if first.moved_block is not None:
        operand = _moved_like(first)
    if first.chunks is not None:
        result = build.like(
            "reduce_scatter",
            operand,
            block,
            attributes=peers,
            reduction=_SUMS["psum"],
            scatter_dimension=integer(dimension or 0),
        )
    elif is_sum:
        result = build.create("all_reduce", operand.type, operand, attributes=peers, reduction=_SUMS[call])
        if initial is not None and (call != "psum" or not is_zero(initial)):
            result = build.create(_SUMS[call].removeprefix("stablehlo."), initial.type, initial, result)
    else:
        if len(block) < len(whole):
            operand = build.reshape(operand, [1 if d == dimension else size for d, size in enumerate(whole)])
        result = build.like("all_gather", operand, whole, attributes=peers, all_gather_dim=integer(dimension or 0))
    result = build.reshape(result, shape_of(last.result))
    last.result.replace_all_uses_with(result)
    blocks: list[Any] = []
    for each in rings:
        _keep_unchanged(each)
        if each.permute.block not in blocks:
            blocks.append(each.permute.block)
    for each in blocks:
        _erase_unused(each)
    return True


def _leaves_own_out(ring: _Ring, initial: Any | None) -> bool:
    """Reports whether a ring adds the blocks of the other devices only."""
    return ring.initial is None or (initial is not None and initial == ring.initial)


def _keep_unchanged(ring: _Ring) -> None:
    """Makes a loop carry the ring's elements unchanged, so that XLA removes them."""
    if ring.loop is not None:
        arguments, end = _body(ring.loop)
        for number in ring.carried:
            end.operands[number] = arguments[number]


def _erase_unused(block: Any) -> None:
    for view in reversed(list(block.operations)):
        operation = view.operation
        is_pure = operation.name.startswith("stablehlo.") and operation.name not in _EFFECTS
        if is_pure and not any(True for result in operation.results for _ in result.uses):
            operation.erase()


def _body(loop: Any) -> tuple[list[Any], Any]:
    """Returns the arguments of a loop's body, and the operation that ends it."""
    body = loop.regions[1].blocks[0]
    return list(body.arguments), list(body.operations)[-1].operation


def _uses(module: ir.Module, value: Any) -> list[_Use]:
    """Returns the uses of a value, followed through moves. Calls that take it are inlined."""
    found: list[_Use] = []
    waiting = [value]
    while waiting:
        moved = waiting.pop()
        inline_users(module, moved)
        for use in moved.uses:
            user = use.owner.operation
            if user.name in _MOVES:
                waiting.append(user.results[0])
            else:
                found.append(_Use(user, use.operand_number, moved))
    return found


def _root(value: Any) -> Any:
    """Returns a value before it was moved."""
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in _MOVES:
        value = value.owner.operation.operands[0]
    return value


def _without_own(ring: _Ring, opcode: str) -> Any | None:
    """Returns the value with which a device combines its own block before the others; None if it begins with its block."""
    initial, own = ring.initial, _root(ring.first_block)
    if _root(initial) == own:
        return None
    if not isinstance(initial.owner, ir.Block) and (maker := initial.owner.operation).name == opcode:
        a, b = maker.operands
        if own in (_root(a), _root(b)):
            return b if _root(a) == own else a
    return initial


def _block_of(moved: Any, blocks: Iterable[Any]) -> Any:
    """Returns the one of some blocks that a value was moved from."""
    known = set(blocks)
    while moved not in known:
        moved = moved.owner.operation.operands[0]
    return moved


def _moved_like(ring: _Ring) -> Any:
    """Returns a ring's first value, moved in front of the anchor as the ring moves its blocks."""
    moves: list[Any] = []
    value = ring.moved_block
    while value != ring.block:
        moves.append(value.owner.operation)
        value = moves[-1].operands[0]
    value = ring.first_block
    for each in reversed(moves):
        made = each.clone(ip=ir.InsertionPoint(ring.anchor)).operation
        made.operands[0] = value
        value = made.results[0]
    return value


def _gathered_dimension(block: Sequence[int], whole: Sequence[int], count: int) -> int | None:
    """Returns the dimension along which so many blocks are put together; None if there is none."""
    if len(block) == len(whole):
        wider = [d for d, (a, b) in enumerate(zip(block, whole, strict=True)) if a != b]
        return wider[0] if len(wider) == 1 and whole[wider[0]] == count * block[wider[0]] else None
    found = (d for d, size in enumerate(whole) if size == count and [*whole[:d], *whole[d + 1 :]] == [*block])
    return next(found, None)


def _cycles(permute: Any) -> list[list[int]]:
    """Returns the devices of each ring, in ascending order, as a mesh has them along an axis."""
    following = dict(np.array(permute.attributes["source_target_pairs"]).tolist())
    cycles: list[list[int]] = []
    while following:
        cycle = [next(iter(following))]
        while (after := following.pop(cycle[-1], None)) is not None and after != cycle[0]:
            cycle.append(after)
        cycles.append(sorted(cycle))
    return cycles


def _peers(permute: Any, groups: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Returns the attributes of collectives among the devices of a ring."""
    rows = ", ".join(str([*group]) for group in groups)
    peers = {
        "replica_groups": ir.Attribute.parse(f"dense<[{rows}]> : tensor<{len(groups)}x{len(groups[0])}xi64>"),
        "use_global_device_ids": ir.UnitAttr.get(),
    }
    if "channel_handle" in permute.attributes:
        peers["channel_handle"] = permute.attributes["channel_handle"]
    return peers
