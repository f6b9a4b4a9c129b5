"""Requested products of compiles, on every engine; no files remain."""

from __future__ import annotations

import dataclasses
import glob
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from inspector.compilation.compiled import is_from_cache
from inspector.compilation.engine import Engine
from inspector.compilation.options.options import Options
from inspector.compilation.request import PRODUCTS, CompileRequest
from inspector.compilation.target import Target
from inspector.engines.cached import CachedEngine
from inspector.engines.inline import InlineEngine
from inspector.engines.workers.worker_engine import WorkerEngine
from inspector.errors import CompilationError, OptionError, ParameterError, Unavailable
from inspector.stages.compiled import Compiled, as_compiled, load_compiled
from inspector.stages.passes import CompilerPasses
from tests.conftest import ROOT
from tests.engines import programs

CPU = Target.parse("cpu")


@pytest.fixture(scope="module", params=["inline", "worker"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made: Engine = InlineEngine() if request.param == "inline" else WorkerEngine()
    yield made
    made.close()


def step(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)
    return loss, w - 0.1 * gradient


def request(*products: str, **flags: Any) -> CompileRequest:
    program = programs.lower(
        step, jax.ShapeDtypeStruct((16, 8), jnp.float32), jax.ShapeDtypeStruct((4, 16), jnp.float32)
    )
    return CompileRequest(program, Options(flags=flags), CPU, frozenset(products))


def temporary() -> set[str]:
    """Lists this process's scratch directories. Not by `Path.glob`, which fails where one is deleted meanwhile."""
    places = [tempfile.gettempdir(), "/dev/shm"]
    return {path for place in places for path in glob.glob(f"{place}/inspector-{os.getpid()}-*/[!.]*")}  # noqa: PTH207


@pytest.fixture(scope="module")
def whole(engine: Engine) -> Compiled:
    return as_compiled(engine.submit(request(*PRODUCTS)).result(120))


def test_nothing_is_recorded_unasked(engine: Engine) -> None:
    compiled = engine.submit(request()).result(120)
    for product in PRODUCTS:
        expected = Unavailable(f"{product!r} was not requested", f"compile with products=({product!r},)")
        assert getattr(compiled, product) == expected


def test_the_rest_of_the_result_is_the_same(engine: Engine, whole: Compiled) -> None:
    plain = engine.submit(request()).result(120)
    assert (whole.hlo, whole.memory, whole.cost) == (plain.hlo, plain.memory, plain.cost)


def test_passes_lead_from_the_first_hlo_to_the_last(whole: Compiled) -> None:
    passes = whole.passes
    assert not isinstance(passes, Unavailable)
    assert passes[0].before.startswith("HloModule jit_step")
    for before, after in zip(passes.changed, passes.changed[1:], strict=False):
        # Either the next one, or the pipeline that this one was the last of.
        assert after.before_index == before.after_index or after.after_index == before.after_index
    last = passes[-1].after.partition("\n")[2]
    assert _instructions(last) == _instructions(whole.hlo.partition("\n")[2])
    assert {"fusion", "algsimp", "dce"} <= {p.name for p in passes.changed} | {"algsimp", "dce"}
    assert len(passes) > len(passes.changed) > 5
    took = [p.duration_s for p in passes if not isinstance(p.duration_s, Unavailable)]
    assert took
    assert min(took) >= 0


def test_snapshots_are_modules(whole: Compiled) -> None:
    assert not isinstance(whole.passes, Unavailable)
    passes = CompilerPasses.of(whole.passes)
    first, last = passes.module(passes.steps[0], before=True), passes.module(passes.steps[-1])
    assert {i.opcode for i in first.instructions()}.isdisjoint({"fusion"})
    assert sorted(last.columns.names) == sorted(whole.module().columns.names)
    assert sum(i.opcode == "fusion" for i in last.instructions()) == sum(
        i.opcode == "fusion" for i in whole.module().instructions()
    )
    with pytest.raises(ParameterError, match="No pass 10000"):
        passes.module(10_000)


def _instructions(hlo: str) -> list[str]:
    return [line.partition(", metadata=")[0] for line in hlo.splitlines() if " = " in line]


@pytest.mark.slow
def test_xlas_own_count_of_passes_is_met(tmp_path: Path) -> None:
    """Compares with XLA's log, in a separate process: the passes in order, once per run."""
    script = """
import jax, jax.numpy as jnp
def step(w, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)
    return loss, w - 0.1 * gradient
f32 = jnp.float32
jax.jit(step).lower(jax.ShapeDtypeStruct((16, 8), f32), jax.ShapeDtypeStruct((4, 16), f32)).compile()
"""
    environment = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "hlo_pass_pipeline=1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, timeout=120, check=True, cwd=tmp_path
    )
    marks = [line.partition(b"]")[2].strip() for line in done.stderr.splitlines() if b"hlo_pass_pipeline.cc" in line]
    logged = [mark.removeprefix(b"HLO pass ").decode() for mark in marks if mark.startswith(b"HLO pass ")]
    ran = [name for name in logged if ":" not in name and " " not in name]
    with_engine = WorkerEngine()
    try:
        result = with_engine.submit(request("passes")).result(120)
    finally:
        with_engine.close()
    passes = result.passes
    assert not isinstance(passes, Unavailable)
    assert passes.table()["duration_s"].sum() == pytest.approx(result.timings["compile_s"], rel=0.02)
    timed = [p for p in passes if not isinstance(p.duration_s, Unavailable)]
    assert len(timed) > 100
    assert sorted(p.name for p in timed if " " not in p.name) == sorted(ran)
    assert all(p.duration_s >= 0 for p in timed if not isinstance(p.duration_s, Unavailable))


def test_code_is_that_of_the_kernels_of_the_hlo(whole: Compiled) -> None:
    assembly = whole.assembly
    assert not isinstance(assembly, Unavailable)
    assert assembly.stages == ("LLVM IR", "LLVM IR, optimized", "assembly")
    instructions = whole.module().entry.instructions
    # A custom fusion is a library's, and the compiler makes no code for it.
    fusions = [i.name for i in instructions if i.opcode == "fusion" and i.proto.fusion_kind != "kCustom"]
    assert len(fusions) > 2
    for name in fusions:
        assert [code.stage for code in assembly.of(name)] == list(assembly.stages)
        ir, optimized, machine = (code.text for code in assembly.of(name))
        assert isinstance(ir, str)
        assert isinstance(optimized, str)
        assert "define" in ir
        assert "define" in optimized
        assert isinstance(machine, Unavailable) or f"{name}:" in machine.splitlines()
    assert assembly.of("no_such_instruction") == ()


def test_the_buffer_assignment_is_the_one_that_xla_counts(whole: Compiled) -> None:
    from inspector._jax.compiling.final_hlo import split_hlo_proto
    from inspector.compilation.preview import assigned_memory

    assert not isinstance(whole.buffers, Unavailable)
    assignment = assigned_memory(split_hlo_proto(whole.buffers.hlo_proto)[1], "cpu")
    assert not isinstance(assignment, Unavailable)
    assert not isinstance(whole.memory, Unavailable)
    assert assignment.temp_bytes == whole.memory.temp_bytes
    assert assignment.argument_bytes == whole.memory.argument_bytes
    assert "BufferLiveRange" in whole.buffers.live_range


def test_live_ranges_are_recorded_beside_a_preview(engine: Engine) -> None:
    for products in (("buffers",), ("assembly", "buffers"), ("buffers", "passes")):
        buffers = engine.submit(request(*products)).result(120).buffers
        assert not isinstance(buffers, Unavailable)
        assert "BufferLiveRange" in buffers.live_range, products


def test_one_product_alone(engine: Engine) -> None:
    for product in sorted(PRODUCTS):
        compiled = engine.submit(request(product)).result(120)
        known = [name for name in PRODUCTS if not isinstance(getattr(compiled, name), Unavailable)]
        assert known == [product]


def test_a_preview_comes_as_ever(engine: Engine) -> None:
    for products in (("assembly",), ("passes",)):
        job = engine.submit(request(*products))
        assert job.preview(120).memory
        assert _instructions(job.preview().hlo) == _instructions(job.result(120).hlo)


def test_nothing_is_left_behind(engine: Engine) -> None:
    engine.submit(request("passes", "assembly")).result(120)
    spec = jax.ShapeDtypeStruct((2,), jnp.float32)
    unknown = programs.lower(jax.ffi.ffi_call("no_such_target", spec), spec)
    with pytest.raises(CompilationError, match="no_such_target"):
        engine.submit(CompileRequest(unknown, Options(), CPU, frozenset(["passes"]))).result(120)
    assert temporary() == set()


def slow(x: jax.Array) -> jax.Array:
    """Seconds to compile: many small fusions that differ."""
    for i in range(400):
        x = jnp.sin(x * (i + 1.5)) @ jnp.ones((4, 4)) + i
    return x


@pytest.mark.slow
def test_nothing_is_left_of_a_recording_that_was_cancelled() -> None:
    engine = WorkerEngine()
    try:
        program = programs.lower(slow, jax.ShapeDtypeStruct((4, 4), jnp.float32))
        job = engine.submit(CompileRequest(program, Options(), CPU, PRODUCTS))
        while job.stage != "compiling" or not any(path.endswith("/hlo") for path in temporary()):
            assert not job.done()
            time.sleep(0.01)
        assert job.cancel()
        assert not isinstance(engine.submit(request("passes")).result(120).passes, Unavailable)
        assert temporary() == set()
    finally:
        engine.close()


def test_a_dump_of_the_users_own_is_refused_beside_it(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"products=.*xla_dump_to=.*Remove the products"):
        engine.submit(request("passes", xla_dump_to=str(tmp_path))).result(120)
    assert list(tmp_path.iterdir()) == []
    engine.submit(request(xla_dump_to=str(tmp_path))).result(120)
    assert any(path.name.endswith("after_optimizations.txt") for path in tmp_path.iterdir())


@pytest.mark.slow
def test_a_cached_result_without_the_product_is_not_used(tmp_path: Path) -> None:
    from inspector import settings

    inner = InlineEngine()
    cached = CachedEngine(inner, lambda _: "compiler")
    try:
        with settings.scope(cache=True, cache_directory=str(tmp_path)):
            plain = cached.submit(request()).result(120)
            asked = cached.submit(request("passes")).result(120)
            again, back = cached.submit(request("passes")).result(120), cached.submit(request()).result(120)
    finally:
        cached.close()
    assert [is_from_cache(c) for c in (plain, asked, again, back)] == [False, False, True, True]
    assert not isinstance(asked.passes, Unavailable)
    assert again.passes == asked.passes
    assert isinstance(back.passes, Unavailable)


def test_products_are_pickled(whole: Compiled) -> None:
    """For a Dask cluster; the texts of all passes once."""
    data = pickle.dumps(whole)
    assert pickle.loads(data) == whole
    assert not isinstance(whole.passes, Unavailable)
    assert len(pickle.dumps(whole.passes)) < whole.passes.byte_size + 200 * len(whole.passes)


def test_a_saved_file_has_the_products(whole: Compiled, tmp_path: Path) -> None:
    whole.save(tmp_path / "with")
    loaded = load_compiled(tmp_path / "with")
    assert (loaded.passes, loaded.assembly, loaded.buffers) == (whole.passes, whole.assembly, whole.buffers)
    why_not = Unavailable("nobody wrote it", "try")
    dataclasses.replace(whole, passes=why_not).save(tmp_path / "without")
    assert load_compiled(tmp_path / "without").passes == why_not


def test_products_are_read_where_jax_is_not_installed(whole: Compiled, tmp_path: Path) -> None:
    whole.save(tmp_path / "saved")
    script = f"""
import sys
sys.modules["jax"] = sys.modules["jaxlib"] = None
from inspector.stages.compiled import Compiled
import inspector
compiled = inspector.load({str(tmp_path / "saved")!r})
print(len(compiled.passes), len(compiled.passes[-1].after) > 100, compiled.assembly.stages[0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert not isinstance(whole.passes, Unavailable)
    assert done.stdout == f"{len(whole.passes)} True LLVM IR\n", done.stderr
