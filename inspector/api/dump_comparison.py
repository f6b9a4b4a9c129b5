"""`DumpComparison`: two dump folders side by side, by module."""

from __future__ import annotations

import collections
import dataclasses
import difflib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from inspector.analysis.diff.module_diff import Diff, diff
from inspector.api.dumped_module import DumpedModule
from inspector.compilation.memory import Memory
from inspector.compilation.records.passes import Pass
from inspector.errors import InspectorError, ParameterError, Unavailable
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import described, short, with_hint
from inspector.support.tables import make_table
from inspector.support.units import counted, format_list

if TYPE_CHECKING:
    import pandas as pd

_ONLY = "only in one dump"


@dataclasses.dataclass(frozen=True)
class ModuleComparison:
    """A module in two dumps. `DumpComparison` has them.

    Attributes:
      name: name of the module.
      a, b: the module in the first and in the second dump; None if that dump has no match.
    """

    name: str
    a: DumpedModule | None
    b: DumpedModule | None

    @functools.cached_property
    def diff(self) -> Diff | Unavailable:
        """The differences of the optimized HLO; Unavailable if one of the dumps has none that can be read."""
        if self.a is None or self.b is None:
            return Unavailable(f"the module is only in the {'second' if self.a is None else 'first'} dump")
        for module in (self.a, self.b):
            if isinstance(module.after, Unavailable):
                return module.after
        try:
            return diff(self.a.after.module(), self.b.after.module())  # type: ignore[union-attr]
        except InspectorError as e:
            return Unavailable(f"the modules cannot be compared: {e}")

    @property
    def changed(self) -> int | Unavailable:
        """Number of changed instructions of both modules."""
        return self.diff if isinstance(self.diff, Unavailable) else self.diff.changed

    @property
    def headline(self) -> str:
        """The differences in one line."""
        return self.diff.reason if isinstance(self.diff, Unavailable) else self.diff.headline

    def peak_bytes(self, module: DumpedModule | None) -> float | Unavailable | None:
        """Returns the peak memory of one of the two modules, in bytes; None for no module."""
        memory = None if module is None else module.memory
        return memory.peak_bytes if isinstance(memory, Memory) else memory

    def pipelines(self) -> pd.DataFrame:
        """Returns the passes of both modules side by side, in order.

        Columns: `pipeline, name`; `index_a, index_b` (the positions, empty if only the other dump lists the pass); `changed_a,
        changed_b` (whether the pass changed the module). Dumps without pass times list only passes that changed it.

        Raises:
          UnavailableError: a dump has no snapshots between passes.
        """
        a, b = (_passes(module) for module in (self.a, self.b))
        rows: list[tuple[object, ...]] = []
        ours, theirs = ([f"{p.pipeline}/{p.name}" for p in side] for side in (a, b))
        for kind, a0, a1, b0, b1 in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            if kind == "equal":
                rows += [_row(x, y) for x, y in zip(a[a0:a1], b[b0:b1], strict=True)]
            else:
                rows += [_row(x, None) for x in a[a0:a1]] + [_row(None, y) for y in b[b0:b1]]
        columns = ("pipeline", "name", "index_a", "index_b", "changed_a", "changed_b")
        kinds = ("text", "text", "int", "int", "bool", "bool")
        return make_table(dict(zip(columns, kinds, strict=True)), rows)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return with_hint(f"<ModuleComparison {self.name}: {self.headline}>", ".diff, .pipelines(), .a, .b")

    def _repr_html_(self) -> str:
        return described(repr(self), table=None if isinstance(self.diff, Unavailable) else self.diff.table())


COMPARISON_COLUMNS: TableDescription[ModuleComparison] = TableDescription(
    TableColumn("name", "text", lambda c: c.name, "module", views=("data_frame", "command_line")),
    TableColumn("number_a", "int", lambda c: c.a and c.a.number, "# in A", views=("data_frame", "command_line")),
    TableColumn("number_b", "int", lambda c: c.b and c.b.number, "# in B", views=("data_frame", "command_line")),
    TableColumn(
        "changed", "int", lambda c: c.changed, "changed", "Changed instructions of both modules",
        views=("data_frame", "command_line"),
    ),
    TableColumn("peak_bytes_a", "float", lambda c: c.peak_bytes(c.a), "peak in A", "Peak memory", "bytes", ("data_frame", "command_line")),
    TableColumn("peak_bytes_b", "float", lambda c: c.peak_bytes(c.b), "peak in B", "Peak memory", "bytes", ("data_frame", "command_line")),
    TableColumn("differences", "text", lambda c: c.headline, "differences", views=("data_frame", "command_line")),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class DumpComparison:
    """Two dumps, matched by module: those with the most changes first, then those that only one dump has.

    Attributes:
      a, b: the folders.
      modules: the matched and unmatched modules.
    """

    a: str
    b: str
    modules: tuple[ModuleComparison, ...]

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[ModuleComparison]:
        return iter(self.modules)

    def __getitem__(self, key: str | int) -> ModuleComparison:
        """Returns a module by position or name; of several with one name, the one with the most changes.

        Raises:
          ParameterError: there is none. The message lists all.
        """
        if isinstance(key, str):
            matches = [each for each in self.modules if key in (each.name, each.name.removeprefix("jit_"))]
        else:
            matches = list(self.modules[key : key + 1 or None])
        if not matches:
            names = format_list(list(dict.fromkeys(each.name for each in self.modules)))
            raise ParameterError(f"The comparison has no module {short(key)}. Its modules: {names}.")
        return matches[0]

    def __bool__(self) -> bool:
        return any(each.changed != 0 or each.a is None or each.b is None for each in self.modules)

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per module.

        Columns: `name`; `number_a, number_b` (XLA's numbers); `changed` (changed instructions of both modules); `peak_bytes_a,
        peak_bytes_b`; `differences` in one line; `unknown`.
        """
        return COMPARISON_COLUMNS.data_frame(self.modules)

    def __repr__(self) -> str:
        both = [each for each in self.modules if each.a is not None and each.b is not None]
        differ = sum(each.changed != 0 for each in both)
        single = len(self.modules) - len(both)
        text = f"<DumpComparison: {counted(len(both), 'module')} in both, {differ} changed, {single} {_ONLY}>"
        return with_hint(text, '.table(), ["jit_f"].diff, ["jit_f"].pipelines()')

    def _repr_html_(self) -> str:
        return described(repr(self), table=self.table())


def compare_dumps(a: str, ours: Sequence[DumpedModule], b: str, theirs: Sequence[DumpedModule]) -> DumpComparison:
    """Compares the modules of two folders.

    Modules with the same name are matched in the order of their numbers if both dumps have as many, else those with the
    same program before optimization first.
    """
    pairs: list[ModuleComparison] = []
    for name in dict.fromkeys(module.name for module in (*ours, *theirs)):
        named = ([m for m in side if m.name == name] for side in (ours, theirs))
        pairs += [ModuleComparison(name, x, y) for x, y in _matched(*named)]
    return DumpComparison(a, b, tuple(sorted(pairs, key=_rank)))


def _rank(pair: ModuleComparison) -> tuple[object, ...]:
    is_single = pair.a is None or pair.b is None
    changed = pair.changed
    return is_single, isinstance(changed, Unavailable), 0 if isinstance(changed, Unavailable) else -changed, pair.name


def _matched(
    ours: list[DumpedModule], theirs: list[DumpedModule]
) -> list[tuple[DumpedModule | None, DumpedModule | None]]:
    pairs: list[tuple[DumpedModule | None, DumpedModule | None]] = []
    if len(ours) == len(theirs):
        return list(zip(ours, theirs, strict=True))
    rest = list(theirs)
    unmatched = []
    shapes = collections.defaultdict(list)
    for module in rest:
        shapes[_structure(module)].append(module)
    for module in ours:
        same = shapes.get(_structure(module))
        if same:
            partner = same.pop(0)
            rest.remove(partner)
            pairs.append((module, partner))
        else:
            unmatched.append(module)
    both = min(len(unmatched), len(rest))
    pairs += zip(unmatched[:both], rest[:both], strict=True)
    pairs += [(module, None) for module in unmatched[both:]]
    pairs += [(None, module) for module in rest[both:]]
    return pairs


def _structure(module: DumpedModule) -> tuple[str, ...]:
    """Returns the opcodes and shapes of a program before optimization; those of the optimized one if it is missing."""
    program = module.after if isinstance(module.before, Unavailable) else module.before
    if isinstance(program, Unavailable):
        return (module.label,)
    return tuple(sorted(f"{each.opcode} {each.shape}" for each in program.module().instructions()))


def _passes(module: DumpedModule | None) -> list[Pass]:
    if module is None:
        return []
    return list(module.passes)  # type: ignore[arg-type]  # an Unavailable raises its error


def _row(a: Pass | None, b: Pass | None) -> tuple[object, ...]:
    known = a or b
    assert known is not None
    return (known.pipeline, known.name, a and a.index, b and b.index, a and a.changed, b and b.changed)
