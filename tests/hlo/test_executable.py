"""Object files of serialized CPU executables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from inspector.errors import Unavailable
from inspector.hlo.executable import nameless, object_files

ELF = b"\x7fELF"


@pytest.fixture(scope="module")
def executable() -> bytes:
    x = jax.ShapeDtypeStruct((32, 32), jnp.float32)
    compiled = jax.jit(lambda x: (jnp.sort(x), jnp.tanh(x) + x.T, jnp.cumsum(x))).lower(x).compile()
    data: bytes = compiled.runtime_executable().client.serialize_executable(compiled.runtime_executable())
    return data


@pytest.mark.skipif(not jax.devices("cpu"), reason="needs a CPU client")
def test_finds_every_object_file(executable: bytes) -> None:
    files = object_files(executable)
    assert not isinstance(files, Unavailable)
    assert len(files) == executable.count(ELF) > 1
    assert all(file.startswith(ELF) and file in executable for file in files)


def test_loaded_sections_are_retained_without_symbol_names(executable: bytes) -> None:
    files = object_files(executable)
    assert not isinstance(files, Unavailable)
    for file in files:
        kept = nameless(file)
        assert 0 < len(kept) < len(file)
        assert b".symtab" in file
        assert b".symtab" not in kept


def test_a_changed_byte_of_code_is_preserved(executable: bytes) -> None:
    files = object_files(executable)
    assert not isinstance(files, Unavailable)
    file = files[0]
    start = file.index(b"\x55\x48\x89\xe5") if b"\x55\x48\x89\xe5" in file else 0x40  # push rbp; mov rbp, rsp
    changed = file[:start] + bytes([file[start] ^ 1]) + file[start + 1 :]
    assert nameless(changed) != nameless(file)


@pytest.mark.parametrize("data", [b"", b"Mach-O", ELF, ELF + b"\x02\x01" + b"\xff" * 100])
def test_other_objects_stay_whole(data: bytes) -> None:
    assert nameless(data) == data


def test_no_executable() -> None:
    found = object_files(b"not an executable")
    assert isinstance(found, Unavailable)
    assert "CPU" in found.reason
