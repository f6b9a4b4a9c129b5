"""Size and resources of kernels, from machine code put together by hand and by the compilers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest

from inspector.compilation.records.assembly import Assembly, Code
from inspector.compilation.records.elf import CUDA, MAGIC
from inspector.compilation.records.kernel_facts import facts_of_bundles, facts_of_cubin, facts_of_object
from inspector.errors import Unavailable
from tests.compilation.records.test_elf import elf

NOP = struct.pack("<Q", 0x7918) + b"\0" * 8
ADD = struct.pack("<Q", 0x7221) + b"\0" * 8


def record(number: int, *words: int) -> bytes:
    return struct.pack("<BBH", 4, number, 4 * len(words)) + struct.pack(f"<{len(words)}I", *words)


def cubin(stack: int = 0, shared: int = 0, *, is_reserved: bool = False, own: bytes = b"") -> bytes:
    """A cubin with the kernel `k`, symbol 1, as ptxas lays it out."""
    of_all = record(0x2F, 1, 24) + record(0x2F, 2, 99) + record(0x11, 1, stack) + record(0x11, 2, 8)
    sections: Sequence[tuple[bytes, int, bytes, int]] = [
        (b"", 0, b"", 0),
        (b".text.k", 1, NOP + ADD + ADD + NOP + NOP, 5 * 16),
        (b".symtab", 2, struct.pack("<24xIBBHQQIBBHQQ", 1, 0x12, 0, 1, 0, 80, 3, 0x12, 0, 1, 0, 16), 72),
        (b".strtab", 3, b"\0k\0other\0", 9),
        (b".nv.info", 0x70000000, of_all, len(of_all)),
        (b".nv.info.k", 0x70000000, own, len(own)),
        (b".nv.shared.k" if shared else b".none", 8, b"", shared),
        (b".nv.shared.reserved.0" if is_reserved else b".none", 8, b"", 0),
    ]
    names = b"".join(name + b"\0" for name, *_ in sections) + b".shstrtab\0"
    body = b""
    headers = b""
    for name, kind, data, size in [*sections, (b".shstrtab", 3, names, len(names))]:
        at = names.index(name + b"\0")
        headers += struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(body), size, 3, 0, 1, 0)
        body += data
    head = MAGIC + b"\2\1\1" + b"\0" * 9 + struct.pack(
        "<HHIQQQIHHHHHH", 2, CUDA, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(sections) + 1, len(sections)
    )  # fmt: skip
    return head + body + headers


def test_a_cubin_records_the_resources_of_each_kernel() -> None:
    own = struct.pack("<BBH", 3, 0x1B, 255) + record(0x10, 64, 2, 1)  # a record without bytes, and the required threads
    facts = facts_of_cubin(cubin(own=own), "k")
    assert (facts.machine_instructions, facts.code_bytes) == (3, 80)  # the padding at the end is no instruction
    assert (facts.registers, facts.stack_bytes, facts.spill_bytes, facts.threads) == (24, 0, 0, 128)


@pytest.mark.parametrize(("shared", "is_reserved", "bytes_"), [
    (0, False, 0), (0, True, 0), (100, False, 100), (1124, True, 100), (1024, True, 0),
])  # fmt: skip
def test_shared_memory_without_the_bytes_reserved_by_the_driver(shared: int, is_reserved: bool, bytes_: int) -> None:
    assert facts_of_cubin(cubin(shared=shared, is_reserved=is_reserved), "k").shared_bytes == bytes_


def test_unknown_resources_have_a_reason() -> None:
    facts = facts_of_cubin(cubin(stack=224), "k")
    assert facts.stack_bytes == 224
    assert isinstance(facts.spill_bytes, Unavailable)
    assert facts.spill_bytes.reason.startswith("the cubin records a stack frame of 224 bytes, not how much")
    assert facts.threads == Unavailable("the code does not require a number of threads")
    assert facts_of_cubin(cubin(), "no").registers == Unavailable("the machine code has no kernel 'no'")
    assert isinstance(facts_of_cubin(b"\x7fELF", "k").code_bytes, Unavailable)
    damaged = cubin().replace(record(0x2F, 1, 24), record(0x2F, 1, 24)[:2] + b"\xff\xff" + record(0x2F, 1, 24)[4:])
    assert isinstance(facts_of_cubin(damaged, "k").registers, Unavailable)


def test_an_object_file_has_a_size_and_instructions_only() -> None:
    facts = facts_of_object(elf())
    assert facts.code_bytes == 32
    assert isinstance(facts.machine_instructions, int)
    assert facts.registers == Unavailable("only machine code of NVIDIA GPUs records it")
    assert isinstance(facts_of_object(b"no ELF").code_bytes, Unavailable)


def test_bundles_are_counted() -> None:
    text = "= control target key start\nLH: loop header\n\n     0   :  { %s0 = sld [smem:[#a0]] } /* Start */\n"
    text += "   0x1 LB: > { %s1 = sand.u32 1, %s0  ;;  %s2 = smov 2 }\n   0x2   : > > {}\n  0x10 PF:  {}\nnot { one }\n"
    assert facts_of_bundles(text).machine_instructions == 4


def test_a_table_of_all_kernels() -> None:
    code = (
        Code("PTX", "k", ("k",), "ptx", "text", zlib.compress(b".entry k(")),
        Code("PTX", "l", ("l",), "ptx", "text", zlib.compress(b".entry l(")),
        Code("SASS", "k", ("k",), "sass", "cubin", zlib.compress(cubin(stack=16))),
    )
    assembly = Assembly(code)
    table = assembly.kernel_table().set_index("kernel")
    assert table.loc["k", "registers"] == 24
    assert table.loc["k", "unknown"].startswith("spill_bytes: the cubin records a stack frame of 16 bytes")
    assert table["code_bytes"].isna().tolist() == [False, True]
    assert "the machine code of this kernel was not recorded" in table.loc["l", "unknown"]
    with pytest.raises(KeyError, match="no kernel 'm'; kernels \\('k', 'l'\\)"):
        assembly.kernel_facts("m")
