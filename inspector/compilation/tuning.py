"""Changes that a lowering applies to a program: to its call, and to its Pallas kernels. Frozen values."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from inspector.errors import OptionError, ParameterError, check_bool
from inspector.hlo.pallas import Params, by_kernel
from inspector.support.notebook import short

T = TypeVar("T")

CHECKPOINTS: Mapping[str, str] = {
    "none": "without checkpoints",
    "loops": "checkpoints around the bodies of loops",
    **{
        policy: f"checkpoints with {policy}"
        for policy in (
            "dots_saveable", "dots_with_no_batch_dims_saveable", "everything_saveable", "nothing_saveable",
        )
    },
}  # fmt: skip
"""Changes of all checkpoints with their names on screen: none, one around the body of each `jax.lax.scan`, or a policy of JAX for each."""


@dataclasses.dataclass(frozen=True, slots=True)
class WhatIf:
    """Hypothetical changes of a call.

    Arguments are named by their paths, such as `params['w']`; `params` includes all paths below it.

    Attributes:
      donate: arguments whose buffers the program may reuse.
      dtypes: pairs of an argument and a dtype; if the name covers several arrays, it applies to floating-point ones.
      batch: pairs of an argument and the length of its first axis.
      rematerialize: name scopes whose values are computed again for the backward pass, as with `jax.checkpoint`.
      checkpoint: a change of all `jax.checkpoint`: one of `CHECKPOINTS`; "" for none.
    """

    donate: tuple[str, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()
    batch: tuple[tuple[str, int], ...] = ()
    rematerialize: tuple[str, ...] = ()
    checkpoint: str = ""

    @classmethod
    def of(
        cls,
        *,
        donate: str | Sequence[str] = (),
        dtype: Mapping[str, Any] | None = None,
        batch: Mapping[str, int] | None = None,
        rematerialize: str | Sequence[str] = (),
        checkpoint: str = "",
    ) -> WhatIf:
        """Creates changes from the forms that users write.

        Raises:
          ParameterError: invalid names or lengths.
        """
        if checkpoint and checkpoint not in CHECKPOINTS:
            raise ParameterError(f"checkpoint is {short(checkpoint)}. Expected one of {', '.join(CHECKPOINTS)}.")
        sizes, dtypes = _pairs("batch", batch), _pairs("dtype", dtype)
        for path, size in sizes:
            if isinstance(size, bool) or not hasattr(type(size), "__index__") or size < 1:
                raise ParameterError(f"batch has the length {short(size)} for {path}. Expected 1 or more.")
        sizes = tuple((path, operator.index(size)) for path, size in sizes)
        named = tuple((path, str(getattr(value, "__name__", value))) for path, value in dtypes)
        return cls(_names("donate", donate), named, sizes, _names("rematerialize", rematerialize), checkpoint)

    def __bool__(self) -> bool:
        return self != AS_CALLED

    @property
    def changes_arguments(self) -> bool:
        """True if the program takes other arrays than the call."""
        return bool(self.dtypes or self.batch)

    def merge(self, other: WhatIf) -> WhatIf:
        """Returns both changes; where they conflict, `other` wins."""
        return WhatIf(
            tuple(dict.fromkeys((*self.donate, *other.donate))),
            _on_top(self.dtypes, other.dtypes),
            _on_top(self.batch, other.batch),
            tuple(dict.fromkeys((*self.rematerialize, *other.rematerialize))),
            other.checkpoint or self.checkpoint,
        )

    def __str__(self) -> str:
        parts = [f"donated {', '.join(self.donate)}"] if self.donate else []
        parts += [f"{path} as {dtype}" for path, dtype in self.dtypes]
        by_size: dict[int, list[str]] = {}
        for path, size in self.batch:
            by_size.setdefault(size, []).append(path)
        parts += [f"{listed(paths)} of {size}" for size, paths in by_size.items()]
        parts += [f"{', '.join(self.rematerialize)} rematerialized"] if self.rematerialize else []
        parts += [CHECKPOINTS[self.checkpoint]] if self.checkpoint else []
        return ", ".join(parts)


def listed(paths: Sequence[str]) -> str:
    """Lists the first names, and the number of the others."""
    return ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


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


def batch_by_path(batch: Any, arrays: Iterable[tuple[str, Sequence[int]]]) -> Any:
    """Returns lengths by argument. A key may also be a leading dimension, for all arrays that have it.

    Args:
      batch: lengths by path or leading dimension, as users write them; anything but a mapping is returned unchanged.
      arrays: paths and shapes of the call's arrays.

    Raises:
      ParameterError: no array has a leading dimension.
    """
    if not isinstance(batch, Mapping):
        return batch
    dimensions = {key for key in batch if hasattr(type(key), "__index__") and not isinstance(key, bool)}
    if not dimensions:
        return batch
    known = leading_dimensions(arrays)
    lengths: dict[Any, Any] = {}
    for dimension in dimensions:
        if operator.index(dimension) not in known:
            dimension_list = "; ".join(f"{size} of {listed(paths)}" for size, paths in known.items()) or "none"
            raise ParameterError(
                f"batch names the leading dimension {dimension}, which no array has. Leading dimensions: {dimension_list}."
            )
        lengths |= dict.fromkeys(known[operator.index(dimension)], batch[dimension])
    return lengths | {key: length for key, length in batch.items() if key not in dimensions}


AS_CALLED = WhatIf()
"""No changes to the call."""


def covers(name: str, path: str) -> bool:
    """Reports whether an argument's path is the name, or below it."""
    return path.startswith(name) and path[len(name) : len(name) + 1] in ("", "[", ".")


@dataclasses.dataclass(frozen=True, slots=True)
class Tuning:
    """Changes to a program.

    Attributes:
      params: compiler parameters of Pallas kernels.
      interpret: True if JAX's interpreter runs the kernels.
      chip: chip that the kernels are lowered for, such as "v5e"; "" for the default.
      what_if: changes to the call.
    """

    params: Params = ()
    interpret: bool = False
    chip: str = ""
    what_if: WhatIf = AS_CALLED

    def __post_init__(self) -> None:
        check_bool("interpret", self.interpret, OptionError)

    @classmethod
    def of(
        cls, params: Mapping[str | int, Mapping[str, Any]] | None, *, interpret: bool = False, chip: str = ""
    ) -> Tuning:
        """Creates a tuning from a mapping of mappings.

        Raises:
          OptionError: not a mapping of mappings.
        """
        pairs = ((k, tuple((f, _hashable(v)) for f, v in fields.items())) for k, fields in by_kernel(params).items())
        return cls(tuple(pairs), interpret, chip)

    def as_dict(self) -> dict[str | int, dict[str, Any]]:
        """Returns the parameters in the form that `lower` takes."""
        return {kernel: dict(fields) for kernel, fields in self.params}

    def with_params(self, params: Mapping[str | int, Mapping[str, Any]]) -> Tuning:
        """Adds parameters, which take precedence over the present ones.

        Raises:
          OptionError: not fields by kernel.
        """
        merged = self.as_dict()
        for kernel, fields in by_kernel(params).items():
            merged[kernel] = {**merged.get(kernel, {}), **fields}
        return dataclasses.replace(self, params=Tuning.of(merged).params)

    def without_kernels(self) -> Tuning:
        """Returns the part that applies to a program without Pallas kernels."""
        return Tuning(what_if=self.what_if)

    def __str__(self) -> str:
        parts = [f"{field}={value}" for _, fields in self.params for field, value in fields]
        parts += ["interpreted"] if self.interpret else []
        return " ".join([*parts, *filter(None, [str(self.what_if)])])


AS_IT_IS = Tuning()
"""No changes to the program."""


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _on_top(pairs: tuple[tuple[str, T], ...], others: tuple[tuple[str, T], ...]) -> tuple[tuple[str, T], ...]:
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
