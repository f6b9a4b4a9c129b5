"""XLA's final HLO out of a dump: taken once, whole, and not where the user dumps himself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inspector._jax.compiling.final_hlo import (
    FinalHlo,
    can_watch,
    dumps_elsewhere,
    split_hlo_proto,
    with_sorted_configurations,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")

# An xla.HloProto by hand: field 1 (module) of 300 bytes, field 3 (buffer assignment) of 2.
MODULE = bytes(range(256)) + b"m" * 44
PROTO = b"\x0a\xac\x02" + MODULE + b"\x1a\x02ab"


class Debug:
    def __init__(self, xla_dump_to: str = "") -> None:
        self.xla_dump_to = xla_dump_to


def write(directory: Path, **contents: bytes) -> list[Path]:
    files = []
    for name, data in contents.items():
        files.append(directory / name.replace("__", "."))
        files[-1].write_bytes(data)
    return files


def test_both_files_are_taken_together_and_once_in_whichever_order(tmp_path: Path) -> None:
    files = write(
        tmp_path,
        f__before_optimizations__txt=b"HloModule early",
        f__cpu_after_optimizations__hlo__pb=PROTO,
        f__ir__ll=b"code",
        f__cpu_after_optimizations__txt=b"HloModule f, rest\n\nENTRY {\n}\n",
        g__cpu_after_optimizations__hlo__pb=b"another",
    )
    for order in (files, files[::-1]):
        taken: list[tuple[str, bytes]] = []
        final = FinalHlo(lambda text, proto, taken=taken: taken.append((text, proto)))
        for file in order:
            final.see(file)
        assert taken == [("HloModule f, rest\n\nENTRY {\n}\n", PROTO if order is files else b"another")]


def test_a_text_that_is_cut_off_is_not_taken(tmp_path: Path) -> None:
    final = FinalHlo(lambda *_: pytest.fail("taken"))
    cut_off = b"HloModule f\n\nENTRY %e () -> f32[] {\n  ROOT %c = f"
    for file in write(tmp_path, f__cpu_after_optimizations__hlo__pb=PROTO, f__cpu_after_optimizations__txt=cut_off):
        final.see(file)


def test_one_of_the_two_is_not_enough(tmp_path: Path) -> None:
    final = FinalHlo(lambda *_: pytest.fail("taken"))
    for file in write(tmp_path, f__cpu_after_optimizations__hlo__pb=PROTO, f__ir__ll=b"code"):
        final.see(file)


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
    assert dumps_elsewhere({"xla_dump_max_hlo_modules": 3}, Debug()) == ""
    assert dumps_elsewhere({"xla_dump_hlo_as_text": True}, Debug("/a")) == "xla_dump_hlo_as_text=True, xla_dump_to=/a"
