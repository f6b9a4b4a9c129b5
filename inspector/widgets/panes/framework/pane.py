"""What every pane is: values that become known turned into messages, and requests of the browser answered.

A pane names in the registry what it needs. As that becomes known of a variant, it is given to the method of the
same name below, on the Explorer's thread, and what comes back is sent, unless the variant is gone by then.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from inspector.widgets.documents import TextDocument

if TYPE_CHECKING:
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.options.options import Options
    from inspector.compilation.preview import Preview
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import Tuning
    from inspector.execution.outcome import Outcome
    from inspector.hlo.module import Module
    from inspector.stages.lowered import Lowered
    from inspector.widgets.variants import Variant
    from inspector.widgets.work import Work

Need = Literal["lowered", "kernels", "program", "preview", "compiled", "passes", "assembly", "buffers", "failed"]
"""The program before the compiler, its Pallas kernels (without any, the pane is not offered), the optimized HLO, what
else is known before there is machine code, all of the result, what a compile records on request: `inspector.compilation.request.PRODUCTS`, and why it failed."""


@dataclasses.dataclass(frozen=True, slots=True)
class PackedMessage:
    """A message with the buffers that its class tells of, each gzip."""

    content: Mapping[str, Any]
    buffers: Sequence[bytes]


@dataclasses.dataclass(frozen=True, slots=True)
class Excerpt:
    """What the text forms of an Explorer have of a pane, of one variant.

    Attributes:
      title: one line.
      text: what is folded away below it, or "".
    """

    title: str
    text: str = ""


Entry = Mapping[str, Any] | TextDocument | PackedMessage
"""What a pane sends: a message of those that its line in the registry names, or a text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What a pane may ask of its Explorer, from any thread.

    Attributes:
      work: how to lower, compile and run.
      lock: guards which variants there are.
      variants: in order, the baseline first.
      variant: by its number; raises ValueError when it is gone.
      holds: whether a variant is still there.
      module: a variant's optimized HLO, None before it is known.
      publish: sends, unless a variant that the message is about is gone.
      later: does a task on the Explorer's thread; what it raises is shown.
      aside: does a task that may take seconds on another thread, one after the other; what it raises is shown.
      tune: starts a variant with options, target and tuning; raises what lowering raises.
      recorded: tells that more was recorded of a variant, which a notebook then keeps.
    """

    work: Callable[[], Work]
    lock: threading.RLock
    variants: Callable[[], Sequence[Variant]]
    variant: Callable[[int], Variant]
    holds: Callable[[Variant], bool]
    module: Callable[[Variant], Module | None]
    publish: Callable[[Entry], None]
    later: Callable[[Callable[[], object]], None]
    aside: Callable[[Callable[[], object]], None]
    tune: Callable[[Options, Target, Tuning], Variant]
    recorded: Callable[[], object]


class Pane:
    """A pane of one Explorer."""

    def __init__(self, name: str, context: Context) -> None:
        """Shows nothing yet.

        Args:
          name: as the registry has it.
          context: what it may ask for.
        """
        self.name, self.context = name, context

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """A program before the compiler; `variant` is None for the one that variants share."""
        raise NotImplementedError

    def kernels(self, variant: Variant, error: BaseException | None) -> Iterable[Entry]:
        """A program with Pallas kernels: when its compile begins, and when it ended, with the error of one that failed."""
        raise NotImplementedError

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterable[Entry]:
        """The optimized HLO, before there is machine code; a preview's is the result's."""
        raise NotImplementedError

    def preview(self, variant: Variant, preview: Preview) -> Iterable[Entry]:
        """What is known before there is machine code, and again when its cost follows."""
        raise NotImplementedError

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """All that a compile gave."""
        raise NotImplementedError

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """A compile with the product that the pane needs, after the browser asked to record it."""
        raise NotImplementedError

    def failed(self, variant: Variant, error: BaseException) -> Iterable[Entry]:
        """What is known of a compile that failed."""
        raise NotImplementedError

    def answer(self, request: Any) -> None:
        """A request of the browser, on the thread of its comm: start what takes long (`context.later`), and return."""
        raise NotImplementedError

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """Requests whose replies are recorded, so that a page without a notebook kernel has them; an "id" is put in.

        Args:
          variant: that ended well.
          is_whole: whether all is recorded that can be asked for, not only what readers see first.
        """
        return ()

    def settle(self) -> None:
        """Waits until what was asked is answered, where the pane answers on a thread of its own."""

    def excerpts(self, variant: Variant) -> Iterable[Excerpt]:  # noqa: ARG002
        """What was recorded of a variant that ended well, for pages where no script runs."""
        return ()

    def outcome(self, variant: Variant) -> Outcome | None:  # noqa: ARG002
        """What is kept of the variant's latest run, by the pane that runs."""
        return None

    def cancel(self, variant: Variant) -> None:
        """Stops what is under way for a variant."""

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops what belongs to a variant, under the lock; the caller then calls what is returned, which stops work."""
        return lambda: self.cancel(variant)

    def close(self) -> None:
        """Stops everything."""
