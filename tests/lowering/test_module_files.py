"""Files with modules: several modules, no header, gzip, and functions of other names."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from google.protobuf import text_format
from jaxlib.mlir import ir

import inspector
from inspector._jax.modules import isolated_reading, stablehlo
from inspector.api.opened_file import OpenedFile, open_file
from inspector.api.opened_program import OpenedProgram
from inspector.errors import ModuleError, ParameterError, Unavailable
from inspector.lowering import module_files
from inspector.lowering.module_files import Choice, chosen_module, modules_in, read_module
from inspector.stages.lowered import Lowered
from inspector.toolchain.schema import installed_schema

TWO = """// two modules, as LIT files have them
HloModule first

ENTRY a {
  p = f32[4]{0} parameter(0)
  ROOT n = f32[4]{0} negate(p)
}

// -----

HloModule second

ENTRY b {
  p = f32[4]{0} parameter(0)
  ROOT n = f32[4]{0} exponential(p)
}
"""
SUM = "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %r = f32[] add(%a, %b)\n}\n"
REDUCE = """
ENTRY e {
  x = f32[8]{0} parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=%sum
}
"""
PREDICT = """module @net {
  func.func public @predict(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.tanh %x : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
"""
THREE = """module @nets {
  func.func public @first(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = func.call @shared(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func public @second(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @shared(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def opcodes(lowered: Lowered) -> set[str]:
    return {i.opcode for computation in lowered.module().computations for i in computation.instructions}


@pytest.mark.parametrize(
    ("text", "opcode"),
    [
        (SUM, "add"),
        ("%x = f32[4]{0} parameter(0)\nROOT %y = f32[4]{0} negate(%x)\n", "negate"),
        (f"// a comment first\n/* another */\n{SUM}", "add"),
        (SUM + REDUCE, "reduce"),
        ("f32[4] negate(f32[4] %x)", "negate"),
    ],
)  # fmt: skip
def test_text_without_a_header(text: str, opcode: str) -> None:
    assert opcode in opcodes(inspector.lower(text, platform="cpu"))


def test_line_numbers_are_those_of_the_file() -> None:
    with pytest.raises(ModuleError, match=r"was parsing 4:\d+.*Unknown opcode: adds"):
        inspector.lower(SUM.replace("add(", "adds("), platform="cpu")
    broken = TWO.replace("exponential", "exponentials")
    with pytest.raises(ModuleError, match=r"was parsing 15:\d+.*exponentials"):
        inspector.lower(broken, module="second", platform="cpu")


def test_several_modules_are_listed_and_chosen(tmp_path: Path) -> None:
    file = tmp_path / "two.hlo"
    file.write_text(TWO)
    with pytest.raises(ModuleError, match=r'The file has 2 modules: 1 first, 2 second\. Choose one: module="first"'):
        inspector.lower(file)
    for name, opcode in (("first", "negate"), (1, "negate"), ("second", "exponential"), ("2", "exponential")):
        lowered = inspector.lower(file, module=name, platform="cpu")
        assert opcode in opcodes(lowered)
    with pytest.raises(ModuleError, match=r"no module 'third'\. Its modules: 1 first, 2 second"):
        inspector.lower(file, module="third")
    with pytest.raises(ParameterError, match="module must be the name or number"):
        inspector.lower(file, module=1.5)
    opened = inspector.load(file)
    assert isinstance(opened, OpenedFile)
    assert opened.names == ("first", "second")
    assert [type(program) for program in opened] == [OpenedProgram, OpenedProgram]
    assert "exponential" in opened["second"].hlo
    with pytest.raises(ParameterError, match="no module 'third'"):
        opened["third"]
    chosen = inspector.load(file, module="second")
    assert isinstance(chosen, OpenedProgram)
    assert chosen.name == "second"


def test_the_explorer_offers_the_modules_of_a_file() -> None:
    explorer = inspector.explore(TWO)
    try:
        assert [variant.label for variant in explorer.variants] == ["first", "second"]
        assert "exponential" in explorer.variants[1].compiled.hlo
        with pytest.raises(
            ModuleError, match=r'other modules of its file\. Choose it with module="first" to compile it'
        ):
            explorer.add("--xla_cpu_enable_fast_math=true")
    finally:
        explorer.close()


def test_equal_names_are_chosen_by_number() -> None:
    text = TWO.replace("HloModule second", "HloModule first")
    with pytest.raises(ModuleError, match=r"2 modules 'first'\. Choose one by number"):
        chosen_module(text, Choice("first"))
    assert "exponential" in str(chosen_module(text, Choice(2)).data)


def test_a_separator_in_one_module_is_a_comment() -> None:
    text = TWO.partition("// -----")[0].replace("HloModule first\n", "").replace("  ROOT", "// ------\n  ROOT")
    assert len(modules_in(text)) == 1
    assert "negate" in opcodes(inspector.lower(text, platform="cpu"))


def test_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = inspector.lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32))
    for name, data in (("m.hlo.gz", lowered.hlo.encode()), ("m.pb.gz", lowered.hlo_proto)):
        file = tmp_path / name
        file.write_bytes(gzip.compress(data))
        assert "sine" in opcodes(inspector.lower(file, platform="cpu"))
    whole = gzip.compress(TWO.encode())
    with pytest.raises(ModuleError, match="gzip file is truncated"):
        read_module(whole[:-20])
    with pytest.raises(ModuleError, match="gzip file is damaged"):
        read_module(whole[:12] + b"\xff" * 40)
    monkeypatch.setattr(module_files, "_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(ModuleError, match="when unpacked"):
        read_module(gzip.compress(bytes(1 << 26)))


def test_the_only_public_function_is_the_program() -> None:
    lowered = inspector.lower(PREDICT, platform="cpu")
    assert (lowered.name, [a.shape for a in lowered.inputs]) == ("net", [(4, 8)])
    assert "tanh" in lowered.compile(target="cpu").hlo


def test_a_function_is_chosen_by_name() -> None:
    with pytest.raises(
        ModuleError, match=r'2 public functions\. Choose one: function="first"\. Its functions: first, second'
    ):
        inspector.lower(THREE)
    first = inspector.lower(THREE, function="first", platform="cpu")
    assert "tanh" in opcodes(first)
    assert [a.shape for a in first.inputs] == [(4,)]
    assert "sine" in opcodes(inspector.lower(THREE, function="second", platform="cpu"))
    with pytest.raises(ModuleError, match="no function 'third'"):
        inspector.lower(THREE, function="third")
    with_main = THREE.replace("@first", "@main")
    assert [a.shape for a in inspector.lower(with_main, platform="cpu").inputs] == [(4,)]
    assert [a.shape for a in inspector.lower(with_main, function="second", platform="cpu").inputs] == [(8,)]


def test_a_crash_of_the_converter_names_its_operation() -> None:
    values = ", ".join(["input", "output", "io", "ss", "oo", "rs"])
    text = (
        "HloModule m\n\nENTRY e {\n  input = f32[8,4]{1,0} parameter(0)\n  output = f32[8,4]{1,0} parameter(1)\n"
        + "".join(f"  {name} = s32[4]{{0}} parameter({n})\n" for n, name in enumerate(("io", "ss", "oo", "rs"), 2))
        + f"  ROOT r = f32[8,4]{{1,0}} ragged-all-to-all({values}), replica_groups={{{{0,1,2,3}}}}\n}}\n"
    )
    lowered = inspector.lower(text, platform="cpu")
    if lowered.program.no_stablehlo is None:
        pytest.skip("this XLA converts it")
    assert "XLA crashes when it converts the ragged-all-to-all r to StableHLO" in lowered.program.no_stablehlo.reason
    assert len(lowered.collectives()) == 1


def test_modules_in_a_module() -> None:
    text = "\n".join(
        f"module @{name} {{ func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{ return %x : tensor<{size}xf32> }} }}"
        for name, size in (("a", 4), ("b", 8))
    )
    with pytest.raises(ModuleError, match=r'The file has 2 modules: 1 a, 2 b\. Choose one: module="a"'):
        inspector.lower(text)
    for wanted in ("b", 2):
        assert [a.shape for a in inspector.lower(text, module=wanted, platform="cpu").inputs] == [(8,)]


def test_dynamic_shapes_are_refined() -> None:
    text = "func.func @main(%a: tensor<?x4xf32>) -> tensor<?x4xf32> { %0 = stablehlo.tanh %a : tensor<?x4xf32>\n return %0 : tensor<?x4xf32> }"
    with pytest.raises(ModuleError, match=r'arg0: tensor<\?x4xf32>\. Give their shapes: refine=\{"arg0": \(8, 4\)\}'):
        inspector.lower(text)
    refined = inspector.lower(text, refine={"arg0": (16, 4)}, platform="cpu")
    assert refined.outputs[0].shape == (16, 4)
    with pytest.raises(ModuleError, match="does not match"):
        inspector.lower(text, refine={"arg0": (16, 5)})
    with pytest.raises(ParameterError, match="refine must have a shape"):
        inspector.lower(text, refine=3)


FOREIGN = """module @m {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    %1 = "mine.gelu"(%0) {kind = #mine.fast} : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""
WITHOUT_HLO = """func.func @main(%x: tensor<4xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0] : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


@pytest.mark.parametrize(
    ("text", "operation", "reason"),
    [
        (
            FOREIGN,
            '"mine.gelu"(%0) {kind = #mine.fast}',
            "the module has the dialect 'mine', which JAX does not include",
        ),
        (
            WITHOUT_HLO,
            "stablehlo.dynamic_broadcast_in_dim",
            "XLA cannot convert this StableHLO module to HLO: 'stablehlo.dynamic_broadcast_in_dim' op can't be translated to XLA HLO (line 2, column 8)",
        ),
    ],
)
def test_stablehlo_without_hlo_is_shown_as_text(text: str, operation: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(text)
    lowered = inspector.load(tmp_path / "m.mlir")
    assert isinstance(lowered, inspector.Lowered)
    assert operation in str(lowered.stablehlo)
    assert operation in lowered.stablehlo_listing.text  # type: ignore[union-attr]
    assert lowered.inputs[0].shape == (4,)
    assert isinstance(lowered.hlo, Unavailable)
    assert lowered.hlo.reason.startswith(reason)
    assert "\n" not in lowered.hlo.reason
    with pytest.raises(ModuleError, match=r"cannot be compiled: .*Only the StableHLO is available"):
        lowered.compile(target="cpu")
    with pytest.raises(ModuleError, match="has no HLO: "):
        lowered.module()
    assert pickle.loads(pickle.dumps(lowered)) == lowered


def test_an_explorer_shows_stablehlo_without_hlo(tmp_path: Path) -> None:
    explorer = inspector.explore(FOREIGN).wait(60)
    said = [entry.message for entry in explorer._app.stored_messages()]
    panes = {message["pane"] for message in said if message["type"] == "document"}
    assert "stablehlo" in panes
    (hlo,) = [message for message in said if message["type"] == "unavailable" and message["pane"] == "hlo"]
    assert "the dialect 'mine'" in hlo["reason"]
    assert explorer.baseline.state == "failed"
    with pytest.raises(ModuleError, match="the dialect 'mine'"):
        _ = explorer.baseline.compiled
    explorer.save(tmp_path / "m.inspector")
    again = inspector.load(tmp_path / "m.inspector")
    assert again.lowered.stablehlo == explorer.lowered.stablehlo  # type: ignore[union-attr]
    assert again.lowered.hlo == explorer.lowered.hlo  # type: ignore[union-attr]
    explorer.save_html(tmp_path / "m.html")
    explorer.close()


def test_the_conversion_to_hlo_does_not_include_every_dialect() -> None:
    text = 'func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {a = #mpmd.topology<<"m" : <["x"=2]>>>} { return %x : tensor<4xf32> }'
    reason = inspector.lower(text, platform="cpu").program.no_hlo
    assert reason is not None
    assert reason.reason == "XLA's conversion to HLO does not include the dialect 'mpmd' of the module"


def test_a_module_that_crashes_the_conversion_is_shown_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = isolated_reading._ask

    def crashing(module: bytes | str, language: Any, wanted: Any, entry: str = "") -> Any:
        if wanted == "forms":
            raise isolated_reading.ReaderDiedError("it died", "was killed by SIGABRT")
        return ask(module, language, wanted, entry)

    monkeypatch.setattr(isolated_reading, "_ask", crashing)
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    reason = inspector.lower(text, platform="cpu").program.no_hlo
    assert reason is not None
    assert (
        "XLA crashes when it converts this StableHLO module to HLO (its process was killed by SIGABRT)" in reason.reason
    )
    with pytest.raises(ModuleError, match="expected operation name"):
        inspector.lower(text[:-1])
    with pytest.raises(ModuleError, match="it died"):
        isolated_reading.read(text, "StableHLO")


def test_a_file_that_begins_with_a_mesh_is_stablehlo() -> None:
    text = """sdy.mesh @m = <["a"=2]>
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"""
    with pytest.raises(ModuleError, match=r'no public function\. Choose a private one: function="f"\.'):
        inspector.lower(text)
    assert modules_in('sdy.mesh @m = <["a"=2]>')[0].language == "StableHLO"


def test_a_function_with_a_complex_constant_becomes_main() -> None:
    """jaxlib cannot cast such attributes, and an error in a walk over operations ends the process."""
    text = """func.func @f(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %c = stablehlo.constant dense<(0.1, 0.2)> : tensor<2xcomplex<f32>>
  %0 = stablehlo.add %x, %c : tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}"""
    assert inspector.lower(text, platform="cpu").inputs[0].dtype == "complex64"


def test_custom_syntax_of_another_dialect_is_refused_with_its_name() -> None:
    text = FOREIGN.replace('"mine.gelu"(%0) {kind = #mine.fast} : (tensor<4xf32>) ->', "mine.gelu %0 :")
    with pytest.raises(ModuleError, match="has the dialect 'mine'"):
        inspector.lower(text)


def test_calls_and_results_follow_refined_arguments() -> None:
    """Operations that MLIR checks strictly: the operands of a call and of the return."""
    text = """func.func @main(%a: tensor<?x4xf32>, %b: tensor<2xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %0 = call @f(%a) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %a, %0 : tensor<?x4xf32>, tensor<?x4xf32>
}
func.func private @f(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.tanh %a : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}"""
    refined = inspector.lower(text, refine={"arg0": (16, 4)}, platform="cpu")
    assert [result.shape for result in refined.outputs] == [(16, 4), (16, 4)]


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ('"ttir.relu"(%a) : (tensor<4xf32>) -> tensor<4xf32>', "'ttir' of tt-mlir"),
        ("enzyme.thing %a : tensor<4xf32>", "'enzyme' of Enzyme"),
    ],
)
def test_dialects_of_other_projects_are_named(operation: str, words: str) -> None:
    text = (
        f"func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n  %0 = {operation}\n  return %0 : tensor<4xf32>\n}}"
    )
    with pytest.raises(ModuleError, match=f"the dialect {words}, which JAX does not include"):
        inspector.lower(text, platform="cpu").compile(target="cpu")


def test_protobuf_text_format() -> None:
    message: Any = installed_schema().message("xla.HloProto")()
    lowered = inspector.lower(jnp.sin, jax.ShapeDtypeStruct((4,), jnp.float32))
    message.hlo_module.ParseFromString(lowered.hlo_proto)
    text = f"# a comment\n{text_format.MessageToString(message)}"
    assert "sine" in opcodes(inspector.lower(text, platform="cpu"))
    with pytest.raises(ModuleError, match=r"protobuf's text format: 3:"):
        inspector.lower("# a comment\nhlo_module {\n  nonsense: 3\n}\n")


def test_a_module_in_quotes_is_part_of_another() -> None:
    recovery = 'HloModule outer, origin_recovery_table={\n  {"c"} : {"c__ovp0"},\n  "\n    HloModule inner\n\n  "\n}\n'
    text = recovery + "\nENTRY e {\n  ROOT c = s32[] constant(1)\n}\n"
    assert [module.name for module in modules_in(text)] == ["outer"]
    assert [module.name for module in modules_in(f"{text}HloModule second\n")] == ["outer", "second"]


TEXT_PROTO = """name: "{name}"
entry_computation_name: "main"
computations {{
  name: "main"
  instructions {{ name: "a" opcode: "parameter" shape {{ element_type: F32 }} id: 1 }}
  program_shape {{ parameters {{ element_type: F32 }} result {{ element_type: F32 }} parameter_names: "a" }}
  id: 3
  root_id: 1
}}
host_program_shape {{ parameters {{ element_type: F32 }} result {{ element_type: F32 }} parameter_names: "a" }}
id: 3
entry_computation_id: 3
"""


def test_text_protos_of_modules_open_and_one_file_can_have_several() -> None:
    """As in the tests of XLA."""
    first, second = (TEXT_PROTO.format(name=name) for name in ("first", "second"))
    assert open_file(f"# a comment\n{first}")[0].name == "first"
    both = open_file(f"{first}\n// -----\n# a comment\n{second}")
    assert [program.name for program in both] == ["first", "second"]
    assert inspector.lower(f"{first}\n// -----\n{second}", module=2).program.name == "second"
    with pytest.raises(ModuleError, match=r"HloModuleProto in protobuf's text format: 2:"):
        open_file('name: "m"\nnonsense: 3\n')


@pytest.mark.parametrize("form", ["text", "bytecode"])
def test_versioned_stablehlo_opens_in_every_form(form: str) -> None:
    """Tools of StableHLO print VHLO, the dialect of portable artifacts, as text and as plain bytecode."""
    module = stablehlo.to_bytecode(
        stablehlo.parse_stablehlo(
            "module @m { func.func public @one(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }\n"
            "func.func public @two(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> } }"
        )
    )
    with stablehlo._context() as context:
        versioned = ir.Module.parse(stablehlo.portable(module), context)
    text = str(versioned)
    assert "vhlo.func_v1" in text
    source = text if form == "text" else stablehlo.to_bytecode(versioned)
    with pytest.raises(ModuleError, match='function="one"'):
        inspector.lower(source, platform="cpu")
    assert inspector.lower(source, platform="cpu", function="two").inputs[0].shape == (2,)


@pytest.mark.parametrize(
    "text", ["llvm.func @f(!llvm.ptr)\n", "%c1 = llvm.mlir.constant(1 : i32) : i32\n%m = llvm.alloca %c1\n"]
)
def test_mlir_of_other_dialects_is_not_called_hlo(text: str) -> None:
    with pytest.raises(ModuleError, match=r"The StableHLO module|Cannot read the StableHLO module"):
        inspector.lower(text)
