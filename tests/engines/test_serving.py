"""Serving requests in a process: cached executables and recorded products, with a fake compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from inspector._jax.compiling.compiler import Watch
from inspector._jax.compiling.report import Report
from inspector._jax.compiling.slices import Slice
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.buffers import Buffers
from inspector.engines import serving
from inspector.engines.serving import Server, callbacks_of, compiler_of
from inspector.engines.workers.messages import PlainCompile, PlainRun
from inspector.errors import ExecutionError, Unavailable
from tests.engines import programs

REPORT = Report(
    "HloModule jit_f, is_scheduled=true\n\nENTRY", b"proto", Unavailable("-"), Unavailable("-"), b"code", {"read_s": 1.0}, {}
)  # fmt: skip
TEXT = "module_0000.jit_f.after_optimizations-buffer-assignment.txt"
TPU = Slice("tpu", "v5e", (2, 2))


class Executable:
    """Says with what it was run."""

    def __init__(self, made: str) -> None:
        self.made = made

    def run(
        self, inputs: Any, per_replica: Any, *, repeat: int, warmup: int, names: Any, profiled: bool, with_outputs: bool
    ) -> Any:
        assert with_outputs
        assert not profiled
        return self.made, inputs, per_replica, repeat, warmup, names


class FakeCompiler:
    """Writes files where XLA would, and tells what it was asked."""

    def __init__(self, report: Report = REPORT, can_run: bool = True, **files: dict[str, str]) -> None:
        self.report, self.can_run, self.files = report, can_run, files
        self.asked: list[tuple[str, Any]] = []
        self.watches: list[Watch | None] = []
        self.callbacks: list[object] = []
        self.existed: list[list[str]] = []

    def compile(
        self, module: bytes, build_options: Any, *, watch: Watch | None, progress: Callable[[str], None], **rest: Any
    ) -> tuple[Any, Report]:
        self.asked.append(("compile", module))
        self.watches.append(watch)
        self.callbacks.append(rest["callbacks"])
        progress("compiling")
        if watch is not None:
            beside = Path(watch.directory).parent
            self.existed.append(sorted(path.name for path in beside.iterdir() if path.is_dir()))
            for folder, files in self.files.items():
                (beside / folder).mkdir(exist_ok=True)
                for name, text in files.items():
                    file = beside / folder / name
                    file.write_text(text)
                    if folder == "hlo" and watch.see is not None:
                        watch.see(file)
        return (Executable(f"compiled {module!r}") if self.can_run else None), self.report

    def load(self, serialized: bytes, module: bytes, build_options: Any, versions: Any) -> Executable:
        self.asked.append(("load", serialized))
        return Executable(f"loaded {serialized!r}")


def request(key: str = "k", **changes: Any) -> PlainCompile:
    return dataclasses.replace(PlainCompile(key, key.encode(), {}, "cpu", {}), **changes)


def run(compile_: PlainCompile, executable: bytes | None = None) -> PlainRun:
    return PlainRun(compile_, executable, {}, (np.zeros(2),), (False,), ("x",), repeat=3, warmup=1)


def server(compiler: FakeCompiler, **limits: int) -> Server:
    return Server(cast(Any, lambda devices: compiler), **limits)


@pytest.fixture
def stages() -> list[str]:
    return []


def test_executables_are_reused_else_loaded_else_compiled(stages: list[str]) -> None:
    compiler = FakeCompiler()
    serve = server(compiler)
    serve.compile(request("held"), stages.append)
    asked = run(request("held"), b"bytes")
    made, inputs, *rest = cast(Any, serve.run(asked, stages.append))
    assert (made, *rest) == ("compiled b'held'", (False,), 3, 1, ("x",))
    assert inputs is asked.inputs
    assert stages == ["compiling", "running"]
    for _ in range(2):
        assert cast(Any, serve.run(run(request("other"), b"bytes"), stages.append))[0] == "loaded b'bytes'"
    assert stages[2:] == ["loading", "running", "running"]
    for _ in range(2):
        assert cast(Any, serve.run(run(request("third")), stages.append))[0] == "compiled b'third'"
    assert stages[5:] == ["compiling", "running", "running"]
    assert compiler.asked == [("compile", b"held"), ("load", b"bytes"), ("compile", b"third")]


def test_the_last_ones_are_held(stages: list[str]) -> None:
    compiler = FakeCompiler()
    serve = server(compiler, max_executables=2)
    for key in ("a", "b", "c"):
        serve.compile(request(key), stages.append)
    serve.compile(request("b"), stages.append)  # which is then the last
    serve.compile(request("d"), stages.append)
    compiler.asked.clear()
    for key in ("b", "d", "c", "a"):
        serve.run(run(request(key)), stages.append)
    assert compiler.asked == [("compile", b"c"), ("compile", b"a")]


def test_four_are_held(stages: list[str]) -> None:
    compiler = FakeCompiler()
    serve = server(compiler)
    for key in "abcde":
        serve.compile(request(key), stages.append)
    compiler.asked.clear()
    for key in "bcdea":
        serve.run(run(request(key)), stages.append)
    assert compiler.asked == [("compile", b"a")]


def test_equal_modules_with_other_callbacks_are_other_executables(stages: list[str]) -> None:
    compiler, callbacks = FakeCompiler(), [cast(Any, object()) for _ in range(2)]
    serve = server(compiler)
    for each in callbacks:
        serve.compile(request(), stages.append, each)
    for each in callbacks:
        serve.run(run(request()), stages.append, each)
    assert compiler.callbacks == callbacks


def test_devices_that_are_not_here_cannot_run(stages: list[str]) -> None:
    asked: list[Slice | None] = []
    compiler = FakeCompiler(can_run=False)

    def of(devices: Slice | None) -> Any:
        asked.append(devices)
        return compiler

    serve = Server(of)
    serve.compile(request(slice=TPU), stages.append)
    with pytest.raises(ExecutionError, match="a device that is not attached cannot run"):
        serve.run(run(request(slice=TPU)), stages.append)
    assert "running" not in stages
    assert asked == [TPU, TPU]


def test_without_products_the_dump_is_left_to_the_watcher(tmp_path: Path, stages: list[str]) -> None:
    compiler = FakeCompiler()
    watch = Watch(str(tmp_path / "hlo"), take=lambda _: None)
    for each in (watch, None):
        assert server(compiler).compile(request(), stages.append, watch=each) is REPORT
    assert compiler.watches == [watch, None]
    assert stages == ["compiling"] * 2


def test_products_are_recorded_after_the_compile(tmp_path: Path, stages: list[str]) -> None:
    compiler = FakeCompiler(hlo={"module_0000.jit_f.cpu_after_optimizations.hlo.pb": "proto"})
    take = [lambda _: None]
    watch = Watch(str(tmp_path / "hlo"), take=take[0], flags={"xla_dump_x": True})
    report = server(compiler).compile(request(products=("buffers",)), stages.append, watch=watch)
    recorded = report.recorded["buffers"]
    assert isinstance(recorded, bytes)
    assert Buffers.from_bytes(recorded).hlo_proto == b"proto"
    assert stages == ["compiling", "recording"]
    assert set(report.timings) == {"read_s", "record_s"}
    assert 0 <= report.timings["record_s"] < 60
    (seen,) = compiler.watches
    assert seen is not None
    assert (seen.take, seen.flags["xla_dump_hlo_as_proto"]) == (take[0], True)


def test_with_passes_there_is_no_preview(tmp_path: Path, stages: list[str]) -> None:
    compiler = FakeCompiler()
    watch = Watch(str(tmp_path / "hlo"), take=lambda _: None)
    server(compiler).compile(request(products=("buffers", "passes"), platform="gpu"), stages.append, watch=watch)
    (seen,) = compiler.watches
    assert seen is not None
    assert seen.take is None


def test_products_without_a_watch_have_a_directory_that_goes_again(stages: list[str]) -> None:
    compiler = FakeCompiler(hlo={"module_0000.jit_f.cpu_after_optimizations.hlo.pb": "proto"})
    report = server(compiler).compile(request(products=("buffers",)), stages.append)
    assert isinstance(report.recorded["buffers"], bytes)
    (seen,) = compiler.watches
    assert seen is not None
    assert Path(seen.directory).name == "hlo"
    assert not Path(seen.directory).parent.exists()


def test_code_is_taken_of_the_folders_beside_the_dump(tmp_path: Path, stages: list[str]) -> None:
    """libtpu writes it where it was told when it was loaded."""
    files = {
        "llo": {"20-fusion.5-02-original.txt": "of fusion.5"},
        "mosaic": {"30-other.1-02-original.txt": "of other"},
    }
    compiler = FakeCompiler(**files)
    watch = Watch(str(tmp_path / "hlo"))
    asked = request(products=("assembly",), platform="tpu", slice=TPU)
    recorded = server(compiler).compile(asked, stages.append, watch=watch).recorded["assembly"]
    assert isinstance(recorded, bytes)
    assert {(code.kernel, code.text) for code in Assembly.from_bytes(recorded)} == {
        ("fusion.5", "of fusion.5"), ("other.1", "of other"),
    }  # fmt: skip
    assert compiler.existed == [["llo", "mosaic"]]  # watched before the compile began
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("reported", "expected"), [(b"reported", b"reported"), (b"", b"as text")])
def test_the_buffer_assignment_is_the_reported_one_else_the_dumps_text(
    tmp_path: Path, stages: list[str], reported: bytes, expected: bytes
) -> None:
    compiler = FakeCompiler(dataclasses.replace(REPORT, buffer_assignment=reported), hlo={TEXT: "as text"})
    asked = request(products=("passes",), platform="tpu", slice=TPU)
    report = server(compiler).compile(asked, stages.append, watch=Watch(str(tmp_path / "hlo")))
    assert report.buffer_assignment == expected


def test_costs_are_counted_by_the_passed_function(monkeypatch: pytest.MonkeyPatch, stages: list[str]) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(serving, "program_cost", lambda *args: asked.append(args) or {"flops": 1.0})

    class Counted(FakeCompiler):
        def compile(self, *args: Any, **rest: Any) -> Any:
            costing = rest.pop("costing")
            made, report = super().compile(*args, **rest)
            return made, dataclasses.replace(report, cost=costing(b"proto", {"flops": 2.0}))

    def count(modules: Any) -> Any:
        return []

    report = Server(cast(Any, lambda _: Counted()), count).compile(request(), stages.append)
    assert report.cost == {"flops": 1.0}
    assert asked == [(b"proto", {"flops": 2.0}, count)]


def test_the_compiler_of_this_process_has_as_many_devices_as_the_target() -> None:
    from inspector.compilation.target import Target

    assert len(compiler_of(Target.parse("cpu:3")).devices) == 3
    assert len(compiler_of(Target.parse("cpu")).devices) == 1


def test_callbacks_stay_in_the_process_that_lowered() -> None:
    import jax
    import jax.numpy as jnp

    shape = jax.ShapeDtypeStruct((2,), jnp.float32)
    assert callbacks_of(programs.lower(lambda x: x + 1, shape)) is None
    calling = programs.lower(lambda x: jax.pure_callback(np.sin, shape, x), shape)
    assert callbacks_of(calling) is calling.callbacks is not None
    with pytest.raises(ExecutionError, match="Lower the function again in this process"):
        callbacks_of(dataclasses.replace(calling, callbacks=None))
