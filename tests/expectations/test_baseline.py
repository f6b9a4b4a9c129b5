"""Records of programs: what is compared, what is allowed, and the file that people review."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import ExpectationError, ModuleError, ParameterError, Unavailable
from inspector.expectations import baseline
from inspector.expectations.baseline import Key
from inspector.expectations.baseline_context import BaselineComparison, Keeping, is_better, markdown
from inspector.expectations.baseline_record import CollectiveRecord, Record, changes
from tests.expectations.programs import S, called_back, dense, two_sums

RECORD = Record(
    {"peak_bytes": 1000, "alias_bytes": 100, "flops": 1_000_000, "kernels": 4, "host_transfers": 0},
    {"all-reduce over data": CollectiveRecord(2, 6, 600)},
    ("f32", "s32"),
)
KEY = Key("cpu:8", "jax 0.10.2")


def changed(**fields: Any) -> Record:
    numbers = {**RECORD.numbers, **fields.pop("numbers", {})}
    return dataclasses.replace(RECORD, numbers={k: v for k, v in numbers.items() if v is not None}, **fields)


def verdicts(now: Record, **allowed: Any) -> dict[str, str]:
    return {change.name: change.verdict for change in changes(RECORD, now, **allowed) if change.verdict != "same"}


# ------------------------------------------------------------------ what is compared


def test_the_same_is_the_same() -> None:
    assert verdicts(RECORD) == {}
    assert len(changes(RECORD, RECORD)) == len(RECORD.numbers) + 2


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (changed(numbers={"peak_bytes": 1001}), {"peak bytes": "worse"}),
        (changed(numbers={"peak_bytes": 999}), {"peak bytes": "better"}),
        (changed(numbers={"alias_bytes": 99}), {"alias bytes": "worse"}),
        (changed(numbers={"alias_bytes": 101}), {"alias bytes": "better"}),
        (changed(numbers={"flops": None}, unknown={"flops": "nobody counts"}), {"flops": "unknown"}),
        (changed(numbers={"temp_bytes": 3}), {"temp bytes": "better"}),  # is known now
        (changed(in_part={"flops": "1 custom call not counted"}), {"flops": "unknown"}),
        (changed(element_types=("f32", "f64", "s32")), {"element types": "worse"}),
        (changed(element_types=("f32",)), {"element types": "better"}),
        (changed(collectives={}), {"all-reduce over data": "better"}),
        (changed(collectives={"all-reduce over data": CollectiveRecord(3, 6, 600)}), {"all-reduce over data": "worse"}),
        (changed(collectives={"all-reduce over data": CollectiveRecord(2, 7, 600)}), {"all-reduce over data, executions": "worse"}),
        (changed(collectives={"all-reduce over data": CollectiveRecord(2, 6, 601)}), {"all-reduce over data, bytes": "worse"}),
        (
            changed(collectives={**RECORD.collectives, "all-gather over data": CollectiveRecord(1, 1, 1)}),
            {"all-gather over data": "worse"},
        ),
    ],
)  # fmt: skip
def test_each_change_is_reported(now: Record, told: dict[str, str]) -> None:
    assert verdicts(now) == told


def test_increases_within_the_tolerance_are_allowed() -> None:
    more = changed(
        numbers={"peak_bytes": 1050, "flops": 1_050_000},
        collectives={"all-reduce over data": CollectiveRecord(2, 6, 630)},
    )
    assert set(verdicts(more, above="5%").values()) == {"allowed"}
    assert set(verdicts(more, above=0.05).values()) == {"allowed"}
    assert set(verdicts(more, above="4.9%").values()) == {"worse"}
    some = {"peak_bytes": "50 B", "flops": "50 kflop", "collectives": "30 B"}
    assert set(verdicts(more, above=some).values()) == {"allowed"}
    assert verdicts(more, above={"peak_bytes": "49 B", "flops": "5%"}) == {
        "peak bytes": "worse", "flops": "allowed", "all-reduce over data, bytes": "worse",
    }  # fmt: skip
    assert verdicts(changed(collectives={"all-reduce over data": CollectiveRecord(3, 6, 600)}), above="500%") == {
        "all-reduce over data": "worse"
    }
    for above in ("much", "1 MiB", -1, True):
        with pytest.raises(ParameterError):
            changes(RECORD, more, above)


def test_ignored_values_may_change() -> None:
    now = changed(
        numbers={"peak_bytes": 9999},
        element_types=("f64",),
        collectives={"all-gather over x": CollectiveRecord(1, 1, 1)},
    )
    assert verdicts(now, ignore=("peak_bytes", "element_types", "collectives")) == {}
    assert "peak bytes" in verdicts(now, ignore=("element_types",))


def test_a_program_as_a_record() -> None:
    record = Record.of(inspector.lower(two_sums, S((8, 8), jnp.float32)).compile(target="cpu:8"))
    assert record.collectives == {
        "all-gather over model": CollectiveRecord(1, 1, 32), "all-reduce over data": CollectiveRecord(1, 1, 32),
    }  # fmt: skip
    assert record.element_types == ("f32",)
    assert record.numbers["peak_bytes"] >= record.numbers["argument_bytes"] == 32
    assert record.numbers["full_rematerializations"] == record.numbers["host_transfers"] == 0
    called = Record.of(inspector.lower(called_back, S((8, 8), jnp.float32)).compile())
    assert called.numbers["host_transfers"] == 1
    assert "custom call" in called.in_part.get("flops", called.unknown.get("flops", ""))


# ------------------------------------------------------------------ the file


def test_a_file_keeps_records_by_name_target_and_compiler(tmp_path: Path) -> None:
    path = tmp_path / "new" / "baselines.json"
    other = changed(numbers={"peak_bytes": 7})
    baseline.write(path, "step", KEY, RECORD)
    baseline.write(path, "step", Key("cpu:8", "jax 0.12.0.1"), other)
    baseline.write(path, "another", Key("tpu:v5e:2x4", "jax 0.10.2, libtpu 0.0.42"), other)
    assert baseline.read(path) == {
        "another": {"tpu:v5e:2x4": {"jax 0.10.2, libtpu 0.0.42": other}},
        "step": {"cpu:8": {"jax 0.10.2": RECORD, "jax 0.12.0.1": other}},
    }
    text = path.read_text()
    assert text == baseline.written(baseline.read(path))
    assert '            "peak_bytes": 1000,\n' in text
    baseline.write(path, "step", KEY, other)
    before, after = text.splitlines(), path.read_text().splitlines()
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == [
        ('            "peak_bytes": 1000,', '            "peak_bytes": 7,')
    ]
    assert baseline.read(path)["step"]["cpu:8"]["jax 0.10.2"] == other


def test_a_compiler_without_a_record_gets_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    for compiler in ("jax 0.10.2", "jax 0.9.1", "jax 0.12.0"):
        baseline.write(path, "step", Key("cpu:8", compiler), RECORD)

    def nearest(compiler: str) -> str:
        found = baseline.find(path, "step", Key("cpu:8", compiler))
        assert not isinstance(found, Unavailable)
        return found.compiler

    assert nearest("jax 0.10.2") == "jax 0.10.2"
    assert nearest("jax 0.11.0") == nearest("jax 0.10.10") == "jax 0.10.2"
    assert nearest("jax 0.13.0") == nearest("jax 0.12.0.1") == "jax 0.12.0"
    assert nearest("jax 0.8.0") == "jax 0.9.1"
    for missing in (("stop", KEY), ("step", Key("cpu:4", "jax 0.10.2"))):
        found = baseline.find(path, *missing)
        assert isinstance(found, Unavailable)
    assert "none for cpu:4" in str(found)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"format": "inspector-sweep"}', '{"format": "inspector-baseline", "format_version": 2}',
        '{"format": "inspector-baseline", "format_version": 1}',
        '{"format": "inspector-baseline", "format_version": 1, "programs": {"a": {"b": {"c": {"numbers": {"x": "y"}}}}}}',
        '{"format": "inspector-baseline", "format_version": 1, "programs": {"a": 3}}', "[" * 100_000, "\x00\xff",
    ],
)  # fmt: skip
def test_another_file_than_a_baseline_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ModuleError, match="is not a baseline"):
        baseline.read(path)
    if text:
        with pytest.raises(ModuleError, match="is not a baseline"):
            baseline.write(path, "step", KEY, RECORD)
        assert path.read_text(encoding="latin-1") == text
    with pytest.raises(ModuleError, match="cannot be read"):
        baseline.read(tmp_path)
    assert baseline.read(tmp_path / "none.json") == {}


def test_many_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(baseline.write, [path] * 24, [f"test {n}" for n in range(24)], [KEY] * 24, [RECORD] * 24))
    assert len(baseline.read(path)) == 24


WRITER = """
import sys
from pathlib import Path
from inspector.expectations import baseline
from inspector.expectations.baseline_record import Record

path, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
for n in range(first, first + count):
    name = f"test {n}" if count < 1000 else "test 0"
    baseline.write(path, name, baseline.Key("cpu", "jax 0.10.2"), Record({"flops": n}, {}, ("f32",)))
"""


def start(path: Path, first: int, count: int) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    return started


def test_processes_write_one_file_and_readers_see_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(baseline.written({f"old {n}": {"cpu": {"jax 0.10.2": RECORD}} for n in range(50)}))
    writers = [start(path, 25 * n, 25) for n in range(3)]
    counts = []
    while any(writer.poll() is None for writer in writers):
        counts.append(len(baseline.read(path)))
    assert [(writer.communicate(), writer.returncode) for writer in writers] == [((b"", b""), 0)] * 3
    assert counts == sorted(counts), "a reader saw fewer records than another before it"
    assert counts[0] >= 50
    assert len(baseline.read(path)) == 50 + 75
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.slow
def test_a_killed_writer_damages_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(baseline.written({f"old {n}": {"cpu": {"jax 0.10.2": RECORD}} for n in range(300)}))
    for n in range(4):
        writer = start(path, 0, 1_000_000)
        time.sleep(0.02 + 0.02 * n)
        writer.kill()
        writer.communicate()
        assert len(baseline.read(path)) >= 300
    baseline.write(path, "after", KEY, RECORD)  # and none of them holds the lock
    assert "after" in baseline.read(path)


@pytest.mark.skipif(os.name == "nt", reason="no limit on the size of files")
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    for n in range(20):
        baseline.write(path, f"old {n}", KEY, RECORD)
    before = path.read_bytes()
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before)}, {len(before)}))\n"
    ended = subprocess.run(
        [sys.executable, "-c", limited + WRITER, str(path), "0", "1"], capture_output=True, text=True, check=False
    )
    assert ended.returncode != 0
    assert f"File too large: '{path}'" in ended.stderr
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]


def test_an_equal_record_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    baseline.write(path, "step", KEY, RECORD)
    before = path.stat().st_ino
    baseline.write(path, "step", KEY, RECORD)
    assert path.stat().st_ino == before


# ------------------------------------------------------------------ checks


def test_a_check_against_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "b.json"
    args = (S((64, 64), jnp.float32), S((32, 64), jnp.float32))
    step = inspector.expect(dense, *args, target="cpu")
    with pytest.raises(ExpectationError, match=r"expected a record, got none.*\n*.*--inspector-update"):
        step.baseline(path)
    assert not path.exists()
    inspector.expect(dense, *args, target="cpu").baseline(path, update=True).baseline(path).baseline(
        path, name="jit_dense"
    )
    larger = inspector.expect(dense, args[0], S((48, 64), jnp.float32), target="cpu")
    with pytest.raises(ExpectationError) as caught:
        larger.baseline(path)
    text = str(caught.value)
    assert "FAIL  baseline 'jit_dense'" in text
    assert "> flops" in text
    assert "(+50.0%)" in text
    assert "If this is intended: record it with `pytest --inspector-update`" in text
    inspector.expect(dense, args[0], S((48, 64), jnp.float32), target="cpu").baseline(path, above="60%")


def test_a_record_of_another_compiler_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    compiled = inspector.lower(dense, S((64, 64), jnp.float32), S((32, 64), jnp.float32)).compile(target="cpu")
    record = Record.of(compiled)
    baseline.write(path, "jit_dense", Key("cpu", "jax 0.1"), record)
    inspector.expect(compiled).baseline(path)
    less = dataclasses.replace(record, numbers={**record.numbers, "peak_bytes": 1})
    baseline.write(path, "jit_dense", Key("cpu", "jax 0.1"), less)
    with pytest.raises(
        ExpectationError, match=r"no worse than recorded with jax 0\.1(.|\n)*jax .* can have its own record"
    ):
        inspector.expect(compiled).baseline(path)


def test_records_of_one_test_are_numbered() -> None:
    keeping = Keeping(name="test_step")
    assert [keeping.name_for(None, "jit_f") for _ in range(3)] == ["test_step", "test_step (2)", "test_step (3)"]
    assert keeping.name_for("mine", "jit_f") == "mine"
    assert [Keeping().name_for(None, "jit_f") for _ in range(2)] == ["jit_f", "jit_f"]


def test_the_summary_is_markdown_that_runs_nothing() -> None:
    found = changes(RECORD, changed(numbers={"peak_bytes": 1001, "kernels": 3}))
    hostile = BaselineComparison("<script>|`x`[a](b)\n# h", "cpu:8", "jax 2", "jax 1", found)
    same = BaselineComparison("same", "cpu", "jax 1", "jax 1", changes(RECORD, RECORD))
    text = markdown([same, hostile, BaselineComparison("new", "cpu", "jax 1", "", (), is_new=True)])
    assert "<script>" not in text
    assert r"&lt;script>\|\`x\`\[a\](b) # h" in text
    assert "recorded with jax 1" in text
    assert "| ❌ peak bytes | 1000 B | 1001 B | +1 B (+0.1%) |" in text
    assert "| ✅ kernels | 4 | 3 | −1 (−25.0%) |" in text
    assert "recorded for the first time" in text
    assert text.endswith("1 program as recorded.\n")
    assert not is_better(hostile)
    assert is_better(BaselineComparison("a", "cpu", "j", "j", changes(RECORD, changed(numbers={"kernels": 3}))))
