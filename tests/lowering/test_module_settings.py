"""Modules from files are compiled as they say, or refused, or there is a note of what differs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector._jax.compiling.ahead_of_time import absent_platform
from inspector._jax.compiling.final_hlo import joined_hlo_proto
from inspector.errors import CompilationError, ModuleError
from inspector.stages.compiled import Compiled

MESH = AbstractMesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
ADD = "add1 {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
FORMS = {
    "text": lambda lowered: lowered.hlo,
    "proto": lambda lowered: lowered.hlo_proto,
    "HloProto": lambda lowered: joined_hlo_proto(lowered.hlo_proto, b""),
    "StableHLO": lambda lowered: lowered.stablehlo,
}


def hlo(body: str, *, header: str = "", before: str = "", parameter: str = "") -> str:
    """A module of two arrays, f32[8,128]."""
    return (
        f"HloModule m{header}\n\n{before}\nENTRY e {{\n  p = f32[8,128]{{1,0}} parameter(0){parameter}\n"
        f"  q = f32[8,128]{{1,0}} parameter(1)\n{body}\n}}\n"
    )


NEGATED = "  ROOT r = f32[8,128]{1,0} negate(p)"
REDUCED = "  ROOT r = f32[8,128]{1,0} all-reduce(p), to_apply=add1, replica_groups={{0,1},{2,3}}"


def sharded(*dims: Any) -> NamedSharding:
    return NamedSharding(MESH, P(*dims))


def step(w: Any, x: Any) -> Any:
    y = lax.with_sharding_constraint(jnp.tanh(x @ w), sharded("data", "model"))
    return y @ w.T, w + 1


def mapped(w: Any, x: Any) -> Any:
    inner = jax.shard_map(
        lambda w, x: lax.psum(x @ w, "model"), mesh=MESH, in_specs=(P("model"), P("data", "model")), out_specs=P("data")
    )
    return inner(w, x)


def partly_mapped(w: Any, x: Any) -> Any:
    inner = jax.shard_map(
        lambda w: lax.psum(w, "model"), mesh=MESH, in_specs=P(None, "model"), out_specs=P(None), axis_names={"model"}
    )
    return jax.jit(inner)(w), x


def constrained(w: Any, x: Any) -> Any:
    return lax.with_sharding_constraint(x @ w, sharded("data", None))


def exchanges(compiled: Compiled) -> list[Any]:
    table = compiled.collectives().table()
    return sorted(zip(table["opcode"], map(str, table["replica_groups"]), table["axes"], strict=True), key=str)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fun", [step, mapped, partly_mapped, constrained])
def test_a_sharded_module_is_partitioned_as_the_function_is(fun: Any, form: str) -> None:
    w = jax.ShapeDtypeStruct((64, 128), jnp.float32, sharding=sharded("model", None))
    x = jax.ShapeDtypeStruct((32, 64), jnp.float32, sharding=sharded("data", "model"))
    lowered = inspector.lower(jax.jit(fun), w, x)
    opened = inspector.lower(FORMS[form](lowered))
    assert opened.program.options.num_partitions == 4
    assert opened.program.options.use_shardy_partitioner == lowered.program.options.use_shardy_partitioner
    assert opened.program.mesh == lowered.program.mesh
    is_stated = form == "StableHLO"
    assert any("does not state num_partitions; 4 follows" in note for note in opened.notes) != is_stated
    theirs, ours = lowered.compile(target="cpu:4"), opened.compile(target="cpu:4")
    assert exchanges(ours) == exchanges(theirs)
    assert exchanges(ours)
    assert ours.memory.peak_bytes == theirs.memory.peak_bytes
    assert ours.warnings == theirs.warnings  # XLA warns where it falls back to GSPMD


@pytest.mark.parametrize("algorithm", ["BF16_BF16_F32_X6", "BF16_BF16_F32", "F32_F32_F32"])
@pytest.mark.parametrize("form", ["text", "proto", "StableHLO"])
def test_the_algorithm_of_a_dot_is_preserved(form: str, algorithm: str) -> None:
    lowered = inspector.lower(
        lambda a, b, v: (lax.dot(a, b, precision=algorithm), lax.dot(a, v, precision=algorithm)),
        *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 8), (8, 8), (8,))),
    )
    opened = inspector.lower(FORMS[form](lowered))
    assert opened.hlo.count(f"algorithm=dot_{algorithm.lower()}") == 2
    assert opened.notes == ()


def test_an_algorithm_that_ends_its_converter_is_refused() -> None:
    body = "  ROOT d = f32[8,8]{1,0} dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}, algorithm=dot_bf16_bf16_f32_x9"
    with pytest.raises(ModuleError, match=r"algorithm=dot_bf16_bf16_f32_x9.* Use another algorithm"):
        inspector.lower(hlo(body)).compile(target="cpu")


def test_layouts_of_the_entry_are_compiled() -> None:
    layout = "(f32[8,128]{1,0}, f32[8,128]{0,1})->(f32[8,128]{0,1}, f32[8,128]{1,0})"
    body = "  n = f32[8,128]{1,0} negate(q)\n  ROOT r = (f32[8,128]{1,0}, f32[8,128]{1,0}) tuple(n, p)"
    opened = inspector.lower(hlo(body, header=f", entry_computation_layout={{{layout}}}"))
    assert f"entry_computation_layout={{{layout}}}" in opened.compile(target="cpu").hlo
    again = inspector.lower(opened.stablehlo)
    assert f"entry_computation_layout={{{layout}}}" in again.compile(target="cpu").hlo
    assert opened.notes == again.notes == ()


@pytest.mark.parametrize(("header", "donated"), [
    (", input_output_alias={ {}: (1, {}, may-alias) }", [False, True]), (", buffer_donor={ (0, {}) }", [True, False]),
])  # fmt: skip
def test_aliases_and_donors_are_compiled(header: str, donated: list[bool]) -> None:
    opened = inspector.lower(hlo("  ROOT r = f32[8,128]{1,0} add(p, q)", header=header))
    assert [argument.donated for argument in opened.inputs] == donated
    assert f"input_output_alias={{ {{}}: ({donated.index(True)}, {{}}," in opened.compile(target="cpu").hlo
    assert [argument.donated for argument in inspector.lower(opened.stablehlo).inputs] == donated


def test_replicas_follow_from_replica_groups() -> None:
    opened = inspector.lower(hlo(REDUCED, before=ADD))
    assert (opened.program.options.num_replicas, opened.program.options.num_partitions) == (4, 1)
    assert opened.notes == ("the module does not state replica_count; 4 follows from its replica groups",)
    assert "replica_count=4" in opened.compile(target="cpu:4").hlo
    assert inspector.lower(hlo(REDUCED, before=ADD, header=", replica_count=4")).notes == ()


def test_a_permutation_of_all_devices_gives_their_number() -> None:
    body = "  ROOT r = f32[8,128]{1,0} collective-permute(p), source_target_pairs={pairs}"
    opened = inspector.lower(hlo(body.replace("{pairs}", "{{0,1},{1,2},{2,0}}")))
    assert (opened.program.options.num_replicas, len(opened.notes)) == (3, 1)
    with pytest.raises(ModuleError, match="does not state replica_count, and its replica groups need at least 4"):
        inspector.lower(hlo(body.replace("{pairs}", "{{0,3},{3,0}}")))


def test_flags_of_the_header_are_compiled() -> None:
    header = (
        ", num_partitions=2, allow_spmd_sharding_propagation_to_parameters={true,false},"
        ' allow_spmd_sharding_propagation_to_output={true}, frontend_attributes={a="x, num_partitions=8"}'
    )
    options = inspector.lower(hlo(NEGATED, header=header)).program.options
    assert options.num_partitions == 2
    assert options.allow_spmd_sharding_propagation_to_parameters == (True, False)
    assert options.allow_spmd_sharding_propagation_to_output == (True,)


@pytest.mark.parametrize(("header", "sharding", "said"), [
    ("", "devices=[2,2]<=[4]", None),
    (", num_partitions=4", "devices=[2,2]<=[4]", None),
    (", num_partitions=2", "devices=[2,2]<=[4]", "states num_partitions=2, but its shardings need at least 4"),
    ("", "maximal device=3", "does not state num_partitions, and its shardings need at least 4. Add num_partitions=N"),
])  # fmt: skip
def test_partitions_follow_from_shardings_or_are_requested(header: str, sharding: str, said: str | None) -> None:
    text = hlo(f"{NEGATED}, sharding={{{sharding}}}", header=header)
    if said is not None:
        with pytest.raises(ModuleError, match=said):
            inspector.lower(text)
        return
    assert inspector.lower(text).program.options.num_partitions == 4


def test_shardings_over_different_devices_are_refused() -> None:
    body = "  n = f32[8,128]{1,0} negate(p), sharding={devices=[2,1]<=[2]}\n  ROOT r = f32[8,128]{1,0} negate(n), sharding={devices=[4,1]<=[4]}"
    with pytest.raises(ModuleError, match=r"does not state num_partitions, and its shardings are for 2 and 4"):
        inspector.lower(hlo(body))


PER_DEVICE = """HloModule jit_f{header}, entry_computation_layout={{(f32[256,256]{{1,0}}, f32[16,256]{{1,0}})->f32[16,256]{{1,0}}}}

{add}
ENTRY {entry} {{
  w = f32[256,256]{{1,0}} parameter(0), sharding={{replicated}}
  x = f32[16,256]{{1,0}} parameter(1), sharding={{devices=[4,1]<=[4]}}
  d = f32[16,256]{{1,0}} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[16,256]{{1,0}} {operation}
}}
"""
GLOBAL = "all-reduce(d), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add1"


@pytest.mark.parametrize(("header", "entry", "operation", "opcodes"), [
    (", is_scheduled=true, num_partitions=4", "main_spmd", "negate(d)", []),
    (", num_partitions=4", "main.3_spmd", "negate(d)", []),
    ("", "main_spmd", "negate(d)", []),
    (", is_scheduled=true", "main", GLOBAL, ["all-reduce"]),
    (", num_partitions=4", "main", GLOBAL, ["all-reduce"]),
])  # fmt: skip
@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_partitioned_module_is_not_partitioned_again(
    header: str, entry: str, operation: str, opcodes: list[str], as_bytes: bool
) -> None:
    add = ADD if operation == GLOBAL else ""
    given: str | bytes = PER_DEVICE.format(header=header, entry=entry, operation=operation, add=add)
    if as_bytes:
        given = jax_proto(given)
    opened = inspector.lower(given)
    assert "the module is already partitioned: it is compiled as the program of each of 4 devices" in opened.notes
    compiled = opened.compile(target="cpu:4")
    assert compiled.collectives().table()["opcode"].tolist() == opcodes
    assert "->f32[16,256]{1,0}}, num_partitions=4" in compiled.hlo
    assert [argument.shape for argument in compiled.program.arguments] == [(256, 256), (16, 256)]


def jax_proto(text: str) -> bytes:
    from jaxlib import _hlo  # type: ignore[attr-defined]

    return bytes(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


LOST = {
    "control-predecessors of 1 exponential": hlo(
        "  n = f32[8,128]{1,0} negate(q)\n  m = f32[8,128]{1,0} exponential(p), control-predecessors={n}\n"
        "  ROOT r = f32[8,128]{1,0} add(n, m)"
    ),
    "backend_config of 1 negate": hlo('  ROOT r = f32[8,128]{1,0} negate(p), backend_config={"a":1}'),
    "constrain_layout of 1 all-reduce": hlo(f"{REDUCED}, constrain_layout=true", before=ADD, header=", replica_count=4"),
    "layout of 1 negate": hlo("  t = f32[8,128]{0,1} negate(p)\n  ROOT r = f32[8,128]{1,0} exponential(t)"),
    "precision_config of 1 custom-call": hlo(
        '  ROOT r = f32[8,128]{1,0} custom-call(p, q), custom_call_target="foo", operand_precision={high,high}'
    ),
}  # fmt: skip
KEPT = {
    "precision": "  ROOT r = f32[8,8]{1,0} dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={highest,high}",
    "frontend attributes": '  ROOT r = f32[8,128]{1,0} negate(p), frontend_attributes={foo="bar"}',
    "custom call": '  ROOT r = f32[8,128]{1,0} custom-call(p), custom_call_target="foo", custom_call_has_side_effect=true,'
    " api_version=API_VERSION_TYPED_FFI, backend_config={a = 1 : i32}, output_to_operand_aliasing={{}: (0, {})}",
    "custom call's layout": '  ROOT r = f32[8,128]{0,1} custom-call(p), custom_call_target="foo", operand_layout_constraints={f32[8,128]{0,1}}',
    "result accuracy": "  ROOT r = f32[8,128]{1,0} exponential(p), result_accuracy={mode=highest}",
    "comparison": "  ROOT r = pred[8,128]{1,0} compare(p, q), direction=LT",
    "slice that becomes another operation": "  i = s32[] constant(0)\n  ROOT r = f32[4,64]{1,0} dynamic-slice(p, i, i), dynamic_slice_sizes={4,64}",
    "iota": "  ROOT r = s32[8,4]{1,0} iota(), iota_dimension=1",
}  # fmt: skip


@pytest.mark.parametrize("what", LOST)
def test_settings_lost_in_the_conversion_are_noted(what: str) -> None:
    (note,) = inspector.lower(LOST[what]).notes
    assert note == f"XLA's conversion of HLO to StableHLO, which inspector compiles, drops: {what}"


@pytest.mark.parametrize("what", KEPT)
def test_settings_preserved_by_the_conversion_are_not_noted(what: str) -> None:
    assert inspector.lower(hlo(KEPT[what])).notes == ()


@pytest.mark.skipif(absent_platform("gpu") is not None, reason="the CUDA plugin is not installed")
def test_an_operation_that_only_hlo_has_is_named_by_the_compile() -> None:
    lowered = inspector.lower(hlo("  ROOT r = f32[8,128]{1,0} copy(p)"), target="gpu:h100:1")
    with pytest.raises(
        CompilationError, match=r"accepts StableHLO only, which has no equivalent of the HLO operation copy\."
    ):
        lowered.compile(target="gpu:h100:1")


def test_an_operation_without_stablehlo_is_named() -> None:
    text = (
        "HloModule fp8\n\nENTRY main {\n  a = f8e4m3fn[16,128]{1,0} parameter(0)\n  b = f8e4m3fn[32,128]{1,0} parameter(1)\n"
        "  sa = f8e8m0fnu[16,4]{1,0} parameter(2)\n  sb = f8e8m0fnu[32,4]{1,0} parameter(3)\n"
        "  ROOT d = f32[16,32]{1,0} scaled-dot(a, b, sa, sb), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n"
    )
    with pytest.raises(
        ModuleError, match=r"HLO module cannot be converted .*no operation for the instruction d \(scaled-dot\)"
    ):
        inspector.lower(text).compile(target="cpu")
