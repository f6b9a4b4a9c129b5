"""Totals of the roofline and of the schedule come from one simulation: a fix is never better in one and worse in the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import roofline, schedule
from inspector.compilation.cost import InstructionCost
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.backend_config import collective_algorithm, estimated_cycles
from inspector.hlo.execution_counts import executions
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.widgets.panes.collective_parts.collective_rows import rows_of
from inspector.widgets.panes.collective_parts.price import ESTIMATE, PricedProgram, PriceRequest, priced
from tests.absent import needs_tpu
from tests.analysis.cost.fixes import MESH, Build, array, fixes
from tests.modules import module_of

TARGET = "tpu:v5e:4x2"  # on which JAX places the devices of a mesh of 8 as a ring
TARGETS = (TARGET, "tpu:v5p:2x2x2", "tpu:v6e:4x2")


def compiled(fun: Callable[..., Any], *args: Any, target: str = TARGET) -> Compiled:
    return inspector.lower(fun if hasattr(fun, "lower") else jax.jit(fun), *args, target=target).compile(target=target)


def totals(found: Compiled) -> tuple[float, float, float]:
    """The time of the roofline, of the schedule, and of libtpu's cycles, which leave out the links and most copies."""
    roof, course = found.roofline(), found.schedule()
    assert not isinstance(roof.total.least_s, Unavailable)
    assert not isinstance(course, Unavailable)
    assert sum(float(point.exposed_s) for point in roof.points) == pytest.approx(course.exposed_s)  # type: ignore[arg-type]
    module, peak = found.module(), peak_of(found.target, found.devices)
    assert isinstance(peak, Peak)
    assert not isinstance(peak.clock, Unavailable)
    runs = executions(module)
    cycles = 0.0
    for each in module.instructions():
        counted, often = estimated_cycles(each), runs.get(each.computation.name, 1)
        if not isinstance(counted, Unavailable) and not isinstance(often, Unavailable):
            cycles += counted * often
    return float(roof.total.least_s), course.seconds, cycles / peak.clock.per_s + course.exposed_s


def mlp(x: Any, w: Any) -> Any:
    return jnp.mean(jax.nn.gelu(x @ w) ** 2)


def update(w: Any, g: Any) -> Any:
    return lax.dynamic_update_slice(w, g, (8, 0))


def ring_product(x: Any, w: Any) -> Any:
    """All-gather matmul, decomposed: multiplies the shard of `w` at hand while the next one arrives."""

    def one(x: Any, w: Any) -> Any:
        n, place, total = 8, lax.axis_index("data"), None
        for step in range(n):
            columns = lax.dynamic_slice_in_dim(x, (place - step) % n * w.shape[0], w.shape[0], 1)
            total = columns @ w if total is None else total + columns @ w
            w = lax.ppermute(w, "data", [(j, (j + 1) % n) for j in range(n)]) if step < n - 1 else w
        return total

    return jax.shard_map(one, mesh=MESH, in_specs=(P("data"), P("data")), out_specs=P("data"))(x, w)


def gathered_product(x: Any, w: Any) -> Any:
    def one(x: Any, w: Any) -> Any:
        return x @ lax.all_gather(w, "data", tiled=True)

    return jax.shard_map(one, mesh=MESH, in_specs=(P("data"), P("data")), out_specs=P("data"))(x, w)


BETTER = {
    "donation": True,
    "bfloat16": True,
    "rematerialization": False,  # takes time and saves memory
    "resharding": True,
    "decomposed all-gather product": True,
}
# A cube's chips gather over three axes at once, in 52 µs. By libtpu's own cycles the eight parts of the product, which add to a
# sum, take 281 µs instead of 172 µs for the whole product: more than that saves. On a v6e the gather takes 77 µs and the product
# 83 µs, and each of the seven permutes is exposed for 22 µs in libtpu's schedule.
WORSE = {(target, "decomposed all-gather product") for target in ("tpu:v5p:2x2x2", "tpu:v6e:4x2")}


def pairs(target: str) -> Mapping[str, Callable[[], tuple[Compiled, Compiled]]]:
    def made(fun: Callable[..., Any], *args: Any) -> Compiled:
        return compiled(fun, *args, target=target)

    x32, w32 = array(4096, 1024, spec=P("data")), array(1024, 2048)
    x16, w16 = array(4096, 1024, spec=P("data"), dtype=jnp.bfloat16), array(1024, 2048, dtype=jnp.bfloat16)
    long = (
        array(32768, 8192, spec=P("data"), dtype=jnp.bfloat16),
        array(8192, 1024, spec=P("data"), dtype=jnp.bfloat16),
    )
    big = array(4096, 4096)
    whole, rows = NamedSharding(MESH, P()), NamedSharding(MESH, P("data"))
    return {
        "donation": lambda: (
            made(jax.jit(update), big, array(8, 4096)),
            made(jax.jit(update, donate_argnums=0), big, array(8, 4096)),
        ),
        "bfloat16": lambda: (made(jax.grad(mlp, 1), x32, w32), made(jax.grad(mlp, 1), x16, w16)),
        "rematerialization": lambda: (
            made(jax.grad(lambda x, w: mlp(jax.nn.gelu(x @ w), w.T), 1), x16, w16),
            made(jax.grad(lambda x, w: mlp(jax.checkpoint(lambda v: jax.nn.gelu(v @ w))(x), w.T), 1), x16, w16),
        ),
        "resharding": lambda: (
            made(jax.jit(lambda x: x * 2, out_shardings=whole), x32),
            made(jax.jit(lambda x: x * 2, out_shardings=rows), x32),
        ),
        "decomposed all-gather product": lambda: (made(gathered_product, *long), made(ring_product, *long)),
    }


@needs_tpu
@pytest.mark.parametrize(
    ("target", "fix"),
    [
        pytest.param(target, fix, marks=() if target == TARGET else pytest.mark.slow)
        for target in TARGETS
        for fix in BETTER
    ],
)
def test_roofline_and_schedule_and_cycles_rank_a_fix_alike(target: str, fix: str) -> None:
    before, after = map(totals, pairs(target)[fix]())
    roof, course, cycles = (new / old - 1 for old, new in zip(before, after, strict=True))
    assert course == pytest.approx(roof)
    is_better = BETTER[fix] and (target, fix) not in WORSE
    assert (roof < -0.01) if is_better else (roof > 0.01)
    assert cycles <= 0 if is_better else cycles > 0


def by_cycles(found: Compiled) -> float:
    """The seconds of libtpu's cycles, and of waits for links and for copies, for which it estimates no cycles."""
    module, shown, peak = found.module(), found.schedule(), peak_of(found.target, found.devices)
    assert isinstance(peak, Peak)
    assert not isinstance(peak.clock, Unavailable)
    assert not isinstance(shown, Unavailable)
    runs = executions(module)
    seconds = shown.exposed_s + sum(
        each.end_s - each.start_s for each in shown if each.is_wait and each.bound_by == "memory"
    )
    for each in module.instructions():
        often, cycles = runs.get(each.computation.name, 1), estimated_cycles(each)
        if not isinstance(often, Unavailable) and not isinstance(cycles, Unavailable):
            seconds += often * cycles / peak.clock.per_s
    return seconds


FIXES = [
    pytest.param(target, pair, id=f"{target}-{kind}-{name}")
    for target in TARGETS
    for kind, pairs_of in fixes().items()
    for name, pair in pairs_of.items()
]


@needs_tpu
@pytest.mark.slow
@pytest.mark.parametrize(("target", "pair"), FIXES)
def test_totals_of_a_fix_move_the_same_way(target: str, pair: tuple[Build, Build]) -> None:
    before, after = (build(target) for build in pair)
    roofs = [float(each.roofline().total.least_s) for each in (before, after)]  # type: ignore[arg-type]
    courses = [each.schedule() for each in (before, after)]
    assert [each.seconds for each in courses] == pytest.approx(roofs)  # type: ignore[union-attr]
    roof, cycles = roofs[1] / roofs[0] - 1, by_cycles(after) / by_cycles(before) - 1
    assert abs(roof) > 0.002
    assert roof * cycles > 0


@needs_tpu
@pytest.mark.parametrize("target", ["tpu:v5e:1x1", "tpu:v6e:1x1"])
def test_fills_take_the_time_of_writing_them(target: str) -> None:
    def fills(x: Any) -> Any:
        wide = lax.dynamic_update_slice(jnp.zeros((4096, 2048)), x, (8, 0))
        return jnp.zeros((4096, 2048)), lax.iota(jnp.int32, 1 << 23), wide, jnp.full((8192, 2048), 2, jnp.bfloat16)

    x = jax.ShapeDtypeStruct((8, 2048), jnp.float32)
    found = inspector.lower(fills, x, target=target).compile(target=target)
    peak = peak_of(found.target, found.devices)
    assert isinstance(peak, Peak)
    points = found.roofline().points
    assert {point.opcode for point in points} == {"broadcast", "iota", "pad"}
    written_s = (32 << 20) / peak.memory_bytes_per_s
    assert all(written_s <= float(point.least_s) < 12 * written_s for point in points)  # libtpu's cycles for bfloat16
    assert by_cycles(found) == pytest.approx(float(found.roofline().total.least_s))  # type: ignore[arg-type]


@needs_tpu
def test_the_pane_the_roofline_and_the_schedule_have_one_price() -> None:
    found = compiled(jax.grad(mlp, 1), array(4096, 1024, spec=P("data")), array(1024, 2048))
    collectives = found.collectives()
    (reduce,) = collectives
    chosen = collective_algorithm(next(i for i in found.module().instructions() if i.opcode == "all-reduce"))
    assert reduce.chosen == chosen
    assert str(chosen) == "UniDirection1DRingStrategy"
    price = collectives.price(0, TARGET)
    program = PricedProgram(collectives, collectives, found.target)
    in_pane = priced(
        PriceRequest(
            type="price", id=1, variant=0, program="optimized", name=reduce.name, network=TARGET, algorithm=ESTIMATE
        ),
        program,
    )
    assert in_pane["algorithm_text"] == price.algorithm
    assert in_pane["bytes_per_s"]
    shown_s = in_pane["hops"] * in_pane["latency_s"] + in_pane["busiest_bytes"] / in_pane["bytes_per_s"]
    assert shown_s == pytest.approx(price.known_s)
    pricing = Pricing(collectives.devices, links_of(peak_of(found.target, found.devices), found.target, 8))
    (row,) = rows_of(collectives, pricing)
    assert price.known_s in [cell["value"] for cell in row["cells"]]
    assert price.busiest_bytes == 2 * 7 / 8 * reduce.operand_bytes / 2  # two colors, two links at a corner
    (point,) = (p for p in found.roofline().points if p.name == reduce.name)
    assert point.least_s == price.known_s
    course = found.schedule()
    assert not isinstance(course, Unavailable)
    (interval,) = (each for each in course if each.lane == "links")
    assert interval.end_s - interval.start_s == pytest.approx(price.known_s)
    assert point.exposed_s == pytest.approx(course.exposed_s)


def test_copies_that_share_the_memory_are_in_both_totals() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY main {
  x = f32[1048576]{0} parameter(0)
  start = (f32[1048576]{0:S(1)}, f32[1048576]{0}, u32[]) copy-start(x)
  work = f32[1048576]{0} sine(x)
  done = f32[1048576]{0:S(1)} copy-done(start)
  ROOT r = f32[1048576]{0} add(work, done)
}"""
    module = module_of(text)
    costs = {i.name: InstructionCost(0.0, 0.0, 0.0, 0.0) for i in module.instructions()}
    peak = peak_of(Target("tpu:v5e:1x1"))
    assert isinstance(peak, Peak)
    costs |= {
        name: InstructionCost(0.0, 0.0, bytes_moved, bytes_moved)
        for name, bytes_moved in (("start", 4e6), ("work", 8e6), ("r", 4e6))
    }
    course, total = schedule(module, costs, peak), roofline(module, costs, peak).total
    assert float(total.least_s) == course.seconds == pytest.approx(16e6 / peak.memory_bytes_per_s)  # type: ignore[arg-type]
    assert [(each.name, each.lane, each.is_wait) for each in course] == [
        ("work", "device", False), ("start", "copies", False), ("done", "device", True), ("r", "device", False),
    ]  # fmt: skip
    assert course.exposed_s == 0
