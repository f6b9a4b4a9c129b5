"""Fingerprints: equal whatever names and metadata say, different where a program is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.diff.fingerprint import (
    ASPECTS,
    Fingerprint,
    changes,
    code_digest,
    fingerprint,
    module_digest,
    reliable,
)
from inspector.compilation.memory import Memory
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.module import Module
from inspector.stages.compiled import Compiled
from tests.modules import changed, module_of, proto_of

X = jax.ShapeDtypeStruct((64, 64), jnp.float32)


def step(x: jax.Array, y: jax.Array) -> tuple[jax.Array, ...]:
    z = jax.lax.fori_loop(0, 3, lambda i, z: jnp.tanh(z @ y), x)
    return jnp.exp(z) - y.T, jnp.sort(x), jnp.linalg.eigh(x)[0]


@pytest.fixture(scope="module")
def engine() -> Iterator[WorkerEngine]:
    made = WorkerEngine()
    yield made
    made.close()


@pytest.fixture(scope="module")
def compiled(engine: WorkerEngine) -> Compiled:
    return inspector.lower(step, X, X).compile(target="cpu", engine=engine)


def with_module(compiled: Compiled, change: Callable[[Any], None]) -> Module:
    proto = proto_of(compiled.module())
    change(proto)
    return changed(proto)


def renamed(proto: Any) -> None:
    """Other names, other ids, no metadata: everything that says nothing."""
    proto.name = "other"
    proto.id += 17
    for computation in proto.computations:
        computation.name = f"renamed_{computation.name}"
        offset = 1 << 20
        for instruction in computation.instructions:
            instruction.name = f"x.{instruction.name}"
            instruction.id += offset
            instruction.ClearField("metadata")
            for field in (instruction.operand_ids, instruction.control_predecessor_ids):
                field[:] = [i + offset for i in field]
        computation.root_id += offset


def test_names_and_metadata_do_not_count(compiled: Compiled) -> None:
    other = with_module(compiled, renamed)
    assert other.columns.data != compiled.hlo_proto
    assert module_digest(other) == module_digest(compiled.module())


def test_another_call_line_does_not_count(compiled: Compiled, engine: WorkerEngine) -> None:
    again = inspector.lower(
        step, X, X
    ).compile(target="cpu", engine=engine)  # fmt: skip
    assert again.hlo_proto != compiled.hlo_proto
    assert fingerprint(again) == fingerprint(compiled)


def entry_of(proto: Any) -> Any:
    return next(c for c in proto.computations if c.id == proto.entry_computation_id)


def instructions_of(proto: Any, opcode: str) -> list[Any]:
    return [i for computation in proto.computations for i in computation.instructions if i.opcode == opcode]


def swap_operands(proto: Any) -> None:
    instruction = instructions_of(proto, "subtract")[0]
    instruction.operand_ids[:] = list(instruction.operand_ids)[::-1]


def change_attribute(proto: Any) -> None:
    instructions_of(proto, "compare")[0].comparison_direction = "GE"


def change_constant(proto: Any) -> None:
    constant = next(i for i in instructions_of(proto, "constant") if i.literal.s32s)
    constant.literal.s32s[0] += 1


def change_layout(proto: Any) -> None:
    instructions_of(proto, "fusion")[0].shape.layout.minor_to_major[:] = [0, 1]


def change_backend_config(proto: Any) -> None:
    instructions_of(proto, "fusion")[0].backend_config = b'{"outer_dimension_partitions":["7"]}'


def change_alias(proto: Any) -> None:
    proto.input_output_alias.entries.add().parameter_number = 1


@pytest.mark.parametrize(
    "change", [swap_operands, change_attribute, change_constant, change_layout, change_backend_config, change_alias]
)
def test_changes_of_the_computation_change_the_digest(compiled: Compiled, change: Callable[[Any], None]) -> None:
    assert module_digest(with_module(compiled, change)) != module_digest(compiled.module())


def exchange_independent(proto: Any) -> None:
    """Two neighbors in the schedule of which neither needs the other change places."""
    computation = entry_of(proto)
    parameters = [n for n, i in enumerate(computation.instructions) if i.opcode == "parameter"]
    first, second = (computation.instructions[n] for n in parameters[:2])
    kept = type(first)()
    kept.CopyFrom(first)
    first.CopyFrom(second)
    second.CopyFrom(kept)


def test_the_schedule_counts_and_mere_order_does_not(compiled: Compiled) -> None:
    def unscheduled(proto: Any) -> None:
        proto.ClearField("schedule")

    def both(proto: Any) -> None:
        unscheduled(proto)
        exchange_independent(proto)

    assert compiled.module().proto.schedule.sequences, "the CPU schedules its modules"
    assert module_digest(with_module(compiled, exchange_independent)) != module_digest(compiled.module())
    assert module_digest(with_module(compiled, both)) == module_digest(with_module(compiled, unscheduled))


TWO_CALLS = """HloModule calls

{name}inner {{
  p = f32[8]{{0}} parameter(0)
  a = f32[8]{{0}} cosine(p)
  b = f32[8]{{0}} sine(p){inner}
  ROOT r = f32[8]{{0}} add(a, b)
}}

{name}outer {{
  p = f32[8]{{0}} parameter(0)
  ROOT c = f32[8]{{0}} call(p), to_apply={name}inner
}}
"""
ENTRY = """
ENTRY main {
  x = f32[8]{0} parameter(0)
  y = f32[8]{0} call(x), to_apply=first_outer
  ROOT z = f32[8]{0} call(y), to_apply=second_outer
}
"""


@pytest.mark.parametrize("level", ["inner", "outer"])
def test_the_order_in_one_of_two_equal_computations_counts(level: str) -> None:
    def digest(first: str, second: str) -> str:
        text = TWO_CALLS.format(name="first_", inner=first) + TWO_CALLS.partition("\n")[2].format(
            name="second_", inner=second
        )
        main = ENTRY if level == "outer" else ENTRY.replace("_outer", "_inner")
        return module_digest(module_of(text + main))

    ordered = ", control-predecessors={a}"
    digests = [digest(first, second) for first in ("", ordered) for second in ("", ordered)]
    assert len(set(digests)) == 4
    assert digest("", ordered) == digests[1]


def test_damaged_module(compiled: Compiled) -> None:
    def damage(proto: Any) -> None:
        swap = next(i for i in entry_of(proto).instructions if i.operand_ids)
        swap.operand_ids[0] = 123456789

    def turn_round(proto: Any) -> None:
        entry = entry_of(proto)
        first = next(i for i in entry.instructions if i.operand_ids)
        first.operand_ids[0] = entry.instructions[-1].id

    with pytest.raises(ModuleError, match="does not precede it"):
        module_digest(with_module(compiled, turn_round))
    with pytest.raises(ModuleError, match="refers to instruction 123456789, which it does not have"):
        module_digest(with_module(compiled, damage))


@pytest.mark.slow
def test_the_same_compile_in_other_processes(compiled: Compiled) -> None:
    """The ground that all rests on: nothing in a fingerprint is by chance."""
    for _ in range(2):
        other = WorkerEngine()
        try:
            for _ in range(2):
                again = inspector.lower(step, X, X).compile(target="cpu", engine=other)
                assert fingerprint(again) == fingerprint(compiled)
        finally:
            other.close()
    assert all(isinstance(getattr(fingerprint(compiled), aspect), str) for aspect in ASPECTS)


def test_names_in_machine_code_do_not_count(engine: WorkerEngine) -> None:
    text = """HloModule m
    ENTRY e { p = f32[64]{0} parameter(0) ROOT NAME = f32[64]{0} cosine(p) }"""
    one, other = (
        inspector.lower(text.replace("NAME", name)).compile(target="cpu", engine=engine)
        for name in ("alpha_cosine", "beta_cosine")
    )
    assert isinstance(one._executable, bytes)
    assert b"alpha_cosine" in one._executable
    assert b"alpha_cosine" not in other._executable
    assert fingerprint(one) == fingerprint(other)
    sine = inspector.lower(text.replace("cosine", "sine")).compile(target="cpu", engine=engine)
    assert code_digest(sine._executable) != code_digest(one._executable)


@pytest.mark.parametrize("junk", [b"", b"\xff" * 40, b"\x00", b"\x05abc", b"\x01\x00\x0a\x02hi"])
def test_executables_that_cannot_be_read(junk: bytes) -> None:
    assert isinstance(code_digest(junk), Unavailable)


def test_every_cut_of_an_executable(compiled: Compiled) -> None:
    whole = code_digest(compiled._executable)
    assert isinstance(compiled._executable, bytes)
    for length in range(0, len(compiled._executable) - 1, 97):
        found = code_digest(compiled._executable[:length])
        assert isinstance(found, Unavailable) or found != whole


def test_changes(compiled: Compiled) -> None:
    assert not isinstance(compiled.memory, Unavailable)
    assert not isinstance(compiled.cost, Unavailable)
    base = fingerprint(compiled)
    assert isinstance(compiled.memory, Memory)
    spaces = {name: dataclasses.replace(space, temp_bytes=1) for name, space in compiled.memory.spaces.items()}
    memory = fingerprint(dataclasses.replace(compiled, memory=dataclasses.replace(compiled.memory, spaces=spaces)))
    cost = fingerprint(dataclasses.replace(compiled, cost=dataclasses.replace(compiled.cost, flops=1.0)))
    none = dict.fromkeys(ASPECTS, False)
    assert changes(base, base) == none
    assert changes(base, memory) == {**none, "memory": True}
    assert changes(base, cost) == {**none, "cost": True}
    unknown = fingerprint(dataclasses.replace(compiled, cost=Unavailable("no cost here")))
    assert changes(base, unknown) == {**none, "cost": Unavailable("no cost here")}


@pytest.mark.slow
def test_reliable_omits_random_differences() -> None:
    first, second = Fingerprint("h", "m", "c", "x"), Fingerprint("h", "m", "c", "y")
    kept = reliable(first, second)
    assert (kept.hlo, kept.memory, kept.cost) == ("h", "m", "c")
    assert isinstance(kept.code, Unavailable)
    assert "two compiles" in kept.code.reason
    assert reliable(first, first) == first
