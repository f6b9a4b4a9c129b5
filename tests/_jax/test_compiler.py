"""A compiler whose compile cannot be watched says so, and compiles."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from inspector._jax import dump
from inspector._jax.compiler import Compiler, Watch
from inspector._jax.configuration import read_config
from inspector._jax.report import EarlyReport
from inspector.engines.messages import plain_compile
from inspector.lowering.lower import lower


def compile_watched(directory: Path) -> tuple[list[EarlyReport], str]:
    plain = plain_compile(lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32)).request(None, "cpu"), read_config())
    taken: list[EarlyReport] = []
    _, report = Compiler("cpu", 1).compile(
        plain.module, plain.build_options, platform="cpu", watch=Watch(str(directory), taken.append)
    )
    return taken, report.hlo


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_a_system_without_watches_costs_the_preview_and_is_told(
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
