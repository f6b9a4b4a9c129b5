"""Options that leave out a pass of a compile, or all that come after it.

XLA takes names of passes (`xla_disable_hlo_passes`), and newer ones which of several runs is meant. None has a flag that
stops: what comes after is left out by its names, but for passes without which the back end cannot take the program, or
runs it wrongly.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.compilation.options.options import Options
from inspector.compilation.options.pass_names import takes_places
from inspector.compilation.records.dump_names import NOT_PASSES
from inspector.compilation.records.passes import Pass, Passes
from inspector.errors import Unavailable

FLAG = "xla_disable_hlo_passes"

# Passes with one of these words in their names make a program what the back end can take, or keep it right.
_NEEDED_WORDS = (
    *("layout", "copy", "copies", "normaliz", "expander", "decompos", "legaliz", "canonicaliz", "partition", "shard"),
    *(
        "schedul",
        "assignment",
        "wrapper",
        "upcast",
        "inliner",
        "flatten",
        "padder",
        "scatter",
        "gather",
        "float",
        "type",
    ),
    *("async", "offload", "custom", "host", "spmd", "barrier", "verif", "dce", "config"),
)

_NO_PASS = Unavailable(
    "this is a change between two pipelines or after all passes, or a step within a pass, which XLA does not know by name",
    "choose the pass or the pipeline that it belongs to",
)


def without(passes: Passes, index: int, options: Options | None = None) -> Options | Unavailable:
    """Options that leave out one pass: this run of it where the installed XLA tells runs apart, else all of its runs.

    Args:
      passes: of a compile.
      index: of the pass.
      options: what the compile had; these are given back with the pass left out besides.
    """
    chosen = passes[index]
    if not _is_a_pass(chosen, passes):
        return _NO_PASS
    runs = [p.index for p in passes if p.name == chosen.name]
    entry = f"{chosen.name}:{runs.index(index)}" if takes_places() and len(runs) > 1 else chosen.name
    return _disabled(options, [entry])


def until(passes: Passes, index: int, options: Options | None = None) -> Options | Unavailable:
    """Options that leave out the passes after one, but for those that the back end needs, and those that ran before too.

    Args:
      passes: of a compile.
      index: of the last pass that may change something by choice.
      options: what the compile had; these are given back with the passes left out besides.
    """
    left_out, _ = later_passes(passes, index)
    if not left_out:
        return Unavailable("no pass after it changed anything that the back end can do without")
    return _disabled(options, left_out)


def later_passes(passes: Passes, index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What changed the module after a pass: what `until` leaves out, as XLA takes it, and the names of what still runs."""
    pipelines = {p.pipeline for p in passes}
    later = dict.fromkeys(
        p.name for p in passes.entries[index + 1 :] if p.changed and p.name not in pipelines and _is_a_pass(p, passes)
    )
    left_out: list[str] = []
    kept: list[str] = []
    for name in later:
        runs = [p.index for p in passes if p.name == name]
        ran = sum(at <= index for at in runs)
        if _is_needed(name) or (ran and not takes_places()):
            kept.append(name)
        else:
            left_out += [f"{name}:{run}" for run in range(ran, len(runs))] if ran else [name]
    return tuple(left_out), tuple(kept)


def _is_a_pass(chosen: Pass, passes: Passes) -> bool:
    is_timed = any(not isinstance(p.duration_s, Unavailable) for p in passes)
    return (
        chosen.name not in NOT_PASSES
        and not chosen.is_part
        and not (is_timed and isinstance(chosen.duration_s, Unavailable))
        and "," not in chosen.name
    )


def _is_needed(name: str) -> bool:
    return any(word in name.lower() for word in _NEEDED_WORDS)


def _disabled(options: Options | None, names: Iterable[str]) -> Options:
    given = options or Options()
    already = [name for name in str(given.flags.get(FLAG, "")).split(",") if name]
    return given.merge(Options(flags={FLAG: ",".join(dict.fromkeys([*already, *names]))}))
