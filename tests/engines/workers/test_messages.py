"""Messages between a notebook kernel and a worker: what is written is what is read, and what cannot be meant is refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from inspector._jax.compiling.execution import Execution
from inspector._jax.compiling.report import EarlyReport, Report
from inspector._jax.compiling.slices import Slice
from inspector.engines.workers import messages
from inspector.engines.workers.messages import PlainCompile, PlainRun
from inspector.engines.workers.wire import WireError
from inspector.errors import CompilationError, ModuleError, OptionError, Unavailable
from inspector.support import deferred

COMPILE = PlainCompile("key", b"module", {"flags": {"a": True}}, "tpu", {"jax_x": 1}, None, ("assembly", "passes"))
REPORT = Report(
    "HloModule f", b"proto", {"temp": 8}, {"flops": 2.0}, b"executable", {"compile_s": 1.5}, {"jax": "0"}, ("TPU 0", "TPU 1"),
    b"assignment", {"passes": b"p", "assembly": Unavailable("none", "do this"), "buffers": b"bb"},
)  # fmt: skip
EARLY = EarlyReport("HloModule f", b"proto", b"assignment", ("TPU 0", "TPU 1"))


def sent(message: messages.Message) -> tuple[dict[str, Any], Sequence[bytes]]:
    """As it arrives."""
    header, blobs = message
    return json.loads(json.dumps(header)), [bytes(blob) for blob in blobs]


@pytest.mark.parametrize("devices", [None, Slice("tpu", "v5e", (2, 4)), Slice("gpu", "h100", (1, 8), "described")])
def test_compile_requests(devices: Slice | None) -> None:
    request = dataclasses.replace(COMPILE, slice=devices)
    header, blobs = sent(messages.write_compile(request))
    assert header["do"] == "compile"
    read = messages.read_compile(header, blobs)
    assert dataclasses.replace(read, products=tuple(read.products)) == request


@pytest.mark.parametrize("executable", [None, b"", b"executable"])
def test_run_requests(executable: bytes | None) -> None:
    inputs = (np.arange(6, dtype=np.float32).reshape(2, 3), np.array(1, ml_dtypes.bfloat16), np.zeros((0, 2), np.int8))
    request = PlainRun(
        COMPILE, executable, {"jaxlib": "1"}, inputs, (True, False, False), ("x", "y", "z"), 3, 2, with_outputs=False
    )
    header, blobs = sent(messages.write_run(request))
    assert header["do"] == "run"
    read = messages.read_run(header, blobs)
    assert read.executable == executable
    assert (read.versions, read.per_replica, read.names) == ({"jaxlib": "1"}, (True, False, False), ("x", "y", "z"))
    assert (read.repeat, read.warmup) == (3, 2)
    assert read.compile.module == b"module"
    for one, other in zip(read.inputs, inputs, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def executable() -> bytes:
    return b"executable"


def test_reports() -> None:
    header, blobs = sent(messages.write_report(REPORT))
    assert messages.read_report(header, blobs, executable) == REPORT
    for unknown in ({"memory": Unavailable("m")}, {"cost": Unavailable("c", "r")}):
        report = dataclasses.replace(REPORT, **unknown)
        assert messages.read_report(*sent(messages.write_report(report)), executable) == report


def test_the_executable_follows_a_report_that_does_not_wait_for_it() -> None:
    asked: list[str] = []

    def never() -> bytes:
        asked.append("executable")
        return b"executable"

    written = deferred.defer(
        Report,
        {"executable": lambda _: never()},
        **{
            field.name: getattr(REPORT, field.name)
            for field in dataclasses.fields(Report)
            if field.name != "executable"
        },
    )
    read = messages.read_report(*sent(messages.write_report(written)), never)
    assert (read.hlo, read.recorded, asked) == (REPORT.hlo, REPORT.recorded, [])
    assert (written, read, asked) == (REPORT, REPORT, ["executable"] * 2)
    for each in (b"", b"executable", Unavailable("e", "r")):
        assert messages.read_executable(*sent(messages.write_executable(each))) == each
    with pytest.raises(WireError, match="got a message of type 'ran'"):
        messages.read_executable({"reply": "ran"}, [])


def test_the_early_report_is_not_sent_again() -> None:
    header, blobs = sent(messages.write_report(REPORT, EARLY))
    assert list(blobs) == [b"p", b"bb"]
    read = messages.read_report(header, blobs, executable, EARLY)
    assert read == REPORT
    assert read.hlo is EARLY.hlo
    changes: list[dict[str, Any]] = [{"hlo": "HloModule g"}, {"buffer_assignment": b""}, {"devices": ()}]
    for told in (dataclasses.replace(EARLY, **changed) for changed in changes):
        header, blobs = sent(messages.write_report(REPORT, told))
        assert messages.read_report(header, blobs, executable, told) == REPORT


def test_a_report_that_refers_to_a_missing_early_report_is_refused() -> None:
    with pytest.raises(WireError, match="a preview that was not sent"):
        messages.read_report(*sent(messages.write_report(REPORT, EARLY)), executable)


def test_previews_and_their_cost() -> None:
    header, blobs = sent(messages.write_early(EARLY))
    assert header == {"preview": True, "devices": ["TPU 0", "TPU 1"]}
    assert messages.read_early(header, blobs) == EARLY
    for cost in ({"flops": 1.0}, Unavailable("not counted", "wait")):
        assert messages.read_counted(sent(messages.write_counted(cost))[0]) == cost


def test_executions_can_be_written_to() -> None:
    made = Execution((np.arange(3), np.array([True, False])), (0.1, 0.2), "cpu", first_s=0.5, dispatch_s=(0.01, 0.02))
    header, blobs = sent(messages.write_execution(made))
    assert header["reply"] == "ran"
    read = messages.read_execution(header, blobs)
    assert (read.durations_s, read.device_kind) == ((0.1, 0.2), "cpu")
    assert (read.first_s, read.dispatch_s) == (0.5, (0.01, 0.02))
    read.outputs[0][0] = 5
    assert read.outputs[0].tolist() == [5, 1, 2]
    assert read.outputs[1].tolist() == [True, False]


@pytest.mark.parametrize("error", [ModuleError("no module"), OptionError("no option")])
def test_errors_of_inspector_keep_their_type(error: Exception) -> None:
    read = messages.read_error(sent(messages.write_error(error))[0])
    assert (type(read), str(read)) == (type(error), str(error))


def test_other_errors_name_the_operation() -> None:
    for error, said in ((ValueError("odd"), "ValueError: odd"), (KeyError(), "KeyError")):
        read = messages.read_error(sent(messages.write_error(error))[0], "compiling 'f'")
        assert (type(read), str(read)) == (CompilationError, f"The worker failed while compiling 'f': {said}")
    for kind in ("NoSuchError", "dataclasses", "Unavailable"):
        assert type(messages.read_error({"type": kind, "text": "t"})) is CompilationError
