"""Matches the backend's kernels with HLO instructions, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from inspector.compilation.records.assembly import PROGRAM, Assembly, as_symbol
from inspector.hlo.module import Instruction, Module


def instructions_of_kernels(assembly: Assembly, module: Module) -> Mapping[str, tuple[str, ...]]:
    """Maps kernels to the instructions that they compute: the instruction that names the kernel, then those inside of it.

    Kernels are named after a fusion, another instruction, or a computation that an instruction applies, such as the
    comparison of a sort. Kernels with other names are omitted.

    Args:
      assembly: the generated code.
      module: the optimized HLO of the same compile.
    """
    by_symbol = {as_symbol(c.name): c.instructions for c in module.computations}
    by_symbol |= {as_symbol(i.name): (i,) for i in module.instructions()}
    by_kernel = {}
    for code in assembly:
        if code.kernel == PROGRAM or code.kernel in by_kernel:
            continue
        symbols = [as_symbol(name) for name in (code.kernel, *code.symbols)]
        symbols += [symbol.removesuffix(_SUFFIX) for symbol in symbols]
        named = [i for symbol in dict.fromkeys(symbols) for i in by_symbol.get(symbol, ())]
        if named:
            by_kernel[code.kernel] = tuple(dict.fromkeys(i.name for outer in named for i in _with_inner(outer)))
    return by_kernel


_SUFFIX = "_kernel"  # of the single kernel that the CPU compiler generates for a small call


def _with_inner(instruction: Instruction) -> Iterator[Instruction]:
    yield instruction
    for computation in instruction.called_computations:
        for inner in computation.instructions:
            yield from _with_inner(inner)
