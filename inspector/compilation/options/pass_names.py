"""Checks the names of compiler passes in flags: XLA ignores a name that no pass has, silently.

An unknown name is a warning and not an error. The names that inspector knows are read from jaxlib's
library (libtpu's, for a TPU) and seen in compiles; a pass may put its name together in a way that neither finds.
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
"""Flags that take names of passes, with commas between."""

# They take more than names where XLA's own words of the first one have such an example: "algsimp:2", the third time
# that the pass runs; "simplification/algsimp", where a pipeline runs it; "@42", by number.
_PLACES = "'@"
_WITH_PLACES = PASS_FLAGS[:2]

# Passes that run several times under one name with a number, such as apply-xla-transforms-3.
_NUMBER = re.compile(r"-\d+$")
_SUGGESTIONS = 3


class _Source(Protocol):
    def pass_names(self) -> frozenset[str] | Unavailable: ...
    def passes_run(self) -> frozenset[str] | Unavailable: ...


_SOURCES: Mapping[str, _Source] = {"cpu": xla, "tpu": libtpu}


def pass_warnings(options: Options, platform: str = "cpu") -> tuple[str, ...]:
    """One warning for each name in `PASS_FLAGS` that no pass of a platform's pipelines is known to have.

    Without a flag of these it costs nothing. With a name that is not a constant in the library it
    compiles a program in a process of its own to see which passes run, once for each jaxlib or libtpu.
    Of platforms other than "cpu" and "tpu" nothing is known, and nothing said.
    """
    given = {flag: str(options.flags[flag]) for flag in PASS_FLAGS if options.flags.get(flag)}
    return tuple(
        _warning(flag, entry, name, platform)
        for flag, entries in given.items()
        for entry in entries.split(",")
        for name in _names(flag, entry)
        if not is_known(name, platform)
    )


def is_known(name: str, platform: str = "cpu") -> bool:
    """Whether a pass of that name is known, or nothing is known about passes here."""
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
    """The names of passes and pipelines in an entry of a flag."""
    if flag not in _WITH_PLACES or not takes_places():
        return (entry,)
    if entry.startswith("@"):
        return ()
    pipeline, slash, name = entry.rpartition("/")
    name = name.partition(":")[0]
    return (pipeline, name) if slash else (name,)


def takes_places() -> bool:
    """Whether the installed XLA tells several runs of a pass apart."""
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
    return f"{flag} names {named}, which no pass of {holder} is known to be called; XLA ignores such names silently. {hint}"
