"""jaxlib's runtime classes under their own names: every method does its work, and checks what XLA does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax, xla_client

import inspector
from inspector._jax.compiling import runtime
from inspector._jax.compiling.argument_checks import check_arguments
from inspector._jax.compiling.runtime import CompiledMemoryStats, LoadedExecutable
from inspector.errors import CompilationError, ExecutionError, ModuleError, OptionError, TargetError, Unavailable
from inspector.hlo.module import Module

X = np.arange(8, dtype=np.float32)
NOW = tuple(map(int, jax.__version__.split(".")[:2]))
MODULE = """
module @sum attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %y : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}"""


@pytest.fixture(scope="module")
def one() -> LoadedExecutable:
    """x + y and 2 x, on one device."""
    lowered = jax.jit(lambda x, y: (x + y, x * 2)).lower(X, X)
    return LoadedExecutable(lowered.compile().runtime_executable())


@pytest.fixture(scope="module")
def two() -> LoadedExecutable:
    """x + y and the sum of x, over two devices."""
    a = sharded(X)
    return LoadedExecutable(jax.jit(lambda x, y: (x + y, x.sum())).lower(a, a).compile().runtime_executable())


def device() -> jax.Device:
    return jax.devices()[0]


def placed(value: Any) -> jax.Array:
    return jax.device_put(value, device())


def sharded(value: np.ndarray, count: int = 2) -> jax.Array:
    return jax.device_put(value, NamedSharding(Mesh(np.array(jax.devices()[:count]), ("x",)), P("x")))


def options(replicas: int = 1, partitions: int = 1) -> xla_client.CompileOptions:
    made = xla_client.CompileOptions()
    made.num_replicas, made.num_partitions = replicas, partitions
    return made


# What an executable tells.


def test_an_executable_has_its_module_and_statistics(one: LoadedExecutable) -> None:
    raw = one.raw
    assert one.local_devices() == [device()]
    assert one.fingerprint == raw.fingerprint
    assert one.size_of_generated_code_in_bytes() == raw.size_of_generated_code_in_bytes()
    assert one.get_hlo_text() == raw.get_hlo_text()
    assert one.get_output_memory_kinds() == [["device"] * 2]
    assert [str(layout) for layout in one.get_parameter_layouts() or ()] == ["{0}"] * 2
    assert [str(layout) for layout in one.get_output_layouts() or ()] == ["{0}"] * 2
    assert one.cost_analysis() == raw.cost_analysis()
    assert "test_runtime" in str(one.traceback)
    module = Module.from_proto(one.hlo_modules()[0].as_serialized_hlo_module_proto())
    assert [i.opcode for i in module.entry.instructions].count("parameter") == 2


def test_no_shardings_without_partitions(one: LoadedExecutable, two: LoadedExecutable) -> None:
    assert "not partitioned" in str(one.get_parameter_shardings())
    assert "not partitioned" in str(one.get_output_shardings())
    assert len(two.get_parameter_shardings() or ()) == 2
    assert len(two.get_output_shardings() or ()) == 2


def test_version_of_an_executable(one: LoadedExecutable) -> None:
    if hasattr(one.raw, "get_executable_version"):
        assert one.get_executable_version() == one.raw.get_executable_version()
    else:
        assert "jaxlib 0.12" in str(one.get_executable_version())


def test_memory_stats(one: LoadedExecutable) -> None:
    stats = one.get_compiled_memory_stats()
    assert isinstance(stats, CompiledMemoryStats)
    assert stats.argument_size_in_bytes == 2 * X.nbytes
    assert isinstance(stats.serialized_buffer_assignment_proto, bytes)
    assert str(stats) == str(one.raw.get_compiled_memory_stats())
    assert stats == one.get_compiled_memory_stats()
    since = isinstance(stats.total_allocation_bytes, Unavailable)
    assert since is not hasattr(one.raw.get_compiled_memory_stats(), "total_allocation_bytes")


def test_missing_reports_of_the_backend_are_unavailable() -> None:
    class Silent:
        def cost_analysis(self) -> None:
            raise RuntimeError("UNIMPLEMENTED: no costs")

        def hlo_modules(self) -> None:
            raise RuntimeError("UNIMPLEMENTED: no HLO")

        def local_devices(self) -> list[jax.Device]:
            return [device()]

    silent = LoadedExecutable(Silent())
    assert "UNIMPLEMENTED: no costs" in str(silent.cost_analysis())
    with pytest.raises(ExecutionError, match="cannot be checked: the backend provides no HLO"):
        silent.execute([])


# Running.


def test_execute(one: LoadedExecutable) -> None:
    outputs = one.execute([placed(X), placed(X + 1)])
    np.testing.assert_array_equal(outputs[0], 2 * X + 1)
    np.testing.assert_array_equal(outputs[1], 2 * X)


def test_execute_with_token(one: LoadedExecutable) -> None:
    outputs, token = one.execute_with_token([placed(X), placed(X)])
    token.block_until_ready()
    np.testing.assert_array_equal(outputs[0], 2 * X)


def test_execute_sharded(two: LoadedExecutable) -> None:
    results = two.execute_sharded([sharded(X), sharded(X)], with_tokens=True)
    assert len(results) == 2
    (first,) = results.disassemble_prefix_into_single_device_arrays(1)
    np.testing.assert_array_equal(np.concatenate(first), 2 * X)
    assert [next(iter(part.devices())) for part in first] == two.local_devices()
    assert len(results) == 1
    (second,) = results.disassemble_into_single_device_arrays()
    assert [float(part) for part in second] == [X.sum()] * 2
    tokens = results.consume_token()
    tokens.block_until_ready()
    tokens.get_token(1).block_until_ready()
    for index in (-1, 2):
        with pytest.raises(ExecutionError, match=rf"has 2 devices, 0 to 1; got {index}"):
            tokens.get_token(index)
    with pytest.raises(ExecutionError, match="token already consumed"):
        results.consume_token()
    with pytest.raises(ExecutionError, match="already exploded"):
        results.disassemble_into_single_device_arrays()


def test_consume_with_handlers(two: LoadedExecutable) -> None:
    arguments = [sharded(X), sharded(X)]
    results = two.execute_sharded(arguments)
    with pytest.raises(ExecutionError, match="one handler per output: 2, got 1"):
        results.consume_with_handlers([len])
    with pytest.raises(ExecutionError, match="from 0 to the number of outputs left, 2, got 3"):
        results.disassemble_prefix_into_single_device_arrays(3)
    assert results.consume_with_handlers([len, lambda shards: float(shards[0])]) == [2, X.sum()]

    def fails(shards: list[jax.Array]) -> None:
        raise KeyError("of the handler")

    with pytest.raises(KeyError, match="of the handler"):
        two.execute_sharded(arguments).consume_with_handlers([fails, fails])


def test_donated_arguments_are_refused_the_second_time() -> None:
    raw = jax.jit(lambda x: x + 1, donate_argnums=0).lower(X).compile().runtime_executable()
    executable, x = LoadedExecutable(raw), placed(X)
    np.testing.assert_array_equal(executable.execute([x])[0], X + 1)
    with pytest.raises(ExecutionError, match="Argument 0 is deleted"):
        executable.execute([x])


@pytest.mark.parametrize("method", ["execute", "execute_with_token", "execute_sharded"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (list, r"takes 2 arrays \(on each device: float32\[8\], float32\[8\]\), got 0"),
        (lambda: [placed(X)] * 3, "takes 2 arrays .* got 3"),
        (lambda: [placed(X), X], r"Argument 1 must be a JAX array, got ndarray.*jax\.device_put"),
        (lambda: [placed(X), placed(X.astype(np.int32))], r"must be float32\[8\] on each device, got int32\[8\]"),
        (lambda: [placed(X[:4]), placed(X)], r"must be float32\[8\] on each device, got float32\[4\]"),
        (lambda: [placed(X), jax.device_put(X, jax.devices()[1])], "one shard on each of .*0.*; got .*1"),
        (lambda: [placed(X), sharded(X)], "one shard on each of"),
    ],
)
def test_arguments_that_it_does_not_take(one: LoadedExecutable, method: str, arguments: Any, words: str) -> None:
    with pytest.raises(ExecutionError, match=words):
        getattr(one, method)(arguments())


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_arguments_over_several_devices(two: LoadedExecutable, count: int) -> None:
    """The process ends with a segmentation fault on jaxlib 0.10.2."""
    with pytest.raises(ExecutionError, match=rf"takes 2 arrays .* got {count}"):
        two.execute_sharded([sharded(X)] * count)


def test_shards_in_another_order(two: LoadedExecutable) -> None:
    turned = jax.device_put(X, NamedSharding(Mesh(np.array(jax.devices()[1::-1]), ("x",)), P("x")))
    with pytest.raises(ExecutionError, match="in this order"):
        two.execute_sharded([turned, turned])


@pytest.mark.parametrize("method", ["execute", "execute_with_token"])
def test_one_device_only(two: LoadedExecutable, method: str) -> None:
    with pytest.raises(ExecutionError, match=r"this program runs on 2.*Use execute_sharded"):
        getattr(two, method)([sharded(X), sharded(X)])


@pytest.mark.parametrize("dtype", ["bool", "int8", "int4", "uint32", "bfloat16", "float16", "complex64", "float8_e5m2"])
def test_dtypes(dtype: str) -> None:
    x = placed(jnp.zeros((3,), dtype))
    executable = LoadedExecutable(jax.jit(lambda x: x.reshape(1, 3)).lower(x).compile().runtime_executable())
    assert executable.execute([x])[0].dtype == dtype


def test_an_ordering_token_is_refused() -> None:
    def fun(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x, ordered=True)
        return x

    executable = LoadedExecutable(jax.jit(fun).lower(X).compile().runtime_executable())
    with pytest.raises(ExecutionError, match="only JAX itself can pass"):
        executable.execute([placed(X), placed(X)])


def test_arguments_are_checked_without_a_program() -> None:
    with pytest.raises(ExecutionError, match=r"takes 0 arrays \(on each device: none\), got 1"):
        check_arguments([placed(X)], (), [device()])


# The client.


def test_client(one: LoadedExecutable) -> None:
    client = one.client
    assert (client.platform, client.runtime_type) == (device().client.platform, device().client.runtime_type)
    assert client.platform_version == device().client.platform_version
    assert client.devices() == jax.devices()
    assert client.local_devices() == jax.local_devices()
    assert one.fingerprint in [each.fingerprint for each in client.live_executables()]


@pytest.mark.parametrize("text", [True, False])
def test_compile_and_load(one: LoadedExecutable, text: bool) -> None:
    module = MODULE if text else inspector.lower(jnp.add, X[:2], X[:2]).program.module
    target = jax.devices()[3]
    executable = one.client.compile_and_load(module, [target], options())
    assert executable.local_devices() == [target]
    outputs = executable.execute([jax.device_put(np.float32([1, 2]), target)] * 2)
    np.testing.assert_array_equal(outputs[0], [2, 4])


def test_compile_and_load_over_replicas(one: LoadedExecutable) -> None:
    executable = one.client.compile_and_load(MODULE, jax.devices()[:2], options(replicas=2))
    results = executable.execute_sharded([sharded(X[:4]), sharded(X[:4])])
    np.testing.assert_array_equal(np.concatenate(results.disassemble_into_single_device_arrays()[0]), 2 * X[:4])


def test_options_are_not_changed(one: LoadedExecutable) -> None:
    given = options()
    before = given.SerializeAsString()
    one.client.compile_and_load(MODULE, [device()], given)
    assert given.SerializeAsString() == before


def test_compile(one: LoadedExecutable) -> None:
    if NOW < (0, 11):
        with pytest.raises(CompilationError, match="use compile_and_load"):
            one.client.compile(MODULE, [device()])
        return
    executable = one.client.compile(MODULE, [device()])
    assert not isinstance(executable, LoadedExecutable)
    assert executable.hlo_modules()[0].name == "sum"
    stats = executable.get_compiled_memory_stats()
    assert isinstance(stats, CompiledMemoryStats)
    assert stats.argument_size_in_bytes == 16
    assert "UNIMPLEMENTED" in str(executable.cost_analysis())


@pytest.mark.parametrize("method", ["compile", "compile_and_load"])
def test_invalid_programs_do_not_compile(one: LoadedExecutable, method: str) -> None:
    compile_ = getattr(one.client, method)
    with pytest.raises(TargetError, match="executable_devices is empty"):
        compile_(MODULE, [])
    with pytest.raises(OptionError, match="2 replicas of 1 partitions, but executable_devices has 1"):
        compile_(MODULE, [device()], options(replicas=2))
    with pytest.raises(OptionError, match="0 replicas"):
        compile_(MODULE, [device()], options(replicas=0))
    with pytest.raises(ModuleError, match="is not StableHLO"):
        compile_("HloModule m", [device()])


def test_serialize_and_deserialize(one: LoadedExecutable) -> None:
    data = one.client.serialize_executable(one)
    assert isinstance(data, bytes)
    assert isinstance(one.serialize(), bytes)
    loaded = one.client.deserialize_executable(data, [device()])
    np.testing.assert_array_equal(loaded.execute([placed(X), placed(X)])[0], 2 * X)
    with pytest.raises(ExecutionError, match=r"takes 2 arrays .* got 1"):
        loaded.execute([placed(X)])
    with pytest.raises(ExecutionError, match=r"cannot load the executable \(2 bytes\)"):
        one.client.deserialize_executable(b"xx", [device()])


def test_keep_alive(one: LoadedExecutable) -> None:
    import gc
    import weakref

    class Held:
        pass

    executable = one.client.compile_and_load(MODULE, [device()])
    held = Held()
    seen = weakref.ref(held)
    executable.keep_alive(held)
    del held
    gc.collect()
    assert seen() is not None
    del executable
    gc.collect()
    assert seen() is None


# docs/runtime.md, against the installed jaxlib.

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "runtime.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.partition("## The classes")[2].splitlines()
    if line.startswith("| `")
]
CLASSES = [row for row in ROWS if len(row) == 4]


def members(cell: str) -> dict[str, tuple[int, ...]]:
    """Names in a cell, each with the version that has it first."""
    found = re.findall(r"`(\w+)`(?: \((\d+)\.(\d+)\))?", cell)
    return {name: (int(major or 0), int(minor or 0)) for name, major, minor in found}


def public(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


@pytest.mark.parametrize("row", CLASSES, ids=lambda row: row[0])
def test_documented_members_are_those_of_jaxlib(row: list[str]) -> None:
    (name,) = members(row[0])
    typed, through_raw = members(row[2]), members(row[3])
    assert not set(typed) & set(through_raw)
    expected = {member for member, since in (typed | through_raw).items() if since <= NOW}
    cls = getattr(_jax, name)
    assert {m for m in expected if not m.startswith("__")} == public(cls)
    assert all(m in vars(cls) for m in expected)


@pytest.mark.parametrize("row", CLASSES, ids=lambda row: row[0])
def test_documented_members_are_here(row: list[str]) -> None:
    (name,) = members(row[0])
    typed = set(members(row[2]))
    cls = getattr(runtime, name)
    here = {m for m in dir(cls) if not m.startswith("_")} | {m for m in typed if m.startswith("__") and m in vars(cls)}
    assert here - {"raw", "of", "text"} == typed
    assert all(getattr(cls, m).__doc__ for m in typed if callable(getattr(cls, m)) and not m.startswith("__"))


def test_the_table_has_every_class() -> None:
    wanted = "Client Executable LoadedExecutable ExecuteResults Token ShardedToken CompiledMemoryStats"
    assert {name for row in CLASSES for name in members(row[0])} == set(wanted.split())


def test_removed_client_methods_are_absent() -> None:
    assert not hasattr(_jax.Client, "buffer_from_pyval")
    assert not hasattr(_jax.CompileOptions, "tuple_arguments")
    assert hasattr(_jax.CompileOptions, "parameter_is_tupled_arguments")
    with pytest.raises(TypeError, match="no constructor"):
        _jax.DebugOptions()
    with pytest.raises(AttributeError, match="no setter"):
        options().executable_build_options = _jax.ExecutableBuildOptions()
    client, devices = device().client, xla_client.DeviceList((device(),))
    with pytest.raises(TypeError, match="compile_options"):
        client.deserialize_executable(b"", devices, options=None)
    with pytest.raises(TypeError):
        client.compile(MODULE, devices, options())
    with pytest.raises(jax.errors.JaxRuntimeError, match="StableHLO"):
        client.compile_and_load("HloModule m\nENTRY e { ROOT x = f32[2] parameter(0) }", devices, options())


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_documented_code_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(code, {})
