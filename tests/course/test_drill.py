"""Drills: exercises are the same for the same seed, become harder, and their answers are right by other means than theirs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import inspector
from inspector.course.drill import KINDS, level_of
from inspector.course.question import Question
from inspector.errors import ParameterError
from tests.course.spellings import spellings
from tests.hlo.conftest import Execute

Check = Callable[[Question, Execute], None]
ITEMSIZE = {"f32": 4, "s32": 4, "bf16": 2, "s8": 1}

# ------------------------------------------------------------------ answers by other means


def groups_by_execution(question: Question, _: Execute) -> None:
    """Runs the collective of ids in nested vmaps, which need no devices and no replica groups."""
    call, names, pairs = re.fullmatch(
        r".* of (psum|all_gather)\(x, (.*?)\) under (\[.*?\])[,?].*", question.text
    ).groups()  # type: ignore[union-attr]
    environment = dict(eval(pairs))
    axes = eval(names) if names.startswith("(") else (eval(names),)
    ids = np.arange(math.prod(environment.values())).reshape(tuple(environment.values()))

    def members(x: jax.Array) -> Any:
        if call == "all_gather":  # vmap gathers over one axis; the axis named last varies fastest
            for axis in reversed(axes):
                x = lax.all_gather(x, axis)
            return x
        return lax.psum(jax.nn.one_hot(x, ids.size, dtype=jnp.int32), axes)

    for axis in reversed(environment):
        members = jax.vmap(members, axis_name=axis)
    found = np.asarray(members(jnp.array(ids))).reshape(ids.size, -1)
    groups = [list(map(int, row)) if call == "all_gather" else [int(i) for i in np.flatnonzero(row)] for row in found]
    distinct = [list(group) for group in dict.fromkeys(map(tuple, groups))]
    assert question.verdict(distinct), (question.text, distinct)


def iota_by_execution(question: Question, execute: Execute) -> None:
    """Gathers device ids with these groups on 8 devices; other numbers of ids are expanded by NumPy."""
    (text,) = re.findall(r"\[\S+", question.text)
    groups, members, dimensions, order = re.fullmatch(r"\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text).groups()  # type: ignore[union-attr]
    shape = [int(size) for size in dimensions.split(",")]
    if math.prod(shape) == 8:
        plain = np.arange(8).reshape(-1, int(members)).tolist()
        placeholder = str(plain).replace("[", "{").replace("]", "}").replace(" ", "")
        reply = execute(
            do="groups", groups=text, group_size=int(members), placeholder=placeholder, replicas=8, partitions=1, attributes=""
        )  # fmt: skip
        found = [list(group) for group in dict.fromkeys(map(tuple, reply["observed"]))]
    else:
        axes = [int(axis) for axis in order.split(",")] if order else [0]
        found = np.arange(math.prod(shape)).reshape(shape).transpose(axes).reshape(int(groups), -1).tolist()
    assert question.verdict(found), (question.text, found)


def modes_by_execution(question: Question, execute: Execute) -> None:
    """Runs the collective on devices that hold their ids."""
    replicas, partitions = map(int, re.findall(r"(\d+) (?:replica|partition)", question.text)[:2])
    opcode, groups, attributes = re.search(
        r"(all-gather|all-to-all)\(x\), replica_groups=(\S+\}\})(.*?)\?", question.text
    ).groups()  # type: ignore[union-attr]
    members = len(re.findall(r"\d+", groups.partition("}")[0]))
    every = partitions if "channel" in attributes and "global" not in attributes and opcode == "all-gather" else 1
    size = members * every
    result = f"s32[{size}]{{0}} all-gather(x)" if opcode == "all-gather" else f"s32[{size}]{{0}} all-to-all(x)"
    length = 1 if opcode == "all-gather" else size
    hlo = f"""HloModule m
ENTRY main {{
  x = s32[{length}]{{0}} parameter(0), sharding={{manual}}
  ROOT r = {result}, dimensions={{0}}, replica_groups={groups}, sharding={{manual}}{attributes}
}}"""
    reply = execute(do="operation", hlo=hlo, replicas=replicas, partitions=partitions)
    held = [[int(value) // length for value in row] for row in reply["observed"]]
    found = [list(group) for group in dict.fromkeys(map(tuple, held))]
    assert question.verdict(found), (question.text, found)


def collective_by_jax(question: Question, _: Execute) -> None:
    """Compiles the product with JAX alone, and searches the text of the program."""
    sizes = re.findall(r"f32\[(\d+),(\d+)\]", question.text)
    specs = [eval(spec, {"P": PartitionSpec}) for spec in re.findall(r"P\([^)]*\)", question.text)]
    axes = dict(re.findall(r"(\w) = (\d)", question.text))
    devices = np.array(jax.devices()[: math.prod(map(int, axes.values()))]).reshape(tuple(map(int, axes.values())))
    on = Mesh(devices, tuple(axes))
    a, b = (
        jax.ShapeDtypeStruct((int(rows), int(columns)), jnp.float32, sharding=NamedSharding(on, spec))
        for (rows, columns), spec in zip(sizes, specs[:2], strict=True)
    )
    out = NamedSharding(on, specs[2]) if len(specs) > 2 else None
    text = jax.jit(lambda a, b: a @ b, out_shardings=out).lower(a, b).compile().as_text()
    found = re.findall(r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)\(", text)
    assert len(found) < 2
    assert question.verdict(found[0] if found else "none"), (question.text, found)


def bytes_by_formula(question: Question, _: Execute) -> None:
    """Computes the bytes with plain arithmetic."""
    text = question.text
    dtype, dimensions = re.search(r"(f32|bf16|s8|s32)\[([\d,]+)\]", text).groups()  # type: ignore[union-attr]
    size = math.prod(map(int, dimensions.split(","))) * ITEMSIZE[dtype]
    if "sharding" in text:
        axes = dict(re.findall(r"(\w) = (\d)", text))
        named = re.findall(r"'(\w)'", text)
        assert named
        assert question.verdict(size // math.prod(int(axes[axis]) for axis in named)), text
        return
    n, operation = int(text.split()[0]), re.search(r"run (\w+)\(", text).group(1)  # type: ignore[union-attr]
    if "ring" in text:
        sent = {"all_gather": (n - 1) * size, "psum_scatter": (n - 1) * size // n, "psum": 2 * (n - 1) * size // n}
        assert question.verdict(sent[operation]), text
        return
    result = {"all_gather": n * size, "psum_scatter": size // n, "psum": size, "all_to_all": size}
    assert question.verdict(result[operation]), text


def time_by_formula(question: Question, _: Execute) -> None:
    """Computes the time from the bytes on the busiest link and the hops, written down for each algorithm."""
    text = question.text
    n, kind, operation = re.match(r"(\d+) devices on a (\w+) run (\w+)", text).groups()  # type: ignore[union-attr]
    n, size = int(n), int(re.search(r"f32\[([\d,]+)\]", text).group(1).replace(",", "")) * 4  # type: ignore[union-attr]
    speed, latency = map(float, re.search(r"has (\d+) GB/s .* of (\d) µs", text).groups())  # type: ignore[union-attr]
    passes = 2 if operation == "psum" else 1
    whole = n * size if operation == "all_gather" else size
    if "halving" in text:
        log = int(math.log2(n))
        if kind == "switch":
            busiest, hops = passes * whole * (n - 1) / n, passes * log
        else:  # in a step of distance d, d messages share a link; between opposite members half goes each way
            steps = [(1 << bit, whole * (1 << bit) / n) for bit in range(log)]
            loads = [message * (d / 2 if 2 * d == n else d) for d, message in steps]
            busiest, hops = passes * sum(loads), passes * (n - 1)
    elif operation == "all_to_all":
        busiest, hops = size * n / 8, n // 2
    else:
        busiest, hops = (
            passes * whole * (n - 1) / n / (2 if "both directions" in text and kind == "ring" else 1),
            passes * (n - 1),
        )
    assert question.verdict(hops * latency + busiest / speed / 1e3), (
        text,
        hops * latency + busiest / speed / 1e3,
        question.answer,
    )


CHECKS: Mapping[str, Check] = {
    "groups": groups_by_execution,
    "order": groups_by_execution,
    "iota": iota_by_execution,
    "group_modes": modes_by_execution,
    "collectives": collective_by_jax,
    "bytes": bytes_by_formula,
    "time": time_by_formula,
}

SLOW_CHECKS = ("groups", "order", "collectives")  # they compile

# ------------------------------------------------------------------ tests


@pytest.mark.parametrize("kind", KINDS)
def test_exercises_of_all_levels_have_right_answers(kind: str, execute: Execute) -> None:
    drill = inspector.drill(kind, seed=11)
    for number in (2, 11) if kind in SLOW_CHECKS else range(1, 20, 2):
        CHECKS[kind](drill.exercise(number), execute)


@pytest.mark.slow
@pytest.mark.timeout(900)  # products are compiled twice each
@pytest.mark.parametrize("first", range(0, 50, 5))
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_exercises_have_right_answers(kind: str, first: int, execute: Execute) -> None:
    """100 exercises in each part; the answers of equal exercises are compared once."""
    texts = set[str]()
    for seed, number in itertools.product(range(first, first + 5), range(1, 21)):
        question = inspector.drill(kind, seed=seed).exercise(number)
        if question.text in texts:
            continue
        CHECKS[kind](question, execute)
        texts.add(question.text)
        for mistake in question.mistakes:
            assert not question.verdict(mistake.answer), (question.text, mistake)
    assert len(texts) > 40


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"collectives"}))
def test_exercises_depend_on_the_seed_and_become_harder(kind: str) -> None:
    first, same, other = inspector.drill(kind, seed=3), inspector.drill(kind, seed=3), inspector.drill(kind, seed=4)
    texts = [question.text for question in itertools.islice(first, 12)]
    assert texts == [same.exercise(number).text for number in range(1, 13)]
    assert texts != [other.exercise(number).text for number in range(1, 13)]
    assert [level_of(number) for number in (1, 3, 4, 9, 10, 1000)] == [1, 1, 2, 3, 4, 6]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"collectives"}))
def test_mistakes_are_wrong_and_have_separate_replies(kind: str) -> None:
    for question in itertools.islice(inspector.drill(kind, seed=5), 20):
        replies = [question.because, *(mistake.reply for mistake in question.mistakes)]
        for mistake in question.mistakes:
            for answer in spellings(question.kind, mistake.answer):
                verdict = question.verdict(answer)
                assert not verdict, (question.text, answer)
                assert verdict.reply in replies


def test_a_right_answer_goes_on_and_a_wrong_one_does_not() -> None:
    drill = inspector.drill("groups", seed=1)
    question = drill.exercise(1)
    assert question.text in " ".join(repr(drill).split())
    assert not drill.check([[0]])
    assert (drill.number, drill.tries, drill.right) == (1, 1, 0)
    assert drill.check().is_right is None
    verdict = drill.check(question.right())
    assert verdict
    assert verdict.reply == f"{question.because}\nNext, level 1: {drill.exercise(2).text}"
    assert (drill.number, drill.tries, drill.right) == (2, 2, 1)
    skipped = drill.skip()
    assert drill.exercise(2).answer in skipped.reply
    assert (drill.number, drill.tries, drill.right, skipped.is_right) == (3, 2, 1, None)


def test_a_drill_without_a_seed_states_its_seed() -> None:
    drill = inspector.drill("iota")
    assert f"(seed {drill.seed})" in " ".join(repr(drill).split())
    assert inspector.drill("iota", seed=drill.seed).exercise(1).text == drill.exercise(1).text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: inspector.drill("group"), "Unknown kind 'group'. Expected one of 'groups', 'order', 'iota'"),
        (lambda: inspector.drill("groups", seed="1"), "Got the seed '1'; expected an integer"),  # type: ignore[arg-type]
        (lambda: inspector.drill("groups", seed=True), "Got the seed True; expected an integer"),
        (lambda: inspector.drill("groups", seed=1).exercise(0), "Got the exercise 0; expected a number from 1 on"),
    ],
)
def test_mistakes_of_a_caller_are_reported(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(words)):
        call()
