"""The watched directory: each file once and whole, and nothing left behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector._jax.compiling import dump
from inspector._jax.compiling.dump import Dump

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


@on_linux
def test_a_file_is_seen_once_it_is_closed_and_all_are_deleted(tmp_path: Path) -> None:
    seen: dict[str, bytes] = {}
    arrived = threading.Event()

    def see(file: Path) -> None:
        seen[file.name] = file.read_bytes()
        arrived.set()

    directory = tmp_path / "deep" / "dump"
    with Dump(str(directory), [see]):
        with (directory / "a.txt").open("wb") as file:
            file.write(b"first ")
            file.flush()
            assert not arrived.wait(0.05)
            file.write(b"second")
        assert arrived.wait(5)
        assert seen == {"a.txt": b"first second"}
        (directory / "b.txt").write_bytes(b"last")
    assert seen == {"a.txt": b"first second", "b.txt": b"last"}
    assert not directory.exists()


@on_linux
def test_a_file_that_is_made_empty_and_written_later_is_seen_whole(tmp_path: Path) -> None:
    seen: list[tuple[str, bytes]] = []
    arrived = threading.Event()

    def see(file: Path) -> None:
        seen.append((file.name, file.read_bytes()))
        arrived.set()

    directory = tmp_path / "dump"
    with Dump(str(directory), [see]):
        (directory / "late").write_bytes(b"")
        (directory / "empty").write_bytes(b"")
        assert not arrived.wait(0.3)
        (directory / "late").write_bytes(b"content")
        assert arrived.wait(5)
        assert seen == [("late", b"content")]
    assert seen == [("late", b"content"), ("empty", b"")]


def test_files_of_folders_and_of_systems_without_watches_are_seen_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_directory: Path) -> int:
        raise OSError("no watches")

    monkeypatch.setattr(dump, "_watch", refuse)
    seen: list[str] = []
    with Dump(str(tmp_path / "dump"), [lambda file: seen.append(file.name)]):
        (tmp_path / "dump" / "inner").mkdir()
        (tmp_path / "dump" / "b").write_bytes(b"")
        (tmp_path / "dump" / "inner" / "a").write_bytes(b"")
        assert seen == []
    assert sorted(seen) == ["a", "b"]
    assert not (tmp_path / "dump").exists()
    with pytest.raises(OSError, match="no watches"), Dump(str(tmp_path / "dump"), [], must_watch=True):
        pass
    assert not (tmp_path / "dump").exists()


@on_linux
def test_a_file_written_just_before_the_end_is_seen(tmp_path: Path) -> None:
    for _ in range(50):
        seen: list[bytes] = []
        with Dump(str(tmp_path / "dump"), [lambda file, seen=seen: seen.append(file.read_bytes())]):
            (tmp_path / "dump" / "x").write_bytes(b"last")
        assert seen == [b"last"]


def test_a_failed_read_does_not_fail_the_compile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(file: Path) -> None:
        raise ValueError("cut off")

    seen: list[str] = []
    with Dump(str(tmp_path / "dump"), [fail, lambda file: seen.append(file.name)]):
        (tmp_path / "dump" / "x").write_bytes(b"")
    assert "cut off" in caplog.text
    assert seen == ["x"]


@on_linux
def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = _descriptors()
    for _ in range(20):
        with Dump(str(tmp_path / "dump"), []):
            pass
    until = time.monotonic() + 20
    while _descriptors() > before:  # closed by the thread, for which nobody waits
        assert time.monotonic() < until
        time.sleep(0.01)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@on_linux
def test_closing_does_not_wait_for_the_system_to_end_the_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, closed, close = threading.Event(), threading.Event(), dump._close

    def slow(*descriptors: int) -> None:
        assert left.wait(20)
        close(*descriptors)
        closed.set()

    monkeypatch.setattr(dump, "_close", slow)
    with Dump(str(tmp_path / "dump"), []):
        pass
    left.set()
    assert closed.wait(20)


@on_linux
def test_closing_does_not_wait_for_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "_BATCH_S", 1e6)
    seen: list[str] = []
    with Dump(str(tmp_path / "dump"), [lambda file: seen.append(file.name)]):
        (tmp_path / "dump" / "a.txt").write_text("x")
    assert seen == ["a.txt"]


@on_linux
def test_a_file_that_is_awaited_comes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "_BATCH_S", 60.0)
    arrived = threading.Event()
    with Dump(str(tmp_path / "dump"), [lambda _: arrived.set()], is_awaited=lambda: not arrived.is_set()):
        (tmp_path / "dump" / "a.txt").write_text("x")
        assert arrived.wait(30)


def lost_of(directory: Path, write: Callable[[Path], object]) -> str:
    with Dump(str(directory), []) as dump:
        write(directory)
    return dump.lost


WHOLE = "HloModule m\n\nENTRY %e () -> f32[] {\n  ROOT %c = f32[] constant(1)\n}\n\n"


def test_a_module_that_is_cut_off_is_noticed(tmp_path: Path) -> None:
    name = "module_0000.jit_f.0003.simplification.after_algsimp.before_dce.txt"
    assert lost_of(tmp_path / "a", lambda at: (at / name).write_text(WHOLE)) == ""
    assert (
        lost_of(tmp_path / "b", lambda at: (at / name).write_text(WHOLE[:-4])) == f"{name!r} in {tmp_path} is cut off"
    )
    assert lost_of(tmp_path / "c", lambda at: (at / name).touch()) == f"{name!r} in {tmp_path} is cut off"
    for place, other in enumerate(
        ("cpu_after_optimizations-buffer-assignment", "cl_933746096.after_optimizations-live-range")
    ):
        file = f"module_0000.jit_f.{other}.txt"
        assert lost_of(tmp_path / f"d{place}", lambda at, file=file: (at / file).write_text("Total 3 bytes\n")) == ""
    assert lost_of(tmp_path / "e", lambda at: (at / "module_0000.jit_f.ptx").touch()) == ""


def test_a_full_disk_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "free_bytes", lambda _: 4096)
    assert lost_of(tmp_path / "a", lambda _: None) == f"{tmp_path} was full (4096 bytes left)"


def test_files_that_xla_could_not_write_are_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(_: Path) -> None:
        for name in ("a", "b"):
            os.write(
                2,
                f"E1125 10:00:00.0 1 dump.cc:1] Could not write XLA debug data to {name}: RESOURCE_EXHAUSTED\n".encode(),
            )

    os.write(2, b"Could not write XLA debug data to an earlier one\n")
    assert lost_of(tmp_path / "a", say) == f"XLA could not write 2 files into {tmp_path}"
    assert lost_of(tmp_path / "b", lambda _: None) == ""
