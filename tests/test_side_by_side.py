"""One program on a CPU, TPUs and GPUs that are not here: our counts and replays against XLA's own totals."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

import inspector
from benchmarks.workloads import make
from inspector.analysis.memory.timeline import Timeline
from inspector.compilation.cost import Cost, total
from inspector.compilation.memory import Memory
from inspector.engines.shared_engines import worker_engine
from inspector.errors import Unavailable
from inspector.stages.compiled import Compiled, instruction_costs
from tests.absent import needs_gpu, needs_tpu

CPU = pytest.param("cpu:8")
TPUS = [pytest.param("tpu:v5e:2x4", marks=needs_tpu), pytest.param("tpu:v6e:2x2", marks=needs_tpu)]
GPUS = [pytest.param("gpu:h100:8", marks=needs_gpu), pytest.param("gpu:b200:1", marks=needs_gpu)]
Compile = Callable[[str], Compiled]


@pytest.fixture(scope="module")
def compiled_for() -> Compile:
    made: dict[str, Compiled] = {}
    workload = make("mlp")

    def compile_for(target: str) -> Compiled:
        if target not in made:
            platform = inspector.Target.parse(target).platform
            lowered = inspector.lower(workload.fun, *workload.args, platform=platform)
            made[target] = lowered.compile(target=target, products=("buffers",), engine=worker_engine())
        return made[target]

    return compile_for


@pytest.mark.parametrize("target", [CPU, *TPUS])
def test_instructions_sum_to_the_totals_of_xla(compiled_for: Compile, target: str) -> None:
    compiled = compiled_for(target)
    counted = total(compiled.module(), instruction_costs(compiled))
    assert isinstance(compiled.cost, Cost)
    assert counted.flops == compiled.cost.flops
    assert counted.transcendentals == compiled.cost.transcendentals
    moved = (
        counted.main_memory_bytes if target.startswith("tpu") else counted.bytes_accessed
    )  # the vector memory is no traffic
    assert moved == pytest.approx(compiled.cost.bytes_accessed, rel=1e-3)


@pytest.mark.parametrize("target", GPUS)
def test_a_gpu_that_reports_nothing_is_counted(compiled_for: Compile, target: str) -> None:
    cost = compiled_for(target).cost
    assert isinstance(cost, Cost)
    # Three products a layer of the perceptron's four, less the input's gradient: 2 x 32 x 256 x 256 each.
    assert cost.flops == pytest.approx(11 * 2 * 32 * 256 * 256, rel=0.05)
    assert cost.missing == ()


@pytest.mark.parametrize("target", [CPU, *GPUS])
def test_heaps_have_the_size_reported_by_xla(compiled_for: Compile, target: str) -> None:
    compiled = compiled_for(target)
    use = compiled.timeline()
    assert isinstance(use, Timeline)
    assert isinstance(compiled.memory, Memory)
    main = next(iter(use.spaces.values()))
    assert main.temp_bytes == compiled.memory.temp_bytes
    assert main.argument_bytes == compiled.memory.argument_bytes
    assert main.output_bytes == compiled.memory.output_bytes
    assert main.live_bytes == pytest.approx(main.temp_bytes, rel=1e-3)


@pytest.mark.parametrize("target", TPUS)
def test_a_tpus_vector_memory_is_replayed(compiled_for: Compile, target: str) -> None:
    use = compiled_for(target).timeline()
    assert isinstance(use, Timeline)
    vmem = use.spaces["VMEM"]
    assert 0.9 * vmem.temp_bytes < vmem.live_bytes <= vmem.temp_bytes
    table = use.table()
    assert table[table["space"] == "VMEM"]["source_line"].notna().any()


@needs_tpu
@needs_gpu
def test_three_platforms_in_one_table(compiled_for: Compile) -> None:
    targets = ("cpu:8", "tpu:v5e:2x4", "gpu:h100:8")
    table = inspector.compare(*(compiled_for(t) for t in targets))
    assert [c for c in table.columns if not c.startswith("delta")] == [*targets, "unknown"]
    for key in ("flops", "bytes_accessed", "compile_s", "kernels", "fusions", "argument_bytes"):
        assert all(table.loc[key, t] > 0 for t in targets), key
    assert table.loc["estimated_cycles", "tpu:v5e:2x4"] > 10_000
    assert pd.isna(table.loc["estimated_cycles", "gpu:h100:8"])
    assert table.loc["vmem_allocated_bytes", "tpu:v5e:2x4"] > 1e5
    assert pd.isna(table.loc["vmem_allocated_bytes", "gpu:h100:8"])
    assert "gpu:h100:8: the gpu program has no such memory space" in str(table.loc["vmem_allocated_bytes", "unknown"])


@pytest.mark.parametrize("target", [*TPUS, *GPUS])
def test_a_roofline_under_published_peaks(compiled_for: Compile, target: str) -> None:
    roof = compiled_for(target).roofline()
    assert not isinstance(roof.peak, Unavailable)
    assert roof.peak.source.startswith("https://")
    assert roof.total.bound_by == "memory"  # a batch of 32
    assert not isinstance(roof.total.least_s, Unavailable)
    assert 1e-7 < roof.total.least_s < 1e-4
