"""`load`: opens saved explorations and programs, and profiles."""

from __future__ import annotations

import os

from inspector.api.exploration import Exploration
from inspector.api.recorded_profile import RecordedProfile, load_profile
from inspector.compilation.files import manifest, saved_compiled
from inspector.errors import ModuleError
from inspector.profiles.session_files import is_profile
from inspector.reports import bundle
from inspector.stages.compiled import Compiled, load_compiled


def load(path: str | os.PathLike[str]) -> Exploration | Compiled | RecordedProfile:
    """Opens a file that `Explorer.save` or `Compiled.save` wrote, or a profile of `jax.profiler`. Nothing in it is executed.

    It also works where JAX is not installed: the content can then be shown, but not compiled or run.

    Args:
      path: path of the file; for a profile, also the folder of `jax.profiler.trace(folder)`, of which the newest session is
        read.

    Returns:
      An `Exploration`, which a notebook shows as an Explorer; a `Compiled`; or a `RecordedProfile` with its programs.

    Raises:
      FileNotFoundError: no such file.
      ModuleError: not such a file, damaged, or of a newer version; for a profile, a `ProfileError`.
    """
    if is_profile(path):
        return load_profile(path)
    name = repr(os.fspath(path))
    try:
        format_ = manifest.format_of(path)
    except ModuleError as e:
        raise ModuleError(
            f"{name} is not an .inspector file: {e}. Expected one that Explorer.save or Compiled.save wrote, or a profile: a .xplane.pb file or its folder."
        ) from e
    if format_ == saved_compiled.FORMAT:
        return load_compiled(path)
    return Exploration.of(bundle.load(path))
