"""JAX's own compiles: hits, misses, what is written and why not; against the files of a real cache."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax._src import compilation_cache, monitoring

import inspector
from inspector._jax.caches import cache_state
from inspector._jax.caches.compile_events import CompileEvent, watch_compiles
from inspector.errors import Unavailable

X = np.ones((3, 3), np.float32)
SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs", "jax_enable_compilation_cache")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    """An empty cache that takes everything."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    compilation_cache.reset_cache()
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def compile_once(constant: int = 1) -> CompileEvent:
    jax.clear_caches()

    def step(x: Any) -> Any:
        return x @ x + constant

    with watch_compiles() as events:
        jax.jit(step).lower(X).compile()
    (event,) = events
    assert event.fun_name == "jit(step)"
    return event


def test_a_miss_is_written_and_then_a_hit(cache: Path) -> None:
    miss, hit = compile_once(), compile_once()
    assert (miss.cache, miss.written, miss.reason) == ("miss", True, "")
    assert (hit.cache, hit.written, hit.reason) == ("hit", False, "")
    assert hit.cache_key == miss.cache_key
    assert [path for path in cache.iterdir() if path.name.startswith(str(miss.cache_key))]
    assert isinstance(miss.saved_s, Unavailable)
    assert isinstance(miss.retrieval_s, Unavailable)
    assert isinstance(hit.retrieval_s, float)
    assert 0 < hit.retrieval_s <= hit.seconds
    assert hit.saved_s == -hit.retrieval_s  # JAX keeps whole seconds: none


def test_another_program_has_another_key() -> None:
    assert compile_once(1).cache_key != compile_once(2).cache_key
    assert compile_once(1).cache == "hit"


def test_short_compiles_are_not_written(cache: Path) -> None:
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000)
    event = compile_once()
    assert (event.cache, event.written) == ("miss", False)
    assert "it took < 1000.00 seconds to compile" in event.reason
    assert not any(path.name.startswith("jit_step") for path in cache.glob("*"))


def test_without_a_directory() -> None:
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    event = compile_once()
    assert (event.cache, event.written) == ("unused", False)
    assert "set jax_compilation_cache_dir" in event.reason


def test_switched_off() -> None:
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    event = compile_once()
    assert (event.cache, event.reason) == ("unused", "jax_enable_compilation_cache is False")
    assert isinstance(event.cache_key, Unavailable)


def test_compiles_outside_the_watch_are_not_recorded() -> None:
    compile_once()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000)
    jax.jit(lambda x: x - 5).lower(X).compile()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    event = compile_once(7)
    assert (event.cache, event.reason) == ("miss", "")


def test_where_an_executable_came_from() -> None:
    miss, hit = compile_once(), compile_once()
    assert (miss.source, miss.sent, miss.notice) == ("compiler", False, "")
    assert (hit.source, hit.sent) == ("cache", False)
    assert hit.notice == "not compiled in this process: XLA ran no passes, so there is no dump"


def test_an_entry_that_is_not_replaced_is_not_called_written(cache: Path) -> None:
    compile_once()
    (entry,) = cache.glob("*-cache")
    entry.write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="Error reading persistent compilation cache entry"):
        event = compile_once()
    assert (event.cache, event.source, event.written) == ("miss", "compiler", False)
    assert "which JAX did not use and does not replace" in event.reason
    assert entry.read_bytes() == b"damaged"


def test_a_file_system_error_does_not_fail_a_compile(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_once(1)

    def fail(path: Path, **_: Any) -> bool:
        raise PermissionError(path)

    monkeypatch.setattr(type(cache_state.entry_path("key")), "exists", fail)
    with pytest.warns(UserWarning, match="PermissionError"):
        event = compile_once(2)
    assert (event.cache, event.written) == ("miss", False)


def test_two_watch(caplog: pytest.LogCaptureFixture) -> None:
    with watch_compiles() as outer:
        with watch_compiles() as inner:
            jax.jit(lambda x: x + 11).lower(X).compile()
        jax.jit(lambda x: x + 12).lower(X).compile()
    assert len(inner) == 1
    assert len(outer) == 2
    assert outer[0] == inner[0]


def test_threads_are_not_mixed_up() -> None:
    compile_once(100)

    def again(constant: int) -> None:
        jax.jit(lambda x: x @ x + constant).lower(X).compile()

    with watch_compiles() as events:
        threads = [threading.Thread(target=again, args=(n,)) for n in range(20, 26)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [event.cache for event in events] == ["miss"] * 6
    assert len({event.cache_key for event in events}) == 6
    assert all(event.written for event in events)


def test_nothing_more_is_printed_and_all_is_put_back(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("jax._src.compiler")
    before = (logger.level, list(logger.filters), len(monitoring.get_event_duration_listeners()))
    caplog.handler.setLevel(logging.DEBUG)
    compile_once()
    assert not caplog.records
    with pytest.raises(KeyError), watch_compiles():
        raise KeyError
    assert (logger.level, list(logger.filters), len(monitoring.get_event_duration_listeners())) == before


def test_a_requested_message_still_appears(caplog: pytest.LogCaptureFixture) -> None:
    with jax.log_compiles():
        compile_once()
        compile_once()
    assert any("Persistent compilation cache hit" in record.getMessage() for record in caplog.records)


def test_watch_compiles_is_public() -> None:
    assert inspector.watch_compiles is watch_compiles


def test_host_callbacks_are_written_since_jax_0_11() -> None:
    def fun(x: Any) -> Any:
        jax.debug.callback(lambda _: None, x)
        return x

    with watch_compiles() as events:
        jax.jit(fun).lower(X).compile()
    recent = tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 11)
    assert events[0].written == recent
    assert ("host callbacks" in events[0].reason) == (not recent)
