"""Files that other users may have made are checked before use. Root's tests change their owner with chown."""

from __future__ import annotations

import os
import types
from pathlib import Path

import pytest

from inspector.support import files

posix = pytest.mark.skipif(os.name == "nt", reason="no owners and modes")
root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")

pytestmark = posix


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return files.make_own_folder(tmp_path / "a" / "b")


def test_folders_are_made_for_this_user_alone_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = files.make_own_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [p.stat().st_mode & 0o777 for p in (made, made.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    if mode == 0o770 and files._is_private(folder.stat().st_gid):
        files.check_own_folder(folder)
        return
    with pytest.raises(
        files.RefusedError, match=rf"the folder '{folder}' can be written by others \(mode {mode:04o}\)"
    ):
        files.check_own_folder(folder)


def test_a_folder_below_such_a_folder_is_refused(folder: Path) -> None:
    folder.parent.chmod(0o777)
    with pytest.raises(
        files.RefusedError, match=rf"'{folder}' is inside '{folder.parent}', which can be written by others"
    ):
        files.make_own_folder(folder)
    folder.parent.chmod(0o1777)  # as /tmp: each owns what is theirs
    files.check_own_folder(folder)


def test_a_link_is_followed_to_where_it_leads(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    files.check_own_folder(link)
    folder.parent.chmod(0o777)
    with pytest.raises(files.RefusedError, match=f"is inside '{folder.parent}'"):
        files.check_own_folder(link)


@root
def test_another_users_folder_and_files_are_refused(folder: Path) -> None:
    file = folder / "f"
    file.write_text("x")
    os.chown(file, 12345, 12345)
    with pytest.raises(files.RefusedError, match=r"f' belongs to user 12345, not to this user \(0\)"):
        files.open_regular(file, own=True)
    assert list(files.entries(folder)) == []
    os.chown(folder, 12345, 12345)
    with pytest.raises(files.RefusedError, match=r"belongs to user 12345, not to this user \(0\)"):
        files.check_own_folder(folder)
    os.chown(folder, 0, 0)
    os.chown(folder.parent, 12345, 12345)
    with pytest.raises(files.RefusedError, match=r"is inside .* which belongs to user 12345"):
        files.check_own_folder(folder)


@pytest.mark.timeout(20)
def test_only_regular_files_are_opened(folder: Path) -> None:
    plain, pipe, link = folder / "plain", folder / "pipe", folder / "link"
    plain.write_bytes(b"12345")
    os.mkfifo(pipe)
    link.symlink_to(plain)
    assert files.read(plain, 5) == files.read(link, 5) == files.read(plain, 5, own=True) == b"12345"
    with pytest.raises(files.RefusedError, match="has more than 4 bytes"):
        files.read(plain, 4)
    with pytest.raises(files.RefusedError, match="is a pipe, not a regular file"):
        files.read(pipe, 5)
    with pytest.raises(files.RefusedError, match="is a link"):
        files.read(link, 5, own=True)
    with pytest.raises(files.RefusedError, match="is a device"):
        files.read("/dev/zero", 5)
    plain.chmod(0o666)
    with pytest.raises(files.RefusedError, match="can be written by others"):
        files.read(plain, 5, own=True)
    assert [path.name for path, _ in files.entries(folder)] == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"XDG_CACHE_HOME": "/x"}, "/x/inspector"),
        ({"XDG_CACHE_HOME": "x", "HOME": "/h"}, "/h/.cache/inspector"),
        ({"HOME": "/h"}, "/h/.cache/inspector"),
        ({"HOME": "relative"}, None),
    ],
)
def test_where_caches_are(variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = files.cache_folder()
    assert (None if found is None else str(found)) == expected


def test_a_user_without_home_and_account_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    assert files.cache_folder() is None
    from inspector.settings import Settings

    assert Settings().cache_directory == ""


def test_a_file_is_replaced_when_the_block_ends_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o640)
    with files.writing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    with files.writing(path, mode=0o600) as file:
        file.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o600

    def fail() -> None:
        with files.writing(path) as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    link, path = tmp_path / "link", tmp_path / "f"
    link.symlink_to(path)
    files.write_text(link, "through ä")
    assert link.is_symlink()
    assert path.read_text(encoding="utf-8") == "through ä"


@pytest.mark.timeout(20)
def test_a_device_or_pipe_receives_the_bytes_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()
    files.write_text("/dev/null", "text")
    assert Path("/dev/null").is_char_device()


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("mine")
    path.chmod(0o400)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # root may write everything
    with pytest.raises(PermissionError, match="read-only"):
        files.write_text(path, "other")
    assert path.read_text() == "mine"


def test_partial_files_of_killed_writers_are_deleted_later(tmp_path: Path) -> None:
    old, young, other = (tmp_path / name for name in (f".f.{'0' * 16}", f".f.{'1' * 16}", ".f.mine"))
    for path in (old, young, other):
        path.write_text("half")
    for path in (old, other):
        os.utime(path, (0, 0))
    files.write_text(tmp_path / "f", "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == [young.name, other.name, "f"]


@pytest.mark.parametrize("can_lock_folders", [True, False])
@pytest.mark.timeout(20)
def test_updates_are_exclusive_and_an_unreleased_lock_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_lock_folders: bool
) -> None:
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files, "_UPDATE_LIMIT_S", 0.05)
    if not can_lock_folders:
        lock = files._locks.flock

        def flock(descriptor: int, operation: int) -> None:
            if Path(f"/proc/self/fd/{descriptor}").is_dir():
                raise OSError(9, "Bad file descriptor")
            lock(descriptor, operation)

        monkeypatch.setattr(files, "_locks", types.SimpleNamespace(**{**vars(files._locks), "flock": flock}))
    folder = tmp_path / "folder"
    folder.mkdir()

    def update() -> None:
        with files.updating(folder / "f"):
            pass

    with files.updating(folder / "f"), pytest.raises(TimeoutError, match="Another process has been updating this file"):
        update()
    update()
    assert list(folder.iterdir()) == []
