"""How a grid walks over blocks, checked against a walk step by step."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import inspector
from inspector._jax.lowering import traced
from inspector.analysis.pallas.grid_walk import Visits, operand_table, visits
from inspector.errors import Unavailable
from inspector.hlo.pallas import MAX_STEPS, Operand
from inspector.hlo.source import Root
from inspector.lowering.pallas import kernels_of
from inspector.stages.kernel import Kernel
from tests.kernels import matmul, scale, struct


def kernel(fun: Any, *args: Any, **options: Any) -> Kernel:
    return inspector.lower(fun, *args, platform="tpu", **options).kernels[0]


def windows(
    shape: tuple[int, ...], spec: pl.BlockSpec, grid: tuple[int, ...], *, output: pl.BlockSpec | None = None
) -> Kernel:
    """A kernel with one input, or one output, of that walk; traced only, so that it may be what no compiler takes."""

    def fun(x: Any) -> Any:
        return pl.pallas_call(
            lambda x, o: None,
            out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
            grid=grid,
            in_specs=[spec],
            out_specs=output or spec,
        )(x)

    facts = traced.jaxpr_facts(jax.make_jaxpr(fun)(struct(*shape)), MAX_STEPS)
    return kernels_of(facts.kernels, Root())[0]


def of(found: Visits | Unavailable) -> Visits:
    assert isinstance(found, Visits)
    return found


def walk(operand: Operand) -> dict[str, Any]:
    """The same by a walk: sets of elements, one step after the other."""
    elements: list[frozenset[tuple[int, ...]]] = []
    starts = operand.starts
    assert isinstance(starts, np.ndarray)
    for start in starts:
        ranges = [range(s, s + size) for s, size in zip(start, operand.block_shape, strict=True)]
        elements.append(frozenset((i, j) for i in ranges[0] for j in ranges[1]))
    copies, left, back = [elements[0]], set(), set()
    for before, now in itertools.pairwise(elements):
        if now != before:
            left.add(before)
            back |= {now} & left
            copies.append(now)
    inside = {e for block in elements for e in block if all(0 <= i < n for i, n in zip(e, operand.shape, strict=True))}
    distinct = list(dict.fromkeys(elements))
    return {
        "blocks": len(distinct),
        "copies": len(copies),
        "revisited": len(back),
        "overlapping": sum(any(a & b for b in distinct if b != a) for a in distinct),
        "covered": len(inside),
    }


@pytest.mark.parametrize(
    ("spec", "grid"),
    [
        (pl.BlockSpec((8, 8), lambda i, j: (i, j)), (2, 3)),
        (pl.BlockSpec((8, 8), lambda i, j: (j, 0)), (3, 2)),  # revisits every block
        (pl.BlockSpec((8, 8), lambda i, j: (i, 0)), (2, 3)),  # keeps it along j
        (pl.BlockSpec((8, 8), lambda i, j: (0, 0)), (2, 2)),
        (pl.BlockSpec((pl.Element(12), pl.Element(8)), lambda i, j: (i * 4, j * 8)), (2, 2)),  # overlaps
        (pl.BlockSpec((pl.Element(6, (2, 2)), pl.Element(8)), lambda i, j: (i * 4, j * 8)), (4, 2)),
        (pl.BlockSpec((12, 8), lambda i, j: (i, j)), (2, 3)),  # reaches beyond 16 rows
        (pl.BlockSpec((None, 8), lambda i, j: (i, j)), (3, 3)),
    ],
)
def test_visits_agree_with_a_walk_step_by_step(spec: pl.BlockSpec, grid: tuple[int, ...]) -> None:
    operand = windows((16, 24), spec, grid)
    found, expected = of(visits(operand)[0]), walk(operand.operands[0])
    assert not isinstance(found.overlapping, Unavailable)
    assert {
        "blocks": found.block_count,
        "copies": found.copy_count,
        "revisited": int(found.revisited.sum()),
        "overlapping": int(found.overlapping.sum()),
        "covered": found.covered_elements,
    } == expected
    assert np.array_equal(found.starts[found.block_of_step], operand.operands[0].starts)  # type: ignore[arg-type]


def test_visits_of_the_matmul() -> None:
    table = operand_table(kernel(lambda x, y: matmul(x, y, bm=256), struct(512, 512), struct(512, 512)))
    assert list(table["blocks"]) == [8, 16, 8]
    assert list(table["copies"]) == [32, 32, 8]  # the output stays while the contraction runs
    assert list(table["copied_bytes"]) == [32 * 131072, 32 * 65536, 8 * 131072]
    assert list(table["revisited"]) == [8, 16, 0]


def test_a_good_kernel_has_no_remarks() -> None:
    assert [of(v).remarks for v in visits(kernel(scale, struct(64, 128)))] == [(), ()]


def test_remarks_describe_problems() -> None:
    back = windows(
        (16, 24), pl.BlockSpec((8, 8), lambda i, j: (i, j)), (2, 2), output=pl.BlockSpec((8, 24), lambda i, j: (j, 0))
    )
    (left,) = of(visits(back)[1]).remarks
    assert left.startswith("o: 2 blocks are revisited after other blocks; on a TPU, earlier writes are lost.")
    missing = windows((16, 24), pl.BlockSpec((8, 8), lambda i: (i, 0)), (2,))
    assert of(visits(missing)[1]).remarks == ("o: 256 of 384 elements are not in any block and stay undefined.",)
    ragged = windows((12, 24), pl.BlockSpec((8, 24), lambda i: (i, 0)), (2,))
    assert of(visits(ragged)[0]).remarks == ("x: 1 block extends beyond the array; the elements there are undefined.",)


def test_overlapping_blocks_are_reported_with_their_effect() -> None:
    spec = pl.BlockSpec((pl.Element(12), pl.Element(8)), lambda i, j: (i * 4, j * 8))
    given, made = (of(each) for each in visits(windows((16, 24), spec, (2, 2))))
    assert "x: 4 blocks overlap; the shared elements are read more than once." in given.remarks
    assert "o: 4 blocks overlap; the last write wins." in made.remarks


def test_blocks_too_many_to_compare_are_not() -> None:
    spec = pl.BlockSpec((pl.Element(8), pl.Element(8)), lambda i: (i * 4, 0))
    (at_most, _), (too_many, _) = (visits(windows((4 * n + 4, 8), spec, (n,))) for n in (2048, 2049))
    assert of(at_most).covered_elements == (4 * 2048 + 4) * 8
    for found in (of(too_many).overlapping, of(too_many).covered_elements):
        assert isinstance(found, Unavailable)
        assert found.reason == "2,049 blocks are too many to compare with one another"
    table = operand_table(windows((4 * 2049 + 4, 8), spec, (2049,)))
    assert list(table["overlapping"].isna()) == [True, True]
    assert list(table["blocks"]) == [2049, 2049]


def test_a_scalar_is_one_block() -> None:
    found = of(visits(windows((), pl.BlockSpec((), lambda i: ()), (3,)))[0])
    assert (found.block_count, found.copy_count, found.covered_elements) == (1, 1, 1)
    assert found.block_of_step.tolist() == [0, 0, 0]


def test_a_block_that_cores_would_share_is_a_race() -> None:
    def semantics(*said: str) -> Visits:
        params = {"matmul": {"dimension_semantics": said}}
        return of(visits(kernel(matmul, struct(256, 256), struct(256, 256), compiler_params=params))[2])

    assert semantics("parallel", "parallel", "arbitrary").racing_dimensions == ()
    racing = semantics("parallel", "parallel", "parallel")
    assert racing.racing_dimensions == (2,)
    assert racing.remarks[0].startswith("o_ref has the same block along grid dimension 2, which is declared parallel")


def test_visits_known_only_at_run_time_are_unavailable() -> None:
    def fun(rows: Any, x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, rows: (rows[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, rows: (i, 0)),
        )  # fmt: skip
        return pl.pallas_call(lambda r, x, o: None, grid_spec=spec, out_shape=struct(32, 128))(rows, x)

    some = kernel(fun, struct(4, dtype=jnp.int32), struct(64, 128))
    assert isinstance(visits(some)[0], Unavailable)
    assert operand_table(some)["copies"].isna().tolist() == [True, False]
