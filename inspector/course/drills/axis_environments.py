"""Exercises on the replica groups of collectives over axes, and on the order of their members."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from inspector.course.answers import Groups
from inspector.course.programs import groups_of, only_collective
from inspector.course.question import Mistake, Question
from inspector.support.units import format_list

Environment = list[tuple[str, int]]

_NAMES = (
    ("i", "j", "k", "l"), ("x", "y", "z", "w"), ("a", "b", "c", "d"), ("data", "model", "expert", "stage"), ("p", "q", "r", "s"),
)  # fmt: skip
_X = jnp.float32


def groups(draw: random.Random, level: int) -> Question:
    """Returns an exercise: the groups of a sum over some axes."""
    environment = _environment(draw, axes=min(2 + level // 2, 4), most=8 if level < 3 else 16 if level < 5 else 24)
    names = [name for name, _ in environment]
    count = draw.randint(1, max(1, min(len(names) - 1, level - 1)))
    chosen = tuple(sorted(draw.sample(names, count), key=names.index))
    others = [name for name in names if name not in chosen]
    wrong = {
        _text(_by_numpy(environment, others)): f"Those agree in {format_list(chosen)}. psum *varies* the named axes: members differ in them.",
        _text(_by_numpy(environment[::-1], chosen)): "That lets the axis named first vary fastest. The axis named last varies fastest.",
    }  # fmt: skip
    return Question(
        f"What are the replica groups of psum(x, {_call(chosen)}) under {_shown(environment)}?",
        Groups(),
        lambda: groups_of(only_collective(lambda x: lax.psum(x, chosen), _X(0), environment)),
        f"Members of a group differ in {format_list(chosen)} and agree in {format_list(others)}.",
        "Members of a group differ in the named axes, and agree in all others. The last axis varies fastest.",
        _mistakes(wrong, _by_numpy(environment, chosen), ordered=False),
    )


def order(draw: random.Random, level: int) -> Question:
    """Returns an exercise: the groups of an all-gather over axes in any order, with their members in order."""
    environment = _environment(draw, axes=2 if level < 2 else 3, most=8 if level < 3 else 12 if level < 5 else 16)
    names = [name for name, _ in environment]
    chosen = draw.sample(names, 2 if level < 3 else draw.randint(2, len(names)))
    written = sorted(chosen, key=names.index)
    if chosen == written:
        chosen = chosen[::-1]
    wrong = {
        _text(_by_numpy(environment, written)): "Those are in the order of the environment. The order of the names in the call counts.",
        _text(_by_numpy(environment, chosen[::-1])): "You let the axis named first in the call vary fastest. It varies slowest.",
    }  # fmt: skip
    return Question(
        f"What are the groups of all_gather(x, {_call(chosen)}) under {_shown(environment)}, with their members in order?",
        Groups(ordered=True),
        lambda: groups_of(only_collective(lambda x: lax.all_gather(x, tuple(chosen)), _X(0), environment)),
        f"Within a group {chosen[0]} varies slowest and {chosen[-1]} fastest.",
        "The axis that the call names first varies slowest.",
        _mistakes(wrong, _by_numpy(environment, chosen), ordered=True),
    )


def _environment(draw: random.Random, axes: int, most: int) -> Environment:
    """Returns axes with sizes of at least 2 whose product is at most `most`."""
    sizes = [2] * axes
    while draw.random() < 0.8:
        grown = list(sizes)
        grown[draw.randrange(axes)] += 1
        if math.prod(grown) > most:
            break
        sizes = grown
    return list(zip(draw.choice(_NAMES), sizes, strict=False))


def _by_numpy(environment: Environment, axes: Sequence[str]) -> list[list[int]]:
    """Returns groups over axes, for wrong answers."""
    names = [name for name, _ in environment]
    ids = np.arange(math.prod(size for _, size in environment)).reshape([size for _, size in environment])
    moved = [names.index(name) for name in axes]
    rest = [place for place in range(len(names)) if place not in moved]
    members = math.prod(ids.shape[place] for place in moved)
    return [[int(id_) for id_ in group] for group in ids.transpose(rest + moved).reshape(-1, members)]


def _mistakes(wrong: dict[str, str], right: list[list[int]], *, ordered: bool) -> tuple[Mistake, ...]:
    kind = Groups(ordered)
    return tuple(Mistake(text, reply) for text, reply in wrong.items() if kind.read(text) != kind.read(right))


def _text(groups: list[list[int]]) -> str:
    return str(groups)


def _shown(environment: Environment) -> str:
    return "[" + ", ".join(f'("{name}", {size})' for name, size in environment) + "]"


def _call(axes: Sequence[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in axes)
    return quoted if len(axes) == 1 else f"({quoted})"
