"""`Exploration`: one that was recorded, as users hold it. A notebook shows it as an Explorer that answers from the record."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Self

from inspector.compilation.files import manifest, saved_compiled
from inspector.compilation.tuning import AS_IT_IS
from inspector.errors import ModuleError, needs_jax
from inspector.reports import bundle
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant
from inspector.stages.compiled import Compiled, load_compiled

if TYPE_CHECKING:
    import pandas as pd

    from inspector.reports.replay import Replay
    from inspector.widgets.explorer import Explorer


def load(path: str | os.PathLike[str]) -> Exploration | Compiled:
    """Opens a file of `Explorer.save`, or one of `Compiled.save`. Nothing in it is executed.

    Also where JAX is not installed: what was saved can be shown, not compiled or run again.

    Args:
      path: of the file.

    Returns:
      What was saved: an `Exploration`, which a notebook shows as an Explorer, or a `Compiled`.

    Raises:
      FileNotFoundError: there is none.
      ModuleError: not such a file, damaged, or of a newer version.
    """
    name = repr(os.fspath(path))
    try:
        found = manifest.format_of(path)
    except ModuleError as e:
        raise ModuleError(
            f"{name} is no file of inspector: {e}. Expected one that Explorer.save or Compiled.save wrote."
        ) from e
    if found == saved_compiled.FORMAT:
        return load_compiled(path)
    return Exploration.of(bundle.load(path))


class Exploration(RecordedExploration):
    """A recorded exploration; its fields are those of `RecordedExploration`. `inspector.load` gives one."""

    __slots__ = ()

    @classmethod
    def of(cls, recorded: RecordedExploration) -> Self:
        """The same with these methods."""
        return cls(**{field.name: getattr(recorded, field.name) for field in dataclasses.fields(recorded)})

    @property
    def baseline(self) -> RecordedVariant:
        """The variant that the others are compared with."""
        return self.variants[0]

    def compare(self) -> pd.DataFrame:
        """Memory, cost and compile time of the variants that compiled, side by side."""
        from inspector.analysis.cost.stats import compare

        done = [variant for variant in self.variants if variant.program is not None]
        is_named = any(variant.tuning != AS_IT_IS for variant in done)  # else by their options, which say more
        return compare(*(v.compiled for v in done), names=[v.label for v in done] if is_named else ())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to one file that `inspector.load` opens.

        Raises:
          OSError: the place cannot be written.
        """
        bundle.save(self, path)

    @needs_jax("Compiling")
    def replay(self, jax: str = "", *, allow: Collection[str] = ()) -> Replay:
        """Compiles every variant again and waits: what does another JAX make of the same programs?

        The programs are the recorded ones, in StableHLO: it is the compiler that differs. What the other JAX would lower
        differently does not show.

        Args:
          jax: a version, such as "0.12.0.1", which uv installs into this user's cache the first time; "" for the installed
            one.
          allow: names of options that you trust. Without it, variants whose options can make a compiler use files or pass
            arguments on to another program fail with the reason: somebody else may have made the file.

        Raises:
          TargetError: no such version can be.
          ParameterError: `allow` names an option that no variant has.
        """
        from inspector.reports.guarded_engine import Guarded
        from inspector.reports.other_jax import OtherJax
        from inspector.reports.portable import installed_jax
        from inspector.reports.recompile import Recompiler
        from inspector.reports.replay import replay

        other = "" if jax == installed_jax() else jax
        engine = OtherJax(self.portable) if other else Recompiler(self.portable)
        return replay(self, Guarded(engine, self, allow), other)

    def explorer(self, height_px: int = 700, *, allow: Collection[str] = ()) -> Explorer:
        """An Explorer that answers from what was recorded; other options and targets are compiled here.

        Args:
          height_px: initial height of the panes.
          allow: names of recorded options that you trust, as for `replay`.

        Raises:
          ParameterError: `allow` names an option that no variant has.
        """
        from inspector.api.recorded_work import explorer_of

        return explorer_of(self, height_px, allow)

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Called by IPython to show it in a cell."""
        self.explorer()._ipython_display_(**kwargs)

    def __repr__(self) -> str:
        jax = self.installation.jax or "unknown"
        lines = [f"Exploration of {self.lowered.program.signature}, recorded {self.recorded_at} with JAX {jax}"]
        for variant in self.variants:
            target = "" if variant.label == str(variant.target) else f" [{variant.target}]"
            said = f", {' '.join(str(variant.error).split())[:200]}" if variant.error else ""
            lines.append(f"  {variant.label}{target}: {variant.state}{said}")
        return "\n".join(lines)
