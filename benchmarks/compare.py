"""What became 1.3 times worse from one recorded commit to another, by JAX version.

    python -m benchmarks.compare [COMMIT [COMMIT]]

Commits as in `benchmarks/ratios.csv`, which `python -m benchmarks.record` writes, or as git knows them. Without the second
it is the one recorded last, without both the last two. Told are also what became better by as much, and what
was measured of the older one and not of the newer. Of several runs of a commit the median counts. Loads stand beside
the figures: what was measured on a busy machine is to be measured again before it is believed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import ratios
from benchmarks.ratios import Line

WORSE = 1.3

Values = Mapping[ratios.Key, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what changed; its exit status is that of a question answered, whatever the answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="the older one, and the newer one")
    parser.add_argument("--file", type=Path, default=ratios.PATH)
    options = parser.parse_args(arguments)
    try:
        lines = ratios.read(options.file)
        older, newer = chosen(options.commits, ratios.commits(lines))
    except ValueError as e:
        sys.exit(str(e))
    print("\n".join(compared(lines, older, newer)))


def chosen(asked: Sequence[str], recorded: Sequence[str]) -> tuple[str, str]:
    """The two commits to compare, as they are recorded.

    Raises:
      ValueError: there are no two, or one that was asked for was not recorded.
    """
    found = [_recorded(commit, recorded) for commit in asked]
    pair = (*recorded[-2:],) if not found else (*found, *recorded[-1:][: 2 - len(found)])
    if len(set(pair)) != 2:
        raise ValueError(f"Expected two commits, got {_list(pair)}; recorded are {_list(recorded)}.")
    return pair[0], pair[1]


def _recorded(commit: str, recorded: Sequence[str]) -> str:
    """By what it begins with, or by a name that git knows.

    Raises:
      ValueError: none or several of those recorded.
    """
    found = [each for each in recorded if each == commit] or [each for each in recorded if each.startswith(commit)]
    if not found:
        found = [each for each in recorded if _known(commit).startswith(each)]
    if len(found) != 1:
        raise ValueError(f"{commit} is {_list(found)} of those recorded: {_list(recorded)}.")
    return found[0]


def _known(name: str) -> str:
    """The whole hash of a branch, a tag or HEAD; nothing where git knows none."""
    command = ["git", "-C", str(ratios.PATH.parent), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


def compared(lines: Sequence[Line], older: str, newer: str) -> Iterator[str]:
    """What is to be told, a line of text each."""
    yield f"{older} -> {newer}"
    for jax in dict.fromkeys(line.jax for line in lines if line.commit in (older, newer)):
        yield f"JAX {jax}: load {_loads(lines, older, jax)} -> {_loads(lines, newer, jax)}"
        before, after = (ratios.medians(lines, commit, jax) for commit in (older, newer))
        yield from _changes(before, after)
        yield from _gaps(before, after, newer)


def _changes(before: Values, after: Values) -> Iterator[str]:
    times = {key: after[key] / before[key] for key in before if key in after}
    worse = sorted((key for key in times if times[key] >= WORSE), key=lambda key: -times[key])
    better = sorted((key for key in times if times[key] <= 1 / WORSE), key=lambda key: times[key])
    yield f"  {len(times)} figures: {len(worse)} became {WORSE:g} times worse, {len(better)} better"
    for word, keys, factor in (("worse", worse, 1), ("better", better, -1)):
        for key in keys:
            yield f"  {times[key] ** factor:.2f} times {word}: {_name(key)}: {before[key]:.4g} -> {after[key]:.4g}"


def _gaps(before: Values, after: Values, newer: str) -> Iterator[str]:
    """What the newer one lacks: whole benchmarks, or figures of those that it has."""
    there = {key[0] for key in after}
    for benchmark in dict.fromkeys(key[0] for key in before):
        gone = [key for key in before if key[0] == benchmark and key not in after]
        if benchmark not in there:
            yield f"  not measured at {newer}: {benchmark}, {len(gone)} figures"
        else:
            yield from (f"  not measured at {newer}: {_name(key)}" for key in gone)


def _name(key: ratios.Key) -> str:
    benchmark, workload, figure, over = key
    return f"{benchmark}, {workload}: {figure} over {over}"


def _loads(lines: Sequence[Line], commit: str, jax: str) -> str:
    """The least and the greatest of a commit's runs."""
    found = [line.load for line in lines if (line.commit, line.jax) == (commit, jax)]
    return f"{min(found):g} to {max(found):g}" if found else "(not measured)"


def _list(commits: Sequence[str]) -> str:
    return ", ".join(commits) or "none"


if __name__ == "__main__":
    main()
