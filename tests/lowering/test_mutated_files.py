"""Damaged module files: a clear error or a module, never a crash of this process, in bounded time and memory."""

from __future__ import annotations

import random
import re
import resource
import time
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.api.opened_file import open_file
from inspector.errors import InspectorError
from inspector.toolchain.schema import Schema, installed_schema

LIMIT_S = 60  # of one file; reading an intact one takes about one


def originals() -> list[bytes]:
    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        y: jax.Array = jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y @ w), x)
        return y.sum()

    shapes = (jax.ShapeDtypeStruct((8, 8), jnp.float32), jax.ShapeDtypeStruct((4, 8), jnp.float32))
    lowered = inspector.lower(step, *shapes, platform="cpu")
    compiled = lowered.compile(target="cpu", products=("buffers",))
    return [
        lowered.hlo.encode(),
        lowered.hlo_proto,
        str(lowered.stablehlo).encode(),
        lowered.program.module,
        compiled.hlo.encode(),
        compiled.buffers.hlo_proto,  # type: ignore[union-attr]
    ]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Returns a copy with one to four random changes: cut, deleted, repeated, swapped or overwritten parts."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 2, 8, 100)))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:start] or b"x"
        elif kind == 1:
            data = data[:start] + data[end:]
        elif kind == 2:
            data = data[:end] + data[start:end] * rng.choice((1, 3, 50)) + data[end:]
        elif kind == 3:
            data = data[:start] + bytes(rng.randrange(256) for _ in range(end - start)) + data[end:]
        elif kind == 4:
            data = (
                data[:start]
                + rng.choice((b"(", b"}", b"-1", b"99999999999999999999", b"\xff", b"%", b"\0"))
                + data[start:]
            )
        else:
            other = rng.randrange(len(data) + 1)
            data = data[:start] + data[other : other + end - start] + data[end:]
    return data


TOKEN = re.compile(rb"[\w.-]+|[^\w\s]")
NUMBERS = (-1, 0, 1, 2, 7, 1 << 31, (1 << 62) + 1)


def mutated_text(data: bytes, rng: random.Random) -> bytes:
    """Returns a text with swapped tokens, a changed number, a changed name or a dropped or repeated line."""
    kind = rng.randrange(4)
    if kind == 0:
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        lines[at : at + 1] = rng.choice(([], [lines[at]] * 2))
        return b"\n".join(lines)
    tokens = list(TOKEN.finditer(data))
    if kind == 1:
        tokens = [token for token in tokens if token[0].isdigit()]
    first, second = sorted(rng.sample(tokens, 2), key=re.Match.start)
    new = str(rng.choice(NUMBERS)).encode() if kind == 1 else second[0]
    last = first[0] if kind == 2 else second[0]  # swapped, or the first replaced
    return data[: first.start()] + new + data[first.end() : second.start()] + last + data[second.end() :]


def mutated_proto(data: bytes, rng: random.Random, schema: Schema) -> bytes:
    """Returns a valid proto with one changed field of an instruction: id, operands, opcode, shape, channel or a dropped one."""
    module: Any = schema.message("xla.HloModuleProto").FromString(data)
    instructions = [each for computation in module.computations for each in computation.instructions]
    one, other = rng.sample(instructions, 2)
    kind = rng.randrange(8)
    if kind == 0:
        one.id = rng.choice((other.id, *NUMBERS))
    elif kind == 1:
        one.operand_ids.append(rng.choice((other.id, *NUMBERS)))
    elif kind == 2:
        del one.operand_ids[:1]
    elif kind == 3:
        one.opcode = rng.choice((other.opcode, "all-reduce", "while", "fusion", "custom-call", "no-such-opcode"))
    elif kind == 4:
        one.shape.CopyFrom(other.shape)
    elif kind == 5:
        one.shape.dimensions.append(rng.choice(NUMBERS))
    elif kind == 6:
        one.channel_id = rng.choice(NUMBERS)
    else:
        one.ClearField(rng.choice([field.name for field, _ in one.ListFields()]))
    return bytes(module.SerializeToString())


def mildly_mutated(files: list[bytes], number: int, rng: random.Random) -> bytes:
    text, proto, stablehlo, _, optimized, _ = files
    if number % 4 == 0:
        return mutated_proto(proto, rng, installed_schema())
    return mutated_text((text, stablehlo, optimized)[number % 4 - 1], rng)


def check(count: int, seed: int, *, mild: bool = False) -> None:
    rng, files = random.Random(seed), originals()
    errors: list[str] = []
    for number in range(count):
        data = mildly_mutated(files, number, rng) if mild else mutated(files[number % len(files)], rng)
        started = time.perf_counter()
        try:
            for program in open_file(data)[:2]:
                program.module().computations  # noqa: B018 - reads all of it
                program.collectives()
        except InspectorError as e:
            errors.append(str(e))
        assert time.perf_counter() - started < LIMIT_S, number
    assert len(errors) > count // 4  # the changes do damage
    assert all(10 < len(error) < 20_000 for error in errors)


@pytest.mark.parametrize(("byte", "kind"), [(b"\0", "a control character"), (b"\xff", "not UTF-8")])
@pytest.mark.parametrize("text", ["HloModule m\nENTRY e {?\n  ROOT a = f32[] parameter(0)\n}\n",
                                  "module @m {?\n  func.func @main() { return }\n}\n"])  # fmt: skip
def test_an_error_states_the_byte_that_no_text_has(text: str, byte: bytes, kind: str) -> None:
    line, column = (2, 10) if text.startswith("Hlo") else (1, 12)
    place = rf"the text as a module: byte 0x{byte.hex()} in line {line}, column {column} is {kind}"
    with pytest.raises(InspectorError, match=place):
        open_file(text.encode().replace(b"?", byte))[:1]


def test_damaged_files_give_clear_errors() -> None:
    check(18, seed=0)


def test_valid_files_with_a_changed_part_open_or_give_clear_errors() -> None:
    check(12, seed=2, mild=True)


@pytest.mark.slow
def test_a_thousand_valid_files_with_a_changed_part() -> None:
    check(1000, seed=3, mild=True)


@pytest.mark.slow
def test_a_thousand_damaged_files() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check(1000, seed=1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
