"""`load`: opens saved explorations and programs, profiles, and modules."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inspector.api.dump import Dump, load_dump
from inspector.api.exploration import Exploration
from inspector.api.opened_file import OpenedFile, open_file, path_of
from inspector.api.opened_program import OpenedProgram
from inspector.api.recorded_profile import RecordedProfile, load_profile
from inspector.compilation.dumps.folder import is_dump
from inspector.compilation.files import manifest, saved_compiled
from inspector.compilation.target import Target
from inspector.errors import ModuleError, ParameterError, ProfileError
from inspector.profiles.session_files import is_profile
from inspector.reports import bundle
from inspector.stages.compiled import Compiled, load_compiled
from inspector.stages.lowered import Lowered
from inspector.support import files
from inspector.support.notebook import short

_ZIP = b"PK"


def load(
    path: str | os.PathLike[str],
    *,
    target: str | Target | None = None,
    module: str | int | None = None,
    function: str | None = None,
    refine: Mapping[str, Sequence[int]] | None = None,
) -> Exploration | Compiled | RecordedProfile | Dump | OpenedProgram | OpenedFile | Lowered:
    """Opens a file that `Explorer.save` or `Compiled.save` wrote, a profile of `jax.profiler`, a dump of XLA, or a module.

    Nothing in it is executed or compiled. Saved files and profiles also open where JAX is not installed: the content can then
    be shown, but not compiled or run.

    Args:
      path: path of the file; for a profile, also the folder of `jax.profiler.trace(folder)`, of which the newest session is
        read; for a dump, the folder of `--xla_dump_to`; for a module, HLO (text, or a serialized HloModuleProto or HloProto)
        or StableHLO (text, bytecode or portable artifact).
      target: the target of an HLO module, such as "tpu:v5e:2x4", for estimated times; None if unknown.
      module: name or number of the module, from 1, in a file with several.
      function: name of the function of a StableHLO module that has no `main`, or several public functions.
      refine: shapes of the arguments of a StableHLO module with dynamic shapes, such as {"arg0": (8, 128)}.

    Returns:
      An `Exploration`, which a notebook shows as an Explorer; a `Compiled`; a `RecordedProfile` with its programs; a
      `Dump` with its modules; an `OpenedProgram` for HLO; a `Lowered` for StableHLO; or an `OpenedFile` for several modules.

    Raises:
      FileNotFoundError: no such file.
      ParameterError: not a path.
      ModuleError: not such a file, damaged, or of a newer version; for a profile, a `ProfileError`.
      TargetError: an unknown target.
    """
    _check_path(path)
    if is_dump(path):
        return load_dump(path)
    if is_profile(path):
        try:
            return load_profile(path)
        except ProfileError as e:
            if not Path(path).is_dir():
                raise
            raise ProfileError(f"{e} The folder is also not a dump that XLA writes with --xla_dump_to.") from e
    name = repr(os.fspath(path))
    if not _is_archive(path):
        return _module(path, name, target, {"module": module, "function": function, "refine": refine})
    try:
        format_ = manifest.format_of(path)
    except ModuleError as e:
        raise ModuleError(
            f"{name} is not an .inspector file: {e}. Expected one that Explorer.save or Compiled.save wrote, a profile (a .xplane.pb"
            " file or its folder), or HLO or StableHLO."
        ) from e
    if format_ == saved_compiled.FORMAT:
        return load_compiled(path)
    return Exploration.of(bundle.load(path))


def opened_recording(source: object) -> Any:
    """Returns what `load` opens if that was compiled or measured before: a saved file, a profile or a dump.

    Args:
      source: the path of a file or folder, or anything else.

    Returns:
      The opened value for such a path; `source` itself for everything else, modules included.

    Raises:
      ModuleError: the file is damaged, or of a newer version; for a profile, a `ProfileError`.
    """
    path = path_of(source)
    if not path or "\0" in path:
        return source
    is_recording = Path(path).is_dir() or (Path(path).is_file() and (is_profile(path) or _is_archive(path)))
    return load(path) if is_recording else source


def _is_archive(path: str | os.PathLike[str]) -> bool:
    with files.open_regular(path) as file:
        return file.read(len(_ZIP)) == _ZIP


def _check_path(path: object) -> None:
    """Raises a `ParameterError` for anything but the path of a file or folder, such as the content of a module."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path):
        what = "text with a zero byte" if isinstance(path, str) else f"{type(path).__name__} {short(path)}"
        raise ParameterError(
            f"`load` takes the path of a file or folder, not {what}. Write a module's content to a file first."
        )


def _module(
    path: str | os.PathLike[str], name: str, target: str | Target | None, choice: Mapping[str, Any]
) -> OpenedProgram | OpenedFile | Lowered:
    try:
        opened = open_file(path, target=target, **choice)
        return opened[0] if len(opened) == 1 else opened
    except ModuleError as e:
        raise ModuleError(
            f"Cannot open {name}: {e}\ninspector.load opens HLO and StableHLO, .inspector files, profiles (a .xplane.pb file or"
            " its folder) and folders of --xla_dump_to."
        ) from e
