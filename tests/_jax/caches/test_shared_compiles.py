"""`share_compiles` in one process: what it changes, puts back and refuses. Two: test_docs_share_compile.py."""

from __future__ import annotations

import hashlib

import jax
import numpy as np
import pytest
from jax._src import cache_key

import inspector
from inspector._jax.caches import shared_compiles
from inspector.errors import ParameterError

X = np.ones((2, 2), np.float32)
NAMES = ("jax_share_binary_between_hosts", "jax_share_binary_between_hosts_timeout_ms")


def state() -> tuple[object, ...]:
    return (cache_key._hash_accelerator_config, *(jax.config.values[name] for name in NAMES))


def digest() -> str:
    devices = np.empty(1, dtype=object)
    devices[0] = jax.devices()[0]
    hashed = hashlib.sha256()
    cache_key._hash_accelerator_config(hashed, devices)
    return hashed.hexdigest()


def test_all_is_put_back() -> None:
    before = state()
    with inspector.share_compiles(timeout_s=2.5):
        assert state()[1:] == (True, 2500)
        with inspector.share_compiles(timeout_s=7):
            assert state()[1:] == (True, 7000)
        assert state()[1:] == (True, 2500)
        assert state()[0] is not before[0]
    assert state() == before
    with pytest.raises(KeyError), inspector.share_compiles():
        raise KeyError
    assert state() == before


@pytest.mark.parametrize("timeout_s", [0, -1])
def test_a_time_that_is_none(timeout_s: float) -> None:
    with (
        pytest.raises(ParameterError, match=f"timeout_s must be a number of seconds above 0, got {timeout_s}"),
        inspector.share_compiles(timeout_s),
    ):
        pass  # pragma: no cover


def test_another_processor_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = digest()
    with inspector.share_compiles():
        here = digest()
        assert here == digest() != stock
        monkeypatch.setattr(shared_compiles, "_processor", lambda: "a processor with fewer instructions")
        assert digest() != here
    assert digest() == stock


def test_a_program_in_one_process_is_compiled_as_ever() -> None:
    with inspector.share_compiles(), inspector.watch_compiles() as events:
        status = inspector.cache_status(lambda x: x - 17, X)
        jax.jit(lambda x: x - 17).lower(X).compile()
    assert not status.sharing
    assert (events[-1].source, events[-1].sent) == ("compiler", False)
