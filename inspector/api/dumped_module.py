"""`DumpedModule`: one module of a dump folder. Its parts are read on first use."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inspector import platforms
from inspector.api.opened_program import OpenedProgram
from inspector.api.shown_values import ShownAsExplorer
from inspector.compilation.dumps.contents import assembly_of, form_of, is_binary, is_cut_off, missing_of, passes_of
from inspector.compilation.dumps.debug_options import DumpedFlags, read_debug_options
from inspector.compilation.dumps.folder import DumpFolder
from inspector.compilation.dumps.names import AFTER, BEFORE, FORMS, TEXT, DumpEntry, ModuleFiles
from inspector.compilation.memory import Memory
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.passes import Passes
from inspector.compilation.target import Target
from inspector.errors import InspectorError, ModuleError, ParameterError, Unavailable, needs_jax
from inspector.stages.lowered import Lowered
from inspector.stages.passes import CompilerPasses
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import counted, format_bytes, format_list

if TYPE_CHECKING:
    from inspector.api.exploration import Exploration

_MLIR = "module.mlir"
_LIVE_RANGE = "-live-range.txt"
_GPU = "gpu_target_config.pbtxt"
_DEVICE = "device_description_str:"
_NO_FLAGS = Unavailable("the dump has no file *.debug_options")


@dataclasses.dataclass(frozen=True)
class DumpedModule(ShownAsExplorer):
    """A module of a folder that XLA wrote with `xla_dump_to`. `Dump.modules` has them.

    Attributes:
      number: XLA's number of the module in its process.
      name: name of the module, such as "jit_step".
    """

    number: int
    name: str
    _files: ModuleFiles = dataclasses.field(repr=False, compare=False)
    _folder: DumpFolder = dataclasses.field(repr=False, compare=False)

    @property
    def label(self) -> str:
        """The beginning of the names of its files, such as "module_0004.jit_step"."""
        return self._files.label

    @property
    def platform(self) -> str | None:
        """The platform that it was compiled for, by the names of its files; None if they do not show it."""
        return self._files.platform

    @property
    def files(self) -> Mapping[str, int]:
        """The sizes of its files in bytes, by path in the folder."""
        return {entry.path: entry.byte_size for entry in self._files.entries}

    @property
    def byte_size(self) -> int:
        """Size of all its files in bytes."""
        return sum(entry.byte_size for entry in self._files.entries)

    @property
    def program_bytes(self) -> int:
        """Size in bytes of the largest file with its optimized HLO, or of the HLO before optimization if there is none."""
        forms = self._files.stage(AFTER) or self._files.stage(BEFORE)
        return max((entry.byte_size for entry in forms.values()), default=0)

    @property
    def snapshot_count(self) -> int:
        """Number of snapshots between passes."""
        return len(self._files.snapshots)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages with HLO in the dump: "before" and "after" optimization."""
        return tuple(name for name, stage in (("before", BEFORE), ("after", AFTER)) if self._files.stage(stage))

    @property
    def missing(self) -> Mapping[str, Unavailable]:
        """The parts that the dump lacks, by name, each with the reason and the flag of XLA that writes it."""
        return missing_of(self._files, self.platform)

    def read(self, file: str) -> bytes:
        """Returns the contents of one of its `files`, unpacked.

        Args:
          file: its path in the folder, or the part after the module's name, such as "thunk_sequence.txt".

        Raises:
          ParameterError: no such file; the message lists all.
          ModuleError: it cannot be read.
        """
        by_path = {entry.path: entry for entry in self._files.entries}
        entry = by_path.get(file) or self._files.files.get(file)
        if entry is None:
            raise ParameterError(f"{self.label} has no file {short(file)}. Its files: {format_list(list(by_path))}.")
        return self._folder.read(entry)

    @functools.cached_property
    def before(self) -> OpenedProgram | Unavailable:
        """The module before optimization; Unavailable if the dump lacks it or XLA cannot read it."""
        return self._opened(BEFORE)

    @functools.cached_property
    def after(self) -> OpenedProgram | Unavailable:
        """The optimized HLO, with passes and code on demand through `program`; Unavailable if it is missing or damaged."""
        return self._opened(AFTER)

    @functools.cached_property
    def program(self) -> OpenedProgram | Unavailable:
        """The optimized HLO with its passes, code and memory, and the program before optimization, for an Explorer.

        Without optimized HLO it is the module before optimization.
        """
        after = self.after
        if isinstance(after, Unavailable):
            return after if isinstance(self.before, Unavailable) else self.before
        lowered = self._lowered(after.platform)
        return dataclasses.replace(
            after,
            passes=self.passes
            if isinstance(self.passes, Unavailable)
            else CompilerPasses.of(self.passes, after.module),
            assembly=self.assembly,
            before=lowered,
            mesh=after.mesh or (lowered.program.mesh if lowered else None),
            notes=(*after.notes, *(f"missing in the dump: {name}: {why.reason}" for name, why in self.missing.items())),
        )

    @functools.cached_property
    def passes(self) -> Passes | Unavailable:
        """The changes by each pass, from the snapshots between passes."""
        from inspector._jax.modules.hlo_texts import hlo_texts

        known = passes_of(self._folder, self._files, lambda: _of(self.after).hlo, hlo_texts)
        return known if isinstance(known, Unavailable) else CompilerPasses.of(known)

    @functools.cached_property
    def assembly(self) -> Assembly | Unavailable:
        """The code of the backend: thunks, LLVM IR, PTX, object files."""
        platform = self.platform or ("cpu" if isinstance(self.after, Unavailable) else self.after.platform)
        return assembly_of(self._folder, self._files, platform)

    @property
    def memory(self) -> Memory | Unavailable:
        """Bytes by memory space and kind, from the buffer assignment."""
        if isinstance(self.after, Unavailable):
            return self.after
        return (
            self.after.memory
            if isinstance(self.after.memory, Memory)
            else self.missing.get("memory", self.after.memory)
        )

    @functools.cached_property
    def flags(self) -> DumpedFlags | Unavailable:
        """The flags of the compile that differ from XLA's defaults."""
        entry = self._files.files.get("debug_options")
        if entry is None:
            return _NO_FLAGS
        try:
            return read_debug_options(self._folder.read(entry).decode("utf-8", "replace"))
        except ModuleError as e:
            return Unavailable(str(e))

    @property
    @needs_jax("An Explorer of a dump")
    def exploration(self) -> Exploration:
        """The module as an `Exploration`, which can be saved to a file.

        Raises:
          ModuleError: the dump has no HLO of it that can be read.
        """
        return _of(self.program).exploration_with("dumped", None)

    def _opened(self, stage: str) -> OpenedProgram | Unavailable:
        forms = self._files.stage(stage)
        if not forms:
            return self.missing["after" if stage == AFTER else "before"]
        problems: list[str] = []
        # The proto first: it has the buffer assignment.
        for form in sorted(forms, key=lambda form: (form == TEXT, FORMS.index(form))):
            try:
                return self._of_file(stage, form, forms[form], problems)
            except ModuleError as e:
                problems.append(f"{forms[form].path!r}: {str(e).partition('Expected')[0].strip()}")
        return Unavailable(f"no file with it can be read: {' '.join(problems)}", "dump again")

    def _of_file(self, stage: str, form: str, entry: DumpEntry, problems: list[str]) -> OpenedProgram:
        data = self._folder.read(entry)
        if form == TEXT and is_cut_off(data):
            raise ModuleError("the text is cut off, as a full disk leaves it.")
        if form == TEXT and is_binary(data):
            raise ModuleError("the file contains binary data instead of text.")
        flags = self.flags
        opened = OpenedProgram.of(
            data.decode("utf-8", "replace") if form == TEXT else data,
            platform=self.platform,
            source=entry.path,
            options=None if isinstance(flags, Unavailable) else flags.for_compiling,
            live_range=self._live_range if stage == AFTER else "",
            notes=tuple(f"not read: {problem}" for problem in problems),
        )
        if self._chip is None:
            return opened
        devices = opened.num_replicas * opened.num_partitions
        return dataclasses.replace(opened, target=Target.parse(f"{self._chip}:{devices}"))

    @functools.cached_property
    def _chip(self) -> str | None:
        """The GPU of the compile as a target without the number of devices, if the dump names a known one."""
        entry = self._files.files.get(_GPU)
        if entry is None:
            return None
        try:
            lines = self._folder.read(entry).decode("utf-8", "replace").split("\n")
        except ModuleError:
            return None
        device = next((line.partition(":")[2].strip().strip('"') for line in lines if line.startswith(_DEVICE)), "")
        return next((f"gpu:{chip.name}" for chip in platforms.chips() if device and chip.device_kind == device), None)

    @property
    def _live_range(self) -> str:
        entry = self._files.ending(AFTER + _LIVE_RANGE)
        try:
            return "" if entry is None else self._folder.read(entry).decode("utf-8", "replace")
        except ModuleError:
            return ""

    def _lowered(self, platform: str) -> Lowered | None:
        """The program before optimization, from its StableHLO or its HLO; None if neither can be read."""
        from inspector.lowering.lower import lower

        proto = {form: entry for form, entry in self._files.stage(BEFORE).items() if form != TEXT}
        text = self._files.stage(BEFORE).get(TEXT)
        entries = [self._files.files.get(_MLIR), proto.get(form_of(proto)), text]
        for entry in filter(None, entries):
            try:
                data = self._folder.read(entry)
                is_text = entry.path.endswith((TEXT, _MLIR))
                lowered = lower(data.decode("utf-8", "replace") if is_text else data, platform=platform)
            except InspectorError:
                continue
            if lowered.program.no_hlo is None:
                return lowered
        return None if isinstance(self.before, Unavailable) else self.before.lowered

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Shows the Explorer in a cell, or the description if there is no HLO; called by IPython."""
        from IPython.display import HTML, display

        try:
            super()._ipython_display_(**kwargs)
        except ModuleError:
            display(HTML(self._repr_html_()), **kwargs)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        where = f" on {self.platform}" if self.platform else ""
        size = f"{counted(len(self.files), 'file')}, {format_bytes(self.byte_size)}"
        lacks = f", without {format_list(list(self.missing))}" if self.missing else ""
        text = f"<DumpedModule {self.label}{where}: {size}, {counted(self.snapshot_count, 'snapshot')}{lacks}>"
        return with_hint(text, ".after, .before, .passes, .assembly, .memory, .flags, .missing, .explorer()")

    def _repr_html_(self) -> str:
        lacks = {f"missing: {name}": f"{why.reason}. {why.remedy}" for name, why in self.missing.items()}
        return described(repr(self), lacks)


def _of(program: OpenedProgram | Unavailable) -> OpenedProgram:
    if isinstance(program, Unavailable):
        raise ModuleError(f"{program.reason}.")
    return program
