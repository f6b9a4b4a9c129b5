"""The Findings pane: what the user can change in a variant's program, what it would gain, and proofs that compile it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypedDict

from inspector.analysis.findings.registry import DETECTORS
from inspector.compilation.engine import Job
from inspector.errors import CancelledError, Unavailable
from inspector.stages.changed_lowered import changed_lowered
from inspector.stages.compiled import findings_under
from inspector.stages.findings import Finding, Findings, begin_proofs
from inspector.stages.proof import Proof
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.panes.framework.counted import CountedPane
from inspector.widgets.panes.framework.pane import Context, Excerpt
from inspector.widgets.panes.framework.running_jobs import RunningJobs
from inspector.widgets.variants import Variant, state_of

_FINDS = {detector.kind: detector.finds for detector in DETECTORS}
_PAUSE_S = 1.0
"""Minimum time between two messages, however often a program is traced again."""


class FindingRow(TypedDict):
    """A finding.

    Attributes:
      title: one sentence; code is between backticks.
      gain: the gain in a few words.
      gain_source: what the gain is computed from.
      share: the share of the time or of the peak memory that it saves, whichever is larger, or else of the compile. From 0 to 1.
      remedy: code to write, or a flag.
      caution: the reason for which the program may be as it is on purpose; "" if there is none.
      instructions: names of the instructions in the optimized HLO that show it.
      source: the user's line.
      no_proof: the reason why it cannot be proven; "" if it can be tried.
      verdict: the verdict of its proof; "" before, and after a time limit that was over first.
      proof: the verdict with the numbers, or with the reason.
      changed: the number of the variant that has the changed program; None if there is none.
      can_add: whether the changed program can be added as a variant.
    """

    kind: str
    title: str
    gain: str
    gain_source: str
    share: float
    remedy: str
    caution: str
    instructions: list[str]
    source: messages.SourceLine | None
    no_proof: str
    verdict: Literal["", "proven", "different results", "no gain", "worse", "cannot be tried"]
    proof: str
    changed: int | None
    can_add: bool


class FindingsMessage(TypedDict):
    """The findings of a variant, largest gain first, or an error.

    Attributes:
      summary: the number of findings and the largest gain; "" without findings.
      rows: the findings; the last `folded` of them have a small or unknown gain.
      folded_words: their number in words.
      looked_for: descriptions of the kinds that were looked for.
      unknown: the kinds that could not be looked for, each with the reason.
    """

    type: Literal["findings"]
    variant: int
    summary: str
    rows: list[FindingRow]
    folded: int
    folded_words: str
    looked_for: list[str]
    unknown: list[str]
    error: messages.Error | None


class Proving(TypedDict):
    """The state of the proofs of a variant's findings.

    Attributes:
      row: the finding that is being proven; None for several.
    """

    type: Literal["proving"]
    variant: int
    row: int | None
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None


class FindingsRequest(TypedDict):
    """Requests the findings of a variant, with gains by the present estimates."""

    type: Literal["findings"]
    variant: int


class ProveRequest(TypedDict):
    """Proves a finding, or all that were not tried, or stops the proofs of a variant.

    Attributes:
      row: the finding, by its position in `FindingsMessage.rows`; None for all that are not folded.
      time_limit_s: seconds after which the running proof is stopped, and no further one is begun.
    """

    type: Literal["prove"]
    variant: int
    do: Literal["start", "stop"]
    row: int | None
    time_limit_s: float


class AddChangedRequest(TypedDict):
    """Adds the changed program of a proof as a variant."""

    type: Literal["add_changed"]
    variant: int
    row: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Proofs:
    """The running proofs of a variant."""

    job: Job[None]
    row: int | None

    def cancel(self) -> None:
        """Stops the proofs."""
        self.job.cancel()


class FindingsPane(CountedPane):
    """Sends the findings of each variant, and proves them in the background."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is examined yet."""
        super().__init__(name, context)
        self._found: dict[int, Findings] = {}
        self._jobs: RunningJobs[_Proofs] = RunningJobs(context)
        self._changed: dict[tuple[int, int], int] = {}
        """The variant with the changed program, by variant and the id of the proof."""
        self._pause: threading.Timer | None = None
        if (watch := context.work().retraces) is not None:
            watch.add_listener(self._on_retrace)

    def answer(self, request: FindingsRequest | ProveRequest | AddChangedRequest) -> None:
        """Starts the requested work and returns."""
        if request["type"] == "findings":
            return super().answer(request)
        variant = self.context.variant(request["variant"])
        if request["type"] == "add_changed":
            row = request["row"]
            return self.context.later(lambda: self._add(variant, self._rows(variant)[row]))
        if request["do"] == "stop":
            return self.cancel(variant)
        return self.context.later(lambda: self._prove(variant, request["row"], request["time_limit_s"]))

    def reply(self, request: FindingsRequest) -> FindingsMessage:
        """Returns the findings of a variant, or the error."""
        try:
            variant = self.context.variant(request["variant"])
            further = self.context.work().watched_findings(variant.lowered)
            found = findings_under(variant.compiled_now, proofs=variant.proofs, further=further)
            with self.context.lock:
                if self.context.holds(variant):
                    self._found[variant.number] = found
            return self._message(variant)
        except Exception as error:  # the pane shows any error
            return _message(request["variant"], None, [], error=error)

    def recordable(self, variant: Variant, *, is_whole: bool) -> Iterator[FindingsRequest]:  # noqa: ARG002
        """Yields the request for the findings, unless a browser made it."""
        if variant.number not in self._found:
            yield FindingsRequest(type="findings", variant=variant.number)

    def excerpts(self, variant: Variant) -> Iterator[Excerpt]:
        """Returns the findings that are known, with their verdicts."""
        found = self._found.get(variant.number)
        if found:
            yield Excerpt(found.summary, "\n\n".join(map(_text, found)))

    def cancel(self, variant: Variant) -> None:
        """Stops the variant's proofs; those that are done remain."""
        self._jobs.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's findings."""
        stop = self._jobs.forget(variant)
        self._found.pop(variant.number, None)
        shown = [key[0] for key, changed in self._changed.items() if changed == variant.number]
        self._changed = {
            key: changed for key, changed in self._changed.items() if variant.number not in (key[0], changed)
        }
        for number in shown:
            self.context.later(lambda number=number: self._show(number))  # type: ignore[misc]
        super().forget(variant)
        return stop

    def close(self) -> None:
        """Stops all proofs."""
        super().close()
        with self.context.lock:
            if self._pause is not None:
                self._pause.cancel()
            self._found.clear()
        self._jobs.close()

    def _on_retrace(self) -> None:
        """Schedules new messages, on the thread that traces; retraces in the meantime go into the same ones."""
        with self.context.lock:
            if self._pause is None and self._found:
                self._pause = threading.Timer(_PAUSE_S, self._after_retraces)
                self._pause.daemon = True
                self._pause.start()

    def _after_retraces(self) -> None:
        """Sends the findings again of each variant for which the calls since then add another one."""
        with self.context.lock:
            self._pause = None
            shown = [
                (number, {each.title for each in self._rows(self.context.variant(number))}) for number in self._found
            ]
        for number, titles in shown:
            watched = self.context.work().watched_findings(self.context.variant(number).lowered)
            if any(each.title not in titles for each in watched):
                self.answer(FindingsRequest(type="findings", variant=number))

    def _rows(self, variant: Variant) -> Sequence[Finding]:
        found = self._found.get(variant.number)
        return () if found is None else (*found.items, *found.folded)

    def _prove(self, variant: Variant, row: int | None, time_limit_s: float) -> None:
        """Starts the proofs, on the Explorer's thread."""
        found, rows = self._found.get(variant.number), self._rows(variant)
        if found is None or ((known := self._jobs.get(variant)) and not known.job.done()):
            return
        wanted = [each for each in found if not _verdict(each.proof)] if row is None else [rows[row]]

        def proved(finding: Finding) -> None:
            self.context.later(lambda: self._proved(variant, finding, is_added=row is not None))

        try:
            job = begin_proofs(wanted, time_limit_s, proved, self.context.work().engine_of_proofs(variant.target))
        except Exception as error:  # the pane shows any error
            self.context.publish(_proving(variant.number, row, None, error))
            return
        running = _Proofs(job, row)
        if not self._jobs.keep(variant, running):
            return
        self._advance(variant, running)
        job.add_progress_callback(lambda _: self.context.later(lambda: self._advance(variant, running)))
        job.add_done_callback(lambda _: self.context.later(lambda: self._end(variant, running)))

    def _advance(self, variant: Variant, running: _Proofs) -> None:
        if self._jobs.get(variant) is running and not running.job.done():
            self.context.publish(_proving(variant.number, running.row, running.job))

    def _end(self, variant: Variant, running: _Proofs) -> None:
        if self._jobs.get(variant) is running:
            self.context.publish(_proving(variant.number, running.row, running.job))
            self._show(variant.number)
            self.context.recorded()

    def _proved(self, variant: Variant, finding: Finding, *, is_added: bool) -> None:
        """Shows a verdict, and adds the changed program of a single proof as a variant."""
        if is_added and self.context.holds(variant) and _is_changed(finding.proof):
            self._add(variant, finding)
        else:
            self._show(variant.number)

    def _add(self, variant: Variant, finding: Finding) -> None:
        proof = finding.proof
        if proof is None or proof.compiled is None or variant.lowered is None:
            return
        key = (variant.number, id(proof))
        if key not in self._changed:
            program = proof.compiled.program
            is_same = program == variant.lowered.program  # only flags were changed
            lowered = variant.lowered if is_same else changed_lowered(variant.lowered, program)
            origin = f"remedy: {finding.kind}"
            self._changed[key] = self.context.start_changed(lowered, proof.compiled.options, variant, origin).number
        self._show(variant.number)

    def _show(self, number: int) -> None:
        """Sends the findings again."""
        if number in self._found:
            self.context.publish(self._message(self.context.variant(number)))

    def _message(self, variant: Variant) -> FindingsMessage:
        found = self._found.get(variant.number)
        rows = [self._row(variant, each) for each in self._rows(variant)]
        return _message(variant.number, found, rows)

    def _row(self, variant: Variant, finding: Finding) -> FindingRow:
        proof = finding.proof
        changed = None if proof is None else self._changed.get((variant.number, id(proof)))
        return FindingRow(
            kind=finding.kind,
            title=finding.title,
            gain=finding.gain,
            gain_source=finding.gain_source,
            share=finding.weight or finding.compile_share,
            remedy=finding.remedy,
            caution=finding.caution,
            instructions=[*finding.instructions],
            source=source_line(finding.frames),
            no_proof=finding.edits.reason if isinstance(finding.edits, Unavailable) else "",
            verdict=_verdict(proof),
            proof="" if proof is None else str(proof),
            changed=changed,
            can_add=changed is None and _is_changed(proof) and variant.lowered is not None,
        )


def _verdict(proof: Proof | None) -> Literal["", "proven", "different results", "no gain", "worse", "cannot be tried"]:
    """Returns the verdict of a proof; "" for a finding that can be tried or tried again."""
    return "" if proof is None or proof.verdict == "not tried" else proof.verdict


def _is_changed(proof: Proof | None) -> bool:
    return proof is not None and proof.compiled is not None


def _message(
    variant: int, found: Findings | None, rows: list[FindingRow], error: BaseException | None = None
) -> FindingsMessage:
    return FindingsMessage(
        type="findings",
        variant=variant,
        summary="" if found is None else found.summary,
        rows=rows,
        folded=0 if found is None else len(found.folded),
        folded_words="" if found is None else found.folded_words,
        looked_for=[] if found is None else [_FINDS[kind] for kind in found.kinds],
        unknown=[] if found is None else [*found.unknown],
        error=None if error is None else messages.error_of(error),
    )


def _proving(variant: int, row: int | None, job: Job[None] | None, error: BaseException | None = None) -> Proving:
    state: messages.State = "failed" if job is None else state_of(job)
    failure = job.exception() if job is not None and state == "failed" else error
    return Proving(
        type="proving",
        variant=variant,
        row=row,
        state=state,
        stage="" if job is None else job.stage,
        elapsed_s=0.0 if job is None else job.elapsed_s,
        error=None if failure is None or isinstance(failure, CancelledError) else messages.error_of(failure),
    )


def _text(finding: Finding) -> str:
    lines = [finding.title, f"  gain: {finding.gain}"]
    line = source_line(finding.frames)
    lines += [] if line is None else [f"  line: {line['file']}:{line['line']}"]
    lines += [f"  remedy: {finding.remedy}".replace("\n", "\n    ")]
    lines += [f"  caution: {finding.caution}"] if finding.caution else []
    lines += [] if finding.proof is None else [f"  proof: {finding.proof}"]
    return "\n".join(lines)
