"""Rooflines by hand: kernels of known cost under round roofs."""

from __future__ import annotations

import dataclasses
import functools
import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import inspector
from inspector.analysis.cost.kernels import kernels, structure
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import roofline
from inspector.analysis.cost.roofline_columns import GROUP_COLUMNS, KERNEL_COLUMNS, KernelRow
from inspector.compilation.cost import InstructionCost
from inspector.compilation.target import Target
from inspector.engines.inline import InlineEngine
from inspector.errors import About, ParameterError, Partial, Unavailable
from inspector.platforms import TPU, CacheLevel, Peak
from inspector.stages.compiled import Compiled, instruction_costs
from inspector.support.units import format_bytes
from tests.modules import module_of
from tests.peaks import PEAKS

N = 64
NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")  # ridge at 10 flop/byte


def step(x: Any, w: Any) -> Any:
    return jax.lax.scan(lambda c, _: (c @ w, None), x, None, length=3)[0] + 1


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    a = np.ones((N, N), np.float32)
    return inspector.lower(step, a, a).compile(engine=InlineEngine())


def test_a_product_in_a_loop_is_bound_by_compute_and_counts_each_time(compiled: Compiled) -> None:
    roof = compiled.roofline(ROOFS)
    product = max(roof.points, key=lambda p: p.flops)
    assert product.executions == 3
    assert product.flops == pytest.approx(3 * 2 * N**3, rel=0.01)
    assert product.main_memory_bytes == pytest.approx(
        3 * 3 * N * N * 4, rel=0.35
    )  # what is fused into it moves a little
    assert product.bound_by == "compute"
    assert product.least_s == pytest.approx(product.flops / 1e6, rel=0.01)  # what is fused into it runs beside it
    assert product.algorithm == "f32"
    assert roof.peak_name == "f32"
    assert roof.points[0] == product


def test_an_addition_is_bound_by_memory(compiled: Compiled) -> None:
    roof = compiled.roofline(ROOFS)
    others = [p for p in roof.points if p.bound_by == "memory"]
    assert others
    for point in others:
        assert point.least_s == pytest.approx(point.main_memory_bytes / 1e5)
        assert not point.flops or point.intensity < 10  # type: ignore[operator]


def test_the_total_is_the_sum(compiled: Compiled) -> None:
    roof = compiled.roofline(ROOFS)
    for name in ("flops", "main_memory_bytes", "least_s"):
        assert getattr(roof.total, name) == pytest.approx(sum(getattr(p, name) for p in roof.points))
    table = roof.table()
    assert list(table.columns) == [
        "name", "opcode", "executions", "flops", "main_memory_bytes", "link_bytes", "algorithm", "intensity", "bound_by",
        "limited_by", "least_s", "exposed_s", "filled", "share", "limit_source", "scope", "source_file", "source_line",
        "phase", "library_line", "collectives", "unknown",
    ]  # fmt: skip
    assert {str(table[n].dtype) for n in ("flops", "least_s", "share", "intensity", "link_bytes")} == {"Float64"}
    assert (table["unknown"] == "").all()
    assert table["share"].iloc[:-1].sum() == pytest.approx(1)
    assert table["name"].iloc[-1] == compiled.module().name
    assert "about" in repr(roof)  # a run may be faster where caches hold what it reads
    assert "at least" not in repr(roof)
    (axes,) = roof.plot().axes
    assert "this test" in axes.get_title(loc="left")
    assert axes.get_xlabel() == "arithmetic intensity (flop/byte)"
    assert axes.get_ylabel() == "attainable flop/s"


def test_the_total_counts_the_bytes_that_caches_serve_at_their_rate(compiled: Compiled) -> None:
    peak = dataclasses.replace(ROOFS, flops_per_s={"f32": 1e12}, caches=(CacheLevel(1 << 20, 1e9),))
    roof = compiled.roofline(peak)
    assert {p.limited_by for p in roof.points} <= {"cache", "none"}
    assert roof.total.least_s == pytest.approx(sum(float(p.least_s) for p in roof.points))
    assert roof.total.least_s == pytest.approx(roof.total.main_memory_bytes / 1e9)


def test_the_total_includes_only_the_cheapest_branch() -> None:
    def choose(which: Any, x: Any) -> Any:
        def nested(x: Any) -> Any:
            return jax.lax.cond(x[0, 0] > 0, lambda v: v @ v @ v, lambda v: v @ v @ v @ v, x)

        return jax.lax.switch(which, [nested, lambda v: v @ v @ v @ v @ v, lambda v: jnp.sin(v @ v)], x)

    x = jnp.ones((N, N), jnp.float32)
    compiled = inspector.lower(choose, np.int32(0), x).compile(engine=InlineEngine())
    assert sum(i.opcode == "conditional" for i in compiled.module().instructions()) == 2
    roof = compiled.roofline(ROOFS)
    product = 2 * N**3
    assert sum(p.flops for p in roof.points) == pytest.approx((2 + 3 + 4 + 1) * product, rel=0.01)
    assert roof.total.flops == pytest.approx(product, rel=0.02)
    assert isinstance(roof.total.least_s, About)
    assert "counted as its cheapest branch" in roof.total.least_s.reason
    assert product / 1e6 <= roof.total.least_s < 2 * product / 1e6


def test_without_a_peak_there_is_a_reason_and_a_figure(compiled: Compiled) -> None:
    roof = compiled.roofline()
    assert isinstance(roof.peak, Unavailable)
    assert "are not published" in str(roof.peak) or "no published figures" in str(roof.peak)
    assert roof.total.bound_by == roof.peak
    axes = roof.plot().axes[0]
    assert "no roof" in axes.get_title(loc="left")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("arithmetic intensity (flop/byte)", "flop")


def test_a_type_without_a_peak(compiled: Compiled) -> None:
    only_int = Peak("toy", {"s8": 1e6}, 1e5, 1, NONE, NONE, "this test")
    roof = roofline(compiled.module(), instruction_costs(compiled), only_int)
    assert roof.peak_name == Unavailable("the toy has no known peak for f32, only for s8")
    assert isinstance(roof.total.least_s, About)
    assert "kernel of partly known precision" in roof.total.least_s.reason


def test_kernels_are_the_executed_instructions(compiled: Compiled) -> None:
    module = compiled.module()
    found = {k.instruction.name: k.place.executions for k in kernels(module)}
    fused = {i.name for c in module.computations if c.proto.is_fusion_computation for i in c.instructions}
    assert not fused & set(found)
    assert not {i.name for i in module.instructions() if i.opcode in ("parameter", "tuple", "while")} & set(found)
    numbers = structure(module)
    runs = {name: n for name, n in found.items() if not isinstance(n, Unavailable)}
    assert runs.keys() == found.keys()
    assert 3 in runs.values()
    assert numbers.kernels == sum(runs.values())
    assert numbers.fusions == sum(runs.get(i.name, 0) for i in module.instructions() if i.opcode == "fusion")
    assert (numbers.collectives, numbers.collective_bytes) == (0, 0)
    assert isinstance(numbers.estimated_cycles, Unavailable)


def test_collectives_are_counted_with_their_bytes() -> None:
    mesh = Mesh(np.array(jax.devices()), ("i",))
    summed = jax.shard_map(
        lambda x: jax.lax.psum(x, "i"),
        mesh=mesh,
        in_specs=PartitionSpec("i"),
        out_specs=PartitionSpec(),
    )
    numbers = structure(inspector.lower(summed, jnp.ones((8, 5))).compile(engine=InlineEngine()).module())
    assert (numbers.collectives, numbers.collective_bytes) == (1, 5 * 4)


def test_every_figure_has_its_publication() -> None:
    for chip, peak in PEAKS.items():
        assert chip == peak.chip
        assert peak.source.startswith("https://")
        assert 1e11 < peak.memory_bytes_per_s < 1e13
        assert all(1e13 < value < 2e16 for value in peak.flops_per_s.values())
    assert {chip.name for chip in TPU.chips} <= set(PEAKS)


@pytest.mark.parametrize(
    ("target", "name", "flops_per_s", "memory_bytes_per_s"),
    [
        ("tpu:v5e:2x4", "bf16", 197e12, 819e9),
        ("tpu:v6e:2x2", "bf16", 918e12, 1638e9),
        ("tpu:tpu7x:2x2x1", "bf16", 2307e12 / 2, 7380e9 / 2),
        ("gpu:h100:8", "bf16", 989.4e12, 3350e9),
        ("gpu:b200:1", "bf16", 2250e12, 8000e9),
    ],
)
def test_peaks_are_of_one_device(target: str, name: str, flops_per_s: float, memory_bytes_per_s: float) -> None:
    peak = peak_of(Target.parse(target))
    assert isinstance(peak, Peak)
    assert peak.flops_per_s[name] == flops_per_s
    assert peak.memory_bytes_per_s == memory_bytes_per_s


def test_chips_without_figures() -> None:
    assert "are not published" in str(peak_of(Target.parse("cpu:8")))
    assert "no published figures for the p100" in str(peak_of(Target.parse("gpu:p100:1")))
    assert "no published figures for attached" in str(peak_of(Target.parse("attached")))


@pytest.mark.parametrize(
    ("device", "chip"),
    [
        ("NVIDIA H200 0", "h200"),
        ("NVIDIA H100 80GB HBM3 3", "h100"),
        ("NVIDIA A100-SXM4-80GB 0", "a100"),
        ("TPU v5 lite 4 at (0, 1, 0)", "v5e"),
        ("TPU7x 1 at (0, 0, 0) core 1", "tpu7x"),
    ],
)
def test_an_attached_device_goes_by_its_kind(device: str, chip: str) -> None:
    peak = peak_of(Target.parse("attached"), [device])
    assert isinstance(peak, Peak)
    assert peak.chip == chip


def test_an_attached_device_that_is_not_known() -> None:
    assert "no published figures for NVIDIA Z9 (" in str(peak_of(Target.parse("attached"), ["NVIDIA Z9 0"]))
    assert "are not published" in str(peak_of(Target.parse("attached"), ["cpu 0"]))


LINKED = Peak("toy", {"f32": 1e12}, 1e11, 1 << 30, NONE, 2e9, "this test")


def layers(x: Any, weights: Any, *, scanned: bool) -> Any:
    def layer(x: Any, pair: Any) -> tuple[Any, None]:
        return jnp.tanh(x @ pair[0]) @ pair[1], None

    if scanned:
        return jax.lax.scan(layer, x, weights)[0]
    for i in range(3):
        x, _ = layer(x, (weights[0][i], weights[1][i]))
    return x


def sharded(first: PartitionSpec, second: PartitionSpec, *, scanned: bool) -> Compiled:
    mesh = jax.make_mesh((8,), ("model",), axis_types=(jax.sharding.AxisType.Auto,))
    placed = [jax.sharding.NamedSharding(mesh, spec) for spec in (PartitionSpec(), first, second)]
    shapes = [(64, 64), (3, 64, 128), (3, 128, 64)]
    x, *weights = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=where) for shape, where in zip(shapes, placed, strict=True)
    ]
    fun = functools.partial(layers, scanned=scanned)
    return inspector.lower(jax.jit(fun, out_shardings=placed[0]), x, tuple(weights)).compile(engine=InlineEngine())


GOOD = PartitionSpec(None, None, "model"), PartitionSpec(None, "model", None)
BAD = PartitionSpec(None, "model", None), PartitionSpec(None, None, "model")


def test_the_worse_sharding_takes_longer() -> None:
    good, bad = (sharded(*specs, scanned=False).roofline(LINKED) for specs in (GOOD, BAD))
    sent = 3 * 2 * 7 / 8 * 64 * 64 * 4  # an all-reduce of the activations a layer
    assert good.total.link_bytes == pytest.approx(sent)
    assert bad.total.link_bytes > good.total.link_bytes
    assert good.total.bound_by == "communication"
    assert isinstance(good.total.least_s, float)
    assert good.total.least_s >= sent / 1e9
    assert bad.total.least_s > good.total.least_s  # type: ignore[operator]
    reduced = next(p for p in good.points if p.opcode == "all-reduce")
    assert (reduced.bound_by, reduced.main_memory_bytes) == ("communication", 0)


def test_the_cells_of_kernels_and_groups_show_the_traffic_on_links() -> None:
    roof = sharded(*GOOD, scanned=False).roofline(LINKED)
    names = [column.name for column in KERNEL_COLUMNS.of("pane")]
    rows = [
        dict(zip(names, KERNEL_COLUMNS.texts("pane", KernelRow(p, roof.spent_s)), strict=True)) for p in roof.points
    ]
    for point, row in zip(roof.points, rows, strict=True):
        assert row["link_bytes"] == format_bytes(point.link_bytes)
        assert (row["exposed_s"] == "") == (not point.link_bytes)
    assert any(row["exposed_s"] for row in rows)
    names = [column.name for column in GROUP_COLUMNS.of("pane")]
    groups = [dict(zip(names, GROUP_COLUMNS.texts("pane", group), strict=True)) for group in roof.groups("opcode")]
    (reduced,) = (row for row in groups if row["name"] == "all-reduce")
    assert reduced["link_bytes"] == format_bytes(roof.total.link_bytes)
    assert reduced["exposed_s"].endswith("s")


def test_a_scanned_exchange_counts_each_time() -> None:
    flat, scanned = (sharded(*GOOD, scanned=s) for s in (False, True))
    one, other = flat.roofline(LINKED).total, scanned.roofline(LINKED).total
    assert one.link_bytes == pytest.approx(other.link_bytes)
    assert one.flops == pytest.approx(other.flops, rel=0.02)
    numbers = [structure(c.module()) for c in (flat, scanned)]
    assert numbers[0].collectives == numbers[1].collectives == 3
    assert numbers[0].collective_bytes == numbers[1].collective_bytes == 3 * 64 * 64 * 4


def test_without_a_links_speed_the_time_is_known_in_part() -> None:
    slow = dataclasses.replace(LINKED, interconnect_bytes_per_s=NONE)
    roof = sharded(*GOOD, scanned=False).roofline(slow)
    assert isinstance(roof.total.least_s, About)
    assert roof.total.least_s.reason == "3 collectives over links of unknown speed"
    assert "3 collectives over links of unknown speed" in repr(roof)
    assert "about; 3 collectives" in roof.table()["unknown"].iloc[-1]


@pytest.mark.parametrize("by", ["scope", "line", "phase", "opcode", "roof"])
def test_sums_over_shared_properties_count_each_kernel_once(by: Any) -> None:
    def loss(w: Any, x: Any) -> Any:
        with jax.named_scope("first"):
            y = jnp.tanh(x @ w)
        with jax.named_scope("second"):
            return jnp.sum(jax.lax.linalg.tridiagonal_solve(y[0], y[1], y[2], y))  # a call of unknown cost

    a = np.ones((N, N), np.float32)
    roof = inspector.lower(jax.grad(loss), a, a).compile(engine=InlineEngine()).roofline(ROOFS)
    groups = roof.groups(by)
    named = [p.name for g in groups for p in g.points]
    assert set(named) == {p.name for p in roof.points}
    if by in ("opcode", "roof"):  # else a fusion's parts may be in several
        assert len(named) == len(roof.points)
    for point in roof.points:
        for share in ("flops", "main_memory_bytes", "least_s"):
            assert sum(getattr(part, share) for part in point.parts) == pytest.approx(1)
    for number in ("flops", "main_memory_bytes", "least_s"):
        of_groups = [value for g in groups if not isinstance(value := getattr(g, number), Unavailable)]
        of_kernels = [value for p in roof.points if not isinstance(value := getattr(p, number), Unavailable)]
        assert sum(of_groups) == pytest.approx(sum(of_kernels))
        for g in groups:  # unknown if all parts are, and about if some are
            unknown = {isinstance(getattr(p, number), Unavailable) for p in g.points}
            assert isinstance(getattr(g, number), Unavailable) == (unknown == {True}), (number, g)
            assert isinstance(getattr(g, number), Partial) == (unknown == {True, False}), (number, g)
    assert any(isinstance(p.flops, Unavailable) for p in roof.points)
    assert sum(g.share for g in groups if not isinstance(g.share, Unavailable)) == pytest.approx(1)
    times = [0.0 if isinstance(g.least_s, Unavailable) else g.least_s for g in groups]
    assert times == sorted(times, reverse=True)
    table = roof.by(by)
    assert table["kernels"].sum() == len(named)
    assert table["name"].astype(object).where(table["name"].notna(), None).tolist() == [g.name for g in groups]
    if by == "scope":
        assert any("first" in (g.name or "") for g in groups)
    if by == "phase":
        assert {"forward", "backward"} <= {g.name for g in groups}
    if by == "line":
        assert {g.name.rpartition(":")[0] for g in groups if g.name} >= {__file__}


@pytest.mark.parametrize("by", ["scope", "line", "phase", "opcode", "roof"])
def test_times_without_published_figures_are_unknown_and_not_zero(compiled: Compiled, by: Any) -> None:
    reason = "this chip is not documented"
    for group in roofline(compiled.module(), instruction_costs(compiled), Unavailable(reason)).groups(by):
        assert group.least_s == Unavailable(reason)
        assert group.share == Unavailable(reason)


def test_a_fusion_has_the_origins_of_its_instructions() -> None:
    text = """HloModule m

fused {
  p = f32[8]{0} parameter(0)
  e = f32[8]{0} exponential(p), metadata={op_name="jit(f)/inner/exp"}
  ROOT n = f32[8]{0} negate(e)ROOT_METADATA
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT f = f32[8]{0} fusion(x), kind=kLoop, calls=fusedOWN_METADATA
}
"""

    def scope(root: str, own: str) -> str:
        given = text.replace("ROOT_METADATA", root).replace("OWN_METADATA", own)
        module = module_of(given)
        nothing = InstructionCost(0.0, 0.0, 0.0, 0.0)
        return roofline(module, {i.name: nothing for i in module.instructions()}, ROOFS).points[0].scope

    named = ', metadata={{op_name="jit(f)/{}/neg"}}'
    assert scope("", "") == "jit(f)/inner"
    assert scope(named.format("root"), "") == "jit(f)/root"
    assert scope("", named.format("own")) == "jit(f)/own"  # which stands for what in it has none


def test_an_unknown_grouping_is_refused(compiled: Compiled) -> None:
    with pytest.raises(
        ParameterError, match="Cannot sum kernels by 'file'; expected one of scope, line, phase, opcode, roof"
    ):
        compiled.roofline(ROOFS).by("file")  # type: ignore[arg-type]


def test_the_figure_has_the_roofs_and_every_kernel_under_them(compiled: Compiled) -> None:
    roof = compiled.roofline(ROOFS)
    (axes,) = roof.plot().axes
    line, ridge = axes.lines
    assert list(ridge.get_xdata()) == [10, 10]
    intensities = [float(p.intensity) for p in (*roof.points, roof.total) if p.intensity]
    drawn = np.array(line.get_data()).T.tolist()
    assert drawn == [
        pytest.approx([min(10, *intensities) / 3, min(10, *intensities) / 3 * 1e5]),
        pytest.approx([10, 1e6]),
        pytest.approx([max(10, *intensities) * 3, 1e6]),
    ]
    kernels, whole = axes.collections
    expected = [[x, min(1e6, x * 1e5)] for x in intensities]
    assert np.array([*kernels.get_offsets(), *whole.get_offsets()]).tolist() == [pytest.approx(p) for p in expected]


def test_without_a_roof_kernels_are_placed_by_their_flops(compiled: Compiled) -> None:
    roof = compiled.roofline()
    (kernels,) = roof.plot().axes[0].collections
    expected = [[float(p.intensity), float(p.flops)] for p in roof.points if p.intensity]
    assert expected
    assert np.array(kernels.get_offsets()).tolist() == expected


def test_views_and_findings_share_one_roofline() -> None:
    compiled = inspector.lower(lambda x: jnp.tanh(x @ x).sum(), jnp.ones((64, 64))).compile()
    first = compiled.roofline(ROOFS)
    assert compiled.roofline(dataclasses.replace(ROOFS)) is first
    faster = compiled.roofline(dataclasses.replace(ROOFS, flops_per_s={"f32": 2e6}))
    assert faster.total.least_s != first.total.least_s
    assert compiled.roofline(ROOFS) == first
    moved = dataclasses.replace(compiled, target=Target("cpu:2"))
    assert moved.roofline(ROOFS) is not first


def test_a_shared_roofline_does_not_keep_its_module() -> None:
    compiled = inspector.lower(lambda x: jnp.tanh(x @ x).sum(), jnp.ones((65, 65))).compile()
    compiled.roofline(ROOFS)
    module = weakref.ref(compiled.module())
    del compiled
    gc.collect()
    assert module() is None
