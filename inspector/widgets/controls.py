"""The controls above the panes: the flag search, and requests for new variants and lowerings.

The browser draws them (`frontend/src/shell/controls.ts`). This module reads and checks the
input, and starts the work; errors are shown next to the input.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from inspector import platforms
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.errors import InspectorError, ParameterError, TargetError, Unavailable
from inspector.support.notebook import short
from inspector.toolchain import flags
from inspector.toolchain.flags import catalog
from inspector.toolchain.libtpu import libtpu_options
from inspector.widgets import messages
from inspector.widgets.lowerings import axes_of
from inspector.widgets.panes.framework.product import sentence
from inspector.widgets.typed_options import read_options

if TYPE_CHECKING:
    from inspector.widgets.compiles import Compiles
    from inspector.widgets.threads import Threads

AxisPairs = list[tuple[str, int]]

_MOST_ROWS = 60


class Controls:
    """Answers the requests of the controls; `receive` is called on the comm's thread and returns immediately.

    Flags are searched on a separate thread: the first search reads their names from the
    installed compilers, which takes most of a second.
    """

    def __init__(
        self,
        publish: Callable[[Mapping[str, Any]], object],
        compiles: Compiles,
        threads: Threads,
        target: Target,
        *,
        can_lower: bool,
    ) -> None:
        """Creates the controls and sends the browser their choices.

        Args:
          publish: sends a message.
          compiles: starts variants, and lowers the program again.
          threads: the Explorer's threads.
          target: the baseline's target.
          can_lower: whether the program can be lowered with other axes.
        """
        self._publish, self._compiles, self._threads, self._can_lower = publish, compiles, threads, can_lower
        self._searches = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-flags")
        self._latest = -1
        self._has_previous = False
        self._set_baseline(target)

    def read_flags_after(self, job: Job[Any] | None) -> None:
        """Reads all flags with their descriptions, needed for searches of three letters or more, once a job has ended.

        The job is not run in parallel: after an installation, reading takes seconds of this process, which would delay the job's result.
        """
        searches = self._searches  # does not keep `self` alive: the job may live longer

        def read(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # closed
                searches.submit(catalog.options)

        if job is None:
            read(job)
        else:
            job.add_done_callback(read)

    def offer_previous(self) -> None:
        """Offers to compare the program with its previous version."""
        self._has_previous = True
        self._set_baseline(self._target)

    def receive(self, request: Mapping[str, Any]) -> None:
        """Handles a request, or shows its error."""
        match request["type"]:
            case "flags":
                self._latest = request["id"]
                with contextlib.suppress(RuntimeError):  # closed
                    self._searches.submit(self._find, cast(messages.FlagsRequest, request))
            case "add":
                self._guard(lambda: self._add(cast(messages.AddRequest, request)))
            case "lower":
                self._guard(lambda: self._lower(request["axes"]))

    def close(self) -> None:
        """Stops searching."""
        self._searches.shutdown(wait=False, cancel_futures=True)

    def _guard(self, act: Callable[[], object]) -> None:
        self._show_error(None)
        try:
            act()
        except InspectorError as error:
            self._show_error(error)

    def _set_baseline(self, target: Target) -> None:
        """Sends the target that an empty target field means, and the program's current axes."""
        self._target = target
        program = self._compiles.lowered.program
        axes, reason = axes_of(program.mesh), program.not_compilable
        self._publish(
            messages.ControlsMessage(
                type="controls",
                targets=list(self._compiles.work.targets),
                target=str(target),
                axes=", ".join(f"{name}={size}" for name, size in axes or ()),
                can_lower=self._can_lower,
                no_compile="" if reason is None else sentence(reason),
                has_previous=self._has_previous,
            )
        )

    def _show_error(self, error: BaseException | None) -> None:
        """Shows an error next to the controls, or clears it."""
        message = None if error is None else messages.error_of(error)
        self._publish(messages.Said(type="said", error=message))

    def _add(self, request: messages.AddRequest) -> None:
        """Starts a variant; on the Explorer's thread if the program is first lowered for another platform, which runs user code."""
        options = read_options(request["flag"], request["value"])
        target = Target.parse(request["target"].strip() or self._compiles.variants[0].target)
        if self._compiles.lowerings.knows(target):
            self._start(options, target)
        else:
            self._threads.later(lambda: self._start(options, target))

    def _start(self, options: Options, target: Target) -> None:
        self._compiles.start(options, target, self._compiles.tuning)

    def _lower(self, text: str) -> None:
        axes = parse_axes(text)
        if self._can_lower:
            self._threads.later(lambda: self._start_over(axes))

    def _start_over(self, axes: AxisPairs) -> None:
        try:
            baseline = self._compiles.start_over(axes)
        except Exception as error:  # user code can raise anything
            self._show_error(error)
            return
        if baseline is not None:
            self._set_baseline(baseline.target)

    def _find(self, request: messages.FlagsRequest) -> None:
        if request["id"] == self._latest:  # otherwise more letters were typed in the meantime
            self._publish(find_flags(request, self._compiler(request["target"])))

    def _compiler(self, target: str) -> str:
        """Returns the compiler of a typed target, or the baseline's while the text is not a valid target."""
        parsed_target = self._target
        with contextlib.suppress(TargetError):
            parsed_target = Target.parse(target.strip() or parsed_target)
        return platforms.named(self._compiles.work.platform(parsed_target)).kind


def find_flags(request: messages.FlagsRequest, compiler: str) -> messages.Flags:
    """Returns the flags that match a search, best first, with those that `compiler` ("cpu", "gpu", "tpu") accepts before others."""
    matches = [o for o in catalog.find_options(request["search"]) if not flags.flag_type(o.name).is_opaque]
    matches.sort(key=lambda option: compiler not in option.targets)
    rows = [_row(option, compiler) for option in matches[:_MOST_ROWS]]
    return messages.Flags(type="flags", id=request["id"], rows=rows, total=len(matches), note=_not_searched())


def parse_axes(text: str) -> AxisPairs:
    """Parses `i=4, j=2` into pairs; an empty text gives none.

    Raises:
      ParameterError: not names and sizes.
    """
    pairs: AxisPairs = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, size = (p.strip() for p in part.partition("="))
        if not (name and equals and size.isascii() and size.isdigit()):
            raise ParameterError(
                f"Cannot read {short(part)} as an axis: expected name=size, such as i=4, with commas between axes."
            )
        pairs.append((name, int(size)))
    return pairs


def _not_searched() -> str:
    """Returns a note about flags that are missing from the catalog, with the reason."""
    options = libtpu_options()
    return f"Flags of libtpu are not searched: {options.reason}" if isinstance(options, Unavailable) else ""


def _row(option: catalog.Option, compiler: str) -> messages.Flag:
    description = option.description
    return messages.Flag(
        name=option.name,
        type=option.type,
        default=str(option.default).lower() if isinstance(option.default, bool) else str(option.default),
        values=list(_values(option)),
        description=description if isinstance(description, str) else f"{description.reason}.",
        described=isinstance(description, str),
        channel=option.channel if isinstance(option.channel, str) else "",
        deprecated=option.deprecated,
        targets=list(option.targets),
        is_taken=compiler in option.targets,
    )


def _values(option: catalog.Option) -> tuple[str, ...]:
    """Returns the values that can be selected for a flag."""
    is_auto = option.type.startswith("auto or ")
    plain = ("true", "false") if option.type.removeprefix("auto or ") == "bool" else option.choices
    return ("auto", *(word for word in plain if word != "auto")) if is_auto else plain
