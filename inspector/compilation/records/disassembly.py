"""Machine code as text: x86-64 and AArch64 object files with capstone, cubins with NVIDIA's nvdisasm.

Both come as small wheels and nothing of the machine's own toolchain is used, so that the text does not
depend on what else is installed.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

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
    """The functions of a relocatable object file, with what their addresses refer to."""
    try:
        import capstone  # type: ignore[import-untyped]  # no stubs upstream
    except ImportError:
        return Unavailable("capstone, which disassembles, is not installed", install_command("capstone"))
    try:
        elf = ObjectFile(data)
    except ModuleError as e:
        return Unavailable(str(e))
    modes = {
        X86_64: (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        AARCH64: (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    if elf.machine not in modes:
        return Unavailable(f"code for ELF machine {elf.machine} is not disassembled, only x86-64 and AArch64")
    disassembler = capstone.Cs(*modes[elf.machine])
    disassembler.skipdata = True  # instructions newer than capstone stand as bytes
    return "\n".join(line for function in elf.functions() for line in _lines(disassembler, function))


def _lines(disassembler: object, function: Function) -> Iterator[str]:
    yield f"{function.name}:"
    for address, size, mnemonic, operands in disassembler.disasm_lite(function.code, function.address):  # type: ignore[attr-defined]
        line = f"  {address:6x}:  {mnemonic:<12} {operands}".rstrip()
        targets = [t for at, t in function.references.items() if address <= at < address + size]
        yield f"{line}  ; {', '.join(targets)}" if targets else line
    yield ""


def of_cubin(data: bytes, kernel: str) -> str | Unavailable:
    """The SASS of one kernel of a cubin."""
    kernels = _sass(data)
    if isinstance(kernels, Unavailable):
        return kernels
    return kernels.get(kernel, Unavailable(f"nvdisasm shows no kernel {kernel!r} in the cubin"))


@functools.lru_cache(maxsize=4)
def _sass(data: bytes) -> Mapping[str, str] | Unavailable:
    """SASS by kernel."""
    program = _nvdisasm()
    if program is None:
        return Unavailable(
            "nvdisasm, which disassembles GPU code, is not installed", install_command("nvidia-cuda-nvdisasm")
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(data)
        file.flush()
        try:
            # -c: code sections only.
            done = subprocess.run(
                [str(program), "-c", file.name],
                env=subprocesses.environ(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as e:
            said = getattr(e, "stderr", b"") or b""
            return Unavailable(f"nvdisasm failed: {e} {said.decode(errors='replace').strip()}".strip())
    return _by_kernel(done.stdout.decode("utf-8", "replace"))


def _by_kernel(text: str) -> dict[str, str]:
    """The text of nvdisasm cut at its sections: `.section .text.NAME,...` begins a kernel's."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(_RULE):  # before each section, and before the symbols at the end
            lines = []
        words = line.split()
        if words[:1] == [_SECTION]:
            name = words[1].partition(",")[0].strip('"')
            lines = found.setdefault(name.removeprefix(_TEXT), []) if name.startswith(_TEXT) else []
        lines.append(line.rstrip())
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


@functools.cache
def _nvdisasm() -> Path | None:
    for package in _NVDISASM_PACKAGES:
        for file in packages.files(package):
            if file.stem == "nvdisasm":
                return file
    return None
