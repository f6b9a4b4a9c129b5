"""The rules of the lesson on sharded matrices hold for products of all shapes, as XLA compiles them."""

from __future__ import annotations

import itertools

import jax
import pytest

from inspector.course.programs import compiled_collectives, mesh, split

Spec = tuple[str | None, str | None]
SPECS: tuple[Spec, ...] = (
    (None, None), ("x", None), ("y", None), (None, "x"), (None, "y"), ("x", "y"), ("y", "x"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(512, 512, 512), (4096, 512, 64), (64, 512, 4096), (64, 4096, 64)], ids=str)
def test_the_four_cases(shape: tuple[int, int, int]) -> None:
    i_size, j_size, k_size = shape
    on, product = mesh(x=4, y=2), jax.jit(lambda a, b: a @ b)
    counted = dict.fromkeys(("whole", "one side", "both sides", "clash"), 0)
    for a, b in itertools.product(SPECS, SPECS):
        (i, j_of_a), (j_of_b, k) = a, b
        found = compiled_collectives(product, split(on, (i_size, j_size), *a), split(on, (j_size, k_size), *b))
        opcodes, axes = [one.opcode for one in found], [one.axes for one in found]
        if i is not None and i == k:
            counted["clash"] += 1
            assert "all-gather" in opcodes
        elif j_of_a is None and j_of_b is None:
            counted["whole"] += 1
            assert opcodes == []
        elif j_of_a == j_of_b:
            counted["both sides"] += 1
            assert (opcodes, axes) == (["all-reduce"], [(j_of_a,)])
        else:
            counted["one side"] += 1
            assert {"all-gather", "all-reduce"} & set(opcodes)
    assert counted == {"whole": 7, "one side": 28, "both sides": 6, "clash": 8}
