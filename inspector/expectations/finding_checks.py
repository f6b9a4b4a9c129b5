"""Checks of findings: there is nothing to change that would gain more than a limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.analysis.findings.finding import LEAST_SHARE
from inspector.errors import ParameterError, Unavailable
from inspector.expectations.check_result import CheckResult
from inspector.hlo.source import line_text
from inspector.stages.findings import Finding, Findings
from inspector.support.notebook import short
from inspector.support.units import counted, parse_bytes, parse_seconds


@dataclasses.dataclass(frozen=True, slots=True)
class LargestGain:
    """The largest allowed gain of a finding, in one of three units.

    Attributes:
      text: the limit in words.
      share: of the time or of the peak memory, from 0 to 1.
      byte_size: bytes of one device's memory.
      seconds: seconds of one execution.
    """

    text: str
    share: float | None = None
    byte_size: float | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, above: object) -> LargestGain:
        """Parses a limit such as "2 %", "1 MiB" or "1 ms"; None for the gain from which findings are shown.

        Raises:
          ParameterError: none of these.
        """
        if above is None:
            return cls(f"{100 * LEAST_SHARE:.0f} %", share=LEAST_SHARE)
        text = " ".join(above.split()) if isinstance(above, str) else ""
        if text.endswith("%"):
            try:
                return cls(text, share=float(text.removesuffix("%")) / 100)
            except ValueError:
                pass
        elif text and not text[-1].isdigit():
            for name, parse in (("byte_size", parse_bytes), ("seconds", parse_seconds)):
                try:
                    return cls(text, **{name: parse(text)})
                except ParameterError:
                    continue
        raise ParameterError(
            f"above is {short(above)}. Expected bytes, seconds or percent, such as '1 MiB', '1 ms', '2 %'."
        )

    def is_exceeded(self, finding: Finding) -> bool | Unavailable:
        """Reports whether a finding gains more; Unavailable if its time is unknown."""
        if self.byte_size is not None:
            return finding.gain_bytes > self.byte_size
        if self.seconds is not None:
            gain_s = finding.gain_s
            return gain_s if isinstance(gain_s, Unavailable) else gain_s > self.seconds
        return self.share is None or finding.weight >= self.share


def check(findings: Findings, above: LargestGain) -> CheckResult:
    """Checks that no finding gains more than a limit."""
    judged = [(each, above.is_exceeded(each)) for each in (*findings.items, *findings.folded)]
    against = [each for each, exceeds in judged if exceeds is True]
    unknown = [exceeds.reason for _, exceeds in judged if isinstance(exceeds, Unavailable)]
    unknown += [f"not looked for {reason}" for reason in findings.unknown]
    is_met: bool | Unavailable = not against
    if unknown and not against:
        is_met = Unavailable("; ".join(dict.fromkeys(unknown)))
    return CheckResult(
        "findings" if len(findings.kinds) > 2 else f"findings of {' and '.join(findings.kinds)}",
        f"none with a gain above {above.text}",
        counted(len(against), "finding") if against or not unknown else "unknown",
        is_met,
        advice="\n  ".join(_lines(against)),
    )


def _lines(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for number, each in enumerate(findings, 1):
        lines.append(f"{number}. {each.title}")
        if place := line_text(each.frames):
            lines.append(f"   line: {place}")
        lines.append(f"   gain: {each.gain}")
        lines.append("   remedy: " + each.remedy.replace("\n", "\n     "))
    return lines
