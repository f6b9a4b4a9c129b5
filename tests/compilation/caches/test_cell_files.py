"""The same cells in another kernel are the same program, told in that kernel's names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from inspector.compilation.caches.cell_files import module_digest, renamed
from inspector.lowering.lower import lower
from inspector.stages.lowered import Lowered
from inspector.toolchain.schema import installed_schema

CELL = "def f(x):\n    return jnp.sin(x) @ x\n"
OTHER = "\n" + CELL  # a line further down


def lowered(file: str, cell: str = CELL) -> Lowered:
    """`f`, as ipykernel compiles a cell of that file name."""
    scope: dict[str, Any] = {"jnp": jnp}
    exec(compile(cell, file, "exec"), scope)
    return lower(scope["f"], jax.ShapeDtypeStruct((8, 8), jnp.float32))


def cell(pid: int, number: int = 123456) -> str:
    return f"/tmp/ipykernel_{pid}/{number}.py"


@pytest.mark.parametrize("pid", [4321, 9, 1234567])
def test_a_restarted_kernel_makes_the_same_program(pid: int) -> None:
    here, there = (lowered(cell(p)).program.module for p in (pid, 4321))
    assert (here == there) == (pid == 4321)
    assert module_digest(here) == module_digest(there)


@pytest.mark.parametrize(
    "other",
    [lambda: lowered(cell(9, 654321)), lambda: lowered(cell(9), OTHER), lambda: lowered("/tmp/9/123456.py")],
    ids=["another cell", "another line", "no cell"],
)
def test_other_differences_are_another_program(other: Callable[[], Lowered]) -> None:
    assert module_digest(other().program.module) != module_digest(lowered(cell(4321)).program.module)


def test_long_names_are_read() -> None:
    """Lengths of more than one byte."""
    here, there = (lowered(f"/{'long/' * 1000}ipykernel_{p}/1.py").program.module for p in (1, 100_000))
    assert module_digest(here) == module_digest(there)


@pytest.mark.parametrize("pid", [9, 1234])
def test_a_program_compiled_elsewhere_gets_the_local_names(pid: int) -> None:
    there, here = (lowered(cell(each)) for each in (4321, pid))
    compiled, wanted = (each.compile(target="cpu") for each in (there, here))
    assert cell(4321) in compiled.hlo
    made = renamed(compiled, here.program.module)
    assert made.hlo == wanted.hlo
    message = installed_schema().message("xla.HloModuleProto")
    ours, theirs = (message.FromString(each.hlo_proto) for each in (made, wanted))
    assert ours.stack_frame_index == theirs.stack_frame_index
    assert ours.computations == message.FromString(compiled.hlo_proto).computations
    assert made._executable == compiled._executable
    assert renamed(wanted, here.program.module) is wanted


def bytecode(strings: list[bytes], rest: bytes) -> bytes:
    """A module in MLIR's form: version, producer, a section of strings and an aligned one of anything else."""
    data = [string + b"\0" for string in strings]
    listed = b"".join(map(_integer, [len(data), *(len(each) for each in reversed(data))])) + b"".join(data)
    head = b"ML\xefR" + _integer(13) + b"producer\0" + b"\0" + _integer(len(listed)) + listed
    start = head + bytes([0x80 | 4]) + _integer(len(rest)) + _integer(8)
    return start + b"\xcb" * (-len(start) % 8) + rest


def _integer(value: int) -> bytes:
    return bytes([value << 1 | 1]) if value < 1 << 7 else (value << 2 | 2).to_bytes(2, "little")


def test_the_form_of_a_digest_stays() -> None:
    """It is the key of what lies on disk."""
    module = bytecode([b"arith", b"/tmp/ipykernel_17/42.py"], b"operations")
    strings = b"arith\0/tmp/ipykernel_/42.py"
    head = b"ML\xefR" + _integer(13) + b"producer\0"
    said = b"-1 %d\n%s0 %d\n%s4 10\noperations" % (len(head), head, len(strings), strings)
    assert module_digest(module) == hashlib.sha256(said).hexdigest()
    plain = bytecode([b"arith"], b"operations")
    assert module_digest(plain) == hashlib.sha256(plain).hexdigest()
    text = b"module @ipykernel_17"
    assert module_digest(text) == hashlib.sha256(b"-1 20\n" + text).hexdigest()


@pytest.mark.parametrize("length", [0, 1, 7, 8, 90, 200])
def test_different_bytecode_of_the_same_length_is_another_program(length: int) -> None:
    one = bytecode([b"ipykernel_1/", b"a" * length], b"operations")
    others = [
        bytecode([b"ipykernel_1/", b"b" * length], b"operations"),
        bytecode([b"ipykernel_1/", b"a" * length], b"operationz"),
        bytecode([b"ipykernel_1/" + b"a" * length, b""], b"operations"),
    ]
    assert [module_digest(other) == module_digest(one) for other in others] == [length == 0, False, length == 0]
