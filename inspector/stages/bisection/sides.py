"""`Side`: the good or the bad end of a bisection, and the changes between the two."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.options.pass_names import PASS_FLAGS
from inspector.compilation.target import Target
from inspector.errors import ParameterError, TargetError
from inspector.support.notebook import short

SideLike = Options | Mapping[str, FlagValue] | str | Target | CompiledProgram | tuple[Any, Any] | None
"""The forms of a side: options, a target, a pair of both, or a compiled program with its target and options."""

TARGET = "target"
_LIKE_A_TARGET = re.compile(r"(cpu|tpu|gpu|attached)|[^=]*@")  # a mistake in one, rather than in a flag
_FIELDS = frozenset(field.name for field in dataclasses.fields(Options)) - {"flags"}


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """A target with options."""

    target: Target
    options: Options = dataclasses.field(default_factory=Options)

    @classmethod
    def of(cls, value: SideLike, target: str | Target) -> Side:
        """Returns a side in any of its forms.

        Args:
          value: the side.
          target: the target of options.

        Raises:
          OptionError, TargetError: an invalid option or target.
          ParameterError: none of the forms.
        """
        if isinstance(value, CompiledProgram):
            return cls(value.target, value.options)
        if isinstance(value, tuple):
            if len(value) != 2:
                raise ParameterError(
                    f"A side is a pair of a target and options, such as ('cpu', {{...}}), got {len(value)} values:"
                    f" {short(value)}."
                )
            return cls._checked(Target.parse(value[0]), Options.of(value[1]))
        if isinstance(value, Target) or (isinstance(value, str) and (_is_target(value) or _LIKE_A_TARGET.match(value))):
            return cls(Target.parse(value))
        if value is not None and not isinstance(value, (str, Mapping, Options)):
            raise ParameterError(
                "A side is options, a target such as 'cpu' or 'cpu@jax==0.12.0.1', a pair of a target and options, or a compiled"
                f" program, got {short(value)}."
            )
        return cls._checked(Target.parse(target), Options.of(value))

    @classmethod
    def _checked(cls, target: Target, options: Options) -> Side:
        options.check()
        return cls(target, options)

    def __str__(self) -> str:
        return f"{self.target}, {self.options}"


def _is_target(text: str) -> bool:
    try:
        Target.parse(text)
    except TargetError:
        return False
    return True


@dataclasses.dataclass(frozen=True, slots=True)
class FlagChange:
    """One change from the good side to the bad one.

    Attributes:
      name: name of the flag or build option, or "target".
      good, bad: its values; None for the default.
      is_entry: whether it is one entry of a flag with a list of passes, which only the side with the value has.
    """

    name: str
    good: object
    bad: object
    is_entry: bool = False

    def __str__(self) -> str:
        if self.is_entry:
            return f"{self.name} {'without' if self.bad is None else 'with'} {self.bad or self.good}"
        if self.bad is None:
            return f"{self.name} not set (good: {_text(self.good)})"
        return f"{self.name}={_text(self.bad)}" + (f" (good: {_text(self.good)})" if self.good is not None else "")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def changes_between(good: Side, bad: Side) -> tuple[FlagChange, ...]:
    """Returns the changes from one side to the other: flags, build options, entries of lists of passes, the target."""
    found = [FlagChange(TARGET, good.target, bad.target)] if good.target != bad.target else []
    for name, (ours, theirs) in good.options.diff(bad.options).items():
        if name in PASS_FLAGS:
            before, after = _entries(ours), _entries(theirs)
            found += [FlagChange(name, None, each, True) for each in after if each not in before]
            found += [FlagChange(name, each, None, True) for each in before if each not in after]
        else:
            found.append(FlagChange(name, ours, theirs))
    return tuple(found)


def changed(good: Side, changes: Collection[FlagChange]) -> Side:
    """Returns the good side with some of the changes."""
    values: dict[str, Any] = good.options.as_dict()
    target = good.target
    for each in changes:
        if each.name == TARGET and isinstance(each.bad, Target):
            target = each.bad
        elif each.is_entry:
            entries = [entry for entry in _entries(values.get(each.name)) if entry != each.good]
            values[each.name] = ",".join([*entries, *([str(each.bad)] if each.bad is not None else [])])
        else:
            values[each.name] = each.bad
    known = {name: value for name, value in values.items() if value is not None and value != ""}
    fields = {name: known.pop(name) for name in _FIELDS & known.keys()}
    return Side(target, Options(flags=known, **fields))


def _entries(value: object) -> tuple[str, ...]:
    return tuple(each for each in str(value or "").split(",") if each)
