"""`Findings`: what the user can change in a program, with proofs that compile it."""

from __future__ import annotations

import dataclasses
import html
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from inspector.analysis.findings.finding import BY_HAND, LEAST_SHARE, ranked
from inspector.analysis.findings.finding import Finding as Found
from inspector.analysis.findings.registry import DETECTORS, KINDS
from inspector.analysis.findings.subject import Subject
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Engine, EngineLike, Job
from inspector.compilation.program import Program
from inspector.compilation.request import CompileRequest, RunReply, RunRequest
from inspector.errors import CancelledError, InspectorError, ParameterError, Unavailable, needs_jax
from inspector.hlo.module import Module
from inspector.hlo.source import line_text, own_frame
from inspector.settings import check_time_limit
from inspector.stages.proof import Estimate, Proof, cannot_be_tried, not_tried, prove
from inspector.stages.proof_time import ProofTime
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import code_html, described, short, with_hint
from inspector.support.tables import Tabular
from inspector.support.units import counted

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

_SHOWN = 3  # in the text repr


class Proofs:
    """The proofs of a program's findings. They are made once, and stay when the gains are estimated again."""

    def __init__(self) -> None:
        self._done: dict[_Key, Proof] = {}
        self._ran: set[_Key] = set()
        self._lock = threading.Lock()

    def get(self, finding: Found) -> Proof | None:
        """Returns the proof of a finding; None if it was not tried."""
        return self._done.get(_key(finding))

    def prove(
        self, finding: Found, about: _Program, engine: EngineLike | None, run: bool | None, time: ProofTime
    ) -> Proof:
        """Returns the proof of a finding. Arguments as for `Finding.prove`."""
        with self._lock:
            key, known = _key(finding), self.get(finding)
            if known is None or known.is_stopped or (run and key not in self._ran):
                chosen = _engine(about, engine)
                program = about.compiled.program
                runs = program.platform == "cpu" and not program.host_callbacks if run is None else run
                known = prove(finding, about.compiled, chosen, about.estimated_s, run=runs, time=time)
                self._done[key] = known
                if runs:
                    self._ran.add(key)
            return known

    def leave(self, finding: Found, time: ProofTime) -> None:
        """Notes that a finding was not tried because the time limit was over, unless it was tried before."""
        with self._lock:
            known = self.get(finding)
            if known is None or known.verdict == "not tried":
                self._done[_key(finding)] = not_tried(time)


_Key = tuple[str, str, tuple[str, ...]]


def _key(finding: Found) -> _Key:
    return finding.kind, finding.title, finding.instructions


@dataclasses.dataclass(frozen=True, slots=True)
class _Program:
    """A program with the function that estimates the seconds of one execution, and the proofs of its findings."""

    compiled: CompiledProgram
    estimated_s: Estimate
    proofs: Proofs


def _engine(about: _Program, engine: EngineLike | None) -> Engine:
    from inspector.engines.choice import engine_for

    return engine_for(engine, about.compiled.program, about.compiled.target)


class Finding(Found):
    """One thing that the user can change. Its fields are described at `inspector.analysis.findings.finding.Finding`."""

    __slots__ = ("_about",)
    _about: _Program | None

    @property
    def proof(self) -> Proof | None:
        """The result of `prove`; None if it was not called."""
        return None if self._about is None else self._about.proofs.get(self)

    @needs_jax("Proving a finding")
    def prove(
        self, engine: EngineLike | None = None, run: bool | None = None, time_limit_s: float | None = None
    ) -> Proof:
        """Compiles the program with the remedy and compares memory, time and results.

        A second call returns the same proof, unless the first was stopped by its time limit, or did not run the programs and the
        second must.

        Args:
          engine: the engine, as for `Lowered.compile`; None for the default.
          run: whether to run both programs, on generated inputs, to compare times and results; None to run them on CPUs only, if
            they do not call back to the host. Times are estimated otherwise.
          time_limit_s: seconds after which the compile or the executions are stopped; None for no limit of the compile, and one
            minute for the executions. Programs whose executions take too long for a measurement have an estimated time.

        Raises:
          ParameterError: the limit is not a positive number.
        """
        check_time_limit(time_limit_s)
        return self._prove_in(ProofTime(time_limit_s), engine, run)

    def _prove_in(self, time: ProofTime, engine: EngineLike | None, run: bool | None = None) -> Proof:
        """Proves in a time that several findings share. Findings of a watch belong to no program, and have no proof."""
        if self._about is None:
            return cannot_be_tried(self.edits.reason if isinstance(self.edits, Unavailable) else BY_HAND.reason)
        return self._about.proofs.prove(self, self._about, engine, run, time)

    def _leave(self, time: ProofTime) -> None:
        """Notes that the time was over."""
        if self._about is not None:
            self._about.proofs.leave(self, time)


def _provable(found: Found, about: _Program | None) -> Finding:
    made = Finding(**{field.name: getattr(found, field.name) for field in dataclasses.fields(Found)})
    object.__setattr__(made, "_about", about)
    return made


class Findings(Tabular):
    """The findings of a program, largest gain first.

    Those that save less than 1 % of the time and of the peak memory, or whose gain is unknown, are folded away: `folded` has
    them.

    Attributes:
      items: the findings.
      folded: findings with a small or unknown gain.
      kinds: the kinds that were looked for.
      unknown: kinds that could not be looked for, each with the reason.
    """

    def __init__(
        self,
        items: tuple[Finding, ...],
        folded: tuple[Finding, ...],
        kinds: tuple[str, ...],
        unknown: tuple[str, ...],
    ) -> None:
        """Stores the findings."""
        self.items, self.folded, self.kinds, self.unknown = items, folded, kinds, unknown

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __getitem__(self, key: int | str) -> Finding:
        """Returns a finding by its position, or the first one of a kind.

        Raises:
          ParameterError: there is none.
        """
        matching = (
            [f for f in self.items if f.kind == key] if isinstance(key, str) else [*self.items[key : key + 1 or None]]
        )
        if not matching:
            kinds = ", ".join(dict.fromkeys(f.kind for f in self.items))
            raise ParameterError(f"No finding {short(key)}. There are {len(self.items)}: {kinds or 'none'}.")
        return matching[0]

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per finding.

        Columns:
          kind: name of the detector.
          title: the finding in a sentence.
          gain_s: seconds of one execution that the remedy saves.
          gain_bytes: bytes of one device's peak memory that it saves.
          share: share of the time that it saves; of the accessed bytes without roofs.
          is_upper_bound: whether `gain_s` and `share` are upper bounds.
          instructions: names of the instructions that show it.
          source_file, source_line: the user's line.
          remedy: code to write, or a flag.
          caution: why it may be on purpose, or what it costs.
          verdict: the proof; "not tried" before `prove`.
        """
        return FINDING_COLUMNS.data_frame(self.items)

    def prove(self, time_limit_s: float = 60.0, engine: EngineLike | None = None) -> Findings:
        """Proves the findings, largest gain first, until the time limit. Returns this value; `table()` has the verdicts.

        Args:
          time_limit_s: seconds after which the running proof is stopped. It and the rest are "not tried", with the reason.
          engine: the engine, as for `Lowered.compile`; None for the default.

        Raises:
          ParameterError: the limit is not a positive number.
        """
        check_time_limit(time_limit_s)
        time = ProofTime(time_limit_s)
        for number, finding in enumerate(self.items, 1):
            time.waiting = len(self.items) - number
            if time.is_over:
                finding._leave(time)  # noqa: SLF001
            else:
                finding._prove_in(time, engine)  # noqa: SLF001
        return self

    @property
    def summary(self) -> str:
        """The number of findings and the largest gain, such as "3 findings: up to 14 % of the time"; "" without findings."""
        if not self.items:
            return ""
        largest = self.items[0]
        shares = {largest.time_word: largest.share, "peak memory": largest.byte_share}
        if largest.weight < LEAST_SHARE and largest.compile_share:
            shares = {largest.compile_word: largest.compile_share}
        quantity = max(shares, key=lambda name: shares[name])
        share = f"{100 * shares[quantity]:.0f} % of the {quantity}"
        is_bound = len(self.items) > 1 or quantity == "peak memory" or largest.is_upper_bound
        return f"{counted(len(self.items), 'finding')}: {'up to ' if is_bound else ''}{share}"

    def __repr__(self) -> str:
        lines = [f"{each.title} Gain: {each.gain}. {_verdict(each)}".strip() for each in self.items[:_SHOWN]]
        more = len(self.items) - len(lines)
        text = (
            f"<{self._heading}"
            + "".join(f"\n  {number}. {line}" for number, line in enumerate(lines, 1))
            + (f"\n  … {more} more" if more else "")
        )
        return with_hint(f"{text}>", ".table(), [0].prove(), .prove()")

    def _repr_html_(self) -> str:
        rows = [
            "".join(
                f'<td style="text-align: left; vertical-align: top">{cell}</td>'
                for cell in (
                    html.escape(each.gain),
                    code_html(each.title) + (f"<br><small>{code_html(each.caution)}</small>" if each.caution else ""),
                    html.escape(line_text(each.frames, is_short=True)),
                    f"<pre>{html.escape(each.remedy)}</pre>",
                    html.escape("not tried" if each.proof is None else str(each.proof)),
                )
            )
            for each in self.items
        ]
        head = "".join(f'<th style="text-align: left">{name}</th>' for name in _HTML_COLUMNS)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return described(with_hint(f"<{self._heading}>", ".table(), [0].prove(), .prove()")).replace(
            "</p>", f"</p>{table}", 1
        )

    @property
    def folded_words(self) -> str:
        """The numbers of findings in `folded`, such as "2 with a gain below 1 %"; "" for none."""
        unknown = sum(each.is_unknown for each in self.folded)
        counts = {"a gain below 1 %": len(self.folded) - unknown, "an unknown gain": unknown}
        return " and ".join(f"{count} with {what}" for what, count in counts.items() if count)

    @property
    def _heading(self) -> str:
        text = f"Findings: {counted(len(self.items), 'finding')}" if self.items else "Findings: none"
        if self.folded:
            text += f", {self.folded_words} in .folded"
        return text + "".join(f"; not looked for {reason}" for reason in self.unknown)


_HTML_COLUMNS = ("gain", "finding", "line", "remedy", "proof")


def _verdict(finding: Finding) -> str:
    return "" if finding.proof is None else f"Proof: {finding.proof}."


FINDING_COLUMNS: TableDescription[Finding] = TableDescription(
    TableColumn("kind", "text", lambda f: f.kind),
    TableColumn("title", "text", lambda f: f.title),
    TableColumn("gain_s", "float", lambda f: f.gain_s),
    TableColumn("gain_bytes", "int", lambda f: f.gain_bytes),
    TableColumn("share", "float", lambda f: f.share),
    TableColumn("is_upper_bound", "bool", lambda f: f.is_upper_bound),
    TableColumn("compile_s", "float", lambda f: f.compile_s),
    TableColumn("instructions", "object", lambda f: f.instructions),
    TableColumn("source_file", "text", lambda f: frame.file if (frame := own_frame(f.frames)) else None),
    TableColumn("source_line", "int", lambda f: frame.line if (frame := own_frame(f.frames)) else None),
    TableColumn("remedy", "text", lambda f: f.remedy),
    TableColumn("caution", "text", lambda f: f.caution or None),
    TableColumn("verdict", "text", lambda f: "not tried" if f.proof is None else str(f.proof)),
)


def findings_of(
    subject: Subject,
    kinds: Collection[str] | None,
    estimated_s: Estimate,
    proofs: Proofs | None = None,
    further: Sequence[Found] = (),
) -> Findings:
    """Returns the findings of a program. See `Compiled.findings`.

    Args:
      subject: the program with its analyses.
      kinds: the kinds to look for; None for all.
      estimated_s: returns the estimated seconds of one execution of a program.
      proofs: the proofs so far; None for none.
      further: further findings, such as those of a watch.

    Raises:
      ParameterError: an unknown kind.
    """
    if kinds is not None and (wrong := [kind for kind in kinds if kind not in KINDS]):
        raise ParameterError(f"Unknown kind {', '.join(map(short, wrong))}. Kinds: {', '.join(KINDS)}.")
    detectors = [detector for detector in DETECTORS if kinds is None or detector.kind in kinds]
    found, unknown = list[Found](), list[str]()
    for detector in detectors:
        try:
            found.extend(detector.find(subject))
        except Exception as error:  # one kind that fails on an unusual program must not hide the others
            unknown.append(f"{detector.kind}: {type(error).__name__}: {error}")
    if isinstance(subject.before, Unavailable):
        unknown.append(f"what needs the HLO before optimization: {subject.before.reason}")
    about = _Program(subject.compiled, estimated_s, proofs or Proofs())
    all_found = [_provable(each, about) for each in ranked([*found, *further], subject.fullness)]
    return Findings(
        tuple(each for each in all_found if not each.is_small),
        tuple(each for each in all_found if each.is_small),
        tuple(detector.kind for detector in detectors),
        tuple(unknown),
    )


def watched_findings(found: Sequence[Found], kinds: Collection[str]) -> Findings:
    """Returns the findings of a watch, which belong to no program.

    Args:
      found: the findings, most expensive first.
      kinds: the kinds that were looked for.
    """
    items = [_provable(each, None) for each in found]
    return Findings(
        tuple(each for each in items if not each.is_small),
        tuple(each for each in items if each.is_small),
        tuple(kinds),
        (),
    )


def begin_proofs(
    findings: Sequence[Finding],
    time_limit_s: float,
    proved: Callable[[Finding], object],
    engine: Engine | None = None,
) -> Job[None]:
    """Starts proving findings in order on a separate thread, and returns at once. Canceling keeps the proofs so far.

    Args:
      findings: the findings of one program.
      time_limit_s: seconds after which the running proof is stopped, and no further one is begun.
      proved: called after each proof, on that thread.
      engine: compiles the changed programs, which are not run; None for the default engine, which runs programs for CPUs.
    """
    stoppable = _Stoppable()
    job: Job[None] = Job(stoppable.stop)

    def work() -> None:
        time = ProofTime(time_limit_s)
        try:
            for number, finding in enumerate(findings, 1):
                time.waiting = len(findings) - number
                if time.is_over:
                    finding._leave(time)  # noqa: SLF001
                    continue
                job.advance(f"proving {number} of {len(findings)}" if len(findings) > 1 else "proving")
                if finding._about is not None:  # noqa: SLF001
                    stoppable.engine = engine or _engine(finding._about, None)  # noqa: SLF001
                finding._prove_in(time, stoppable, None if engine is None else False)  # noqa: SLF001
                proved(finding)
            job.resolve(None)
        except Exception as error:  # the job reports any error
            job.fail(error)

    threading.Thread(target=work, name="inspector-proofs", daemon=True).start()
    return job


class _Stoppable:
    """Passes requests to an engine, until it is stopped."""

    name = "stoppable"
    engine: Engine

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_stopped = False
        self._job: Job[Any] | None = None

    def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
        return self._started(lambda: self.engine.submit(request))

    def run(self, request: RunRequest) -> Job[RunReply]:
        return self._started(lambda: self.engine.run(request))

    def close(self) -> None:
        """Does nothing: the engine belongs to others."""

    def stop(self) -> None:
        """Cancels the running request, and refuses further ones."""
        with self._lock:
            self._is_stopped = True
            job = self._job
        if job is not None:
            job.cancel()

    def _started(self, start: Callable[[], Job[T]]) -> Job[T]:
        with self._lock:
            if self._is_stopped:
                raise CancelledError("The proofs were canceled.")
            self._job = job = start()
            return job


def module_before(program: Program) -> Module | Unavailable:
    """Returns the HLO of a program before optimization; Unavailable for a program without StableHLO."""
    from inspector._jax.modules import module_contents

    if program.no_stablehlo is not None:
        return program.no_stablehlo
    try:
        return Module.from_proto(module_contents.forms(program.module).hlo_proto)
    except (InspectorError, ImportError) as error:
        return Unavailable(f"its StableHLO cannot be converted: {error}")
