"""Products of a dump, file by file, and the messages for unreadable ones."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inspector._jax.compiling.report import Report
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.passes import Passes
from inspector.compilation.records.phases import Span
from inspector.engines import dump_products
from inspector.engines.dump_products import DumpedProducts
from inspector.errors import Unavailable

PRODUCTS = Report("HloModule jit_f, is_scheduled=true\n\nENTRY", b"", Unavailable("-"), Unavailable("-"), b"", {}, {})


def see(made: DumpedProducts, directory: Path, **files: str) -> None:
    for name, text in files.items():
        file = directory / name.replace("__", ".")
        file.write_text(text)
        made.see(file)


def read(made: DumpedProducts, product: str) -> Any:
    return made.read(PRODUCTS)[product]


def test_snapshots_of_the_main_module_are_taken(tmp_path: Path) -> None:
    made = DumpedProducts({"passes"}, "gpu")
    see(
        made,
        tmp_path,
        module_0007__jit_f__before_optimizations__txt="zero",
        module_0007__jit_f__0000__p__after_dce__before_cse__txt="one",
        module_0007__jit_f__0001__p__after_cse__before_x__txt="two",
        module_0008__a_kernel_that_is_tried__0000__p__after_dce__before_cse__txt="another",
        module_0007__metadata__textproto=(
            'pass_metadata { pass_name: "dce" pipeline_name: "p" start_timestamp_usec: 10 end_timestamp_usec: 30 }'
        ),
    )
    passes = Passes.from_bytes(read(made, "passes"))
    assert [(p.name, p.before, p.after) for p in passes] == [("dce", "zero", "one"), ("cse", "one", "two")]
    assert passes[0].duration_s == pytest.approx(20e-6)
    assert isinstance(passes[1].duration_s, Unavailable)


def test_missing_files_are_reported() -> None:
    made = DumpedProducts({"passes", "assembly", "buffers"}, "cpu")
    assert "no snapshot of 'jit_f'" in str(read(made, "passes"))
    assert "no code of 'jit_f'" in str(read(made, "assembly"))
    assert "no buffer assignment of 'jit_f'" in str(read(made, "buffers"))
    assert "when it is loaded" in str(read(DumpedProducts({"assembly"}, "tpu"), "assembly"))


def test_an_unreadable_product_does_not_affect_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise ValueError("cut off")

    monkeypatch.setattr(dump_products, "record_passes", fail)
    made = DumpedProducts({"passes", "buffers"}, "cpu")
    see(made, tmp_path, module_0000__jit_f__0000__p__after_dce__before_cse__txt="x")
    (tmp_path / "module_0000.jit_f.cpu_after_optimizations.hlo.pb").write_bytes(b"proto")
    made.see(tmp_path / "module_0000.jit_f.cpu_after_optimizations.hlo.pb")
    assert "ValueError: cut off" in str(read(made, "passes"))
    assert Buffers.from_bytes(read(made, "buffers")).hlo_proto == b"proto"


def test_only_requested_products_are_dumped() -> None:
    assert "xla_dump_hlo_pass_re" not in DumpedProducts({"assembly"}, "cpu").flags
    assert "xla_dump_emitter_re" not in DumpedProducts({"passes"}, "cpu").flags
    assert "xla_dump_hlo_as_proto" not in DumpedProducts({"passes"}, "cpu").flags
    for platform in ("cpu", "gpu", "tpu"):
        emitters = DumpedProducts({"assembly"}, platform).flags.get("xla_dump_emitter_re", "^llvm$")
        assert emitters in ("^llvm$", "^(llvm|ptx)$"), "`.*` corrupts the heap"


def test_dump_flags_by_product_and_platform() -> None:
    passes = {"xla_dump_hlo_as_text": True, "xla_dump_hlo_pass_re": ".*"}
    assert DumpedProducts((), "gpu").flags == {"xla_dump_hlo_as_text": True}
    assert DumpedProducts({"passes"}, "cpu").flags == passes
    assert DumpedProducts({"passes"}, "tpu").flags == {**passes, "xla_dump_module_metadata": True}
    assert DumpedProducts({"buffers"}, "tpu").flags == {
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_as_proto": True,
        "xla_dump_buffer_assignment_analysis": True,
    }
    assert DumpedProducts({"passes", "buffers"}, "cpu").folders == ()
    assert [bool(DumpedProducts({"assembly"}, platform).folders) for platform in ("cpu", "tpu")] == [False, True]


FILES = {
    "module_0007__jit_f__before_optimizations__txt": "zero",
    "module_0007__jit_f__0000__p__after_dce__before_cse__txt": "one",
    "module_0007__jit_f__cpu_after_optimizations__hlo__pb": "proto",
    "module_0007__jit_f__cpu_after_optimizations-live-range__txt": "ranges",
    "module_0007__jit_f__cpu_after_optimizations-buffer-assignment__txt": "assigned",
    "module_0003__another__cpu_after_optimizations__hlo__pb": "of another",
    "module_0003__another__cpu_after_optimizations-live-range__txt": "of another",
    "module_0003__another__cpu_after_optimizations-buffer-assignment__txt": "of another",
}


def test_each_product_takes_its_files(tmp_path: Path) -> None:
    made = DumpedProducts({"buffers", "passes"}, "gpu")
    see(made, tmp_path, **FILES)
    buffers = Buffers.from_bytes(read(made, "buffers"))
    assert (buffers.hlo_proto, buffers.live_range) == (b"proto", "ranges")
    assert made.assignment(PRODUCTS) == b"assigned"
    (only,) = Passes.from_bytes(read(made, "passes"))
    assert (only.before, only.after) == ("zero", "one")
    assert "wrote no times of its passes" in str(only.duration_s)
    assert sorted(made.read(PRODUCTS)) == ["buffers", "passes"]


def test_unrequested_products_are_not_stored(tmp_path: Path) -> None:
    made = DumpedProducts({"assembly"}, "gpu")
    see(made, tmp_path, **FILES)
    assert list(made.read(PRODUCTS)) == ["assembly"]
    assert "no snapshot" in str(made._passes.read("jit_f", None, ""))
    assert "no buffer assignment" in str(made._buffers.read("jit_f"))


def test_a_module_without_its_own_files_has_none(tmp_path: Path) -> None:
    made = DumpedProducts({"buffers", "passes"}, "gpu")
    see(made, tmp_path, **{name: text for name, text in FILES.items() if "another" in name})
    assert made.assignment(PRODUCTS) == b""
    assert isinstance(read(made, "buffers"), Unavailable)
    assert isinstance(read(made, "passes"), Unavailable)


def test_the_number_with_the_most_snapshots_is_the_modules(tmp_path: Path) -> None:
    made = DumpedProducts({"passes"}, "gpu")
    names = ("module_0002__jit_f", "module_0005__jit_f", "module_0005__jit_f", "module_0009__jit_f")
    files = {f"{name}__{n:04}__p__after_a{n}__before_x__txt": str(n) for n, name in enumerate(names)}
    see(made, tmp_path, module_0002__jit_f__before_optimizations__txt="old", **files)
    see(made, tmp_path, module_0005__jit_f__before_optimizations__txt="new")
    assert [(p.name, p.before, p.after) for p in Passes.from_bytes(read(made, "passes"))] == [
        ("a1", "new", "1"), ("a2", "1", "2"),
    ]  # fmt: skip


def test_a_module_that_gets_another_number_in_a_pipeline_goes_on_under_it(tmp_path: Path) -> None:
    """As where libtpu decomposes complex numbers; its times are in the first number's file."""
    made = DumpedProducts({"passes"}, "tpu")
    times = "".join(
        f'pass_metadata {{ pass_name: "{name}" pipeline_name: "{pipeline}" start_timestamp_usec: {n}0 end_timestamp_usec: {n}5 }}\n'
        for n, (name, pipeline) in enumerate([("a", "p"), ("b", "q"), ("c", "q"), ("d", "r"), ("e", "r")], 1)
    )
    files = {
        "4.jit_f.cl_1.before_optimizations": "0",
        "4.jit_f.cl_1.0000.p.after_a.before_x": "1",
        "4.jit_f.cl_1.0001.q.after_pipeline-start.before_b": "1",
        "7.jit_f.cl_1.0000.q.after_c.before_d": "2",
        "7.jit_f.cl_1.0001.r.after_d.before_e": "3",
        "7.jit_f.cl_1.0002.r.after_e.before_x": "4",
        "8.jit_f.cl_1.0000.r.after_pipeline-start.before_d": "tried out",
        "9.jit_f.cl_2.0000.r.after_e.before_x": "another",
    }
    see(made, tmp_path, **{f"module_000{name}.txt": text for name, text in files.items()})
    see(made, tmp_path, module_0004__metadata__textproto=times)
    passes = Passes.from_bytes(read(made, "passes"))
    assert [(p.name, p.before, p.after) for p in passes] == [
        ("a", "0", "1"), ("b", "1", "1"), ("c", "1", "2"), ("d", "2", "3"), ("e", "3", "4"),
    ]  # fmt: skip
    assert [p.duration_s for p in passes] == pytest.approx([5e-6] * 5)


def test_the_time_of_a_compile_is_from_its_import_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_products, "time", SimpleNamespace(time=lambda: 100.0))
    made = DumpedProducts({"passes"}, "gpu")
    with made.timing():
        see(
            made,
            tmp_path,
            module_0007__jit_f__gpu_after_optimizations__txt="last",
            module_0003__jit_g__gpu_after_optimizations__txt="another",
        )
    (tmp_path / "module_0007.jit_f.gpu_after_optimizations.txt").touch()
    os.utime(tmp_path / "module_0007.jit_f.gpu_after_optimizations.txt", (104.0, 104.0))
    made.see(tmp_path / "module_0007.jit_f.gpu_after_optimizations.txt")
    timings = {"parse_s": 1.0, "compile_s": 5.0}
    assert made._span("jit_f", timings) == Span(101.0, 106.0, 104.0, "gpu")
    assert made._span("jit_h", timings) == Span(101.0, 106.0, None, "gpu")
    assert made._span("jit_h", {"compile_s": 5.0}) == Span(100.0, 105.0, None, "gpu")
    assert made._span("jit_f", {"parse_s": 1.0}) is None
