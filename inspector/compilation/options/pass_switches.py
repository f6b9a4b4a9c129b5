"""Options that disable a pass of a compile, or all passes after it.

XLA accepts names of passes to disable (`xla_disable_hlo_passes`), and newer versions also accept one of several runs. It
has no flag to stop after a pass, so this module disables the later passes by name, except those without which the backend
rejects the program or runs it incorrectly.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.compilation.options.options import Options
from inspector.compilation.options.pass_names import takes_places
from inspector.compilation.records.dump_names import NOT_PASSES
from inspector.compilation.records.passes import Pass, Passes
from inspector.errors import Unavailable

FLAG = "xla_disable_hlo_passes"

# Passes with one of these words in their names are needed for a program that the backend accepts and runs correctly.
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
    "this is a change between two pipelines or after all passes, or a step within a pass, which has no name in XLA",
    "choose the pass or the pipeline that it belongs to",
)


def without(passes: Passes, index: int, options: Options | None = None) -> Options | Unavailable:
    """Returns options that disable a pass: only this run if the installed XLA can select one, otherwise all of its runs.

    Args:
      passes: passes of a compile.
      index: index of the pass.
      options: options of the compile, to which the result adds.
    """
    chosen = passes[index]
    if not _is_a_pass(chosen, passes):
        return _NO_PASS
    runs = [p.index for p in passes if p.name == chosen.name]
    entry = f"{chosen.name}:{runs.index(index)}" if takes_places() and len(runs) > 1 else chosen.name
    return _disabled(options, [entry])


def until(passes: Passes, index: int, options: Options | None = None) -> Options | Unavailable:
    """Returns options that disable the passes after one, except passes that the backend needs or that also ran before.

    Args:
      passes: passes of a compile.
      index: index of the last pass to run, apart from needed passes.
      options: options of the compile, to which the result adds.
    """
    left_out, _ = later_passes(passes, index)
    if not left_out:
        return Unavailable("after it, only passes that the backend needs changed the module")
    return _disabled(options, left_out)


def later_passes(passes: Passes, index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the passes that changed the module after a pass: entries that `until` disables, and names that still run."""
    pipelines = {p.pipeline for p in passes}
    later = dict.fromkeys(
        p.name for p in passes.entries[index + 1 :] if p.changed and p.name not in pipelines and _is_a_pass(p, passes)
    )
    left_out: list[str] = []
    names: list[str] = []
    for name in later:
        runs = [p.index for p in passes if p.name == name]
        ran = sum(at <= index for at in runs)
        if _is_needed(name) or (ran and not takes_places()):
            names.append(name)
        else:
            left_out += [f"{name}:{run}" for run in range(ran, len(runs))] if ran else [name]
    return tuple(left_out), tuple(names)


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
    base = options or Options()
    already = [name for name in str(base.flags.get(FLAG, "")).split(",") if name]
    return base.merge(Options(flags={FLAG: ",".join(dict.fromkeys([*already, *names]))}))
