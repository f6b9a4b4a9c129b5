"""The messages between Python and the Explorer's browser app that belong to no pane; those of a pane stand in its file.

`frontend/src/messages.ts` is generated from all of them by `frontend/generate_messages.py`; a test checks that it is current.
Every message is a JSON object with a `type`, of plain values. `app.py` carries the messages.

Line numbers of sources count from 1, as editors do; lines and ranges of documents count from 0.
"""

from __future__ import annotations

from inspector.widgets.messages.checks import problem as problem
from inspector.widgets.messages.checks import type_of as type_of
from inspector.widgets.messages.common import Document as Document
from inspector.widgets.messages.common import Error as Error
from inspector.widgets.messages.common import Existing as Existing
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
from inspector.widgets.messages.common import TextPane as TextPane
from inspector.widgets.messages.common import Unavailable as Unavailable
from inspector.widgets.messages.common import Variant as Variant
from inspector.widgets.messages.common import VariantRemoved as VariantRemoved
from inspector.widgets.messages.controls import AddRequest as AddRequest
from inspector.widgets.messages.controls import Controls as Controls
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
from inspector.widgets.messages.requests import Ready as Ready
from inspector.widgets.messages.requests import RecordRequest as RecordRequest
from inspector.widgets.messages.requests import RemoveRequest as RemoveRequest
from inspector.widgets.messages.requests import Selection as Selection
from inspector.widgets.messages.requests import SelectionChanged as SelectionChanged

VERSION = 3

OfExplorer = (
    Session
    | Document
    | Unavailable
    | Variant
    | VariantRemoved
    | Recording
    | Controls
    | Flags
    | Said
    | Notice
    | Focus
    | Existing
    | Page
)
"""What Python says besides the messages of panes."""
ToExplorer = (
    Ready
    | AppCode
    | PageRequest
    | RecordRequest
    | CancelRequest
    | RemoveRequest
    | PinRequest
    | FlagsRequest
    | AddRequest
    | LowerRequest
    | SelectionChanged
)
"""What the browser asks for besides the requests that panes answer."""
OF_VARIANTS = ("variant", "baseline")
"""The fields that name variants."""
KEYS = ("pane", "baseline", "variant", "program", "product")
"""The fields that tell messages of one type apart: of those that agree in them the latest is kept. What answers a
request has its `id` and is not kept, nor are notices."""
