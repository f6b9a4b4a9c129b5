"""Matches the backend's code with HLO instructions: the instructions that a kernel computes, and those that call a library."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from inspector.compilation.compiled import CompiledProgram, executable_of
from inspector.compilation.records.assembly import PROGRAM, Assembly, as_symbol
from inspector.compilation.records.thunks import Step, steps
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.platforms import TPU


@dataclasses.dataclass(frozen=True, slots=True)
class LibraryCall:
    """An instruction whose code XLA does not generate.

    Attributes:
      callee: the library or function, such as "YNNPACK" or "lapack_spotrf_ffi".
      instructions: names of the instruction and of those inside of it.
    """

    callee: str
    instructions: tuple[str, ...]


def instructions_of_kernels(
    assembly: Assembly, module: Module, launches: Iterable[Step] = ()
) -> Mapping[str, tuple[str, ...]]:
    """Maps kernels to the instructions that they compute: the instructions that launch the kernel, then those inside of them.

    If the launch of a kernel is not known, its instruction is found by name. Kernels are named after a fusion, another
    instruction, or a computation that an instruction applies, such as the comparison of a sort. Kernels with other names are
    omitted.

    Args:
      assembly: the generated code.
      module: the optimized HLO of the same compile.
      launches: the steps of the same program.
    """
    by_name = {i.name: i for i in module.instructions()}
    by_symbol = {as_symbol(c.name): c.instructions for c in module.computations}
    by_symbol |= {as_symbol(name): (instruction,) for name, instruction in by_name.items()}
    launching: dict[str, list[Instruction]] = {}
    for step in launches:
        if step.kernel and step.instruction in by_name:
            launching.setdefault(step.kernel, []).append(by_name[step.instruction])
    by_kernel = {}
    for code in assembly:
        if code.kernel == PROGRAM or code.kernel in by_kernel:
            continue
        names = (code.kernel, *code.symbols)
        symbols = [as_symbol(name) for name in names]
        symbols += [symbol.removesuffix(_SUFFIX) for symbol in symbols]
        named = [i for symbol in dict.fromkeys(symbols) for i in by_symbol.get(symbol, ())]
        found = [i for name in dict.fromkeys(names) for i in launching.get(name, ())] or named
        if found:
            by_kernel[code.kernel] = _names(found)
    return by_kernel


_SUFFIX = "_kernel"  # of the single kernel that the CPU compiler generates for a small call


def steps_of(program: CompiledProgram) -> tuple[Step, ...] | Unavailable:
    """Returns the kernels and libraries that a program runs, or why they are unknown."""
    if program.program.platform == TPU.name:
        return Unavailable("TPU programs have no thunks")
    return steps(executable_of(program))


def library_calls(
    module: Module, run: tuple[Step, ...] | Unavailable, with_code: Iterable[str]
) -> Mapping[str, LibraryCall]:
    """Maps instructions that call a library or XLA's runtime to what they call.

    Args:
      module: the optimized HLO.
      run: the steps of the same program. Without them, only custom calls are known, by their targets.
      with_code: names of instructions whose code was recorded.
    """
    by_name = {i.name: i for i in module.instructions()}
    if isinstance(run, Unavailable):
        callees = {name: instruction.custom_call_target for name, instruction in by_name.items()}
    else:
        callees = {step.instruction: step.callee for step in run if step.callee and step.instruction in by_name}
    known = set(with_code)
    return {
        name: LibraryCall(callee, _names([by_name[name]]))
        for name, callee in callees.items()
        if callee and name not in known
    }


def _names(outer: Iterable[Instruction]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(i.name for each in outer for i in _with_inner(each)))


def _with_inner(instruction: Instruction) -> Iterator[Instruction]:
    yield instruction
    for computation in instruction.called_computations:
        for inner in computation.instructions:
            yield from _with_inner(inner)
