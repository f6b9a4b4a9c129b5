"""The descriptor scan and its cache. The independent oracle is the library's own serialized options."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from inspector._jax.libraries import descriptors
from inspector._jax.libraries.library import installed_library
from inspector.errors import MissingPackageError, ModuleError
from inspector.toolchain.schema import Schema


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "inspector"


def test_real_messages_of_this_jaxlib_decode_and_encode_unchanged() -> None:
    from jaxlib import _jax

    data = _jax.CompileOptions().SerializeAsString()
    schema = Schema(descriptors.installed_descriptors(), "test")
    options = schema.message("xla.CompileOptionsProto").FromString(data)
    # Unknown fields would survive silently: dropping them must lose nothing.
    options.DiscardUnknownFields()
    assert options.ByteSize() == len(data) > 500


def test_dependencies_come_first(cache: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.installed_descriptors()).file
    seen: set[str] = set()
    for file in files:
        assert set(file.dependency) <= seen, file.name
        seen.add(file.name)
    assert {"xla/service/hlo.proto", "xla/xla.proto", "xla/pjrt/proto/compile_options.proto"} <= seen
    assert len(seen) > 100


def test_second_call_reads_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = descriptors.installed_descriptors()
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(descriptors, "scan", lambda library: pytest.fail("scanned although cached"))
    assert descriptors.installed_descriptors() == first


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="sections of ELF files")
def test_only_the_section_of_descriptors_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    library = installed_library()
    looked_at: list[int] = []
    by_name = descriptors._by_name

    def watched(data: Any) -> Any:
        looked_at.append(len(data))
        return by_name(data)

    monkeypatch.setattr(descriptors, "_by_name", watched)
    found = descriptors.file_descriptors(library)
    (length,) = looked_at
    assert length < 1 << 20 < library.stat().st_size
    monkeypatch.setattr(descriptors, "_section", lambda data: b"")
    kept = {
        name: file
        for name, file in descriptors.file_descriptors(library).items()
        if name.startswith(descriptors._KEPT_FOLDERS)
    }
    assert len(kept) > 90
    assert {name: found.get(name) for name in kept} == kept


def test_a_cache_that_others_could_have_written_is_replaced(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = descriptors.installed_descriptors()
    (file,) = cache.iterdir()
    foreign = b"foreign"
    file.write_bytes(hashlib.sha256(foreign).digest() + foreign)
    assert descriptors.installed_descriptors() == foreign, "whole, and this user's own"
    file.chmod(0o666)
    assert descriptors.installed_descriptors() == whole
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_damaged_cache_is_rebuilt(cache: Path, damage: bytes | None) -> None:
    whole = descriptors.installed_descriptors()
    (file,) = cache.iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage is None else damage)
    assert descriptors.installed_descriptors() == whole
    assert file.read_bytes() == data


def test_a_cache_folder_that_cannot_be_made_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocker))
    assert descriptors.installed_descriptors()


def test_library_without_hlo(tmp_path: Path) -> None:
    library = tmp_path / "libother.so"
    library.write_bytes(b"\x7fELF" + bytes(1000))
    with pytest.raises(ModuleError, match=r"No HLO protobuf descriptors in .*libother\.so: expected xla/service/hlo"):
        descriptors.scan(library)


def test_no_jaxlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingPackageError, match=r"jaxlib is not installed .* Install it with: .*\bpip3?\b.* install .*jax"
    ):
        descriptors.installed_descriptors()


def test_descriptor_ends_where_the_next_begins(tmp_path: Path) -> None:
    """Two descriptors side by side, as linkers lay them out, then bytes that look like a field."""

    def file(name: str) -> descriptor_pb2.FileDescriptorProto:
        proto = descriptor_pb2.FileDescriptorProto(name=name, package="xla", syntax="proto3")
        proto.message_type.add(name="Message")
        return proto

    files = [file("xla/service/hlo.proto"), file("xla/other.proto")]
    library = tmp_path / "lib.so"
    library.write_bytes(b"\0" * 9 + b"".join(f.SerializeToString() for f in files) + b"\x12\x03abc\0\0")
    found = descriptor_pb2.FileDescriptorSet.FromString(descriptors.scan(library))
    assert sorted(f.name for f in found.file) == ["xla/other.proto", "xla/service/hlo.proto"]
    assert {f.package for f in found.file} == {"xla"}
