"""The messages between Python and the Explorer's browser app that belong to no pane. A pane's messages are in the pane's file.

`frontend/generate_messages.py` generates `frontend/src/messages.ts` from all of them; a test checks that the file is up to date.
Every message is a JSON object of plain values with a `type`. `app.py` transports the messages. A class in a pane's file that shares
its name with a value ends in `Message`, such as `GraphMessage`.

Line numbers of source files count from 1, as in editors; lines and ranges of documents count from 0.
"""

from __future__ import annotations

from inspector.widgets.messages.checks import problem as problem
from inspector.widgets.messages.checks import type_of as type_of
from inspector.widgets.messages.common import Document as Document
from inspector.widgets.messages.common import Error as Error
from inspector.widgets.messages.common import Existing as Existing
from inspector.widgets.messages.common import Explorable as Explorable
from inspector.widgets.messages.common import Focus as Focus
from inspector.widgets.messages.common import Language as Language
from inspector.widgets.messages.common import LineTable as LineTable
from inspector.widgets.messages.common import Notice as Notice
from inspector.widgets.messages.common import OriginTable as OriginTable
from inspector.widgets.messages.common import Page as Page
from inspector.widgets.messages.common import Pane as Pane
from inspector.widgets.messages.common import Product as Product
from inspector.widgets.messages.common import Session as Session
from inspector.widgets.messages.common import SourceLine as SourceLine
from inspector.widgets.messages.common import Stage as Stage
from inspector.widgets.messages.common import State as State
from inspector.widgets.messages.common import TableCell as TableCell
from inspector.widgets.messages.common import TableHead as TableHead
from inspector.widgets.messages.common import TextPane as TextPane
from inspector.widgets.messages.common import UnavailableMessage as UnavailableMessage
from inspector.widgets.messages.common import VariantMessage as VariantMessage
from inspector.widgets.messages.common import VariantRemoved as VariantRemoved
from inspector.widgets.messages.controls import AddRequest as AddRequest
from inspector.widgets.messages.controls import ControlsMessage as ControlsMessage
from inspector.widgets.messages.controls import Flag as Flag
from inspector.widgets.messages.controls import Flags as Flags
from inspector.widgets.messages.controls import FlagsRequest as FlagsRequest
from inspector.widgets.messages.controls import LowerRequest as LowerRequest
from inspector.widgets.messages.controls import Said as Said
from inspector.widgets.messages.errors import error_of as error_of
from inspector.widgets.messages.errors import notice_of as notice_of
from inspector.widgets.messages.recordings import Recording as Recording
from inspector.widgets.messages.requests import AppCode as AppCode
from inspector.widgets.messages.requests import CancelRequest as CancelRequest
from inspector.widgets.messages.requests import PageRequest as PageRequest
from inspector.widgets.messages.requests import PinRequest as PinRequest
from inspector.widgets.messages.requests import PreviousRequest as PreviousRequest
from inspector.widgets.messages.requests import Ready as Ready
from inspector.widgets.messages.requests import RecordRequest as RecordRequest
from inspector.widgets.messages.requests import RemoveRequest as RemoveRequest
from inspector.widgets.messages.requests import Selection as Selection
from inspector.widgets.messages.requests import SelectionChanged as SelectionChanged

VERSION = 3

OfExplorer = (
    Session
    | Document
    | UnavailableMessage
    | VariantMessage
    | VariantRemoved
    | Recording
    | ControlsMessage
    | Flags
    | Said
    | Notice
    | Focus
    | Existing
    | Page
)
"""The messages that Python sends, except those of panes."""
ToExplorer = (
    Ready
    | AppCode
    | PageRequest
    | RecordRequest
    | CancelRequest
    | RemoveRequest
    | PinRequest
    | PreviousRequest
    | FlagsRequest
    | AddRequest
    | LowerRequest
    | SelectionChanged
)
"""The requests that the browser sends, except those that panes answer."""
OF_VARIANTS = ("variant", "baseline")
"""The fields that hold the number of a variant."""
KEYS = ("pane", "baseline", "variant", "program", "product")
"""The fields that distinguish messages of one type: of messages that agree in all of them, only the latest is stored.
Replies, which have the `id` of a request, and notices are not stored."""
