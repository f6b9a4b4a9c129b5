"""Reads the passes, the code and the flags of a module from its files in a dump folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

from inspector import platforms
from inspector.compilation.dumps.folder import DumpFolder
from inspector.compilation.dumps.names import AFTER, BEFORE, FORMS, TEXT, DumpEntry, ModuleFiles
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.assembly_record import AssemblyRecorder
from inspector.compilation.records.dump_names import SnapshotName
from inspector.compilation.records.final_text import final_text
from inspector.compilation.records.pass_chain import chain
from inspector.compilation.records.pass_metadata import timed_passes
from inspector.compilation.records.pass_record import Snapshot, TimedPass, record_passes
from inspector.compilation.records.passes import Passes
from inspector.compilation.records.texts import TextsBuilder
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.reading.module_message import decoded
from inspector.support.units import counted

ToTexts = Callable[[Sequence[bytes]], Sequence[str | ModuleError]]
"""Converts serialized modules to text, each or the reason why it cannot."""

PASSES_FLAG, PROTO_FLAG, METADATA_FLAG = "xla_dump_hlo_pass_re=.*", "xla_dump_hlo_as_proto", "xla_dump_module_metadata"
_METADATA = "metadata.textproto"
_NO_EXECUTABLE = Unavailable("a dump contains no executable")
_NO_TIMES = Unavailable("the dump contains no times of passes", f"dump with --{METADATA_FLAG}")
_ORDER = re.compile(r"\d{4}\.")
_BATCH = 64  # snapshots that are converted together
_MODULE_START = b"HloModule"


def is_cut_off(text: bytes) -> bool:
    """Reports whether a text contains only the beginning of an HLO module, as a full disk leaves it."""
    return not text.strip() or (text.startswith(_MODULE_START) and not text.rstrip().endswith(b"}"))


def is_binary(text: bytes) -> bool:
    """Reports whether a file with a text contains bytes that no text has."""
    return b"\0" in text


def form_of(forms: Mapping[str, object]) -> str:
    """Returns the preferred one of several suffixes; "" for none."""
    return next((form for form in FORMS if form in forms), "")


@dataclasses.dataclass(slots=True)
class _Reader:
    """Reads snapshots in batches, since many small modules are converted together."""

    folder: DumpFolder
    to_texts: ToTexts
    texts: TextsBuilder = dataclasses.field(default_factory=TextsBuilder)
    lost: list[str] = dataclasses.field(default_factory=list)

    def add(self, entries: Sequence[tuple[str, DumpEntry]]) -> list[int | None]:
        """Adds the texts of files by suffix and entry; None for a file that cannot be read."""
        indices: list[int | None] = []
        for start in range(0, len(entries), _BATCH):
            batch = [self._read(form, entry) for form, entry in entries[start : start + _BATCH]]
            protos = [data for (form, _), data in zip(entries[start:], batch, strict=False) if form != TEXT and data]
            written = iter(self.to_texts(protos) if protos else ())
            for (form, entry), data in zip(entries[start:], batch, strict=False):
                text: bytes | None = data
                if data is not None and form != TEXT:
                    converted = next(written)
                    text = converted.encode() if isinstance(converted, str) else None
                if text is None:
                    self.lost.append(entry.path)
                indices.append(None if text is None else self.texts.add(text))
        return indices

    def _read(self, form: str, entry: DumpEntry) -> bytes | None:
        try:
            data = self.folder.read(entry)
        except ModuleError:
            return None
        if form == TEXT:
            return None if is_cut_off(data) or is_binary(data) else data
        try:
            return bytes(decoded(data).SerializeToString())
        except ModuleError:
            return None


def passes_of(
    folder: DumpFolder, module: ModuleFiles, hlo: Callable[[], str], to_texts: ToTexts
) -> Passes | Unavailable:
    """Returns the passes of a module.

    Args:
      folder: the dump folder.
      module: the module.
      hlo: returns the text of the optimized HLO.
      to_texts: converts protos to text.
    """
    related = [other for other in folder.modules if other.name == module.name and other.number >= module.number]
    files = {name: forms for other in related for name, forms in other.snapshots.items()}
    names = [snapshot.name for snapshot in chain([Snapshot(name, 0) for name in files], module.number)]
    if not names:
        return Unavailable("the dump contains no snapshots between passes", f"dump with --{PASSES_FLAG}")
    form = _common_form([files[name] for name in names])
    reader = _Reader(folder, to_texts)
    initial_entry = _entry(module.stage(BEFORE), form)
    entries = [entry for name in names if (entry := _entry(files[name], form)) is not None]
    indices = reader.add(entries if initial_entry is None else [initial_entry, *entries])
    initial = None if initial_entry is None else indices.pop(0)
    snapshots = [Snapshot(name, text) for name, text in zip(names, indices, strict=True) if text is not None]
    if not snapshots:
        return Unavailable(
            f"none of the {counted(len(names), 'snapshot')} in the dump can be read, such as {reader.lost[0]!r}"
        )
    end = _final(reader, module, form, snapshots[-1].text, hlo)
    passes = record_passes(reader.texts.build(), initial, snapshots, _timed(folder, module), None, end)
    lost = [path for path in reader.lost if path != (initial_entry[1].path if initial_entry else None)]
    notes = [passes.note]
    if lost:
        notes.append(f"{counted(len(lost), 'snapshot')} cannot be read and is left out, such as {lost[0]!r}.")
    notes.append(_gaps(names, module))
    return dataclasses.replace(passes, note=" ".join(filter(None, notes)))


def _gaps(names: Sequence[SnapshotName], module: ModuleFiles) -> str:
    """Reports numbers of snapshots that have no file, which somebody deleted or XLA could not write."""
    orders = {name.order for name in names if name.number == module.number}
    orders |= {int(rest[:4]) for rest in module.files if _ORDER.match(rest)}  # steps that are not compared
    absent = max(orders, default=-1) + 1 - len(orders)
    if not absent:
        return ""
    first = next(number for number in range(len(orders) + 1) if number not in orders)
    return (
        f"The dump lacks {counted(absent, 'snapshot')}, such as number {first:04}: the next pass shows its changes too."
    )


def _common_form(files: Sequence[Mapping[str, DumpEntry]]) -> str:
    """Returns the suffix that all snapshots have, since texts of different forms cannot be compared; else the usual one."""
    return next((form for form in FORMS if all(form in forms for forms in files)), FORMS[0])


def _entry(forms: Mapping[str, DumpEntry], form: str) -> tuple[str, DumpEntry] | None:
    chosen = form if form in forms else form_of(forms)
    return (chosen, forms[chosen]) if chosen else None


def _final(reader: _Reader, module: ModuleFiles, form: str, last: int, hlo: Callable[[], str]) -> int | None:
    entry = _entry(module.stage(AFTER), form)
    (index,) = reader.add([entry]) if entry else (None,)
    texts = reader.texts.build()
    if index is None:
        try:
            optimized = hlo()
        except ModuleError:
            return None
    else:
        optimized = texts[index]
    final = final_text(optimized, texts[last])
    return None if final is None else reader.texts.add(final.encode())


def _timed(folder: DumpFolder, module: ModuleFiles) -> list[TimedPass] | Unavailable:
    entry = module.files.get(_METADATA)
    if entry is None:
        return _NO_TIMES
    try:
        return timed_passes(folder.read(entry).decode("utf-8", "replace"))
    except ModuleError as e:
        return Unavailable(f"the times of passes cannot be read: {e}")


def assembly_of(folder: DumpFolder, module: ModuleFiles, platform: str) -> Assembly | Unavailable:
    """Returns the code of a module: LLVM IR, PTX, thunks, object files, LLO."""
    recorder = AssemblyRecorder(platform)
    files = {f"{module.label}.{rest}": entry for rest, entry in module.files.items()}
    if sum(other.platform == module.platform for other in folder.modules) == 1:  # names of LLO files lack the module
        files |= {entry.path: entry for entry in folder.others}
    lost = []
    for name, entry in files.items():
        if recorder.reads(name):
            try:
                recorder.take(name, folder.read(entry))
            except ModuleError:
                lost.append(entry.path)
    known = recorder.assembly(module.name, _NO_EXECUTABLE)
    if isinstance(known, Unavailable):
        emitters = platforms.named(platform).emitters
        remedy = (
            f"dump with --xla_dump_emitter_re='{emitters}'" if emitters else "set the flags that make libtpu write LLO"
        )
        return Unavailable("the dump contains no code of the backend", remedy)
    note = f"{counted(len(lost), 'file')} cannot be read, such as {lost[0]!r}." if lost else ""
    return dataclasses.replace(known, note=" ".join(filter(None, [known.note, note])))


def missing_of(module: ModuleFiles, platform: str | None) -> dict[str, Unavailable]:
    """Returns the parts that a dump of a module lacks, by name, with the flag of XLA that writes each."""
    found: dict[str, Unavailable] = {}
    text = "dump with --xla_dump_to, and keep these files"
    for name, stage in (("before", BEFORE), ("after", AFTER)):
        forms = module.stage(stage)
        if not forms:
            found[name] = Unavailable(f"the dump has no file *{stage}.txt or .hlo.pb", text)
        elif all(entry.byte_size == 0 for entry in forms.values()):
            found[name] = Unavailable(
                f"{next(iter(forms.values())).path!r} is empty", "dump to a disk with enough space"
            )
    if not set(module.stage(AFTER)) - {TEXT}:
        found["memory"] = Unavailable(
            "the buffer assignment is only in the HloProto *after_optimizations.hlo.pb", f"dump with --{PROTO_FLAG}"
        )
    if not module.snapshots:
        found["passes"] = Unavailable("the dump contains no snapshots between passes", f"dump with --{PASSES_FLAG}")
    if _METADATA not in module.files:
        found["pass times"] = _NO_TIMES
    known = platforms.named(platform) if platform else None
    if (
        known is not None
        and known.code
        and not any(r.endswith(k.end) for r in module.files for k in known.code if k.language != "text")
    ):
        found["assembly"] = Unavailable(
            "the dump contains no code of the backend", f"dump with --xla_dump_emitter_re='{known.emitters}'"
        )
    if "debug_options" not in module.files:
        found["flags"] = Unavailable(
            "the dump has no file *.debug_options", "dump with a version of XLA that writes it"
        )
    return found
