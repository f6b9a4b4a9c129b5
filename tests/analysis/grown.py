"""Programs that grow at random out of few operations, so that much in them is alike; any two of it fused, or not."""

from __future__ import annotations

import random
from collections.abc import Collection

from inspector.hlo.module import Module
from tests.modules import module_of

Lines = dict[str, tuple[str, tuple[str, ...]]]
"""Name to opcode and what is taken, operands before users; a parameter takes nothing."""

OPCODES = {"negate": 1, "exponential": 1, "abs": 1, "add": 2, "multiply": 2, "maximum": 2}
_SHAPE = "f32[8]{0}"


def grown(seed: int, count: int = 40, parameters: int = 3) -> Lines:
    """A program of so many instructions."""
    source = random.Random(seed)
    lines: Lines = {f"p{n}": ("parameter", ()) for n in range(parameters)}
    for n in range(count):
        opcode = source.choice([*OPCODES])
        near = [*lines][-8:]  # so that it is deep
        lines[f"i{n}"] = opcode, tuple(source.choice(near) for _ in range(OPCODES[opcode]))
    return lines


def changed_at_random(lines: Lines, seed: int, count: int) -> Lines:
    """The same with other operations at some places."""
    source, found = random.Random(seed), dict(lines)
    for name in source.sample([name for name, (opcode, _) in lines.items() if opcode != "parameter"], count):
        opcode, operands = found[name]
        others = [other for other, arity in OPCODES.items() if arity == len(operands) and other != opcode]
        found[name] = source.choice(others), operands
    return found


def couples(lines: Lines, seed: int) -> dict[str, str]:
    """Some of what may be fused two by two: of an instruction, the one that alone takes it."""
    source, found = random.Random(seed), dict[str, str]()
    for name, (opcode, _) in lines.items():
        users = [user for user, (_, operands) in lines.items() if name in operands]
        free = not {name, *users} & {*found, *found.values()}
        if opcode != "parameter" and len(users) == 1 and free and source.random() < 0.5:
            found[name] = users[0]
    return found


def module_in(lines: Lines, fused: dict[str, str] | None = None, *, is_turned: bool = False) -> Module:
    """The program, with these couples fused; fused instructions keep their names.

    Args:
      lines: the program.
      fused: of an instruction, the one that it is fused into: a fusion "i7.fusion" calls "i7.fused", which has
        parameters "i7.p0" and so on.
      is_turned: parameters of fusions are in the reverse order.
    """
    fused = fused or {}
    held = {outer: inner for inner, outer in fused.items()}
    seen = {name: f"{name}.fusion" if name in held else name for name in lines}
    entry, computations = [], []
    numbers = {name: n for n, name in enumerate(name for name, (opcode, _) in lines.items() if opcode == "parameter")}
    for name, (opcode, operands) in lines.items():
        if name in held:
            inner_opcode, inner_operands = lines[held[name]]
            given = [*dict.fromkeys([*inner_operands, *(each for each in operands if each != held[name])])]
            given = given[::-1] if is_turned else given
            inside = {each: f"{name}.p{n}" for n, each in enumerate(given)} | {held[name]: held[name]}
            body = [f"  {inside[each]} = {_SHAPE} parameter({n})" for n, each in enumerate(given)]
            body.append(_line(held[name], inner_opcode, [inside[each] for each in inner_operands]))
            body.append(f"  ROOT {_line(name, opcode, [inside[each] for each in operands]).strip()}")
            computations += [f"{name}.fused {{", *body, "}", ""]
            taken = ", ".join(seen[each] for each in given)
            entry.append(f"  {seen[name]} = {_SHAPE} fusion({taken}), kind=kLoop, calls={name}.fused")
        elif opcode == "parameter":
            entry.append(f"  {name} = {_SHAPE} parameter({numbers[name]})")
        elif name not in fused:
            entry.append(_line(name, opcode, [seen[each] for each in operands]))
    ends = [seen[name] for name in _ends(lines)]
    entry.append(f"  ROOT result = ({', '.join([_SHAPE] * len(ends))}) tuple({', '.join(ends)})")
    return module_of("\n".join(["HloModule grown", "", *computations, "ENTRY main {", *entry, "}", ""]))


def _line(name: str, opcode: str, operands: Collection[str]) -> str:
    return f"  {name} = {_SHAPE} {opcode}({', '.join(operands)})"


def _ends(lines: Lines) -> list[str]:
    taken = {name for _, operands in lines.values() for name in operands}
    return [name for name in lines if name not in taken]
