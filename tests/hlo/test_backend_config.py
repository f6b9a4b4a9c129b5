"""Notes of back ends, in the forms in which they were seen."""

from __future__ import annotations

import pytest

from inspector.errors import Unavailable
from inspector.hlo.backend_config import (
    declared_costs,
    estimated_cycles,
    known_trip_count,
    product_dimensions,
    product_precision,
    vmem_scratch_bytes,
)
from inspector.hlo.module import Instruction
from tests.modules import changed, module_of, proto_of

TEXT = "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n"


def noted(config: bytes) -> Instruction:
    proto = proto_of(module_of(TEXT))
    proto.computations[0].instructions[1].backend_config = config
    return changed(proto).entry.root


def test_a_fusion_of_a_tpu() -> None:
    fusion = noted(
        b'{"flag_configs":[],"window_config":{"kernel_window_bounds":["64","4"],"estimated_cycles":"2304"},'
        b'"used_scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"364544"}]}'
    )
    assert estimated_cycles(fusion) == 2304
    assert vmem_scratch_bytes(fusion) == 364544


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (b'{"flops":"270008320","transcendentals":"524288","bytes_accessed":"1048576"}', (270008320, 524288, 1048576)),
        (b'{"flops":"8","bytes_accessed":16}', (8, 0, 16)),
        (b'{"flops":"0","bytes_accessed":"0"}', None),
        (b'{"flops":"-1","bytes_accessed":"16"}', None),
        (b'{"flops":"%s"}' % (b"9" * 400), None),
        (b'{"flops":{}}', None),
        (b"[]", None),
    ],
)
def test_a_pallas_kernel_of_a_tpu(said: bytes, found: tuple[int, int, int] | None) -> None:
    declared = declared_costs(noted(b'{"custom_call_config":{"body":"TUzv","cost_estimate":' + said + b"}}"))
    assert (None if declared is None else tuple(declared.values())) == found


def test_a_loop() -> None:
    assert known_trip_count(noted(b'{"known_trip_count":{"n":"12"},"known_init_step":{"init":"0","step":"1"}}')) == 12


@pytest.mark.parametrize(
    "config",
    [
        b"",
        b"not json",
        b"{",
        b"[1]",
        b'{"window_config":[],"known_trip_count":7,"used_scoped_memory_configs":{}}',
        b"\xff\xfe",
    ],
)
def test_anything_else_is_unknown(config: bytes) -> None:
    instruction = noted(config)
    assert isinstance(estimated_cycles(instruction), Unavailable)
    assert isinstance(known_trip_count(instruction), Unavailable)
    assert isinstance(vmem_scratch_bytes(instruction), Unavailable)
    assert declared_costs(instruction) is None


def test_a_product_of_a_gpu() -> None:
    call = noted(
        b'{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
        b'"rhs_contracting_dimensions":["0","2"],"lhs_batch_dimensions":[],"else":["3"]},'
        b'"precision_config":{"operand_precision":["HIGHEST"]}}}'
    )
    assert product_dimensions(call) == {
        "lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [0, 2], "lhs_batch_dimensions": [],
    }  # fmt: skip
    assert product_precision(call) == {"operand_precision": ["HIGHEST"]}


@pytest.mark.parametrize(
    "config",
    [b"", b'{"gemm_backend_config":[]}', b'{"gemm_backend_config":{"dot_dimension_numbers":1,"precision_config":1}}'],
)
def test_other_configs_have_no_dot_dimensions(config: bytes) -> None:
    assert product_dimensions(noted(config)) == {}
    assert product_precision(noted(config)) == {}
