"""Proves the findings of the programs with mistakes on this machine's CPU, and compares the gains.

`python -m tests.findings.corpus.proofs` prints a line for each; with names, only those. Programs that were recorded cannot be
traced again, so that all of them are compiled.
"""

from __future__ import annotations

import sys
import traceback

from inspector.errors import Unavailable
from inspector.support.units import format_bytes, format_seconds
from tests.findings.corpus.cases import CPU, CPUS
from tests.findings.corpus.record import cases, compiled

_LIMIT_S = 60.0


def main(names: list[str]) -> None:
    for case in cases():
        for target in {CPU, CPUS} & {*case.on}:
            if names and case.name not in names:
                continue
            try:
                findings = compiled(case, target).findings(kinds=[case.planted])
            except Exception:
                traceback.print_exc(limit=-3)
                continue
            for finding in (*findings, *findings.folded):
                run = True if case.planted == "callback-in-loop" else None
                proof = finding.prove(time_limit_s=_LIMIT_S, run=run)
                line = [case.planted, case.name, target, proof.verdict, f"said {finding.gain}"]
                if finding.gain_bytes > 0 and proof.gain_bytes:
                    line.append(
                        f"{format_bytes(finding.gain_bytes)} said, {format_bytes(abs(proof.gain_bytes))} proven"
                        f" ({proof.gain_bytes / finding.gain_bytes:.2f})"
                    )
                if not isinstance(proof.gain_s, Unavailable):
                    said = "unknown" if isinstance(finding.gain_s, Unavailable) else format_seconds(finding.gain_s)
                    line.append(
                        f"{said} said, {proof.gain_s * 1e3:.3f} ms {'measured' if proof.is_measured else 'estimated'}"
                    )
                print(" | ".join([*line, proof.reason, str(proof.values)]), flush=True)
            if not findings and not findings.folded:
                print(f"{case.planted} | {case.name} | {target} | not found", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
