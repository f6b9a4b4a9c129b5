"""StableHLO's replica groups against the HLO that jaxlib makes of the same collective."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxlib import _hlo, _jax

from inspector.errors import ModuleError
from inspector.hlo.devices.replica_groups import parse
from inspector.hlo.module import Module
from inspector.hlo.stablehlo_groups import parse_meshes, parse_stablehlo
from tests.groups import to_lists


def attribute(text: str) -> str:
    """The value of the first `replica_groups` in a StableHLO text."""
    start = text.index("replica_groups = ") + len("replica_groups = ")
    end = text.index("i64>", start) + 4 if text[start] == "d" else text.index("]>", start) + 2
    return text[start:end]


def as_stablehlo(groups: str, group_size: int, devices: int = 8) -> str:
    """jaxlib's own translation of an HLO all-gather to StableHLO text."""
    hlo = f"""HloModule m, num_partitions={devices}
ENTRY e {{
  x = f32[2] parameter(0)
  ROOT r = f32[{2 * group_size}] all-gather(x), channel_id=1, replica_groups={groups}, dimensions={{0}}, use_global_device_ids=true
}}"""
    module = _hlo.hlo_module_from_text(hlo)
    bytecode = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    return to_text(bytecode)


def to_text(bytecode: bytes) -> str:
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    with mlir.make_ir_context():
        return str(ir.Module.parse(bytecode))


@pytest.mark.parametrize(
    ("groups", "group_size"),
    [
        ("{{0,1,2,3},{7,6,5,4}}", 4),
        ("[4,2]<=[2,4]T(1,0)", 2),
        ("mesh['a'=2,'b'=4] {'b':(2)2,'a'}", 4),
        ("mesh['a'=2,'b'=4] {'b','a'}", 8),
        ("{" + ",".join(f"{{{2 * i},{2 * i + 1}}}" for i in range(80)) + "}", 2),  # printed in hex
    ],
)
def test_same_groups_as_hlo(groups: str, group_size: int) -> None:
    text = as_stablehlo(groups, group_size, devices=160 if len(groups) > 100 else 8)
    assert to_lists(parse_stablehlo(attribute(text), parse_meshes(text))) == to_lists(parse(groups))


def test_shard_map_as_jax_lowers_it() -> None:
    devices = np.array(jax.devices()).reshape(2, 4)
    mesh = Mesh(devices, ("a", "b"))
    f = jax.jit(jax.shard_map(lambda x: lax.psum(x, ("b", "a")), mesh=mesh, in_specs=P("a", "b"), out_specs=P()))
    lowered = f.lower(np.zeros((2, 4), np.float32))
    text = lowered.as_text()
    groups = parse_stablehlo(attribute(text), parse_meshes(text))
    assert to_lists(groups) == [[0, 4, 1, 5, 2, 6, 3, 7]]
    compiled = lowered.compile().runtime_executable().hlo_modules()[0]
    module = Module.from_proto(compiled.as_serialized_hlo_module_proto())
    (reduction,) = (i for i in module.instructions() if i.opcode == "all-reduce")
    assert to_lists(reduction.replica_groups) == to_lists(groups)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>", [[0, 1], [2]]),
        ("dense<0> : tensor<1x1xi64>", [[0]]),
        ("dense<> : tensor<0x0xi64>", [[0, 1, 2]]),
        ("dense<[[0], [1]]> : tensor<2x1xi64>", [[0], [1]]),
    ],
)
def test_dense(text: str, groups: list[list[int]]) -> None:
    assert to_lists(parse_stablehlo(text), 3) == groups


def test_meshes_with_device_ids() -> None:
    text = (
        'module {\n  sdy.mesh @m = <["a"=2, "b"=2], device_ids=[3, 1, 2, 0]>\n  sdy.mesh @one = <[], device_ids=[5]>\n}'
    )
    meshes = parse_meshes(text)
    axes = '[#stablehlo.axis_ref<name = "b">]'
    assert to_lists(parse_stablehlo(f"#stablehlo.replica_group_mesh_axes<mesh = @m, axes = {axes}>", meshes)) == [
        [3, 1],
        [2, 0],
    ]
    assert to_lists(parse_stablehlo("#stablehlo.replica_group_mesh_axes<mesh = @one, axes = []>", meshes)) == [[5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[0]]", r"at position 0: expected 'dense<' or '#stablehlo\.replica_group_mesh_axes<'"),
        ("dense<[[0, 1]]> : tensor<2x2xi64>", r"tensor<2x2xi64> holds 4 ids, but 2 are written"),
        ("dense<[[0, 1]]> : tensor<1x2xi32>", "expected 'xi64>'"),
        ('dense<"0x01"> : tensor<1x1xi64>', "is not 64-bit integers in hex"),
        ("#stablehlo.replica_group_mesh_axes<mesh = @m, axes = []>", r"the mesh @m, .* \(its meshes: none\)"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        parse_stablehlo(text)
