"""Memory, cost and time of compiled programs as rows, and several programs side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from inspector.compilation.compiled import Compiled
from inspector.errors import Unavailable

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, slots=True)
class Stat:
    """One number about a compiled program.

    Attributes:
      key: name with unit, as an attribute of `Memory`, `Cost` or `timings`.
      label: for people.
      unit: what `value` counts.
      value: the number, or why there is none.
      less_is_better: whether a smaller value is clearly an improvement.
    """

    key: str
    label: str
    unit: Literal["bytes", "count", "seconds"]
    value: float | Unavailable
    less_is_better: bool = True


_MEMORY = (
    ("peak_bytes", "peak memory", True),
    ("argument_bytes", "arguments", False),
    ("output_bytes", "outputs", False),
    ("alias_bytes", "outputs in donated arguments", False),
    ("temp_bytes", "temporaries", True),
    ("generated_code_bytes", "generated code", True),
)
_COST = (
    ("flops", "floating-point operations", True),
    ("transcendentals", "transcendentals", True),
    ("bytes_accessed", "bytes accessed", True),
)


def stats(compiled: Compiled) -> tuple[Stat, ...]:
    """Memory, cost and compile time of a program. Host memory only where some is used."""
    memory, cost = compiled.memory, compiled.cost
    rows = [_memory_stat(memory, key, label, better) for key, label, better in _MEMORY]
    if not isinstance(memory, Unavailable):
        host = [
            _memory_stat(memory, f"host_{key}", f"{label} in host memory", better) for key, label, better in _MEMORY
        ]
        rows += [row for row in host if row.value]
    for key, label, better in _COST:
        value = cost if isinstance(cost, Unavailable) else getattr(cost, key)
        rows.append(Stat(key, label, "bytes" if key.startswith("bytes") else "count", value, better))
    compile_s = compiled.timings.get("compile_s", Unavailable("the engine did not measure it"))
    return (*rows, Stat("compile_s", "compile time", "seconds", compile_s))


def _memory_stat(memory: object, key: str, label: str, better: bool) -> Stat:
    value = memory if isinstance(memory, Unavailable) else getattr(memory, key)
    return Stat(key, label, "bytes", value, better)


def compare(*compiled: Compiled) -> pd.DataFrame:
    """Programs side by side: one row a number, one column a program, then what changed.

    The first is the baseline: each further column is followed by its difference (`delta`, in the
    row's unit). The index is the key with its unit, as in `Compiled.memory` and `Compiled.cost`.

    Raises:
      ValueError: nothing to compare.
    """
    import pandas as pd

    if not compiled:
        raise ValueError("compare() takes one or more Compiled, got none.")
    labels = _labels(compiled)
    rows = [stats(c) for c in compiled]
    keys = list(dict.fromkeys(row.key for column in rows for row in column))
    table = pd.DataFrame(index=pd.Index(keys, name="number"))
    values = [{row.key: row.value for row in column} for column in rows]
    for index, (label, column) in enumerate(zip(labels, values, strict=True)):
        table[label] = pd.Series([_of(column, key) for key in keys], index=table.index, dtype=object)
        if index:
            table[f"delta {label}"] = pd.Series(
                [_difference(_of(column, key), _of(values[0], key)) for key in keys],
                index=table.index,
                dtype=object,
            )
    return table


def _of(column: Mapping[str, float | Unavailable], key: str) -> float | Unavailable:
    """A column's value; host memory that a program has no row for is 0 where its memory is known at all."""
    known = column["peak_bytes"]
    return column.get(key, known if isinstance(known, Unavailable) else 0)


def _difference(value: float | Unavailable, baseline: float | Unavailable) -> float | Unavailable:
    if isinstance(value, Unavailable):
        return value
    return baseline if isinstance(baseline, Unavailable) else value - baseline


def _labels(compiled: tuple[Compiled, ...]) -> list[str]:
    """What sets each program apart, unique: its options, and its target where these differ."""
    one_target = len({c.target for c in compiled}) == 1
    labels: list[str] = []
    for index, c in enumerate(compiled):
        said = str(c.options).replace("--", "") if c.options.as_dict() else ""
        label = (said or "defaults") if one_target else f"{c.target} {said}".rstrip()
        labels.append(label if label not in labels else f"{label} ({index})")
    return labels
