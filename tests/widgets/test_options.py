"""The options pane: the progress of a scan is sent, and tried or typed options become a variant."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from inspector.api.flag_effects.effect import FailedEffect, FlagEffect, failed
from inspector.compilation.engine import Job
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.widgets.explorer import Explorer
from inspector.widgets.work import ScanLimits
from tests.widgets.fakes import FakeWork, Mailbox, lowered

NO_CODE = Unavailable("not known before code generation")
DELTAS = dict.fromkeys(("estimated_s", "exposed_s", "peak_bytes", "flops", "bytes_accessed", "kernels"), 0.0)


def effect(flag: str, value: FlagValue, outcome: Any = "nothing", headline: str = "", **deltas: float) -> FlagEffect:
    same = outcome == "nothing"
    found = {**DELTAS, "collectives": NO_CODE, **deltas}
    return FlagEffect(
        flag, value, outcome, hlo=not same, memory=False, cost=False, code=NO_CODE, headline=headline, deltas=found
    )


class FakeScan(Job[Any]):
    """A scan that a test ends."""

    def __init__(self, known: Sequence[FlagEffect] = ()) -> None:
        self.stopped = threading.Event()
        super().__init__(cancel=self.stopped.set)
        self.ranked: list[FlagEffect] = [*known]
        self.total = 4
        self.not_tried: list[tuple[str, FlagValue]] = []
        self.left_out = {"that dump": 12}
        self.resumed: FakeScan | None = None

    def resume(self) -> FakeScan:
        self.resumed = FakeScan(self.ranked)
        return self.resumed


class Scanned:
    """An Explorer whose scans a test ends, and what its browser hears."""

    def __init__(self, error: Exception | None = None) -> None:
        self.fakes = FakeWork()
        self.asked: list[tuple[Target, Options, ScanLimits]] = []
        self.scans: list[FakeScan] = []
        self.error = error
        self.fakes.scan = self.scan  # type: ignore[assignment,method-assign]
        self.explorer = Explorer(lowered(), self.fakes, target="cpu", options={"xla_cpu_enable_fast_min_max": True})
        self.fakes.finish_all()
        self.mail = Mailbox(self.explorer)

    def scan(self, program: Any, target: Target, options: Options, limits: ScanLimits) -> FakeScan:
        if self.error is not None:
            raise self.error
        self.asked.append((target, options, limits))
        self.scans.append(FakeScan())
        return self.scans[-1]

    def ask(self, do: str, *, measure: bool = False) -> None:
        self.mail.send(
            {"type": "scan", "variant": 0, "do": do, "time_limit_s": 30.0, "machine_code": False, "measure": measure}
        )

    def until(self, what: Callable[[], Any], limit_s: float = 20) -> Any:
        deadline = time.monotonic() + limit_s
        while not (found := what()):
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.01)
        return found


@pytest.fixture
def scanned() -> Any:
    made = Scanned()
    yield made
    made.explorer.close()


def test_measured_times_are_sent_if_the_scan_measures(scanned: Scanned) -> None:
    scanned.ask("start", measure=True)
    scanned.until(lambda: scanned.mail.of("scan", state="running"))
    assert scanned.asked[0][2].measure
    scan = scanned.scans[0]
    scan.ranked = [
        effect("xla_a", True, "hlo", "1 fusion split", measured_s=-0.25),
        effect("xla_b", True, "hlo", "2 kernels"),
    ]
    scan.resolve(None)
    found = scanned.until(lambda: scanned.mail.of("scan", state="done"))[0]
    assert found["measure"]
    assert [row["measured_s"] for row in found["rows"]] == [-0.25, None]


def test_the_progress_of_a_scan_is_sent(scanned: Scanned) -> None:
    scanned.ask("start")
    scanned.until(lambda: scanned.mail.of("scan", state="running"))
    assert scanned.asked == [
        (Target("cpu"), Options(flags={"xla_cpu_enable_fast_min_max": True}), ScanLimits(30.0, machine_code=False))
    ]
    scan = scanned.scans[0]
    scan.ranked = [
        effect("xla_a", True, "hlo", "1 fusion split", peak_bytes=64.0),
        effect("xla_b", False),
        effect("xla_e", True, "unknown"),
        failed("xla_c", True, FailedEffect("crashed", "it is gone")),
    ]
    scan.not_tried = [("xla_d", True)]
    scan.resolve(None)
    told = scanned.until(lambda: scanned.mail.of("scan", state="done"))[-1]
    assert [(row["flag"], row["value"], row["words"], row["peak_bytes"]) for row in told["rows"]] == [
        ("xla_a", "true", "1 fusion split", 64.0),
        ("xla_c", "true", "it is gone", None),
    ]
    assert told["rows"][0]["unknown"] == "not known before code generation"
    assert (told["done"], told["total"], told["left"], told["same"]) == (4, 4, 1, ["xla_b=false"])
    assert told["unknown"] == ["xla_e=true"]
    assert told["left_out"] == "12 that dump"


def test_only_tried_options_become_variants(scanned: Scanned) -> None:
    scanned.ask("start")
    scanned.until(lambda: scanned.scans)
    scanned.scans[0].ranked = [effect("xla_cpu_enable_fast_math", True, "hlo")]
    add = {"type": "scan_add", "variant": 0, "flag": "xla_cpu_enable_fast_math", "value": "true"}
    scanned.mail.send({**add, "flag": "xla_dump_to", "value": "/tmp/x"})
    scanned.until(lambda: scanned.mail.of("notice"))
    assert "was not tried" in scanned.mail.last("notice")["message"]
    scanned.mail.send(add)
    scanned.until(lambda: len(scanned.explorer.variants) == 2)
    assert dict(scanned.explorer.variants[1].options.flags) == {
        "xla_cpu_enable_fast_math": True,
        "xla_cpu_enable_fast_min_max": True,
    }


def test_stopped_resumed_and_closed(scanned: Scanned) -> None:
    scanned.ask("start")
    scanned.until(lambda: scanned.mail.of("scan", state="running"))
    scanned.ask("start")  # one at a time
    scanned.mail.send({"type": "build_options", "id": 1, "variant": 0})
    scanned.until(lambda: scanned.mail.of("build_options", id=1))  # on the same thread
    scanned.scans[0].ranked = [effect("xla_a", True, "hlo")]
    scanned.scans[0].not_tried = [("xla_d", True)]
    scanned.ask("stop")
    told = scanned.until(lambda: scanned.mail.of("scan", state="cancelled"))[-1]
    assert (len(told["rows"]), told["left"]) == (1, 1)
    assert scanned.scans[0].stopped.is_set()
    scanned.ask("resume")
    again: Any = scanned.until(lambda: scanned.scans[0].resumed)
    scanned.until(lambda: len(scanned.mail.of("scan", state="running")) >= 2)
    scanned.explorer.close()
    assert again.stopped.is_set()
    assert len(scanned.scans) == 1


def test_an_impossible_scan_states_the_reason() -> None:
    scanned = Scanned(ValueError("only this process can"))
    scanned.ask("start")
    told = scanned.until(lambda: scanned.mail.of("scan", state="failed"))[-1]
    assert told["error"]["message"] == "only this process can"
    scanned.explorer.close()


def test_build_options_are_offered_and_read(scanned: Scanned) -> None:
    scanned.mail.send({"type": "build_options", "id": 1, "variant": 0})
    told = scanned.until(lambda: scanned.mail.of("build_options", id=1))[-1]
    rows = {row["name"]: row for row in told["rows"]}
    assert list(rows)[:3] == ["num_replicas", "num_partitions", "device_assignment"]
    assert rows["num_replicas"]["usual"] == "1"
    assert "EFFORT_O1" in rows["optimization_level"]["values"]
    assert told["flags"] == "--xla_cpu_enable_fast_min_max=true"

    def build(values: dict[str, str], flags: str, number: int) -> Any:
        scanned.mail.send({"type": "build", "id": number, "variant": 0, "values": values, "flags": flags})
        return scanned.until(lambda: scanned.mail.of("built", id=number))[-1]["error"]

    for number, (values, flags, words) in enumerate((
        ({"num_replicas": "0"}, "", "num_replicas must be a positive integer, got 0"),
        ({"device_assignment": "a"}, "", "expected device ids, with commas within a replica"),
        ({"optimization_level": "fast"}, "", "expected one of EFFORT_UNKNOWN"),
        ({"xla_dump_to": "/tmp/x"}, "", "Unknown option xla_dump_to"),
        ({}, "--xla_dump_to=/tmp/x", "dump_directory"),
        ({"num_replicas": "2"}, "--num_replicas=2", "num_replicas is set both in a field and among the flags"),
        ({}, "--xla_cpu_enable_fast_mat=true", "xla_cpu_enable_fast_math"),
    ), 2):  # fmt: skip
        assert words in build(values, flags, number)["message"]
    assert len(scanned.explorer.variants) == 1
    values = {"num_replicas": "2", "device_assignment": "1;0", "optimization_level": "EFFORT_O1", "num_partitions": " "}
    assert build(values, 'export XLA_FLAGS="--xla_cpu_enable_fast_math=true"', 20) is None
    asked = scanned.explorer.variants[1].options
    assert (asked.num_replicas, asked.num_partitions, asked.device_assignment) == (2, None, ((1,), (0,)))
    assert dict(asked.flags) == {"optimization_level": "EFFORT_O1", "xla_cpu_enable_fast_math": True}
