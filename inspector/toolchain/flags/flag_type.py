"""What a flag takes: `FlagType`, and the options that are no flags."""

from __future__ import annotations

import dataclasses
from typing import Literal

FlagValue = bool | int | float | str
Home = Literal["debug_options", "executable_build_options", "compile_options", "libtpu"]

OPTION_FIELDS = (
    "num_replicas",
    "num_partitions",
    "device_assignment",
    "use_spmd_partitioning",
    "use_shardy_partitioner",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "parameter_is_tupled_arguments",
)
"""Options that `Options` has as attributes of its own; they are given there, not among the flags."""


@dataclasses.dataclass(frozen=True, slots=True)
class FlagType:
    """What a flag takes.

    Attributes:
      kind: "bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "enum", "map",
        "message", or "bytes", which cannot be written as a flag.
      repeated: takes several values, in one text with commas between.
      choices: an enum's names, by number (libtpu's take no numbers).
      home: the message that holds it, or "libtpu", which reads its own by name.
      is_auto: takes "auto" too.
      is_per_compile: whether a compile takes it; else a process reads it once, when libtpu starts.
      message: full name of the message that libtpu takes.
    """

    kind: str
    repeated: bool = False
    choices: tuple[tuple[str, int], ...] = ()
    home: Home = "debug_options"
    is_auto: bool = False
    is_per_compile: bool = True
    message: str = ""

    @property
    def is_opaque(self) -> bool:
        """Whether no text stands for its values: bytes and lists of messages."""
        return self.kind == "bytes" or (self.kind == "message" and self.repeated)

    def __str__(self) -> str:
        plain = f"list of {self.kind}" if self.repeated else self.kind
        return f"auto or {plain}" if self.is_auto else plain
