"""Settings: of the process, of a scope, from the environment."""

from __future__ import annotations

import concurrent.futures
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector import settings
from tests.conftest import RunPython


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = settings.current()
    yield
    settings.update(cache=before.cache, cache_disk_bytes=before.cache_disk_bytes)


def test_scopes_nest_and_end_also_when_they_fail() -> None:
    outer = settings.current()
    with settings.scope(cache_disk_bytes=5), settings.scope(cache_directory="x") as inner:
        assert (inner.cache_disk_bytes, inner.cache_directory) == (5, "x")
        assert settings.current() is inner
    with pytest.raises(ZeroDivisionError), settings.scope(cache_disk_bytes=6):
        _ = 1 / 0
    assert settings.current() == outer


def test_the_processs_settings_hold_in_every_thread_and_a_scope_in_its_own() -> None:
    seen: list[int] = []

    def look() -> None:
        seen.append(settings.current().cache_disk_bytes)

    settings.update(cache_disk_bytes=7)
    with settings.scope(cache_disk_bytes=8):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        look()
    assert seen == [7, 8]


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="cach_directory"):
        settings.update(cach_directory="x")
    with pytest.raises(TypeError, match="nonsense"), settings.scope(nonsense=1):
        pass


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cache_directory": 5}, "cache_directory must be a path, or '' for none, got 5"),
        ({"cache_disk_bytes": -1}, "cache_disk_bytes must be a number of bytes, 0 or more, got -1"),
        ({"cache_memory_bytes": "1 GB"}, "got '1 GB'"),
        ({"cache": "off"}, "cache must be True or False, got 'off'"),
        ({"time_limit_s": 0}, "time_limit_s must be a number of seconds above 0, or None, got 0"),
        ({"time_limit_s": True}, "got True"),
    ],
)
def test_values_that_a_setting_cannot_have_are_refused(changes: dict[str, Any], words: str) -> None:
    before = settings.current()
    with pytest.raises(ValueError, match=re.escape(words)):
        settings.update(**changes)
    with pytest.raises(ValueError, match=re.escape(words)), settings.scope(**changes):
        pass
    assert settings.current() == before


def test_a_path_is_stored_as_text() -> None:
    with settings.scope(cache_directory=Path("a") / "b") as inner:
        assert inner.cache_directory == str(Path("a") / "b")


@pytest.mark.parametrize(("value", "wanted"), [("off", "False"), ("0", "False"), ("on", "True")])
def test_the_environment_gives_the_first_values(one_device_python: RunPython, value: str, wanted: str) -> None:
    script = "from inspector import settings; s = settings.current(); print(s.cache, s.cache_directory)"
    done = one_device_python(script, {"INSPECTOR_CACHE": value, "INSPECTOR_CACHE_DIR": "/here"})
    assert done.stdout.split() == [wanted, "/here"]


def test_a_scope_holds_in_a_thread_that_is_started_in_it() -> None:
    def seen(**how: Any) -> bool:
        with concurrent.futures.ThreadPoolExecutor(1, **how) as pool:
            return pool.submit(lambda: settings.current().cache).result()

    with settings.scope(cache=not settings.current().cache) as chosen:
        assert seen(initializer=settings.here()) is chosen.cache
        assert seen() is not chosen.cache
    assert seen(initializer=settings.here()) is settings.current().cache
