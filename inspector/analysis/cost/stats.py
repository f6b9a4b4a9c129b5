"""Memory, cost and compile time of programs as rows, and comparisons of several programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from inspector.analysis.cost.kernels import structure
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.cost import Cost
from inspector.compilation.memory import Memory
from inspector.compilation.preview import NO_CODE, Preview
from inspector.errors import ParameterError, Partial, Unavailable
from inspector.support.columns import TableColumn
from inspector.support.notebook import short
from inspector.support.tables import UNKNOWN, Kind, make_table
from inspector.support.units import Unit

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

Value = float | Unavailable


@dataclasses.dataclass(frozen=True, slots=True)
class Stat:
    """One number about a compiled program.

    Attributes:
      key: name with unit, as an attribute of `Memory`, `Cost` or `timings`.
      label: text for users.
      unit: unit of `value`.
      value: the number; `Partial` if known in part; Unavailable if unknown.
      less_is_better: whether a smaller value is clearly an improvement.
    """

    key: str
    label: str
    unit: Unit
    value: Value
    less_is_better: bool = True

    @property
    def group(self) -> StatGroup:
        """The subject of the number."""
        if self.key in _WORK:
            return "work"
        if self.unit == "seconds" or self.key == "estimated_cycles":
            return "time"
        return "memory" if self.unit == "bytes" and self.key != "collective_bytes" else "counts"


StatGroup = Literal["memory", "time", "work", "counts"]
"""Subjects of stats."""
_WORK = ("flops", "transcendentals", "bytes_accessed")
_SPACE = "_allocated_bytes"
_Description = tuple[str, str, Unit, bool]
"""Key, label, unit and `less_is_better` of a `Stat`."""
_MEMORY: tuple[_Description, ...] = (
    ("peak_bytes", "peak memory", "bytes", True),
    ("argument_bytes", "arguments", "bytes", False),
    ("output_bytes", "outputs", "bytes", False),
    ("alias_bytes", "outputs in donated arguments", "bytes", False),
    ("temp_bytes", "temporaries", "bytes", True),
    ("constant_bytes", "constants", "bytes", False),
    ("generated_code_bytes", "generated code", "bytes", True),
)
_COST: tuple[_Description, ...] = (
    ("flops", "floating-point operations", "count", True),
    ("transcendentals", "transcendentals", "count", True),
    ("bytes_accessed", "bytes accessed", "bytes", True),
)
_TIME: _Description = ("compile_s", "compile time", "seconds", True)
_STRUCTURE: tuple[_Description, ...] = (
    ("vmem_scratch_bytes", "largest VMEM scratch of a kernel", "bytes", True),
    ("kernels", "kernels", "count", True),
    ("fusions", "fusions", "count", False),
    ("custom_calls", "custom calls", "count", False),
    ("collectives", "collectives", "count", True),
    ("collective_bytes", "input bytes of collectives", "bytes", True),
    ("estimated_cycles", "estimated cycles", "count", True),
)


def stats(program: CompiledProgram | Preview) -> tuple[Stat, ...]:
    """Returns memory, cost and compile time of a program. Host memory is included only if some is used."""
    memory = program.memory
    cost = program.cost
    rows = [_stat(memory, *each) for each in _MEMORY]
    if not isinstance(memory, Unavailable):
        host = [
            _stat(memory, f"host_{key}", f"{label} in host memory", unit, better)
            for key, label, unit, better in _MEMORY
        ]
        rows += [row for row in host if row.value]
        rows += _reported(memory)
    rows += [_stat(cost, *each) for each in _COST]
    compile_s: Value = NO_CODE
    if isinstance(program, CompiledProgram):
        compile_s = program.timings.get("compile_s", Unavailable("the engine did not measure it"))
    key, label, unit, better = _TIME
    return (*rows, Stat(key, label, unit, compile_s, better))


def stat_columns(values: Callable[[T], Mapping[str, Value]], *keys: str) -> tuple[TableColumn[T], ...]:
    """Returns columns for numbers of `stats` on pages.

    Args:
      values: returns the numbers of a row by key; a missing number is an empty cell.
      keys: keys of memory, cost and compile time.
    """
    known = {key: (label, unit) for key, label, unit, _ in (*_MEMORY, *_COST, _TIME)}

    def column(key: str) -> TableColumn[T]:
        label, unit = known[key]
        return TableColumn(key, "float", lambda row: values(row).get(key), label, unit=unit, views=("page",))

    return tuple(map(column, keys))


def _reported(memory: Memory) -> list[Stat]:
    """Returns the compiler's own peak memory, whose meaning differs between platforms; [] if it reports none."""
    name = "peak_memory_in_bytes"
    if isinstance(memory.reported, Unavailable) or name not in memory.reported:
        return []
    return [Stat(name, f"the compiler's own {name}", "bytes", memory.reported[name])]


def program_stats(compiled: CompiledProgram) -> tuple[Stat, ...]:
    """Returns memory spaces other than main memory, and counts of what the device executes. Reads the whole module.

    Numbers that only TPU compilers report are omitted if unknown.
    """
    memory = compiled.memory
    spaces = {} if isinstance(memory, Unavailable) else {n: s for n, s in memory.spaces.items() if n != memory.main}
    numbers = structure(compiled.module())
    rows = [Stat(_space_key(name), f"allocated in {name}", "bytes", s.allocated_bytes) for name, s in spaces.items()]
    rows += [Stat(key, label, unit, getattr(numbers, key), better) for key, label, unit, better in _STRUCTURE]
    return tuple(row for row in rows if not isinstance(row.value, Unavailable))


def _space_key(name: str) -> str:
    return f"{name.lower().replace(' ', '_')}{_SPACE}"


def _stat(numbers: Memory | Cost | Unavailable, key: str, label: str, unit: Unit, better: bool) -> Stat:
    value = numbers if isinstance(numbers, Unavailable) else getattr(numbers, key)
    return Stat(key, label, unit, value, better)


def compare(
    *compiled: CompiledProgram,
    names: Sequence[str] = (),
    first: Callable[[CompiledProgram], Sequence[Stat]] = lambda _: (),
) -> pd.DataFrame:
    """Returns the table of `inspector.compare` (`stages/estimates.py`).

    Args:
      compiled: the programs.
      names: names of the columns; () for options and targets.
      first: returns the numbers of a program that the table begins with.

    Raises:
      ParameterError: there is nothing to compare, or an argument is not a compiled program.
    """
    import pandas as pd

    check_compiled(compiled)
    labels = list(names) or _labels(compiled)
    rows = aligned([(*first(c), *stats(c), *program_stats(c)) for c in compiled], compiled)
    keys = [row.key for row in rows[0]]
    columns = [{row.key: row.value for row in column} for column in rows]
    cells = {labels[0]: columns[0]}
    for label, column in zip(labels[1:], columns[1:], strict=True):
        cells[label] = column
        cells[f"delta {label}"] = {key: difference(column[key], columns[0][key]) for key in keys}
    kinds: dict[str, Kind] = {**dict.fromkeys(cells, "float"), UNKNOWN: "reasons"}
    table = make_table(kinds, ([column[key] for column in cells.values()] for key in keys))
    return table.set_index(pd.Index(keys, name="number"))


def check_compiled(programs: Sequence[object]) -> None:
    """Checks the programs that a user compares.

    Raises:
      ParameterError: there are none, or one is not a compiled program.
    """
    others = [one for one in programs if not isinstance(one, CompiledProgram)]
    if others:
        got = f"{short(others[0])} ({type(others[0]).__name__})"
        raise ParameterError(f"compare() takes one or more Compiled, got {got}. {_way_to_compiled(others[0])}")
    if not programs:
        raise ParameterError(f"compare() takes one or more Compiled, got none. {_WAY}")


_WAY = "Create one with `inspector.lower(fun, *args).compile()`."


def _way_to_compiled(value: object) -> str:
    """Explains how to get a `Compiled` from another value, by the methods that it has."""
    if isinstance(value, (list, tuple)):
        return "Unpack a list: compare(*programs)."
    ways = {
        "what_if": "Call its compile() method first.",  # a Lowered
        "variants": "Call its compare() method to compare its variants.",  # an Explorer
        "result": "Call its result() method first.",  # a Job
        "compiled": "Pass its attribute `compiled`.",  # a Variant
    }
    return next((way for name, way in ways.items() if hasattr(type(value), name)), _WAY)


def _in_order(columns: Iterable[Sequence[str]]) -> list[str]:
    """Returns every key once. Keys that only some columns have follow their predecessor in those columns."""
    keys: list[str] = []
    for column in columns:
        position = 0
        for key in column:
            if key in keys:
                position = keys.index(key) + 1
            else:
                keys.insert(position, key)
                position += 1
    return keys


def aligned(columns: Sequence[Sequence[Stat]], programs: Sequence[CompiledProgram]) -> list[tuple[Stat, ...]]:
    """Returns the numbers of programs with the same rows in each column: 0 or Unavailable for a number that a program lacks."""
    keys = _in_order([row.key for row in column] for column in columns)
    known = {row.key: row for column in reversed(columns) for row in column}
    return [
        tuple(dataclasses.replace(known[key], value=value) for key, value in _filled(column, keys, program).items())
        for column, program in zip(columns, programs, strict=True)
    ]


def _filled(column: Sequence[Stat], keys: Sequence[str], compiled: CompiledProgram) -> dict[str, Value]:
    """Returns a value for every key."""
    values = {row.key: row.value for row in column}
    return {key: values[key] if key in values else _absent(values, key, compiled) for key in keys}


def _absent(column: Mapping[str, Value], key: str, compiled: CompiledProgram) -> Value:
    """Returns the value of a number that only other programs have. Host memory is 0 if the program's memory is known."""
    if key in ("vmem_scratch_bytes", "estimated_cycles"):
        return Unavailable("only the TPU compiler reports it")
    if not key.endswith(_SPACE):
        return column["peak_bytes"] if isinstance(column["peak_bytes"], Unavailable) else 0
    if isinstance(compiled.memory, Unavailable):
        return compiled.memory
    return Unavailable(f"the {compiled.program.platform} program has no such memory space")


def difference(value: Value, baseline: Value) -> Value:
    """Returns a number minus its baseline; Unavailable if either is unknown or partly known."""
    if isinstance(value, Unavailable):
        return value
    if isinstance(baseline, Unavailable):
        return baseline
    parts = [side.reason for side in (value, baseline) if isinstance(side, Partial)]
    return Unavailable(f"partly known: {parts[0]}") if parts else value - baseline


def _labels(compiled: tuple[CompiledProgram, ...]) -> list[str]:
    """Returns a unique label for each program: its options, and its target if targets differ."""
    one_target = len({c.target for c in compiled}) == 1
    labels: list[str] = []
    for index, c in enumerate(compiled):
        options = str(c.options).replace("--", "") if c.options.as_dict() else ""
        label = (options or "defaults") if one_target else f"{c.target} {options}".rstrip()
        labels.append(label if label not in labels else f"{label} ({index})")
    return labels
