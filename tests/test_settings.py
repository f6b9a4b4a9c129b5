"""Settings: of the process, of a scope, from the environment."""

from __future__ import annotations

import threading
from collections.abc import Iterator

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


@pytest.mark.parametrize(("value", "wanted"), [("off", "False"), ("0", "False"), ("on", "True")])
def test_the_environment_gives_the_first_values(one_device_python: RunPython, value: str, wanted: str) -> None:
    script = "from inspector import settings; s = settings.current(); print(s.cache, s.cache_directory)"
    done = one_device_python(script, {"INSPECTOR_CACHE": value, "INSPECTOR_CACHE_DIR": "/here"})
    assert done.stdout.split() == [wanted, "/here"]
