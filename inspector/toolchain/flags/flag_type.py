"""`FlagType`: the type of a flag. Also the options that are not flags."""

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
"""Options that are attributes of `Options`. They are set there, not among the flags."""


@dataclasses.dataclass(frozen=True, slots=True)
class FlagType:
    """The type of a flag.

    Attributes:
      kind: "bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "enum", "map",
        "message", or "bytes", which cannot be written as a flag.
      repeated: whether it takes several values, in one text separated by commas.
      choices: names and numbers of an enum's values (libtpu accepts names only).
      home: the message that contains it, or "libtpu", which reads its flags by name.
      is_auto: whether it also takes "auto".
      is_per_compile: whether it can be set per compile. Otherwise, a process reads it once, when libtpu starts.
      message: full name of the message type of the value, for libtpu's flags.
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
        """Reports whether its values have no text form: bytes and lists of messages."""
        return self.kind == "bytes" or (self.kind == "message" and self.repeated)

    def __str__(self) -> str:
        plain = f"list of {self.kind}" if self.repeated else self.kind
        return f"auto or {plain}" if self.is_auto else plain
