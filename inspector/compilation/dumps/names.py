"""Groups the files of a dump folder by module, from their names alone.

    module_0004.jit_f.before_optimizations.hlo.pb.gz
    module_0004.jit_f.sm_9.0a_gpu_after_optimizations-buffer-assignment.txt
    module_0004.jit_f.cl_933746096.0003.fusion.after_dce.before_cse.txt         TPU: with an identifier
    1764181000000000.module_0004.jit_f.before_optimizations.txt                 xla_dump_include_timestamp
    module_0004.metadata.textproto                                             of a number
    module_0004.jit_f/module.mlir                                              in a folder of the module

Names of modules may contain dots. Files with a known stage determine the names of all modules; other files belong to the
longest of these names that theirs begins with.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from inspector import platforms
from inspector.compilation.records.dump_names import SnapshotName, snapshot_parts

_HEAD = re.compile(r"(?:\d+\.)?(module_(\d{1,18})\.(.+))", re.DOTALL)
_STAGE = re.compile(
    r"\.((?:sm_\d+(?:\.\d+[a-z]?)?_gpu_|[A-Za-z0-9]{1,16}_(?:gpu_)?)?(?:before|after)_optimizations(?=[.\-_]|$)"
    r"|after_codegen(?=\.)|after_spmd_partitioner(?=\.)|debug_options$)"
)
_AMD_CHIPS = "gfx"  # the beginning of the names of their architectures
_AFTER_STAGE = re.compile(r"(?:[-_][\w\-]*)?(?:\.txt|\.hlo\.pb(?:\.gz)?)?")
_IDENTIFIER = re.compile(r"\.cl_\d+$")

TEXT, PROTO, PACKED_PROTO = ".txt", ".hlo.pb", ".hlo.pb.gz"
FORMS = (TEXT, PACKED_PROTO, PROTO)
"""Suffixes of files with HLO, the preferred one first."""

BEFORE, AFTER = "before_optimizations", "after_optimizations"
"""Stages in names of files."""

OF_NUMBER = ("metadata.textproto",)
"""Files that XLA names after the module's number only."""


@dataclasses.dataclass(frozen=True, slots=True)
class DumpEntry:
    """A file of the folder.

    Attributes:
      path: path relative to the folder.
      byte_size: size in bytes.
    """

    path: str
    byte_size: int


@dataclasses.dataclass(slots=True)
class ModuleFiles:
    """The files of one module.

    Attributes:
      number: XLA's number of the module in its process.
      name: name of the module.
      files: files by the part of their name after the module's name, such as "before_optimizations.txt".
      snapshots: the files of each snapshot between passes, by suffix.
    """

    number: int
    name: str
    files: dict[str, DumpEntry] = dataclasses.field(default_factory=dict)
    snapshots: dict[SnapshotName, dict[str, DumpEntry]] = dataclasses.field(default_factory=dict)

    @property
    def label(self) -> str:
        """The beginning of the names of its files, such as "module_0004.jit_f"."""
        return f"module_{self.number:04}.{self.name}"

    @property
    def entries(self) -> list[DumpEntry]:
        """All its files."""
        return [*self.files.values(), *(entry for forms in self.snapshots.values() for entry in forms.values())]

    def stage(self, stage: str) -> Mapping[str, DumpEntry]:
        """Returns the files with the HLO of a stage, by suffix: {".txt": ...}."""
        found: dict[str, DumpEntry] = {}
        for rest, entry in self.files.items():
            form = next((form for form in FORMS if rest.endswith(form)), "")
            if form and rest.removesuffix(form).endswith(stage):
                found.setdefault(form, entry)
        return found

    def ending(self, end: str) -> DumpEntry | None:
        """Returns the first file whose name has an ending; None if there is none."""
        return next((entry for rest, entry in sorted(self.files.items()) if rest.endswith(end)), None)

    @property
    def platform(self) -> str | None:
        """The platform in the names of its files; None if they have none."""
        for rest in self.files:
            stage = rest.partition(AFTER)[0] if AFTER in rest else None
            if stage is None:
                continue
            if stage == "cpu_":
                return "cpu"
            if stage.endswith("_gpu_") or stage == "gpu_":
                return platforms.of_vendor("gpu", "amd" if stage.startswith(_AMD_CHIPS) else "nvidia").name
        return "tpu" if any(rest.startswith("tpu_comp_env") for rest in self.files) else None


def grouped(entries: Iterable[DumpEntry]) -> tuple[list[ModuleFiles], list[DumpEntry]]:
    """Groups files by module.

    Returns:
      The modules by number and name, and the files that belong to no module.
    """
    modules: dict[tuple[int, str], ModuleFiles] = {}
    names: dict[int, set[str]] = {}
    later: list[tuple[DumpEntry, int, str, str]] = []
    others: list[DumpEntry] = []

    def of(number: int, name: str) -> ModuleFiles:
        names.setdefault(number, set()).add(name)
        return modules.setdefault((number, name), ModuleFiles(number, name))

    for entry in entries:
        match = _HEAD.fullmatch(entry.path)
        if match is None:
            others.append(entry)
            continue
        whole, number, tail = match[1], int(match[2]), match[3]
        form = next((form for form in FORMS if whole.endswith(form)), "")
        parts = snapshot_parts(whole.removesuffix(form)) if form and "/" not in whole else None
        if parts is not None and parts.module:
            parts = dataclasses.replace(parts, module=_IDENTIFIER.sub("", parts.module))
            of(number, parts.module).snapshots.setdefault(parts, {})[form] = entry
            continue
        stages = [] if "/" in tail else list(_STAGE.finditer(tail))
        if stages and _AFTER_STAGE.fullmatch(tail, stages[-1].end()):
            start = stages[-1].start()
            of(number, _IDENTIFIER.sub("", tail[:start])).files[tail[start + 1 :]] = entry
        else:  # the word may be part of the module's name, as in "x.jit_after_optimizations.3.ptx"
            later.append((entry, number, tail, _IDENTIFIER.sub("", tail[: stages[-1].start()]) if stages else ""))
    for entry, number, tail, likely in later:
        known = names.get(number, set())
        if tail in OF_NUMBER:
            for name in known:
                modules[number, name].files[tail] = entry
            if not known:
                others.append(entry)
            continue
        begun = [n for n in known if tail.startswith((f"{n}.", f"{n}/"))]
        name = max(begun, key=len) if begun else likely or tail.partition("/")[0].partition(".")[0]
        rest = tail[len(name) + 1 :]
        if rest.startswith("cl_"):
            rest = re.sub(r"^cl_\d+[./]", "", rest)
        of(number, name).files[rest] = entry
    return [modules[key] for key in sorted(modules)], others
