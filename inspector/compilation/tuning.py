"""What a lowering puts in place of what a program says: of its call, and of its Pallas kernels. Frozen values."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping, Sequence
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
      rematerialise: name scopes whose values are computed again for the backward pass, as `jax.checkpoint` does.
    """

    donate: tuple[str, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()
    batch: tuple[tuple[str, int], ...] = ()
    rematerialise: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        donate: str | Sequence[str] = (),
        dtype: Mapping[str, Any] | None = None,
        batch: Mapping[str, int] | None = None,
        rematerialise: str | Sequence[str] = (),
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
        return cls(_names("donate", donate), named, sizes, _names("rematerialise", rematerialise))

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
            tuple(dict.fromkeys((*self.rematerialise, *other.rematerialise))),
        )

    def __str__(self) -> str:
        said = [f"donated {', '.join(self.donate)}"] if self.donate else []
        said += [f"{path} as {dtype}" for path, dtype in self.dtypes]
        said += [f"{path} of {size}" for path, size in self.batch]
        said += [f"{', '.join(self.rematerialise)} rematerialised"] if self.rematerialise else []
        return ", ".join(said)


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
