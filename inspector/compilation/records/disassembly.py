"""Disassembles machine code: x86-64 and AArch64 object files with capstone, cubins with NVIDIA's nvdisasm.

Both come as small wheels. This module does not use the machine's own toolchain, so the text does not
depend on other installed software.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inspector.compilation.records.elf import AARCH64, X86_64, Function, ObjectFile
from inspector.errors import ModuleError, Unavailable
from inspector.support import packages, subprocesses
from inspector.support.install_commands import install_command

_NVDISASM_PACKAGES = ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu12")
_LIMIT_S = 120.0
_SECTION = ".section"
_RULE = "//------"
_TEXT = ".text."


def of_object(data: bytes) -> str | Unavailable:
    """Disassembles the functions of a relocatable object file, with the targets of their references."""
    opened = _opened(data)
    if isinstance(opened, Unavailable):
        return opened
    disassembler, functions = opened
    return "\n".join(line for function in functions for line in _lines(disassembler, function))


def instruction_count(data: bytes) -> int | Unavailable:
    """Counts the machine instructions in the functions of a relocatable object file."""
    opened = _opened(data)
    if isinstance(opened, Unavailable):
        return opened
    disassembler, functions = opened
    return sum(1 for function in functions for _ in disassembler.disasm_lite(function.code, function.address))


def _opened(data: bytes) -> tuple[Any, list[Function]] | Unavailable:
    """Returns a disassembler for an object file, and the file's functions."""
    try:
        import capstone  # type: ignore[import-untyped]  # no stubs upstream
    except ImportError:
        return Unavailable("disassembling needs capstone, which is not installed", install_command("capstone"))
    try:
        elf = ObjectFile(data)
    except ModuleError as e:
        return Unavailable(str(e))
    modes = {
        X86_64: (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        AARCH64: (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    if elf.machine not in modes:
        return Unavailable(f"code for ELF machine {elf.machine} cannot be disassembled, only x86-64 and AArch64")
    disassembler = capstone.Cs(*modes[elf.machine])
    disassembler.skipdata = True  # shows instructions newer than capstone as bytes
    return disassembler, elf.functions()


def _lines(disassembler: Any, function: Function) -> Iterator[str]:
    yield f"{function.name}:"
    for address, size, mnemonic, operands in disassembler.disasm_lite(function.code, function.address):
        line = f"  {address:6x}:  {mnemonic:<12} {operands}".rstrip()
        targets = [t for at, t in function.references.items() if address <= at < address + size]
        yield f"{line}  ; {', '.join(targets)}" if targets else line
    yield ""


def of_cubin(data: bytes, kernel: str) -> str | Unavailable:
    """Disassembles one kernel of a cubin to SASS."""
    kernels = _sass(data)
    if isinstance(kernels, Unavailable):
        return kernels
    return kernels.get(kernel, Unavailable(f"nvdisasm shows no kernel {kernel!r} in the cubin"))


@functools.lru_cache(maxsize=4)
def _sass(data: bytes) -> Mapping[str, str] | Unavailable:
    """Returns the SASS by kernel."""
    program = _nvdisasm()
    if program is None:
        return Unavailable(
            "disassembling GPU code needs nvdisasm, which is not installed", install_command("nvidia-cuda-nvdisasm")
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(data)
        file.flush()
        try:
            # -c: code sections only. -g: source lines, where the compiler wrote them.
            done = subprocess.run(
                [str(program), "-c", "-g", file.name],
                env=subprocesses.environ(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as e:
            output = getattr(e, "stderr", b"") or b""
            return Unavailable(f"nvdisasm failed: {e} {output.decode(errors='replace').strip()}".strip())
    return _by_kernel(done.stdout.decode("utf-8", "replace"))


def _by_kernel(text: str) -> dict[str, str]:
    """Splits the text of nvdisasm at its sections: `.section .text.NAME,...` begins a kernel."""
    by_kernel: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(_RULE):  # before each section, and before the symbols at the end
            lines = []
        words = line.split()
        if words[:1] == [_SECTION]:
            name = words[1].partition(",")[0].strip('"')
            lines = by_kernel.setdefault(name.removeprefix(_TEXT), []) if name.startswith(_TEXT) else []
        lines.append(line.rstrip())
    return {name: "\n".join(lines).strip("\n") for name, lines in by_kernel.items()}


@functools.cache
def _nvdisasm() -> Path | None:
    for package in _NVDISASM_PACKAGES:
        for file in packages.files(package):
            if file.stem == "nvdisasm":
                return file
    return None
