"""Existing stages: all forms of a module are equivalent, and changes that come too late are refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import ParameterError, Unavailable
from inspector.lowering.languages import likely_language
from inspector.lowering.module_files import read_module
from inspector.stages.lowered import Lowered

X = jax.ShapeDtypeStruct((4, 3), jnp.float32)
GIVEN = (jax.ShapeDtypeStruct((2, 3), jnp.bfloat16), jax.ShapeDtypeStruct((4,), bool), np.float32(1), np.int8(2))


def mixed(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    return a + 1, {"k": ~b, "z": lax.complex(c, c), "i": d * 2}


FORMS: dict[str, Callable[[Lowered], Any]] = {
    "stablehlo": lambda lowered: lowered.stablehlo,
    "bytecode": lambda lowered: lowered.program.module,
    "bytearray": lambda lowered: bytearray(lowered.program.module),
    "hlo": lambda lowered: lowered.hlo,
    "proto": lambda lowered: lowered.hlo_proto,
    "computation": lambda lowered: lowered.computation,
    "exported": lambda lowered: jax.export.export(jax.jit(mixed))(*GIVEN),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_module_agrees_with_jax(form: str) -> None:
    opened = inspector.lower(FORMS[form](inspector.lower(mixed, *GIVEN)))
    taken = [jax.typeof(a) if not isinstance(a, jax.ShapeDtypeStruct) else a for a in GIVEN]
    assert [(a.shape, a.dtype, a.parameter) for a in opened.inputs] == [
        (a.shape, str(np.dtype(a.dtype)), i) for i, a in enumerate(taken)
    ]
    assert [a.path for a in opened.inputs] == ["arg0", "arg1", "arg2", "arg3"]
    given = jax.tree_util.tree_leaves(jax.eval_shape(mixed, *GIVEN))
    assert [(r.shape, r.dtype) for r in opened.outputs] == [(r.shape, str(np.dtype(r.dtype))) for r in given]
    assert [r.path for r in opened.outputs] == ["[0]", "[1]", "[2]", "[3]"]
    assert (opened.name, opened.program.platform) == ("jit_mixed", "cpu")
    assert opened.program.options.use_spmd_partitioning
    assert opened.program.mesh is None
    assert isinstance(opened.jaxpr, Unavailable)


def test_a_lone_result_has_no_path() -> None:
    assert [r.path for r in inspector.lower(inspector.lower(jnp.sin, X).stablehlo).outputs] == [""]


BODY = "ENTRY e {\n ROOT p = f32[3] parameter(0)\n}\n"


@pytest.mark.parametrize(("module", "is_hlo"), [
    (f"HloModule e\n{BODY}", True), (f"\n\n  HloModule e\n\n{BODY}", True), (f"// said\n//more\n\nHloModule e\n{BODY}", True),
    (BODY, True), (f"  {BODY}", True), ("%p = f32[3] parameter(0)", True), (f"sum {{\n a = f32[] parameter(0)\n}}\n{BODY}", True),
    (f"HloModul e\n{BODY}", True), (f"/* said */ HloModule e\n{BODY}", True), ("sum {\n a = f32[] negat(b)\n}", True),
    ("module @m {}", False), ("// HloModule\nmodule @m {}", False), ("#loc = loc(unknown)\nmodule {}", False),
    ("func.func @main() {\n ret", False), (b"ML\xefR\x01", False), (b"\n\x01e\x12\x01e", True),
])  # fmt: skip
def test_hlo_is_known_by_its_lines(module: str | bytes, is_hlo: bool) -> None:
    assert likely_language(module) == ("HLO" if is_hlo else "StableHLO")


@pytest.mark.parametrize(("module", "said"), [
    ("", "The module is empty"), (b"", "The module is empty"), ("\n// nothing\n", "The module is empty"),
    ("Dear all,\nplease read this", "neither HLO nor StableHLO: it begins with 'Dear all,'"),
    ("import jax\n\ndef f(x):\n    return x\n", "neither HLO nor StableHLO: it begins with 'import jax'"),
    (b"\x89PNG\r\n\x1a\n\0\0", "Cannot read 10 bytes as a module: they are neither text, MLIR bytecode nor an HLO module"),
    (f"HloModule a\n{BODY}\n// -----\nHloModule b\n{BODY}", "The file has 2 modules: 1 a, 2 b. Choose one"),
])  # fmt: skip
def test_an_invalid_module_is_named_as_neither_language(module: str | bytes, said: str) -> None:
    with pytest.raises(inspector.errors.ModuleError, match=said):
        inspector.lower(module)


@pytest.mark.parametrize(("module", "said"), [
    (f"HloModule e\n\n{BODY.replace('parameter', 'paramete')}", r"Cannot read the HLO module: (.|\n)*was parsing 4:18: error"),
    (BODY.replace("ROOT p", "ROOT"), r"Cannot read the HLO module: (.|\n)*was parsing 2:\d+: error"),
    (f"sum {{\n a = f32[] negat(b)\n}}\n{BODY}", r"Cannot read the HLO module: (.|\n)*was parsing 2:\d+: error"),
    (f"HloModule e, entry_computation_layout={{(f32[3]{{0}})->f32[4]{{0}}}}\n{BODY}", r"returns f32\[4\].* computation returns f32\[3\]"),
    ("module @m {\n func.func @main() {\n  %0 = stablehlo.nosuch\n }\n}", r"Cannot read the StableHLO module: (.|\n)*:3:\d+"),
    (b"ML\xefR\x01junk\xff", "Cannot read the StableHLO module"),
])  # fmt: skip
def test_a_broken_module_is_called_by_its_language(module: str | bytes, said: str) -> None:
    with pytest.raises(inspector.errors.ModuleError, match=said) as caught:
        inspector.lower(module)
    assert "HLO module" in str(caught.value)
    assert ("StableHLO" in str(caught.value)) == ("StableHLO" in said)


def test_bytes_of_a_text_are_the_text(tmp_path: Path) -> None:
    text = f"\n\t// by Jörg\r\n\x0cHloModule e\n{BODY}"
    path = tmp_path / "module.hlo"
    path.write_bytes(text.encode())
    assert (
        read_module(text.encode())
        == read_module(bytearray(text.encode()))
        == read_module(path)
        == read_module(str(path))
        == read_module(text)
        == text
    )
    for form in ("bytecode", "proto"):
        module = FORMS[form](inspector.lower(jnp.sin, X))
        assert read_module(module) == module
    # Nor is a proto that is UTF-8 by chance.
    assert read_module(b"\n\x01e\x12\x01e") == b"\n\x01e\x12\x01e"


def test_hlo_may_begin_with_an_empty_line() -> None:
    assert [a.shape for a in inspector.lower(f"\nHloModule e\n{BODY}".encode()).inputs] == [(3,)]


def test_a_path_that_is_not_there_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"Cannot read '/no/such/file.mlir': No such file"):
        inspector.lower(Path("/no/such/file.mlir"))
    with pytest.raises(ParameterError, match=r"'/no/such/file\.mlir' is neither a file nor a module"):
        inspector.lower("/no/such/file.mlir")


def test_lowered_and_compiled_stages_are_opened_with_their_names() -> None:
    lowered = inspector.lower(mixed, *GIVEN)
    assert inspector.lower(lowered) is lowered
    for given, platform in ((lowered.program, None), (lowered.compile(), "cpu")):
        opened = inspector.lower(given, platform=platform)
        assert opened.inputs == lowered.inputs
        assert opened.outputs == lowered.outputs
        assert opened.stablehlo == lowered.stablehlo
        assert opened.program.options == lowered.program.options
        with pytest.raises(ParameterError, match="jit_mixed is lowered for cpu; platform='tpu' cannot change it"):
            inspector.lower(given, platform="tpu")
    with pytest.raises(ParameterError, match="jit_mixed is lowered for cpu; platform='tpu' cannot change it"):
        inspector.lower(lowered, platform="tpu")


def test_a_module_is_for_the_requested_platform() -> None:
    lowered = inspector.lower(jnp.sin, X)
    for given in (lowered.stablehlo, lowered.hlo, lowered.computation):
        assert inspector.lower(given, platform="tpu").program.platform == "tpu"


def test_an_export_that_is_of_no_one_shape_or_platform_is_refused() -> None:
    (n,) = jax.export.symbolic_shape("n")
    symbolic = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((n,), jnp.float32))
    with pytest.raises(ParameterError, match=r"sin is exported with symbolic dimensions.*at concrete shapes"):
        inspector.lower(symbolic)
    several = jax.export.export(jax.jit(jnp.sin), platforms=("cpu", "tpu"))(X)
    with pytest.raises(ParameterError, match=r"sin is exported for \('cpu', 'tpu'\).*for one platform"):
        inspector.lower(several)
    tpu = jax.export.export(jax.jit(jnp.sin), platforms=("tpu",))(X)
    assert inspector.lower(tpu).program.platform == inspector.lower(tpu, platform="tpu").program.platform == "tpu"
    with pytest.raises(ParameterError, match="sin is exported for tpu, not for cpu"):
        inspector.lower(tpu, platform="cpu")


@pytest.fixture
def sharded() -> tuple[jax.ShapeDtypeStruct, ...]:
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("a", "b"))
    return tuple(
        jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, spec)) for spec in (P("a", "b"), P())
    )


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    return x @ y


def test_a_module_has_its_mesh(sharded: tuple[jax.ShapeDtypeStruct, ...]) -> None:
    lowered = inspector.lower(product, *sharded)
    mesh = lowered.program.mesh
    assert mesh is not None
    assert (mesh.axis_names, mesh.axis_sizes, mesh.kind) == (("a", "b"), (4, 2), "partition")
    for given in (lowered.stablehlo, lowered.program.module):
        program = inspector.lower(given).program
        assert program.mesh == mesh
        options = program.options
        assert (options.num_replicas, options.num_partitions) == (1, 8)
        assert options.use_shardy_partitioner == lowered.program.options.use_shardy_partitioner


@pytest.mark.parametrize("platform", [None, "cpu", "tpu"])
def test_a_stage_is_lowered_for_a_platform_as_its_function_is(
    sharded: tuple[jax.ShapeDtypeStruct, ...], platform: str | None
) -> None:
    jitted = jax.jit(lambda unused, x, y: product(x, y), donate_argnums=1)
    stage = jitted.lower(1.0, *sharded)
    opened, function = (
        inspector.lower(stage, platform=platform),
        inspector.lower(jitted, 1.0, *sharded, platform=platform),
    )
    assert [(a.shape, a.parameter, a.donated, a.sharding) for a in opened.inputs] == [
        (a.shape, a.parameter, a.donated, a.sharding) for a in function.inputs
    ]
    assert opened.outputs == function.outputs
    assert opened.program.mesh == function.program.mesh
    assert opened.program.platform == function.program.platform == (platform or "cpu")
    assert opened.name == function.name
    assert opened.jaxpr == function.jaxpr
    del jitted
    gc.collect()


def test_inputs_have_their_shardings(sharded: tuple[jax.ShapeDtypeStruct, ...]) -> None:
    lowered = inspector.lower(product, *sharded)
    assert [a.sharding for a in lowered.inputs] == [str(P("a", "b")), str(P())]
    assert [a.sharding for a in inspector.lower(product, X, X.update(shape=(3, 4))).inputs] == ["", ""]


def test_results_have_their_shardings(sharded: tuple[jax.ShapeDtypeStruct, ...]) -> None:
    own = sharded[0].sharding
    lowered = inspector.lower(jax.jit(product, out_shardings=own), *sharded)
    assert lowered.outputs[0].sharding == str(P("a", "b"))
    assert inspector.lower(product, *sharded).outputs[0].sharding == ""


def test_a_mesh_is_known_by_a_shard_map_alone() -> None:
    mesh = Mesh(np.array(jax.devices()[:4]), ("i",))
    f = jax.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    program = inspector.lower(f, X).program
    assert program.mesh is not None
    assert (program.mesh.axis_names, program.mesh.axis_sizes) == (("i",), (4,))
    assert program.options.num_partitions == 4


class TestPlatforms:
    def test_a_target_determines_platform_and_chip(self) -> None:
        assert inspector.lower(jnp.sin, X, target="tpu:v5e:2x4").program.platform == "tpu"
        assert inspector.lower(jnp.sin, X, target="tpu:v5e:2x4", platform="tpu").program.platform == "tpu"
        assert inspector.lower(jnp.sin, X, target="attached", platform="cpu").program.platform == "cpu"
        assert inspector.lower(jnp.sin, X, target="gpu:h100:8", platform="cuda").program.platform == "gpu"

    @pytest.mark.parametrize(("target", "platform"), [("tpu:v5e:2x4", "cpu"), ("cpu", "tpu"), ("attached", "tpu")])
    def test_they_cannot_differ(self, target: str, platform: str) -> None:
        with pytest.raises(ParameterError, match=rf"platform='{platform}' and target='{target}' differ"):
            inspector.lower(jnp.sin, X, target=target, platform=platform)

    def test_function_arguments_are_refused_with_a_lowered_stage(self) -> None:
        text = inspector.lower(jnp.sin, X).stablehlo
        for named, said in (
            ({"static_argnums": 0}, "static_argnums"), ({"donate_argnums": (0,)}, "donate_argnums"),
            ({"static_argnames": "x"}, "static_argnames"), ({"kwargs": {"x": 1}}, "kwargs"), ({"axis_env": [("i", 2)]}, "axis_env"),
            ({"axis_env": {"i": 2}, "donate_argnums": 0}, "axis_env, donate_argnums"),
        ):  # fmt: skip
            with pytest.raises(ParameterError, match=f"^{said} cannot be given with a str"):
                inspector.lower(text, **named)  # type: ignore[arg-type]
        for wanted, said in (({"interpret": True}, "interpret"), ({"compiler_params": {"*": {}}}, "compiler_params")):
            with pytest.raises(ParameterError, match=f"^{said} cannot be applied: a str is lowered already"):
                inspector.lower(text, **wanted)  # type: ignore[arg-type]
