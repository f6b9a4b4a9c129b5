"""The preview's HLO is the result's, on real programs: the same text and the same source lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.workloads import make
from inspector.analysis.hlo_listing import hlo_listing
from inspector.compilation.memory import Memory
from inspector.engines.workers import fork_server
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.lowering.lower import lower
from inspector.stages.compiled import as_compiled
from inspector.stages.lowered import compile_request

pytestmark = pytest.mark.skipif(not fork_server.ForkServer.supported(), reason="previews come early on Linux only")
SLOW = ("cnn", "tf2", "tf6", "fsdp8_6")


@pytest.fixture(scope="module")
def engine() -> Iterator[WorkerEngine]:
    made = WorkerEngine()
    yield made
    made.close()


@pytest.mark.parametrize("name", ["tiny", "mlp", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def test_preview_is_the_result(engine: WorkerEngine, name: str) -> None:
    workload = make(name)
    lowered = lower(workload.fun, *workload.args)
    job = engine.submit(compile_request(lowered, None, "cpu:8" if name.startswith("fsdp8") else "cpu"))
    preview, compiled = job.preview(300, counted=True), job.result(300)
    assert preview.before_code
    early = hlo_listing(preview.hlo, preview.module(), lowered.root)
    late = hlo_listing(compiled.hlo, compiled.module(), lowered.root)
    if not name.startswith("fsdp8"):  # jaxlib 0.12 dumps tuples' elements in another form
        assert preview.hlo is compiled.hlo, "a large one's text would be there twice"
        assert preview.module() is compiled.module() is as_compiled(compiled).module()
    assert early.text == late.text
    assert early == late
    assert preview.cost == compiled.cost
    assert isinstance(preview.memory, Memory)
    assert isinstance(compiled.memory, Memory)
    assert preview.memory.peak_bytes == compiled.memory.peak_bytes
