"""XLA's warnings reach the result, regardless of the kernel's log level."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.engines.inline import UNHEARD
from inspector.engines.workers.process_output import warnings_in
from inspector.engines.workers.worker_engine import WorkerEngine
from tests.absent import needs_gpu, needs_tpu

MESH = AbstractMesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)
TARGETS = [
    pytest.param("cpu:8"),
    pytest.param("tpu:v5e:2x4", marks=needs_tpu),
    pytest.param("gpu:h100:8", marks=needs_gpu),
]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerEngine]:
    """Workers of a kernel that wants to hear nothing."""
    for name in ("TF_CPP_MIN_LOG_LEVEL", "TPU_STDERR_LOG_LEVEL", "TPU_MIN_LOG_LEVEL"):
        monkeypatch.setenv(name, "3")
    engine = WorkerEngine()
    yield engine
    engine.close()


def resharded(x: jax.Array) -> jax.Array:
    """From one sharding to another that the partitioner can only reach through a whole copy on every device."""
    y = jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(MESH, P("a", "b", "c")))
    return jax.lax.with_sharding_constraint(jnp.cos(y), NamedSharding(MESH, P(None, None, ("c", "b", "a"))))


@pytest.mark.parametrize("target", TARGETS)
def test_an_involuntary_rematerialization_is_reported(engine: WorkerEngine, target: str) -> None:
    x = jax.ShapeDtypeStruct((16, 16, 16), jnp.float32)
    compiled = inspector.lower(resharded, x, platform=target.partition(":")[0]).compile(target=target, engine=engine)
    (said,) = compiled.warnings
    assert said.startswith("[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding")
    sharded = jax.ShapeDtypeStruct((16, 16, 16), jnp.float32, sharding=NamedSharding(MESH, P("a", "b", "c")))
    plain = inspector.lower(jnp.sin, sharded, platform=target.partition(":")[0]).compile(target=target, engine=engine)
    assert plain.warnings == ()


def test_an_inline_compile_reports_uncaptured_warnings() -> None:
    assert inspector.lower(jnp.sin, 1.0).compile(engine="inline").warnings == (UNHEARD,)


def test_internal_notes_of_libtpu_are_omitted() -> None:
    log = """W1122 03:37:11.360376 1 llo_loop.cc:101] [copy.1] 0-iteration loop inserted, body will not be executed
W1122 03:37:11.360376 1 backend_config_util.cc:359] Invalid backend config found for instruction %c = custom-call()
=== Source Location Trace: ===
third_party/tensorflow/compiler/xla/hlo/ir/backend_config.cc:112
. Compiler may not do what you expect.
E1122 03:37:11.360376 1 net_util.cc:470] Failed to construct rectangular 2d slice
E1122 03:37:11.360376 1 net_util.cc:505] Failed to build strided 2D slice from devices in group #0 consisting of (0,2,7,5)
W1122 03:37:12.057333 24726 spmd_partitioner.cc:656] [SPMD] Involuntary full rematerialization. Of a.cc: and b
I1122 03:37:12.057333 24726 x.cc:1] nothing
"""
    assert warnings_in(log) == ("[SPMD] Involuntary full rematerialization. Of a.cc: and b (spmd_partitioner.cc:656)",)
