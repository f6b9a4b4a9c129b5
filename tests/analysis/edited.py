"""Modules edited at random."""

from __future__ import annotations

import random
from typing import Any

from inspector.hlo.module import Module
from tests.modules import changed, proto_of

_OTHERWISE = {
    "add": "multiply", "cosine": "exponential", "exponential": "tanh", "log": "sine", "maximum": "minimum",
    "multiply": "add", "sine": "cosine", "subtract": "divide", "tanh": "exponential",
}  # fmt: skip


def randomly_edited(module: Module, seed: int, count: int) -> Module:
    """A module with instructions rewritten, inserted and taken out at random, and constants changed."""
    proto, generator = proto_of(module), random.Random(seed)
    edits, done = (_rewrite, _insert, _take_out, _change_value), 0
    while done < count:
        computation = generator.choice(proto.computations)
        instruction = generator.choice(computation.instructions)
        done += generator.choice(edits)(computation, instruction, generator)
    return changed(proto)


def _rewrite(_: Any, instruction: Any, __: random.Random) -> bool:
    found = instruction.opcode in _OTHERWISE
    instruction.opcode = _OTHERWISE.get(instruction.opcode, instruction.opcode)
    return found


def _change_value(_: Any, instruction: Any, __: random.Random) -> bool:
    if instruction.opcode != "constant" or not instruction.literal.f32s:
        return False
    instruction.literal.f32s[0] += 1
    return True


def _insert(computation: Any, user: Any, generator: random.Random) -> bool:
    """Something between an instruction and one that takes it."""
    if not user.operand_ids or user.opcode == "get-tuple-element":
        return False
    place = generator.randrange(len(user.operand_ids))
    taken = next(i for i in computation.instructions if i.id == user.operand_ids[place])
    if taken.shape.tuple_shapes:
        return False
    new = type(user)(
        opcode=generator.choice(("negate", "copy", "floor")), id=1 + max(i.id for i in computation.instructions)
    )
    new.name = f"new.{computation.id}.{new.id}"
    new.shape.CopyFrom(taken.shape)
    new.operand_ids.append(taken.id)
    at = [i.id for i in computation.instructions].index(user.id)
    user.operand_ids[place] = new.id
    copies = [type(user).FromString(i.SerializeToString()) for i in computation.instructions]
    del computation.instructions[:]
    computation.instructions.extend([*copies[:at], new, *copies[at:]])
    return True


def _take_out(computation: Any, instruction: Any, _: random.Random) -> bool:
    """An instruction, whose users take what it took."""
    is_plain = len(instruction.operand_ids) == 1 and not instruction.called_computation_ids
    if not is_plain or instruction.opcode == "get-tuple-element" or instruction.id == computation.root_id:
        return False
    gone, taken = instruction.id, instruction.operand_ids[0]
    for each in computation.instructions:
        ids = [taken if operand == gone else operand for operand in each.operand_ids]
        each.ClearField("operand_ids")
        each.operand_ids.extend(ids)
    del computation.instructions[[i.id for i in computation.instructions].index(gone)]
    return True
