"""`DumpedProducts`: reads a compile's requested products from XLA's dump while XLA writes it.

Runs in the process that compiles. The products leave it as bytes, which `Compiled` reads.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from inspector import platforms
from inspector.compilation.compiled import incomplete
from inspector.compilation.records.assembly_record import AssemblyRecorder
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.dump_names import module_file, snapshot_name
from inspector.compilation.records.final_text import final_text
from inspector.compilation.records.pass_chain import chain
from inspector.compilation.records.pass_metadata import timed_passes
from inspector.compilation.records.pass_record import Snapshot, TimedPass, record_passes
from inspector.compilation.records.phases import Span
from inspector.compilation.records.texts import TextsBuilder
from inspector.engines.unreadable_parts import readable
from inspector.errors import Unavailable

if TYPE_CHECKING:
    from inspector._jax.compiling.pass_times import PassTimes
    from inspector._jax.compiling.report import Report

T = TypeVar("T")

_INITIAL = "before_optimizations.txt"
_METADATA = ".metadata.textproto"
_OPTIMIZED = "after_optimizations.txt"
_ASSIGNMENT_TEXT = "after_optimizations-buffer-assignment.txt"
_FINAL_PROTO, _LIVE_RANGE = "after_optimizations.hlo.pb", "after_optimizations-live-range.txt"


class DumpedProducts:
    """The products of one compile. `see` receives every file of the dump."""

    def __init__(self, products: Collection[str], platform: str) -> None:
        """Creates an empty recording.

        Args:
          products: the requested ones of `request.PRODUCTS`.
          platform: platform of the target.
        """
        self._products = frozenset(products)
        self._platform = platform
        self._passes = _PassFiles()
        self._buffers = _BufferFiles()
        self._assembly = AssemblyRecorder(platform)
        self._assignments: dict[str, bytes] = {}
        self._optimized_s: dict[str, float] = {}
        self._started_s = 0.0
        self._lost = ""

    def lose(self, reason: str) -> None:
        """Takes the reason why the compiler's dump is incomplete. Then all products are unavailable."""
        self._lost = self._lost or reason

    @property
    def flags(self) -> Mapping[str, Any]:
        """XLA's flags for the dump."""
        flags: dict[str, Any] = {"xla_dump_hlo_as_text": True}
        if "passes" in self._products:
            flags |= {"xla_dump_hlo_pass_re": ".*"}
            if self._platform != "cpu":  # a CPU compile writes none
                flags |= {"xla_dump_module_metadata": True}
        if "buffers" in self._products:
            flags |= {"xla_dump_hlo_as_proto": True, "xla_dump_buffer_assignment_analysis": True}
        if "assembly" in self._products:
            flags |= self._assembly.flags
        return flags

    @property
    def folders(self) -> Collection[str]:
        """Folders, by name, that the compiler writes to in addition to its dump (`Platform.load_folders`)."""
        return platforms.named(self._platform).load_folders if "assembly" in self._products else ()

    def see(self, file: Path) -> None:
        """Reads a file of XLA's dump as far as a product needs it."""
        if file.name.endswith(_OPTIMIZED):
            self._optimized_s[file.name] = file.stat().st_mtime
        if file.name.endswith(_ASSIGNMENT_TEXT):
            self._assignments[file.name] = file.read_bytes()
        if "passes" in self._products:
            self._passes.see(file)
        if "buffers" in self._products:
            self._buffers.see(file)
        if "assembly" in self._products:
            self._assembly.see(file)

    @contextlib.contextmanager
    def timing(self) -> Iterator[None]:
        """Measures the compile."""
        self._started_s = time.time()
        if "passes" not in self._products or self._platform != "cpu":
            yield
            return
        from inspector._jax.compiling.pass_times import PassTimes

        with PassTimes() as times:
            yield
        self._passes.times = times

    def read(self, report: Report) -> Mapping[str, bytes | Unavailable]:
        """Returns the products by name, after the compile.

        Args:
          report: the compiler's report.
        """
        if self._lost:
            return dict.fromkeys(sorted(self._products), incomplete(self._lost))
        module = _module_name(report.hlo)
        read = {
            "passes": lambda: self._passes.read(module, self._span(module, report.timings), report.hlo),
            "buffers": lambda: self._buffers.read(module),
            "assembly": lambda: self._assembly.read(module, report.executable),
        }
        return {name: readable(name, read[name]) for name in sorted(self._products)}

    def _span(self, module: str, timings: Mapping[str, float]) -> Span | None:
        """Returns XLA's part of the compile, in wall-clock time; None for a compile that did not end."""
        if "compile_s" not in timings:
            return None
        start_s = self._started_s + timings.get("parse_s", 0.0)
        end_s = start_s + timings["compile_s"]
        return Span(start_s, end_s, _of_module(self._optimized_s, module), self._platform)

    def assignment(self, report: Report) -> bytes:
        """Returns XLA's text of the buffer assignment, b"" where it wrote none; for compiles that dump no protos."""
        if self._lost:
            return b""
        return _of_module(self._assignments, _module_name(report.hlo)) or b""


class _PassFiles:
    """The snapshots between passes, and the times of passes."""

    def __init__(self) -> None:
        self.times: PassTimes | None = None
        self._texts = TextsBuilder()
        self._snapshots: list[Snapshot] = []
        self._initial: dict[str, int] = {}
        self._metadata: dict[str, str] = {}
        self._optimized: dict[str, bytes] = {}

    def see(self, file: Path) -> None:
        name = snapshot_name(file.name)
        if name is not None:
            self._snapshots.append(Snapshot(name, self._texts.add(file.read_bytes())))
        elif file.name.endswith(_INITIAL):
            self._initial[file.name] = self._texts.add(file.read_bytes())
        elif file.name.endswith(_METADATA):
            self._metadata[file.name] = file.read_text()
        elif file.name.endswith(_OPTIMIZED):
            self._optimized[file.name] = file.read_bytes()

    def read(self, module: str, span: Span | None, hlo: str) -> bytes | Unavailable:
        snapshots = chain([s for s in self._snapshots if s.name.module.startswith(module)])
        if not snapshots:
            return Unavailable(f"the compiler wrote no snapshot of {module!r}")
        number = snapshots[0].name.number
        initial = next((i for f, i in self._initial.items() if (module_file(f, module) or (None,))[0] == number), None)
        timed = self._timed(module, number)
        written = _of_module(self._optimized, module)  # libtpu writes none
        optimized = hlo if written is None else written.decode("utf-8", "replace")
        final = final_text(optimized, self._texts.build()[snapshots[-1].text])
        end = None if final is None else self._texts.add(final.encode())
        return record_passes(self._texts.build(), initial, snapshots, timed, span, end).to_bytes()

    def _timed(self, module: str, number: int) -> list[TimedPass] | Unavailable:
        if self.times is not None:
            passes = self.times.passes(module)
            return passes if isinstance(passes, Unavailable) else [TimedPass(*each) for each in passes]
        text = self._metadata.get(f"module_{number:04}{_METADATA}")
        return Unavailable("the compiler wrote no times of its passes") if text is None else timed_passes(text)


class _BufferFiles:
    """The buffer assignment of the final module."""

    def __init__(self) -> None:
        self._protos: dict[str, bytes] = {}
        self._live_ranges: dict[str, str] = {}

    def see(self, file: Path) -> None:
        if file.name.endswith(_FINAL_PROTO):
            self._protos[file.name] = file.read_bytes()
        elif file.name.endswith(_LIVE_RANGE):
            self._live_ranges[file.name] = file.read_text()

    def read(self, module: str) -> bytes | Unavailable:
        proto = _of_module(self._protos, module)
        if proto is None:
            return Unavailable(f"the compiler wrote no buffer assignment of {module!r}")
        return Buffers.of(proto, _of_module(self._live_ranges, module) or "").to_bytes()


def _of_module(files: Mapping[str, T], module: str) -> T | None:
    return next((value for name, value in sorted(files.items()) if module_file(name, module)), None)


def _module_name(hlo: str) -> str:
    """`HloModule jit_f, is_scheduled=true, ...` -> `jit_f`."""
    return hlo.partition("\n")[0].removeprefix("HloModule ").partition(",")[0].strip()
