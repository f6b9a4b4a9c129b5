"""`Compiled.memory` of small programs against sums that are made another way: XLA's own text, its totals, the heaps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.memory.timeline import Timeline
from inspector.compilation.memory import ASSIGNMENT, STATISTICS, Memory, MemorySpace, space_name
from inspector.engines.inline import InlineEngine
from inspector.errors import AtLeast, Unavailable
from inspector.hlo.allocation_totals import assigned_bytes
from inspector.stages.compiled import Compiled
from tests.absent import needs_gpu, needs_tpu

TARGETS = [
    pytest.param("cpu"),
    pytest.param("tpu:v5e:1x1", marks=needs_tpu),
    pytest.param("tpu:v6e:1x1", marks=needs_tpu),
    pytest.param("gpu:h100:1", marks=needs_gpu),
]


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _perceptron(weights: Any, x: Any) -> Any:
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x**2).sum()


CONSTANT = jnp.arange(64 * 1024, dtype=jnp.float32).reshape(64, 1024)
PROGRAMS: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda a, b: a @ b, (f32(512, 512), f32(512, 512))),
    "donated": (jax.jit(lambda a, b: a + b * 2, donate_argnums=0), (f32(300, 300), f32(300, 300))),
    "constant": (lambda a: a @ CONSTANT, (f32(128, 64),)),
    "gradient": (jax.grad(_perceptron), ([f32(128, 128)] * 3, f32(32, 128))),
    "loop": (
        lambda x, w: jax.lax.scan(lambda c, u: (jnp.tanh(c @ u), c.sum()), x, w),
        (f32(128, 128), f32(6, 128, 128)),
    ),
    "softmax": (lambda a: jax.nn.softmax(a), (f32(256, 1024),)),
}


def lowered(name: str, target: str) -> inspector.Lowered:
    fun, args = PROGRAMS[name]
    return inspector.lower(fun, *args, platform=target.partition(":")[0])


def known(compiled: Compiled) -> Memory:
    assert isinstance(compiled.memory, Memory)
    return compiled.memory


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_the_sum_of_xlas_allocations(name: str, target: str, tmp_path: Path) -> None:
    """The text that XLA dumps for readers, added up by memory space here."""
    program, platform = lowered(name, target), target.partition(":")[0]
    flags = {"xla_dump_to": str(tmp_path), "xla_dump_hlo_as_text": True}
    program.compile(flags, target=target)  # a dump of the user's, so that XLA is not watched
    texts = [p.read_text() for p in sorted(tmp_path.glob("*after_optimizations-buffer-assignment.txt"))]
    sums: dict[str, int] = {}
    for size, color, rest in re.findall(
        r"^allocation \d+: size (\d+)(?:, color (\d+))?(.*):$", texts[-1], re.MULTILINE
    ):
        if "thread-local" not in rest:
            space = space_name(platform, int(color or 0))
            sums[space] = sums.get(space, 0) + int(size)
    memory = known(program.compile(target=target))
    assert memory.source == ASSIGNMENT
    assert {n: s.allocated_bytes for n, s in memory.spaces.items() if s.allocated_bytes} == {
        n: b for n, b in sums.items() if b
    }
    assert memory.peak_bytes == sums[memory.main]


@pytest.mark.parametrize("target", TARGETS)
def test_memory_does_not_depend_on_other_recordings(target: str) -> None:
    program = lowered("loop", target)
    plain = known(program.compile(target=target))
    for products in (("passes",), ("buffers",), ("passes", "buffers")):
        compiled = program.compile(target=target, products=products)
        assert known(compiled) == plain, products
        timeline = compiled.timeline()
        if isinstance(timeline, Timeline):
            for space, found in plain.spaces.items():
                replayed = timeline.spaces[space]
                assert replayed.allocated_bytes == found.allocated_bytes
                assert replayed.temp_bytes == found.temp_bytes
                assert replayed.live_bytes <= replayed.temp_bytes


def test_an_argument_that_is_donated_is_counted_once() -> None:
    memory = known(lowered("donated", "cpu").compile(target="cpu"))
    assert (memory.argument_bytes, memory.output_bytes, memory.alias_bytes) == (720000, 360000, 360000)
    assert memory.peak_bytes == 720000 + memory.temp_bytes + int(memory.constant_bytes or 0)


def test_the_compilers_own_figures_stand_beside_under_their_names() -> None:
    memory = known(lowered("constant", "cpu").compile(target="cpu"))
    assert not isinstance(memory.reported, Unavailable)
    assert memory.reported["argument_size_in_bytes"] == memory.argument_bytes == 128 * 64 * 4
    assert "peak_memory_in_bytes" in memory.reported
    assert memory.constant_bytes == 64 * 1024 * 4
    assert memory.peak_bytes == memory.argument_bytes + memory.output_bytes + memory.temp_bytes + memory.constant_bytes


def test_statistics_are_the_fallback_with_a_note() -> None:
    reported = {"argument_size_in_bytes": 100, "output_size_in_bytes": 50, "temp_size_in_bytes": 7}
    memory = Memory.told("tpu", reported)
    assert (memory.source, memory.main, memory.temp_bytes) == (STATISTICS, "HBM", 7)
    assert isinstance(memory.peak_bytes, AtLeast)
    assert memory.peak_bytes == 157
    assert isinstance(memory.constant_bytes, Unavailable)
    table = memory.table()
    assert table["constant_bytes"].isna().all()
    assert (
        "constant_bytes, thread_local_bytes: the compiler's own statistics do not include constants"
        in table["unknown"][0]
    )
    assert "own statistics" in repr(memory)


def test_this_process_reads_the_assignment_too() -> None:
    compiled = lowered("gradient", "cpu").compile(engine=InlineEngine())
    assert known(compiled).source == ASSIGNMENT
    assert known(compiled).spaces == known(lowered("gradient", "cpu").compile(target="cpu")).spaces


def test_a_table_and_a_text() -> None:
    spaces = {"HBM": MemorySpace(1024, 512, 0, 4, 2048, 12), "VMEM": MemorySpace(temp_bytes=4096)}
    memory = Memory("HBM", spaces, ASSIGNMENT, {}, 0, 0)
    table = memory.table().set_index("space")
    assert table["allocated_bytes"].to_dict() == {"HBM": 3588, "VMEM": 4096}
    assert str(table["temp_bytes"].dtype) == "Int64"
    assert repr(memory).partition("\n")[0] == (
        "<Memory: HBM 3.5 KiB (arguments 1 KiB, outputs 512 B, constants 4 B, temporaries 2 KiB);"
        " VMEM 4 KiB (temporaries 4 KiB); by XLA's buffer assignment>"
    )


def test_the_text_of_an_assignment_equals_its_proto() -> None:
    text = b"""BufferAssignment:
allocation 0: size 512, thread-local:
 value: <2 reduce_sum.5 @0> (size=512,offset=0): f32[]{:T(128)}
allocation 1: size 655360, parameter 1, shape |f32[10,128,128]| at ShapeIndex {}:
allocation 2: size 65536, maybe-live-out:
allocation 3: size 64, output shape is |(f32[128,128], f32[10])|, maybe-live-out:
allocation 4: size 16, parameter 0, shape |f32[4]| at ShapeIndex {}, maybe-live-out:
allocation 5: size 512, constant:
allocation 6: size 8, color 2, preallocated-temp:
"""
    found = assigned_bytes(text)
    assert found[0] == {
        "argument_bytes": 655376, "output_bytes": 65616, "alias_bytes": 16, "constant_bytes": 512, "temp_bytes": 0,
        "thread_local_bytes": 512,
    }  # fmt: skip
    assert found[2]["temp_bytes"] == 8
