"""Utilization of a matrix unit by a dot, compared with counting tiles one by one."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.cost.matrix_unit import filled, mean_filled, product_sizes
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from tests.absent import needs_tpu
from tests.findings.corpus.cases import TPU
from tests.findings.corpus.record import recorded
from tests.modules import module_of


def dot(m: int, k: int, n: int, batch: int = 1) -> Instruction:
    text = f"""HloModule m

ENTRY main {{
  a = bf16[{batch},{m},{k}]{{2,1,0}} parameter(0)
  b = bf16[{batch},{k},{n}]{{2,1,0}} parameter(1)
  ROOT d = bf16[{batch},{m},{n}]{{2,1,0}} dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}
"""
    return module_of(text).entry.root


def used(m: int, k: int, n: int, side: int) -> float:
    """Multiplications of elements over those of all blocks that are held and all rows of eight that pass them."""
    best = 0.0
    for passing, held in ((m, n), (n, m)):
        blocks = len([*itertools.product(range(0, k, side), range(0, held, side))])
        steps = len(range(0, passing, 8))
        best = max(best, m * k * n / (blocks * side * side * steps * 8))
    return best


@pytest.mark.parametrize("sizes", [(512, 512, 512), (512, 130, 512), (100, 64, 64), (1, 128, 128), (7, 300, 9)])
@pytest.mark.parametrize("side", [128, 256])
def test_utilization_follows_from_the_blocks_of_a_dot(sizes: tuple[int, int, int], side: int) -> None:
    assert filled(dot(*sizes), side) == pytest.approx(used(*sizes, side))
    assert filled(dot(*sizes, batch=3), side) == pytest.approx(used(*sizes, side))


def test_a_convolution_is_a_product_over_its_features() -> None:
    text = """HloModule m

ENTRY main {
  x = bf16[4,16,16,96]{3,2,1,0} parameter(0)
  k = bf16[3,3,96,200]{3,2,1,0} parameter(1)
  ROOT c = bf16[4,16,16,200]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}
"""
    whole = module_of(text).entry.root
    assert filled(whole, 128) == pytest.approx(used(4 * 16 * 16, 96, 200, 128))
    grouped = module_of(
        text.replace("96,200]", "48,200]").replace("->b01f", "->b01f, feature_group_count=2")
    ).entry.root
    assert isinstance(filled(grouped, 128), Unavailable)


def test_the_time_of_several_dots_follows_from_their_utilization() -> None:
    assert mean_filled([(1.0, 100.0), (0.5, 100.0)]) == pytest.approx(200 / 300)
    assert mean_filled([(0.25, 8.0)]) == 0.25


def test_utilization_without_a_matrix_product_is_unavailable() -> None:
    assert isinstance(filled(dot(8, 8, 8), 0), Unavailable)
    assert isinstance(filled(dot(0, 8, 8), 128), Unavailable)
    text = "HloModule m\n\nENTRY main { ROOT x = f32[8]{0} parameter(0) }"
    assert isinstance(filled(module_of(text).entry.root, 128), Unavailable)


@needs_tpu
@pytest.mark.parametrize(("chip", "side"), [("v5e", 128), ("v6e", 256)])
def test_utilization_of_a_compiled_program(chip: str, side: int) -> None:
    shapes = [jax.ShapeDtypeStruct(shape, "bfloat16") for shape in ((104, 200), (200, 300))]
    target = f"tpu:{chip}:1x1"
    found = inspector.lower(jnp.matmul, *shapes, target=target).compile(target=target).roofline()
    assert found.total.filled == pytest.approx(used(104, 200, 300, side))
    assert found.table()["filled"].iloc[-1] == pytest.approx(used(104, 200, 300, side))


def test_a_tpu_has_convolutions_for_products_with_batch_dimensions() -> None:
    for name, sizes in (
        ("experts_with_a_capacity_of_513", {(513, 2048, 4096)}),
        ("heads_of_80", {(1024, 80, 1024), (1024, 1024, 80), (80, 1024, 1024)}),
    ):
        module = recorded(name, TPU).module()
        products = [module.at(row) for row in module.columns.rows_of("convolution".__eq__)]
        assert products
        assert {product_sizes(each) for each in products} <= sizes
