"""`Dump`: a folder that XLA wrote with `xla_dump_to`, with its modules."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from inspector.api.dumped_module import DumpedModule
from inspector.api.shown_values import ShownAsExplorer
from inspector.compilation.dumps.folder import list_folder
from inspector.errors import ParameterError, needs_jax
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import counted, format_bytes, format_list

if TYPE_CHECKING:
    import pandas as pd

    from inspector.api.dump_comparison import DumpComparison
    from inspector.api.exploration import Exploration


DUMP_COLUMNS: TableDescription[DumpedModule] = TableDescription(
    TableColumn("number", "int", lambda m: m.number, "#", "XLA's number of the module", views=("data_frame", "command_line")),
    TableColumn("name", "text", lambda m: m.name, "module", "Name of the module", views=("data_frame", "command_line")),
    TableColumn(
        "platform", "text", lambda m: m.platform or "", "platform", "Platform of the compile",
        views=("data_frame", "command_line"),
    ),
    TableColumn(
        "program_bytes", "int", lambda m: m.program_bytes, "HLO", "Size of the file with the optimized HLO", "bytes",
        ("data_frame", "command_line"),
    ),
    TableColumn(
        "snapshots", "int", lambda m: m.snapshot_count, "snapshots", "Snapshots between passes",
        views=("data_frame", "command_line"),
    ),
    TableColumn("files", "int", lambda m: len(m.files), "files", "Files of the module", views=("data_frame", "command_line")),
    TableColumn("file_bytes", "int", lambda m: m.byte_size, "size", "Size of all files", "bytes", ("data_frame", "command_line")),
    TableColumn(
        "stages", "text", lambda m: ", ".join(m.stages), "stages", "Stages with HLO", views=("data_frame", "command_line")
    ),
    TableColumn(
        "missing", "text", lambda m: ", ".join(m.missing), "missing", "Parts that the dump lacks",
        views=("data_frame", "command_line"),
    ),
    has_reasons=False,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Dump(ShownAsExplorer):
    """A folder that XLA wrote with `xla_dump_to`. `inspector.load` returns one. Files are read when they are used.

    Attributes:
      path: the folder.
      modules: its modules by number.
      others: paths of files that belong to no module.
      notes: entries that were left out.
    """

    path: str
    modules: tuple[DumpedModule, ...]
    others: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[DumpedModule]:
        return iter(self.modules)

    def __getitem__(self, key: str | int) -> DumpedModule:
        """Returns a module by position, by label ("module_0004.jit_f") or by name; of several with one name, the largest.

        Raises:
          ParameterError: there is none. The message lists all.
        """
        matches = self._named.get(key, ()) if isinstance(key, str) else self.modules[key : key + 1 or None]
        if not matches:
            names = list(dict.fromkeys(module.name for module in self.modules))
            raise ParameterError(f"The dump has no module {short(key)}. Its modules: {format_list(names)}.")
        return max(matches, key=lambda module: module.program_bytes)

    @functools.cached_property
    def _named(self) -> dict[str, list[DumpedModule]]:
        found: dict[str, list[DumpedModule]] = {}
        for module in self.modules:
            for name in dict.fromkeys((module.name, module.name.removeprefix("jit_"), module.label)):
                found.setdefault(name, []).append(module)
        return found

    @property
    def largest(self) -> DumpedModule:
        """The module with the largest optimized HLO."""
        return max(self.modules, key=lambda module: module.program_bytes)

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per module. Reads no file.

        Columns:
          number: XLA's number of the module in its process.
          name: name of the module.
          platform: the platform of the compile, "" if the names of the files do not show it.
          program_bytes: size of the largest file with the optimized HLO.
          snapshots: number of snapshots between passes.
          files, file_bytes: number and size of its files.
          stages: the stages with HLO: before and after optimization.
          missing: the parts that the dump lacks; `DumpedModule.missing` names the flags that write them.
        """
        return DUMP_COLUMNS.data_frame(self.modules)

    def compare(self, other: Dump) -> DumpComparison:
        """Returns the differences of another dump from this one: `baseline.compare(variant)`.

        Modules are matched by name and structure, and ranked by the number of changed instructions.

        Raises:
          ParameterError: `other` is not a `Dump`.
        """
        from inspector.api.dump_comparison import compare_dumps

        if not isinstance(other, Dump):
            raise ParameterError(f"compare() takes a Dump, as inspector.load(folder) returns, got {short(other)}.")
        return compare_dumps(self.path, self.modules, other.path, other.modules)

    @property
    @needs_jax("An Explorer of a dump")
    def exploration(self) -> Exploration:
        """The largest module as an `Exploration`; `dump["name"].exploration` is that of another module.

        Raises:
          ModuleError: the dump has no HLO of it that can be read.
        """
        return self.largest.exploration

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Shows a menu of the modules and the Explorer of the largest one; called by IPython."""
        from inspector.api.dump_menu import show

        show(self.modules, self._repr_html_(), **kwargs)

    def __repr__(self) -> str:
        size = format_bytes(sum(module.byte_size for module in self.modules))
        kinds = format_list(sorted({module.platform for module in self.modules if module.platform}))
        on = f" for {kinds}" if kinds else ""
        text = f"<Dump {self.path!r}: {counted(len(self.modules), 'module')}{on}, {size}, largest {self.largest.name}>"
        return with_hint(text, f".table(), [{self.largest.name!r}], .compare(other), .explorer()")

    def _repr_html_(self) -> str:
        return described(repr(self), {f"note {n}": note for n, note in enumerate(self.notes, 1)}, self.table())


def load_dump(path: str | os.PathLike[str]) -> Dump:
    """Lists a folder that XLA wrote with `xla_dump_to`.

    Raises:
      FileNotFoundError: no such folder.
      ModuleError: it contains no module.
      OSError: it cannot be read.
    """
    folder = list_folder(path)
    modules = tuple(DumpedModule(files.number, files.name, files, folder) for files in folder.modules)
    return Dump(folder.path, modules, tuple(entry.path for entry in folder.others), folder.notes)
