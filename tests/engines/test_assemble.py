"""An answer of a compiler of which a part cannot be read: the rest is as good as without it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import pytest

import inspector
from inspector._jax.compiling.report import EarlyReport, Report
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.preview import Preview
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.assemble import Shower, make_compiled
from inspector.engines.workers import messages
from inspector.errors import Unavailable

COST = {"flops": 2.0, "transcendentals": 0.0, "bytes_accessed": 8.0}
REPORT = Report(
    "HloModule f", b"proto", {}, COST, b"executable", {"compile_s": 1.5}, {"jax": "0"}, ("TPU 0",), b"", {},
)  # fmt: skip
DAMAGED = b"\xff\xff damaged"


@pytest.fixture(scope="module")
def request_() -> CompileRequest:
    lowered = inspector.lower(lambda x: x + 1, jnp.ones(4))
    return CompileRequest(lowered.program, Options(), Target.parse("cpu"))


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("memory", {"buffer_assignment": DAMAGED}),
        ("cost", {"cost": {"unknown": 1}}),
        ("passes", {"recorded": {"passes": DAMAGED}}),
        ("buffers", {"recorded": {"buffers": DAMAGED}}),
        ("assembly", {"recorded": {"assembly": DAMAGED}}),
    ],
)
def test_an_unreadable_product_does_not_affect_the_others(
    request_: CompileRequest, part: str, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    whole = dataclasses.replace(REPORT, recorded={"passes": Unavailable("p")})
    made = make_compiled(
        request_, "worker", dataclasses.replace(whole, **changes), queue_s=0.0, total_s=1.0, warnings=()
    )
    found = getattr(made, part)
    assert isinstance(found, Unavailable)
    assert "could not be read (" in found.reason
    assert f"The {part} of a compile could not be read." in caplog.text
    assert (made.hlo, made._executable, made.devices) == ("HloModule f", b"executable", ("TPU 0",))
    if part != "cost":
        assert made.cost.flops == 2.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "early",
    [
        (b"HloModule f", b"proto", DAMAGED),
        (b"HloModule \xff", b"proto", b""),
    ],
)
def test_an_odd_preview_costs_no_result(request_: CompileRequest, early: tuple[bytes, bytes, bytes]) -> None:
    job: Job[Any] = Job()
    show = Shower(job, request_, "worker")
    show.hear({"preview": True, "devices": ["TPU 0"]}, early)
    shown = job.preview(timeout=0)
    assert isinstance(shown, Preview)
    assert shown.hlo.startswith("HloModule ")
    assert isinstance(shown.memory, Unavailable)
    told = EarlyReport(shown.hlo, early[1], early[2], shown.devices)
    report = dataclasses.replace(
        REPORT, hlo=told.hlo, hlo_proto=told.hlo_proto, buffer_assignment=told.buffer_assignment
    )
    header, blobs = messages.write_report(report, told)
    read = show.report(header, [bytes(blob) for blob in blobs])
    show.hear({"counted": {"unknown": 1}}, [])
    assert "could not be read (" in job.preview(timeout=0).cost.reason
    show.result(read)
    assert job.result(timeout=0).hlo == shown.hlo
    show.executable.follow(lambda: b"executable")
    assert job.result(timeout=0)._executable == b"executable"
