"""`Exploration`: a recorded exploration. A notebook shows it as an Explorer that answers from the recording."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Self

from inspector.compilation.tuning import AS_IT_IS
from inspector.errors import needs_jax
from inspector.reports import bundle
from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant

if TYPE_CHECKING:
    import pandas as pd

    from inspector.reports.replay import Replay
    from inspector.widgets.explorer import Explorer


class Exploration(RecordedExploration):
    """A recorded exploration. Its fields are those of `RecordedExploration`. `inspector.load` returns one."""

    __slots__ = ()

    @classmethod
    def of(cls, recorded: RecordedExploration) -> Self:
        """Returns a `RecordedExploration` as an `Exploration`."""
        return cls(**{field.name: getattr(recorded, field.name) for field in dataclasses.fields(recorded)})

    @property
    def baseline(self) -> RecordedVariant:
        """The variant that the others are compared with."""
        return self.variants[0]

    def compare(self) -> pd.DataFrame:
        """Returns memory, cost and compile time of the compiled variants side by side."""
        from inspector.stages.estimates import compare

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
        """Compiles every variant again, with another JAX version if one is named, and returns the differences.

        The recorded StableHLO is compiled, so only the compiler differs. Differences in the lowering by another JAX do not
        show.

        Args:
          jax: a version, e.g. "0.12.0.1", which uv installs into the user's cache on first use; "" for the installed one.
          allow: names of options that you trust. The file may come from somebody else, so variants fail if their options can make
            a compiler access files or pass arguments to another program.

        Raises:
          TargetError: the version cannot be installed.
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

    def explorer(self, height_px: int | None = None, *, allow: Collection[str] = ()) -> Explorer:
        """Returns an Explorer that answers from the recording. Other options and targets are compiled on this machine.

        Args:
          height_px: initial height in CSS pixels; None for 85 % of the window, at most 900.
          allow: names of recorded options that you trust, as for `replay`.

        Raises:
          ParameterError: `allow` names an option that no variant has.
        """
        from inspector.api.recorded_work import explorer_of

        return explorer_of(self, height_px, allow)

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Shows the Explorer in a cell; called by IPython."""
        self.explorer()._ipython_display_(**kwargs)

    def __repr__(self) -> str:
        jax = self.installation.jax or "unknown"
        lines = [f"Exploration of {self.lowered.program.signature}, recorded {self.recorded_at} with JAX {jax}"]
        for variant in self.variants:
            target = "" if variant.label == str(variant.target) else f" [{variant.target}]"
            error = f", {' '.join(str(variant.error).split())[:200]}" if variant.error else ""
            lines.append(f"  {variant.label}{target}: {variant.state}{error}")
        return "\n".join(lines)
