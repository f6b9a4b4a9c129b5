"""`CutProgram`: a program whose operations can be left out; the values that the rest uses become arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from inspector._jax.modules import slicing
from inspector.compilation.program import Argument, Program, Result

_CONSTANT = frozenset({"stablehlo.constant", "stablehlo.iota"})
_MOVING = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert"})


class CutProgram:
    """The operations of a program's `main`, with calls inlined, and parts of them as programs.

    Constants, and what is computed from them alone without arithmetic, stay in every part that uses them.

    Attributes:
      whole: the operations and values.
      makers: position of the operation that computes each value.
      free: positions of the operations that stay in every part.
    """

    def __init__(self, program: Program, whole: slicing.Sliceable | None = None) -> None:
        """Reads the operations.

        Args:
          program: the program.
          whole: its operations, if they are not those of `program.module`.

        Raises:
          ModuleError: the module cannot be read.
        """
        self.whole = slicing.sliceable(program.module) if whole is None else whole
        self.makers = {number: at for at, each in enumerate(self.whole.operations) for number in each.results}
        self.free = self._find_free()
        self._program = program

    @property
    def candidates(self) -> list[int]:
        """Positions of the operations that can be left out."""
        return [at for at in range(len(self.whole.operations)) if at not in self.free]

    def body(self, loop: int) -> CutProgram:
        """Returns one iteration of a loop.

        Args:
          loop: position of the loop.

        Raises:
          ModuleError: the module cannot be read.
        """
        return CutProgram(self._program, slicing.loop_body(self.whole.module, loop))

    def interface(self, chosen: Collection[int]) -> tuple[frozenset[int], list[int], list[int]]:
        """Returns the operations of a part, with the constants that they use, and the values that enter and leave it."""
        kept, waiting = set(chosen), list(chosen)
        while waiting:
            for number in self.whole.operations[waiting.pop()].uses:
                maker = self.makers.get(number)
                if maker is not None and maker in self.free and maker not in kept:
                    kept.add(maker)
                    waiting.append(maker)
        made = {number for at in kept for number in self.whole.operations[at].results}
        inputs = sorted({number for at in kept for number in self.whole.operations[at].uses} - made)
        elsewhere = {number for at, each in enumerate(self.whole.operations) if at not in kept for number in each.uses}
        leaving = elsewhere | {*self.whole.results}
        chosen_values = (number for at in sorted(chosen) for number in self.whole.operations[at].results)
        return frozenset(kept), inputs, [number for number in chosen_values if number in leaving]

    def have_types(self, numbers: Collection[int]) -> bool:
        """Reports whether all of these values can be arguments and results."""
        return all(self.whole.values[number].dtype for number in numbers)

    def part(self, kept: Collection[int], inputs: Sequence[int], outputs: Sequence[int]) -> Program:
        """Returns a part as a program.

        Args:
          kept: positions of its operations.
          inputs: numbers of the values that become its arguments, in order.
          outputs: numbers of the values that it returns.
        """
        values = self.whole.values
        arguments = tuple(
            Argument(f"value{number}", values[number].shape, values[number].dtype, position)
            for position, number in enumerate(inputs)
        )
        results = tuple(
            Result(f"[{position}]", values[number].shape, values[number].dtype)
            for position, number in enumerate(outputs)
        )
        # Intermediate values have no shardings; the compiler chooses them.
        propagated = (True,) if (self._program.options.num_partitions or 1) > 1 else None
        options = dataclasses.replace(
            self._program.options,
            allow_spmd_sharding_propagation_to_parameters=propagated,
            allow_spmd_sharding_propagation_to_output=propagated,
        )
        return dataclasses.replace(
            self._program,
            module=slicing.sliced(self.whole.module, kept, inputs, outputs),
            arguments=arguments,
            results=results,
            options=options,
            hlo_digest="",
            binding=None,
            changed=None,
        )

    def _find_free(self) -> frozenset[int]:
        free: set[int] = set()
        for at, each in enumerate(self.whole.operations):
            makers = [self.makers.get(number) for number in each.uses]
            if each.name in _CONSTANT or (each.name in _MOVING and all(maker in free for maker in makers)):
                free.add(at)
        return frozenset(free)
