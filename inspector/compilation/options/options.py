"""`Options`: everything that a compile depends on, except the module and the target.

A value: flags by name, and XLA's build options. `None` means the value that the lowering implies, or JAX's
default. `toolchain/flags` checks names and types against the installed jaxlib, `options_text.py` reads and
writes XLA_FLAGS, `options_proto.py` protobuf. `_jax/` converts an `Options` to jaxlib's
`CompileOptions` in the process that compiles.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from inspector.compilation.options import options_proto, options_text
from inspector.compilation.target import Target
from inspector.errors import OptionError, TargetError, check_bool
from inspector.support import json_values
from inspector.support.notebook import short
from inspector.toolchain import flags as flag_types

FlagValue = bool | int | float | str


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Compile options. Immutable and comparable; `flags` may be given as a dict.

    Attributes:
      flags: flags by name, with or without the leading `--`; values of the flag's own type. Every flag of
        XLA, every other field of its build options (`optimization_level`, ...) and, if libtpu is
        installed, its options: see `inspector.option_catalog()`.
      num_replicas: copies of the program that run together (an axis environment's size).
      num_partitions: devices that one copy is split over (a mesh's size).
      device_assignment: device ids, one row for each replica, one column for each partition.
      use_spmd_partitioning: partition one program over the devices.
      use_shardy_partitioner: partition with Shardy; must match the partitioner of the lowering.
      allow_spmd_sharding_propagation_to_parameters: one boolean for each parameter (or one for all).
      allow_spmd_sharding_propagation_to_output: one boolean for each output (or one for all).
      parameter_is_tupled_arguments: the program takes one tuple.
      extra_proto: options without a name here (layouts, profiles, topologies), as a serialized
        `xla.CompileOptionsProto` that is merged into the other options.
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
    extra_proto: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "flags", _flags(self.flags))
        for name in ("num_replicas", "num_partitions"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _count(name, value))
        for name in _BOOLEANS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_bool(name, value, OptionError))
        for name in _TUPLES:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _booleans(name, value))
        if self.device_assignment is not None:
            object.__setattr__(self, "device_assignment", _rows(self.device_assignment))
        object.__setattr__(self, "extra_proto", _bytes(self.extra_proto))

    @classmethod
    def parse(cls, text: str, *, read_file: bool = True) -> Options:
        r"""`Options` from the text of an `XLA_FLAGS` variable, as XLA itself reads it.

        Args:
          text: flags separated by white space: `--name=value`, `--name='a value'`,
            `--name="with \" escaped"`, or `--name` for true. The dashes may be omitted, and quotes
            may enclose a whole flag. If a flag is repeated, the last value wins; lists and maps grow.
            Alternatively, the name of a file with such a text.
          read_file: True if the text may be the name of a file.

        Raises:
          OptionError: a word that is not a flag, unclosed quotes, or a file that cannot be read.
          UnknownFlagError, FlagTypeError: as in `check`.
        """
        fields: dict[str, Any] = {}
        flags: dict[str, FlagValue] = {}
        for name, value in options_text.words(options_text.flags_text(text) if read_file else text):
            if name == "extra_proto":
                fields[name] = value
            elif name in flag_types.OPTION_FIELDS:
                fields[name] = options_text.read_field(name, value)
            else:
                flags[name] = options_text.read_flag(name, value, flags.get(name))
        return cls(flags=flags, **fields)

    @classmethod
    def from_proto(cls, data: bytes) -> Options:
        """Reads `Options` from a serialized `xla.CompileOptionsProto`, such as jaxlib's `SerializeAsString()`.

        Values that JAX in this process would set by itself are left out; the others are included.

        Raises:
          OptionError: not such a message, or JAX is not installed.
        """
        return cls(**options_proto.from_proto(data))

    def to_proto(self) -> bytes:
        """Returns a serialized `xla.CompileOptionsProto`, identical to the bytes that JAX in this process would give XLA.

        Options that are not set have JAX's values, for one device and with detailed logging. Flags of
        LIBTPU_INIT_ARGS are not included: compiles do not take them.

        Raises:
          UnknownFlagError, FlagTypeError: as in `check`.
          OptionError: JAX is not installed.
        """
        self.check()
        return options_proto.to_proto({f.name: getattr(self, f.name) for f in dataclasses.fields(self)})

    @classmethod
    def of(cls, options: Options | Mapping[str, FlagValue] | str | None) -> Options:
        """Creates `Options` from the forms that users write: an `Options`, a dict of flags, an XLA_FLAGS text, None."""
        if options is None:
            return cls()
        if isinstance(options, Options):
            return options
        if _is_target(options):
            raise OptionError(f"{str(options)!r} is a target, not options. Write target={str(options)!r}.")
        if isinstance(options, str):
            return cls.parse(options)
        if isinstance(options, Mapping):
            return cls(flags=options)
        raise OptionError(
            f"options must be an inspector.Options, a dict of flags or the text of an XLA_FLAGS"
            f" variable, got {type(options).__name__}."
        )

    def check(self) -> None:
        """Checks every flag's name and type against the installed jaxlib, and libtpu.

        Raises:
          UnknownFlagError: an unknown flag; the message lists similar names.
          FlagTypeError: a wrong type; the message has the type and, for an enum, its values.
        """
        for name, value in self.flags.items():
            flag_types.check_value(name, value)

    def merge(self, other: Options | Mapping[str, FlagValue] | str | None) -> Options:
        """Merges other options into these; where both set a value, `other` wins."""
        other = Options.of(other)
        changes = {f.name: getattr(other, f.name) for f in dataclasses.fields(self) if f.name != "flags"}
        changes = {name: value for name, value in changes.items() if value is not None}
        changes["extra_proto"] = other.extra_proto or self.extra_proto
        return dataclasses.replace(self, flags={**self.flags, **other.flags}, **changes)

    def diff(self, other: Options | Mapping[str, FlagValue] | str | None) -> dict[str, tuple[Any, Any]]:
        """Returns the differences: option or flag name to (this value, other value); None if a value is not set."""
        ours, theirs = self.as_dict(), Options.of(other).as_dict()
        names = sorted({*ours, *theirs})
        return {n: (ours.get(n), theirs.get(n)) for n in names if _differ(ours.get(n), theirs.get(n))}

    def as_dict(self) -> dict[str, Any]:
        """Returns the options that are set as one flat dict: flags under their own names. JSON-serializable."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _NOT_FIELDS}
        extra = {"extra_proto": base64.b64encode(self.extra_proto).decode()} if self.extra_proto else {}
        return {**{n: v for n, v in fields.items() if v is not None}, **extra, **self.flags}

    def to_json(self) -> str:
        """Returns canonical JSON, equal for equal options."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields["extra_proto"] = base64.b64encode(self.extra_proto).decode()
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Reads options that `to_json` wrote.

        Raises:
          OptionError: another text.
        """
        try:
            return cls(**json_values.parse(text.encode()))
        except (json_values.FormError, TypeError) as e:
            raise OptionError(f"Cannot read saved options ({e}): {text[:200]!r}.") from e

    def __str__(self) -> str:
        return options_text.write(self.as_dict()) or "defaults"

    def __repr__(self) -> str:
        values = self.as_dict()
        fields = [f"{n}={v!r}" for n, v in values.items() if n not in self.flags]
        flags = ", ".join(f"{n!r}: {v!r}" for n, v in self.flags.items())
        return f"Options({', '.join([*(['flags={' + flags + '}'] if flags else []), *fields])})"

    def __eq__(self, other: object) -> bool:
        # Compares JSON, because True == 1 == 1.0 in Python, and XLA treats them as different values.
        return self.to_json() == other.to_json() if isinstance(other, Options) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())


_NOT_FIELDS = ("flags", "extra_proto")
_GREATEST = 2**31 - 1  # XLA keeps counts and ids of devices in 32 bits
_BOOLEANS = ("use_spmd_partitioning", "use_shardy_partitioner", "parameter_is_tupled_arguments")
_TUPLES = ("allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output")


def _is_target(argument: object) -> bool:
    """Reports whether an argument is a target, or a text of one, by mistake."""
    try:
        return isinstance(Target.parse(argument), Target)  # type: ignore[arg-type]
    except TargetError:
        return False


def _flags(flags: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    mapping: Any = flags  # given by the user, so of any type
    if not isinstance(mapping, Mapping) or not all(isinstance(name, str) for name in mapping):
        raise OptionError(
            f"flags must be a dict with names of flags as keys, got {short(flags)}. Options.parse reads the text of an XLA_FLAGS"
            " variable."
        )
    values: dict[str, FlagValue] = {}
    for name, value in flags.items():
        plain = name.removeprefix("--")
        if plain.startswith("-"):  # otherwise, the name would change with each copy of these options
            raise OptionError(f"Flag {short(name)} has too many dashes. Write {short(name.lstrip('-'))}.")
        if plain in values:
            raise OptionError(
                f"Flag {plain} is given twice, with and without dashes: {short(values[plain])} and {short(value)}."
            )
        values[plain] = _value(plain, value)
    return dict(sorted(values.items()))


def _value(name: str, value: Any) -> FlagValue:
    """Converts a flag's value to Python's own types. Only `check` tests it against the flag's type."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (bool, int, float, str)):
        flag_types.check_value(name, value)
    plain: FlagValue = value
    return plain


def _count(name: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not 1 <= value <= _GREATEST:
        raise OptionError(f"{name} must be a positive integer, got {short(value)}.")
    return int(value)


def _booleans(name: str, value: Any) -> tuple[bool, ...]:
    values = list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else None
    if values is None or not all(isinstance(v, (bool, np.bool_)) for v in values):
        raise OptionError(f"{name} must be a sequence of booleans, such as [True], got {short(value)}.")
    return tuple(bool(v) for v in values)


def _rows(assignment: Any) -> tuple[tuple[int, ...], ...]:
    try:
        rows = tuple(tuple(operator.index(i) for i in row) for row in assignment)
    except TypeError:
        rows = ()
    ids = [i for row in rows for i in row]
    if not ids or len({len(row) for row in rows}) != 1 or not all(0 <= i <= _GREATEST for i in ids):
        raise OptionError(
            "device_assignment must have one row of device ids for each replica, one id for each partition, such as"
            f" [[0, 1], [2, 3]], got {short(assignment)}."
        )
    if len(set(ids)) != len(ids):
        raise OptionError(f"device_assignment names a device twice: {short([list(row) for row in rows])}.")
    return rows


def _bytes(data: bytes | str) -> bytes:
    """Returns bytes from bytes or from base64 text, as in JSON."""
    if isinstance(data, bytes):
        return data
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise OptionError(
            f"extra_proto must be bytes, a serialized xla.CompileOptionsProto, got {short(data)}."
        ) from None


def _differ(ours: object, theirs: object) -> bool:
    return (type(ours), ours) != (type(theirs), theirs)
