"""The passes of random sharded programs: one way from the first module to the optimized HLO, each change in one pass."""

from __future__ import annotations

import functools
import itertools
import re

import pytest

import inspector
from inspector.compilation.records.dump_names import NOT_PASSES, START
from inspector.errors import Unavailable
from inspector.hlo.opcodes import COLLECTIVES
from inspector.stages.compiled import Compiled
from inspector.stages.passes import CompilerPasses
from tests.absent import needs_gpu, needs_tpu
from tests.sharded_programs import sharded_program

GPU, TPU = "gpu:h100:8", "tpu:v5e:2x4"
TARGETS = ["cpu:8", pytest.param(GPU, marks=needs_gpu), pytest.param(TPU, marks=needs_tpu)]
COLLECTIVE = re.compile(rf" ({'|'.join(COLLECTIVES)})(-start)?\(")


@functools.lru_cache(maxsize=4)
def compiled(seed: int, target: str) -> Compiled:
    fun, arguments = sharded_program(seed)
    return inspector.lower(fun, *arguments, target=target).compile(target=target, products=("passes",))


def passes_of(seed: int, target: str) -> CompilerPasses:
    found = compiled(seed, target).passes
    assert not isinstance(found, Unavailable)
    return found


def check_chain(seed: int, target: str) -> None:
    """Each step begins where the one before ended, from the first text to the optimized HLO."""
    passes = passes_of(seed, target)
    steps = passes.steps
    assert steps[0].before_index == passes[0].before_index == passes.history.text_at(0)
    assert all(step.changed for step in steps)
    for one, other in itertools.pairwise(steps):
        assert other.before_index == one.after_index, (one, other)
    assert steps[-1].after_index == passes[-1].after_index
    # Texts are numbered as XLA wrote them: each is within one step.
    if all(step.before_index < step.after_index for step in steps):
        for text in range(1, len(passes[0].texts)):
            assert sum(step.before_index < text <= step.after_index for step in steps) == 1, text
    assert not any(step.is_part or step.name == START for step in steps)
    assert sum(step.name in NOT_PASSES for step in steps) < len(steps) / 4
    last = passes.history.snapshots.places(steps[-1].after_index).keys()
    optimized = compiled(seed, target).module()
    assert last <= {i.name for i in optimized.instructions()}
    # Newer snapshots have no names for elements of tuples.
    assert {i.name for i in optimized.entry.instructions if i.opcode != "get-tuple-element"} <= last


def check_partitioner(seed: int, target: str) -> None:
    """One pass splits the program: before it there are no collectives, after it there are all that it inserted."""
    (step,) = [each for each in passes_of(seed, target).steps if each.name.endswith("spmd-partitioning")]
    assert not COLLECTIVE.search(step.before)
    assert "partition-id" not in step.before
    opcodes = {found[0] for found in COLLECTIVE.findall(step.after)}
    assert opcodes or not len(compiled(seed, target).collectives())
    inserted = passes_of(seed, target).change(step)
    named = {name for event in inserted.words.events for name in event.after}
    lines = [line for line in step.after.split("\n") if COLLECTIVE.search(line)]
    assert all(line.split("%")[1].split(" ")[0] in named for line in lines)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", [2, 7])
def test_the_steps_lead_from_the_first_module_to_the_optimized_hlo(seed: int, target: str) -> None:
    check_chain(seed, target)
    check_partitioner(seed, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(100, 120))
def test_they_do_for_many_programs(seed: int, target: str) -> None:
    check_chain(seed, target)
    check_partitioner(seed, target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_whole_way_names_the_collectives(target: str) -> None:
    passes = passes_of(2, target)
    whole = passes.between(None, None)
    text = "\n".join(passes.history.snapshots.lines[n] for n in whole.new.tolist())
    assert COLLECTIVE.search(text)
    assert whole.new.tolist() == passes.history.snapshots.state(passes[-1].after_index).numbers.tolist()
