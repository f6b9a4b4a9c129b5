"""Checks of a program's numbers (memory, operations, kernels) by their names in `inspector.compare`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from inspector.analysis.cost.stats import Stat, program_stats, stats
from inspector.analysis.memory.timeline import Timeline
from inspector.errors import ParameterError, Unavailable
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.expectations.limits import Amount, Limit
from inspector.hlo.source import phases
from inspector.stages.compiled import Compiled, instruction_costs
from inspector.support.notebook import short
from inspector.support.units import format_bytes, format_change, format_count, format_seconds, parse_bytes, parse_count

_MOST_LINES = 8
_COUNTED = ("flops", "transcendentals", "bytes_accessed")
_LAUNCHED = {"fusions": "fusion", "custom_calls": "custom-call"}


def numbers(compiled: Compiled) -> dict[str, Stat]:
    """Returns the numbers of a program by name."""
    return {stat.key: stat for stat in (*stats(compiled), *program_stats(compiled))}


def check(
    compiled: Compiled, key: str, exactly: Amount | None, at_most: Amount | None, at_least: Amount | None
) -> CheckResult:
    """Checks that a number is within limits.

    Raises:
      ParameterError: an unknown number, or invalid limits.
    """
    known = numbers(compiled)
    if key not in known:
        near = difflib.get_close_matches(key, known, 1)
        raise ParameterError(
            f"{compiled.program.name} has no number {short(key)}.{f' Did you mean {near[0]}?' if near else ''} It has:"
            f" {', '.join(known)}."
        )
    stat = known[key]
    bound = Limit.of(exactly, at_most, at_least, lambda amount: read(stat, amount))
    is_met = bound.judge(stat.value)
    columns, lines = ((), ()) if is_met else evidence(compiled, key)
    return CheckResult(
        stat.label, bound.words(lambda limit: written(stat, limit)), written(stat, stat.value), is_met, columns, lines,
        _nearest(stat, bound),
    )  # fmt: skip


def read(stat: Stat, amount: Amount) -> float:
    """Parses a limit of a number in its unit."""
    if stat.unit == "bytes":
        return parse_bytes(amount)
    return parse_count(amount, "flop" if stat.key == "flops" else "")


def written(stat: Stat, value: float | Unavailable) -> str:
    """Formats a value of a number with its unit."""
    if stat.unit == "bytes":
        return format_bytes(value)
    if stat.unit == "seconds":
        return format_seconds(value)
    return format_count(value, "flop" if stat.key == "flops" else "")


def _nearest(stat: Stat, bound: Limit) -> str:
    if isinstance(stat.value, Unavailable):
        return ""
    limit = bound.most if bound.most is not None and stat.value > bound.most else bound.least
    if limit is None or bound.judge(stat.value):
        return ""
    off = float(stat.value) - limit
    share = f" ({format_change(float(stat.value), limit)})" if limit else ""
    return f"{written(stat, abs(off))} {'above' if off > 0 else 'below'} the limit{share}"


def evidence(compiled: Compiled, key: str) -> tuple[tuple[str, ...], tuple[TableLine, ...]]:
    """Returns the columns and rows of the largest contributions to a number; none if they are unknown."""
    if key.endswith("bytes") and key not in _COUNTED:
        return _of_memory(compiled)
    if key in _COUNTED:
        return _of_costs(compiled, key)
    if key in _LAUNCHED:
        return _of_opcode(compiled, _LAUNCHED[key])
    return (), ()


def _of_memory(compiled: Compiled) -> tuple[tuple[str, ...], tuple[TableLine, ...]]:
    timeline = compiled.timeline()
    if not isinstance(timeline, Timeline) or isinstance(compiled.memory, Unavailable):
        return (), ()
    paths: Mapping[int | None, str] = {a.parameter: a.path for a in compiled.program.arguments}
    alive = timeline.alive(compiled.memory.main)[:_MOST_LINES] if compiled.memory.main in timeline.spaces else ()
    lines = []
    for life in alive:
        origin = timeline.origin(life)
        name = f"argument {paths.get(life.parameter, '')}" if life.parameter is not None else life.value
        lines.append(TableLine((format_bytes(life.byte_size), life.kind, name, origin.op_name), origin.frames))
    return ("largest at the peak", "kind", "value", "scope"), tuple(lines)


def _of_costs(compiled: Compiled, key: str) -> tuple[tuple[str, ...], tuple[TableLine, ...]]:
    module, costs = compiled.module(), instruction_costs(compiled)
    entry = {instruction.name for instruction in module.entry.instructions}
    known = {n: v for n in entry if not isinstance(v := getattr(costs[n], key), Unavailable) and v}
    lines = []
    for name in sorted(known, key=lambda n: (-known[n], n))[:_MOST_LINES]:
        instruction = module.instruction(name)
        text = format_bytes(known[name]) if key.startswith("bytes") else format_count(known[name])
        about = (text, instruction.opcode, name, ", ".join(phases(instruction.op_name)), instruction.op_name)
        lines.append(TableLine(about, instruction.frames))
    return ("most", "opcode", "instruction", "phase", "scope"), tuple(lines)


def _of_opcode(compiled: Compiled, opcode: str) -> tuple[tuple[str, ...], tuple[TableLine, ...]]:
    module = compiled.module()
    instructions = [module.at(row) for row in module.columns.rows_of(opcode.__eq__)][:_MOST_LINES]
    return (opcode, "calls", "scope"), tuple(
        TableLine((i.name, i.custom_call_target, i.op_name), i.frames) for i in instructions
    )
