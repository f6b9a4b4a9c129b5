"""Checks the names of compiler passes in flags, because XLA silently ignores unknown names.

An unknown name is a warning, not an error. inspector reads the known names from jaxlib's library (libtpu's, for a
TPU) and from compiles, but a pass may construct its name in a way that neither shows.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from importlib import metadata
from typing import Protocol

from inspector.compilation.options.options import Options
from inspector.errors import Unavailable
from inspector.toolchain import libtpu, xla

PASS_FLAGS = ("xla_disable_hlo_passes", "xla_enable_hlo_passes_only", "xla_run_hlo_passes_starting_from")
"""Flags whose values are names of passes, separated by commas."""

# These flags accept more than names if XLA's description of the first one has such an example: "algsimp:2", the third
# run of the pass; "simplification/algsimp", its run in a pipeline; "@42", its number.
_PLACES = "'@"
_WITH_PLACES = PASS_FLAGS[:2]

# Passes whose runs differ by a number in the name, such as apply-xla-transforms-3.
_NUMBER = re.compile(r"-\d+$")
_SUGGESTIONS = 3


class _Source(Protocol):
    def pass_names(self) -> frozenset[str] | Unavailable: ...
    def passes_run(self) -> frozenset[str] | Unavailable: ...


_SOURCES: Mapping[str, _Source] = {"cpu": xla, "tpu": libtpu}


def pass_warnings(options: Options, platform: str = "cpu") -> tuple[str, ...]:
    """Returns a warning for each name in `PASS_FLAGS` that is not a known pass of a platform.

    Without these flags, it does nothing. For a name that is not a constant in the library, it
    compiles a program in a separate process to see which passes run, once for each jaxlib or libtpu.
    Platforms other than "cpu" and "tpu" have no known names, and no warnings.
    """
    texts = {flag: str(options.flags[flag]) for flag in PASS_FLAGS if options.flags.get(flag)}
    return tuple(
        _warning(flag, entry, name, platform)
        for flag, entries in texts.items()
        for entry in entries.split(",")
        for name in _names(flag, entry)
        if not is_known(name, platform)
    )


def is_known(name: str, platform: str = "cpu") -> bool:
    """Reports whether a pass is known. True if the platform's passes are unknown."""
    if platform not in _SOURCES:
        return True
    constant = _SOURCES[platform].pass_names()
    if isinstance(constant, frozenset) and _is_in(name, constant):
        return True
    run = _SOURCES[platform].passes_run()
    if isinstance(run, Unavailable):
        return isinstance(constant, Unavailable)
    return _is_in(name, run)


def _names(flag: str, entry: str) -> tuple[str, ...]:
    """Returns the names of passes and pipelines in an entry of a flag."""
    if flag not in _WITH_PLACES or not takes_places():
        return (entry,)
    if entry.startswith("@"):
        return ()
    pipeline, slash, name = entry.rpartition("/")
    name = name.partition(":")[0]
    return (pipeline, name) if slash else (name,)


def takes_places() -> bool:
    """Reports whether the installed XLA can select one of several runs of a pass."""
    described = xla.descriptions()
    return not isinstance(described, Unavailable) and _PLACES in described.get(PASS_FLAGS[0], "")


def _is_in(name: str, known: frozenset[str]) -> bool:
    return name in known or (_NUMBER.sub("", name) in {_NUMBER.sub("", k) for k in known} and name != "")


def _warning(flag: str, entry: str, name: str, platform: str) -> str:
    source = _SOURCES[platform]
    known = {
        known for names in (source.passes_run(), source.pass_names()) if isinstance(names, frozenset) for known in names
    }
    near = difflib.get_close_matches(name, sorted(known), n=_SUGGESTIONS, cutoff=0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else "xla_dump_hlo_pass_re='.*' shows the passes that run."
    stripped = name.strip()
    if stripped != name and is_known(stripped, platform):
        hint = f"Write {stripped!r} without white space."
    holder = f"libtpu {libtpu.libtpu_version()}" if platform == "tpu" else f"jaxlib {metadata.version('jaxlib')}"
    named = repr(name) if name == entry else f"{name!r} in {entry!r}"
    return f"{flag} has {named}, which is not the name of a known pass of {holder}; XLA silently ignores unknown names. {hint}"
