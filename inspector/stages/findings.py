"""`Findings`: what the user can change in a program, with proofs that compile it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from inspector.analysis.findings.finding import Finding as Found
from inspector.analysis.findings.finding import ranked
from inspector.analysis.findings.registry import DETECTORS, KINDS
from inspector.analysis.findings.subject import Subject
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import EngineLike
from inspector.compilation.program import Program
from inspector.errors import InspectorError, ParameterError, Unavailable, needs_jax
from inspector.hlo.module import Module
from inspector.hlo.source import own_frame
from inspector.stages.proof import Estimate, Proof, prove
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import short, with_hint
from inspector.support.tables import Tabular
from inspector.support.units import counted

if TYPE_CHECKING:
    import pandas as pd


_SHOWN = 3  # in the text repr


class _Proofs:
    """The proofs of a program's findings, by finding. They are made once."""

    def __init__(self, compiled: CompiledProgram, estimated_s: Estimate) -> None:
        self.compiled, self.estimated_s = compiled, estimated_s
        self._done: dict[Found, Proof] = {}
        self._lock = threading.Lock()

    def get(self, finding: Found) -> Proof | None:
        return self._done.get(finding)

    def prove(self, finding: Found, engine: EngineLike | None, run: bool | None) -> Proof:
        from inspector.engines.choice import engine_for

        with self._lock:
            known = self._done.get(finding)
            if known is None:
                chosen = engine_for(engine, self.compiled.program, self.compiled.target)
                runs = self.compiled.program.platform == "cpu" if run is None else run
                known = self._done[finding] = prove(finding, self.compiled, chosen, self.estimated_s, run=runs)
            return known


class Finding(Found):
    """One thing that the user can change. Its fields are described at `inspector.analysis.findings.finding.Finding`."""

    __slots__ = ("_proofs",)
    _proofs: _Proofs

    @property
    def proof(self) -> Proof | None:
        """The result of `prove`; None if it was not called."""
        return self._proofs.get(self)

    @needs_jax("Proving a finding")
    def prove(self, engine: EngineLike | None = None, run: bool | None = None) -> Proof:
        """Compiles the program with the remedy and compares memory, time and results. A second call returns the same proof.

        Args:
          engine: the engine, as for `Lowered.compile`; None for the default.
          run: whether to run both programs, on generated inputs, to compare times and results; None to run them on CPUs only.
            Times are estimated otherwise.
        """
        return self._proofs.prove(self, engine, run)


def _with_proofs(found: Found, proofs: _Proofs) -> Finding:
    made = Finding(**{field.name: getattr(found, field.name) for field in dataclasses.fields(Found)})
    object.__setattr__(made, "_proofs", proofs)
    return made


class Findings(Tabular):
    """The findings of a program, largest gain first.

    Those that save less than 1 % of the time and of the peak memory are folded away: `folded` has them.

    Attributes:
      items: the findings.
      folded: findings with a small gain.
      unknown: detectors that failed, each with the reason.
    """

    def __init__(self, items: tuple[Finding, ...], folded: tuple[Finding, ...], unknown: tuple[str, ...]) -> None:
        """Stores the findings."""
        self.items, self.folded, self.unknown = items, folded, unknown

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
          time_limit_s: seconds after which no further proof is begun.
          engine: the engine, as for `Lowered.compile`; None for the default.
        """
        end = time.monotonic() + time_limit_s
        for finding in self.items:
            if time.monotonic() > end:
                break
            finding.prove(engine)
        return self

    def __repr__(self) -> str:
        lines = [f"{each.title} Gain: {each.gain}. {_verdict(each)}".strip() for each in self.items[:_SHOWN]]
        more = len(self.items) - len(lines)
        text = f"<Findings: {counted(len(self.items), 'finding')}" if self.items else "<Findings: none"
        if self.folded:
            text += f", {len(self.folded)} with a gain below 1 % in .folded"
        text += "".join(f"\n  {number}. {line}" for number, line in enumerate(lines, 1)) + (
            f"\n  … {more} more" if more else ""
        )
        return with_hint(f"{text}>", ".table(), [0].prove(), .prove()")


def _verdict(finding: Finding) -> str:
    return "" if finding.proof is None else f"Proof: {finding.proof}."


FINDING_COLUMNS: TableDescription[Finding] = TableDescription(
    TableColumn("kind", "text", lambda f: f.kind),
    TableColumn("title", "text", lambda f: f.title),
    TableColumn("gain_s", "float", lambda f: f.gain_s),
    TableColumn("gain_bytes", "int", lambda f: f.gain_bytes),
    TableColumn("share", "float", lambda f: f.share),
    TableColumn("instructions", "object", lambda f: f.instructions),
    TableColumn("source_file", "text", lambda f: frame.file if (frame := own_frame(f.frames)) else None),
    TableColumn("source_line", "int", lambda f: frame.line if (frame := own_frame(f.frames)) else None),
    TableColumn("remedy", "text", lambda f: f.remedy),
    TableColumn("caution", "text", lambda f: f.caution or None),
    TableColumn("verdict", "text", lambda f: "not tried" if f.proof is None else str(f.proof)),
)


def findings_of(subject: Subject, kinds: Collection[str] | None, estimated_s: Estimate) -> Findings:
    """Returns the findings of a program. See `Compiled.findings`.

    Args:
      subject: the program with its analyses.
      kinds: the kinds to look for; None for all.
      estimated_s: returns the estimated seconds of one execution of a program.

    Raises:
      ParameterError: an unknown kind.
    """
    if kinds is not None and (wrong := [kind for kind in kinds if kind not in KINDS]):
        raise ParameterError(f"Unknown kind {', '.join(map(short, wrong))}. Kinds: {', '.join(KINDS)}.")
    found, unknown = list[Found](), list[str]()
    for detector in DETECTORS:
        if kinds is not None and detector.kind not in kinds:
            continue
        try:
            found.extend(detector.find(subject))
        except InspectorError as error:
            unknown.append(f"{detector.kind}: {error}")
    proofs = _Proofs(subject.compiled, estimated_s)
    all_found = [_with_proofs(each, proofs) for each in ranked(found)]
    return Findings(
        tuple(each for each in all_found if not each.is_small),
        tuple(each for each in all_found if each.is_small),
        tuple(unknown),
    )


def module_before(program: Program) -> Module | Unavailable:
    """Returns the HLO of a program before optimization; Unavailable for a program without StableHLO."""
    from inspector._jax.modules import module_contents

    if program.no_stablehlo is not None:
        return program.no_stablehlo
    try:
        return Module.from_proto(module_contents.forms(program.module).hlo_proto)
    except (InspectorError, ImportError) as error:
        return Unavailable(f"its StableHLO cannot be converted: {error}")
