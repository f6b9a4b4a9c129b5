"""Which instructions of the HLO a kernel of the back-end is for, by names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from inspector.compilation.records.assembly import PROGRAM, Assembly, as_symbol
from inspector.hlo.module import Instruction, Module


def instructions_of_kernels(assembly: Assembly, module: Module) -> Mapping[str, tuple[str, ...]]:
    """The instructions that a kernel computes: the one it has its name from, then those inside of that.

    Kernels are named after a fusion or another instruction, or after a computation that one applies, such as
    the comparison of a sort; one whose name tells nothing is left out.

    Args:
      assembly: the code.
      module: the optimized HLO of the same compile.
    """
    by_symbol = {as_symbol(c.name): c.instructions for c in module.computations}
    by_symbol |= {as_symbol(i.name): (i,) for i in module.instructions()}
    found = {}
    for code in assembly:
        if code.kernel == PROGRAM or code.kernel in found:
            continue
        symbols = [as_symbol(name) for name in (code.kernel, *code.symbols)]
        symbols += [symbol.removesuffix(_SUFFIX) for symbol in symbols]
        named = [i for symbol in dict.fromkeys(symbols) for i in by_symbol.get(symbol, ())]
        if named:
            found[code.kernel] = tuple(dict.fromkeys(i.name for outer in named for i in _with_inner(outer)))
    return found


_SUFFIX = "_kernel"  # of the one kernel that the CPU's compiler makes of a small call


def _with_inner(instruction: Instruction) -> Iterator[Instruction]:
    yield instruction
    for computation in instruction.called_computations:
        for inner in computation.instructions:
            yield from _with_inner(inner)
