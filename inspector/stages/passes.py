"""`CompilerPasses`: the passes of one compile with their analyses as methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from inspector.analysis.passes.follow import Following, History
from inspector.analysis.passes.plot import pass_plot
from inspector.analysis.passes.snapshot_changes import PassChange, pass_change
from inspector.analysis.passes.snapshots import steps
from inspector.compilation.options import pass_switches
from inspector.compilation.options.options import Options
from inspector.compilation.records.passes import Pass, Passes
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.module import Module
from inspector.hlo.source import merged_names
from inspector.support.notebook import short

if TYPE_CHECKING:
    from inspector.analysis.figures import Picture

_PROPAGATIONS = ("shardy-xla", "sharding-propagation")
"""Passes that propagate shardings to every value, directly before partitioning. The names differ between compilers."""


class CompilerPasses(Passes):
    """The passes of one compile. Its fields are those of `Passes`, which a worker process recorded."""

    __slots__ = ("_history", "_optimized", "_whole")

    @classmethod
    def of(cls, passes: Passes, optimized: Callable[[], Module] | None = None) -> Self:
        """Returns recorded passes as `CompilerPasses`; the same value if they are.

        Args:
          passes: the recorded passes.
          optimized: returns the optimized HLO, whose tuple elements some texts of passes leave out; None if unknown.
        """
        if isinstance(passes, cls):
            return passes
        known = cls(**{field.name: getattr(passes, field.name) for field in dataclasses.fields(passes)})
        object.__setattr__(known, "_optimized", optimized)
        return known

    def _operations(self) -> frozenset[str]:
        """Returns the op_names in the optimized HLO; none if it is unknown."""
        optimized: Callable[[], Module] | None = getattr(self, "_optimized", None)
        origins = () if optimized is None else optimized().known_origins
        return frozenset(name for origin in origins for name in (origin.op_name, *merged_names(origin.op_name)))

    @property
    def history(self) -> History:
        """All snapshots, parsed once. The changes of each pass are computed on first access."""
        known: History | None = getattr(self, "_history", None)
        if known is None:
            known = History(self, self._operations)
            object.__setattr__(self, "_history", known)
        return known

    @property
    def steps(self) -> tuple[Pass, ...]:
        """The passes that changed the module themselves, without pipelines whose passes changed it."""
        return steps(self)

    def at(self, chosen: int | Pass) -> Pass:
        """Returns a pass by its index.

        Raises:
          ParameterError: no such pass.
        """
        index: Any = chosen.index if isinstance(chosen, Pass) else chosen
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(self):
            raise ParameterError(f"No pass {short(chosen)}. Expected an index from 0 to {len(self) - 1}.")
        return self[index]

    def module(self, chosen: int | Pass, *, before: bool = False) -> Module:
        """Returns the module after a pass.

        Args:
          chosen: a pass or its index.
          before: return the module before the pass instead.

        Raises:
          ParameterError: no such pass.
          ModuleError: the installed jaxlib cannot parse the snapshot.
        """
        from inspector._jax.modules import isolated_reading  # deferred: saved passes load without jaxlib

        one = self.at(chosen)
        return Module.from_proto(isolated_reading.hlo_proto(one.before if before else one.after))

    def before_partitioning(self) -> Module | Unavailable:
        """Returns the program before partitioning: whole arrays, each with its sharding.

        Raises:
          ModuleError: the installed jaxlib cannot parse the snapshot.
        """
        known: Module | Unavailable | None = getattr(self, "_whole", None)
        if known is None:
            known = self._read_whole()
            object.__setattr__(self, "_whole", known)
        return known

    def _read_whole(self) -> Module | Unavailable:
        spread = [each for each in self if each.name in _PROPAGATIONS]
        if not spread:
            return Unavailable(f"no pass is called {' or '.join(_PROPAGATIONS)}, which propagates shardings")
        return self.module(spread[-1])

    def change(self, chosen: int | Pass) -> PassChange:
        """Returns the changes that a pass made, described and line by line.

        Args:
          chosen: a pass or its index.

        Raises:
          ParameterError: no such pass.
        """
        one = self.at(chosen)
        return pass_change(self.history, one.before_index, one.after_index)

    def between(self, first: int | Pass | None, last: int | Pass | None = None) -> PassChange:
        """Returns the changes from the module after one pass to the module after another.

        Args:
          first: a pass or its index; None for the module before all passes.
          last: a pass or its index; None for the module after all passes.

        Raises:
          ParameterError: no such pass.
        """
        before = self.history.text_at(0) if first is None else self.at(first).after_index
        after = self.history.text_at(len(self.history.steps)) if last is None else self.at(last).after_index
        return pass_change(self.history, before, after)

    def follow(
        self,
        instruction: str | None = None,
        *,
        op_name: str | None = None,
        line: str | None = None,
        at: int | None = None,
    ) -> Following:
        """Follows an instruction through all passes, or every instruction of a name stack or a Python line.

        Args:
          instruction: the name of an instruction in any snapshot.
          op_name: a JAX name stack, e.g. `jit(f)/jvp()/mul`.
          line: a Python line, e.g. `model.py:12`.
          at: the index of the pass after which `instruction` has this name, if passes reuse it; by default the last one that has
            it.

        Raises:
          ParameterError: none or more than one of the three is given, or no snapshot has it.
        """
        history = self.history
        choices = [value for value in (instruction, op_name, line) if value is not None]
        if len(choices) != 1 or not isinstance(choices[0], str):
            raise ParameterError(f"follow needs one of instruction, op_name and line; got {choices or 'none'}.")
        if instruction is not None:
            name = instruction.removeprefix("%")
            place = history.place_of(name) if at is None else history.place_after(self.at(at).index)
            if name not in history.snapshots.places(history.text_at(place)):
                raise ParameterError(f"The module after pass {at} has no instruction {short(name)}.")
            return history.follow([name], place, name)
        names = history.of_operation(choices[0]) if op_name is not None else history.of_line(self._is_line(choices[0]))
        if not names:
            raise ParameterError(f"No instruction of the module before all passes comes from {short(choices[0])}.")
        return history.follow(names, 0, choices[0])

    def without(self, chosen: int | Pass, options: Options | None = None) -> Options | Unavailable:
        """Returns options that leave out a pass: this run of it if the installed XLA can tell runs apart, otherwise all of its runs.

        Args:
          chosen: a pass or its index.
          options: options of the compile to keep.

        Raises:
          ParameterError: no such pass.
        """
        return pass_switches.without(self, self.at(chosen).index, options)

    def until(self, chosen: int | Pass, options: Options | None = None) -> Options | Unavailable:
        """Returns options that leave out the passes that changed the module after a pass.

        XLA has no flag to stop after a pass. Passes that the backend needs still run: see
        `inspector.compilation.options.pass_switches`.

        Args:
          chosen: the last pass to run, or its index.
          options: options of the compile to keep.

        Raises:
          ParameterError: no such pass.
        """
        return pass_switches.until(self, self.at(chosen).index, options)

    def plot(self) -> Picture:
        """Returns a figure of the durations of the passes, and of the module's instructions, fusions, bytes and collectives after each."""
        return pass_plot(self)

    def _is_line(self, text: str) -> Callable[[str, int], bool]:
        file, colon, number = text.rpartition(":")
        if not colon or not number.isdecimal():
            raise ParameterError(
                f"line must be a file name and a line number, such as 'model.py:12', got {short(text)}."
            )
        return lambda at, line: line == int(number) and (at == file or at.endswith(f"/{file}"))
