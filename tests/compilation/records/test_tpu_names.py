"""Names of files that libtpu dumped, as two versions of it wrote them."""

from __future__ import annotations

import pytest

from inspector.compilation.records.tpu_names import TpuFile, tpu_file


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "1795171736541536501-fusion.25-71-final_bundles.txt",
            TpuFile("VLIW bundles", "fusion.25", 10_005, 1795171736541536501),
        ),
        ("1795171736541536501-TLP-73-final_bundles.txt", TpuFile("VLIW bundles", "TLP", 10_005, 1795171736541536501)),
        (
            "1795171736541536501-<late-initialization>-02-original.txt",
            TpuFile("LLO", "<late-initialization>", 10_000, 1795171736541536501),
        ),
        ("1-all-reduce.1-70-schedule-analysis_final_bundles.txt", TpuFile("schedule", "all-reduce.1", 10_003, 1)),
        ("1795171736571221858-0001-mosaic-dump-mymm-original.txt", TpuFile("Mosaic", "mymm", 1, 1795171736571221858)),
        (
            "1795171736571221858-0013-mosaic-dump-mymm-post-infer-vector-layout.txt",
            TpuFile("Mosaic infer-vector-layout", "mymm", 13, 1795171736571221858),
        ),
        (
            "1795171736571221858-0009-mosaic-dump-mymm-post-post-canon-optimization.txt",
            TpuFile("Mosaic post-canon-optimization", "mymm", 9, 1795171736571221858),
        ),
        ("1795171736541536501-TLP-hlo.txt", None),
        ("1795171736541536501-fusion.25-03-post-address-simplifier.txt", None),
        ("1795171736541536501-fusion.25-71-final_bundles.html", None),
        ("module_0000.jit_f.before_optimizations.txt", None),
        ("17-mosaic-dump-.txt", None),
        ("1795186711812457239-0000-mosaic-dump-softmax-post-deserialization.txt", None),
        ("", None),
    ],
)
def test_a_name_is_read(name: str, expected: TpuFile | None) -> None:
    assert tpu_file(name) == expected
