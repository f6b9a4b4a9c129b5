"""Costs of instructions against XLA's totals of whole modules, and by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.cost import InstructionCost, costs, total, uncounted
from inspector.compilation.compiled import Compiled, Cost
from inspector.engines.counting import count
from inspector.engines.inline import InlineEngine
from inspector.errors import Unavailable
from inspector.hlo.executions import places
from inspector.hlo.module import Module
from inspector.hlo.single import singles

HEAPS = Path(__file__).parents[1] / "hlo" / "data" / "heaps"
NAMES = sorted(path.name.removesuffix(".json") for path in HEAPS.glob("*.json"))
N = 16
DOT = 2 * N**3


def counted(module: Module) -> dict[str, InstructionCost]:
    parts = singles(module)
    return costs(module, parts, count([part.module for part in parts]))


@pytest.mark.parametrize("name", NAMES)
def test_instructions_of_real_modules_sum_to_xlas_total(name: str) -> None:
    module = Module.from_proto(gzip.decompress((HEAPS / f"{name}.hlo.pb.gz").read_bytes()))
    own = json.loads((HEAPS / f"{name}.json").read_text())["cost"]
    if not own:  # GPUs that are not here report none; the same module counted whole
        (own,) = count([module.proto.SerializeToString()])
    found = total(module, counted(module))
    assert found.flops == pytest.approx(own["flops"], rel=1e-6)
    assert found.transcendentals == own.get("transcendentals", 0)
    # On TPUs the sizes of tiled arrays are those of whole tiles, tables of tuples apart.
    assert found.bytes_accessed == pytest.approx(own["bytes accessed"], rel=1e-3 if "v5e" in name else 1e-5)


def looped(x: Any) -> Any:
    def body(carry: Any, _: Any) -> Any:
        return jnp.tanh(carry @ carry), None

    return jax.lax.scan(body, x, None, length=7)[0]


def branched(flag: Any, x: Any) -> Any:
    return jax.lax.cond(flag, lambda v: v @ v @ v, lambda v: v @ v, x)


@pytest.fixture(scope="module")
def loop() -> Compiled:
    return inspector.lower(looped, np.eye(N, dtype=np.float32)).compile(engine=InlineEngine())


def test_a_loops_body_counts_once_and_runs_as_often_as_it_runs(loop: Compiled) -> None:
    table = loop.instructions().set_index("name")
    dot = table[table["opcode"].isin(["dot", "custom-call"]) & (table["flops"] == DOT)].iloc[0]
    assert dot["executions"] == 7
    outer = table[table["opcode"] == "while"].iloc[0]
    assert table.loc[[outer.name], "counted_in"].isna().all()
    assert outer["flops"] > DOT
    assert isinstance(loop.cost, Cost)
    assert total(loop.module(), loop.instruction_costs()).flops == loop.cost.flops
    conditions = table[table["opcode"] == "compare"]
    assert 8 in set(conditions["executions"])


def test_a_conditional_counts_as_its_largest_branch() -> None:
    compiled = inspector.lower(branched, np.bool_(True), np.eye(N, dtype=np.float32)).compile(engine=InlineEngine())
    module = compiled.module()
    if not any(i.opcode == "conditional" for i in module.instructions()):
        pytest.skip("this XLA makes no conditional of it")
    found = counted(module)
    assert isinstance(compiled.cost, Cost)
    assert total(module, found).flops == compiled.cost.flops
    assert 2 * DOT <= compiled.cost.flops < 3 * DOT
    inside = [p for p in places(module).values() if isinstance(p.executions, Unavailable)]
    assert any("known at run time" in p.executions.reason for p in inside)  # type: ignore[union-attr]


CALL = """HloModule called

ENTRY main {
  x = f32[4]{0} parameter(0)
  called = f32[4]{0} custom-call(x), custom_call_target="mystery"
  ROOT sum = f32[4]{0} add(called, x)
}
"""


def module_of(text: str) -> Module:
    from jaxlib import _hlo

    return Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def test_nobody_knows_what_a_custom_call_costs() -> None:
    module = module_of(CALL)
    found = counted(module)
    assert found["called"].flops == Unavailable("XLA does not know what a call to 'mystery' costs")
    assert total(module, found).flops == 4
    assert uncounted(module, found) == ("called",)


CONVOLUTION = """HloModule convolved

ENTRY main {
  x = f32[2,8,8,4]{3,2,1,0} parameter(0)
  k = f32[3,3,4,5]{3,2,1,0} parameter(1)
  conv = (f32[2,8,8,5]{3,2,1,0}, u8[0]{0}) custom-call(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convForward"
  ROOT out = f32[2,8,8,5]{3,2,1,0} get-tuple-element(conv), index=0
}
"""


def test_a_convolution_by_cudnn_costs_what_a_convolution_costs() -> None:
    flops = counted(module_of(CONVOLUTION))["conv"].flops
    taps = 3 * 8 - 2  # in each direction, without those that lie in the padding
    assert flops == 2 * 2 * 5 * 4 * taps * taps


def test_without_counts_the_reason_stands_in_every_place() -> None:
    module, none = module_of(CALL), Unavailable("no worker")
    found = costs(module, singles(module), none)
    assert found["sum"] == InstructionCost(none, none, none, none)
    assert found["x"] == InstructionCost(0.0, 0.0, 0.0, 0.0)
    assert total(module, found) == InstructionCost(none, none, none, none)


def test_equal_instructions_are_counted_once() -> None:
    layers = "\n".join(f"  y{i} = f32[4]{{0}} negate(y{i - 1})" for i in range(1, 50))
    module = module_of(
        f"HloModule m\nENTRY e {{\n  y0 = f32[4]{{0}} parameter(0)\n{layers}\n  ROOT r = f32[4]{{0}} add(y49, y0)\n}}\n"
    )
    parts = singles(module)
    assert sorted(len(part.names) for part in parts) == [1, 49]
    assert total(module, counted(module)).flops == 50 * 4


def test_vector_memory_is_no_main_memory() -> None:
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


def test_a_count_that_is_none_is_unavailable() -> None:
    """XLA's own analysis of a sole call that it does not know says -1."""
    x = np.ones((4, 1000), np.float32)
    theirs = jax.jit(lambda x: jax.lax.top_k(x, 8)).lower(x).compile().cost_analysis()
    assert theirs is not None
    assert theirs["flops"] < 0
    ours = inspector.lower(lambda x: jax.lax.top_k(x, 8), x).compile(engine=InlineEngine()).cost
    assert isinstance(ours, Cost)
    assert ours.flops == Unavailable(
        "the module has a call whose cost XLA does not know", "Compiled.counted_cost() has the cost of the rest."
    )
