"""`Finding`: one thing that the user can change in a program, and what it would gain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.analysis.findings.edits import Edit
from inspector.errors import Unavailable
from inspector.hlo.source import Frame, line_text
from inspector.support.units import format_bytes, format_seconds

BY_HAND = Unavailable("this change cannot be made automatically")
LEAST_SHARE = 0.01
"""Smallest share of the time, or of the peak memory, for which a finding is shown."""

_LEAST_COMPILE_SHARE = 0.25
_FIRST = "over-memory"
_LEAST_BYTES, _LEAST_S = 1024, 1e-9
_LEAST_RETRACED_S = 0.1
_FULL, _LEAST_MEMORY_WEIGHT = 0.5, 0.25  # below this share of the device's memory, savings of memory count less


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """One thing that the user can change.

    Attributes:
      kind: name of the detector, such as "undonated".
      title: one sentence in the user's words.
      instructions: names of the instructions in the optimized HLO that show it.
      frames: the call stack of the source line, innermost first; () for an argument.
      remedy: code to write, or a flag.
      gain_s: seconds of one execution that the remedy saves, by the cost model of `roofline`; Unavailable without roofs.
      gain_bytes: bytes of one device's memory that it saves, an upper bound for the peak unless `has_estimated_bytes`; negative for a cost.
      share: the share of the program's time that it saves; of the accessed bytes if there are no roofs. From 0 to 1.
      byte_share: the share of the peak memory that it saves. From 0 to 1.
      gain_source: what the gain is computed from.
      caution: the reason for which the program may be as it is on purpose, or what the remedy costs; "" if there is none.
      edits: what a proof changes; Unavailable if the change cannot be made automatically.
      compile_s: seconds of the compile that it saves.
      compile_share: the share of the compile's time that it saves. From 0 to 1.
      is_watched: whether calls showed it while they were watched, not the program. The compiles are then those of all calls.
      is_upper_bound: whether `gain_s`, `share` and `compile_s` are upper bounds. Only a proof shows the gain.
      is_of_iteration: whether `gain_s` and `share` are those of one iteration of a loop of unknown length.
    """

    kind: str
    title: str
    instructions: tuple[str, ...]
    frames: tuple[Frame, ...]
    remedy: str
    gain_s: float | Unavailable
    gain_bytes: int
    share: float
    byte_share: float
    gain_source: str
    caution: str = ""
    edits: tuple[Edit, ...] | Unavailable = BY_HAND
    compile_s: float = 0.0
    compile_share: float = 0.0
    is_watched: bool = False
    is_upper_bound: bool = False
    is_of_iteration: bool = False
    has_estimated_bytes: bool = False

    @property
    def weight(self) -> float:
        """The share of the time or of the peak memory that it saves, whichever is larger. From 0 to 1."""
        return max(self.share, self.byte_share)

    @property
    def is_small(self) -> bool:
        """True if it saves less than 1 % of the time and of the peak memory, and less than a quarter of the compile's time.

        A peak over the device's memory is never small. A finding with an unknown gain is small too. In a program of a few bytes it is also small if it saves less than 1 KiB and 1 ns. One that a watch found is small if it
        saves less than 0.1 s of traces and compiles.
        """
        if self.kind == _FIRST:
            return False  # the program cannot run, however little is missing
        if self.is_watched:
            return self.compile_s < _LEAST_RETRACED_S
        if self.compile_share >= _LEAST_COMPILE_SHARE:
            return False
        is_tiny = self.gain_bytes < _LEAST_BYTES and not isinstance(self.gain_s, Unavailable) and self.gain_s < _LEAST_S
        return self.weight < LEAST_SHARE or is_tiny

    @property
    def is_unknown(self) -> bool:
        """True if neither the time nor the memory that it saves is known, for example without the speed of the links."""
        return not (self.share or self.gain_bytes or self.compile_s)

    @property
    def time_word(self) -> str:
        """The quantity that `share` is a part of: "time", or "accessed bytes" if there are no roofs."""
        return "accessed bytes" if isinstance(self.gain_s, Unavailable) else "time"

    @property
    def compile_word(self) -> str:
        """The quantity that `compile_share` is a share of: the compile of the program, or all traces and compiles that were watched."""
        return "traces and compiles" if self.is_watched else "compile"

    @property
    def gain(self) -> str:
        """The gain in a few words, such as "about 1.2 ms (14 % of the time), up to 96 MiB"."""
        parts = []
        if self.share > 0:
            share = f"{100 * self.share:.0f} % of {'its' if self.is_of_iteration else 'the'} {self.time_word}"
            each = " in each iteration" * self.is_of_iteration
            if isinstance(self.gain_s, Unavailable):
                parts.append(f"up to {share}" if self.is_upper_bound else share)
            else:
                parts.append(
                    f"{'up to' if self.is_upper_bound else 'about'} {format_seconds(self.gain_s)}{each} ({share})"
                )
        if self.gain_bytes > 0:
            parts.append(f"{'about' if self.has_estimated_bytes else 'up to'} {format_bytes(self.gain_bytes)}")
        elif self.gain_bytes < 0:
            parts.append(f"costs {format_bytes(-self.gain_bytes)}")
        if self.compile_s > 0:
            share = f"{100 * self.compile_share:.0f} %"
            about = "up to" if self.is_upper_bound else "about"
            parts.append(f"{about} {format_seconds(self.compile_s)} of the {self.compile_word} ({share})")
        return ", ".join(parts) or "unknown"

    def __repr__(self) -> str:
        place = f", {line}" if (line := line_text(self.frames)) else ""
        return f"<{self.kind}: {self.title} Gain: {self.gain}{place}>"


def _memory_weight(fullness: float | None) -> float:
    """Returns how much a share of the peak memory counts beside a share of the time, from 1/4 to 1.

    Args:
      fullness: the peak memory relative to the device's memory; None if that is unknown.
    """
    return 1.0 if fullness is None else max(_LEAST_MEMORY_WEIGHT, min(1.0, fullness / _FULL))


def ranked(findings: Sequence[Finding], fullness: float | None = None) -> list[Finding]:
    """Returns findings by their weight, largest first, then by the time of the compile that they save.

    Half of an upper bound, or of the share of an iteration, counts, and memory counts less if the device has much room left. A program that
    does not fit into the device's memory cannot run, so that comes first.

    Args:
      findings: the findings of one program.
      fullness: its peak memory relative to the device's memory; None if that is unknown.
    """
    of_memory = _memory_weight(fullness)

    def key(each: Finding) -> tuple[bool, float, float, int, str, str]:
        share = each.share / 2 if each.is_upper_bound or each.is_of_iteration else each.share
        return (
            each.kind != _FIRST,
            -max(share, of_memory * each.byte_share),
            -each.compile_share,
            -each.gain_bytes,
            each.kind,
            each.title,
        )

    return sorted(findings, key=key)
