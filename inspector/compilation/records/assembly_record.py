"""Files of XLA's dump, and an executable, -> `Assembly`."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inspector import platforms
from inspector.compilation.records.assembly import PROGRAM, Assembly, Code, Language
from inspector.compilation.records.dump_names import module_file
from inspector.compilation.records.elf import CUDA, MAGIC, ObjectFile
from inspector.compilation.records.riegeli import everything_in
from inspector.compilation.records.tpu_codes import TpuCodes
from inspector.compilation.records.tpu_names import tpu_file
from inspector.errors import ModuleError, Unavailable
from inspector.platforms import TPU
from inspector.platforms.platform import CodeFile

_LEVEL = 1


_CONSTANTS = "constants"
_NO_LLO = Unavailable(
    "libtpu writes its back-end's code only where it was told so when it was loaded, which this process did before",
    "Compile for the TPU as one that is not here, such as target='tpu:v5e:2x2'.",
)


class AssemblyRecorder:
    """Takes the files of one compile."""

    def __init__(self, platform: str) -> None:
        """For a platform, by name."""
        self._platform = platforms.named(platform)
        self._files: dict[str, tuple[CodeFile, bytes]] = {}
        self._tpu_codes = TpuCodes()

    @property
    def flags(self) -> Mapping[str, Any]:
        """What XLA shall dump."""
        return {"xla_dump_emitter_re": self._platform.emitters} if self._platform.emitters else {}

    def see(self, file: Path) -> None:
        """Takes a file if it is code."""
        for kind in self._platform.code:
            if file.name.endswith(kind.end) and kind.start in file.name:
                self._files[file.name] = (kind, file.read_bytes())
        found = tpu_file(file.name) if self._platform is TPU else None
        if found is not None:
            self._tpu_codes.take(found, file.read_bytes())

    def read(self, module: str, executable: bytes | Unavailable) -> bytes | Unavailable:
        """The code.

        Args:
          module: its name, as the dump has it.
          executable: the serialized executable, in which a GPU's machine code lies.
        """
        codes = self._tpu_codes.codes() or self._codes(module)
        note = ""
        if self._platform.machine_code:
            sass = _sass(executable, self._platform.machine_code)
            if isinstance(sass, Unavailable):
                note = f"No {self._platform.machine_code}: {sass.reason}."
            else:
                codes += sorted(sass, key=lambda code: code.kernel)
        if not codes:
            return _NO_LLO if self._platform is TPU else Unavailable(f"the compiler wrote no code of {module!r}")
        return Assembly(tuple(codes), note).to_bytes()

    def _codes(self, module: str) -> list[Code]:
        found = [(kind, module_file(name, module), data) for name, (kind, data) in self._files.items()]
        codes = [(kind, _code(kind, place[1], data)) for kind, place, data in found if place is not None]
        codes.sort(key=lambda entry: (self._platform.code.index(entry[0]), entry[1].kernel))
        return [code for _, code in codes]


def _code(kind: CodeFile, rest: str, data: bytes) -> Code:
    """Args: what the file is, its name behind that of the module, and what is in it."""
    symbols = _symbols(kind.language, data)
    name = rest.removeprefix(kind.start).removesuffix(kind.end).removesuffix(".")
    if kind.language in ("llvm", "ptx") and not symbols:  # no function: XLA numbers such a file at each stage anew
        name = _CONSTANTS
    kernel = PROGRAM if kind.language == "text" else symbols[0] if len(symbols) == 1 else name
    form = "elf" if kind.language == "asm" else "text"
    return Code(kind.stage, kernel, symbols, kind.language, form, zlib.compress(data, _LEVEL))  # type: ignore[arg-type]


def _symbols(language: Language, data: bytes) -> tuple[str, ...]:
    if language == "asm":
        try:
            return tuple(f.name for f in ObjectFile(data).functions() if f.is_global)
        except ModuleError:  # another format than ELF: its text will say so
            return ()
    find = {"llvm": _llvm_function, "ptx": _ptx_entry}.get(language)
    if find is None:
        return ()
    found = (find(line) for line in data.decode("utf-8", "replace").split("\n"))
    return tuple(dict.fromkeys(name for name in found if name))


def _llvm_function(line: str) -> str | None:
    """`define ptr @fusion(ptr %0) #0 {` -> `fusion`; None for what no other module can call."""
    if not line.startswith("define "):
        return None
    words, at, rest = line.partition("@")
    if not at or {"internal", "private"} & set(words.split()):
        return None
    return rest[1:].partition('"')[0] if rest.startswith('"') else rest.partition("(")[0]


def _ptx_entry(line: str) -> str | None:
    """`.visible .entry fusion(` -> `fusion`."""
    words = line.partition("(")[0].split()
    return words[-1] if ".entry" in words[:-1] else None


def _sass(executable: bytes | Unavailable, stage: str) -> list[Code] | Unavailable:
    """A GPU's machine code: the cubins that lie in an executable, by kernel."""
    if isinstance(executable, Unavailable):
        return Unavailable(f"there is no executable ({executable.reason})")
    try:
        cubins = [cubin for part in everything_in(executable) for cubin in _cubins(part)]
    except ModuleError as e:
        return Unavailable(str(e).removesuffix("."))
    codes: dict[str, Code] = {}
    for data, kernels in cubins:  # an executable has the kernel of a command buffer twice
        packed = zlib.compress(data, _LEVEL)
        codes |= {kernel: Code(stage, kernel, (kernel,), "sass", "cubin", packed) for kernel in kernels}
    return list(codes.values()) or Unavailable("the executable has no cubin")


def _cubins(data: bytes) -> Iterator[tuple[bytes, list[str]]]:
    """Each cubin in it, with its kernels."""
    position = data.find(MAGIC)
    while position >= 0:
        step = 1
        with contextlib.suppress(ModuleError):  # four bytes by chance
            cubin = ObjectFile(data[position:])
            if cubin.machine == CUDA:
                step = cubin.byte_size
                yield data[position : position + step], [f.name for f in cubin.functions() if f.is_global]
        position = data.find(MAGIC, position + step)
