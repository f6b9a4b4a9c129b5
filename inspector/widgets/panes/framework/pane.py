"""The base class of panes: converts results to messages and answers requests of the browser.

The registry lists the inputs that each pane needs. When an input of a variant becomes available, the method with its
name below is called on the Explorer's thread. Its messages are sent, unless the variant was removed in the meantime.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from inspector.widgets.documents import TextDocument

if TYPE_CHECKING:
    import threading

    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.options.options import Options
    from inspector.compilation.preview import Preview
    from inspector.compilation.target import Target
    from inspector.compilation.tuning import Tuning
    from inspector.execution.outcome import Outcome
    from inspector.hlo.module import Module
    from inspector.stages.lowered import Lowered
    from inspector.widgets.threads import Task, Threads
    from inspector.widgets.variants import Variant, Variants
    from inspector.widgets.work import Work

Need = Literal[
    "lowered", "kernels", "program", "preview", "compiled", "passes", "assembly", "buffers", "profiled", "failed"
]
"""The lowered program, its Pallas kernels (without any, the pane is not offered), the optimized HLO, the other results
before code generation, the complete result, recorded products (`inspector.compilation.request.PRODUCTS`), measured times and the
error of a failure."""


@dataclasses.dataclass(frozen=True, slots=True)
class PackedMessage:
    """A message with the buffers that its class describes, each compressed with gzip."""

    content: Mapping[str, Any]
    buffers: Sequence[bytes]


@dataclasses.dataclass(frozen=True, slots=True)
class Excerpt:
    """The content of a pane for one variant, as the text forms of an Explorer show it.

    Attributes:
      title: one line.
      text: content that is folded below the title, or "".
    """

    title: str
    text: str = ""


Entry = Mapping[str, Any] | TextDocument | PackedMessage
"""A message that a pane sends: an instance of a class in its registry entry, or a text."""


class CompileService(Protocol):
    """Starts the work that panes request: `inspector.widgets.compiles.Compiles`."""

    @property
    def work(self) -> Work: ...
    def tune(self, options: Options, target: Target, tuning: Tuning) -> Variant: ...
    def start(
        self, options: Options, target: Target, tuning: Tuning, opened: Lowered | None, origin: str
    ) -> Variant: ...
    def refresh(self) -> None: ...


class Publisher(Protocol):
    """Sends the messages of panes: `inspector.widgets.panes.framework.board.Board`."""

    def publish(self, entry: Entry) -> None: ...
    def module(self, variant: Variant) -> Module | None: ...
    def show_profile(self, variant: Variant) -> None: ...


class Context:
    """The services of the Explorer that a pane can use, from any thread."""

    def __init__(self, variants: Variants, threads: Threads, compiles: CompileService, publisher: Publisher) -> None:
        """Combines the services.

        Args:
          variants: the Explorer's variants.
          threads: the Explorer's threads.
          compiles: starts work.
          publisher: sends messages.
        """
        self._variants, self._threads, self._compiles, self._publisher = variants, threads, compiles, publisher

    @property
    def lock(self) -> threading.RLock:
        """Guards the set of variants."""
        return self._variants.lock

    def work(self) -> Work:
        """Returns the object that lowers, compiles and runs."""
        return self._compiles.work

    def variants(self) -> Sequence[Variant]:
        """Returns the variants in order, the baseline first."""
        return tuple(self._variants)

    def variant(self, number: int) -> Variant:
        """Returns a variant by its number; raises ValueError if it was removed."""
        return self._variants.by_number(number)

    def holds(self, variant: Variant) -> bool:
        """Reports whether a variant still exists."""
        return variant in self._variants

    def module(self, variant: Variant) -> Module | None:
        """Returns a variant's optimized HLO, or None before it is available."""
        return self._publisher.module(variant)

    def publish(self, entry: Entry) -> None:
        """Sends a message, unless it is about a removed variant."""
        self._publisher.publish(entry)

    def later(self, task: Task) -> None:
        """Runs a task on the Explorer's thread; its exceptions are shown."""
        self._threads.later(task)

    def aside(self, task: Task) -> None:
        """Runs a task that may take seconds on another thread, in order; its exceptions are shown."""
        self._threads.aside(task)

    def tune(self, options: Options, target: Target, tuning: Tuning) -> Variant:
        """Starts a variant; raises the errors of lowering."""
        return self._compiles.tune(options, target, tuning)

    def start_changed(self, lowered: Lowered, options: Options, of: Variant, origin: str) -> Variant:
        """Starts a variant of a changed program, for the target of another variant.

        Args:
          lowered: the changed program.
          options: its options.
          of: the variant whose program was changed.
          origin: the label of the new variant.
        """
        return self._compiles.start(options, of.target, of.tuning, lowered, origin)

    def profiled(self, variant: Variant) -> None:
        """Reports that a variant has a new profile, so that panes show its times."""
        self._publisher.show_profile(variant)

    def recorded(self) -> None:
        """Reports that new data of a variant was recorded, so that the notebook's stored output is updated."""
        self._compiles.refresh()


class Pane:
    """A pane of one Explorer."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates a pane that shows nothing yet.

        Args:
          name: name of the pane in the registry.
          context: services of the Explorer.
        """
        self.name, self.context = name, context

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """Shows a lowered program; `variant` is None for the one that variants share."""
        raise NotImplementedError

    def kernels(self, variant: Variant, error: BaseException | None) -> Iterable[Entry]:
        """Shows a program's Pallas kernels: when its compile begins and when it ends, with the error if it failed."""
        raise NotImplementedError

    def program(self, variant: Variant, program: Preview | CompiledProgram, module: Module) -> Iterable[Entry]:
        """Shows the optimized HLO, before code generation; a preview has the same HLO as the result."""
        raise NotImplementedError

    def preview(self, variant: Variant, preview: Preview) -> Iterable[Entry]:
        """Shows the results that are available before code generation; called again when the cost is available."""
        raise NotImplementedError

    def compiled(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Shows the complete result of a compile."""
        raise NotImplementedError

    def recorded(self, variant: Variant, compiled: CompiledProgram) -> Iterable[Entry]:
        """Shows a compile with the product that the pane needs, after the browser requested the recording."""
        raise NotImplementedError

    def profiled(self, variant: Variant) -> Iterable[Entry]:
        """Shows the measured times of a variant, `Variant.profile`."""
        raise NotImplementedError

    def failed(self, variant: Variant, error: BaseException) -> Iterable[Entry]:
        """Shows the available results of a failed compile."""
        raise NotImplementedError

    def answer(self, request: Any) -> None:
        """Answers a request on the comm's thread: starts slow work with `context.later` and returns."""
        raise NotImplementedError

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterable[Mapping[str, Any]]:  # noqa: ARG002
        """Returns the requests whose replies are recorded for pages without a notebook kernel; each "id" is filled in later.

        Args:
          variant: a variant that compiled successfully.
          is_whole: whether to record every possible request, not only those for the initial view.
        """
        return ()

    def settle(self) -> None:
        """Waits until all requests are answered, for panes that answer on a separate thread."""

    def excerpts(self, variant: Variant) -> Iterable[Excerpt]:  # noqa: ARG002
        """Returns the recorded data of a variant that compiled successfully, for pages without scripts."""
        return ()

    def outcome(self, variant: Variant) -> Outcome | None:  # noqa: ARG002
        """Returns the outcome of the variant's latest run, in the pane that runs variants."""
        return None

    def cancel(self, variant: Variant) -> None:
        """Stops the running work for a variant."""

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops a variant's data, under the lock; the caller then calls the returned function, which stops work."""
        return lambda: self.cancel(variant)

    def close(self) -> None:
        """Stops all work."""
