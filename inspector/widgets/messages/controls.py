"""The controls above the panes: their choices, the flag search and the requests that they send."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error


class ControlsMessage(TypedDict):
    """The choices that the controls offer. Without this message there are no controls.

    Attributes:
      targets: texts of the available targets.
      target: the baseline's target, used if the field is empty.
      axes: the axis environment as text, in the form that the user types.
      can_lower: whether the program can be lowered with a different axis environment.
      no_compile: the reason why the program cannot be compiled, such as of an optimized module; "" if it can.
      has_previous: whether the cell had another version of the program before it ran again, to compare with.
    """

    type: Literal["controls"]
    targets: list[str]
    target: str
    axes: str
    can_lower: bool
    no_compile: str
    has_previous: bool


class Flag(TypedDict):
    """A compiler option as the flag search shows it. All values are text, in the form that the user types.

    Attributes:
      default: default value; "" for an empty text or list.
      values: available values; [] if any value of the type can be typed.
      described: false if `description` is the reason why there is no description.
      channel: the component that reads the flag, and when; "" if unknown.
      targets: the platforms ("cpu", "gpu", "tpu") whose compilers accept the flag.
      is_taken: whether the compiler of the requested target accepts the flag.
    """

    name: str
    type: str
    default: str
    values: list[str]
    description: str
    described: bool
    channel: str
    deprecated: bool
    targets: list[str]
    is_taken: bool


class Flags(TypedDict):
    """The reply to `FlagsRequest` number `id`: the best matches of `total`, flags that the target accepts first.

    Attributes:
      note: the flags that were not searched, with the reason; "" if all were searched.
    """

    type: Literal["flags"]
    id: int
    rows: list[Flag]
    total: int
    note: str


class Said(TypedDict):
    """The error of the last `AddRequest` or `LowerRequest`; None once there is none."""

    type: Literal["said"]
    error: Error | None


class FlagsRequest(TypedDict):
    """Searches flags by words of their names and descriptions. `id` numbers the request; late replies are dropped.

    Attributes:
      target: target as text; "" for the baseline's.
    """

    type: Literal["flags"]
    id: int
    search: str
    target: str


class AddRequest(TypedDict):
    """Adds a variant. All values are text, in the form that the user types.

    Attributes:
      flag: name of a flag, or several flags with their values; "" for the defaults.
      value: value of the single flag.
      target: target as text; "" for the baseline's.
    """

    type: Literal["add"]
    flag: str
    value: str
    target: str


class LowerRequest(TypedDict):
    """Lowers the program again with a different axis environment, such as "i=4, j=2"."""

    type: Literal["lower"]
    axes: str
