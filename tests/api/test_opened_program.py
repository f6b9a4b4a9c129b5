"""HLO that was compiled elsewhere, opened without compiling it."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.api.exploration import Exploration
from inspector.api.opened_program import OpenedProgram
from inspector.compilation.compiled import CompiledProgram
from inspector.errors import ModuleError, ParameterError, Unavailable
from inspector.stages.compiled import Compiled
from inspector.stages.lowered import Lowered
from inspector.support import files
from tests.widgets.fakes import Mailbox

SHAPES = (jax.ShapeDtypeStruct((64, 64), jnp.float32), jax.ShapeDtypeStruct((8, 64), jnp.float32))

# StableHLO has no operation for a scaled dot.
HLO_ONLY = """HloModule fp8

ENTRY main {
  a = f8e4m3fn[16,128]{1,0} parameter(0)
  b = f8e4m3fn[32,128]{1,0} parameter(1)
  sa = f8e8m0fnu[16,4]{1,0} parameter(2)
  sb = f8e8m0fnu[32,4]{1,0} parameter(3)
  ROOT d = f32[16,32]{1,0} scaled-dot(a, b, sa, sb), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
"""

PARTITIONED = """HloModule jit_f, is_scheduled=true, num_partitions=4

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main_spmd (w: f32[256,64], x: f32[16,64]) -> f32[16,256] {
  %w = f32[256,64]{1,0} parameter(0), metadata={op_name="params['w']"}
  %x = f32[16,64]{1,0} parameter(1), metadata={op_name="x"}
  %d = f32[16,256]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT %r = f32[16,256]{1,0} all-reduce(%d), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, to_apply=%sum
}
"""


def product(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.tanh(x @ w))


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return inspector.lower(product, *SHAPES).compile(target="cpu", products=("buffers",))


def body(hlo: str) -> str:
    """Returns the text without its first line, of which a proto lacks some flags, and without configs, written in any order."""
    return re.sub(r"backend_config=\{.*", "", hlo.partition("\n")[2])


def opened(path: Path) -> OpenedProgram:
    loaded = inspector.load(path)
    assert isinstance(loaded, OpenedProgram)
    return loaded


def test_optimized_hlo_is_shown_as_it_is(compiled: Compiled, tmp_path: Path) -> None:
    assert not isinstance(compiled.buffers, Unavailable)
    file = tmp_path / "m.hlo.pb"
    file.write_bytes(compiled.buffers.hlo_proto)
    program = opened(file)
    assert (program.name, program.platform, program.is_optimized) == ("jit_product", "cpu", True)
    assert body(program.hlo) == body(compiled.hlo)
    assert program.instructions()["flops"].sum() == compiled.instructions()["flops"].sum()
    assert not isinstance(program.memory, Unavailable)
    assert not isinstance(compiled.memory, Unavailable)
    assert program.memory.peak_bytes == compiled.memory.peak_bytes
    timeline = program.timeline()
    assert not isinstance(timeline, Unavailable)
    assert timeline.table()["bytes"].sum() == compiled.timeline().table()["bytes"].sum()  # type: ignore[union-attr]
    assert not compiled.diff(program.compiled).changes
    assert [a.path for a in program.lowered.inputs] == ["w", "x"]
    assert program.graph().source.startswith("digraph")
    assert "m.hlo.pb" in repr(program)
    assert "not compiled here" in repr(program.compiled)


def test_times_for_a_target(compiled: Compiled, tmp_path: Path) -> None:
    file = tmp_path / "m.txt"
    file.write_text(compiled.hlo)
    program = opened(file)
    assert isinstance(program.memory, Unavailable)
    timeline = program.timeline()
    assert not isinstance(timeline, Unavailable)
    assert timeline.is_estimated
    assert "estimated from the schedule" in timeline.plot().axes[0].get_title(loc="left")
    assert program.compiled.timeline() == timeline
    assert "is only estimated" in program.lowered.line_costs(program.compiled).peak.reason  # type: ignore[union-attr]
    assert isinstance(program.roofline().total.least_s, Unavailable)
    on_v5e = program.roofline(target="tpu:v5e:2x4").total.least_s
    assert on_v5e == inspector.load(file, target="tpu:v5e:2x4").roofline().total.least_s  # type: ignore[union-attr]
    assert float(on_v5e) > 0  # type: ignore[arg-type]
    assert not isinstance(program.schedule(target="tpu:v5e:2x4"), Unavailable)
    with pytest.raises(ParameterError, match=r"must be an inspector\.Peak"):
        program.roofline(3)  # type: ignore[arg-type]


def test_a_partitioned_module_is_the_program_of_one_device() -> None:
    program = OpenedProgram.of(PARTITIONED, source="dump/m.hlo")
    assert "per-device program of 4 partitions" in repr(program)
    assert any("per-device program" in note for note in program.notes)
    assert [tuple(argument.shape) for argument in program.lowered.inputs] == [(256, 64), (16, 64)]
    assert [argument.path for argument in program.lowered.inputs] == ["params['w']", "x"]
    collectives = program.collectives()
    assert (len(collectives), collectives.num_partitions) == (1, 4)
    assert len(collectives[0].groups[0]) == 4


def test_it_cannot_be_compiled_and_says_why() -> None:
    program = OpenedProgram.of(PARTITIONED)
    with pytest.raises(
        ModuleError, match=r"jit_f cannot be compiled: it was opened as HLO that is compiled already\. Open"
    ):
        program.lowered.compile(target="cpu")
    assert isinstance(program.lowered.stablehlo, Unavailable)
    assert isinstance(program.lowered.stablehlo_listing, Unavailable)
    assert isinstance(program.compiled.passes, Unavailable)


def test_hlo_without_a_form_in_stablehlo_opens() -> None:
    lowered = inspector.lower(HLO_ONLY, platform="tpu")
    assert lowered.program.no_stablehlo is not None
    assert "the instruction d (scaled-dot)" in lowered.program.no_stablehlo.reason
    assert [argument.dtype for argument in lowered.inputs] == ["float8_e4m3fn"] * 2 + ["float8_e8m0fnu"] * 2
    assert len(lowered.module().entry.instructions) == 5
    with pytest.raises(ModuleError, match=r"fp8 cannot be compiled: the HLO module .* \(scaled-dot\)\. All panes"):
        lowered.compile(target="tpu:v5e:1x1")


def test_the_explorer_and_saved_files(compiled: Compiled, tmp_path: Path) -> None:
    program = OpenedProgram.of(compiled.hlo_proto, platform="cpu")
    explorer = program.explorer()
    try:
        assert body(explorer.baseline.compiled.hlo) == body(compiled.hlo)
        with pytest.raises(ModuleError, match="cannot be compiled"):
            explorer.add("--xla_cpu_enable_fast_math=true")
    finally:
        explorer.close()
    program.exploration.save(tmp_path / "x.inspector")
    loaded = inspector.load(tmp_path / "x.inspector")
    assert isinstance(loaded, Exploration)
    assert loaded.lowered.program == program.lowered.program
    assert loaded.baseline.compiled.hlo == program.hlo
    program.compiled.save(tmp_path / "y.inspector")
    again = inspector.load(tmp_path / "y.inspector")
    assert isinstance(again, CompiledProgram)
    assert again.program.no_stablehlo == program.lowered.program.no_stablehlo
    lowered = inspector.lower(again)
    assert isinstance(lowered, Lowered)
    assert lowered.hlo == program.hlo


def test_programs_of_one_name_stay_apart() -> None:
    other = OpenedProgram.of(PARTITIONED.replace("f32[256,64]", "f32[512,64]").replace("f32[16,256]", "f32[16,512]"))
    digests = {OpenedProgram.of(PARTITIONED).lowered.program.digest, other.lowered.program.digest}
    assert len(digests) == 2


def test_damaged_files(tmp_path: Path) -> None:
    file = tmp_path / "damaged.hlo"
    file.write_text(PARTITIONED.replace("all-reduce(", "all-reduces("))
    with pytest.raises(ModuleError, match=r"(?s)damaged\.hlo.*13:30.*all-reduces"):
        inspector.load(file)
    file.write_bytes(b"\x00\x01\x02")
    with pytest.raises(ModuleError, match=r"damaged\.hlo"):
        inspector.load(file)
    for content in (b"HloModule m", "HloModule\0m", 5):
        with pytest.raises(ParameterError, match="takes the path of a file or folder, not "):
            inspector.load(content)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        inspector.load(tmp_path / "missing.hlo")


def test_hlo_before_optimization_states_how_to_compile_it() -> None:
    program = OpenedProgram.of("HloModule m\nENTRY e {\n ROOT p = f32[3] parameter(0)\n}\n", platform="cpu")
    assert not program.is_optimized
    with pytest.raises(ModuleError, match=r"opened without compiling it\. Pass the file to inspector\.lower"):
        program.compiled.run()


def test_errors_of_files_do_not_misname_them(tmp_path: Path) -> None:
    (tmp_path / "two.hlo").write_text("HloModule a\nENTRY e {\n ROOT p = f32[3] parameter(0)\n}\n" * 2)
    with pytest.raises(ModuleError, match=r"Cannot open .*two.hlo': The file has no module 'c'. Its modules: 1 a, 2 a"):
        inspector.load(tmp_path / "two.hlo", module="c")
    with pytest.raises(ModuleError, match=r"no profile. .*also not a dump that XLA writes with --xla_dump_to"):
        inspector.load(tmp_path)


def test_explore_reads_a_file_once(monkeypatch: pytest.MonkeyPatch, compiled: Compiled, tmp_path: Path) -> None:
    path = tmp_path / "step.hlo"
    path.write_text(compiled.hlo)
    reads: list[object] = []
    read = files.read
    monkeypatch.setattr(files, "read", lambda name, *rest: reads.append(name) or read(name, *rest))
    explorer = inspector.explore(path)
    try:
        assert reads == [path]
        assert "step.hlo" in explorer.baseline.compiled.warnings[0]
        message = Mailbox(explorer).last("variant")
        assert message["warnings"] == []  # a note, not a warning
        assert any("step.hlo was not compiled here" in note for note in explorer.lowered.notes)
    finally:
        explorer.close()
