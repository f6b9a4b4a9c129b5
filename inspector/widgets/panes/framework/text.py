"""The base class of panes that show a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.stages.lowered import Lowered, what_if_of
from inspector.widgets import messages
from inspector.widgets.documents import document
from inspector.widgets.panes.framework.pane import Entry, Pane


class TextPane(Pane):
    """A text of the lowered program.

    Attributes:
      language: language for syntax highlighting.
      is_shared: whether the text is the same for every platform, so that variants of one call share it.
    """

    language: ClassVar[messages.Language]
    is_shared: ClassVar[bool] = False

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """Returns the text, or the reason why it is not available."""
        is_known = self.is_shared and variant is not None and not what_if_of(lowered)
        return [] if is_known else [self._entry(self.listing(lowered), variant)]

    def listing(self, lowered: Lowered) -> Listing | Unavailable:
        """Returns the text with the properties of its lines."""
        raise NotImplementedError

    def _entry(self, listing: Listing | Unavailable, variant: int | None) -> Entry:
        if not isinstance(listing, Unavailable):
            return document(self.name, listing, variant, language=self.language)
        return messages.UnavailableMessage(
            type="unavailable", pane=self.name, variant=variant, reason=listing.reason, remedy=listing.remedy
        )
