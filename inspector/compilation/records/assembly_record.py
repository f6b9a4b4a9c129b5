"""Creates an `Assembly` from files of XLA's dump and from an executable."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspector import platforms
from inspector.compilation.records.assembly import PROGRAM, Assembly, Code, Language
from inspector.compilation.records.dump_names import module_file
from inspector.compilation.records.elf import ObjectFile, cubins
from inspector.compilation.records.riegeli import everything_in
from inspector.compilation.records.tpu_codes import TpuCodes
from inspector.compilation.records.tpu_names import tpu_file
from inspector.errors import ModuleError, Unavailable
from inspector.platforms import TPU
from inspector.platforms.platform import CodeFile

_LEVEL = 1


_CONSTANTS = "constants"
_NO_LLO = Unavailable(
    "libtpu writes its assembly code only if requested when it is loaded, and this process has already loaded it",
    "Compile ahead of time for a TPU target such as target='tpu:v5e:2x2'.",
)


class AssemblyRecorder:
    """Records the code files of one compile."""

    def __init__(self, platform: str) -> None:
        """Creates a recorder for a platform, by name."""
        self._platform = platforms.named(platform)
        self._files: dict[str, tuple[CodeFile, bytes]] = {}
        self._tpu_codes = TpuCodes()

    @property
    def flags(self) -> Mapping[str, Any]:
        """XLA's flags for the dump."""
        return {"xla_dump_emitter_re": self._platform.emitters} if self._platform.emitters else {}

    def see(self, file: Path) -> None:
        """Records a file if it contains code."""
        if self.reads(file.name):
            self.take(file.name, file.read_bytes())

    def reads(self, name: str) -> bool:
        """Reports whether a file contains code, by its name."""
        return self._kind(name) is not None or (self._platform is TPU and tpu_file(name) is not None)

    def take(self, name: str, data: bytes) -> None:
        """Records the contents of a file that `reads` accepts."""
        kind = self._kind(name)
        if kind is not None:
            self._files[name] = (kind, data)
        parts = tpu_file(name) if self._platform is TPU else None
        if parts is not None:
            self._tpu_codes.take(parts, data)

    def _kind(self, name: str) -> CodeFile | None:
        kinds = (kind for kind in self._platform.code if name.endswith(kind.end) and kind.start in name)
        return next(kinds, None)

    def read(self, module: str, executable: bytes | Unavailable) -> bytes | Unavailable:
        """Returns the recorded code, encoded; arguments as for `assembly`."""
        known = self.assembly(module, executable)
        return known if isinstance(known, Unavailable) else known.to_bytes()

    def assembly(self, module: str, executable: bytes | Unavailable) -> Assembly | Unavailable:
        """Returns the recorded code.

        Args:
          module: name of the module in the dump.
          executable: the serialized executable, which contains the machine code of a GPU.
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
        return Assembly(tuple(codes), note)

    def _codes(self, module: str) -> list[Code]:
        files = [(kind, module_file(name, module), data) for name, (kind, data) in self._files.items()]
        codes = [(kind, _code(kind, place[1], data)) for kind, place, data in files if place is not None]
        codes.sort(key=lambda entry: (self._platform.code.index(entry[0]), entry[1].kernel))
        return [code for _, code in codes]


def _code(kind: CodeFile, rest: str, data: bytes) -> Code:
    """Creates a `Code` from a kind of file, the part of the file's name after the module's name, and the file's contents."""
    symbols = _symbols(kind.language, data)
    name = rest.removeprefix(kind.start).removesuffix(kind.end).removesuffix(".")
    if (
        kind.language in ("llvm", "ptx") and not symbols
    ):  # without a function, XLA's numbers for the file differ between stages
        name = _CONSTANTS
    kernel = PROGRAM if kind.language == "text" else symbols[0] if len(symbols) == 1 else name
    form = "elf" if kind.language == "asm" else "text"
    return Code(kind.stage, kernel, symbols, kind.language, form, zlib.compress(data, _LEVEL))  # type: ignore[arg-type]


def _symbols(language: Language, data: bytes) -> tuple[str, ...]:
    if language == "asm":
        try:
            return tuple(f.name for f in ObjectFile(data).functions() if f.is_global)
        except ModuleError:  # not ELF: the disassembly reports it
            return ()
    find = {"llvm": _llvm_function, "ptx": _ptx_entry}.get(language)
    if find is None:
        return ()
    matches = (find(line) for line in data.decode("utf-8", "replace").split("\n"))
    return tuple(dict.fromkeys(name for name in matches if name))


def _llvm_function(line: str) -> str | None:
    """`define ptr @fusion(ptr %0) #0 {` -> `fusion`; None for functions that other modules cannot call."""
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
    """Returns a GPU's machine code: the cubins in an executable, by kernel."""
    if isinstance(executable, Unavailable):
        return Unavailable(f"there is no executable ({executable.reason})")
    try:
        found = [each for part in everything_in(executable) for each in cubins(part)]
    except ModuleError as e:
        return Unavailable(str(e).removesuffix("."))
    codes: dict[str, Code] = {}
    for data, cubin in found:  # an executable contains the kernel of a command buffer twice
        packed = zlib.compress(data, _LEVEL)
        kernels = [function.name for function in cubin.functions() if function.is_global]
        codes |= {kernel: Code(stage, kernel, (kernel,), "sass", "cubin", packed) for kernel in kernels}
    return list(codes.values()) or Unavailable("the executable has no cubin")
