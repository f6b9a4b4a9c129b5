"""The controls above the panes: what they offer, the flags they find, and what is asked with them."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.widgets.messages.common import Error


class Controls(TypedDict):
    """What the controls offer. Where it does not come, there are none.

    Attributes:
      targets: texts of targets to choose from.
      target: the baseline's, which an empty field stands for.
      axes: the axis environment as it is typed.
      can_lower: whether the program can be lowered under another one.
    """

    type: Literal["controls"]
    targets: list[str]
    target: str
    axes: str
    can_lower: bool


class Flag(TypedDict):
    """An option of the compilers as the search shows it. All values are texts as they are typed.

    Attributes:
      default: "" for an empty text or list.
      values: what can be chosen, [] where anything of the type can be typed.
      described: false where `description` is the reason why there is none.
      channel: who reads it when, "" where it cannot be said.
      targets: those of "cpu", "gpu" and "tpu" whose compiler it is for.
      is_taken: whether the compiler of the target that was asked about is one of them.
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
    """The reply to `FlagsRequest` number `id`: the best matches of `total`, those that the target takes first.

    Attributes:
      note: which flags were not searched and why, "" where all were.
    """

    type: Literal["flags"]
    id: int
    rows: list[Flag]
    total: int
    note: str


class Said(TypedDict):
    """What is wrong with the last `AddRequest` or `LowerRequest`, None once nothing is."""

    type: Literal["said"]
    error: Error | None


class FlagsRequest(TypedDict):
    """Find flags by words of names and descriptions. `id` numbers the request; late replies are dropped.

    Attributes:
      target: as it is typed, "" for the baseline's.
    """

    type: Literal["flags"]
    id: int
    search: str
    target: str


class AddRequest(TypedDict):
    """Add a variant; texts as they are typed.

    Attributes:
      flag: a flag's name, or several flags with their values; "" for the defaults.
      value: of the one flag.
      target: "" for the baseline's.
    """

    type: Literal["add"]
    flag: str
    value: str
    target: str


class LowerRequest(TypedDict):
    """Lower again under another axis environment, such as "i=4, j=2"."""

    type: Literal["lower"]
    axes: str
