"""Flags against what the installed jaxlib itself takes."""

from __future__ import annotations

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from inspector.compilation.options.options import Options
from inspector.errors import FlagTypeError, Unavailable, UnknownFlagError
from inspector.support.install_commands import install_command
from inspector.toolchain import flags
from inspector.toolchain.flags import types as flag_types
from inspector.toolchain.xla import options_message

FLOAT = "xla_gpu_auto_spmd_partitioning_memory_budget_ratio"
GOOD = [
    ("xla_cpu_enable_fast_math", True),
    ("xla_backend_optimization_level", 2),
    ("xla_cpu_prefer_vector_width", -1),
    ("xla_cpu_parallel_codegen_split_count", 2**31 - 1),
    (FLOAT, 1.5),
    ("xla_disable_hlo_passes", "a,b"),
    ("xla_disable_hlo_passes", ""),
    ("xla_dump_to", ""),
    ("xla_cpu_scheduler_type", "CPU_SCHEDULER_TYPE_DEFAULT"),
    ("xla_gpu_experimental_autotune_cache_mode", 2),
    ("xla_gpu_enable_command_buffer", "FUSION,CUBLAS"),
    ("xla_gpu_enable_command_buffer", "1,2"),
    ("xla_gpu_enable_command_buffer", ""),
    ("xla_gpu_enable_command_buffer", 1),
]
BAD = [
    ("xla_cpu_enable_fast_math", "true", "Write True"),
    ("xla_cpu_enable_fast_math", 1, "Write True"),
    ("xla_cpu_enable_fast_math", 0, "Write False"),
    ("xla_backend_optimization_level", 2.5, "int32"),
    ("xla_backend_optimization_level", True, "int32"),
    ("xla_cpu_parallel_codegen_split_count", 2**31, "2147483647"),
    ("xla_cpu_parallel_codegen_split_count", -(2**31) - 1, "-2147483648"),
    (FLOAT, 1, r"Write 1\.0"),
    (FLOAT, float("nan"), "finite"),
    (FLOAT, float("inf"), "finite"),
    (FLOAT, 1e300, "float32"),
    ("xla_disable_hlo_passes", 5, "commas"),
    ("xla_gpu_experimental_autotune_cache_mode", "READ", "AUTOTUNE_CACHE_MODE_READ"),
    ("xla_gpu_experimental_autotune_cache_mode", True, "one of"),
    ("xla_gpu_enable_command_buffer", "+FUSION", "FUSION"),
    ("xla_gpu_enable_command_buffer", "FUSION, CUBLAS", "without spaces"),
    ("xla_gpu_enable_command_buffer", "JUNK", "CUBLAS"),
]


# One for each test: JAX keys its cache of compiled modules by flags, and 1 == True.
@pytest.fixture
def lowered() -> jax.stages.Lowered:
    return jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2,), jnp.float32))


@pytest.mark.parametrize(("name", "value"), [g for g in GOOD if "split_count" not in g[0]])
def test_accepted_values_are_accepted_by_jaxlib(lowered: jax.stages.Lowered, name: str, value: flags.FlagValue) -> None:
    flags.check_value(name, value)
    lowered.compile(compiler_options={name: value})


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_refused_values_are_refused_by_jaxlib(
    lowered: jax.stages.Lowered, name: str, value: flags.FlagValue, message: str
) -> None:
    with pytest.raises(FlagTypeError, match=message) as caught:
        flags.check_value(name, value)
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)
    with pytest.raises(jax.errors.JaxRuntimeError):
        lowered.compile(compiler_options={name: value})


def test_text_that_nothing_can_write() -> None:
    with pytest.raises(FlagTypeError, match="It contains half of a surrogate pair"):
        flags.check_value("xla_dump_to", "\ud800")


def test_integers_up_to_the_limits() -> None:
    flags.check_value("xla_cpu_parallel_codegen_split_count", 2**31 - 1)
    flags.check_value("xla_cpu_parallel_codegen_split_count", -(2**31))


def test_enum_numbers_that_jaxlib_would_swallow(lowered: jax.stages.Lowered) -> None:
    lowered.compile(compiler_options={"xla_gpu_experimental_autotune_cache_mode": 99})
    with pytest.raises(FlagTypeError, match="99"):
        flags.check_value("xla_gpu_experimental_autotune_cache_mode", 99)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--xla_cpu_enable_fast_math=true", {"xla_cpu_enable_fast_math": True}),
        ("--xla_cpu_enable_fast_math", {"xla_cpu_enable_fast_math": True}),
        ("--xla_cpu_enable_fast_math=0", {"xla_cpu_enable_fast_math": False}),
        ("xla_backend_optimization_level=1", {"xla_backend_optimization_level": 1}),
        (f"--{FLOAT}=2", {FLOAT: 2.0}),
        (
            "--xla_disable_hlo_passes=a,b --xla_dump_to='/tmp/a b'",
            {"xla_disable_hlo_passes": "a,b", "xla_dump_to": "/tmp/a b"},
        ),
        (
            "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_DEFAULT",
            {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_DEFAULT"},
        ),
    ],
)
def test_parse(text: str, expected: dict[str, flags.FlagValue]) -> None:
    parsed = Options.parse(text)
    assert dict(parsed.flags) == expected
    assert [type(v) for v in parsed.flags.values()] == [type(v) for v in expected.values()]
    parsed.check()


@pytest.mark.parametrize(
    "text", ["--xla_cpu_enable_fast_math=yes", "--xla_backend_optimization_level=two", f"--{FLOAT}=x"]
)
def test_parse_of_a_wrong_value(text: str) -> None:
    with pytest.raises(FlagTypeError, match="cannot read"):
        Options.parse(text)


def test_unknown_flag() -> None:
    with pytest.raises(UnknownFlagError, match=r"no flag named 'xla_cpu_enable_fast_mth'.*xla_cpu_enable_fast_math"):
        flags.check_value("xla_cpu_enable_fast_mth", True)
    with pytest.raises(UnknownFlagError, match="option_catalog"):
        flags.flag_type("zzz")


def test_a_flag_of_libtpu_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = Unavailable("libtpu, the TPU compiler, is not installed. It contains the options of TPUs.")
    monkeypatch.setattr(flag_types, "_libtpu", lambda: reason)
    monkeypatch.setattr(flag_types, "libtpu_flags", dict)
    command = re.escape(install_command("jax-inspector[tpu]"))
    expected = f"'xla_tpu_enable_x'; it may be a flag of libtpu, but libtpu is not installed.* {command}"
    with pytest.raises(UnknownFlagError, match=expected):
        flags.flag_type("xla_tpu_enable_x")
    with pytest.raises(UnknownFlagError, match="Did you mean xla_dump_to"):
        flags.flag_type("xla_dump_too")
    assert not any(name.startswith("xla_jf_") for name in flags.flag_names())


def test_a_flag_that_was_removed() -> None:
    with pytest.raises(
        UnknownFlagError, match="'xla_cpu_enable_mlir_lowering' was a flag of XLA and does not exist in jaxlib"
    ):
        flags.flag_type("xla_cpu_enable_mlir_lowering")


def test_every_flag_has_a_type() -> None:
    names = flags.flag_names()
    assert len(names) > 300
    assert list(names) == sorted(set(names))
    assert {flags.flag_type(n).kind for n in names} >= {"bool", "int32", "int64", "float", "string", "enum", "message"}
    assert all(flags.flag_type(n).choices for n in names if flags.flag_type(n).kind == "enum")


def test_the_schema_is_not_read_before_a_flag_is_checked() -> None:
    script = "import sys, inspector.toolchain.flags; assert 'inspector.toolchain.schema' not in sys.modules; assert 'google.protobuf' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_choice_is_set_by_its_name_and_by_its_number_however_written() -> None:
    types = {name: flags.flag_type(name) for name in flags.flag_names()}
    types = {name: t for name, t in types.items() if t.kind == "enum" and not t.repeated and t.home != "libtpu"}
    assert {t.home for t in types.values()} >= {"executable_build_options", "debug_options"}
    for name, type_ in types.items():
        label, number = type_.choices[-1]
        for value in (label, number, str(number)):
            flags.check_value(name, value)
            message = flags.holder(type(options_message())(), type_.home)
            flags.set_field(message, name, value)
            assert getattr(message, name) == number, (name, value)
