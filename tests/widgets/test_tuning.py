"""Other compiler parameters for Pallas kernels, asked of an Explorer: by Python, and by its browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import inspector
from inspector.analysis.pallas import vmem
from inspector.analysis.pallas.vmem import VmemBudget
from inspector.compilation.target import Target
from inspector.compilation.tuning import Tuning
from inspector.errors import CompilationError, OptionError
from inspector.hlo.shape import Shape
from inspector.lowering.pallas import fields_of
from inspector.widgets.explorer import Explorer
from tests.absent import needs_tpu
from tests.kernels import matmul, scale, struct
from tests.widgets.fakes import FakeWork, Mailbox

X = struct(64, 128)
REFUSAL = (Path(__file__).parent.parent / "analysis" / "data" / "pallas" / "scoped.0.12.txt").read_text()


@pytest.fixture
def work() -> FakeWork:
    return FakeWork()


@pytest.fixture
def explorer(work: FakeWork) -> Iterator[Explorer]:
    def lower(axes: Any, platform: str, tuning: Tuning) -> inspector.Lowered:
        return inspector.lower(
            scale, X, axis_env=axes, platform=platform, compiler_params=tuning.as_dict(), interpret=tuning.interpret,
            chip=tuning.chip,
        )  # fmt: skip

    work.lower = lower  # type: ignore[method-assign]
    work.kernel_fields = fields_of  # type: ignore[method-assign]
    tuning = Tuning(chip="v5e")
    made = Explorer(lower(None, "tpu", tuning), work, target="tpu:v5e", tuning=tuning)
    yield made
    made.close()


@pytest.fixture
def box(explorer: Explorer) -> Mailbox:
    return Mailbox(explorer)


def limits(explorer: Explorer) -> list[Any]:
    lowered = [variant.lowered for variant in explorer.variants]
    return [dict(one.kernels[0].params).get("vmem_limit_bytes") if one else None for one in lowered]


def request(box: Mailbox, **fields: Any) -> None:
    box.send({"type": "tune", "id": 7, "variant": 0, "kernel": 0, "values": {}, "interpret": False, **fields})


def settled(explorer: Explorer) -> None:
    explorer._threads.drain()


def test_the_pane_is_there_with_kernels_and_not_without(explorer: Explorer, box: Mailbox, work: FakeWork) -> None:
    settled(explorer)
    assert "pallas" in box.last("session")["panes"]
    assert [row["name"] for row in box.last("kernels")["rows"]] == ["scale"]
    other = work.explorer()
    assert "pallas" not in Mailbox(other).last("session")["panes"]
    other.close()


def test_python_adds_a_variant_with_other_parameters(explorer: Explorer, work: FakeWork) -> None:
    variant = explorer.tune({"scale": {"vmem_limit_bytes": 1 << 20}})
    assert limits(explorer) == [None, 1 << 20]
    assert variant.label == "vmem_limit_bytes=1048576"
    assert str(variant.target) == "tpu:v5e:1x1"
    assert work.requests[0].program.digest != work.requests[1].program.digest


def test_parameters_that_cannot_be_lowered_are_a_failed_variant(explorer: Explorer) -> None:
    variant = explorer.tune({"scale": {"vmem_limit_bytes": -1}})
    assert variant.state == "failed"
    assert "Expected a positive number of bytes" in str(variant.error)


def test_interpreted_kernels_are_for_the_cpu(explorer: Explorer) -> None:
    variant = explorer.tune(interpret=True)
    assert variant.lowered is not None
    assert (str(variant.target), variant.lowered.program.platform, variant.label) == ("cpu", "cpu", "interpreted")
    assert variant.lowered.kernels[0].interpret


def test_another_generation_keeps_the_changes_and_is_not_interpreted(explorer: Explorer) -> None:
    assert explorer.add(None, "tpu:v6e").lowered is not explorer.baseline.lowered  # its kernels see another chip
    explorer._compiles.lowerings.tuning = Tuning.of({"scale": {"vmem_limit_bytes": 5}}, interpret=True, chip="v5e")
    variant = explorer.add(None, "tpu:v6e")
    assert variant.tuning == Tuning.of({"scale": {"vmem_limit_bytes": 5}}, chip="v6e")


def test_the_browser_asks_for_a_changed_field(explorer: Explorer, box: Mailbox) -> None:
    request(box, values={"vmem_limit_bytes": "2 MiB"})
    settled(explorer)
    assert limits(explorer) == [None, 2 << 20]
    assert box.last("tuned") == {"type": "tuned", "id": 7, "variant": 1, "error": None}
    settled(explorer)
    changed = [p["name"] for p in box.last("kernels")["rows"][0]["params"] if p["overridden"]]
    assert changed == ["vmem_limit_bytes"]
    request(box, variant=1, values={"disable_bounds_checks": "true"})  # on top of what that variant has
    settled(explorer)
    assert explorer.variants[2].tuning.as_dict() == {0: {"vmem_limit_bytes": 2 << 20, "disable_bounds_checks": True}}


def test_a_mistyped_value_is_reported_and_adds_nothing(explorer: Explorer, box: Mailbox) -> None:
    for values, text in (
        ({"vmem_limit_bytes": "lots"}, "vmem_limit_bytes must be int"),
        ({"vmem_limit_bytes": "-3"}, "vmem_limit_bytes is -3"),
        ({"dimension_semantics": "parallel, parallel"}, "the kernel has 1 grid dimensions"),
    ):
        request(box, values=values)
        settled(explorer)
        assert text in box.last("tuned")["error"]["message"]
    assert len(explorer.variants) == 1


def test_the_browser_asks_for_the_interpreter(explorer: Explorer, box: Mailbox) -> None:
    request(box, interpret=True)
    settled(explorer)
    assert str(explorer.variants[1].target) == "cpu"
    assert box.last("tuned")["variant"] == 1


def test_a_refusal_is_explained_beside_the_kernel(explorer: Explorer, box: Mailbox, work: FakeWork) -> None:
    work.jobs[0].fail(CompilationError(REFUSAL))
    explorer.wait(10)
    assert box.last("kernels")["trouble"]["limit_bytes"] == 16 << 20
    assert box.last("variant")["error"]["message"] == REFUSAL


def test_another_axis_environment_keeps_the_tunings(explorer: Explorer, work: FakeWork) -> None:
    explorer.tune({"scale": {"vmem_limit_bytes": 1 << 20}})
    explorer._threads.later(lambda: explorer._controls._start_over([("i", 2)]))
    settled(explorer)
    assert limits(explorer) == [None, 1 << 20]
    assert work.requests[-1].program.mesh is not None
    assert [str(Target.parse(v.target)) for v in explorer.variants] == ["tpu:v5e:1x1"] * 2


def test_explore_takes_them_for_its_baseline() -> None:
    x = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
    explorer = inspector.explore(
        scale, x, target="cpu", interpret=True, compiler_params={"scale": {"collective_id": 3}}
    )
    (kernel,) = explorer.lowered.kernels
    assert (kernel.interpret, kernel.overridden, dict(kernel.params)["collective_id"]) == (True, ("collective_id",), 3)
    assert np.array_equal(explorer.wait(60).baseline.compiled.run(x, repeat=1).outputs[0], 2 * x)
    explorer.close()


def test_the_memory_of_a_kernel_is_sent_once_code_is_recorded(
    explorer: Explorer, box: Mailbox, work: FakeWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = SimpleNamespace(operands=(), shape=Shape("tuple"))
    monkeypatch.setattr(vmem, "_call_of", lambda kernel, module: call)
    monkeypatch.setattr(vmem, "vmem_scratch_bytes", lambda call: 123)

    def used() -> list[Any]:
        memories = [row["memory"] for row in box.last("kernels")["rows"]]
        return [None if memory["how_sure"] else memory["total_bytes"] for memory in memories]

    work.preview(0)
    explorer._threads.drain(time.monotonic() + 10)
    assert used() == [None]
    work.finish(0)
    explorer.wait(10)
    assert used() == [123]
    explorer.tune({"*": {"vmem_limit_bytes": 1 << 20}})
    work.preview(1)
    work.jobs[1].fail(CompilationError("refused"))
    explorer.wait(10)
    assert used() == [None]


def test_without_kernels_nothing_is_tuned() -> None:
    with pytest.raises(OptionError, match="names a Pallas kernel 'scale', which the function does not have"):
        inspector.explore(lambda x: x + 1, X, target="cpu", compiler_params={"scale": {}})


@needs_tpu
@pytest.mark.slow
def test_the_memory_is_that_of_the_result_not_of_its_preview() -> None:
    explorer = inspector.explore(
        lambda x, y: matmul(x, y, bm=256), struct(512, 512), struct(512, 512), target="tpu:v5e:1x1"
    )
    box = Mailbox(explorer.wait(120))
    (kernel,), module = explorer.lowered.kernels, explorer.baseline.compiled.module()
    budget = kernel.vmem("v5e", module)
    assert isinstance(budget, VmemBudget)
    (row,) = box.last("kernels")["rows"]
    assert row["memory"]["total_bytes"] == budget.total_bytes >= 512 << 10
    assert row["memory"]["how_sure"] == ""
    explorer.close()
