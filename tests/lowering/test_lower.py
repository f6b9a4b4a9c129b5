"""`lower`: everything that it opens, and what the `Lowered` then knows."""

from __future__ import annotations

import dataclasses
import gc
import os
import pickle
import threading
import types
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src import core
from jax.interpreters import mlir
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector._jax.lowering import traced
from inspector._jax.lowering.jaxprs import print_jaxpr
from inspector._jax.modules import hlo, stablehlo
from inspector.errors import ArgumentError, ModuleError, ParameterError, Unavailable, UnboundAxisError
from inspector.stages.lowered import lowered_for

X = jax.ShapeDtypeStruct((4, 3), jnp.float32)


def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params["w"] + params["b"]).sum()


PARAMS = {"w": jnp.ones((3, 2)), "b": jnp.ones(2)}


def test_plain_function_is_lowered_as_jit_does() -> None:
    lowered = inspector.lower(loss, PARAMS, X)
    reference = jax.jit(loss).lower(PARAMS, X)
    assert lowered.stablehlo == str(reference.compiler_ir().operation.get_asm())
    assert lowered.computation.as_hlo_text() == reference.compiler_ir("hlo").as_hlo_text()
    assert [a.path for a in lowered.inputs] == ["params['b']", "params['w']", "x"]
    assert [a.shape for a in lowered.inputs] == [(2,), (3, 2), (4, 3)]
    assert lowered.outputs[0].shape == ()
    assert lowered.name == "jit_loss"


def test_nothing_is_printed_or_converted_before_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            done.append(name)
            return function(*args, **named)

        return call

    for module, name in ((hlo, "to_computation"), (stablehlo, "located_text"), (traced, "print_jaxpr")):
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    lowered = inspector.lower(jax.jit(lambda x: jnp.sin(x) * 2), jnp.ones(3))
    assert (lowered.name, lowered.root.scope, done) == ("jit__lambda", "jit(<lambda>)", [])
    lowered.compile()
    assert not done
    assert "sine" in lowered.hlo
    assert "sin" in str(lowered.jaxpr)
    assert "stablehlo.sine" in lowered.stablehlo_listing.text
    assert not isinstance(lowered.source, Unavailable)
    assert lowered.module().computations
    assert sorted(done) == ["located_text", "print_jaxpr", "to_computation"]


def test_a_program_begins_as_in_jax_regardless_of_its_name() -> None:
    def größe(x: Any) -> Any:
        return jnp.sin(x)

    assert inspector.lower(größe, 1.0).root.scope == "jit(größe)"
    named = inspector.lower(jax.jit(größe), 1.0)
    assert {o.op_name for entry in named.stablehlo_listing.origins for o in entry} == {"jit(größe)/sin"}


def test_a_jaxpr_that_another_thread_prints_meanwhile_is_jax_own(monkeypatch: pytest.MonkeyPatch) -> None:
    jaxpr = jax.make_jaxpr(lambda x: jax.pure_callback(lambda y: y, x, x) * 2)(1.0)
    before, found = str(jaxpr), list[str]()
    original = core.pp_toplevel_jaxpr

    def with_another(*args: Any, **named: Any) -> Any:
        thread = threading.Thread(target=lambda: found.append(original(args[0]).format()))
        thread.start()
        thread.join(30)
        return original(*args, **named)

    monkeypatch.setattr(core, "pp_toplevel_jaxpr", with_another)
    text, lines = print_jaxpr(jaxpr)
    assert found[0].split() == before.split() == text.split()
    assert "\ufdd0" not in found[0]
    assert any(lines)


def test_every_stage_gives_the_same_module() -> None:
    jitted = jax.jit(loss)
    traced = jitted.trace(PARAMS, X)
    texts = {
        inspector.lower(jitted, PARAMS, X).stablehlo,
        inspector.lower(traced).stablehlo,
        inspector.lower(traced.lower()).stablehlo,
        inspector.lower(loss, PARAMS, X).stablehlo,
    }
    assert len(texts) == 1


def test_a_lowered_stage_has_no_jaxpr_and_a_reason() -> None:
    stage = jax.jit(lambda x: x + 1).lower(X)
    gc.collect()
    lowered = inspector.lower(stage)  # nobody holds the function any more
    assert isinstance(lowered.jaxpr, Unavailable)
    assert "given after tracing" in lowered.jaxpr.reason
    with pytest.raises(ParameterError, match="does not keep its function, so platform cannot change it"):
        inspector.lower(stage, platform="tpu")


def test_a_lowered_stage_keeps_its_jaxpr_while_its_function_lives() -> None:
    jitted = jax.jit(lambda p, x, unused: loss(p, x), donate_argnums=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the donation is of no use
        lowered = inspector.lower(jitted.lower(PARAMS, X, 1.0))
        function = inspector.lower(jitted, PARAMS, X, 1.0)
        again = lowered_for(lowered, "tpu:v5e:1x1")
    assert lowered.jaxpr == function.jaxpr
    assert lowered.kernels == function.kernels
    assert [a.parameter for a in again.inputs] == [0, 1, 2, None]
    assert (again.program.platform, again.name, again.jaxpr) == ("tpu", lowered.name, lowered.jaxpr)
    assert [a.donated for a in again.inputs] == [a.donated for a in lowered.inputs]


def test_a_weak_type_is_preserved_when_a_stage_is_lowered_again() -> None:
    jitted = jax.jit(lambda x: x * 2)
    lowered = inspector.lower(jitted.lower(jnp.asarray(2.0)))
    assert [a.weak_type for a in lowered.inputs] == [True]
    assert [a.weak_type for a in lowered_for(lowered, "tpu:v5e:1x1").inputs] == [True]


def test_unused_arguments_have_no_parameter() -> None:
    lowered = inspector.lower(lambda a, b, c: a + c, 1.0, jnp.ones(3), 2.0)
    assert [a.parameter for a in lowered.inputs] == [0, None, 1]


def test_static_donated_and_keyword_arguments() -> None:
    def f(n: int, x: jax.Array, *, scale: jax.Array) -> jax.Array:
        return x * n * scale

    lowered = inspector.lower(f, 3, X, kwargs={"scale": 2.0}, static_argnums=0, donate_argnums=1)
    assert [(a.path, a.donated) for a in lowered.inputs] == [("x", True), ("scale", False)]
    assert "constant" in lowered.hlo


def test_duck_typed_arguments_of_a_jitted_function() -> None:
    duck = types.SimpleNamespace(shape=(4, 3), dtype=np.dtype(np.float32))
    assert inspector.lower(jax.jit(jnp.sin), duck).stablehlo == inspector.lower(jnp.sin, X).stablehlo


def test_shard_map_names_its_mesh_without_devices() -> None:
    mesh = AbstractMesh((64, 16), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
    f = jax.shard_map(lambda x: lax.psum(x, "model"), mesh=mesh, in_specs=P("data", "model"), out_specs=P("data"))
    lowered = inspector.lower(f, jax.ShapeDtypeStruct((64, 16), jnp.float32))
    assert str(lowered.program.mesh) == "partition mesh (data=64, model=16)"
    assert lowered.program.options.num_partitions == 1024


def test_sharded_arguments_name_their_mesh() -> None:
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("a", "b"))
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P("a", "b")))
    lowered = inspector.lower(lambda x: x @ x, x)
    assert lowered.program.mesh is not None
    assert lowered.program.mesh.axis_names == ("a", "b")
    assert lowered.program.device_count == 8
    assert "'a'" in lowered.inputs[0].sharding


def test_a_mesh_of_one_device_partitions_nothing() -> None:
    mesh = AbstractMesh((1, 1), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
    f = jax.shard_map(lambda x: lax.psum(x, "model"), mesh=mesh, in_specs=P("data", "model"), out_specs=P("data"))
    sharded = jax.ShapeDtypeStruct((4, 3), jnp.float32, sharding=NamedSharding(mesh, P("data")))
    for fun, given in ((f, X), (jnp.sin, sharded)):
        program = inspector.lower(fun, given).program
        assert program.mesh is None
        assert program.device_count == 1


def test_a_module_has_its_number_of_replicas_and_partitions() -> None:
    hlo = "HloModule m, replica_count=4, num_partitions=2\n\nENTRY e {\n ROOT p = f32[3] parameter(0)\n}\n"
    options = inspector.lower(hlo).program.options
    assert (options.num_replicas, options.num_partitions) == (4, 2)
    counts = "{mhlo.num_replicas = 3 : i32, mhlo.num_partitions = 5 : i32}"
    stablehlo = f"module @m attributes {counts} {{ func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {{ return %a : tensor<3xf32> }} }}"
    options = inspector.lower(stablehlo).program.options
    assert (options.num_replicas, options.num_partitions) == (3, 5)
    proto = inspector.lower(hlo).computation.as_serialized_hlo_module_proto()
    assert b"HloModule" not in proto
    assert inspector.lower(inspector.lower(hlo).program).program.options.num_replicas == 4


def test_axis_environment() -> None:
    lowered = inspector.lower(lambda x: lax.psum(x, "i"), X, axis_env={"i": 4096})
    assert lowered.axis_env is not None
    assert lowered.axis_env.size == 4096
    assert lowered.program.options.num_replicas == 4096
    assert "4095}}" in lowered.hlo


def test_exported() -> None:
    exported = jax.export.export(jax.jit(loss))(PARAMS, X)
    assert [a.shape for a in inspector.lower(exported).inputs] == [(2,), (3, 2), (4, 3)]


def test_module_text_bytes_and_path(tmp_path: Path) -> None:
    lowered = inspector.lower(loss, PARAMS, X)
    path = tmp_path / "module.mlir"
    path.write_text(lowered.stablehlo)
    forms = [lowered.stablehlo, lowered.stablehlo.encode(), lowered.program.module, path, str(path)]
    assert {inspector.lower(form).stablehlo for form in forms} == {lowered.stablehlo}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.timeout(20)
def test_a_module_is_read_from_a_regular_file_of_bounded_size(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(1 << 40)
    given = (
        (tmp_path / "pipe", "is a pipe"), (str(tmp_path / "pipe"), "is a pipe"), (tmp_path, "is a folder|Is a directory"),
        (Path("/dev/zero"), "is a device"), (tmp_path / "long", "has more than"), (tmp_path / "loop", "symbolic links"),
    )  # fmt: skip
    for path, why in given:
        with pytest.raises(ParameterError, match=rf"Cannot read '.*({why}).*Expected a file with StableHLO or HLO"):
            inspector.lower(path)


def test_hlo_text_proto_and_computation() -> None:
    lowered = inspector.lower(loss, PARAMS, X)
    for form in (lowered.hlo, lowered.hlo_proto, lowered.computation):
        opened = inspector.lower(form)
        assert [a.shape for a in opened.inputs] == [(2,), (3, 2), (4, 3)]
        assert "dot(" in opened.hlo


@pytest.mark.parametrize(
    "text", ["HloModule broken\nENTRY e { ROOT x = f32[] parameter(0) ]", "module { func.func }", b"\xff\xfe\x00junk"]
)
def test_malformed_modules(text: str | bytes) -> None:
    with pytest.raises(
        ModuleError, match=r"(?s)Cannot read (the (HLO|StableHLO) module|7 bytes as a module): .*Expected"
    ):
        inspector.lower(text)


def test_hlo_that_crashes_its_reader_raises_an_error() -> None:
    killer = """HloModule m, entry_computation_layout={(f32[2])->f32[4]}
ENTRY e { x = f32[2] parameter(0)
 ROOT g = f32[4] all-gather(x), replica_groups=mesh['a'=0] {'a'}, dimensions={0}, channel_id=1, use_global_device_ids=true }"""
    # JAX 0.10 dies when it parses the module, later versions when they convert it.
    with pytest.raises(ModuleError, match=r"Cannot read the HLO module|XLA crashes when it converts the all-gather g"):
        inspector.lower(killer).compile()


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"x is 'text' of type str, not a valid JAX type"):
        inspector.xla_computation(lambda x: x)("text")
    with pytest.raises(UnboundAxisError, match=r"unbound axis name: i\. .*Bound axes: none"):
        inspector.lower(lambda x: lax.psum(x, "i"), X)
    with pytest.raises(ParameterError, match="is jitted already"):
        inspector.lower(jax.jit(jnp.sin), X, donate_argnums=0)
    with pytest.raises(ParameterError, match=r"args, axis_env cannot be given with a str"):
        inspector.lower("HloModule", X, axis_env={"i": 2})
    with pytest.raises(ParameterError, match=r"jax.stages.Compiled does not keep the module.*Pass the function"):
        inspector.lower(jax.jit(jnp.sin).lower(X).compile())
    with pytest.raises(ParameterError, match="Cannot lower a value of type int"):
        inspector.lower(3)


class Transformed(NamedTuple):
    init: Callable[..., Any]
    apply: Callable[..., Any]
    name: str = "net"


@dataclasses.dataclass(frozen=True)
class Sampler:
    seed: int
    step: Callable[..., Any]


@pytest.mark.parametrize(("given", "said"), [
    (Transformed(jnp.sin, jnp.cos), r"A Transformed is not a function, but has functions as fields: init, apply\..*transformed\.apply\."),
    (Sampler(1, jnp.cos), r"A Sampler is not a function, but has functions as fields: step\. .*then its arguments, such as sampler\.step\."),
])  # fmt: skip
@pytest.mark.parametrize("named", [{}, {"is_training": True}])
def test_containers_of_functions_are_refused_with_their_names(given: Any, said: str, named: dict[str, bool]) -> None:
    for call in (inspector.lower, inspector.explore):
        with pytest.raises(ParameterError, match=said):
            call(given, X, **named)


def test_wrong_rank_is_jax_s_own_message() -> None:
    with pytest.raises(TypeError, match="dot_general requires contracting dimensions"):
        inspector.lower(loss, PARAMS, jax.ShapeDtypeStruct((4, 7), jnp.float32))


def test_host_callbacks_are_noticed() -> None:
    def f(x: jax.Array) -> jax.Array:
        jax.debug.print("x {}", x)
        return x

    assert inspector.lower(f, X).program.host_callbacks
    assert inspector.lower(f, X, axis_env={"i": 2}).program.host_callbacks
    assert not inspector.lower(jnp.sin, X).program.host_callbacks


def test_lowered_pickles_equal() -> None:
    lowered = inspector.lower(loss, PARAMS, X)
    assert pickle.loads(pickle.dumps(lowered.program)) == lowered.program


def test_partial_and_methods_have_names() -> None:
    lowered = inspector.lower(partial(loss, PARAMS), X)
    assert lowered.inputs[0].path == "x"


class TestListings:
    def test_lines_of_the_same_operation_share_an_origin(self) -> None:
        lowered = inspector.lower(loss, PARAMS, X)
        assert not isinstance(lowered.jaxpr_listing, Unavailable)
        jaxpr = lowered.jaxpr_listing
        stablehlo = lowered.stablehlo_listing
        tanh_eqn = next(i for i, line in enumerate(jaxpr.text.split("\n")) if "= tanh" in line)
        tanh_op = next(i for i, line in enumerate(stablehlo.text.split("\n")) if "stablehlo.tanh" in line)
        assert jaxpr.origins_of(tanh_eqn) == stablehlo.origins_of(tanh_op)
        (origin,) = jaxpr.origins_of(tanh_eqn)
        assert origin.op_name == "jit(loss)/tanh"
        assert origin.frames[0].file == __file__
        assert origin.frames[0].function == "loss"

    def test_parameters_that_print_over_several_lines(self) -> None:
        class Words:
            def __repr__(self) -> str:
                return "first\nsecond\n\nfourth"

        words = jax.extend.core.Primitive("words")
        words.def_abstract_eval(lambda x, **_: x)
        mlir.register_lowering(words, lambda _, x, **__: [x])

        def f(x: jax.Array) -> jax.Array:
            return jnp.cos(words.bind(jnp.sin(x), said=Words(), text="a\nb"))

        lowered = inspector.lower(f, X)
        listing = lowered.jaxpr_listing
        assert not isinstance(listing, Unavailable)
        lines = listing.text.split("\n")

        def at(text: str) -> int:
            return next(i for i, line in enumerate(lines) if text in line)

        assert listing.line_count == len(lines)
        assert listing.text.split() == str(jax.make_jaxpr(f)(X)).split()
        assert {o.op_name for o in listing.origins_of(at("fourth"))} == {"jit(f)/words"}
        assert {o.op_name for o in listing.origins_of(at("= cos"))} == {"jit(f)/cos"}

    def test_inner_functions_come_from_where_they_are_called(self) -> None:
        @jax.jit
        def inner(x: jax.Array) -> jax.Array:
            return jnp.exp(x)

        def outer(x: jax.Array) -> jax.Array:
            y = inner(x)
            return inner(y + 1.0)

        listing = inspector.lower(outer, X).stablehlo_listing
        line = next(i for i, text in enumerate(listing.text.split("\n")) if "stablehlo.exponential" in text)
        assert [o.op_name for o in listing.origins_of(line)] == ["jit(outer)/jit(inner)/exp"] * len(
            listing.origins_of(line)
        )
        assert len({o.frames for o in listing.origins_of(line)}) >= 1

    def test_text_keeps_everything_but_locations(self) -> None:
        lowered = inspector.lower(loss, PARAMS, X)
        assert lowered.stablehlo_listing.text.strip() == lowered.stablehlo.strip()

    def test_strings_that_look_like_locations_stay(self) -> None:
        def f(x: jax.Array) -> jax.Array:
            with jax.named_scope('a " loc(x) \\ b'):
                return x + 1

        origins = inspector.lower(f, X).stablehlo_listing.origins
        assert any('a " loc(x)' in o.op_name for entry in origins for o in entry)

    def test_source_shows_the_function(self) -> None:
        lowered = inspector.lower(loss, PARAMS, X)
        assert not isinstance(lowered.source, Unavailable)
        lines = lowered.source.text.split("\n")
        at = next(i for i, line in enumerate(lines) if "jnp.tanh(x @ params" in line)
        assert lowered.source.labels[at] == loss.__code__.co_firstlineno + 1
        assert lowered.source.line_count == len(lines) == len(lowered.source.labels)


def test_a_gpu_has_one_name() -> None:
    x = jax.ShapeDtypeStruct((2,), jnp.float32)
    by_gpu, by_cuda = (inspector.lower(jnp.sin, x, platform=platform) for platform in ("gpu", "cuda"))
    assert by_gpu == by_cuda
    assert repr(by_gpu) == repr(by_cuda)
    assert by_gpu.program.platform == inspector.Target("gpu:h100:8").platform == "gpu"
    exported = jax.export.export(jax.jit(jnp.sin), platforms=["cuda"])(x)
    assert inspector.lower(exported).program.platform == "gpu"
    assert inspector.lower(exported, platform="gpu").program.platform == "gpu"


def test_a_platform_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"platform is 'tpus'\. Expected one of cpu, tpu, gpu"):
        inspector.lower(lambda x: x + 1, jax.ShapeDtypeStruct((2,), jnp.float32), platform="tpus")


def test_the_hlo_is_a_model_too_and_is_read_once() -> None:
    lowered = inspector.lower(lambda x: jnp.sin(x) @ x.T, X)
    module = lowered.module()
    assert {i.opcode for i in module.instructions()} >= {"parameter", "sine", "dot"}
    assert lowered.module() is module
    copy = pickle.loads(pickle.dumps(lowered))
    assert copy.hlo_proto == lowered.hlo_proto
    assert copy.module() is module  # of the same bytes
    data, names = copy.hlo_proto, [i.name for i in module.instructions()]
    del lowered, module
    copy = pickle.loads(pickle.dumps(copy))
    gc.collect()
    assert (copy.hlo_proto, [i.name for i in copy.module().instructions()]) == (data, names)
