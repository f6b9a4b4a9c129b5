"""The options that a page or a file may use: no file, no other program's flags, whatever the spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inspector.errors import OptionError
from inspector.toolchain import flags
from inspector.toolchain.untrusted import check_untrusted, is_allowed

HOSTILE: list[dict[str, Any]] = [
    {"xla_dump_to": "/tmp/x"},
    {"xla_dump_to": "sponge"},
    {"xla_dump_to": "-"},
    {"--xla_dump_to": "/tmp/x"},
    {"XLA_DUMP_TO": "/tmp/x"},
    {"xla_dump_to ": "/tmp/x"},
    {"xla_dump_hlo_as_text": True},
    {"xla_dump_hlo_pass_re": ".*"},
    {"xla_gpu_dump_llvmir": True},
    {"xla_gpu_ptx_compiler_extra_flags": "--output-file /tmp/x"},
    {"--xla_gpu_ptx_compiler_extra_flags": "-o,/tmp/x"},
    {"xla_backend_extra_options": "info-output-file=/tmp/x"},
    {"--xla_backend_extra_options": "info-output-file=/tmp/x"},
    {"extra_proto": "AAAA"},
    {"env_option_overrides": "xla_dump_to=/tmp/x"},
    {"xla_gpu_cuda_data_dir": "/tmp/x"},
    {"xla_gpu_ptx_file": "/tmp/x"},
    {"xla_gpu_llvm_ir_file": "/tmp/x"},
    {"xla_gpu_kernel_cache_file": "/tmp/x"},
    {"xla_gpu_algorithm_denylist_path": "/tmp/x"},
    {"xla_gpu_load_autotune_results_from": "/tmp/x"},
    {"xla_gpu_per_fusion_autotune_cache_dir": "/tmp/x"},
    {"xla_gpu_pgle_profile_file_or_directory_path": "/tmp/x"},
    {"xla_gpu_target_config_filename": "/tmp/x"},
    {"fdo_profile": "AAAA"},
    {"target_config": 'platform_name: "x"'},
    {"xla_cpu_max_isa": "AVX2 --xla_dump_to=/tmp/x"},
    {"xla_cpu_max_isa": "AVX2'\t--xla_dump_to=/tmp/x"},
    {"xla_disable_hlo_passes": "a,/tmp/x"},
    {"xla_cpu_enable_fast_math": "true --xla_dump_to=/tmp/x"},
    {"xla_force_host_platform_device_count": "1 --xla_dump_to=/tmp/x"},
    {"flagfile": "/tmp/x"},
    {"flags_file": "/tmp/x"},
]
HOSTILE_TPU: list[dict[str, Any]] = [
    {"xla_jf_dump_to": "/tmp/x"},
    {"xla_jf_dump_hlo_text": True},
    {"xla_jf_llvm_flags": "-info-output-file=/tmp/x"},
    {"xla_mosaic_dump_to": "/tmp/x"},
    {"xla_tpu_autofdo_profile_file": "/tmp/x"},
    {"xla_tpu_metrics_filename_prefix": "/tmp/x"},
    {"xla_tpu_log_format": "a --xla_jf_dump_to=/tmp/x"},
    {"xla_tpu_save_original_hlo_module": True},
    {"xla_tpu_enable_log_recorder": True},
    {"xla_tpu_emitter_learned_cost_model_options": 'model_path: "/tmp/x"'},
]


@pytest.mark.parametrize("said", HOSTILE, ids=str)
def test_options_that_could_use_files_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        check_untrusted({"xla_cpu_enable_fast_math": True, **said})


@pytest.mark.parametrize("said", HOSTILE_TPU, ids=str)
def test_options_of_libtpu_that_could_use_files_are_refused(said: dict[str, Any]) -> None:
    pytest.importorskip("libtpu")
    with pytest.raises(OptionError):
        check_untrusted(said)


@pytest.mark.parametrize(
    "said",
    [
        {"xla_cpu_enable_fast_math": True, "xla_llvm_disable_expensive_passes": False},
        {"xla_cpu_parallel_codegen_split_count": 3, "xla_force_host_platform_device_count": 8},
        {"xla_disable_hlo_passes": "algsimp,cse"},
        {"xla_cpu_max_isa": "AVX2"},
        {"xla_gpu_analytical_latency_estimator_options": "nccl_op_launch_us=55,chunk_prep_us=13.34"},
        {"xla_gpu_autotune_level": 0, "optimization_level": "EFFORT_O1"},
        {"num_replicas": 2, "device_assignment": ((0,), (1,)), "use_shardy_partitioner": True},
    ],
    ids=str,
)
def test_options_that_cannot_are_taken(said: dict[str, Any]) -> None:
    check_untrusted(said)


def test_dumps_may_go_below_a_folder_of_the_users_choice(tmp_path: Path) -> None:
    said = {"xla_dump_to": str(tmp_path / "a"), "xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": ".*"}
    check_untrusted(said, str(tmp_path))
    for elsewhere in ("/", str(tmp_path / ".." / "x"), "a", f"file://{tmp_path}/a"):
        with pytest.raises(OptionError, match="dump_directory"):
            check_untrusted({**said, "xla_dump_to": elsewhere}, str(tmp_path))


def test_no_text_is_allowed_that_was_not_reviewed() -> None:
    """A new jaxlib's or libtpu's texts are out until they are listed."""
    words = {
        "to",
        "from",
        "file",
        "files",
        "filename",
        "dir",
        "directory",
        "path",
        "folder",
        "flags",
        "options",
        "cache",
    }
    for name in flags.flag_names():
        kind = flags.flag_type(name).kind
        if kind in ("string", "bytes", "map") and is_allowed(name):
            assert words.isdisjoint(name.split("_")) or kind == "map", name
    assert not any(is_allowed(name) for name in flags.flag_names() if flags.flag_type(name).kind == "bytes")
