"""The forms in which users name variants of a program: options, targets, or versions of JAX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.target import Target

OptionsLike: TypeAlias = Options | Mapping[str, FlagValue] | str | None

_OF_JAX = "jax=="


def variants_of(
    compare: Iterable[OptionsLike | Target] | OptionsLike | Target, baseline: str | Target = "attached"
) -> list[tuple[OptionsLike, str | Target | None]]:
    """Normalizes `explore(compare=...)` to pairs of options and target; each entry is a target's text, a Target, or options.

    "jax==" and a version means the baseline's target as that version of JAX compiles for it.
    """
    entries: Any = compare  # a single variant needs no list
    several = isinstance(entries, Iterable) and not isinstance(entries, (str, Mapping, Options, Target))
    pairs: list[tuple[OptionsLike, str | Target | None]] = []
    for entry in entries if several else [entries]:
        if isinstance(entry, str) and entry.startswith(_OF_JAX):
            entry = Target.parse(baseline).by(entry.removeprefix(_OF_JAX).strip())
        is_target = isinstance(entry, Target) or (
            isinstance(entry, str) and ("=" not in entry or f"@{_OF_JAX}" in entry) and not entry.startswith("--")
        )
        pairs.append((None, entry) if is_target else (entry, None))
    return pairs
