"""What is taken of a dump, file by file, and what is said when it cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inspector._jax.report import Report
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.passes import Passes
from inspector.engines import recording
from inspector.engines.recording import Recording
from inspector.errors import Unavailable

PRODUCTS = Report("HloModule jit_f, is_scheduled=true\n\nENTRY", b"", Unavailable("-"), Unavailable("-"), b"", {}, {})


def see(made: Recording, directory: Path, **files: str) -> None:
    for name, text in files.items():
        file = directory / name.replace("__", ".")
        file.write_text(text)
        made.see(file)


def read(made: Recording, product: str) -> Any:
    return made.read(PRODUCTS)[product]


def test_snapshots_of_the_main_module_are_taken(tmp_path: Path) -> None:
    made = Recording({"passes"}, "gpu")
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


def test_what_was_not_written_is_said() -> None:
    made = Recording({"passes", "assembly", "buffers"}, "cpu")
    assert "no snapshot of 'jit_f'" in str(read(made, "passes"))
    assert "no code of 'jit_f'" in str(read(made, "assembly"))
    assert "no buffer assignment of 'jit_f'" in str(read(made, "buffers"))
    assert "when it was loaded" in str(read(Recording({"assembly"}, "tpu"), "assembly"))


def test_what_cannot_be_read_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise ValueError("cut off")

    monkeypatch.setattr(recording, "record_passes", fail)
    made = Recording({"passes", "buffers"}, "cpu")
    see(made, tmp_path, module_0000__jit_f__0000__p__after_dce__before_cse__txt="x")
    (tmp_path / "module_0000.jit_f.cpu_after_optimizations.hlo.pb").write_bytes(b"proto")
    made.see(tmp_path / "module_0000.jit_f.cpu_after_optimizations.hlo.pb")
    assert "ValueError: cut off" in str(read(made, "passes"))
    assert Buffers.from_bytes(read(made, "buffers")).hlo_proto == b"proto"


def test_nothing_is_asked_of_xla_that_is_not_wanted() -> None:
    assert "xla_dump_hlo_pass_re" not in Recording({"assembly"}, "cpu").flags
    assert "xla_dump_emitter_re" not in Recording({"passes"}, "cpu").flags
    assert "xla_dump_hlo_as_proto" not in Recording({"passes"}, "cpu").flags
    for platform in ("cpu", "gpu", "tpu"):
        emitters = Recording({"assembly"}, platform).flags.get("xla_dump_emitter_re", "^llvm$")
        assert emitters in ("^llvm$", "^(llvm|ptx)$"), "`.*` corrupts the heap"
