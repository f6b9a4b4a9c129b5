"""The headline of a variant, above the panes."""

from __future__ import annotations

from typing import Literal, TypedDict

from inspector.analysis.headline import Headline, HeadlinePart, Subject
from inspector.hlo.source import line_text
from inspector.widgets import messages
from inspector.widgets.cells import cell_name, source_line


class HeadlineRequest(TypedDict):
    """Requests the headline of a variant.

    Attributes:
      is_measured: whether to measure the roofs of this machine's CPU if none are published.
      profile: the variant's `VariantMessage.profile`, so that a new profile is a new request.
    """

    type: Literal["headline"]
    variant: int
    is_measured: bool
    profile: int


class HeadlineFact(TypedDict):
    """One part of a headline; see `analysis/headline.py: HeadlinePart`.

    Attributes:
      instruction: the instruction in the optimized HLO that shows it best; "" if there is none.
      source: the line that it is about.
    """

    subject: Subject
    text: str
    details: str
    instruction: str
    source: messages.SourceLine | None


class HeadlineMessage(TypedDict):
    """The headline of a variant, or an error.

    Attributes:
      profile: the number of the profile that the measured time comes from, as `VariantMessage.profile`; 0 for none.
      can_measure: whether this machine's CPU can be measured for the time, once for all Explorers.
    """

    type: Literal["headline"]
    variant: int
    profile: int
    facts: list[HeadlineFact]
    can_measure: bool
    error: messages.Error | None


def message_of(variant: int, profile: int, headline: Headline, *, can_measure: bool) -> HeadlineMessage:
    """Returns a headline, with the time of a variant's profile by its number, as a message."""
    facts = [_fact(part) for part in headline]
    return HeadlineMessage(
        type="headline", variant=variant, profile=profile, facts=facts, can_measure=can_measure, error=None
    )


def failed(variant: int, profile: int, error: BaseException) -> HeadlineMessage:
    """Returns the message for a headline that is not available, with the error."""
    return HeadlineMessage(
        type="headline", variant=variant, profile=profile, facts=[], can_measure=False, error=messages.error_of(error)
    )


def _fact(part: HeadlinePart) -> HeadlineFact:
    text = part.text
    if part.frame is not None and (cell := cell_name(part.frame.file)):
        text = text.replace(line_text([part.frame], is_short=True), f"{cell}:{part.frame.line}")
    return HeadlineFact(
        subject=part.subject,
        text=text,
        details=part.details,
        instruction=part.instruction,
        source=None if part.frame is None else source_line([part.frame]),
    )
