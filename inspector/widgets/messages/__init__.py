"""The messages between Python and the Explorer's browser app. Written once, here.

`frontend/src/messages.ts` is generated from this package by `frontend/generate_messages.py`; a test
checks that it is current. Every message is a JSON object with a `type`. Values are plain: this
package knows nothing of JAX, of engines or of analyses. `app.py` carries the messages.

Line numbers of sources count from 1, as editors do; lines and ranges of documents count from 0.
"""

from __future__ import annotations

from inspector.widgets.messages.checks import problem as problem
from inspector.widgets.messages.common import Document as Document
from inspector.widgets.messages.common import Error as Error
from inspector.widgets.messages.common import GraphMode as GraphMode
from inspector.widgets.messages.common import Language as Language
from inspector.widgets.messages.common import LineTable as LineTable
from inspector.widgets.messages.common import Notice as Notice
from inspector.widgets.messages.common import OriginTable as OriginTable
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
from inspector.widgets.messages.kernels import Kernel as Kernel
from inspector.widgets.messages.kernels import KernelAllocation as KernelAllocation
from inspector.widgets.messages.kernels import KernelMemory as KernelMemory
from inspector.widgets.messages.kernels import KernelOperand as KernelOperand
from inspector.widgets.messages.kernels import KernelParam as KernelParam
from inspector.widgets.messages.kernels import Kernels as Kernels
from inspector.widgets.messages.kernels import KernelTrouble as KernelTrouble
from inspector.widgets.messages.kernels import Tuned as Tuned
from inspector.widgets.messages.recordings import CodeEntry as CodeEntry
from inspector.widgets.messages.recordings import CodeList as CodeList
from inspector.widgets.messages.recordings import CodeTable as CodeTable
from inspector.widgets.messages.recordings import CodeText as CodeText
from inspector.widgets.messages.recordings import PassChange as PassChange
from inspector.widgets.messages.recordings import PassList as PassList
from inspector.widgets.messages.recordings import PassRow as PassRow
from inspector.widgets.messages.recordings import Recording as Recording
from inspector.widgets.messages.requests import CancelRequest as CancelRequest
from inspector.widgets.messages.requests import CodeRequest as CodeRequest
from inspector.widgets.messages.requests import GraphRequest as GraphRequest
from inspector.widgets.messages.requests import PassRequest as PassRequest
from inspector.widgets.messages.requests import Ready as Ready
from inspector.widgets.messages.requests import RecordRequest as RecordRequest
from inspector.widgets.messages.requests import RemoveRequest as RemoveRequest
from inspector.widgets.messages.requests import RunRequest as RunRequest
from inspector.widgets.messages.requests import Selection as Selection
from inspector.widgets.messages.requests import SelectionChanged as SelectionChanged
from inspector.widgets.messages.requests import TuneRequest as TuneRequest
from inspector.widgets.messages.results import Collective as Collective
from inspector.widgets.messages.results import Collectives as Collectives
from inspector.widgets.messages.results import Diff as Diff
from inspector.widgets.messages.results import Graph as Graph
from inspector.widgets.messages.results import Member as Member
from inspector.widgets.messages.results import Mesh as Mesh
from inspector.widgets.messages.results import Run as Run
from inspector.widgets.messages.results import RunArray as RunArray
from inspector.widgets.messages.results import RunResult as RunResult
from inspector.widgets.messages.results import Stats as Stats
from inspector.widgets.messages.results import StatsRow as StatsRow

VERSION = 3

ToBrowser = (
    Session
    | Document
    | Unavailable
    | Variant
    | VariantRemoved
    | Stats
    | Diff
    | Collectives
    | Graph
    | Run
    | Recording
    | PassList
    | PassChange
    | CodeList
    | CodeText
    | Kernels
    | Tuned
    | Controls
    | Flags
    | Said
    | Notice
)
FromBrowser = (
    Ready
    | RunRequest
    | CancelRequest
    | RemoveRequest
    | GraphRequest
    | RecordRequest
    | PassRequest
    | CodeRequest
    | TuneRequest
    | FlagsRequest
    | AddRequest
    | LowerRequest
    | SelectionChanged
)
