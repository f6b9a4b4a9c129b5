"""`WhatIf`: hypothetical changes of a call. Frozen values."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from inspector.errors import ParameterError
from inspector.support.notebook import short

T = TypeVar("T")
Key = TypeVar("Key", bound="str | tuple[str, int]")

CHECKPOINTS: Mapping[str, str] = {
    "none": "without checkpoints",
    "loops": "checkpoints around the bodies of loops",
    "segments": "checkpoints around segments of long loops",
    **{
        policy: f"checkpoints with {policy}"
        for policy in (
            "dots_saveable", "dots_with_no_batch_dims_saveable", "everything_saveable", "nothing_saveable",
        )
    },
}  # fmt: skip
"""Changes of all checkpoints with their names on screen: none, one around the body or around segments of each `jax.lax.scan`, or a policy of JAX for each."""


@dataclasses.dataclass(frozen=True, slots=True)
class WhatIf:
    """Hypothetical changes of a call.

    Arguments are named by their paths, such as `params['w']`; `params` includes all paths below it.

    Attributes:
      donate: arguments whose buffers the program may reuse.
      dtypes: pairs of an argument and a dtype; if the name covers several arrays, it applies to floating-point ones.
      batch: pairs of an argument and the length of its first dimension.
      rematerialize: name scopes whose values are computed again for the backward pass, as with `jax.checkpoint`.
      checkpoint: a change of all `jax.checkpoint`: one of `CHECKPOINTS`; "" for none.
      lengths: triples of an array, the number of a dimension, from 1, and its length.
    """

    donate: tuple[str, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()
    batch: tuple[tuple[str, int], ...] = ()
    rematerialize: tuple[str, ...] = ()
    checkpoint: str = ""
    lengths: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def of(
        cls,
        *,
        donate: str | Sequence[str] = (),
        dtype: Mapping[str, Any] | None = None,
        batch: Mapping[str | int, int] | None = None,
        rematerialize: str | Sequence[str] = (),
        checkpoint: str = "",
        shape: Mapping[str | int, Any] | None = None,
        arrays: Iterable[tuple[str, Sequence[int]]] = (),
    ) -> WhatIf:
        """Creates changes from the forms that users write.

        Args:
          donate: arguments whose buffers the program may reuse.
          dtype: dtypes by argument.
          batch: lengths of the first dimension by argument, or by the current length for all arrays that have it.
          shape: lengths of the dimensions by argument, None to keep one; or the new length by the current one, for all dimensions of all
            arrays that have it.
          rematerialize: name scopes.
          checkpoint: one of `CHECKPOINTS`; "" for none.
          arrays: the paths and shapes of the call's arrays.

        Raises:
          ParameterError: invalid names or lengths.
        """
        if checkpoint and checkpoint not in CHECKPOINTS:
            raise ParameterError(f"checkpoint is {short(checkpoint)}. Expected one of {', '.join(CHECKPOINTS)}.")
        known = tuple(arrays)
        sizes, dtypes = _pairs("batch", _batch_by_path(batch, known)), _pairs("dtype", dtype)
        sizes = tuple((path, _length("batch", size, path)) for path, size in sizes)
        named = tuple((path, str(getattr(value, "__name__", value))) for path, value in dtypes)
        lengths = _lengths(shape, known)
        current = dict(known)
        batched = {path for path, _ in sizes}
        changed = [each for each in lengths if current[each[0]][each[1]] != each[2] or each[0] in batched]
        sizes = _on_top(sizes, tuple((path, length) for path, dimension, length in changed if not dimension))
        lengths = tuple(each for each in changed if each[1])
        return cls(_names("donate", donate), named, sizes, _names("rematerialize", rematerialize), checkpoint, lengths)

    def __bool__(self) -> bool:
        return self != AS_CALLED

    @property
    def changes_arguments(self) -> bool:
        """True if the program takes other arrays than the call."""
        return bool(self.dtypes or self.batch or self.lengths)

    def merge(self, other: WhatIf) -> WhatIf:
        """Returns both changes; where they conflict, `other` wins."""
        return WhatIf(
            tuple(dict.fromkeys((*self.donate, *other.donate))),
            _on_top(self.dtypes, other.dtypes),
            _on_top(self.batch, other.batch),
            tuple(dict.fromkeys((*self.rematerialize, *other.rematerialize))),
            other.checkpoint or self.checkpoint,
            _in_dimensions(_on_top(_by_dimension(self.lengths), _by_dimension(other.lengths))),
        )

    def __str__(self) -> str:
        parts = [f"donated {', '.join(self.donate)}"] if self.donate else []
        parts += [f"{path} as {dtype}" for path, dtype in self.dtypes]
        by_size: dict[int, list[str]] = {}
        for path, size in self.batch:
            by_size.setdefault(size, []).append(path)
        parts += [f"{listed(paths)} of {size}" for size, paths in by_size.items()]
        by_dimension: dict[tuple[int, int], list[str]] = {}
        for path, dimension, length in self.lengths:
            by_dimension.setdefault((dimension, length), []).append(path)
        parts += [f"{listed(paths)} with dimension {d} of {length}" for (d, length), paths in by_dimension.items()]
        parts += [f"{', '.join(self.rematerialize)} rematerialized"] if self.rematerialize else []
        parts += [CHECKPOINTS[self.checkpoint]] if self.checkpoint else []
        return ", ".join(parts)


def listed(paths: Sequence[str]) -> str:
    """Lists the first names, and the number of the others."""
    return (", ".join(paths[:_NAMED]) or "none") + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


_NAMED = 4


def leading_dimensions(arrays: Iterable[tuple[str, Sequence[int]]]) -> dict[int, list[str]]:
    """Groups the paths of arrays by their leading dimension, in order. Omits arrays without one.

    Args:
      arrays: paths and shapes.
    """
    by_dimension: dict[int, list[str]] = {}
    for path, shape in arrays:
        if shape:
            by_dimension.setdefault(shape[0], []).append(path)
    return by_dimension


def equal_lengths(arrays: Iterable[tuple[str, Sequence[int]]]) -> dict[int, list[tuple[str, int]]]:
    """Groups the dimensions of arrays by their length, in order, each as the path of its array and its number.

    Args:
      arrays: paths and shapes.
    """
    by_length: dict[int, list[tuple[str, int]]] = {}
    for path, shape in arrays:
        for dimension, length in enumerate(shape):
            by_length.setdefault(length, []).append((path, dimension))
    return by_length


def fit_shape(array: Any, shape: Sequence[int]) -> Any:
    """Cuts an array to the lengths of a shape, or repeats it from the start. One with other dimensions, or without elements, is returned as it is."""
    if len(array.shape) != len(shape) or 0 in array.shape:
        return array
    for dimension, (length, wanted) in enumerate(zip(array.shape, shape, strict=True)):
        if length != wanted:
            array = array[(*(slice(None),) * dimension, np.arange(wanted) % length)]
    return array


def _batch_by_path(batch: Any, arrays: Iterable[tuple[str, Sequence[int]]]) -> Any:
    """Returns lengths by argument. A key may also be a leading dimension, for all arrays that have it.

    Raises:
      ParameterError: no array has a leading dimension.
    """
    if not isinstance(batch, Mapping):
        return batch
    current = [key for key in batch if _is_number(key)]
    known = leading_dimensions(arrays) if current else {}
    lengths: dict[Any, Any] = {}
    for dimension in current:
        if operator.index(dimension) not in known:
            dimension_list = "; ".join(f"{size} of {listed(paths)}" for size, paths in known.items()) or "none"
            raise ParameterError(
                f"batch names the leading dimension {dimension}, which no array has. Leading dimensions: {dimension_list}."
            )
        lengths |= dict.fromkeys(known[operator.index(dimension)], batch[dimension])
    return lengths | {key: length for key, length in batch.items() if not _is_number(key)}


def _lengths(shape: Any, arrays: Sequence[tuple[str, Sequence[int]]]) -> tuple[tuple[str, int, int], ...]:
    """Returns the array, the number and the new length of each dimension that `shape` names. Lengths by argument take precedence.

    Raises:
      ParameterError: not lengths by argument or by current length, an unknown argument or length, or another number of dimensions.
    """
    if shape is not None and (
        not isinstance(shape, Mapping) or not all(isinstance(key, str) or _is_number(key) for key in shape)
    ):
        raise ParameterError(
            f"shape is {short(shape)}. Expected shapes by argument, such as {{'x': (None, 128)}}, or lengths by the current ones, such as"
            " {50257: 50304}."
        )
    changes = shape or {}
    known = equal_lengths(arrays)
    found: dict[tuple[str, int], int] = {}
    for current in filter(_is_number, changes):
        if operator.index(current) not in known:
            lengths = ", ".join(map(str, known)) or "none"
            raise ParameterError(f"shape names the length {current}, which no dimension has. Lengths: {lengths}.")
        length = _length("shape", changes[current], f"dimensions of {current}")
        found |= dict.fromkeys(known[operator.index(current)], length)
    for name, wanted in changes.items():
        if _is_number(name):
            continue
        paths = [(path, each) for path, each in arrays if covers(name, path)]
        if not paths:
            raise ParameterError(
                f"shape names the unknown array {short(name)}. Arrays: {listed([path for path, _ in arrays])}."
            )
        wanted = wanted.tolist() if isinstance(wanted, np.ndarray) else wanted
        for path, each in paths:
            if not isinstance(wanted, Sequence) or isinstance(wanted, str) or len(wanted) != len(each):
                raise ParameterError(
                    f"shape has {short(wanted)} for {path}, which is {tuple(each)}. Expected {len(each)} lengths, None to keep one."
                )
            pairs = ((d, _length("shape", new, path)) for d, new in enumerate(wanted) if new is not None)
            found |= {(path, dimension): length for dimension, length in pairs}
    return _in_dimensions(tuple(found.items()))


def _is_number(key: Any) -> bool:
    try:
        return not isinstance(key, bool) and operator.index(key) is not None
    except (TypeError, ValueError):
        return False


def _length(parameter: str, length: Any, where: str) -> int:
    if not _is_number(length) or length < 1:
        raise ParameterError(f"{parameter} has the length {short(length)} for {where}. Expected 1 or more.")
    return operator.index(length)


def _by_dimension(lengths: tuple[tuple[str, int, int], ...]) -> tuple[tuple[tuple[str, int], int], ...]:
    return tuple(((path, dimension), length) for path, dimension, length in lengths)


def _in_dimensions(pairs: tuple[tuple[tuple[str, int], int], ...]) -> tuple[tuple[str, int, int], ...]:
    return tuple((path, dimension, length) for (path, dimension), length in pairs)


AS_CALLED = WhatIf()
"""No changes to the call."""


def covers(name: str, path: str) -> bool:
    """Reports whether an argument's path is the name, or below it."""
    return path.startswith(name) and path[len(name) : len(name) + 1] in ("", "[", ".")


def _on_top(pairs: tuple[tuple[Key, T], ...], others: tuple[tuple[Key, T], ...]) -> tuple[tuple[Key, T], ...]:
    """Merges pairs. Later ones take precedence, also over those of paths below their name."""
    named = dict(others)
    return (*(pair for pair in pairs if pair[0] not in named), *others)


def _names(parameter: str, value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else value
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
        raise ParameterError(f"{parameter} is {short(value)}. Expected a name or a list of names, such as ['params'].")
    return tuple(dict.fromkeys(names))


def _pairs(parameter: str, value: Any) -> tuple[tuple[str, Any], ...]:
    if value is not None and (not isinstance(value, Mapping) or not all(isinstance(path, str) for path in value)):
        raise ParameterError(f"{parameter} is {short(value)}. Expected a mapping by argument, such as {{'x': ...}}.")
    return tuple((value or {}).items())
