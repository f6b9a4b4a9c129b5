"""Options of every kind, by what the compiler does with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest, RunRequest
from inspector.compilation.target import Target
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import WorkerDiedError
from tests.engines import programs


@pytest.fixture(scope="module")
def engine() -> Iterator[WorkerEngine]:
    made = WorkerEngine()
    yield made
    made.close()


def request(flags: dict[str, Any], target: str = "cpu", sharded: bool = False) -> CompileRequest:
    sharding = NamedSharding(jax.make_mesh((4,), ("i",)), PartitionSpec("i")) if sharded else None
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=sharding)
    return CompileRequest(
        programs.lower(lambda a: jnp.tanh(a @ a).sum(), x), Options(flags=flags), Target.parse(target)
    )


@pytest.mark.slow
def test_a_device_count_chooses_the_worker(engine: WorkerEngine) -> None:
    asked = request({"xla_force_host_platform_device_count": 4}, sharded=True)
    compiled = engine.submit(asked).result(120)
    assert str(compiled.target) == "cpu:4"
    assert "num_partitions=4" in compiled.hlo
    ones = jnp.ones((8, 8))
    reply = engine.run(RunRequest(compiled, (ones,), (False,), repeat=1, warmup=0)).result(60)
    assert reply.outputs[0] == pytest.approx(jnp.tanh(ones @ ones).sum())


def test_a_map_reaches_llvm(engine: WorkerEngine) -> None:
    # LLVM ends a process over an option that it does not know: proof that it was read.
    with pytest.raises(WorkerDiedError, match="Unknown command line argument 'junk=1'"):
        engine.submit(request({"xla_backend_extra_options": "junk=1"})).result(120)
    engine.submit(request({"xla_backend_extra_options": "xla_cpu_disable_loop_unrolling"})).result(120)


def test_build_options_reach_xla(engine: WorkerEngine) -> None:
    plain = engine.submit(request({})).result(120)
    raw = engine.submit(request({"run_backend_only": True})).result(120)
    # Without the HLO pipeline nothing is fused with anything else.
    assert "fused_computation" in plain.hlo
    assert "fused_computation" not in raw.hlo


@pytest.mark.slow
def test_a_crash_names_the_unknown_pass(engine: WorkerEngine) -> None:
    flags = {"xla_unsupported_crash_on_hlo_pass_noop_change": True, "xla_disable_hlo_passes": "algsimpp"}
    with pytest.raises(WorkerDiedError, match="'algsimpp', which is not the name of a known pass of jaxlib"):
        engine.submit(request(flags)).result(120)
