"""Code out of the files of a dump, and out of an executable, each put together by hand."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from inspector.compilation.records.assembly import PROGRAM, Assembly, Code
from inspector.compilation.records.assembly_record import AssemblyRecorder
from inspector.compilation.records.elf import CUDA, MAGIC
from inspector.errors import Unavailable
from tests.compilation.records.test_elf import elf

NO_EXECUTABLE = Unavailable("it is not here")
LLVM = """; ModuleID = 'm'
define ptr @fusion(ptr %0) #0 {
define internal void @helper(ptr %0) {
define private void @own(ptr %0) {
define void @"a name"(ptr %0) {
define void @fusion(ptr %0) {
declare void @other(ptr)
  call void @fusion(ptr %0)
"""
PTX = ".version 8.0\n.visible .entry loop_add(\n  .param .u64 x\n.entry second (\n.func helper(\n// .entry\n"


def read(
    platform: str, files: dict[str, bytes], folder: Path, executable: bytes | Unavailable = NO_EXECUTABLE
) -> Assembly | Unavailable:
    recorder = AssemblyRecorder(platform)
    for name, data in files.items():
        (folder / name).write_bytes(data)
        recorder.see(folder / name)
    found = recorder.read("jit_f", executable)
    return found if isinstance(found, Unavailable) else Assembly.from_bytes(found)


def told(found: Assembly | Unavailable) -> list[tuple[str, str, tuple[str, ...], str, str]]:
    assert isinstance(found, Assembly)
    return [(c.stage, c.kernel, c.symbols, c.language, c.form) for c in found]


def test_files_of_the_cpu_by_stage_and_kernel(tmp_path: Path) -> None:
    found = read("cpu", {
        "module_0001.jit_f.cpu.obj-file.b.o": elf(), "module_0001.jit_f.a.ir-with-opt.ll": LLVM.encode(),
        "module_0001.jit_f.ir-no-opt.ll": b"define void @one() {\n", "module_0001.jit_f.c.ir-no-opt.ll": b"; nothing\n",
        "module_0001.other.ir-no-opt.ll": b"define void @two() {\n", "notes.txt": b"", "module_0001.jit_f.before.txt": b"",
    }, tmp_path)  # fmt: skip
    assert told(found) == [
        ("LLVM IR", "constants", (), "llvm", "text"), ("LLVM IR", "one", ("one",), "llvm", "text"),
        ("LLVM IR, optimized", "a", ("fusion", "a name"), "llvm", "text"), ("assembly", "kernel", ("kernel",), "asm", "elf"),
    ]  # fmt: skip
    assert isinstance(found, Assembly)
    assert found[2].text == LLVM
    assert found.note == ""
    assert found.stages == ("LLVM IR", "LLVM IR, optimized", "assembly")


def cubin(name: bytes = b"kernel") -> bytes:
    data = elf().replace(b"\0kernel\0", b"\0" + name.ljust(6, b"_") + b"\0")
    return data[:18] + struct.pack("<H", CUDA) + data[20:]


def test_files_of_a_gpu_and_the_cubins_in_its_executable(tmp_path: Path) -> None:
    files = {"module_0007.jit_f.ptx": PTX.encode(), "module_0007.jit_f.thunk_sequence.txt": b"000: kKernel\n"}
    first, second = cubin(), cubin(b"other")
    # Four bytes by chance, an object file of another machine, and a kernel that stands there twice.
    executable = b"xx" + MAGIC + b"\0\1" + elf() + first + b"between" + second + first
    found = read("gpu", files, tmp_path, executable)
    assert told(found) == [
        ("thunks", PROGRAM, (), "text", "text"), ("PTX", "ptx", ("loop_add", "second"), "ptx", "text"),
        ("SASS", "kernel", ("kernel",), "sass", "cubin"), ("SASS", "other_", ("other_",), "sass", "cubin"),
    ]  # fmt: skip
    assert isinstance(found, Assembly)
    assert [zlib.decompress(code.compressed) for code in found[2:]] == [first, second]
    assert found.note == ""


@pytest.mark.parametrize(("executable", "note"), [
    (NO_EXECUTABLE, "No SASS: there is no executable (it is not here)."), (b"", "No SASS: the executable has no cubin."),
    (elf(), "No SASS: the executable has no cubin."), (b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f" * 9, "No SASS: "),
])  # fmt: skip
def test_missing_cubins_are_reported_with_the_reason(
    tmp_path: Path, executable: bytes | Unavailable, note: str
) -> None:
    found = read("gpu", {"module_0007.jit_f.ptx": PTX.encode()}, tmp_path, executable)
    assert isinstance(found, Assembly)
    assert found.note.startswith(note)
    assert [code.stage for code in found] == ["PTX"]


def test_missing_code_is_reported_with_the_reason(tmp_path: Path) -> None:
    for platform, said in (
        ("cpu", "the compiler wrote no code of 'jit_f'"),
        ("tpu", "libtpu writes its assembly code only"),
    ):
        found = read(platform, {"module_0001.jit_g.ir-no-opt.ll": LLVM.encode()}, tmp_path)
        assert isinstance(found, Unavailable)
        assert found.reason.startswith(said)


def test_a_file_of_another_format_than_elf_has_no_symbols(tmp_path: Path) -> None:
    assert told(read("cpu", {"module_0001.jit_f.obj-file.b.o": b"\xcf\xfa\xed\xfe"}, tmp_path)) == [
        ("assembly", "b", (), "asm", "elf")
    ]


def test_dump_flags_by_platform() -> None:
    assert {name: dict(AssemblyRecorder(name).flags) for name in ("cpu", "gpu", "tpu")} == {
        "cpu": {"xla_dump_emitter_re": "^llvm$"}, "gpu": {"xla_dump_emitter_re": "^(llvm|ptx)$"}, "tpu": {},
    }  # fmt: skip


def test_entries_and_bytes() -> None:
    one, two = (Code("SASS", name, (name,), "sass", "cubin", b"abc") for name in "ab")
    other = Code("PTX", "c", (), "ptx", "text", b"de")
    found = Assembly((one, two, other))
    assert (len(found), found[1], found[1:], list(found)) == (3, two, (two, other), [one, two, other])
    assert found.byte_size == 5  # kernels of one cubin share it
