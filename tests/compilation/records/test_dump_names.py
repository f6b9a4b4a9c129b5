"""Names of files that XLA dumped, from three back-ends and two versions."""

from __future__ import annotations

import pytest

from inspector.compilation.records.dump_names import SnapshotName, as_in_files, module_file, snapshot_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "module_0000.jit_f.0006.simplification.after_algsimp.before_simplify-sorts.txt",
            SnapshotName(0, "jit_f", 6, "simplification", "algsimp", "simplify-sorts"),
        ),
        (
            "module_0012.jit_f.0000.async-collective.after_pipeline-start.before_async-collective-replacer.txt",
            SnapshotName(12, "jit_f", 0, "async-collective", "pipeline-start", "async-collective-replacer"),
        ),
        (
            "module_0000.jit_f.0034.copy-insertion.after_adding_copies_to_resolve_interference.txt",
            SnapshotName(0, "jit_f", 34, "copy-insertion", "adding_copies_to_resolve_interference", ""),
        ),
        (
            "module_0000.jit_g.cl_1004524046.0004.Phase_1_pre-layout_assignment_passes.after_x.before_y.txt",
            SnapshotName(0, "jit_g.cl_1004524046", 4, "Phase_1_pre-layout_assignment_passes", "x", "y"),
        ),
        (
            "module_0001.jit_a.b.0001.p.q.after_c.d.before_e.f.txt",
            SnapshotName(1, "jit_a.b", 1, "p.q", "c.d", "e.f"),
        ),
        ("module_0000.jit_f.before_optimizations.txt", None),
        ("module_0000.jit_f.cpu_after_optimizations.txt", None),
        ("module_0000.jit_f.cpu_after_optimizations-live-range.txt", None),
        ("module_0000.jit_f.0006.simplification.after_algsimp.before_dce.hlo.pb", None),
        ("module_0000.jit_f.0006.txt", None),
        ("module_x.jit_f.0006.p.after_a.before_b.txt", None),
        ("jit_g.fusion_11.triton-to-llvm.txt", None),
        ("module_0000.metadata.textproto", None),
        ("", None),
    ],
)
def test_a_snapshots_name_is_read(name: str, expected: SnapshotName | None) -> None:
    assert snapshot_name(name) == expected


@pytest.mark.parametrize(
    ("name", "module", "expected"),
    [
        ("module_0001.jit_g.0.ir-no-opt.ll", "jit_g", (1, "0.ir-no-opt.ll")),
        ("module_0000.jit_g.cl_1004.after_codegen.hlo.pb", "jit_g", (0, "after_codegen.hlo.pb")),
        ("module_0000.jit_g.obj-file.wrapped_reduce.1_kernel_module.o", "jit_g", (0, "obj-file.wrapped_reduce.1_kernel_module.o")),
        ("module_0000.jit__lambda_.x.o", "jit__lambda_", (0, "x.o")),
        ("module_0000.jit_a_b.x.o", "jit_a b", (0, "x.o")),
        ("module_0000.jit_gg.x.o", "jit_g", None),
        ("module_0000.metadata.textproto", "jit_g", None),
        ("jit_g.fusion_11.triton-to-llvm.txt", "jit_g", None),
    ],
)  # fmt: skip
def test_a_file_belongs_to_its_module(name: str, module: str, expected: tuple[int, str] | None) -> None:
    assert module_file(name, module) == expected


def test_signs_that_files_cannot_have_are_written_as_underscores() -> None:
    assert as_in_files("HLO passes / [x]\\y-z.1") == "HLO_passes____x__y-z.1"
