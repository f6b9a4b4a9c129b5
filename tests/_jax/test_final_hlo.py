"""The watched dump: taken once, whole, and nothing left behind."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from inspector._jax.final_hlo import FinalHlo, can_watch, split_hlo_proto, with_sorted_configurations

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

# An xla.HloProto by hand: field 1 (module) of 300 bytes, field 3 (buffer assignment) of 2.
MODULE = bytes(range(256)) + b"m" * 44
PROTO = b"\x0a\xac\x02" + MODULE + b"\x1a\x02ab"


class Debug:
    def __init__(self, xla_dump_to: str = "") -> None:
        self.xla_dump_to = xla_dump_to


def test_the_final_file_is_taken_once_it_is_closed_and_all_are_deleted(tmp_path: Path) -> None:
    taken: list[tuple[str, bytes]] = []
    arrived = threading.Event()

    def take(text: str, proto: bytes) -> None:
        taken.append((text, proto))
        arrived.set()

    directory = tmp_path / "deep" / "hlo"
    with FinalHlo(str(directory), take) as watched:
        assert watched.flags["xla_dump_to"] == str(directory)
        (directory / "module_0001.f.before_optimizations.hlo.pb").write_bytes(b"early")
        (directory / "module_0001.f.cpu_after_optimizations.txt").write_text("HloModule f")
        with (directory / "module_0001.f.cpu_after_optimizations.hlo.pb").open("wb") as file:
            file.write(PROTO[:5])
            file.flush()
            assert not arrived.wait(0.05)
            file.write(PROTO[5:])
        assert arrived.wait(5)
        (directory / "module_0002.g.cpu_after_optimizations.hlo.pb").write_bytes(b"another")
        (directory / "module_0001.f.ir.ll").write_bytes(b"code")
    assert taken == [("HloModule f", PROTO)]
    assert not directory.exists()


def test_what_was_written_just_before_the_end_is_taken(tmp_path: Path) -> None:
    for _ in range(50):
        taken: list[bytes] = []
        with FinalHlo(str(tmp_path / "hlo"), lambda _, proto, taken=taken: taken.append(proto)):
            (tmp_path / "hlo" / "x.cpu_after_optimizations.txt").write_text("HloModule x")
            (tmp_path / "hlo" / "x.cpu_after_optimizations.hlo.pb").write_bytes(b"last")
        assert taken == [b"last"]


def test_a_failure_to_read_is_no_failure_to_compile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with FinalHlo(str(tmp_path / "hlo"), lambda _, proto: split_hlo_proto(proto) and None):
        (tmp_path / "hlo" / "x.cpu_after_optimizations.txt").write_text("HloModule x")
        (tmp_path / "hlo" / "x.cpu_after_optimizations.hlo.pb").write_bytes(PROTO[:-1])
    assert "cut off" in caplog.text


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with FinalHlo(str(tmp_path / "hlo"), lambda *_: None):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_proto_is_split_into_its_parts() -> None:
    assert split_hlo_proto(PROTO) == (MODULE, b"ab")
    assert split_hlo_proto(PROTO[:-4]) == (MODULE, b"")
    with pytest.raises(ValueError, match="wire type 0"):
        split_hlo_proto(b"\x08\x01")


def test_configurations_are_sorted_and_nothing_else_is_touched() -> None:
    line = '  %f = f32[2]{0} fusion(%x), kind=kCustom, backend_config={"b":{"z":"1","a":[2,1]},"a":false}, metadata={op_name="g"}'
    other = '  %c = f32[] constant(1), backend_config="not JSON'
    text = f"HloModule m\n{line}\n{other}\n"
    wanted = line.replace('{"b":{"z":"1","a":[2,1]},"a":false}', '{"a":false,"b":{"a":[2,1],"z":"1"}}')
    assert with_sorted_configurations(text) == f"HloModule m\n{wanted}\n{other}\n"


def test_a_users_own_dump_is_left_alone() -> None:
    assert can_watch({}, Debug())
    assert can_watch({"xla_cpu_enable_fast_math": True, "xla_dump_max_hlo_modules": 3}, Debug())
    assert not can_watch({"xla_dump_to": "/tmp/mine"}, Debug())
    assert not can_watch({"xla_dump_hlo_pass_re": ".*"}, Debug())
    assert not can_watch({"xla_enable_dumping": False}, Debug())
    assert not can_watch({}, Debug("/tmp/by_XLA_FLAGS"))
