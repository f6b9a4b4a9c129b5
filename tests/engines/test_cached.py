"""The cache in front of an engine: what is remembered, for whom, and what never is."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector import settings
from inspector.compilation.caches.program_cache import DiskCache, MemoryCache, cache_key
from inspector.compilation.compiled import CompiledProgram, is_from_cache
from inspector.compilation.cost import Cost
from inspector.compilation.engine import Engine, Job
from inspector.compilation.memory import ASSIGNMENT, Memory, MemorySpace
from inspector.compilation.options.options import Options
from inspector.compilation.preview import Preview
from inspector.compilation.program import Argument, Program
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.cached import CachedEngine
from inspector.engines.workers.pending_executable import LOST
from inspector.errors import CancelledError, CompilationError, Unavailable
from inspector.support import deferred, packages
from tests.conftest import RunPython

MB = 1 << 20


class FakeEngine:
    """Compiles at once, counting, or not until told."""

    name = "fake"

    def __init__(self) -> None:
        self.requests: list[CompileRequest] = []
        self.error: Exception | None = None
        self.held: list[Job[CompiledProgram]] | None = None

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        self.requests.append(request)
        job: Job[CompiledProgram] = Job()
        if self.held is not None:
            self.held.append(job)
        elif self.error is not None:
            job.fail(self.error)
        else:
            job.show(Preview.of(compiled(request), 0.1))
            job.resolve(compiled(request))
        return job

    def run(self, request: Any) -> Any:
        return ("ran", request)

    def close(self) -> None:
        pass


def request(module: bytes = b"module", flags: Any = None, **program: Any) -> CompileRequest:
    made = Program("f", module, (), (), Options(num_replicas=1), None, "cpu")
    return CompileRequest(dataclasses.replace(made, **program), Options(flags=flags or {}), Target.parse("cpu"))


def compiled(request: CompileRequest, executable: bytes = b"code") -> CompiledProgram:
    return CompiledProgram(
        program=request.program, options=request.options, target=request.target, _engine="fake", hlo="HloModule f",
        hlo_proto=b"proto", memory=Memory("RAM", {"RAM": MemorySpace(8, 8, 0, 0, 16)}, ASSIGNMENT, {}, 0, 0), cost=Cost(2.0, 0.0, 16.0),
        timings={"compile_s": 5.0, "queue_s": 1.0, "total_s": 7.0}, _executable=executable, versions={"jaxlib": "1"},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def directory(tmp_path: Path) -> Iterator[Path]:
    with settings.scope(cache=True, cache_directory=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def engine(inner: Engine, compiler: str = "c1") -> CachedEngine:
    return CachedEngine(inner, lambda _: compiler)


def test_a_cached_result_is_immediate_and_marked() -> None:
    inner = FakeEngine()
    cached = engine(inner)
    first = cached.submit(request()).result(5)
    cached.submit(request(flags={"xla_cpu_enable_fast_math": True})).result(5)
    begun = time.perf_counter()
    job = cached.submit(request())
    assert job.done()
    again = job.result()
    assert len(inner.requests) == 2
    assert (is_from_cache(first), is_from_cache(again)) == (False, True)
    assert dataclasses.replace(again, timings=first.timings) == first
    assert again.timings["compile_s"] == 5.0
    assert 0 < again.timings["cache_s"] < time.perf_counter() - begun
    assert again.timings["saved_s"] == pytest.approx(6.0 - again.timings["cache_s"])
    assert job.preview().hlo == first.hlo
    assert not job.preview().before_code
    assert cached.run("request") == ("ran", "request")  # type: ignore[arg-type,comparison-overlap]


def test_an_entry_survives_the_process(directory: Path) -> None:
    before = engine(FakeEngine())
    first = before.submit(request()).result(5)
    before.close()
    assert [f.suffix for f in directory.iterdir()] == [".compiled"]
    assert directory.stat().st_mode & 0o077 == 0
    inner = FakeEngine()
    job = engine(inner).submit(request())
    again = job.result(5)
    assert inner.requests == []
    assert is_from_cache(again)
    assert dataclasses.replace(again, timings=first.timings) == first


def test_the_program_is_the_requests_own() -> None:
    cached = engine(FakeEngine())
    cached.submit(request()).result(5)
    named = request(arguments=(Argument("params['w']", (2,), "float32", 0),))
    again = cached.submit(named).result(5)
    assert is_from_cache(again)
    assert again.program is named.program


@pytest.mark.parametrize(
    "other",
    [
        request(b"another module"),
        request(flags={"xla_cpu_enable_fast_math": False}),
        dataclasses.replace(request(), target=Target.parse("cpu:2")),
        request(options=Options(num_replicas=2)),
        request(platform="tpu"),
    ],
)
def test_different_requests_are_compiled(other: CompileRequest) -> None:
    inner = FakeEngine()
    cached = engine(inner)
    cached.submit(request()).result(5)
    assert not is_from_cache(cached.submit(other).result(5))
    cached.close()
    assert not is_from_cache(engine(inner, "another jaxlib").submit(request()).result(5))


@pytest.mark.parametrize(
    "never",
    [
        request(host_callbacks=True),
        request(flags={"xla_dump_to": "/tmp/x"}),
        request(flags={"xla_dump_hlo_as_text": True}),
    ],
)
def test_callbacks_and_dumps_are_never_cached(never: CompileRequest, directory: Path) -> None:
    inner = FakeEngine()
    cached = engine(inner)
    assert not any(is_from_cache(cached.submit(never).result(5)) for _ in range(2))
    cached.close()
    assert len(inner.requests) == 2
    assert not directory.exists()


def test_failures_are_not_cached(directory: Path) -> None:
    inner = FakeEngine()
    inner.error = CompilationError("no")
    cached = engine(inner)
    with pytest.raises(CompilationError):
        cached.submit(request()).result(5)
    inner.error = None
    assert not is_from_cache(cached.submit(request()).result(5))


def test_the_cache_can_be_turned_off(directory: Path) -> None:
    inner = FakeEngine()
    cached = engine(inner)
    with settings.scope(cache=False):
        assert not any(is_from_cache(cached.submit(request()).result(5)) for _ in range(2))
    with settings.scope(cache_directory=""):
        assert [is_from_cache(cached.submit(request()).result(5)) for _ in range(2)] == [False, True]
    cached.close()
    assert not directory.exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "junk", "another's"])
def test_a_corrupted_entry_is_dropped_with_a_warning(
    directory: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = engine(FakeEngine())
    before.submit(request()).result(5)
    before.submit(request(b"other")).result(5)
    before.close()
    file = directory / f"{cache_key(request(), 'c1')}.compiled"
    data = file.read_bytes()
    at = data.index(b"HloModule f")
    file.write_bytes(
        {
            "cut": data[:-30],
            "flipped": data[:at] + b"X" + data[at + 1 :],
            "empty": b"",
            "junk": b"\0" * 500,
            "another's": (directory / f"{cache_key(request(b'other'), 'c1')}.compiled").read_bytes(),
        }[damage]
    )
    inner = FakeEngine()
    cached = engine(inner)
    with caplog.at_level(logging.WARNING):
        job = cached.submit(request())
        assert not is_from_cache(job.result(5))
    assert len(inner.requests) == 1
    assert job.preview().hlo == "HloModule f"
    assert "cannot be used and is compiled again" in caplog.text
    cached.close()
    assert is_from_cache(engine(FakeEngine()).submit(request()).result(5))


def test_cancelling_a_compile_behind_a_corrupted_entry_reaches_the_engine(directory: Path) -> None:
    before = engine(FakeEngine())
    before.submit(request()).result(5)
    before.close()
    (entry,) = directory.iterdir()
    entry.write_bytes(b"junk")
    inner = FakeEngine()
    inner.held = []
    job = engine(inner).submit(request())
    started = threading.Event()
    job.add_progress_callback(lambda j: started.set())
    while not inner.held:
        threading.Event().wait(0.01)
    assert job.cancel()
    with pytest.raises(CancelledError):
        inner.held[0].result(5)


def test_cancelling_while_the_cache_is_read_reaches_the_compile_that_follows(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to cancel yet when the user does."""
    before = engine(FakeEngine())
    before.submit(request()).result(5)
    before.close()
    reading, go = threading.Event(), threading.Event()

    def get(*_: object) -> None:
        reading.set()
        assert go.wait(60)

    monkeypatch.setattr(DiskCache, "get", get)
    inner = FakeEngine()
    inner.held = []
    cached = engine(inner)
    job = cached.submit(request())
    assert reading.wait(60)
    assert job.cancel()
    go.set()
    cached.close()
    assert [each.stage for each in inner.held] == ["cancelled"]


def test_the_directory_stays_within_its_limit(directory: Path) -> None:
    disk = DiskCache(str(directory))
    for n in range(6):
        asked = request(bytes([n]))
        disk.put(f"k{n}", compiled(asked, b"c" * MB), 100 * MB)
        os.utime(directory / f"k{n}.compiled", (1000 + n, 1000 + n))
    assert disk.get("k0", request(bytes([0]))) is not None  # now the last used
    disk.put("k6", compiled(request(bytes([6])), b"c" * MB), int(3.5 * MB))
    assert sorted(f.name for f in directory.iterdir()) == ["k0.compiled", "k5.compiled", "k6.compiled"]


def test_memory_stays_within_its_limit() -> None:
    memory = MemoryCache()
    for n in range(4):
        memory.put(str(n), compiled(request(), b"c" * MB), 100 * MB)
    assert memory.get("0") is not None
    memory.put("4", compiled(request(), b"c" * MB), int(2.5 * MB))
    assert [n for n in "01234" if memory.get(n) is not None] == ["0", "4"]


def test_requests_to_a_closed_cache_fail(directory: Path) -> None:
    before = engine(FakeEngine())
    before.submit(request()).result(5)
    before.close()
    closed = engine(FakeEngine())
    closed.close()
    with pytest.raises(CancelledError, match="The engine was closed"):
        closed.submit(request()).result(60)


def test_an_entry_above_the_limit_evicts_nothing() -> None:
    memory = MemoryCache()
    for n in range(2):
        memory.put(str(n), compiled(request(), b"c" * MB), 3 * MB)
    memory.put("2", compiled(request(), b"c" * (4 * MB)), 3 * MB)
    assert [n for n in "012" if memory.get(n) is not None] == ["0", "1"]


@pytest.mark.parametrize("byte_size", [MB // 4, 2 * MB])
def test_large_entries_stay_on_disk_and_evict_nothing(byte_size: int) -> None:
    """In memory it would stay as long as the notebook kernel, long after its Explorer was closed."""
    inner = FakeEngine()
    small, large = request(), request(b"m" * byte_size)
    with settings.scope(cache_memory_bytes=MB):
        cached = engine(inner)
        for asked in (small, large):
            cached.submit(asked).result(5)
        assert cached._written is not None
        cached._written.result(60)
        assert is_from_cache(cached.submit(large).result(60))
        with settings.scope(cache_directory=""):
            assert is_from_cache(cached.submit(small).result(5))
            assert not is_from_cache(cached.submit(large).result(5))


def test_entries_are_available_while_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    go, put = threading.Event(), DiskCache.put

    def slow(*args: Any) -> bool:
        assert go.wait(60)
        return put(*args)

    monkeypatch.setattr(DiskCache, "put", slow)
    inner = FakeEngine()
    with settings.scope(cache_memory_bytes=100):
        cached = engine(inner)
        cached.submit(request()).result(5)
        assert is_from_cache(cached.submit(request()).result(5))
        go.set()
        cached.close()
    assert len(inner.requests) == 1
    assert cached._writing == {}


@pytest.mark.parametrize("executable", [b"code", LOST])
@pytest.mark.parametrize("has_disk", [True, False])
def test_a_request_does_not_wait_for_a_pending_executable(
    executable: bytes | Unavailable, has_disk: bool, directory: Path
) -> None:
    come = threading.Event()

    def wait(_: CompiledProgram) -> bytes | Unavailable:
        assert come.wait(60)
        return executable

    class Telling(FakeEngine):
        def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
            self.requests.append(request)
            job: Job[CompiledProgram] = Job()
            whole = compiled(request)
            fields = {f.name: getattr(whole, f.name) for f in dataclasses.fields(whole) if f.name != "_executable"}
            job.show(Preview.of(whole, 0.1))
            job.resolve(deferred.defer(CompiledProgram, {"_executable": wait}, **fields))
            return job

    inner = Telling()
    with settings.scope(cache_directory=str(directory) if has_disk else ""):
        cached = engine(inner)
        first, second = cached.submit(request()).result(5), cached.submit(request()).result(5)
        assert is_from_cache(second)
        assert not come.is_set()
        come.set()
        assert first._executable == second._executable == executable
        assert cached._written is not None
        cached._written.result(60)
        assert is_from_cache(cached.submit(request()).result(5)) is (executable != LOST)
    assert len([*directory.glob("*.compiled")] if directory.exists() else []) == (has_disk and executable != LOST)


def test_large_entries_stay_in_memory_without_a_disk_cache(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    for folder in ("", str(tmp_path / "a file")):
        inner = FakeEngine()
        with settings.scope(cache_memory_bytes=100, cache_directory=folder):
            cached = engine(inner)
            cached.submit(request()).result(5)
            if cached._written is not None:
                cached._written.result(5)
            assert is_from_cache(cached.submit(request()).result(5))
            assert len(inner.requests) == 1


def test_many_writers_and_readers_of_one_key(directory: Path) -> None:
    disks = [DiskCache(str(directory)) for _ in range(4)]
    wrong: list[object] = []

    def work(disk: DiskCache) -> None:
        for _ in range(30):
            disk.put("k", compiled(request(), b"c" * 10_000), MB)
            found = disk.get("k", request())
            if found is None or found._executable != b"c" * 10_000:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(disk,)) for disk in disks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [f.name for f in directory.iterdir()] == ["k.compiled"]


def test_a_place_that_cannot_be_written_costs_no_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with settings.scope(cache_directory=str(tmp_path / "file" / "cache")):
        cached = engine(FakeEngine())
        assert cached.submit(request()).result(5).hlo
        cached.close()
    assert "are not cached on disk: " in caplog.text


@pytest.mark.slow
def test_a_restarted_kernel_gets_its_result_back_and_runs_it(one_device_python: RunPython, tmp_path: Path) -> None:
    script = """
import numpy as np, jax.numpy as jnp
import inspector
from inspector.compilation.compiled import is_from_cache
compiled = inspector.lower(lambda x: jnp.sin(x) * 2, np.ones(3, np.float32)).compile()
print(is_from_cache(compiled), compiled.run(np.zeros(3, np.float32), repeat=1).outputs[0].tolist())
"""
    environment = {"INSPECTOR_CACHE": "on", "INSPECTOR_CACHE_DIR": str(tmp_path / "kernels")}
    said = [one_device_python(script, environment).stdout.strip() for _ in range(2)]
    assert said == ["False [0.0, 0.0, 0.0]", "True [0.0, 0.0, 0.0]"]
    with_flags = one_device_python(script, {**environment, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"})
    assert with_flags.stdout.startswith("False")


@pytest.mark.skipif(os.name == "nt", reason="no modes")
def test_a_directory_that_others_may_write_is_not_used_with_one_warning(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked, disk = request(), DiskCache(str(directory))
    disk.put("k", compiled(asked), MB)
    directory.chmod(0o777)
    assert disk.get("k", asked) is None
    assert "k" not in disk
    disk.put("k2", compiled(asked), MB)
    assert [f.name for f in directory.iterdir()] == ["k.compiled"]
    assert [r.getMessage() for r in caplog.records] == [
        f"Compiled programs are not cached on disk: the folder '{directory}' can be written by others (mode 0777)."
    ]
    inner = FakeEngine()
    assert engine(inner).submit(asked).result(5)._executable == b"code"
    directory.chmod(0o700)
    assert disk.get("k", asked) is not None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.timeout(30)
def test_other_files_in_the_folder_are_left_alone(directory: Path, tmp_path: Path) -> None:
    asked, disk = request(), DiskCache(str(directory))
    disk.put("k", compiled(asked), MB)
    os.mkfifo(directory / "pipe.compiled")
    (directory / "link.compiled").symlink_to(directory / "k.compiled")
    (directory / "folder.compiled").mkdir()
    (directory / "notes.compiled").write_bytes(bytes(MB))
    (directory / ".notes.compiled.txt").write_text("")
    for file in directory.iterdir():
        if file.is_file():
            os.utime(file, (1000, 1000), follow_symlinks=False)
    for key in ("pipe", "link", "folder"):
        assert disk.get(key, asked) is None
    disk.put("k2", compiled(asked), 1)
    assert sorted(f.name for f in directory.iterdir()) == [
        ".notes.compiled.txt", "folder.compiled", "link.compiled", "notes.compiled", "pipe.compiled",
    ]  # fmt: skip


def test_partial_files_of_a_killed_process_are_deleted_after_an_hour(directory: Path) -> None:
    disk = DiskCache(str(directory))
    disk.put("k", compiled(request()), MB)
    old, new = (directory / f".{name}.compiled.0123456789abcdef" for name in ("old", "new"))
    for file, age_s in ((old, 3700), (new, 3500)):
        file.write_bytes(b"half")
        os.utime(file, (time.time() - age_s,) * 2)
    disk.put("k2", compiled(request()), MB)
    assert not old.exists()
    assert new.exists()


def test_a_bomb_in_the_cache_is_dropped(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked, disk = request(), DiskCache(str(directory))
    disk.put("k", compiled(asked, bytes(40 * MB)), 100 * MB)
    with zipfile.ZipFile(directory / "k.compiled") as stored:
        entries = {name: stored.read(name) for name in stored.namelist()}
    with zipfile.ZipFile(directory / "k.compiled", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in entries.items():
            packed.writestr(name, data)
    assert disk.get("k", asked) is None
    assert "claims 41,943,040 bytes, more than the limit of" in caplog.text
    assert not (directory / "k.compiled").exists()


def test_another_inspector_finds_nothing_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key(request(), "c1")
    assert cache_key(request(), "c1") == before
    monkeypatch.setattr(packages, "code_stamp", lambda: "another")
    assert cache_key(request(), "c1") != before


def test_a_change_of_any_module_is_another_code(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    module = tmp_path / "below" / "cost.py"
    module.write_text("flops = 1")
    stamp = packages.code_stamp.__wrapped__
    before = stamp(tmp_path)
    (tmp_path / "notes.txt").write_text("no module")
    assert stamp(tmp_path) == before
    os.utime(module, ns=(1, 1))
    assert stamp(tmp_path) != before
