"""`DumpedFlags`: the debug options in a dump, as far as the installed compilers know them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from inspector.compilation.options.options import Options
from inspector.compilation.options.options_text import read_flag
from inspector.errors import OptionError, ParameterError
from inspector.support.notebook import described, with_hint
from inspector.support.units import counted
from inspector.toolchain.flags import flag_names

_LINE = re.compile(r'(xla_\w+): *("(?:[^"\\]|\\.)*"|[^\s{"]+)\s*')
_OF_FILES = ("xla_dump_", "xla_gpu_cuda_data_dir", "xla_gpu_dump_")
_MAX_SHOWN = 200


@dataclasses.dataclass(frozen=True, slots=True)
class DumpedFlags:
    """The flags that XLA compiled a module with, where they differ from the defaults of its version.

    Attributes:
      options: the flags that the installed compilers have.
      unknown: the other flags with their text, such as those of another version of XLA.
    """

    options: Options
    unknown: Mapping[str, str]

    @property
    def for_compiling(self) -> Options:
        """The options without those that name files and folders."""
        kept = {name: value for name, value in self.options.flags.items() if not name.startswith(_OF_FILES)}
        return Options(flags=kept)

    def __repr__(self) -> str:
        unknown = f", {counted(len(self.unknown), 'unknown flag')}" if self.unknown else ""
        return with_hint(f"<DumpedFlags: {counted(len(self.options.flags), 'flag')}{unknown}>", ".options, .unknown")

    def _repr_html_(self) -> str:
        known = {name: str(value) for name, value in self.options.flags.items()}
        unknown = {f"{name} (unknown)": text[:_MAX_SHOWN] for name, text in self.unknown.items()}
        return described(repr(self), {**known, **unknown})


def read_debug_options(text: str) -> DumpedFlags:
    """Reads `xla.DebugOptions` as text. Nested messages and damaged lines are unknown flags."""
    flags: dict[str, object] = {}
    unknown: dict[str, str] = {}
    known = frozenset(flag_names())  # an error for each unknown flag would search for similar names
    depth = 0
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        if depth or match is None:
            name = line.partition(":")[0].partition("{")[0].strip()
            if not depth and name:
                unknown[name[:_MAX_SHOWN]] = line.strip()[:_MAX_SHOWN]
            depth = max(0, depth + line.count("{") - line.count("}"))
            continue
        name, value = match[1], match[2]
        if value.startswith('"'):
            value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        if name not in known:
            unknown[name] = value
            continue
        try:
            flags[name] = read_flag(name, value, flags.get(name))  # type: ignore[arg-type]
        except (OptionError, ParameterError, ValueError):
            unknown[name] = value
    return DumpedFlags(Options(flags=flags), unknown)  # type: ignore[arg-type]
