"""`Memory`: the bytes that one execution of a program uses in each memory space, with their source.

XLA's buffer assignment places every value of a program in a memory space, so its sums have the same meaning on every
platform. Compilers also report their own totals (`CompiledMemoryStats`), which differ between platforms.
`Compiled.timeline` shows the use of memory over time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from inspector import platforms
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.hlo.allocation_totals import SpaceBytes
from inspector.support.notebook import described, with_hint
from inspector.support.tables import UNKNOWN, Kind, make_table
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

HOST = "host"
ASSIGNMENT = "XLA's buffer assignment"
STATISTICS = "the compiler's own statistics (CompiledMemoryStats), since no buffer assignment was recorded"

_NO_CONSTANTS = Unavailable(
    "the compiler's own statistics do not include constants", 'compile with products=("buffers",)'
)
_MISSING_CONSTANTS = Missing("constants", "figure of constants", "not reported")


def space_name(platform: str, number: int) -> str:
    """Returns the name of one of XLA's memory spaces; `space 6` if its name is unknown."""
    return platforms.named(platform).spaces.get(number, f"space {number}")


@dataclasses.dataclass(frozen=True, slots=True)
class MemorySpace:
    """The use of one memory space, in bytes of one device.

    Attributes:
      argument_bytes, output_bytes: parameters and results.
      alias_bytes: outputs that reuse a donated argument; included in both of the above.
      constant_bytes: constants of the program.
      temp_bytes: the heaps of temporaries including all gaps, at their peaks.
      thread_local_bytes: values of called computations, such as reducers, in registers or on a
        stack; in no other number.
    """

    argument_bytes: int = 0
    output_bytes: int = 0
    alias_bytes: int = 0
    constant_bytes: int | Unavailable = 0
    temp_bytes: int = 0
    thread_local_bytes: int | Unavailable = 0

    @property
    def allocated_bytes(self) -> float:
        """All bytes allocated for one execution, counted once; `AtLeast` if a part is unknown."""
        known = self.argument_bytes + self.output_bytes - self.alias_bytes + self.temp_bytes
        if isinstance(self.constant_bytes, Unavailable):
            return AtLeast(known, [_MISSING_CONSTANTS])
        return known + self.constant_bytes


_NOTHING = MemorySpace()


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one device for one execution. The plain attributes are those of its main memory, `main`.

    Attributes:
      main: name of the main memory: "RAM" of a CPU, "HBM" of an accelerator.
      spaces: every memory space that the program uses, by name, including a TPU's fast memories.
      source: source of the numbers: `ASSIGNMENT`, or `STATISTICS` if the assignment was not recorded.
      reported: the compiler's own report, under XLA's names (`peak_memory_in_bytes` ...). These numbers differ
        between platforms: a CPU's peak excludes temporaries, libtpu includes other memories.
      generated_code_bytes: machine code, 0 if it is in host memory; unknown in a `Preview`, and if the compiler
        does not report it, as on the CPU.
      host_generated_code_bytes: machine code in host memory.
    """

    main: str
    spaces: Mapping[str, MemorySpace]
    source: str
    reported: Mapping[str, int] | Unavailable
    generated_code_bytes: int | Unavailable
    host_generated_code_bytes: int | Unavailable

    def __post_init__(self) -> None:
        if self.main not in self.spaces:
            raise ValueError(
                f"the main memory {self.main!r} is not among the spaces: {', '.join(self.spaces) or 'none'}"
            )

    @classmethod
    def assigned(
        cls, platform: str, spaces: Mapping[int, SpaceBytes], reported: Mapping[str, int] | Unavailable
    ) -> Memory:
        """Creates a `Memory` from the sums of a buffer assignment, by XLA's number of the space."""
        named = {space_name(platform, number): MemorySpace(**sums) for number, sums in sorted(spaces.items())}
        main = space_name(platform, 0)
        return cls(main, {main: named.pop(main, _NOTHING), **named}, ASSIGNMENT, reported, *_code(reported))

    @classmethod
    def told(cls, platform: str, reported: Mapping[str, int]) -> Memory:
        """Creates a `Memory` from the compiler's own statistics, if there is no buffer assignment."""
        main = space_name(platform, 0)
        spaces = {main: _space(reported, "")}
        if HOST in platforms.named(platform).spaces.values() and (host := _space(reported, "host_")) != _space({}, ""):
            spaces[HOST] = host
        return cls(main, spaces, STATISTICS, reported, *_code(reported))

    @property
    def argument_bytes(self) -> int:
        """Parameters in the main memory."""
        return self.spaces[self.main].argument_bytes

    @property
    def output_bytes(self) -> int:
        """Results in the main memory."""
        return self.spaces[self.main].output_bytes

    @property
    def alias_bytes(self) -> int:
        """Outputs that reuse a donated argument; included in both of the above."""
        return self.spaces[self.main].alias_bytes

    @property
    def constant_bytes(self) -> int | Unavailable:
        """Constants in the main memory."""
        return self.spaces[self.main].constant_bytes

    @property
    def temp_bytes(self) -> int:
        """The heap of temporaries in the main memory."""
        return self.spaces[self.main].temp_bytes

    @property
    def peak_bytes(self) -> float:
        """The main memory that one execution uses: arguments + outputs - aliases + constants + temporaries."""
        return self.spaces[self.main].allocated_bytes

    @property
    def host_argument_bytes(self) -> int:
        """As `argument_bytes`, in host memory, for a device with separate memory."""
        return self._host.argument_bytes

    @property
    def host_output_bytes(self) -> int:
        """As `output_bytes`, in host memory."""
        return self._host.output_bytes

    @property
    def host_alias_bytes(self) -> int:
        """As `alias_bytes`, in host memory."""
        return self._host.alias_bytes

    @property
    def host_constant_bytes(self) -> int | Unavailable:
        """As `constant_bytes`, in host memory."""
        return self._host.constant_bytes

    @property
    def host_temp_bytes(self) -> int:
        """As `temp_bytes`, in host memory."""
        return self._host.temp_bytes

    @property
    def host_peak_bytes(self) -> float:
        """As `peak_bytes`, in host memory."""
        return self._host.allocated_bytes

    @property
    def _host(self) -> MemorySpace:
        return self.spaces.get(HOST, _NOTHING)

    def table(self) -> pd.DataFrame:
        """Returns one row per memory space: `space`, the attributes of `MemorySpace`, `allocated_bytes` and `source`."""
        rows = [(name, *cells(space), self.source) for name, space in self.spaces.items()]
        return make_table({"space": "text", **SPACE_COLUMNS, "source": "text", UNKNOWN: "reasons"}, rows)

    def __repr__(self) -> str:
        parts = "; ".join(f"{name} {_described(space)}" for name, space in self.spaces.items() if space.allocated_bytes)
        text = f"<Memory: {parts or f'{self.main} 0 B'}; by {self.source}>"
        return with_hint(text, ".table(); .timeline() of the compiled program")

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.table())


SPACE_COLUMNS: Mapping[str, Kind] = {
    **dict.fromkeys((field.name for field in dataclasses.fields(MemorySpace)), "int"), "allocated_bytes": "float",
}  # fmt: skip
"""Columns of a table of memory spaces."""


def cells(space: MemorySpace) -> tuple[object, ...]:
    """Returns the cells of `SPACE_COLUMNS`."""
    return (*(getattr(space, field.name) for field in dataclasses.fields(MemorySpace)), space.allocated_bytes)


def _described(space: MemorySpace) -> str:
    named = {
        "arguments": space.argument_bytes, "outputs": space.output_bytes, "aliased": space.alias_bytes,
        "constants": space.constant_bytes, "temporaries": space.temp_bytes,
    }  # fmt: skip
    parts = [f"{name} {format_bytes(size)}" for name, size in named.items() if size]
    return f"{format_bytes(space.allocated_bytes)} ({', '.join(parts)})"


def _space(reported: Mapping[str, int], prefix: str) -> MemorySpace:
    def of(kind: str) -> int:
        return reported.get(f"{prefix}{kind}_size_in_bytes", 0)

    return MemorySpace(of("argument"), of("output"), of("alias"), _NO_CONSTANTS, of("temp"), _NO_CONSTANTS)


def _code(reported: Mapping[str, int] | Unavailable) -> tuple[int | Unavailable, int | Unavailable]:
    if isinstance(reported, Unavailable):
        return reported, reported
    unknown = Unavailable(
        "the compiler does not report the size of its code", 'compile with products=("assembly",) to see it'
    )
    name = "generated_code_size_in_bytes"
    code, host_code = reported.get(name, unknown), reported.get(f"host_{name}", unknown)
    return (
        (code, host_code) if code or host_code else (unknown, unknown)
    )  # 0 for both means unknown: every program has code
