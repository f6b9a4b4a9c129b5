"""A compiler whose compile cannot be watched says so, and compiles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from inspector._jax.compiling import dump
from inspector._jax.compiling.compiler import Compiler, Watch
from inspector._jax.compiling.configuration import read_config
from inspector._jax.compiling.final_hlo import FinalHlo
from inspector._jax.compiling.report import EarlyReport
from inspector.engines.workers.messages import plain_compile
from inspector.lowering.lower import lower
from inspector.stages.lowered import compile_request
from tests.conftest import RunPython


def compile_watched(directory: Path) -> tuple[list[EarlyReport], str]:
    plain = plain_compile(
        compile_request(lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32)), None, "cpu"), read_config()
    )
    taken: list[EarlyReport] = []
    _, report = Compiler("cpu", 1).compile(
        plain.module, plain.build_options, platform="cpu", watch=Watch(str(directory), taken.append)
    )
    return taken, report.hlo


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_without_file_watches_there_is_no_preview_but_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (early,), hlo = compile_watched(tmp_path / "dump")
    assert early.hlo == hlo

    def exhausted(directory: Path) -> int:
        raise OSError(24, "inotify: Too many open files", str(directory))

    monkeypatch.setattr(dump, "_watch", exhausted)
    assert compile_watched(tmp_path / "dump") == ([], hlo)
    assert "no preview before the result: [Errno 24] inotify: Too many open files" in caplog.text
    assert not (tmp_path / "dump").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_the_hlo_is_reported_before_costs_are_counted(tmp_path: Path) -> None:
    plain = plain_compile(
        compile_request(lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32)), None, "cpu"), read_config()
    )
    told: list[Any] = []

    def costing(hlo_proto: bytes, reported: Any) -> dict[str, float]:
        told.append(hlo_proto)
        return {"transcendentals": reported["transcendentals"]}

    watch = Watch(str(tmp_path / "dump"), lambda early: told.append(early.hlo_proto), told.append)
    _, report = Compiler("cpu", 1).compile(
        plain.module, plain.build_options, platform="cpu", watch=watch, costing=costing
    )
    assert told == [report.hlo_proto, report.hlo_proto, {"transcendentals": 4.0}]  # and not counted again
    assert report.cost is told[2]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_unused_texts_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    see = FinalHlo.see

    def seen(final: FinalHlo, file: Path) -> None:
        names.append(file.name)
        see(final, file)

    monkeypatch.setattr(FinalHlo, "see", seen)
    (early,), _ = compile_watched(tmp_path / "dump")
    ends = ("-buffer-assignment-values.txt", "-live-range.txt")
    assert [name for name in names if name.endswith(ends)] == []
    assert any(name.endswith("-buffer-assignment.txt") for name in names)
    assert early.buffer_assignment


def test_a_count_that_fails_early_is_made_again_with_the_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = plain_compile(
        compile_request(lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32)), None, "cpu"), read_config()
    )
    fails = iter([True, False])
    early: list[EarlyReport] = []

    def costing(hlo_proto: bytes, reported: Any) -> dict[str, float]:
        if next(fails):
            raise ValueError("nobody counts this")
        return {"flops": 1.0}

    watch = Watch(str(tmp_path / "dump"), early.append, lambda cost: pytest.fail(str(cost)))
    _, report = Compiler("cpu", 1).compile(
        plain.module, plain.build_options, platform="cpu", watch=watch, costing=costing
    )
    assert [report.hlo] == [e.hlo for e in early]
    assert report.cost == {"flops": 1.0}
    assert "nobody counts this" in caplog.text


NAMED_LATER = """
import sys
import jax, jax.numpy as jnp
from inspector._jax.compiling.compiler import Compiler
from inspector._jax.compiling.configuration import read_config
from inspector.engines.workers.messages import plain_compile
from inspector.lowering.lower import lower
from inspector.stages.lowered import compile_request

plain = plain_compile(compile_request(lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32)), None, "cpu"), read_config())
compiler = Compiler("cpu", 1)
compiler.compile(plain.module, plain.build_options, platform="cpu")
print("scipy" in sys.modules)
compiler.compile(open(PATH, "rb").read(), plain.build_options, platform="cpu")
print("scipy" in sys.modules)
"""


@pytest.mark.slow
def test_lapack_is_looked_for_when_a_module_names_it(one_device_python: RunPython, tmp_path: Path) -> None:
    lowered = lower(jnp.linalg.cholesky, jax.ShapeDtypeStruct((4, 4), jnp.float32))
    module = tmp_path / "cholesky"
    module.write_bytes(plain_compile(compile_request(lowered, None, "cpu"), read_config()).module)
    script = f"PATH = {str(module)!r}\n{NAMED_LATER}"
    assert one_device_python(script).stdout.split() == ["False", "True"]
