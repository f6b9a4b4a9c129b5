"""Proves the findings of the programs with mistakes, and compares the gains that findings state with those of their proofs.

`python -m tests.findings.corpus.proofs` prints a line for each finding in the programs for CPUs, and the numbers of verdicts; with names of
programs, kinds or targets, only those. `--run` runs the programs for CPUs and compares their results too. A recorded program cannot be traced
again, so that all of them are compiled.

Times on CPUs are estimated with the figures of an H100, for the finding and for its proof, because those that a busy machine measures differ
between runs; sorts have the figures of this machine, because the CPU's take the time of their comparisons.
"""

from __future__ import annotations

import collections
import sys
import traceback

import inspector
from inspector.errors import Unavailable
from inspector.support.units import format_bytes, format_seconds
from tests.findings.corpus.cases import CPU, CPUS, EIGHT, ONE, Case
from tests.findings.corpus.record import cases, compiled
from tests.findings.examined import peak

_LIMIT_S = 60.0
_COMPARING = ("sort-for-top-k",)
_MOST_OFF = 0.1


def compared(case: Case, target: str, run: bool) -> list[str]:
    """Returns a line for each finding of a program."""
    on_cpus = target in (CPU, CPUS)
    roofs = None if not on_cpus else inspector.measured_peak() if case.planted in _COMPARING else peak("gpu:h100:8")
    findings = compiled(case, target).findings(None if run and on_cpus else roofs, kinds=[case.planted])
    lines = []
    for finding in (*findings, *findings.folded):
        proof = finding.prove(time_limit_s=_LIMIT_S, run=run and on_cpus)
        words, ratios = [case.planted, case.name, target, str(proof)], []
        if finding.gain_bytes > 0 and proof.gain_bytes:
            ratios.append(proof.gain_bytes / finding.gain_bytes)
            words.append(f"{format_bytes(finding.gain_bytes)} said, {format_bytes(abs(proof.gain_bytes))} proven")
        if finding.share and not isinstance(finding.gain_s, Unavailable) and not isinstance(proof.gain_s, Unavailable):
            ratios.append(proof.gain_s / finding.gain_s)
            words.append(f"{format_seconds(finding.gain_s)} said, {format_seconds(abs(proof.gain_s))} proven")
        words.append(", ".join(f"{ratio:.2f}" for ratio in ratios))
        is_off = any(abs(ratio - 1) > _MOST_OFF for ratio in ratios)
        kind = " | UP TO" if finding.is_upper_bound and max(ratios, default=0.0) <= 1 + _MOST_OFF else " | OFF"
        lines.append(" | ".join(words) + kind * is_off)
    return lines or [f"{case.planted} | {case.name} | {target} | not found"]


def main(arguments: list[str]) -> None:
    targets = [each for each in arguments if each in (*ONE, *EIGHT)] or [CPU, CPUS]
    names = [each for each in arguments if each != "--run" and each not in targets]
    verdicts = collections.Counter[str]()
    for target in targets:
        for case in cases():
            if target in case.on and (not names or {case.name, case.planted} & {*names}):
                try:
                    lines = compared(case, target, "--run" in arguments)
                except Exception:
                    traceback.print_exc(limit=-3)
                    lines = [f"{case.planted} | {case.name} | {target} | failed"]
                print(*lines, sep="\n", flush=True)
                verdicts.update(line.split(" | ")[3].partition(":")[0] for line in lines)
                verdicts.update("more than 10 % off" for line in lines if line.endswith("OFF"))
                verdicts.update("at least 10 % below their upper bound" for line in lines if line.endswith("UP TO"))
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))


if __name__ == "__main__":
    main(sys.argv[1:])
