"""Checks of the contents of a program: element types, host transfers, donated arguments, rematerialized arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from inspector.analysis.memory.donations import donations
from inspector.analysis.sharding.reshardings import full_rematerializations
from inspector.compilation.compiled import CompiledProgram
from inspector.errors import ParameterError, Unavailable
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.hlo.module import Instruction, Module
from inspector.hlo.shape import HLO_TYPES, Shape
from inspector.support.notebook import short
from inspector.support.units import counted, format_list

FLOAT64 = ("f64", "c128")

_KNOWN = {*HLO_TYPES, *HLO_TYPES.values()}
_NO_ARRAYS = frozenset({"token", "opaque"})

_HOST_SPACE = 5  # XLA's number of host memory, on every platform that has one
_TRANSFERS = frozenset({"infeed", "outfeed", "send", "recv"})
_COPIES = frozenset({"copy", "copy-start", "dynamic-slice", "dynamic-update-slice", "async-start"})
_TO_HOST = ("callback", "MoveToHost", "MoveToDevice", "HostExecute")


# ------------------------------------------------------------------ element types


def element_type(name: str) -> str:
    """Returns HLO's name of an element type: `float32` or `f32` -> `f32`.

    Raises:
      ParameterError: an unknown type. Types of at most eight bits must have HLO's names, such as "f8e4m3fn".
    """
    if name not in _KNOWN and not str(name).startswith(("f8", "f4", "f6")):
        raise ParameterError(f"Unknown element type {short(name)}. Expected, for example, {', '.join(HLO_TYPES)}.")
    return HLO_TYPES.get(name, name)


def element_types(module: Module) -> tuple[str, ...]:
    """Returns the element types of all computed values, in alphabetical order."""
    types = {leaf.element_type for shape in module.known_shapes for leaf in shape.leaves}
    return tuple(sorted(types - _NO_ARRAYS))


def check_without(compiled: CompiledProgram, refused: Collection[str]) -> CheckResult:
    """Checks that no value has one of some element types."""
    matches = _of_types(compiled.module(), lambda leaf: leaf.element_type in refused)
    return _types_finding(compiled, f"element types {', '.join(sorted(refused))}", "none", matches)


def check_only(compiled: CompiledProgram, allowed: Collection[str]) -> CheckResult:
    """Checks that every value has one of some element types."""
    matches = _of_types(compiled.module(), lambda leaf: leaf.element_type not in {*allowed, *_NO_ARRAYS})
    return _types_finding(compiled, "element types", f"only {', '.join(sorted(allowed))}", matches)


def _of_types(module: Module, is_refused: Callable[[Shape], bool]) -> list[tuple[Instruction, Shape]]:
    matches = [next(filter(is_refused, shape.leaves), None) for shape in module.known_shapes]
    codes = module.columns.shapes.codes.tolist()
    return [(module.at(row), leaf) for row, code in enumerate(codes) if (leaf := matches[code]) is not None]


def _types_finding(
    compiled: CompiledProgram, what: str, expected: str, matches: Sequence[tuple[Instruction, Shape]]
) -> CheckResult:
    paths = {argument.parameter: argument.path for argument in compiled.program.arguments}
    lines = []
    for instruction, leaf in matches:
        if instruction.opcode in ("tuple", "get-tuple-element", "bitcast"):
            continue
        of_call = instruction.opcode == "parameter" and instruction.computation.is_entry
        if instruction.opcode == "parameter" and not of_call:
            continue
        name = f"argument {paths.get(instruction.proto.parameter_number, '')}" if of_call else instruction.name
        cells = (str(leaf.without_layout()), instruction.opcode, name, instruction.op_name)
        lines.append(TableLine(cells, instruction.frames, is_against=True))
    types = sorted({leaf.element_type for _, leaf in matches})
    got = f"{', '.join(types)} in {counted(len(matches), 'instruction')}" if matches else "none"
    return CheckResult(
        what, expected, got, not matches, ("shape", "opcode", "instruction", "scope"), _once_a_line(lines)
    )


def _once_a_line(lines: Sequence[TableLine]) -> tuple[TableLine, ...]:
    """Returns the first line for each source place and opcode."""
    by_place = {(line.frames[:1] or line.cells, line.cells[1]): line for line in reversed(lines)}
    return tuple(line for line in lines if line in by_place.values())


# ------------------------------------------------------------------ transfers


def transfers(module: Module) -> list[tuple[Instruction, str]]:
    """Returns the instructions that transfer data from or to the host, each with the kind of transfer."""
    return [(i, how) for i in map(module.at, _candidates(module)) if (how := _transfer(i))]


def _candidates(module: Module) -> Iterator[int]:
    wanted = _TRANSFERS | _COPIES | {"custom-call"}
    return iter(module.columns.rows_of(wanted.__contains__))


def _transfer(instruction: Instruction) -> str:
    """Names the kind of host transfer of an instruction; "" for none."""
    opcode = instruction.opcode
    if opcode in ("infeed", "outfeed"):
        return opcode
    if opcode in ("send", "recv"):
        return f"{opcode} with the host" if instruction.proto.is_host_transfer else ""
    if opcode == "custom-call":
        target = instruction.custom_call_target
        return target if any(words in target for words in _TO_HOST) else ""
    spaces = {_spaces(instruction.shape), *(_spaces(operand.shape) for operand in instruction.operands)}
    on_host = [_HOST_SPACE in each for each in spaces]
    return "between device and host memory" if any(on_host) and any(each - {_HOST_SPACE} for each in spaces) else ""


def _spaces(shape: Shape) -> frozenset[int]:
    """Returns the memory spaces of a value, without scalars and arrays without a layout."""
    return frozenset(leaf.layout.memory_space for leaf in shape.leaves if leaf.layout is not None and leaf.dimensions)


def check_no_transfers(compiled: CompiledProgram) -> CheckResult:
    """Checks that the program transfers no data to or from the host while it runs."""
    matches = transfers(compiled.module())
    lines = tuple(TableLine((how, i.opcode, i.name, i.op_name), i.frames, is_against=True) for i, how in matches)
    got = f"{len(matches)}: {format_list(list(dict.fromkeys(how for _, how in matches)), 3)}" if matches else "none"
    return CheckResult(
        "host transfers", "none", got, not matches, ("transfer", "opcode", "instruction", "scope"), lines
    )


# ------------------------------------------------------------------ donations


def check_donations(compiled: CompiledProgram, paths: Sequence[str]) -> CheckResult:
    """Checks that outputs reuse every donated argument, or every argument with one of some paths."""
    arguments = [a for a in compiled.program.arguments if a.donated] if not paths else []
    for path in paths:
        below = [a for a in compiled.program.arguments if a.path == path or a.path.startswith((f"{path}[", f"{path}."))]
        if not below:
            known = format_list([a.path for a in compiled.program.arguments])
            raise ParameterError(f"{compiled.program.name} has no argument {short(path)}. It has {known}.")
        arguments += below
    wasted = [each for each in donations(compiled) if each.argument in arguments and each.output is None]
    lines = tuple(TableLine((str(w.argument), w.reason or "it is not donated"), is_against=True) for w in wasted)
    what, expected = "donated arguments", "all reused by outputs"
    if not arguments:
        return CheckResult(
            what,
            expected,
            "no argument is donated",
            is_met=False,
            advice="name them with donate_argnums, of jax.jit or of expect",
        )
    got = f"{len(arguments) - len(wasted)} of {len(arguments)} reused"
    return CheckResult(what, expected, got, not wasted, ("argument", "why not"), lines)


# ------------------------------------------------------------------ rematerialized arrays


def check_no_rematerialization(compiled: CompiledProgram) -> CheckResult:
    """Checks that the partitioner replicates no array in order to reshard it."""
    matches = full_rematerializations(compiled)
    if isinstance(matches, Unavailable):
        return CheckResult("full rematerializations by the partitioner", "none", str(matches), matches)
    lines = tuple(
        TableLine((each.name, f"{each.had} to {each.needed}"), each.frames, is_against=True) for each in matches
    )
    got = f"{len(matches)}" if matches else "none"
    columns = ("array", "from and to sharding")
    what = "full rematerializations by the partitioner"
    return CheckResult(what, "none", got, not matches, columns, lines)
