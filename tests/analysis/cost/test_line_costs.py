"""Costs of lines: the lines of every text sum to the program's totals, and costs are on the lines that cause them."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo

import inspector
from benchmarks.workloads import make
from inspector.analysis.cost.line_costs import Amounts, LineCosts, line_costs
from inspector.analysis.cost.roofline import roofline
from inspector.analysis.hlo_listing import hlo_listing
from inspector.compilation.cost import InstructionCost
from inspector.engines.inline import InlineEngine
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.source import Root
from inspector.platforms import Peak
from inspector.stages.compiled import instruction_costs
from tests.modules import module_of

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")
TEXTS = ("source", "jaxpr", "stablehlo", "hlo", "optimized")
N = 64
A = np.ones((N, N), np.float32)


def of(fun: Any, *arguments: Any, peak: Peak | None = ROOFS) -> LineCosts:
    lowered = inspector.lower(fun, *arguments)
    return lowered.line_costs(lowered.compile(engine=InlineEngine()), peak)


def summed(found: LineCosts, text: str) -> Amounts:
    return sum((cost.amounts for cost in found.on(text)), Amounts())


def line_of(fun: Any, code: str) -> int:
    lines, first = inspect.getsourcelines(fun)
    return first + next(n for n, line in enumerate(lines) if code in line)


def layer(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w)


def loss(w: Any, x: Any) -> Any:
    again = jax.checkpoint(layer)
    h = jax.lax.scan(lambda c, _: (again(w, c), None), x, None, length=3)[0]
    return jnp.sum(h**2)


@pytest.mark.parametrize("name", ["mlp", pytest.param("tf1", marks=pytest.mark.slow), "looped"])
def test_the_lines_of_every_text_sum_up_to_the_program(name: str) -> None:
    fun, arguments = (jax.grad(loss), (A, A)) if name == "looped" else (make(name).fun, make(name).args)
    lowered = inspector.lower(fun, *arguments)
    compiled = lowered.compile(engine=InlineEngine())
    found, points = lowered.line_costs(compiled, ROOFS), compiled.roofline(ROOFS).points
    assert tuple(found.listings) == TEXTS
    assert found.total.flops == pytest.approx(sum(float(p.flops) for p in points if p.flops is not NONE))
    assert found.total.main_memory_bytes == pytest.approx(sum(float(p.main_memory_bytes) for p in points))
    assert found.total.least_s == pytest.approx(sum(float(p.least_s) for p in points))
    for text in TEXTS:
        assert summed(found, text).values == pytest.approx(found.total.values), text
        lost = [cost.amounts.flops for cost in found.on(text) if cost.line is None]
        assert sum(lost) < 0.05 * found.total.flops, text


def fused(x: Any, w: Any) -> Any:
    y = x @ w
    z = jnp.sin(y)
    return z * 2 + 1


def test_operations_stand_at_the_line_that_computes_them_though_one_kernel_does_all() -> None:
    found = of(fused, A, A)
    table = found.table("source").set_index("line")
    assert table.loc[line_of(fused, "x @ w"), "flops"] == 2 * N**3
    assert table.loc[line_of(fused, "z * 2"), "flops"] == 2 * N**2
    assert set(table.index[table["flops"] > 0]) == {
        line_of(fused, "x @ w"),
        line_of(fused, "z * 2"),
    }  # a sine is no flop
    assert table.loc[line_of(fused, "x @ w"), "text"].strip() == "y = x @ w"
    stablehlo = found.table("stablehlo")
    product = stablehlo[stablehlo["text"].str.contains("dot_general")]
    assert product["flops"].tolist() == [2 * N**3]


def test_loop_bodies_count_once_per_iteration_and_phases_are_separate() -> None:
    found = of(jax.grad(loss), A, A)
    table = found.table("source")
    products = table[table["line"] == line_of(layer, "x @ w")].set_index("phase")["flops"]
    assert set(products.index) == {"forward", "backward", "recomputed"}
    assert products["forward"] >= 3 * 2 * N**3
    assert products["recomputed"] >= 2 * N**3
    assert products["backward"] >= 2 * 3 * 2 * N**3  # two products for each of the forward pass's


def library(x: Any) -> Any:
    return jax.nn.softmax(x)


def test_costs_in_a_library_belong_to_the_calling_line() -> None:
    found = of(library, A)
    table = found.table("source")
    assert set(table["line"]) == {line_of(library, "softmax")}
    assert table["flops"].sum() == pytest.approx(found.total.flops)


def test_costs_without_a_line_are_listed_separately() -> None:
    text = """HloModule none
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  ROOT %add = f32[8]{0} add(%x, %x)
}"""
    lowered = inspector.lower(text)
    compiled = lowered.compile(engine=InlineEngine())
    silent = Listing.of("add", [()])
    listings = {"stablehlo": silent, "optimized": hlo_listing(compiled.hlo, compiled.module(), lowered.root)}
    found = line_costs(compiled.module(), listings, compiled.roofline(ROOFS), NONE)
    assert [cost.line for cost in found.on("stablehlo")] == [None]
    assert found.table("stablehlo")["flops"].tolist() == [found.total.flops] == [8]
    assert found.table("stablehlo")["line"].isna().all()
    (cost,) = (cost for cost in found.on("optimized") if cost.amounts.flops)
    assert cost.line is not None
    assert "add" in found.listings["optimized"].text.split("\n")[cost.line]


def test_an_inlined_computation_has_its_cost_on_its_line() -> None:
    module = module_of("""HloModule m, is_scheduled=true
ENTRY %main (x: f32[8]) -> f32[4] {
  %x = f32[8]{0} parameter(0)
  %cut-start = ((f32[8]{0}), f32[4]{0}, s32[]) slice-start(%x), slice={[0:4]}
  ROOT %cut-done = f32[4]{0} slice-done(%cut-start)
}""")
    inside = [i for i in module.instructions() if i.opcode == "slice"]
    cost = {i.name: InstructionCost(0.0, 0.0, 0.0, 0.0) for i in module.instructions()}
    cost[inside[0].name] = InstructionCost(0.0, 0.0, 32.0, 32.0)
    text = _hlo.HloModule.from_serialized_hlo_module_proto(module.columns.data).to_string()
    listings = {"optimized": hlo_listing(text, module, Root())}
    found = line_costs(module, listings, roofline(module, cost, ROOFS), NONE)
    table = found.table("optimized")
    moved = table[table["main_memory_bytes"] > 0]
    assert moved["main_memory_bytes"].tolist() == [32]
    assert "slice-start(" in moved["text"].item()


def test_unknown_parts_are_named_and_times_without_roofs_are_missing() -> None:
    lowered = inspector.lower(fused, A, A)
    compiled = lowered.compile(engine=InlineEngine())
    first = compiled.roofline(ROOFS).points[0].name
    costs = instruction_costs(compiled) | {first: InstructionCost(NONE, NONE, NONE, NONE)}
    found = lowered.line_costs(compiled)
    assert isinstance(found.least_s, Unavailable)
    assert found.table("source")["least_s"].isna().all()
    assert isinstance(found.peak, Unavailable)
    assert found.unknown == ()
    doubtful = line_costs(compiled.module(), found.listings, roofline(compiled.module(), costs, ROOFS), NONE)
    assert [part.name for part in doubtful.unknown] == [first]
    with pytest.raises(
        ParameterError, match="Unknown text 'python'; expected one of source, jaxpr, stablehlo, hlo, optimized"
    ):
        found.on("python")


def kept(x: Any, w: Any) -> Any:
    def inner(w: Any) -> Any:
        a = jnp.sin(x @ w)
        return jnp.sum(jnp.cos(a @ w))

    return jax.grad(inner)(w)


def test_memory_at_the_peak_stands_at_the_lines_that_made_it() -> None:
    lowered = inspector.lower(kept, A, A)
    compiled = lowered.compile(products=("buffers",))
    found, timeline = lowered.line_costs(compiled), compiled.timeline()
    assert not isinstance(timeline, Unavailable)
    assert found.peak is True
    temporaries = [life for life in timeline.alive("RAM") if life.kind == "temporary"]
    assert found.total.peak_bytes == sum(life.byte_size for life in temporaries) > 0
    for text in TEXTS:
        assert summed(found, text).peak_bytes == pytest.approx(found.total.peak_bytes)
    pairs = itertools.pairwise(cost.line for cost in found.on("source") if cost.line is not None)
    assert all(one <= other for one, other in pairs)


def test_the_time_of_the_program_is_that_of_the_roofline() -> None:
    def either(flag: Any, x: Any) -> Any:
        return jax.lax.cond(flag, lambda x: (x @ x) @ x, lambda x: x @ x, x)

    lowered = inspector.lower(either, True, A)
    compiled = lowered.compile(engine=InlineEngine())
    found = lowered.line_costs(compiled, ROOFS)
    assert found.program_s == compiled.roofline(ROOFS).total.least_s
    assert not isinstance(found.program_s, Unavailable)
    assert found.total.least_s > 2 * found.program_s  # both branches


def test_without_a_source_the_table_is_of_the_first_text() -> None:
    scope: dict[str, Any] = {}
    exec(compile("f = lambda a, b: (a @ b).sum()", "<no such file>", "exec"), {}, scope)
    lowered = inspector.lower(scope["f"], np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))
    costs = lowered.line_costs(lowered.compile())
    assert "source" not in costs.listings
    assert costs.table().equals(costs.table("jaxpr"))
