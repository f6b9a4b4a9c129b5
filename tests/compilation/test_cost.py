"""Costs of instructions against XLA's totals of whole modules, and by hand."""

from __future__ import annotations

import copy
import gzip
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.cost.dot_algorithms import algorithm_of
from inspector.compilation.cost import Cost, InstructionCost, costs, is_reported, program_cost, total
from inspector.compilation.library_costs import library_flops
from inspector.engines.inline import InlineEngine
from inspector.engines.shared_engines import worker_engine
from inspector.engines.workers.counting import count
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.hlo.execution_counts import places
from inspector.hlo.module import Module
from inspector.hlo.reading.single_instructions import singles
from inspector.stages.compiled import Compiled
from inspector.support import json_values
from tests.loops import counted_loop
from tests.modules import changed, module_of, proto_of
from tests.peaks import PEAKS

HEAPS = Path(__file__).parents[1] / "hlo" / "data" / "heaps"
NAMES = sorted(path.name.removesuffix(".json") for path in HEAPS.glob("*.json"))
N = 16
DOT = 2 * N**3


def counted(module: Module) -> dict[str, InstructionCost]:
    parts = singles(module)
    return costs(module, parts, count([part.module for part in parts], worker_engine().count))


def once(module: Module) -> InstructionCost:
    """The total with each loop's body once, and tables whole that a fusion takes some rows of, as XLA counts both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inspector.compilation.cost.trip_count", lambda _: 1)
        patch.setattr("inspector.compilation.cost.PARTIAL", frozenset())
        return total(module, counted(module))


@pytest.mark.parametrize("name", NAMES)
def test_instructions_of_real_modules_sum_to_xlas_total(name: str) -> None:
    module = Module.from_proto(gzip.decompress((HEAPS / f"{name}.hlo.pb.gz").read_bytes()))
    own = json.loads((HEAPS / f"{name}.json").read_text())["cost"]
    if not own:  # GPUs that are not here report none; the same module counted whole
        (own,) = count([proto_of(module).SerializeToString()], worker_engine().count)
    found = once(module)
    assert found.flops == pytest.approx(own["flops"], rel=1e-6)
    assert found.transcendentals == own.get("transcendentals", 0)
    # On TPUs the sizes of tiled arrays are those of whole tiles, tables of tuples apart.
    assert found.bytes_accessed == pytest.approx(own["bytes accessed"], rel=1e-3 if "v5e" in name else 1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if "big" not in name])
def test_a_summarized_fusion_has_the_cost_of_the_complete_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module.from_proto(gzip.decompress((HEAPS / f"{name}.hlo.pb.gz").read_bytes()))
    briefly = singles(module)
    monkeypatch.setattr("inspector.hlo.reading.fusion_summaries.Briefs.of", lambda *_: None)
    whole = singles(module)
    assert any(part.briefs for part in briefly)
    assert not any(part.briefs for part in whole)
    assert sum(len(part.module) for part in briefly) < sum(len(part.module) for part in whole)
    found, expected = (
        costs(module, parts, count([part.module for part in parts], worker_engine().count))
        for parts in (briefly, whole)
    )
    for key, cost in expected.items():
        for field in ("flops", "transcendentals", "bytes_accessed", "main_memory_bytes"):
            one, other = getattr(found[key], field), getattr(cost, field)
            assert type(one) is type(other), key
            assert one == (other if isinstance(other, Unavailable) else pytest.approx(other, rel=1e-6)), (key, field)


READ = """HloModule m
fused {
  a = f32[64]{0} parameter(0)
  b = f32[64]{0} parameter(1)
  c = f32[64]{0} parameter(2)
  d = f32[64]{0} parameter(3)
  table = f32[64]{0} constant({...})
  ca = f32[64]{0} negate(a)
  cb = f32[64]{0} negate(b)
  part = f32[8]{0} slice(c), slice={[0:8]}
  wide = f32[64]{0} pad(part, zero), padding=0_56
  ab = f32[64]{0} add(ca, cb)
  dd = f32[64]{0} multiply(d, d)
  abt = f32[64]{0} multiply(ab, table)
  e = f32[64]{0} exponential(abt)
  abd = f32[64]{0} add(e, dd)
  ROOT r = f32[64]{0} add(abd, wide)
}
ENTRY main {
  p = f32[64]{0} parameter(0)
  q = f32[64]{0} parameter(1)
  ROOT f = f32[64]{0} fusion(p, q, p, q), kind=kLoop, calls=fused
}
""".replace("{...}", "{" + ", ".join(["1"] * 64) + "}").replace("  ca =", "  zero = f32[] constant(0)\n  ca =")


def test_inputs_with_equal_use_are_listed_once() -> None:
    module = module_of(READ)
    (kind,) = (int(module.alike.kinds[module.instruction("f").row]),)
    (brief,) = (part.briefs[kind] for part in singles(module) if kind in part.kinds)
    assert [module.at(row).name for row in brief.inputs] == ["a", "c", "d"]
    assert brief.read_as == (0, 0, 1, 2)
    found = counted(module)["f"]
    whole = 64 * 4
    assert found.bytes_accessed == 3 * whole + 8 * 4 + whole + whole  # a, b, d; the slice; the table; the result
    assert (found.flops, found.transcendentals) == (64 * 7, 64)


SLICED = """HloModule m
fused {
  a = f32[64,8]{1,0} parameter(0)
  b = f32[64,8]{1,0} parameter(1)
  c = f32[128,8]{1,0} concatenate(a, b), dimensions={0}
  ROOT s = f32[128,2]{1,0} slice(c), slice={[0:128], [0:2]}
}
ENTRY main {
  p = f32[64,8]{1,0} parameter(0)
  q = f32[64,8]{1,0} parameter(1)
  ROOT f = f32[128,2]{1,0} fusion(p, q), kind=kLoop, calls=fused
}
"""


def test_a_fused_slice_of_a_concatenation_reads_a_part() -> None:
    module = module_of(SLICED)
    assert counted(module)["f"].bytes_accessed == 2 * 128 * 2 * 4  # read and written
    assert not is_reported(proto_of(module).SerializeToString(), lambda: module)


def looped(x: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        return jnp.tanh(carry @ carry), None

    return jax.lax.scan(body, x, None, length=7)[0]


def branched(flag: Any, x: Any) -> Any:
    return jax.lax.cond(flag, lambda v: v @ v @ v, lambda v: v @ v, x)


@pytest.fixture(scope="module")
def loop() -> Compiled:
    return inspector.lower(looped, np.eye(N, dtype=np.float32)).compile(engine=InlineEngine())


def test_a_loop_costs_its_body_as_often_as_it_runs(loop: Compiled) -> None:
    table = loop.instructions().set_index("name")
    dot = table[table["opcode"].isin(["dot", "custom-call"]) & (table["flops"] == DOT)].iloc[0]
    assert dot["executions"] == 7
    outer = table[table["opcode"] == "while"].iloc[0]
    assert table.loc[[outer.name], "counted_in"].isna().all()
    assert 7 * DOT <= outer["flops"] < 7.1 * DOT
    assert isinstance(loop.cost, Cost)
    assert loop.cost.flops == table[table["counted_in"].isna()]["flops"].sum()
    assert loop.cost.missing == ()
    conditions = table[table["opcode"] == "compare"]
    assert 8 in set(conditions["executions"])


def test_a_conditional_costs_at_least_its_cheapest_branch() -> None:
    compiled = inspector.lower(branched, np.bool_(True), np.eye(N, dtype=np.float32)).compile(engine=InlineEngine())
    module = compiled.module()
    if not any(i.opcode == "conditional" for i in module.instructions()):
        pytest.skip("this XLA makes no conditional of it")
    assert isinstance(compiled.cost, Cost)
    assert isinstance(compiled.cost.flops, AtLeast)
    assert DOT <= compiled.cost.flops < 1.1 * DOT
    assert compiled.cost.flops.reason == "1 conditional counted as its cheapest branch"
    inside = [p for p in places(module).values() if isinstance(p.executions, Unavailable)]
    assert any("known only at run time" in p.executions.reason for p in inside)  # type: ignore[union-attr]


CALL = """HloModule called

ENTRY main {
  x = f32[4]{0} parameter(0)
  called = f32[4]{0} custom-call(x), custom_call_target="mystery"
  ROOT sum = f32[4]{0} add(called, x)
}
"""


def test_the_cost_of_a_custom_call_is_unknown() -> None:
    module = module_of(CALL)
    found = counted(module)
    assert found["called"].flops == Unavailable("XLA reports no cost for a call to 'mystery'")
    whole = total(module, found)
    assert whole.flops == 4
    assert [part.name for part in whole.missing] == ["called"]
    assert str(whole.flops) == "at least 4.0; 1 custom call not counted"
    assert repr(whole).partition("\n")[0] == (
        "<InstructionCost: at least 4 flop, at least 0 transcendentals, at least 48 B accessed;"
        " 1 custom call not counted: called>"
    )


CONVOLUTION = """HloModule convolved

ENTRY main {
  x = f32[2,8,8,4]{3,2,1,0} parameter(0)
  k = f32[3,3,4,5]{3,2,1,0} parameter(1)
  conv = (f32[2,8,8,5]{3,2,1,0}, u8[0]{0}) custom-call(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convForward"
  ROOT out = f32[2,8,8,5]{3,2,1,0} get-tuple-element(conv), index=0
}
"""


def test_a_pallas_kernel_has_the_cost_estimate_of_its_author() -> None:
    said = r'"{\"custom_call_config\":{\"cost_estimate\":{\"flops\":\"80\",\"transcendentals\":\"2\",\"bytes_accessed\":\"32\"}}}"'
    module = module_of(CALL.replace('"mystery"', f'"tpu_custom_call", backend_config={said}'))
    found = counted(module)
    assert found["called"] == InstructionCost(80.0, 2.0, 32.0, 32.0)
    assert total(module, found).flops == 84
    assert not total(module, found).missing


def test_a_cudnn_convolution_has_the_cost_of_a_convolution() -> None:
    flops = counted(module_of(CONVOLUTION))["conv"].flops
    taps = 3 * 8 - 2  # in each direction, without those that lie in the padding
    assert flops == 2 * 2 * 5 * 4 * taps * taps


PRODUCT = """HloModule product

ENTRY main {
  a = f32[3,8,16]{2,1,0} parameter(0)
  b = f32[16,5,3]{2,1,0} parameter(1)
  gemm = (f32[3,8,5]{2,1,0}, s8[64]{0}) custom-call(a, b), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["2"],"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":["0"],"rhs_batch_dimensions":["2"]},"precision_config":{"operand_precision":["HIGHEST","HIGHEST"],"algorithm":"ALG_UNSET"}}}
  ROOT out = f32[3,8,5]{2,1,0} get-tuple-element(gemm), index=0
}
"""


def test_a_cublas_call_has_the_cost_of_a_dot() -> None:
    module = module_of(PRODUCT)
    assert counted(module)["gemm"].flops == 2 * 3 * 8 * 5 * 16
    assert str(algorithm_of(module.instruction("gemm"), PEAKS["h100"])) == "f32"
    default = module_of(PRODUCT.replace("HIGHEST", "DEFAULT"))
    assert str(algorithm_of(default.instruction("gemm"), PEAKS["h100"])) == "tf32"


def test_without_counts_the_reason_stands_in_every_place() -> None:
    module, none = module_of(CALL), Unavailable("no worker")
    found = costs(module, singles(module), none)
    assert found["sum"] == InstructionCost(none, none, none, none)
    assert found["x"] == InstructionCost(0.0, 0.0, 0.0, 0.0)
    assert total(module, found).flops == AtLeast(0, [])
    assert program_cost(module.columns.data, none, lambda _: none) == none


def test_equal_instructions_are_counted_once() -> None:
    layers = "\n".join(f"  y{i} = f32[4]{{0}} negate(y{i - 1})" for i in range(1, 50))
    module = module_of(
        f"HloModule m\nENTRY e {{\n  y0 = f32[4]{{0}} parameter(0)\n{layers}\n  ROOT r = f32[4]{{0}} add(y49, y0)\n}}\n"
    )
    parts = singles(module)
    counts = module.alike.counts
    assert sorted(sum(counts[kind] for kind in part.kinds) for part in parts) == [1, 49]
    assert total(module, counted(module)).flops == 50 * 4


def test_vector_memory_is_not_main_memory() -> None:
    module = Module.from_proto(gzip.decompress((HEAPS / "v5e_mlp.0.10.hlo.pb.gz").read_bytes()))
    found = counted(module)
    whole = total(module, found)
    arguments, outputs = 1118208, 1053696
    # Arguments are read and outputs written once, but for one weight that is read twice; the rest stays in VMEM.
    weight = 256 * 256 * 4
    assert whole.main_memory_bytes == pytest.approx(arguments + outputs + weight, rel=0.01)
    assert not isinstance(whole.bytes_accessed, Unavailable)
    assert whole.bytes_accessed > 9e6
    for name in ("copy-start", "copy-start.1"):
        (operand,) = module.instruction(name).operands
        assert found[name].main_memory_bytes == operand.shape.padded_byte_size
    on_cpu = Module.from_proto(gzip.decompress((HEAPS / "cpu_tf2.0.12.hlo.pb.gz").read_bytes()))
    whole = total(on_cpu, counted(on_cpu))
    assert whole.main_memory_bytes == whole.bytes_accessed


TWO_MEMORIES = """HloModule two_memories

inside {
  stack = f32[16,1024,1024]{2,1,0:T(8,128)S(1)} parameter(0)
  x = f32[1024,1024]{1,0:T(8,128)} parameter(1)
  zero = s32[] constant(0)
  row = f32[1,1024,1024]{2,1,0:T(8,128)S(1)} parameter(2)
  changed = f32[16,1024,1024]{2,1,0:T(8,128)S(1)} dynamic-update-slice(stack, row, zero, zero, zero)
  negated = f32[1024,1024]{1,0:T(8,128)} negate(x)
  ROOT both = (f32[16,1024,1024]{2,1,0:T(8,128)S(1)}, f32[1024,1024]{1,0:T(8,128)}) tuple(changed, negated)
}

ENTRY main {
  stack = f32[16,1024,1024]{2,1,0:T(8,128)S(1)} parameter(0)
  x = f32[1024,1024]{1,0:T(8,128)} parameter(1)
  row = f32[1,1024,1024]{2,1,0:T(8,128)S(1)} parameter(2)
  ROOT f = (f32[16,1024,1024]{2,1,0:T(8,128)S(1)}, f32[1024,1024]{1,0:T(8,128)}) fusion(stack, x, row), kind=kLoop, calls=inside
}
"""


def test_each_result_of_a_fusion_is_written_to_its_memory() -> None:
    cost = counted(module_of(TWO_MEMORIES))["f"]
    # x and its negation; the slice and the array that it replaces a part of are in vector memory
    assert cost.main_memory_bytes == pytest.approx(2 * 1024 * 1024 * 4, rel=0.01)
    assert cost.bytes_accessed == pytest.approx(4 * 1024 * 1024 * 4, rel=0.01)


ON_HOST = """HloModule on_host

ENTRY main {{
  x = f32[1024,1024]{{1,0{tiles}S(5)}} parameter(0)
  start = (f32[1024,1024]{{1,0{tiles}}}, f32[1024,1024]{{1,0{tiles}S(5)}}, u32[]) copy-start(x)
  here = f32[1024,1024]{{1,0{tiles}}} copy-done(start)
  sine = f32[1024,1024]{{1,0{tiles}}} sine(here)
  ROOT back = f32[1024,1024]{{1,0{tiles}S(5)}} copy(sine)
}}
"""


@pytest.mark.parametrize("tiles", ["", ":T(8,128)"])
def test_the_memory_of_the_host_is_not_main_memory(tiles: str) -> None:
    size = 1024 * 1024 * 4
    found = counted(module_of(ON_HOST.format(tiles=tiles or ":")))
    assert [found[name].host_bytes for name in ("start", "here", "sine", "back")] == [size, 0, 0, size]
    assert found["back"].main_memory_bytes == size
    assert found["sine"].main_memory_bytes == 2 * size
    if tiles:
        assert found["start"].main_memory_bytes == size


FUSED = """HloModule fused

inside {
  x = f32[4]{0} parameter(0)
  c = f32[4]{0} custom-call(x), custom_call_target="{target}"
  ROOT a = f32[4]{0} add(c, c)
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  ROOT f = f32[4]{0} fusion(x), kind=kLoop, calls=inside
}
"""


def test_a_fusion_with_a_call_in_it_costs_at_least_the_rest() -> None:
    found = counted(module_of(FUSED.replace("{target}", "mystery")))["f"]
    assert (found.flops, [p.name for p in found.missing]) == (4, ["c"])
    assert found.bytes_accessed == 32
    marked = counted(module_of(FUSED.replace("{target}", "AssumeGatherIndicesInBound")))["f"]
    assert (marked.flops, marked.missing) == (4, ())


NESTED = """HloModule nested

%s

ENTRY main {
  x = f32[4]{0} parameter(0)
  flag = pred[] parameter(1)
  %s
}
"""
CALLING = """work {
  w = f32[4]{0} parameter(0)
  c = f32[4]{0} custom-call(w), custom_call_target="mystery"
  ROOT s = f32[4]{0} add(c, w)
}"""
OTHER = """
other {
  o = f32[4]{0} parameter(0)
  ROOT t = f32[4]{0} multiply(o, o)
}"""
LOOP = counted_loop("work", 3)
LOOPED = """zero = s32[] constant(0)
  first = (s32[], f32[4]{0}) tuple(zero, x)
  ROOT r = (s32[], f32[4]{0}) while(first), condition=condition, body=body"""


@pytest.mark.parametrize(
    ("computations", "caller", "flops"),
    [
        (CALLING, "ROOT r = f32[4]{0} call(x), to_apply=work", 4),
        (CALLING + LOOP, LOOPED, 3 * (4 + 1) + 4),
        (
            CALLING + OTHER,
            "ROOT r = f32[4]{0} conditional(flag, x, x), true_computation=work, false_computation=other",
            4,
        ),
        (CALLING, "ROOT r = f32[4]{0} fusion(x), kind=kLoop, calls=work", 4),
    ],
    ids=["call", "while", "conditional", "fusion"],
)
def test_the_cost_with_an_unknown_call_is_a_lower_bound(computations: str, caller: str, flops: float) -> None:
    module = module_of(NESTED % (computations, caller))
    found = counted(module)
    for cost in (found["r"], total(module, found)):
        assert isinstance(cost.flops, AtLeast)
        assert cost.flops == flops
        assert "c" in [part.name for part in cost.missing]
        assert "1 custom call not counted" in cost.flops.reason


def test_a_loop_of_unknown_length_may_run_no_round() -> None:
    def fun(n: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, v: v @ v, x)

    cost = inspector.lower(fun, np.int32(3), np.eye(N, dtype=np.float32)).compile(engine=InlineEngine()).cost
    assert isinstance(cost, Cost)
    assert isinstance(cost.flops, AtLeast)
    assert cost.flops < DOT  # the condition alone
    assert cost.flops.reason == "1 loop of unknown length not counted"
    assert (cost.transcendentals, type(cost.transcendentals)) == (0, float)  # however often it computes none


def unrolled(x: Any) -> Any:
    for _ in range(7):
        x = jnp.tanh(x @ x)
    return x


def test_a_loop_has_the_cost_of_the_unrolled_loop(loop: Compiled) -> None:
    flat = inspector.lower(unrolled, np.eye(N, dtype=np.float32)).compile(engine=InlineEngine()).cost
    assert isinstance(loop.cost, Cost)
    assert isinstance(flat, Cost)
    assert flat.flops == 7 * DOT
    assert loop.cost.flops == pytest.approx(flat.flops, rel=0.01)  # and a counter
    assert loop.cost.transcendentals == flat.transcendentals == 7 * N * N


@pytest.mark.parametrize(
    ("name", "flops", "target"),
    [
        # Calls, and outside of them one triangle each, chosen and masked: 8,256 in XLA's own count.
        ("qr", 8256, "geqrf"),
        ("eigh", 12354, "syevd"),
    ],
)
def test_lapacks_calls_count_by_formulas_and_take_nothing_away(name: str, flops: float, target: str) -> None:
    compiled = inspector.lower(getattr(jnp.linalg, name), np.eye(64, dtype=np.float32)).compile(engine=InlineEngine())
    calls = [each for each in compiled.module().instructions() if each.opcode == "custom-call"]
    assert any(target in each.custom_call_target for each in calls)
    counted = sum(float(library_flops(each) or 0) for each in calls)
    assert counted > 64**3
    assert isinstance(compiled.cost, Cost)
    assert not isinstance(compiled.cost.flops, Unavailable)
    assert float(compiled.cost.flops) == pytest.approx(flops + counted)


def test_unknown_calls_are_not_counted() -> None:
    def fun(x: Any) -> Any:
        return jax.lax.linalg.tridiagonal_solve(x, x, x, x[:, None]) + 1

    compiled = inspector.lower(fun, np.ones(64, np.float32)).compile(engine=InlineEngine())
    assert isinstance(compiled.cost, Cost)
    assert isinstance(compiled.cost.flops, AtLeast)
    called = [compiled.module().instruction(part.name).custom_call_target for part in compiled.cost.missing]
    assert any("gtsv" in each for each in called)
    assert "at least" in repr(compiled)
    assert "not counted" in repr(compiled.cost)


def test_a_cost_of_which_nothing_is_known_is_unavailable() -> None:
    """XLA's own analysis of a sole call that it does not know says -1."""
    module = module_of(
        'HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT c = f32[4] custom-call(x), custom_call_target="mystery"\n}\n'
    )
    ours = program_cost(
        proto_of(module).SerializeToString(), Unavailable("none"), lambda parts: count(parts, worker_engine().count)
    )
    assert isinstance(ours, Cost)
    assert ours.flops == Unavailable("all of its parts are unknown: 1 custom call not counted")
    assert (
        repr(ours)
        .partition("\n")[0]
        .endswith("unknown accessed; all of its parts are unknown: 1 custom call not counted>")
    )


def test_a_cost_known_in_part_goes_through_json() -> None:
    cost = Cost(AtLeast(4, [Missing("c", "custom call")]), 0.0, Unavailable("why", "what to do"))
    read = json_values.decode(Cost, json.loads(json.dumps(json_values.encode(cost))))
    assert read == cost
    assert read.missing == cost.missing


COUNTED = """HloModule counted
body {{
  p = (s32[], f32[4]{{0}}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4]{{0}} get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[4]{{0}} multiply(x, x)
  ROOT t = (s32[], f32[4]{{0}}) tuple(next, y)
}}
condition {{
  p = (s32[], f32[4]{{0}}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  end = s32[] constant(100)
  ROOT c = pred[] compare(i, end), direction=LT
}}
ENTRY main {{
  x = f32[4]{{0}} parameter(0)
  early = s32[] constant({0})
  late = s32[] constant({1})
  a = (s32[], f32[4]{{0}}) tuple(early, x)
  b = (s32[], f32[4]{{0}}) tuple(late, x)
  long = (s32[], f32[4]{{0}}) while(a), condition=condition, body=body
  short = (s32[], f32[4]{{0}}) while(b), condition=condition, body=body
  u = f32[4]{{0}} get-tuple-element(long), index=1
  v = f32[4]{{0}} get-tuple-element(short), index=1
  ROOT r = f32[4]{{0}} add(u, v)
}}
"""


@pytest.mark.parametrize(("early", "late"), [(0, 90), (90, 0)])
def test_equal_loops_cost_by_where_they_begin(early: int, late: int) -> None:
    module = module_of(COUNTED.format(early, late))
    costs = counted(module)
    first, second = 100 - early, 100 - late
    body, condition = 1 + 4, 1
    assert costs["long"].flops == body * first + condition * (first + 1)
    assert costs["short"].flops == body * second + condition * (second + 1)


CALLED = """HloModule m
ENTRY e {
  x = f32[4]{0} parameter(0)
  a = f32[4]{0} negate(x)
  b = f32[4]{0} negate(x)
  c = f32[4]{0} custom-call(x), custom_call_target="__cublas$gemm"
  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, c)
}
"""


def test_library_calls_are_counted_once_regardless_of_their_configuration() -> None:
    proto = proto_of(module_of(CALLED))
    for n, instruction in enumerate(i for i in proto.computations[0].instructions if i.opcode == "negate"):
        instruction.backend_config = b'{"n": %d}' % n
    module = changed(proto)
    parts = singles(module)
    assert len({part.module for part in parts}) == len(parts)
    names = [{module.at(int(module.alike.first[kind])).name for kind in part.kinds} for part in parts]
    assert {"a", "b"} in names


def test_costs_of_very_deep_fusions() -> None:
    proto = proto_of(
        module_of("HloModule m\nENTRY e {\n  x = f32[4]{0} parameter(0)\n  ROOT n = f32[4]{0} negate(x)\n}\n")
    )
    entry = proto.computations[0]
    for number in range(300):
        inner = type(entry)()
        inner.CopyFrom(entry)
        inner.name, inner.id = f"fused{number}", 1000 + number
        if number:
            inner.instructions[1].opcode = "fusion"
            inner.instructions[1].called_computation_ids[:] = [1000 + number - 1]
        proto.computations.insert(number, inner)
    outer = proto.computations[-1]
    outer.instructions[1].opcode = "fusion"
    outer.instructions[1].called_computation_ids[:] = [1000 + 299]
    innermost = proto.computations[0].instructions[1]
    innermost.opcode, innermost.custom_call_target = "custom-call", "unknown"
    module = changed(proto)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 150)  # deeper than any program, at less cost
    try:
        parts = singles(module)
        found = costs(module, parts, [{"flops": 3.0}] * len(parts))[module.entry.root.name]
    finally:
        sys.setrecursionlimit(limit)
    assert isinstance(found.flops, AtLeast)
    assert [part.kind for part in found.flops.missing] == ["custom call"]


def test_a_cost_counted_by_xla_needs_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = proto_of(module_of("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n"))
    named = copy.deepcopy(plain)
    named.computations[0].instructions[1].metadata.op_name = "while"  # the same bytes, and no loop
    reported = {"flops": 4.0, "bytes accessed": 32.0}
    for proto in (plain, named):
        assert program_cost(proto.SerializeToString(), reported, lambda _: pytest.fail("counted")) == Cost(
            4.0, 0.0, 32.0
        )
    monkeypatch.setattr(Module, "from_proto", lambda data: pytest.fail("read"))
    assert program_cost(plain.SerializeToString(), reported, lambda _: pytest.fail("counted")) == Cost(4.0, 0.0, 32.0)


@pytest.mark.parametrize("opcode", ["while", "conditional", "custom-call"])
def test_a_cost_not_counted_by_xla_is_read_once(opcode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = proto_of(module_of("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n"))
    proto.computations[0].instructions[1].opcode = opcode
    asked: list[int] = []
    readings: list[bytes] = []
    read = Module.from_proto

    def reading(data: bytes) -> Module:
        readings.append(data)
        return read(data)

    def count(modules: Sequence[bytes]) -> Unavailable:
        asked.append(len(modules))
        return Unavailable("not here")

    monkeypatch.setattr(Module, "from_proto", reading)
    assert program_cost(proto.SerializeToString(), {"flops": 4.0}, count) == Unavailable("not here")
    assert (len(readings), len(asked)) == (1, 1)
