"""Searches for the parts of a change that make the difference, with few trials.

A trial is "bad" if it shows the difference. The searches assume nothing about trials that they did not make: every set that they
return was tried and was bad, and was good without its last element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shortest_prefix(count: int, is_bad: Callable[[int], bool]) -> int:
    """Returns a length at which prefixes turn bad: the prefix is bad, the one shorter by 1 is good.

    Args:
      count: length of the whole sequence, at least 1, which is known to be bad. The empty prefix is known to be good.
      is_bad: tries a prefix of a length between these. Called at most log2(count) times, rounded up.
    """
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_bad(middle):
            bad = middle
        else:
            good = middle
    return bad


def minimal_subset(items: Sequence[T], is_bad: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Returns a small subset that is bad, in the order of the items.

    Finds one element after the other, each by bisection (Zeller's delta debugging in the form of QuickXplain): the last element
    of the shortest bad prefix is necessary, given those before it. For k necessary elements of n it makes at most
    k * (log2(n) + 1) trials.

    Args:
      items: the items, at least one. All together are known to be bad, and none of them to be good.
      is_bad: tries a subset.
    """
    necessary: tuple[T, ...] = ()
    left = tuple(items)
    while left and not (necessary and is_bad(necessary)):
        found = necessary
        length = shortest_prefix(len(left), lambda count, found=found, left=left: is_bad((*found, *left[:count])))  # type: ignore[misc]
        necessary = (*necessary, left[length - 1])
        left = left[: length - 1]
    chosen = {id(each) for each in necessary}
    return tuple(each for each in items if id(each) in chosen)


class Memory:
    """The outcomes of the trials so far, by the set of elements that were tried."""

    def __init__(self) -> None:
        self._known: dict[frozenset[object], bool] = {}

    def outcome(self, items: Iterable[object], trial: Callable[[], bool]) -> bool:
        """Returns the outcome of a set, by a trial if it was not tried before."""
        key = frozenset(items)
        if key not in self._known:
            self._known[key] = trial()
        return self._known[key]

    @property
    def is_monotone(self) -> bool:
        """Reports whether no good set contains a bad one."""
        bad = [key for key, is_bad in self._known.items() if is_bad]
        return not any(each < key for key, is_bad in self._known.items() if not is_bad for each in bad)
