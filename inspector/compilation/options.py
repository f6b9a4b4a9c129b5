"""`Options`: everything the compiler is told besides the module and the target.

A value: flags by name, and XLA's build options. `None` means "as the lowering implies, or XLA's
default". `flags.py` checks names and types against the installed jaxlib; `_jax/` turns an
`Options` into jaxlib's `CompileOptions` in whichever process compiles.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from inspector.compilation import flags as flag_types
from inspector.errors import OptionError

FlagValue = bool | int | float | str


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Compile options. Immutable and comparable; `flags` may be given as a dict.

    Attributes:
      flags: XLA flags by name, with or without the leading `--`; values of the flag's own type.
      num_replicas: copies of the program that run together (an axis environment's size).
      num_partitions: devices that one copy is split over (a mesh's size).
      device_assignment: device ids, one row a replica, one column a partition.
      use_spmd_partitioning: partition one program over the devices.
      use_shardy_partitioner: partition with Shardy; must be the partitioner of the lowering.
      allow_spmd_sharding_propagation_to_parameters: one boolean a parameter (or one for all).
      allow_spmd_sharding_propagation_to_output: one boolean an output (or one for all).
      parameter_is_tupled_arguments: the program takes one tuple.
    """

    flags: Mapping[str, FlagValue] = dataclasses.field(default_factory=dict)
    num_replicas: int | None = None
    num_partitions: int | None = None
    device_assignment: tuple[tuple[int, ...], ...] | None = None
    use_spmd_partitioning: bool | None = None
    use_shardy_partitioner: bool | None = None
    allow_spmd_sharding_propagation_to_parameters: tuple[bool, ...] | None = None
    allow_spmd_sharding_propagation_to_output: tuple[bool, ...] | None = None
    parameter_is_tupled_arguments: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "flags", _flags(self.flags))
        for name in ("num_replicas", "num_partitions"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise OptionError(f"{name} must be a positive integer, got {value!r}.")
        for name in _TUPLES:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _booleans(name, value))
        if self.device_assignment is not None:
            object.__setattr__(self, "device_assignment", _rows(self.device_assignment))

    @classmethod
    def parse(cls, text: str) -> Options:
        """`Options` from the text of an `XLA_FLAGS` variable.

        Args:
          text: flags separated by white space, each `--name=value`, `--name` (true) or
            `name=value`. Quotes as a shell reads them.

        Raises:
          OptionError: a word that is not a flag.
          UnknownFlagError, FlagTypeError: as `check`.
        """
        flags: dict[str, FlagValue] = {}
        for word in _words(text):
            name, equals, value = word.removeprefix("--").partition("=")
            if not name or not (equals or word.startswith("--")):
                raise OptionError(
                    f"Cannot read {word!r} as a flag: expected --name=value, such as"
                    " --xla_cpu_enable_fast_math=true, with white space between flags."
                )
            flags[name] = flag_types.parse_value(name, value if equals else "true")
        return cls(flags=flags)

    @classmethod
    def of(cls, options: Options | Mapping[str, FlagValue] | str | None) -> Options:
        """`Options` from what users write: an `Options`, a dict of flags, an XLA_FLAGS text, None."""
        if options is None:
            return cls()
        if isinstance(options, Options):
            return options
        if isinstance(options, str):
            return cls.parse(options)
        if isinstance(options, Mapping):
            return cls(flags=options)
        raise OptionError(
            f"options must be an inspector.Options, a dict of flags or the text of an XLA_FLAGS"
            f" variable, got {type(options).__name__}."
        )

    def check(self) -> None:
        """Checks every flag's name and type against the installed jaxlib.

        Raises:
          UnknownFlagError: with the nearest names.
          FlagTypeError: with the type and, for an enum, its values.
        """
        for name, value in self.flags.items():
            flag_types.check_value(name, value)

    def merge(self, other: Options) -> Options:
        """These options with `other`'s on top."""
        changes = {f.name: getattr(other, f.name) for f in dataclasses.fields(self) if f.name != "flags"}
        changes = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(self, flags={**self.flags, **other.flags}, **changes)

    def diff(self, other: Options) -> dict[str, tuple[Any, Any]]:
        """What differs: option or flag name to (ours, theirs); None where one does not say."""
        ours, theirs = self.as_dict(), other.as_dict()
        names = sorted({*ours, *theirs})
        return {n: (ours.get(n), theirs.get(n)) for n in names if _differ(ours.get(n), theirs.get(n))}

    def as_dict(self) -> dict[str, Any]:
        """What is said, flat: flags under their own names. JSON-serialisable."""
        said = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "flags"}
        return {**{n: v for n, v in said.items() if v is not None}, **self.flags}

    def to_json(self) -> str:
        """Canonical JSON, equal for equal options."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Options:
        """The inverse of `to_json`."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return " ".join(f"--{n}={_text(v)}" for n, v in self.as_dict().items()) or "defaults"

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{n}={v!r}' for n, v in self.as_dict().items())})"

    def __eq__(self, other: object) -> bool:
        # By JSON, because True == 1 == 1.0 in Python, and to XLA they are not the same value.
        return self.to_json() == other.to_json() if isinstance(other, Options) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())


_TUPLES = ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as e:
        raise OptionError(f"Cannot read {text!r} as flags: {e}. Close the quotes that were opened.") from e


def _flags(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    given: Any = flags  # a user's, whatever the annotation says
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise OptionError(f"flags must be a dict with flags' names as keys, got {flags!r}.")
    return dict(sorted((name.removeprefix("--"), value) for name, value in flags.items()))


def _booleans(name: str, value: Any) -> tuple[bool, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise OptionError(f"{name} must be a sequence of booleans, such as [True], got {value!r}.")
    return tuple(bool(v) for v in value)


def _rows(assignment: Any) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(tuple(operator.index(i) for i in row) for row in assignment)
    except TypeError:
        raise OptionError(
            "device_assignment must have one row of device ids for each replica, one id for each partition, such as"
            f" [[0, 1], [2, 3]], got {assignment!r}."
        ) from None


def _differ(ours: object, theirs: object) -> bool:
    return (type(ours), ours) != (type(theirs), theirs)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
