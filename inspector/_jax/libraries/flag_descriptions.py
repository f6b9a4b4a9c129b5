"""Recovers XLA's descriptions of its flags from the code that registers them.

The descriptions are strings in jaxlib's library. No function of jaxlib returns them, and
`--help` prints only a quarter of them. The code that registers a flag loads the address of its name, then
that of its description: so the description is the first text loaded after the name and before
another flag's name. This recovers 296 of 311 (0.10.2) and 336 of 349 (0.12) descriptions; the other flags have none
or build them at run time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np

from inspector._jax.libraries.elf_strings import Image, StringUses, UnknownFormatError, image_of
from inspector._jax.libraries.library import cached
from inspector.errors import MissingPackageError, Unavailable

_NAME = re.compile(rb"xla_[A-Za-z0-9_]+(?=\0)")
_FARTHEST_BYTES = 260
_SHORTEST_TEXT = 15


def installed_descriptions(names: Collection[str]) -> dict[str, str] | Unavailable:
    """Returns the recovered descriptions by flag name.

    Args:
      names: all flags of the installed jaxlib.

    Returns:
      The descriptions, or why there are none.
    """

    def find(library: Path) -> bytes:
        return json.dumps(recover(library, names)).encode()

    try:
        descriptions: dict[str, str] = json.loads(cached("descriptions", find))
    except (MissingPackageError, UnknownFormatError, OSError) as e:
        return Unavailable(f"descriptions can only be read from jaxlib's x86-64 Linux library: {e}")
    return descriptions


def recover(library: Path, names: Collection[str]) -> dict[str, str]:
    """Recovers descriptions from a library.

    Raises:
      UnknownFormatError: not an x86-64 ELF file.
    """
    with image_of(library) as image:
        wanted = set(names)
        flags = {address: name.decode() for address, name in image.matches(_NAME) if name.decode() in wanted}
        uses = image.string_uses()
        named = np.nonzero(np.isin(uses.target, np.fromiter(flags, np.int64, len(flags))))[0]
        return _describe(image, uses, named, flags)


def _describe(image: Image, uses: StringUses, named: np.ndarray, flags: dict[int, str]) -> dict[str, str]:
    """Returns, for each flag, the text that is loaded soonest after its name."""
    texts: dict[str, tuple[int, str]] = {}
    for use in named.tolist():
        name = flags[int(uses.target[use])]
        nearest = _text_after(image, uses, use, flags)
        if nearest is not None and (name not in texts or nearest[0] < texts[name][0]):
            texts[name] = nearest
    return {name: text for name, (_, text) in sorted(texts.items())}


def _text_after(image: Image, uses: StringUses, use: int, flags: dict[int, str]) -> tuple[int, str] | None:
    for later in range(use + 1, len(uses.at)):
        target = int(uses.target[later])
        if uses.at[later] - uses.at[use] > _FARTHEST_BYTES or target in flags:
            return None
        text = image.text_at(target)
        if text and len(text) >= _SHORTEST_TEXT and " " in text and not _is_signature(text):
            return later - use, " ".join(text.split())
    return None


def _is_signature(text: str) -> bool:
    """Reports whether a text is a Python binding's signature, for example `({%}, {bool}) -> None`."""
    return text.startswith("(") and " -> " in text
