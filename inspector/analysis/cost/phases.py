"""The phase of each instruction in a differentiated program: forward, backward, recomputed, or the rest.

JAX marks the phase in its name stack (`hlo/source.py`). Before optimization, names in a called function are relative to
that function, so the phases of the calls that lead to an instruction count too.
"""

from __future__ import annotations

from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.source import PHASES, phases

# In order of precedence, lowest first: a forward operation that is called from the backward pass is backward.
_STRENGTH = ("rest", "forward", "backward", "recomputed")


class Phases:
    """The phases of one module's instructions."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._calls: dict[str, frozenset[str]] = {}
        self._known: dict[tuple[str, frozenset[str]], tuple[str, ...]] = {}

    def of(self, instruction: Instruction, op_name: str | None = None) -> tuple[str, ...]:
        """Returns the phases of an instruction, in the order of `PHASES`; () if unknown.

        Args:
          instruction: an instruction of the module.
          op_name: name to use instead of the instruction's own.
        """
        return self.below(instruction.op_name if op_name is None else op_name, self.calling(instruction.computation))

    def below(self, op_name: str, calling: frozenset[str]) -> tuple[str, ...]:
        """Returns the phases of an operation by its name, in a computation that is called in the phases `calling`."""
        key = op_name, calling
        if key not in self._known:
            unordered = _within(phases(op_name), calling)
            self._known[key] = tuple(phase for phase in PHASES if phase in unordered)
        return self._known[key]

    def calling(self, computation: Computation) -> frozenset[str]:
        """Returns the phases of the calls that lead to a computation."""
        if computation.name not in self._calls:
            self._calls[computation.name] = frozenset()  # until its callers are known
            callers = self._module.callers.get(computation.name, ())
            self._calls[computation.name] = frozenset().union(*map(self._called_by, callers)) or frozenset({"rest"})
        return self._calls[computation.name]

    def _called_by(self, caller: Instruction) -> frozenset[str]:
        above = self.calling(caller.computation)
        return _within(phases(caller.op_name) or ("rest",), above) if caller.opcode == "call" else above


def _within(own: tuple[str, ...], above: frozenset[str]) -> frozenset[str]:
    return frozenset(max(phase, outer, key=_STRENGTH.index) for phase in own for outer in above)


def phases_text(phases: tuple[str, ...]) -> str | None:
    """Formats phases for a table: "forward + backward" for an instruction that XLA merged from both; None if unknown."""
    return " + ".join(phases) or None
