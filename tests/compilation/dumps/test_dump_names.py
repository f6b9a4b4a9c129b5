"""Names of files in dump folders, of several platforms and versions of XLA."""

from __future__ import annotations

import time

import pytest

from inspector.compilation.dumps.contents import is_cut_off, missing_of
from inspector.compilation.dumps.debug_options import read_debug_options
from inspector.compilation.dumps.names import DumpEntry, ModuleFiles, grouped

# Written by JAX 0.10.2 for a CPU, an H100 and a TPU v5e, with a few files of each kind.
CPU = [
    "module_0004.jit_f.0001.pre-spmd-partitioner.after_pipeline-start.before_strip-memory-placement-annotations.txt",
    "module_0004.jit_f.0001.pre-spmd-partitioner.after_pipeline-start.before_strip-memory-placement-annotations.hlo.pb",
    "module_0004.jit_f.0015.copy-insertion.after_adding_copies_to_resolve_interference.txt",
    "module_0004.jit_f.before_optimizations.txt",
    "module_0004.jit_f.cpu_after_optimizations-buffer-assignment.txt",
    "module_0004.jit_f.cpu_after_optimizations.hlo.pb",
    "module_0004.jit_f.debug_options",
    "module_0004.jit_f.broadcast_multiply_fusion_kernel_module.ir-no-opt.ll",
    "module_0004.jit_f.obj-file.broadcast_multiply_fusion_kernel_module.o",
    "module_0004.jit_f/module.mlir",
]
GPU = [
    "jit_f.gemm_fusion_dot.triton-to-llvm.txt",
    "module_0001.jit_f.0.ir-no-opt.ll",
    "module_0001.jit_f.1.ptx",
    "module_0001.jit_f.after_spmd_partitioner.txt",
    "module_0001.jit_f.autotune_results.pbtxt",
    "module_0001.jit_f.before_optimizations.hlo.pb.gz",
    "module_0001.jit_f.sm_9.0a_gpu_after_optimizations-live-range.txt",
    "module_0001.jit_f.sm_9.0a_gpu_after_optimizations.txt",
    "module_0001.jit_f.thunk_sequence.txt",
    "module_0001.metadata.textproto",
    "module_0002.fused_reduce.1.0000.fusion-wrapper.after_pipeline-start.before_fusion-wrapper.txt",
]
TPU = [
    "module_0000.jit_f.cl_933746096.0029.Main_fusion.after_tpu_fusion.before_pipeline-end.txt",
    "module_0000.jit_f.cl_933746096.after_codegen.txt",
    "module_0000.jit_f.cl_933746096.after_optimizations.txt",
    "module_0000.jit_f.cl_933746096.after_optimizations_before_buffer_assignment.txt",
    "module_0000.jit_f.cl_933746096.before_optimizations.hlo.pb",
    "module_0000.jit_f.cl_933746096.tpu_comp_env.txt",
    "module_0000.jit_f.cl_933746096/topology.pb",
]


def modules_of(names: list[str]) -> tuple[list[ModuleFiles], list[str]]:
    modules, others = grouped(DumpEntry(name, 1) for name in names)
    return modules, [entry.path for entry in others]


@pytest.mark.parametrize(
    ("names", "labels", "platform", "others"),
    [
        (CPU, ["module_0004.jit_f"], "cpu", []),
        (GPU, ["module_0001.jit_f", "module_0002.fused_reduce.1"], "gpu", ["jit_f.gemm_fusion_dot.triton-to-llvm.txt"]),
        (TPU, ["module_0000.jit_f"], "tpu", []),
    ],
    ids=["cpu", "gpu", "tpu"],
)
def test_the_files_of_every_platform_belong_to_their_module(
    names: list[str], labels: list[str], platform: str, others: list[str]
) -> None:
    modules, rest = modules_of(names)
    assert [module.label for module in modules] == labels
    assert modules[0].platform == platform
    assert rest == others
    assert {entry.path for module in modules for entry in module.entries} | set(rest) == set(names)
    (before,) = modules[0].stage("before_optimizations").values()
    (after,) = modules[0].stage("after_optimizations").values()
    assert "before_optimizations." in before.path
    assert after.path.endswith(("after_optimizations.hlo.pb", "after_optimizations.txt"))


def test_a_snapshot_has_one_entry_with_all_its_forms() -> None:
    (module,), _ = modules_of(CPU)
    assert [sorted(forms) for forms in module.snapshots.values()] == [[".hlo.pb", ".txt"], [".txt"]]


@pytest.mark.parametrize(
    "name",
    [
        "jit_f.12",
        "SyncTensorsGraph.29",
        "jit_after_optimizations",
        "x.jit_after_optimizations",
        "x.before_optimizations",
        "x.y_after_optimizations.z",
        "a.b.c.0",
        "cluster_0__XlaCompiledKernel_true__",
    ],
)
def test_names_of_modules_may_contain_dots_and_words_of_stages(name: str) -> None:
    files = [
        f"module_0012.{name}.{end}"
        for end in ("3.ptx", "before_optimizations.txt", "gfx942_gpu_after_optimizations.txt", "thunk_sequence.txt")
    ]
    (module,), others = modules_of(files)
    assert (module.number, module.name, module.platform) == (12, name, "rocm")
    assert {rest: entry.path for rest, entry in module.files.items()} == {
        path.removeprefix(f"module_0012.{name}."): path for path in files
    }
    assert not others


def test_an_unusual_file_of_a_stage_belongs_to_its_module_also_without_others() -> None:
    (module,), _ = modules_of(["module_0003.jit_f.cl_12.after_optimizations.fusion.dot"])
    assert (module.name, list(module.files)) == ("jit_f", ["after_optimizations.fusion.dot"])


def test_a_time_before_the_name_is_ignored() -> None:
    (module,), _ = modules_of(["1764181000000000.module_0003.jit_f.before_optimizations.txt"])
    assert module.label == "module_0003.jit_f"


def test_hostile_names_are_grouped_in_linear_time() -> None:
    names = [
        f"module_{number:04}.{text * (240 // len(text))}{end}"
        for number, text in enumerate(
            [".", "a.", ".after_", "_before_optimizations.", "sm_9.", "\n", "module_1."] * 300
        )
        for end in ("", ".txt", ".hlo.pb")
    ]
    start = time.process_time()
    modules_of(names)
    assert time.process_time() - start < 5


def test_missing_parts_name_the_flag_that_writes_them() -> None:
    (module,), _ = modules_of(["module_0001.jit_f.cpu_after_optimizations.txt"])
    missing = missing_of(module, module.platform)
    assert set(missing) == {"before", "memory", "passes", "pass times", "assembly", "flags"}
    assert "xla_dump_hlo_pass_re" in missing["passes"].remedy
    assert "xla_dump_hlo_as_proto" in missing["memory"].remedy


def test_debug_options_that_are_not_installed_are_listed() -> None:
    flags = read_debug_options(
        'xla_cpu_enable_fast_min_max: false\nxla_dump_to: "/x y"\nxla_of_the_future: 3\nxla_nested {\n  xla_inner: 1\n}\n\0garbage'
    )
    assert flags.options.flags["xla_cpu_enable_fast_min_max"] is False
    assert flags.options.flags["xla_dump_to"] == "/x y"
    assert set(flags.unknown) == {"xla_of_the_future", "xla_nested", "\0garbage"}
    assert "xla_dump_to" not in flags.for_compiling.flags


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"HloModule f\n\nENTRY e {\n}\n", False), (b"HloModule f\n\nENTRY e {\n  a = f32", True), (b"", True)],
)
def test_cut_off_texts_are_recognized(text: bytes, expected: bool) -> None:
    assert is_cut_off(text) is expected
