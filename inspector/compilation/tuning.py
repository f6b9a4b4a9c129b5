"""What a lowering puts in place of what a program says: of its call, and of its Pallas kernels. Frozen values."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from inspector.errors import OptionError, ParameterError, check_bool
from inspector.hlo.pallas import Params, by_kernel

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class WhatIf:
    """What a call is supposed to be in place of what it is.

    Arguments are named by their paths, such as `params['w']`; `params` means all below it.

    Attributes:
      donate: arguments whose buffers the program may reuse.
      dtypes: pairs of an argument and a dtype; of several arrays those that are floating-point numbers get it.
      batch: pairs of an argument and the length of its first axis.
      rematerialize: name scopes whose values are computed again for the backward pass, as `jax.checkpoint` does.
    """

    donate: tuple[str, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()
    batch: tuple[tuple[str, int], ...] = ()
    rematerialize: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        donate: str | Sequence[str] = (),
        dtype: Mapping[str, Any] | None = None,
        batch: Mapping[str, int] | None = None,
        rematerialize: str | Sequence[str] = (),
    ) -> WhatIf:
        """From what users write.

        Raises:
          ParameterError: not names, or no lengths.
        """
        sizes, dtypes = _pairs("batch", batch), _pairs("dtype", dtype)
        for path, size in sizes:
            if isinstance(size, bool) or not hasattr(type(size), "__index__") or size < 1:
                raise ParameterError(f"batch gives {path} the length {size!r}. Expected 1 or more.")
        sizes = tuple((path, operator.index(size)) for path, size in sizes)
        named = tuple((path, str(getattr(given, "__name__", given))) for path, given in dtypes)
        return cls(_names("donate", donate), named, sizes, _names("rematerialize", rematerialize))

    def __bool__(self) -> bool:
        return self != AS_CALLED

    @property
    def changes_arguments(self) -> bool:
        """Whether the program takes other arrays than the call's."""
        return bool(self.dtypes or self.batch)

    def merge(self, other: WhatIf) -> WhatIf:
        """Both, the other's on top."""
        return WhatIf(
            tuple(dict.fromkeys((*self.donate, *other.donate))),
            _on_top(self.dtypes, other.dtypes),
            _on_top(self.batch, other.batch),
            tuple(dict.fromkeys((*self.rematerialize, *other.rematerialize))),
        )

    def __str__(self) -> str:
        said = [f"donated {', '.join(self.donate)}"] if self.donate else []
        said += [f"{path} as {dtype}" for path, dtype in self.dtypes]
        by_size: dict[int, list[str]] = {}
        for path, size in self.batch:
            by_size.setdefault(size, []).append(path)
        said += [f"{listed(paths)} of {size}" for size, paths in by_size.items()]
        said += [f"{', '.join(self.rematerialize)} rematerialized"] if self.rematerialize else []
        return ", ".join(said)


def listed(paths: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


_NAMED = 4


def leading_dimensions(arrays: Iterable[tuple[str, Sequence[int]]]) -> dict[int, list[str]]:
    """The paths of arrays by their leading dimension, in order; arrays without one are left out.

    Args:
      arrays: paths and shapes.
    """
    found: dict[int, list[str]] = {}
    for path, shape in arrays:
        if shape:
            found.setdefault(shape[0], []).append(path)
    return found


def batch_by_path(batch: Any, arrays: Iterable[tuple[str, Sequence[int]]]) -> Any:
    """Lengths by argument, where keys may be leading dimensions: of all arrays that have them.

    Args:
      batch: lengths by path or leading dimension, as users write them; anything but a mapping is returned as it is.
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
    found: dict[Any, Any] = {}
    for dimension in dimensions:
        if operator.index(dimension) not in known:
            there = "; ".join(f"{size} of {listed(paths)}" for size, paths in known.items()) or "none"
            raise ParameterError(
                f"batch names the leading dimension {dimension}, which no array has. There are: {there}."
            )
        found |= dict.fromkeys(known[operator.index(dimension)], batch[dimension])
    return found | {key: length for key, length in batch.items() if key not in dimensions}


AS_CALLED = WhatIf()
"""Nothing in place of what the call is."""


def covers(name: str, path: str) -> bool:
    """Whether an argument's path is the name, or below it."""
    return path.startswith(name) and path[len(name) : len(name) + 1] in ("", "[", ".")


@dataclasses.dataclass(frozen=True, slots=True)
class Tuning:
    """What is put in place of what a program says.

    Attributes:
      params: compiler parameters of Pallas kernels.
      interpret: JAX's interpreter runs the kernels.
      chip: what kernels take for their device, such as "v5e"; "" for the usual one.
      what_if: of the call.
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
        """From a mapping of mappings.

        Raises:
          OptionError: it is not that.
        """
        pairs = ((k, tuple((f, _hashable(v)) for f, v in fields.items())) for k, fields in by_kernel(params).items())
        return cls(tuple(pairs), interpret, chip)

    def as_dict(self) -> dict[str | int, dict[str, Any]]:
        """The parameters as `lower` takes them."""
        return {kernel: dict(fields) for kernel, fields in self.params}

    def with_params(self, params: Mapping[str | int, Mapping[str, Any]]) -> Tuning:
        """The same with more of them, the new ones on top.

        Raises:
          OptionError: they are not fields by kernel.
        """
        merged = self.as_dict()
        for kernel, fields in by_kernel(params).items():
            merged[kernel] = {**merged.get(kernel, {}), **fields}
        return dataclasses.replace(self, params=Tuning.of(merged).params)

    def without_kernels(self) -> Tuning:
        """What is left of it for a program that has no Pallas kernels."""
        return Tuning(what_if=self.what_if)

    def __str__(self) -> str:
        said = [f"{field}={value}" for _, fields in self.params for field, value in fields]
        said += ["interpreted"] if self.interpret else []
        return " ".join([*said, *filter(None, [str(self.what_if)])])


AS_IT_IS = Tuning()
"""Nothing in place of what the program says."""


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _on_top(pairs: tuple[tuple[str, T], ...], others: tuple[tuple[str, T], ...]) -> tuple[tuple[str, T], ...]:
    """Later ones hold: those of a name above others too."""
    named = dict(others)
    return (*(pair for pair in pairs if pair[0] not in named), *others)


def _names(parameter: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else given
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
        raise ParameterError(f"{parameter} is {given!r}. Expected a name or a list of names, such as ['params'].")
    return tuple(dict.fromkeys(names))


def _pairs(parameter: str, given: Any) -> tuple[tuple[str, Any], ...]:
    if given is not None and (not isinstance(given, Mapping) or not all(isinstance(path, str) for path in given)):
        raise ParameterError(f"{parameter} is {given!r}. Expected a mapping by argument, such as {{'x': ...}}.")
    return tuple((given or {}).items())
