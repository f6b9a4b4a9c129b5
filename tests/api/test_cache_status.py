"""Predictions of `cache_status` about JAX's persistent cache, compared with JAX's behavior."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import pickle
import shutil
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax._src import compilation_cache
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

import inspector
from inspector._jax.caches.cache_state import Entry
from inspector.api.cache_status import CacheStatus
from inspector.compilation.caches.jax_cache_key import CacheKey
from inspector.errors import ParameterError, Unavailable
from inspector.support.install_commands import install_command
from tests.conftest import RunPython

X = np.ones((3, 3), np.float32)
SETTINGS = (
    "jax_compilation_cache_dir", "jax_enable_compilation_cache", "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes", "jax_compilation_cache_max_size", "jax_compilation_cache_check_contents",
    "jax_compilation_cache_include_metadata_in_key", "jax_remove_custom_partitioning_ptr_from_cache_key",
    "jax_compiler_detailed_logging_min_ops", "jax_enable_pgle", "jax_pgle_profiling_runs",
)  # fmt: skip
RECENT = tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 12)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    """An empty cache that takes everything."""
    before = {name: jax.config.values[name] for name in SETTINGS}
    configure(compilation_cache_dir=str(tmp_path / "cache"), persistent_cache_min_compile_time_secs=0)
    compilation_cache.reset_cache()
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def configure(**settings: Any) -> None:
    for name, value in settings.items():
        jax.config.update(f"jax_{name}", value)


def program(constant: int = 1) -> Any:
    """A new function each time, so that JAX itself remembers nothing."""

    def step(x: Any) -> Any:
        return x @ x + constant

    return step


def foretold(fun: Any, *args: Any, **options: Any) -> CacheStatus:
    """Returns the prediction, after checking it against a compile by JAX."""
    jax.clear_caches()
    lowered = jax.jit(fun).lower(*(args or (X,)))
    status = inspector.cache_status(lowered, options=options or None)
    with inspector.watch_compiles() as events:
        lowered.compile(options or None)
    (event,) = events
    assert (status.cache, status.source) == (event.cache, event.source), f"{status}\n{event}"
    if isinstance(event.cache_key, str):
        assert key_of(status).text == event.cache_key
    if event.written:
        assert not status.unwritten
    elif event.cache == "miss":
        assert status.unwritten or status.written_if
    assert bool(status.reasons) == (status.cache != "hit")
    return status


def key_of(status: CacheStatus) -> CacheKey:
    assert isinstance(status.key, CacheKey)
    return status.key


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*-cache"))


def test_a_miss_then_a_hit(cache: Path) -> None:
    miss, hit = foretold(program()), foretold(program())
    assert (miss.cache, miss.source, miss.unwritten, miss.written_if) == ("miss", "compiler", (), ())
    assert miss.reasons == ("the cache has no entry for that key",)
    assert isinstance(miss.entry, Unavailable)
    assert (hit.cache, hit.source, hit.reasons) == ("hit", "cache", ())
    (file,) = entries(cache)
    assert hit.entry == Entry(str(file), file.stat().st_size, 0)
    assert hit.directory == str(cache)
    assert key_of(hit) == key_of(miss)
    assert pickle.loads(pickle.dumps(hit)) == hit


def test_asking_changes_nothing(cache: Path) -> None:
    logger = logging.getLogger("jax._src.cache_key")
    names = ("_cache", "_cache_initialized", "_cache_checked", "_cache_used")
    before = {name: getattr(compilation_cache, name) for name in names}
    state = (logger.level, list(logger.filters))
    inspector.cache_status(program(), X)
    assert {name: getattr(compilation_cache, name) for name in names} == before
    assert (logger.level, list(logger.filters)) == state
    assert not cache.exists()


def test_a_flag_that_changed_is_named() -> None:
    plain = foretold(program())
    changed = foretold(program(), xla_cpu_enable_fast_math=True)
    assert changed.cache == "miss"
    assert key_of(plain).diff(key_of(changed)) == {"xla_cpu_enable_fast_math": (None, True)}
    another = foretold(program(), xla_cpu_enable_fast_math=False)
    assert key_of(changed).diff(key_of(another)) == {"xla_cpu_enable_fast_math": (True, False)}
    effort = foretold(program(), optimization_level="O1" if RECENT else 19)
    assert list(key_of(plain).diff(key_of(effort))) == ["optimization_level"]


def test_a_hit_hides_the_passes_of_a_requested_dump(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    flags = {"xla_dump_hlo_pass_re": ".*"}
    foretold(program(), xla_dump_to=str(first), **flags)
    status = foretold(program(), xla_dump_to=str(second), **flags)
    assert status.cache == "hit"
    assert list(first.glob("*.before_*"))
    assert not list(second.glob("*.before_*"))
    assert (
        f"XLA runs no passes after a hit, so nothing is dumped to {second}; dump flags are not in the key"
        in status.notices
    )


def test_a_module_that_changed_is_named() -> None:
    one, two = foretold(program(1)), foretold(program(2))
    assert two.cache == "miss"
    ((name, sides),) = key_of(one).diff(key_of(two)).items()
    assert name == "computation"
    assert all(len(side) == 64 for side in sides)
    assert foretold(program(2), np.ones((4, 4), np.float32)).cache == "miss"


@pytest.mark.parametrize("with_lines", [False, True])
def test_source_lines_count_only_when_requested(with_lines: bool) -> None:
    configure(compilation_cache_include_metadata_in_key=with_lines)

    def step(x: Any) -> Any:
        return x + 3

    first = step

    def step(x: Any) -> Any:  # type: ignore[no-redef]
        return x + 3

    assert foretold(first).cache == "miss"
    status = foretold(step)
    assert status.cache == ("miss" if with_lines else "hit")
    value = {each.name: each.value for each in key_of(status).ingredients}["computation"]
    assert value == f"StableHLO {'with' if with_lines else 'without'} source lines"


def test_too_short_compiles_are_not_cached() -> None:
    configure(persistent_cache_min_compile_time_secs=1000)
    for _ in range(2):
        status = foretold(program())
        assert status.cache == "miss"
        assert status.written_if == ("the compile takes 1000 s or more (jax_persistent_cache_min_compile_time_secs)",)


def test_too_small_entries_are_not_cached(cache: Path) -> None:
    configure(persistent_cache_min_entry_size_bytes=1 << 30)
    foretold(program())
    status = foretold(program())
    assert status.cache == "miss"
    assert status.written_if == ("the entry has 1073741824 bytes or more (jax_persistent_cache_min_entry_size_bytes)",)
    assert not entries(cache)


def test_no_directory() -> None:
    configure(compilation_cache_dir=None)
    status = foretold(program())
    assert status.cache == "unused"
    assert status.reasons == ("there is no cache directory; set jax_compilation_cache_dir",)
    assert isinstance(status.directory, Unavailable)


def test_switched_off() -> None:
    configure(enable_compilation_cache=False)
    assert foretold(program()).reasons == ("jax_enable_compilation_cache is False",)


def test_switched_on_too_late() -> None:
    configure(enable_compilation_cache=False)
    jax.jit(program(7)).lower(X).compile()
    configure(enable_compilation_cache=True)
    (reason,) = foretold(program()).reasons
    assert "JAX decided at its first compile not to use a cache, and does not reconsider" in reason
    assert "reset_cache()" in reason
    compilation_cache.reset_cache()
    assert foretold(program()).cache == "miss"


def test_switched_off_too_late() -> None:
    foretold(program())
    configure(enable_compilation_cache=False)
    # JAX goes on using its cache; before 0.12 with another key, without the autotune directory.
    assert foretold(program()).cache == ("hit" if RECENT else "miss")


def test_another_directory_too_late(cache: Path, tmp_path: Path) -> None:
    foretold(program())
    configure(compilation_cache_dir=str(tmp_path / "other"))
    status = foretold(program())
    assert status.directory == str(cache)
    assert any("JAX has opened" in notice and "reset_cache()" in notice for notice in status.notices)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("below", [False, True])
def test_a_directory_that_is_none(tmp_path: Path, below: bool) -> None:
    file = tmp_path / "file"
    file.write_text("")
    configure(compilation_cache_dir=str(file / "below" if below else file))
    with pytest.warns(UserWarning, match="Error (reading|writing) persistent"):
        status = foretold(program())
    assert status.reasons == (f"{file} is not a directory",)
    (reason,) = foretold(program(2)).reasons
    assert "JAX could not open its cache at an earlier compile" in reason


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "flipped": lambda data: data[:500] + bytes([data[500] ^ 0xFF]) + data[501:],
    "foreign": lambda data: b"something else",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_compiled_again_each_time(cache: Path, kind: str) -> None:
    foretold(program())
    (file,) = entries(cache)
    damaged = DAMAGE[kind](file.read_bytes())
    if kind == "flipped" and (compilation_cache.zstd is not None or compilation_cache.zstandard is not None):
        pytest.skip("Zstandard, which Python 3.14 and later bring along, keeps no checksum")
    file.write_bytes(damaged)
    for _ in range(2):
        with pytest.warns(UserWarning, match="Error reading persistent compilation cache entry"):
            status = foretold(program())
        assert status.cache == "miss"
        (reason,) = status.reasons
        assert "the entry cannot be read" in reason
        assert f"delete {file}" in reason
        assert status.unwritten == ("the key already has an entry, and JAX does not replace entries",)
        assert file.read_bytes() == damaged
    file.unlink()
    assert foretold(program()).cache == "miss"
    assert foretold(program()).cache == "hit"


def test_contents_that_are_checked_are_compiled_once(tmp_path: Path) -> None:
    foretold(program())
    compilation_cache.reset_cache()
    configure(compilation_cache_check_contents=True)
    jax.clear_caches()
    lowered = jax.jit(program()).lower(X)
    status = inspector.cache_status(lowered)
    assert status.cache == "miss"
    assert isinstance(status.entry, Entry)
    assert "jax_compilation_cache_check_contents" in status.reasons[0]
    # XLA's code for CPUs is not the same each time, which JAX then reports.
    with contextlib.suppress(compilation_cache.CacheVerificationError):
        lowered.compile({"xla_dump_to": str(tmp_path), "xla_dump_hlo_pass_re": ".*"})
    assert list(tmp_path.glob("*.before_*"))


def test_a_cache_without_room() -> None:
    pytest.importorskip("filelock")
    configure(compilation_cache_max_size=0)
    with pytest.warns(UserWarning, match="exceeds the maximum cache size"):
        status = foretold(program())
    assert status.unwritten == ("jax_compilation_cache_max_size is 0",)


@pytest.mark.skipif(util.find_spec("filelock") is not None, reason="filelock is installed")
def test_a_limit_without_filelock() -> None:
    configure(compilation_cache_max_size=1 << 20)
    with pytest.warns(UserWarning, match="filelock"):
        status = foretold(program())
    assert status.reasons == (
        f"jax_compilation_cache_max_size needs the package filelock; install it with: {install_command('filelock')}",
    )


def test_host_callbacks() -> None:
    def fun(x: Any) -> Any:
        jax.debug.callback(lambda _: None, x)
        return x

    status = foretold(fun)
    reasons = (
        () if RECENT else ("this version of JAX does not write programs with host callbacks, such as jax.debug.print",)
    )
    assert status.unwritten == reasons
    assert foretold(fun).cache == ("hit" if RECENT else "miss")


def test_custom_partitioning_keeps_others_from_hitting() -> None:
    @custom_partitioning
    def add(x: Any) -> Any:
        return x + 1

    add.def_partition(
        partition=lambda mesh, args, result: (mesh, lambda x: x + 1, result.sharding, (args[0].sharding,)),
        infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
        sharding_rule="i -> i",
    )
    rows = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("i",)), PartitionSpec("i"))
    x = jax.device_put(np.ones(8, np.float32), rows)
    status = foretold(add, x)
    assert any("custom_partitioning adds an address" in notice for notice in status.notices)
    configure(remove_custom_partitioning_ptr_from_cache_key=True)
    without = foretold(add, x)
    assert not any("custom_partitioning" in notice for notice in without.notices)
    assert list(key_of(status).diff(key_of(without))) == ["computation"]


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_programs_over_devices(devices: int) -> None:
    rows = NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("x",)), PartitionSpec("x"))
    x = jax.device_put(np.ones((8, 8), np.float32), rows)
    assert foretold(program(), x).cache == "miss"
    status = foretold(program(), x)
    assert status.cache == "hit"
    assert status.sharing == Unavailable("the program runs in one process")


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
def test_another_process_fills_the_cache(cache: Path, one_device_python: RunPython, devices: int) -> None:
    script = f"""
import pickle, sys
import jax, numpy as np
import inspector
jax.config.update("jax_compilation_cache_dir", {str(cache)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
def step(x): return x @ x + 1
lowered = jax.jit(step).lower(np.ones((3, 3), np.float32))
sys.stdout.write(pickle.dumps(inspector.cache_status(lowered).key).hex())
lowered.compile()
"""
    assert inspector.cache_status(program(), X).cache == "miss"
    printed = one_device_python(script, {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}).stdout
    # On CPUs the number of devices in a process counts, though the flag that sets it does not.
    status = foretold(program())
    assert status.cache == ("hit" if devices == len(jax.devices()) else "miss")
    changes = key_of(status).diff(pickle.loads(bytes.fromhex(printed)))
    text = "1 of {} devices (cpu), seen by process 0"
    assert changes == ({} if devices == 8 else {"accelerator_config": (text.format(8), text.format(1))})


def test_a_cache_that_was_moved(cache: Path, tmp_path: Path) -> None:
    status = foretold(program())
    told = any("the path of the cache directory is part of the key" in notice for notice in status.notices)
    assert told == (not RECENT)
    shutil.move(cache, tmp_path / "moved")
    configure(compilation_cache_dir=str(tmp_path / "moved"))
    compilation_cache.reset_cache()
    moved = foretold(program())
    assert moved.cache == ("hit" if RECENT else "miss")
    changed = list(key_of(status).diff(key_of(moved)))
    assert changed == ([] if RECENT else ["xla_gpu_per_fusion_autotune_cache_dir"])


def test_ingredients_are_jax_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false --xla_dump_to=/nowhere")
    key = key_of(inspector.cache_status(program(), X))
    digests = {each.name: each.sha256 for each in key.ingredients}
    expected = {
        "jax_lib version": metadata.version("jaxlib"),
        "backend version": "cpucpu",
        "XLA flags": "--xla_cpu_enable_fast_math=false",
        "custom_hook": "",
    }
    for name, text in expected.items():
        assert digests[name] == hashlib.sha256(text.encode()).hexdigest(), name
    assert isinstance(key.compile_options, bytes)
    assert digests["compile_options"] == hashlib.sha256(key.compile_options).hexdigest()
    assert list(digests) == [
        "computation", "jax_lib version", "backend version", "XLA flags", "compile_options", "accelerator_config",
        "compression", "custom_hook",
    ]  # fmt: skip
    assert not [each for each in key.ingredients if isinstance(each.value, Unavailable)]
    assert key.flags_left_out == ("--xla_dump_to=/nowhere",)
    assert "not in the key: --xla_dump_to=/nowhere" in str(key)


def test_flags_of_the_process_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = key_of(inspector.cache_status(program(), X))
    before = {each.name: each.value for each in plain.ingredients}["XLA flags"]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert plain.diff(key_of(inspector.cache_status(program(), X))) == {
        "XLA flags": (before, "--xla_cpu_enable_fast_math=true")
    }


def test_detailed_logging_starts_at_the_threshold() -> None:
    operations = 0

    def count(operation: Any) -> Any:
        nonlocal operations
        operations += 1
        return ir.WalkResult.ADVANCE

    lowered = jax.jit(program()).lower(X)
    lowered.compiler_ir("stablehlo").operation.walk(count)
    configure(compiler_detailed_logging_min_ops=operations)
    assert not inspector.cache_status(lowered).detailed_logging
    configure(compiler_detailed_logging_min_ops=operations - 1)
    assert inspector.cache_status(lowered).detailed_logging


def test_profiles_make_other_keys() -> None:
    configure(enable_pgle=True, pgle_profiling_runs=3)
    status = inspector.cache_status(program(), X)
    assert isinstance(status.cache, Unavailable)
    assert "jax_enable_pgle" in status.reasons[0]


def test_programs_compiled_in_this_process_do_not_use_the_cache() -> None:
    lowered = jax.jit(program()).lower(X)
    lowered.compile()
    status = inspector.cache_status(lowered)
    with inspector.watch_compiles() as events:
        lowered.compile()
    assert not events
    assert "already compiled in this process: JAX returns that executable without a cache lookup" in status.notices


def test_the_forms_of_a_function() -> None:
    def step(x: Any, *, scale: float = 1.0) -> Any:
        return x * scale

    jitted = jax.jit(step, compiler_options={"xla_cpu_enable_fast_math": True})
    kwargs = {"scale": 2.0}
    keys = {
        key_of(status).text
        for status in (
            inspector.cache_status(jitted, X, kwargs=kwargs),
            inspector.cache_status(jitted, X, **kwargs),
            inspector.cache_status(jitted.trace(X, **kwargs)),
            inspector.cache_status(jitted.lower(X, **kwargs)),
            inspector.cache_status(step, X, kwargs=kwargs, options={"xla_cpu_enable_fast_math": True}),
        )
    }
    assert len(keys) == 1
    with inspector.watch_compiles() as events:
        jitted(X, **kwargs)
    assert events[-1].cache_key in keys


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"Lowered includes its arguments. Pass it without arguments"):
        inspector.cache_status(jax.jit(program()).lower(X), X)
    with pytest.raises(ParameterError, match=r"lookup of a int\. Expected a function with its arguments"):
        inspector.cache_status(3)


def test_without_devices() -> None:
    mesh = jax.sharding.AbstractMesh((2,), ("x",))
    x = jax.ShapeDtypeStruct((4, 4), np.float32, sharding=NamedSharding(mesh, PartitionSpec("x")))
    lowered = jax.jit(program()).trace(x).lower(lowering_platforms=("cpu",))
    with pytest.raises(ParameterError, match=r"jit\(step\) is lowered for an abstract mesh without devices"):
        inspector.cache_status(lowered)


def test_sharing_of_autotune_results_is_gone() -> None:
    assert not hasattr(jax.config, "jax_share_autotune_config_between_hosts")
    gone = inspector.cache_status(program(), X).autotune_sharing
    assert "XLA splits autotuning over the processes" in gone.reason
    (flag,) = (word.strip(",") for word in gone.remedy.split() if word.startswith("xla_"))
    defaults = inspector.option_catalog(flag).set_index("name")["default"]
    assert defaults[flag] is True or bool(defaults[flag])


def test_its_text() -> None:
    foretold(program())
    lines = str(inspector.cache_status(program(), X)).splitlines()
    assert lines[0] == "jit_step: hit"
    assert any(line.startswith("  entry: ") and line.endswith("its compile took 0 s or more") for line in lines)
    assert lines[-1].lstrip().startswith(("custom_hook", "not in the key"))


@pytest.mark.slow
@pytest.mark.skipif(util.find_spec("libtpu") is None, reason="libtpu is not installed")
def test_devices_that_are_not_there_never_hit(cache: Path, one_device_python: RunPython) -> None:
    script = f"""
import warnings
import jax, numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import inspector
jax.config.update("jax_compilation_cache_dir", {str(cache)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
mesh = Mesh(np.array(topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices), ("x",))
x = jax.ShapeDtypeStruct((64, 64), np.float32, sharding=NamedSharding(mesh, PartitionSpec("x")))
for _ in range(2):
    jax.clear_caches()
    lowered = jax.jit(lambda x: x @ x).lower(x)
    status = inspector.cache_status(lowered)
    with warnings.catch_warnings(record=True), inspector.watch_compiles() as events:
        lowered.compile()
    assert events[-1].cache_key == status.key.text
    print(status.cache, events[-1].cache, events[-1].written, bool(status.entry), status.reasons[0])
"""
    environment = {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_SKIP_MDS_QUERY": "1"}
    first, second = one_device_python(script, environment).stdout.splitlines()[-2:]
    assert first == "miss miss True False the cache has no entry for that key"
    assert second.startswith("miss miss False True JAX cannot load an executable for tpu devices that are not attached")


@pytest.mark.slow
def test_an_address_in_the_key_is_another_process_s(one_device_python: RunPython) -> None:
    script = """
import jax, numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import inspector

@custom_partitioning
def add(x):
    return x + 1

add.def_partition(
    partition=lambda mesh, args, result: (mesh, lambda x: x + 1, result.sharding, (args[0].sharding,)),
    infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
    sharding_rule="i -> i",
)
rows = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), PartitionSpec("i"))
x = jax.device_put(np.ones(8, np.float32), rows)
for left_out in (False, True):
    jax.config.update("jax_remove_custom_partitioning_ptr_from_cache_key", left_out)
    print(inspector.cache_status(add, x).key.text)
"""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    runs = [one_device_python(script, environment).stdout.splitlines()[-2:] for _ in range(2)]
    assert runs[0][0] != runs[1][0]
    assert runs[0][1] == runs[1][1]
